"""Tables from CSV files, on disk or wherever fsspec reaches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from jam_dagster.errors import SourceError, SpecificationError
from jam_dagster.tables.columns import each_value, with_types
from jam_dagster.tables.configuration import changed_fields
from jam_dagster.tables.reading import expand_variables, reading
from jam_dagster.tables.values import exact_number

MISSING = ("", "?", "NA", "N/A", "NaN", "nan", "null", "NULL")
"""Texts that stand for a missing value unless the source says otherwise."""


@dataclass(frozen=True)
class CsvSource:
    r"""A CSV file with a header line.

    Columns without a name in the header (row numbers, as pandas writes them) are left out.
    Blank lines are no records, except in a file of one column, where each is a missing value
    unless only blank lines follow.

    Parameters
    ----------
    path
        A path or an fsspec URL; ``${VARIABLE}`` is expanded when the file is read.
    separator
        One character, or ``\s+`` for any number of blanks.
    encoding, decimal
        How the file is written; a byte order mark is ignored.
    skipinitialspace
        Whether blanks after a separator belong to it.
    missing
        Texts that stand for a missing value.
    text
        Columns to keep as texts though they look like numbers, such as postal codes with
        leading zeros.

    Raises
    ------
    SpecificationError
        `separator` or `decimal` is longer than a character.
    """

    path: str
    separator: str = ","
    encoding: str = "utf-8"
    decimal: str = "."
    skipinitialspace: bool = True
    missing: tuple[str, ...] = MISSING
    text: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # Of longer ones pandas makes regular expressions, which break quoted fields.
        if len(self.separator) != 1 and self.separator != r"\s+":
            raise SpecificationError(
                f"separator must be one character (or \\s+ for blanks), got {self.separator!r}"
            )
        if len(self.decimal) != 1:
            raise SpecificationError(f"decimal must be one character, got {self.decimal!r}")

    @property
    def restricted_because(self) -> str | None:
        """None: see `Source.restricted_because`."""
        return None

    def read(self, *, private: bool) -> pd.DataFrame:
        """Read the file (see `Source.read`).

        Private columns stay texts: the type that a column shows depends on all its rows, and one
        record must not change how the others are read.
        """
        path = expand_variables(self.path)
        options: dict[str, Any] = {
            "sep": self.separator,
            "encoding": self.encoding,
            "skipinitialspace": self.skipinitialspace,
            "keep_default_na": False,
            "dtype": "str",
        }
        header = reading(
            self.describe(), private, lambda: pd.read_csv(path, header=None, nrows=1, **options)
        )
        names = [str(name) for name in header.iloc[0]]
        self._check_names(names, private)
        missing = list(self.missing)
        if len(names) == 1:
            blank = options | {"header": None, "skip_blank_lines": False}
            lines = reading(self.describe(), private, lambda: pd.read_csv(path, **blank))
            table = _one_column(lines, names[0], missing)
        else:
            table = reading(
                self.describe(), private, lambda: pd.read_csv(path, na_values=missing, **options)
            )
        if len(table.columns) != len(names) or not isinstance(table.index, pd.RangeIndex):
            raise SourceError(
                f"{self.describe()}: lines have more fields than the header: check the separator,"
                " and quote fields that contain it"
            )
        table = table.loc[:, [name != "" for name in names]]
        if self.decimal != ".":
            table = table.apply(self._with_points)
        return table if private else self.typed(table)

    def typed(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return a public table as `read` returns it where it is private, with types."""
        return with_types(table, self.text)

    def _check_names(self, names: list[str], private: bool) -> None:
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

    def _with_points(self, column: pd.Series[Any]) -> pd.Series[Any]:
        """Write the numbers of a column with a decimal point, value by value."""
        if column.name in self.text:
            return column

        def with_point(text: str) -> str:
            written = text.replace(self.decimal, ".")
            if exact_number(written) is None:
                return text
            if exact_number(text) is not None and "." in text:
                raise SourceError(
                    f"{self.describe()}: column {column.name!r} holds numbers with a point, though"
                    f" `decimal` is {self.decimal!r}: mend them, or list the column in `text`"
                )
            return written

        return pd.Series(each_value(column, with_point, None), index=column.index, dtype="str")

    def describe(self) -> str:
        """Return ``CSV file PATH``."""
        return f"CSV file {self.path}"

    def to_dict(self) -> dict[str, Any]:
        """Return the configuration, what differs from the defaults only."""
        return {"csv": self.path} | changed_fields(self, "path")


def _one_column(lines: pd.DataFrame, name: str, missing: list[str]) -> pd.DataFrame:
    """Return the column under a header, given every line of the file, blank ones too."""
    written = lines[0].fillna("")
    filled = np.flatnonzero(written != "")
    column = written.iloc[filled[0] + 1 : filled[-1] + 1].reset_index(drop=True)
    return pd.DataFrame({name: column.mask(column.isin([*missing, ""]))})
