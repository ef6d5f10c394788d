"""Rows of PostgreSQL by ADBC: the columns of a query, and its rows as batches of declared types."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import time
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from jam_dagster.common.deferred import pd
from jam_dagster.errors import DomainError, SourceError
from jam_dagster.tables.domain.columns import each_value
from jam_dagster.tables.sources.reading import READ_ROWS, quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from adbc_driver_manager.dbapi import Cursor
    from sqlalchemy import URL

# With any settings of the server a value has one text, and no notice of a function is sent.
_SETTINGS = {
    "TimeZone": "UTC",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "extra_float_digits": "1",
    "client_min_messages": "error",
}

# Their Arrow types hold what they hold, and infinite dates become years that Python does not have.
_AS_THEY_ARE = ("bool", "int2", "int4", "int8", "float8", "date", "timestamp", "timestamptz")

# The text that the server itself writes, such as a file's; a cast adds a mask to an address.
_TEXT = "CASE WHEN {0} IS NOT NULL THEN pg_catalog.concat({0}) END"
_SELECTED = {
    # The shortest text, as people read it.
    "float4": "CAST(CAST({0} AS text) AS float8)",
    "numeric": "CASE WHEN {0} <> 'NaN' THEN pg_catalog.concat({0}) END",
}
# Decimals of so many digits are as many floats, each with a text of its own.
_FLOAT_DIGITS = 15
# The numbers 7 and 7.00 are one person. A format of another language would read 1.505 as thousands,
# and no format reads 1.505e0.
_LONG_NUMERIC = """CASE WHEN {0} <> 'NaN' THEN pg_catalog.concat(pg_catalog.trim_scale({0}),
CASE WHEN pg_catalog.scale(pg_catalog.trim_scale({0})) = 3 THEN 'e0' END) END"""

# The last semicolon, before comments. Within quotes it could be a part of a value.
_END = re.compile(
    r""";(?=(?:[\s;]|--[^\n'"$`\]]*(?:\n|\Z)|/\*(?:(?!\*/)[^'"$`\]])*\*/)*\Z)""", re.ASCII
)
# Locked tables that the user may not read; those of a view are read as its owner.
_UNREADABLE = """
SELECT 1 FROM pg_catalog.pg_locks JOIN pg_catalog.pg_class tables ON relation = tables.oid
WHERE pid = pg_backend_pid() AND locktype = 'relation' AND relkind IN ('f', 'm', 'p', 'r', 'v')
AND relnamespace <> CAST('pg_catalog' AS regnamespace)
AND NOT has_any_column_privilege(tables.oid, 'SELECT')
AND tables.oid NOT IN (
    SELECT refobjid FROM pg_catalog.pg_depend
    WHERE classid = CAST('pg_catalog.pg_rewrite' AS regclass)
)
"""


@contextmanager
def snapshot(url: URL) -> Iterator[Cursor]:
    """Connect to a server, and begin a transaction of one snapshot that writes nothing."""
    try:
        import adbc_driver_postgresql.dbapi as driver
    except ImportError:
        raise SourceError(
            "a table of PostgreSQL is read by its ADBC driver: install it, with pip install"
            " 'jam-dagster[postgres]'"
        ) from None
    with driver.connect(_connection_string(url)) as connection, connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        given = (f"set_config('{name}', '{value}', true)" for name, value in _SETTINGS.items())
        _answer(cursor, f"SELECT {', '.join(given)}")
        yield cursor


def _connection_string(url: URL) -> str:
    """Return a URL of SQLAlchemy as libpq's words, whose texts come in UTF-8."""
    plain = url.set(drivername="postgresql+psycopg")
    _, given = plain.get_dialect()().create_connect_args(plain)
    words = {**given, "client_encoding": "UTF8"}
    escaped = {name: re.sub(r"(['\\])", r"\\\1", str(value)) for name, value in words.items()}
    return " ".join(f"{name}='{value}'" for name, value in escaped.items())


def schema(cursor: Cursor, query: str) -> pa.Schema:
    """Return the columns of a query, with the server's types.

    The query is parsed, and neither planned nor run, so that no row decides whether this succeeds.
    Its tables are locked from here on: no type changes before they are read.
    """
    found = _parsed(cursor, f"SELECT * FROM ({subquery(query)}) asked")  # noqa: S608
    if _answer(cursor, _UNREADABLE):
        raise SourceError("its user may not read a table of the query: grant SELECT on it")
    return found


def selecting(query: str, columns: Sequence[pa.Field], *, private: bool) -> str:
    """Return the query of some of `schema`'s columns, as types that hold what they are read as.

    Texts of public numbers keep the decimals that the server writes.

    Raises
    ------
    DomainError
        A column has no text that a file would have.
    """
    selected = ", ".join(f"{_selected(one, private)} AS {quoted(one.name)}" for one in columns)
    return f"SELECT {selected} FROM ({subquery(query)}) asked"  # noqa: S608


def _selected(column: pa.Field, private: bool) -> str:
    import pyarrow as pa

    kind, name = column.type, type_name(column)
    if pa.types.is_nested(kind) or pa.types.is_binary(kind):
        raise DomainError(
            f"column {column.name!r} has type {name}, whose values are no texts, numbers or dates:"
            " cast it in the query, or leave it out. Nothing was charged"
        )
    place = quoted(column.name)
    if name in _AS_THEY_ARE or pa.types.is_string(kind):
        return place
    if name == "numeric" and private:
        short = 0 < _digits(column) <= _FLOAT_DIGITS
        return ("CAST({0} AS float8)" if short else _LONG_NUMERIC).format(place)
    return _SELECTED.get(name, _TEXT).format(place)


def type_name(column: pa.Field) -> str:
    """Return the server's name of the type of one of `schema`'s columns."""
    return str((column.metadata or {}).get(b"POSTGRESQL:type", b"unknown"), "utf-8")


def _digits(column: pa.Field) -> int:
    """Return how many digits a column of decimals has at most, 0 if any number."""
    return (int((column.metadata or {}).get(b"POSTGRESQL:typmod", -1)) - 4) // 2**16


def batches(
    cursor: Cursor, query: str, columns: Sequence[pa.Field], *, private: bool
) -> Iterator[pa.RecordBatch]:
    """Yield a query's rows with some of `schema`'s columns, which keep the server's types.

    The first batch has no rows, and the query is run after it.
    """
    import pyarrow as pa

    selected = selecting(query, columns, private=private)
    found = _parsed(cursor, selected)
    kept = pa.schema(
        [one.with_metadata(own.metadata) for one, own in zip(found, columns, strict=True)]
    )
    yield pa.RecordBatch.from_pylist([], schema=kept)
    cursor.execute(selected)
    for batch in cursor.fetch_record_batch():
        rows = pa.RecordBatch.from_arrays(batch.columns, schema=kept)
        for start in range(0, len(rows), READ_ROWS):
            yield rows.slice(start, READ_ROWS)


def counted(cursor: Cursor, query: str) -> int:
    """Count the rows of a query."""
    ((rows,),) = _answer(cursor, f"SELECT count(*) FROM ({subquery(query)}) counted")  # noqa: S608
    return int(rows)


def _answer(cursor: Cursor, query: str) -> list[tuple[Any, ...]]:
    cursor.execute(query)
    return cursor.fetchall()


def _parsed(cursor: Cursor, query: str) -> pa.Schema:
    try:
        return cursor.adbc_execute_schema(query)
    except Exception as error:
        from psycopg.errors import lookup

        # The driver's errors have a class for many faults, and PostgreSQL's has one for each.
        state = getattr(error, "sqlstate", None)
        if state is None:
            raise
        fault = lookup(state)(str(error))
    raise fault


def with_types(table: pd.DataFrame, columns: Sequence[pa.Field]) -> pd.DataFrame:
    """Give a public table's texts of numbers, times and lengths a type, where the text has one."""
    readers: dict[str, Callable[[str], Any]] = {
        "numeric": Decimal,
        "time": time.fromisoformat,
        "interval": pd.Timedelta,
    }
    for column in columns:
        if (read := readers.get(type_name(column))) is not None:
            texts = table[column.name]
            cells = each_value(texts, partial(_read_by, read), None)
            table[column.name] = pd.Series(cells, table.index, dtype=object)
    return table


def _read_by(read: Callable[[str], Any], text: str) -> Any:
    try:
        return read(text)
    except ValueError:
        return text


def subquery(query: str) -> str:
    """Return a query for use within parentheses, without semicolons at its end."""
    return f"\n{_END.sub('', query.strip())}\n"
