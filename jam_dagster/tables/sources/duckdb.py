"""Queries on DuckDB's database files, counted in one pass."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar

from jam_dagster.common.deferred import pd
from jam_dagster.common.redaction import redacted
from jam_dagster.errors import SourceError, SpecificationError
from jam_dagster.tables.codes.encode import each_encoded
from jam_dagster.tables.codes.table import count_blocks
from jam_dagster.tables.domain.columns import exact_columns, frame_of
from jam_dagster.tables.sources.identity import (
    canonical,
    is_address,
    opened,
    place_of,
    query_text,
)
from jam_dagster.tables.sources.reading import (
    READ_ROWS,
    check_unique,
    each_batch,
    quoted,
    reading,
    reading_values,
    some_batch,
)
from jam_dagster.tables.sources.source import Source

if TYPE_CHECKING:
    import duckdb

    from jam_dagster.tables.codes.marginals import MarginalSource
    from jam_dagster.tables.codes.privacy_unit import PrivacyUnit
    from jam_dagster.tables.domain.columns import Batch
    from jam_dagster.tables.domain.domain import Clique, Domain
    from jam_dagster.tables.sources.source import Limit

SETTINGS: dict[str, Any] = {"autoinstall_known_extensions": False}
"""Settings of the engine: it downloads no extensions."""


@dataclass(frozen=True)
class DuckDbSource(Source):
    """A query on a DuckDB database file, read and counted in one pass.

    DuckDB gives the rows a chunk at a time, `encode` codes them, and only counts are kept. If a
    query needs more than DuckDB's memory, its data are in a temporary folder that only this user
    may read, until the table is read.

    Parameters
    ----------
    path
        The path of a database file; ``${VARIABLE}`` is expanded when the table is read.
    query
        The SQL on the database file, such as ``FROM people``; it cannot read other files.
    """

    path: str
    query: str

    has_rows: ClassVar[bool] = False
    changes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if is_address(self.path):
            raise SpecificationError(
                "source 'duckdb' needs a database file on this machine, not a URL"
            )

    def read(self, *, private: bool) -> pd.DataFrame:
        """Read the whole table (see `Source.read`)."""
        with self._opened(private) as table:
            whole = reading_values(
                self.describe(), private, lambda: frame_of(table.to_arrow_table())
            )
        return whole if private else exact_columns(whole)

    def names(self) -> list[str]:
        """Return the names of the columns; no row is read."""
        with self._opened(False) as table:
            return list(table.columns)

    def types(self) -> dict[str, str]:
        """Return the types of the columns; no row is read."""
        with self._opened(False) as table:
            return dict(zip(table.columns, map(str, table.types), strict=True))

    def batches(self, columns: Sequence[str]) -> Generator[Batch, None, None]:
        """Read some columns, at most `READ_ROWS` rows at a time (see `Source.batches`).

        The database and the folder are open until the generator is closed.
        """
        with self._opened(True) as table:
            if set(columns) <= set(table.columns):
                table = table.select(*map(quoted, columns))
            reader = reading_values(self.describe(), True, lambda: table.to_arrow_reader(READ_ROWS))
            yield from each_batch(some_batch(reader, reader.schema), self.describe())

    def _counted(
        self, domain: Domain, limit: Limit | None, cliques: Sequence[Clique]
    ) -> MarginalSource:
        """Count the marginals that may be asked for, in one pass."""
        if limit is not None:
            return super()._counted(domain, limit, cliques)
        # A fault of a value leaves batches unread.
        with closing(self.batches(domain.names)) as batches:
            return count_blocks(each_encoded(batches, domain), domain, cliques)

    def count_records(self, unit: PrivacyUnit | None) -> int:
        """Count the rows in DuckDB (see `Source.count_records`)."""
        if unit is not None:
            with redacted("counting the private table"):
                return unit.count(self.batches([unit.column]))
        with redacted("counting the private table"), self._opened(True) as table:
            ((rows,),) = reading_values(
                self.describe(), True, lambda: table.aggregate("count(*)").fetchall()
            )
            return int(rows)

    @contextmanager
    def _opened(self, private: bool) -> Iterator[duckdb.DuckDBPyRelation]:
        with ExitStack() as until_read:
            table = reading(
                self.describe(),
                private,
                lambda: until_read.enter_context(_table(self.path, self.query)),
                place=self.path,
            )
            check_unique(self.describe(), table.columns, "give each one an alias")
            yield table

    def describe(self) -> str:
        """Return ``query on DuckDB file PATH``."""
        return f"query on DuckDB file {self.path}"

    def identity(self) -> str:
        """Return the file and the query (see `Source.identity`)."""
        return canonical(duckdb=place_of(self.path), query=query_text(self.query))

    def to_dict(self) -> dict[str, Any]:
        """Return the configuration."""
        return {"duckdb": self.path, "query": self.query}


@contextmanager
def _table(path: str, query: str) -> Iterator[duckdb.DuckDBPyRelation]:
    try:
        import duckdb
    except ImportError:
        raise SourceError(
            "source 'duckdb' needs DuckDB: install it, with pip install 'jam-dagster[duckdb]'"
        ) from None

    place = opened(path)
    with TemporaryDirectory(prefix="jam-") as spilled:
        connection = duckdb.connect(":memory:", config={**SETTINGS, "temp_directory": spilled})
        try:
            # Instants are in UTC on every machine.
            connection.execute("SET TimeZone = 'UTC'")
            file = os.path.realpath(os.path.expanduser(place))
            # DuckDB's error for a missing file is its own.
            Path(file).stat()
            connection.execute("ATTACH " + quoted(file, "'") + " AS given (READ_ONLY)")
            connection.execute("USE given")
            connection.execute("SET enable_external_access = false")
            if [one.type.name for one in duckdb.extract_statements(query)] != ["SELECT"]:
                # DuckDB looks at all rows before it knows the columns of a PIVOT.
                raise SourceError(
                    "a query on a DuckDB file is one SELECT; list the values of a PIVOT with IN"
                )
            yield connection.sql(query)
        finally:
            connection.close()
