"""Tables from CSV and Parquet files, on disk or wherever fsspec reaches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from jam_dagster.errors import SourceError
from jam_dagster.tables.configuration import changed_fields
from jam_dagster.tables.reading import expand_variables, reading

MISSING = ("", "?", "NA", "N/A", "NaN", "nan", "null", "NULL")
"""Texts that stand for a missing value unless the source says otherwise."""


@dataclass(frozen=True)
class CsvSource:
    """A CSV file with a header line.

    Columns without a name in the header (row numbers, as pandas writes them) are left out.

    Parameters
    ----------
    path
        A path or an fsspec URL; ``${VARIABLE}`` is expanded when the file is read.
    separator, encoding, decimal
        How the file is written; a byte order mark is ignored.
    skipinitialspace
        Whether blanks after a separator belong to it.
    missing
        Texts that stand for a missing value.
    text
        Columns to keep as texts though they look like numbers, such as postal codes with
        leading zeros.
    """

    path: str
    separator: str = ","
    encoding: str = "utf-8"
    decimal: str = "."
    skipinitialspace: bool = True
    missing: tuple[str, ...] = MISSING
    text: tuple[str, ...] = ()

    def read(self, *, private: bool) -> pd.DataFrame:
        """Read the file (see `Source.read`)."""
        path = expand_variables(self.path)
        options: dict[str, Any] = {
            "sep": self.separator,
            "encoding": self.encoding,
            "skipinitialspace": self.skipinitialspace,
            "keep_default_na": False,
        }
        header = reading(
            self.describe(),
            private,
            lambda: pd.read_csv(path, header=None, nrows=1, dtype="str", **options),
        )
        names = [str(name) for name in header.iloc[0]]
        for name in self.text:
            if name not in names:
                raise SourceError(
                    f"{self.describe()} has no column {name!r}, which `text` lists: remove it there"
                )
        for place, name in enumerate(names, start=1):
            if name and names.count(name) > 1:
                # Where a private file has no header, its first line is a record.
                which = f"column {place}" if private else f"column {name!r}"
                raise SourceError(
                    f"{self.describe()}: {which} has the name of another one: rename it, and check"
                    " that the first line is a header"
                )
        table = reading(
            self.describe(),
            private,
            lambda: pd.read_csv(
                path,
                decimal=self.decimal,
                na_values=list(self.missing),
                dtype=dict.fromkeys(self.text, "str"),
                low_memory=False,
                **options,
            ),
        )
        if len(table.columns) != len(names) or not isinstance(table.index, pd.RangeIndex):
            raise SourceError(
                f"{self.describe()}: lines have more fields than the header: check the separator,"
                " and quote fields that contain it"
            )
        return table.loc[:, [name != "" for name in names]]

    def describe(self) -> str:
        """Return ``CSV file PATH``."""
        return f"CSV file {self.path}"

    def to_dict(self) -> dict[str, Any]:
        """Return the configuration, what differs from the defaults only."""
        return {"csv": self.path} | changed_fields(self, "path")


@dataclass(frozen=True)
class ParquetSource:
    """A Parquet file or folder.

    Parameters
    ----------
    path
        A path or an fsspec URL; ``${VARIABLE}`` is expanded when the file is read.
    """

    path: str

    def read(self, *, private: bool) -> pd.DataFrame:
        """Read the file (see `Source.read`); a named index becomes columns."""
        path = expand_variables(self.path)
        table = reading(self.describe(), private, lambda: pd.read_parquet(path))
        named = any(name is not None for name in table.index.names)
        table = table.reset_index(drop=not named)
        if not table.columns.is_unique:
            raise SourceError(f"{self.describe()} has two columns of the same name: rename one")
        return table

    def describe(self) -> str:
        """Return ``Parquet file PATH``."""
        return f"Parquet file {self.path}"

    def to_dict(self) -> dict[str, Any]:
        """Return the configuration."""
        return {"parquet": self.path}
