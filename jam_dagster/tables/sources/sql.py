"""Tables from databases."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from jam_dagster.common.deferred import pd
from jam_dagster.common.redaction import redacted
from jam_dagster.common.validation import changed_fields
from jam_dagster.tables.codes.ibis_codes import counted_groups, engine_blocks
from jam_dagster.tables.domain.columns import exact_columns
from jam_dagster.tables.sources import postgres
from jam_dagster.tables.sources.identity import canonical, database_of, parsed_url, query_text
from jam_dagster.tables.sources.reading import (
    check_unique,
    expand_variables,
    reading,
    reading_values,
)
from jam_dagster.tables.sources.source import ROWS, Source

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from jam_dagster.tables.codes.marginals import MarginalSource
    from jam_dagster.tables.codes.privacy_unit import PrivacyUnit
    from jam_dagster.tables.domain.domain import Clique, Domain
    from jam_dagster.tables.sources.source import Limit

T = TypeVar("T")

# Drivers whose URLs psycopg takes too.
_DRIVERS = (None, "psycopg", "psycopg2")

# In other databases a query, such as DuckDB's PIVOT, may name columns by values of rows.
_FIXED_COLUMNS = ("sqlite", "postgresql", "mysql", "mariadb", "mssql")

_SECRET_OPTION = re.compile(
    r"([?&][^=&]*(?:pass|pwd|token|secret|key|credential|odbc_connect)[^=&]*=)(?!\$\{)[^&]*", re.I
)


@dataclass(frozen=True)
class SqlSource(Source):
    """The result of a query on any database that SQLAlchemy supports.

    Parameters
    ----------
    url
        The SQLAlchemy URL. Write credentials as ``${VARIABLE}``, which is expanded when the query
        runs and never shown.
    query
        The SQL; each column of its result needs a name of its own.
    count
        "rows": read the private table and count it here, even if its database could count it.
    """

    url: str = field(repr=False)
    query: str
    count: Literal["rows"] | None = None

    @property
    def counted_by(self) -> str:
        """``"postgres"``, if the kind of database, `count` and the installed packages allow it."""
        return "postgres" if self._can_be_counted and postgres.missing() is None else ROWS

    @property
    def lacks(self) -> str | None:
        """The package that the database needs to count (see `Source.lacks`)."""
        return postgres.missing() if self._can_be_counted else None

    def counting_by(self, counted_by: str | None) -> SqlSource:
        """Return the source that counts as a release began (see `Source.counting_by`)."""
        # The table may have values that no database counts as they are read.
        return replace(self, count="rows" if counted_by in (None, ROWS) else None)

    @property
    def _can_be_counted(self) -> bool:
        kind = re.match(r"(\w+)(?:\+(\w+))?://", expand_variables(self.url))
        served = kind is not None and kind[1] == "postgresql" and kind[2] in _DRIVERS
        return served and self.count != "rows"

    def read(self, *, private: bool) -> pd.DataFrame:
        """Run the query (see `Source.read`); the database's errors are quoted for public rows only.

        Values keep the database's types, row by row of a private table. The failure of a
        running query can depend on values, so for private rows its error names nothing.
        """
        table = self._asked(private, lambda connection: _query(connection, self.query))
        if not private:
            table = exact_columns(table)
        check_unique(self.describe(), table.columns, "give each one an alias")
        return table

    def count_records(self, unit: PrivacyUnit | None) -> int:
        """Count the rows in the database (see `Source.count_records`).

        The query becomes a subquery, so that only values of the unit's column are sent, and these
        only if the database does not count persons itself.
        """
        within = f" FROM ({postgres.subquery(self.query)}) counted"

        def asked(what: Callable[[Connection], str], where: str = "") -> pd.DataFrame:
            return self._asked(True, lambda one: _query(one, f"SELECT {what(one)}{within}{where}"))

        if unit is None:
            return int(asked(lambda _: "count(*)").to_numpy().item())
        if self.counted_by != ROWS:
            with redacted("counting the private table"), self._connection(True, True) as opened:
                query = postgres.records_query(self.query, opened.types(), unit)
                return opened.ask(lambda one: int(one.exec_driver_sql(query).scalar_one()))
        # No value decides whether the column is missing, so it is looked for without rows.
        unit.count([asked(lambda _: "*", " WHERE 1 = 0")])
        return unit.count([asked(lambda connection: _quoted(connection, unit.column))])

    def names(self) -> list[str]:
        """Return the names of the columns without reading a row; empty if rows may decide them."""
        if database_of(self.url)["kind"] not in _FIXED_COLUMNS:
            return []
        if self.counted_by != ROWS:
            with self._connection(True, True) as opened:
                return [name for name, _ in opened.types()]
        empty = f"SELECT * FROM ({postgres.subquery(self.query)}) named WHERE 1 = 0"  # noqa: S608
        return [*self._asked(True, lambda connection: _query(connection, empty)).columns]

    def _counted(
        self, domain: Domain, limit: Limit | None, cliques: Sequence[Clique]
    ) -> MarginalSource:
        """Count the marginals in the database if it can.

        Its rows are those of one snapshot, in a transaction that writes nothing.
        """
        if self.counted_by == ROWS:
            return super()._counted(domain, limit, cliques)
        unit, key = limit or (None, None)
        blocks = engine_blocks(domain, cliques)
        with redacted("counting the private table"), self._connection(True, True) as opened:
            # No value decides whether the query is refused.
            found = opened.types()
            queries = [*postgres.counting_queries(self.query, domain, found, blocks, unit)]
            return opened.ask(
                lambda one: counted_groups(postgres.groups(one, queries, key), domain, blocks)
            )

    def check_counting(
        self, domain: Domain, unit: PrivacyUnit | None, cliques: Iterable[Clique]
    ) -> None:
        """Have the database parse the query without running it (see `Source.check_counting`)."""
        if self.counted_by == ROWS:
            return
        engine_blocks(domain, cliques)
        with redacted("counting the private table"), self._connection(True, True) as opened:
            postgres.check_columns(opened.types(), domain, unit)

    def _asked(self, private: bool, ask: Callable[[Connection], T]) -> T:
        """Return what a connection to the database answers."""
        with self._connection(private) as opened:
            return opened.ask(ask)

    @contextmanager
    def _connection(self, private: bool, snapshot: bool = False) -> Iterator[_Opened]:
        url = expand_variables(self.url)
        parsed = parsed_url(url)
        secrets = [url, parsed.password] if parsed and parsed.password else [url]
        with ExitStack() as until_read:
            connection = reading(
                self.describe(),
                private,
                lambda: until_read.enter_context(
                    _connected(url, database_of(self.url), snapshot=snapshot)
                ),
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
class _Opened:
    """A connection to a source's database, with the errors of `reading`."""

    source: SqlSource
    connection: Connection
    private: bool
    secrets: Sequence[str]

    def ask(self, what: Callable[[Connection], T], *, values: bool = True) -> T:
        """Return an answer; `values` says whether its errors may depend on values."""
        read = reading_values if values else reading
        asked, place = partial(what, self.connection), self.source.url
        return read(self.source.describe(), self.private, asked, self.secrets, place=place)

    def types(self) -> list[tuple[str, str]]:
        """Return the columns of the source's query with the names of their types."""
        return self.ask(partial(postgres.column_types, query=self.source.query), values=False)


@contextmanager
def _connected(
    url: str, database: Mapping[str, Any], *, snapshot: bool = False
) -> Iterator[Connection]:
    from sqlalchemy import create_engine, make_url

    if snapshot:
        engine = create_engine(
            # psycopg 3 binds parameters at the server.
            make_url(url).set(drivername="postgresql+psycopg"),
            isolation_level="REPEATABLE READ",
            execution_options={"postgresql_readonly": True},
        )
    else:
        engine = create_engine(url)
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
