"""Tables from databases."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np

from jam_dagster.common.deferred import pd
from jam_dagster.common.redaction import redacted
from jam_dagster.common.validation import changed_fields
from jam_dagster.tables.codes.encode import encode
from jam_dagster.tables.domain.columns import exact_columns, frame_of, no_rows_of
from jam_dagster.tables.sources import postgres
from jam_dagster.tables.sources.identity import canonical, database_of, parsed_url, query_text
from jam_dagster.tables.sources.reading import (
    check_unique,
    expand_variables,
    reading,
    reading_values,
)
from jam_dagster.tables.sources.source import Source, needed

if TYPE_CHECKING:
    import pyarrow as pa
    from adbc_driver_manager.dbapi import Cursor
    from sqlalchemy import URL, Connection

    from jam_dagster.tables.codes.privacy_unit import PrivacyUnit
    from jam_dagster.tables.domain.columns import Batch
    from jam_dagster.tables.domain.domain import Domain

T = TypeVar("T")
C = TypeVar("C")

# Drivers whose URLs libpq takes too.
_DRIVERS = (None, "psycopg", "psycopg2")

# In other databases a query, such as DuckDB's PIVOT, may name columns by values of rows.
_FIXED_COLUMNS = ("sqlite", "postgresql", "mysql", "mariadb", "mssql")

_SECRET_OPTION = re.compile(
    r"([?&][^=&]*(?:pass|pwd|token|secret|key|credential|odbc_connect)[^=&]*=)(?!\$\{)[^&]*", re.I
)


@dataclass(frozen=True)
class SqlSource(Source):
    """The result of a query on any database that SQLAlchemy supports.

    PostgreSQL gives batches of declared types, all of one snapshot; other databases give rows.

    Parameters
    ----------
    url
        The SQLAlchemy URL. Write credentials as ``${VARIABLE}``, which is expanded when the query
        runs and never shown.
    query
        The SQL, which is sent as it is written; each column of its result needs a name of its own.
    """

    url: str = field(repr=False)
    query: str

    changes: ClassVar[bool] = True

    @property
    def has_batches(self) -> bool:
        """Whether the database is PostgreSQL, which gives `batches`."""
        kind = re.match(r"(\w+)(?:\+(\w+))?://", expand_variables(self.url))
        return kind is not None and kind[1] == "postgresql" and kind[2] in _DRIVERS

    def read(self, *, private: bool) -> pd.DataFrame:
        """Run the query (see `Source.read`); the database's errors are quoted for public rows only.

        Values keep the database's types, row by row of a private table. The failure of a
        running query can depend on values, so for private rows its error names nothing.
        """
        if self.has_batches:
            return self._of_batches(None, private)
        table = self._asked(private, lambda connection: _query(connection, self.query))
        if not private:
            table = exact_columns(table)
        check_unique(self.describe(), table.columns, "give each one an alias")
        return table

    def batches(self, columns: Sequence[str]) -> Generator[Batch, None, None]:
        """Read some columns of PostgreSQL, or the table (see `Source.batches`).

        The transaction is open until the generator is closed.
        """
        yield from self._batches(columns, True) if self.has_batches else super().batches(columns)

    def _batches(
        self, columns: Sequence[str] | None, private: bool
    ) -> Generator[pa.RecordBatch, None, None]:
        """Yield the rows of PostgreSQL with those of some columns that it has, None: all."""
        with self._snapshot(private) as opened:
            found = opened.columns(columns)
            # A refused type is named before anything depends on values.
            postgres.selecting(self.query, found, private=private)
            rows = postgres.batches(opened.connection, self.query, found, private=private)
            while (batch := opened.ask(lambda _: next(rows, None))) is not None:
                yield batch

    def _of_batches(self, columns: Sequence[str] | None, private: bool) -> pd.DataFrame:
        import pyarrow as pa

        with closing(self._batches(columns, private)) as batches:
            rows = [*batches]
        table = reading_values(
            self.describe(), private, lambda: frame_of(pa.Table.from_batches(rows))
        )
        return table if private else exact_columns(postgres.with_types(table, rows[0].schema))

    def count_records(self, unit: PrivacyUnit | None) -> int:
        """Count the rows in the database (see `Source.count_records`).

        The query becomes a subquery, so that only values of the unit's column are read.
        """
        with redacted("counting the private table"):
            if self.has_batches:
                if unit is not None:
                    with closing(self.batches([unit.column])) as batches:
                        return unit.count(batches)
                with self._snapshot(True) as opened:
                    # A fault that depends on no row is named.
                    opened.columns()
                    return opened.ask(partial(postgres.counted, query=self.query))
            return self._count(unit)

    def _count(self, unit: PrivacyUnit | None) -> int:
        within = f" FROM ({postgres.subquery(self.query)}) counted"

        def asked(what: Callable[[Connection], str], where: str = "") -> pd.DataFrame:
            return self._asked(True, lambda one: _query(one, f"SELECT {what(one)}{within}{where}"))

        if unit is None:
            return int(asked(lambda _: "count(*)").to_numpy().item())
        # No value decides whether the column is missing, so it is looked for without rows.
        unit.count([asked(lambda _: "*", " WHERE 1 = 0")])
        return unit.count([asked(lambda connection: _quoted(connection, unit.column))])

    def names(self) -> list[str]:
        """Return the names of the columns without reading a row; empty if rows may decide them."""
        if self.has_batches:
            with self._snapshot(True) as opened:
                return [one.name for one in opened.columns()]
        if database_of(self.url)["kind"] not in _FIXED_COLUMNS:
            return []
        empty = f"SELECT * FROM ({postgres.subquery(self.query)}) named WHERE 1 = 0"  # noqa: S608
        return [*self._asked(True, lambda connection: _query(connection, empty)).columns]

    def check(self, domain: Domain, unit: PrivacyUnit | None) -> None:
        """Have PostgreSQL parse the query, and look at the types of its columns."""
        super().check(domain, unit)
        if not self.has_batches:
            return
        batches = self._batches(needed(domain, unit), True)
        with redacted("checking the private table"), closing(batches):
            # The first batch has no rows.
            empty = no_rows_of(next(batches))
        if unit is not None:
            unit.count([empty])
        encode(empty, domain)

    def _asked(self, private: bool, ask: Callable[[Connection], T]) -> T:
        """Return what a connection to the database answers."""
        with self._connection(private, lambda url: _connected(url, database_of(self.url))) as one:
            return one.ask(ask)

    def _snapshot(self, private: bool) -> AbstractContextManager[_Opened[Cursor]]:
        return self._connection(private, postgres.snapshot)

    @contextmanager
    def _connection(
        self, private: bool, connect: Callable[[URL], AbstractContextManager[C]]
    ) -> Iterator[_Opened[C]]:
        from sqlalchemy import make_url

        url = expand_variables(self.url)
        # A service file could name any server.
        database_of(self.url)
        parsed = parsed_url(url)
        secrets = [url, parsed.password] if parsed and parsed.password else [url]
        with ExitStack() as until_read:
            connection = reading(
                self.describe(),
                private,
                lambda: until_read.enter_context(connect(make_url(url))),
                secrets,
                place=self.url,
            )
            yield _Opened(self, connection, private, secrets)

    def describe(self) -> str:
        """Return the query's database without user, password and parameters."""
        if re.fullmatch(r"\$\{\w+\}", self.url):
            return f"SQL query on {self.url}"
        url = parsed_url(self.url)
        if url is None:
            return "SQL query"
        place = "/".join(part for part in (url.host, url.database) if part)
        return f"SQL query on {url.drivername}{' at ' if place else ''}{place}"

    def identity(self) -> str:
        """Return the database and the query (see `Source.identity`)."""
        return canonical(sql=database_of(self.url), query=query_text(self.query))

    def to_dict(self) -> dict[str, Any]:
        """Return the configuration; a literal password in the URL is masked."""
        masked = re.sub(r"(://[^:/@]*:)(?!\$\{\w+\}@)[^/]*@", r"\1***@", self.url)
        masked = re.sub(_SECRET_OPTION, r"\1***", masked)
        return {"sql": masked, **changed_fields(self, "url")}


@dataclass(frozen=True)
class _Opened(Generic[C]):
    """A connection to a source's database, with the errors of `reading`."""

    source: SqlSource
    connection: C
    private: bool
    secrets: Sequence[str]

    def ask(self, what: Callable[[C], T], *, values: bool = True) -> T:
        """Return an answer; `values` says whether its errors may depend on values."""
        read = reading_values if values else reading
        asked, place = partial(what, self.connection), self.source.url
        return read(self.source.describe(), self.private, asked, self.secrets, place=place)

    def columns(self, names: Sequence[str] | None = None) -> list[pa.Field]:
        """Return some columns of the query, as PostgreSQL declares them; all if one is missing."""
        found = self.ask(partial(postgres.schema, query=self.source.query), values=False)
        check_unique(self.source.describe(), found.names, "give each one an alias")
        wanted = set(found.names) if names is None or {*names} - {*found.names} else {*names}
        return [one for one in found if one.name in wanted]


@contextmanager
def _connected(url: URL, database: Mapping[str, Any]) -> Iterator[Connection]:
    from sqlalchemy import create_engine

    # Without parameters a driver gives percent signs no meaning of its own.
    engine = create_engine(url, execution_options={"no_parameters": True})
    if database["kind"] == "sqlite" and database["name"] != ":memory:":
        # SQLite would create a missing file.
        Path(database["name"]).stat()
    try:
        with engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()


def _query(connection: Connection, query: str) -> pd.DataFrame:
    result = connection.exec_driver_sql(query)
    names = list(result.keys())
    rows = result.fetchall()
    # pandas would choose types by all rows, and NumPy a shape if cells are lists.
    table = pd.DataFrame(index=pd.RangeIndex(len(rows)), columns=names, dtype=object)
    for index in range(len(names)):
        values = np.fromiter((row[index] for row in rows), dtype=object, count=len(rows))
        table.isetitem(index, pd.Series(values, dtype=object).array)
    return table


def _quoted(connection: Connection, column: str) -> str:
    return str(connection.dialect.identifier_preparer.quote_identifier(column))
