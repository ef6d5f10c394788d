"""Tables in memory: pandas, polars, pyarrow and any other exporter of Arrow data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from jam_dagster.common.deferred import pd
from jam_dagster.common.redaction import private_values, redacted
from jam_dagster.errors import SourceError, SpecificationError
from jam_dagster.tables.domain.columns import (
    alike_columns,
    cell_text,
    each_value,
    exact_columns,
    numbered_index,
    with_texts,
    without_index,
)
from jam_dagster.tables.sources.identity import canonical
from jam_dagster.tables.sources.reading import READ_ROWS, some_batch
from jam_dagster.tables.sources.source import Source

if TYPE_CHECKING:
    import pyarrow as pa

    from jam_dagster.tables.codes.privacy_unit import PrivacyUnit
    from jam_dagster.tables.domain.columns import Batch

ARROW_STREAM = "__arrow_c_stream__"
"""The method by which a table of any library exports Arrow data."""


@dataclass(frozen=True, eq=False)
class FrameSource(Source):
    """A table in memory: pandas tables as they are, others by the Arrow PyCapsule interface.

    A named index becomes columns, an unnamed one is left out. A column has the type that the caller
    gave it; cells of a column of objects are read one by one.

    Parameters
    ----------
    table
        A DataFrame of pandas or polars, a table of pyarrow, or any other object with the method
        ``__arrow_c_stream__``.
    name
        The table's name in the ledger, such as the name of its dataset. Memory has no path, so all
        tables of a name are one source: giving a slice the same name declares it to be the table.

    Raises
    ------
    SpecificationError
        The object is not a table.
    """

    table: Any = field(repr=False)
    name: str

    def __post_init__(self) -> None:
        if not hasattr(self.table, ARROW_STREAM):
            raise SpecificationError(
                f"{_kind(self.table)} is not a table: give a DataFrame of pandas or polars, a table"
                f" of pyarrow, a path or a source. Another library's table needs {ARROW_STREAM};"
                " without it, convert the table first"
            )

    @property
    def is_polars(self) -> bool:
        """Whether the table is of polars."""
        return type(self.table).__module__.partition(".")[0] == "polars"

    def read(self, *, private: bool) -> pd.DataFrame:
        """Return the table (see `Source.read`)."""
        self._check_unique()
        if isinstance(self.table, pd.DataFrame):
            table = _columns(self.table)
        else:
            table = self._of_arrow(private)
        return table if private else exact_columns(table)

    def batches(self, columns: Sequence[str]) -> Generator[Batch, None, None]:
        """Return the table: one of pandas as it is, another one as Arrow data."""
        import pyarrow as pa

        if isinstance(self.table, pd.DataFrame):
            yield self.read(private=True)
            return
        self._check_unique()
        with private_values():
            table = pa.table(self.table)
        missing = set(columns) - set(table.column_names)
        if missing and missing <= numbered_index(table.schema):
            # A range index is not stored as a column.
            yield self.read(private=True)
            return
        table = table if missing else table.select(list(columns))
        yield from some_batch(table.to_batches(READ_ROWS), table.schema)

    def count_records(self, unit: PrivacyUnit | None) -> int:
        """Return the number of rows, or the unit's (see `Source.count_records`).

        A table of pandas is not converted to Arrow, since its values decide whether that succeeds.
        """
        self._check_unique()
        with redacted("counting the private table"):
            if isinstance(self.table, pd.DataFrame):
                return len(self.table) if unit is None else unit.count([_columns(self.table)])
            import pyarrow as pa

            if unit is None:
                return int(pa.table(self.table).num_rows)
            return unit.count(self.batches([unit.column]))

    def names(self) -> list[str]:
        """Return the names of the columns; no row is read."""
        return _names(self.table)

    def types(self) -> dict[str, str]:
        """Return the types of the columns as their table states them; no row is read."""
        if isinstance(self.table, pd.DataFrame):
            return {str(name): str(dtype) for name, dtype in self.table.dtypes.items()}
        schema = self.table.schema
        names = getattr(schema, "names", None)
        if callable(names):  # polars
            return {name: str(dtype) for name, dtype in schema.items()}
        return {str(name): str(kind) for name, kind in zip(schema.names, schema.types, strict=True)}

    def _of_arrow(self, private: bool) -> pd.DataFrame:
        import pyarrow as pa

        if private:
            # A failed conversion, as of an instant that pandas does not reach, depends on values.
            with private_values():
                return _frame_of(pa.table(self.table))
        try:
            return _frame_of(pa.table(self.table))
        except Exception as error:  # Libraries raise exceptions of any type.
            reason = f"{type(error).__name__}: {error}"
        raise SourceError(
            f"cannot read the {self.describe()} ({reason}): give each column values of one type"
        )

    def _check_unique(self) -> None:
        names = _names(self.table)
        if len(set(names)) < len(names):
            raise SourceError(
                f"the {self.describe()} has two columns of the same name, or an index of a column's"
                " name: rename one"
            )

    def contents(self, names: Sequence[str]) -> str:
        """Return a SHA-256 that is the same for any order of the rows (see `Source.contents`).

        A table in memory may be another one in every call.
        """
        table = self.read(private=True)
        alike = alike_columns(table.columns, names)
        digest, columns = hashlib.sha256(f"{len(table)}\n".encode()), []
        for name in names:
            texts = pd.Series(
                each_value(table[alike.get(name, name)], cell_text, None), dtype=object
            )
            indices, distinct = pd.factorize(texts, sort=True)
            digest.update(json.dumps([name, list(distinct)]).encode())
            codes = (indices + 1).astype(np.min_scalar_type(len(distinct)).newbyteorder("<"))
            columns.append(codes.view(np.uint8).reshape(len(table), codes.itemsize))
        rows = np.concatenate(columns, axis=1)
        digest.update(np.sort(rows.view(f"V{rows.shape[1]}").ravel()).tobytes())
        return digest.hexdigest()

    def describe(self) -> str:
        """Return ``TYPE in memory``."""
        return f"{_kind(self.table)} in memory"

    def identity(self) -> str:
        """Return the table's name (see `Source.identity`), without any of its content."""
        return canonical(memory=self.name)

    def to_dict(self) -> dict[str, Any]:
        """Return the table's name; a table in memory has no configuration."""
        return {"memory": self.name}


def polars_of(table: pd.DataFrame) -> Any:
    """Return a table of pandas as a DataFrame of polars; ordered levels become an ``Enum``."""
    import polars as pl

    levels = {
        name: pl.Enum(list(map(str, column.cat.categories)))
        for name, column in table.items()
        if isinstance(column.dtype, pd.CategoricalDtype) and column.dtype.ordered
    }
    made = pl.from_pandas(with_texts(exact_columns(table.copy(deep=False))))
    return made.with_columns(pl.col(name).cast(kind) for name, kind in levels.items())


def _kind(table: object) -> str:
    return f"{type(table).__module__.partition('.')[0]} {type(table).__name__}"


def _names(table: Any) -> list[str]:
    """Return the names of columns in Arrow data, which may contain duplicates."""
    if isinstance(table, pd.DataFrame):
        index = (name for name in table.index.names if name is not None)
        return [str(name) for name in (*table.columns, *index)]
    # A pyarrow table has `column_names`, a polars table has names as `columns`.
    names: Any = getattr(table, "column_names", getattr(table, "columns", ()))
    return [name for name in names if isinstance(name, str)]


def _columns(table: pd.DataFrame) -> pd.DataFrame:
    """Return a copy of a table with its named index as columns, and texts as names."""
    # `reset_index` would choose the type of a level by its values.
    levels = [
        table.index.get_level_values(level).to_series(
            index=pd.RangeIndex(len(table)), name=str(name)
        )
        for level, name in enumerate(table.index.names)
        if name is not None
    ]
    columns = table.set_axis(table.columns.map(str), axis=1).reset_index(drop=True)
    return pd.concat([*levels, columns], axis=1) if levels else columns


def _frame_of(table: pa.Table) -> pd.DataFrame:
    """Return a pandas table; Arrow before 23 converts only signed codes of categories."""
    import pyarrow as pa

    for index, one in enumerate(table.schema):
        kind = one.type
        if pa.types.is_dictionary(kind) and pa.types.is_unsigned_integer(kind.index_type):
            kind = pa.dictionary(pa.int64(), kind.value_type, kind.ordered)
            table = table.set_column(index, one.with_type(kind), table.column(index).cast(kind))
    return without_index(table, table.select)
