"""Synthetic tables in a Parquet file, written and read a chunk of rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from jam_dagster.tables.codes.decode import decode
from jam_dagster.tables.codes.table import EncodedTable
from jam_dagster.tables.domain.text_dtype import from_arrow
from jam_dagster.tables.sources.columns import exact_columns, with_texts

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from upath import UPath

    from jam_dagster.tables.domain.domain import Domain

_WITH_GAPS = {"bool": "boolean", "int64": "Int64", "uint64": "UInt64"}


@dataclass(frozen=True)
class TableFile:
    """A synthetic table in a Parquet file, with a chunk of its rows in each row group."""

    path: Path | UPath

    def __len__(self) -> int:
        with self.path.open("rb") as file:
            return sum(_sizes(file))

    @property
    def sizes(self) -> list[int]:
        """The number of rows of each chunk."""
        with self.path.open("rb") as file:
            return _sizes(file)

    @property
    def attrs(self) -> dict[Any, Any]:
        """What the table was marked with, as of a data frame."""
        import pyarrow.parquet as pq

        with self.path.open("rb") as file:
            return dict(from_arrow(pq.read_schema(file).empty_table()).attrs)

    def chunks(self) -> Iterator[pd.DataFrame]:
        """Yield the rows of one row group after the other; one chunk of an empty table."""
        import pyarrow.parquet as pq

        with self.path.open("rb") as file:
            stored = pq.ParquetFile(file)
            for group in range(stored.num_row_groups):
                yield from_arrow(stored.read_row_group(group))

    def read(self) -> pd.DataFrame:
        """Return the whole table."""
        import pyarrow.parquet as pq

        with self.path.open("rb") as file:
            return from_arrow(pq.ParquetFile(file).read())


def first_rows(table: pd.DataFrame | TableFile) -> pd.DataFrame:
    """Return a table, or its first chunk."""
    return next(table.chunks()) if isinstance(table, TableFile) else table


def _sizes(file: Any) -> list[int]:
    import pyarrow.parquet as pq

    stored = pq.ParquetFile(file).metadata
    return [stored.row_group(group).num_rows for group in range(stored.num_row_groups)]


@dataclass(frozen=True, eq=False)
class ChunkFormat:
    """The columns of a synthetic table in Parquet, with types that no chunk of its rows decides.

    The table is marked with `attrs`, as a data frame is.
    """

    domain: Domain
    attrs: Mapping[Any, Any] = field(default_factory=dict)

    @contextmanager
    def writing(self, path: Path) -> Iterator[Callable[[pd.DataFrame], None]]:
        """Yield what writes the next chunk of a table, which is there once all were written."""
        import pyarrow.parquet as pq

        part = path.with_name(f"{path.name}.part")
        try:
            with pq.ParquetWriter(part, self._schema) as writer:
                yield lambda chunk: writer.write_table(self._arrow(chunk, self._schema))
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)

    def stored(self, chunk: pd.DataFrame) -> pd.DataFrame:
        """Return a chunk as it is read again."""
        import pyarrow.parquet as pq

        buffer = BytesIO()
        pq.write_table(self._arrow(chunk, self._schema), buffer)
        return from_arrow(pq.read_table(buffer))

    @cached_property
    def _example(self) -> pd.DataFrame:
        """A table with every value of each attribute."""
        sizes = self.domain.shape
        codes = (np.minimum(np.arange(max(sizes)), size - 1) for size in sizes)
        return decode(EncodedTable(self.domain, tuple(codes)), np.random.default_rng(0))

    @cached_property
    def _dtypes(self) -> dict[str, Any]:
        """The dtypes of the columns of objects."""
        dtypes = self._example.dtypes
        objects = dtypes.index[[pd.api.types.is_object_dtype(one) for one in dtypes]]
        typed = exact_columns(self._example[objects].copy())
        return {str(name): _WITH_GAPS.get(str(one), one) for name, one in typed.dtypes.items()}

    @cached_property
    def _schema(self) -> pa.Schema:
        self._example.attrs.update(self.attrs)
        return self._arrow(self._example, None).schema

    def _arrow(self, chunk: pd.DataFrame, schema: pa.Schema | None) -> pa.Table:
        import pyarrow as pa

        typed = with_texts(chunk.astype(self._dtypes))
        return pa.Table.from_pandas(typed, schema, preserve_index=False)
