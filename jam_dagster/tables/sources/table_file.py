"""Synthetic tables in a Parquet file, written and read a chunk of rows at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from io import BytesIO
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import numpy as np

from jam_dagster.common.deferred import pd
from jam_dagster.common.files import name_without_room
from jam_dagster.common.json_text import parse_json
from jam_dagster.tables.codes.decode import decode
from jam_dagster.tables.codes.table import EncodedTable
from jam_dagster.tables.domain.columns import exact_columns, with_texts
from jam_dagster.tables.domain.text_dtype import SYNTHETIC, from_arrow, is_text, with_dtypes

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    import pyarrow.parquet as pq
    from upath import UPath

    from jam_dagster.tables.domain.domain import Domain

# Bytes that pages of another version of a library may be larger by.
_SLACK_BYTES = 4096
_WITH_GAPS = {"bool": "boolean", "int64": "Int64", "uint64": "UInt64"}


Chunk: TypeAlias = "pd.DataFrame | pa.Table"


@dataclass
class ChunkWriter:
    """Writes the next chunk of a table; `sha256` is that of the whole, once it is written."""

    write: Callable[[Chunk], None]
    sha256: str = ""

    def __call__(self, chunk: Chunk) -> None:
        """Write a chunk."""
        self.write(chunk)


@dataclass(frozen=True)
class TableFile:
    """A synthetic table in a Parquet file, with a chunk of its rows in each row group.

    `sha256` is that of the file if this process wrote it; else empty.
    """

    path: Path | UPath
    sha256: str = field(default="", compare=False)

    def __len__(self) -> int:
        return sum(self.sizes)

    @property
    def sizes(self) -> list[int]:
        """The number of rows of each chunk."""
        import pyarrow.parquet as pq

        with self.path.open("rb") as file:
            stored = pq.ParquetFile(file).metadata
            return [stored.row_group(group).num_rows for group in range(stored.num_row_groups)]

    @property
    def attrs(self) -> dict[Any, Any]:
        """The marks of the table, as in ``DataFrame.attrs``."""
        import pyarrow.parquet as pq

        with self.path.open("rb") as file:
            return dict(from_arrow(pq.read_schema(file).empty_table()).attrs)

    @property
    def says_synthetic(self) -> bool:
        """Whether the file says by its own metadata that its table is synthetic."""
        import pyarrow.parquet as pq

        with self.path.open("rb") as file:
            return SYNTHETIC.encode() in (pq.read_schema(file).metadata or {})

    def chunks(self) -> Iterator[pd.DataFrame]:
        """Yield the rows of one row group after the other; an empty table has one chunk."""
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


def _described(schema: pa.Schema) -> tuple[Any, ...]:
    """Return the columns and the metadata of a file, without versions of libraries."""
    metadata = dict(schema.metadata or {})
    try:
        said = parse_json(metadata.pop(b"pandas").decode())
        said = {k: v for k, v in said.items() if k not in ("creator", "pandas_version")}
    except (KeyError, ValueError, AttributeError):
        said = None
    fields = [(one.name, one.type, one.nullable, one.metadata) for one in schema]
    return fields, said, metadata


def _holds_group(stored: pq.ParquetFile, group: int, expected: pq.ParquetFile) -> bool:
    import pyarrow as pa

    theirs, ours = stored.metadata.row_group(group), expected.metadata.row_group(0)
    for index in range(ours.num_columns):
        found, wanted = theirs.column(index), ours.column(index)
        # A page of few bytes could unpack to any number of them, in another compression.
        most = 2 * wanted.total_compressed_size + _SLACK_BYTES
        if found.compression != wanted.compression or found.total_compressed_size > most:
            return False
    table, own = stored.read_row_group(group), expected.read()
    for name, found in zip(table.column_names, table.columns, strict=True):
        wanted = _values(own[name])
        # Every row could repeat a text of the dictionary.
        if isinstance(found.type, pa.DictionaryType) and _longest(found) > _longest(own[name]):
            return False
        if not _values(found).cast(wanted.type).equals(wanted):
            return False
    return True


def _longest(texts: pa.ChunkedArray) -> int:
    """Return the most bytes of a text in a column, or in its dictionary."""
    import pyarrow.compute as pc

    each = (getattr(one, "dictionary", one) for one in texts.chunks)
    return max((pc.max(pc.binary_length(one)).as_py() or 0 for one in each), default=0)


def _values(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column with its values in place of indices in a dictionary."""
    kind = column.type
    return column.cast(kind.value_type) if hasattr(kind, "value_type") else column


@dataclass(frozen=True, eq=False)
class ChunkFormat:
    """The columns of a table with marks, in Parquet types that no chunk of its rows decides."""

    domain: Domain
    attrs: Mapping[Any, Any] = field(default_factory=dict)

    @contextmanager
    def writing(self, path: Path) -> Iterator[ChunkWriter]:
        """Yield the writer of a table's chunks; the file exists once all are written."""
        import pyarrow.parquet as pq

        part = path.with_name(f"{path.name}.part")
        # A killed run may have left a file, or somebody a link.
        part.unlink(missing_ok=True)
        try:
            with part.open("x+b") as file:
                with pq.ParquetWriter(file, self._schema) as writer:
                    made = ChunkWriter(lambda chunk: writer.write_table(self.arrow(chunk)))
                    yield made
                # The open file is read: the path may be of another one by now.
                file.seek(0)
                made.sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            part.replace(path)
        except OSError as error:
            name_without_room(error, path)
            raise
        finally:
            part.unlink(missing_ok=True)

    def write(self, chunks: Iterable[Chunk], file: IO[bytes]) -> None:
        """Write chunks as `writing` does."""
        import pyarrow.parquet as pq

        with pq.ParquetWriter(file, self._schema) as writer:
            for chunk in chunks:
                writer.write_table(self.arrow(chunk))

    def arrow(self, chunk: Chunk) -> pa.Table:
        """Return a chunk as the Arrow table that is written."""
        import pyarrow as pa

        return chunk if isinstance(chunk, pa.Table) else self._arrow(chunk, self._schema)

    def holds(self, table: TableFile, chunks: Iterable[Chunk]) -> bool:
        """Return whether a file that another version of a library wrote has these chunks alone.

        The chunks' own sizes bound how much of the file is read.
        """
        import pyarrow.parquet as pq

        empty = BytesIO()
        self.write([], empty)
        with table.path.open("rb") as file:
            schema = pq.read_schema(file)
        if _described(schema) != _described(pq.read_schema(empty)):
            return False
        texts = [one.name for one in schema if is_text(one.type)]
        with table.path.open("rb") as file:
            stored = pq.ParquetFile(file, read_dictionary=texts)
            for group, chunk in enumerate(chunks):
                buffer = BytesIO()
                self.write([chunk], buffer)
                if not _holds_group(stored, group, pq.ParquetFile(buffer)):
                    return False
        return True

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
        return with_dtypes(self._arrow(self._example, None).schema, self._example)

    def _arrow(self, chunk: pd.DataFrame, schema: pa.Schema | None) -> pa.Table:
        import pyarrow as pa

        typed = with_texts(chunk.astype(self._dtypes))
        return pa.Table.from_pandas(typed, schema, preserve_index=False)
