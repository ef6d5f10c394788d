"""Tables from Parquet files, on disk or in any fsspec store, whole or in chunks."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from jam_dagster.common.deferred import pd
from jam_dagster.common.redaction import redacted
from jam_dagster.errors import DomainError, PrivateValuesError, SourceError
from jam_dagster.tables.codes.block_counts import can_be_kept
from jam_dagster.tables.codes.encode import check_schema, each_encoded
from jam_dagster.tables.codes.marginals import Counts, MarginalCounter
from jam_dagster.tables.codes.privacy_unit import LimitedRows
from jam_dagster.tables.codes.row_hashes import RowsDigest
from jam_dagster.tables.codes.table import EncodedTable, KeptCounts, count_blocks
from jam_dagster.tables.domain.columns import (
    exact_columns,
    numbered_index,
    with_arrow_types,
    without_index,
)
from jam_dagster.tables.domain.text_dtype import is_text
from jam_dagster.tables.sources.identity import canonical, is_address, login_of, opened, place_of
from jam_dagster.tables.sources.reading import (
    READ_ROWS,
    check_unique,
    each_batch,
    open_handle,
    reading,
    reading_values,
    some_batch,
)
from jam_dagster.tables.sources.source import Source, needed

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow import fs

    from jam_dagster.tables.codes.marginals import MarginalSource
    from jam_dagster.tables.codes.privacy_unit import PrivacyUnit
    from jam_dagster.tables.domain.columns import Batch
    from jam_dagster.tables.domain.domain import Clique, Domain
    from jam_dagster.tables.sources.source import Limit

ENCODED_BYTES = 1 << 30
"""Bytes of codes above which a table is not held in memory: 71 million records of 15 attributes.

An attribute of up to 256 values takes a byte a record, up to 65,536 two.
"""

_Written: TypeAlias = tuple[str, int | None, int | None]

# Bytes of a column that are read at a time, instead of a whole row group.
_BUFFER_BYTES = 1 << 20


@dataclass(frozen=True)
class ParquetSource(Source):
    """A Parquet file or folder.

    Parameters
    ----------
    path
        A path or an fsspec URL; ``${VARIABLE}`` is expanded when the file is read.
    """

    path: str

    has_rows: ClassVar[bool] = False

    def read(self, *, private: bool) -> pd.DataFrame:
        """Read the file (see `Source.read`); a named index becomes columns."""
        from pandas.io.common import is_url  # type: ignore[import-not-found]  # not in its stubs

        path = opened(self.path)
        dataset = reading(
            self.describe(),
            private,
            lambda: _downloaded(path) if is_url(path) else _dataset(path, private),
        )
        # Not by `pandas.read_parquet`: before pandas 3 it turns integers with a gap into floats.
        table = reading_values(
            self.describe(),
            private,
            lambda: without_index(dataset.read(use_pandas_metadata=True), dataset.read),
        )
        table = table if private else exact_columns(with_arrow_types(table, dataset.schema))
        check_unique(self.describe(), table.columns, "rename one")
        return table

    def names(self) -> list[str]:
        """Return the names of the columns, from the schema.

        Raises
        ------
        SourceError
            The table cannot be found or read.
        """
        path = opened(self.path)
        schema = reading(self.describe(), False, lambda: _dataset(path).schema)
        return [*map(str, schema.names), *numbered_index(schema)]

    def types(self) -> dict[str, str]:
        """Return the types of the columns, from the schema."""
        path = opened(self.path)
        schema = reading(self.describe(), False, lambda: _dataset(path).schema)
        return {str(one.name): str(one.type) for one in schema}

    def check(self, domain: Domain, unit: PrivacyUnit | None) -> None:
        """Look at the names and types of the columns in the schemas; no row is read."""
        import pyarrow as pa

        super().check(domain, unit)
        path = opened(self.path)
        dataset = reading(self.describe(), True, lambda: _dataset(path, True))
        check_unique(self.describe(), dataset.schema.names, "rename one")
        # A range index is not stored as a column.
        if {*needed(domain, unit)} & numbered_index(dataset.schema):
            return
        types = reading(self.describe(), True, lambda: _types(dataset))
        schema = pa.schema([(one.name, types.get(one.name, one.type)) for one in dataset.schema])
        if unit is not None:
            unit.count([pd.DataFrame(columns=schema.names)])
        check_schema(schema, domain)

    def public_fault(self, domain: Domain) -> str:
        """Return why the names or types of a public table do not fit a domain, or "".

        No row is read, and nothing of a table that is not there or cannot be read.
        """
        with suppress(SourceError):
            schema = reading(self.describe(), False, lambda: _dataset(opened(self.path)).schema)
            try:
                if not {*domain.names} & numbered_index(schema):
                    check_schema(schema, domain, private=False)
            except DomainError as fault:
                return str(fault)
        return ""

    def rows(self) -> int:
        """Return the number of rows of a private table, from the files' footers."""
        path = opened(self.path)
        return reading(
            self.describe(),
            True,
            lambda: sum(int(fragment.metadata.num_rows) for fragment in _dataset(path).fragments),
        )

    def batches(self, columns: Sequence[str]) -> Generator[Batch, None, None]:
        """Read some columns, at most `READ_ROWS` rows at a time (see `Source.batches`).

        Memory is one batch, whatever the number of rows in the table or in a row group.
        """
        import pyarrow as pa

        path = opened(self.path)
        dataset = reading(self.describe(), True, lambda: _dataset(path, True))
        # Before the footers are read, so that these are of the same files or of later ones.
        written = reading(self.describe(), True, lambda: _written(dataset))
        names = list(dataset.schema.names)
        check_unique(self.describe(), names, "rename one")
        missing = set(columns) - set(names)
        if missing and missing <= numbered_index(dataset.schema):
            # A range index is not stored as a column.
            yield self.read(private=True)
            return
        types = reading(self.describe(), True, lambda: _types(dataset))
        fields = [
            pa.field(field.name, types.get(field.name, field.type))
            for field in dataset.schema
            if missing or field.name in columns
        ]
        found, is_whole = some_batch(_batches(dataset, fields), pa.schema(fields)), False
        with suppress(PrivateValuesError):
            yield from each_batch(found, self.describe())
            is_whole = True
        # No value decides which error this is, and it is not chained to the original.
        if not reading(self.describe(), True, lambda: _is_as_opened(dataset, written)):
            raise _changed(self, "it was read")
        if not is_whole:
            raise PrivateValuesError

    def _counted(
        self, domain: Domain, limit: Limit | None, cliques: Sequence[Clique]
    ) -> MarginalSource:
        """Encode the table batch by batch; a large one is left in its file.

        From memory marginals take seconds, from a file as long as reading and encoding it takes.
        """
        row_bytes = sum(np.min_scalar_type(size - 1).itemsize for size in domain.shape)
        if self.rows() * row_bytes <= ENCODED_BYTES:
            return super()._counted(domain, limit, cliques)
        if limit is None:
            return ParquetTable(domain, self, tuple(cliques))
        rows, before = LimitedRows(*limit), self._written()
        for _ in rows.encoded(self.batches(needed(domain, limit[0])), domain):
            pass
        table = ParquetTable(domain, self, tuple(cliques), rows.kept())
        # Two passes: the rows that stay are those of the first one's persons.
        if self._written() != before:
            raise _changed(self, "it was read")
        return table

    def _written(self) -> list[_Written]:
        path = opened(self.path)
        return reading(self.describe(), True, lambda: _written(_dataset(path)))

    def count_records(self, unit: PrivacyUnit | None) -> int:
        """Return the number of rows from the footers, or the unit's (`Source.count_records`)."""
        with redacted("counting the private table"):
            if unit is None:
                return self.rows()
            return unit.count(self.batches([unit.column]))

    def describe(self) -> str:
        """Return ``Parquet file PATH``."""
        return f"Parquet file {self.path}"

    def identity(self) -> str:
        """Return the file or folder (see `Source.identity`)."""
        return canonical(parquet=place_of(self.path), **login_of(self.path))

    def to_dict(self) -> dict[str, Any]:
        """Return the configuration."""
        return {"parquet": self.path}


@dataclass(frozen=True, eq=False)
class ParquetTable:
    """A `MarginalSource` that counts marginals from a private Parquet file, which must not change.

    Constructing it reads and encodes every record once, so that every fault of the table appears
    before any charge, and counts the announced marginals where their counts can be held. A call of
    `marginals` is one more pass, unless the last counts suffice; it must find the same records, in
    any order. Memory is the counts and one chunk of records, whatever the number of records. A
    mask, shape (rows,), says which rows are `kept`.
    """

    domain: Domain
    source: ParquetSource
    cliques: tuple[Clique, ...] = ()
    kept: npt.NDArray[np.bool_] | None = None
    records: int = field(init=False)
    _contents: str = field(init=False, repr=False)
    _counts: KeptCounts = field(default_factory=KeptCounts, init=False, repr=False)

    def __post_init__(self) -> None:
        digest = RowsDigest()
        if self.cliques and can_be_kept(self.domain, self.cliques):
            most = self.source.rows() if self.kept is None else int(self.kept.sum())
            held = count_blocks(self._chunks(digest), self.domain, self.cliques, records=most)
            self._counts.held, records = held, held.records
        else:
            records = sum(one.records for one in self._chunks(digest))
        object.__setattr__(self, "records", records)
        object.__setattr__(self, "_contents", digest.hexdigest())

    def contents(self) -> str:
        """Return a SHA-256 of the records in any order; it must be keyed before it is stored.

        `EncodedTable.contents` of the same records is the same.
        """
        return self._contents

    def marginal(self, clique: Clique) -> Counts:
        """Count a marginal; see `EncodedTable.marginal`."""
        return self.marginals([clique])[tuple(clique)]

    def marginals(self, cliques: Iterable[Clique]) -> dict[Clique, Counts]:
        """Count several marginals in one pass, or raise as `EncodedTable.marginals`.

        A SourceError says if the table cannot be read any more, or has other records.
        """
        wanted = [tuple(clique) for clique in cliques]
        if can_be_kept(self.domain, wanted):
            return self._counts.marginals(self.domain, wanted, self._unchanged, self.records)
        counter = MarginalCounter(self.domain, wanted, records=self.records)
        for chunk in self._unchanged():
            counter.add(chunk.columns)
        return counter.counts()

    def _unchanged(self) -> Iterator[EncodedTable]:
        digest = RowsDigest()
        yield from self._chunks(digest)
        if digest.hexdigest() != self._contents:
            raise _changed(self.source, "its marginals were counted")

    def _chunks(self, digest: RowsDigest) -> Iterator[EncodedTable]:
        """Yield the rows that stay, which the digest gets, too, or raise SourceError.

        It says if the table has changed meanwhile.
        """
        seen = 0
        for chunk in each_encoded(self.source.batches(self.domain.names), self.domain):
            here = slice(seen, seen + chunk.records)
            seen += chunk.records
            if self.kept is not None:
                chunk = chunk.take(_rows_in(self.kept[here], chunk))
            digest.add(chunk.columns)
            yield chunk
        if self.kept is not None and seen != len(self.kept):
            raise _changed(self.source, "it was read")


def _rows_in(kept: npt.NDArray[np.bool_], chunk: EncodedTable) -> npt.NDArray[np.bool_]:
    """Return which rows of a chunk stay; none of a table that has become longer."""
    return kept if len(kept) == chunk.records else np.zeros(chunk.records, dtype=bool)


def _changed(source: ParquetSource, while_what: str) -> SourceError:
    return SourceError(
        f"{source.describe()} changed while {while_what}: a file was written, cut, replaced or"
        " removed. Restore what is not whole, and run again while no process writes to it"
    )


def _downloaded(url: str) -> pq.ParquetDataset:
    """Return the one file behind the URL of a web server, which neither Arrow nor fsspec opens."""
    import pyarrow.parquet as pq

    with open_handle(url, "rb", is_text=False) as handle:
        return pq.ParquetDataset(BytesIO(handle.handle.read()))


def _dataset(path: str, private: bool = False) -> pq.ParquetDataset:
    """Return the files of a path, as `pandas.read_parquet` finds them.

    Values in the names of a private table's folders (``year=2024``) are texts: Arrow would read
    them as numbers if all of them are.
    """
    import pyarrow as pa
    from pyarrow.dataset import get_partition_keys

    try:
        dataset = _found(path)
        if not dataset.fragments:
            # Said as of a file that is not there, with the path as it was configured.
            raise FileNotFoundError("the folder has no Parquet file")
        if not private:
            return dataset
        keys = (get_partition_keys(one.partition_expression) for one in dataset.fragments)
        names = sorted({name for found in keys for name in found})
        folders = pa.schema([(name, pa.string()) for name in names])
        return _found(path, folders) if names else dataset
    except pa.ArrowInvalid as error:
        # Later versions of Arrow leave this to the caller.
        if "duplicate field names" not in str(error):
            raise
    raise SourceError("a Parquet file has two columns of the same name: rename one")


def _found(path: str, folders: pa.Schema | None = None) -> pq.ParquetDataset:
    import pyarrow as pa
    import pyarrow.dataset
    import pyarrow.parquet as pq
    from pyarrow import fs

    filesystem: Any
    hive = "hive" if folders is None else pa.dataset.partitioning(folders, flavor="hive")
    if not is_address(path):
        return pq.ParquetDataset(
            os.path.expanduser(path), filesystem=fs.LocalFileSystem(), partitioning=hive
        )
    try:
        filesystem, path = fs.FileSystem.from_uri(path)
    except (TypeError, pa.ArrowException):
        import fsspec

        filesystem, path = fsspec.core.url_to_fs(path)
    return pq.ParquetDataset(path, filesystem=filesystem, partitioning=hive)


def _types(dataset: pq.ParquetDataset) -> dict[str, pa.DataType]:
    """Return the type of each column that all files share, whatever the first one has.

    A file in which a column is missing everywhere may have no type for it.
    """
    types: dict[str, dict[pa.DataType, None]] = {}
    for fragment in dataset.fragments:
        check_unique("a file of the folder", fragment.physical_schema.names, "rename one")
        for one in fragment.physical_schema:
            types.setdefault(one.name, {})[one.type] = None
    found = {name: _shared(list(kinds)) for name, kinds in types.items()}
    if several := [name for name, kind in found.items() if kind is None]:
        raise SourceError(
            f"files of the folder have the column {several[0]!r} in several types: write it with"
            " one in all files"
        )
    return found


def _shared(types: list[pa.DataType]) -> pa.DataType | None:
    """Return the type that holds the values of all types, or None."""
    import pyarrow as pa

    schemas = [pa.schema([("", one)]) for one in types]
    try:
        return pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    except pa.ArrowException:
        return None


def _written(dataset: pq.ParquetDataset) -> list[_Written]:
    """Return each file, its size and when it was last written, as far as the store knows."""
    paths = [one.path for one in dataset.fragments]
    return [(one.path, one.size, one.mtime_ns) for one in dataset.filesystem.get_file_info(paths)]


def _is_as_opened(dataset: pq.ParquetDataset, written: list[_Written]) -> bool:
    """Return whether all files have the footers that they were opened with, and were not written.

    A failure of the store is raised, as it says nothing of the files.
    """
    try:
        return _written(dataset) == written and all(
            _has_footer(dataset.filesystem, one.path, one.metadata) for one in dataset.fragments
        )
    except FileNotFoundError:
        return False


def _has_footer(store: fs.FileSystem, path: str, expected: pq.FileMetaData) -> bool:
    """Return whether a file, which need not be Parquet any more, ends with a footer."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with store.open_input_file(path) as file:
        # A footer is followed by its length and a mark.
        file.seek(max(0, file.size() - expected.serialized_size - 8))
        found = BytesIO(file.read())
    try:
        return bool(pq.read_metadata(found).equals(expected))
    except (OSError, pa.ArrowException):
        # The bytes are in memory: Arrow raises OSError for some that are no footer.
        return False


def _batches(dataset: pq.ParquetDataset, fields: Sequence[pa.Field]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of all files, with the columns of the folders' names (``year=2024``)."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow.dataset import get_partition_keys

    for fragment in dataset.fragments:
        stored = [one for one in fields if one.name in fragment.physical_schema.names]
        constants = get_partition_keys(fragment.partition_expression)
        with pq.ParquetFile(
            fragment.path,
            filesystem=dataset.filesystem,
            metadata=fragment.metadata,
            # Read each text once, with its indices.
            read_dictionary=[
                one.name for one in stored if is_text(fragment.physical_schema.field(one.name).type)
            ],
            pre_buffer=False,
            buffer_size=_BUFFER_BYTES,
        ) as file:
            names = [one.name for one in stored]
            for batch in file.iter_batches(READ_ROWS, columns=names):
                arrays = [_array(batch, field, constants) for field in fields]
                yield pa.RecordBatch.from_arrays(arrays, [field.name for field in fields])


def _array(batch: pa.RecordBatch, field: pa.Field, constants: Mapping[str, Any]) -> pa.Array:
    """Return a column with the first file's type; it is missing in files that lack it."""
    import pyarrow as pa

    if field.name not in batch.schema.names:
        value = constants.get(field.name)
        return pa.nulls(len(batch)) if value is None else pa.repeat(value, len(batch))
    array = batch.column(field.name)
    if is_text(field.type) and pa.types.is_dictionary(array.type):
        return array
    return array if array.type == field.type else array.cast(field.type)
