"""Counting by PostgreSQL: the columns of a query, their types, and the counting query."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from jam_dagster.common.deferred import pd
from jam_dagster.errors import DomainError, SourceError
from jam_dagster.tables.codes.ibis_codes import (
    KEY,
    PERSON,
    SOURCE,
    counted_kind,
    counting_query,
    ibis_is_missing,
)
from jam_dagster.tables.domain.attributes import Kind
from jam_dagster.tables.sources.reading import quoted

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from jam_dagster.tables.codes.privacy_unit import PrivacyUnit
    from jam_dagster.tables.domain.domain import Clique, Domain

_CHUNK_ROWS = 1 << 16
# Planning a statement with more blocks takes too long; all statements read one snapshot.
_MOST_BLOCKS = 64

# Numbers beyond the range of floats, for which a cast is an error.
_TOO_LARGE = 2**1024 - 2**970
_TOO_SMALL = f"0.{5**1075:01075d}"

_TEXTS = ("text", "varchar")
_KINDS: dict[str, tuple[Kind, str]] = {
    "bool": ("boolean", "{0}"),
    "int2": ("integer", "{0}"),
    "int4": ("integer", "{0}"),
    "int8": ("integer", "{0}"),
    # The driver reads the shortest text of a float.
    "float4": ("float", "CAST(CAST({0} AS text) AS float8)"),
    "float8": ("float", "{0}"),
    "numeric": (
        "decimal",
        "CASE WHEN {0} = 'NaN' THEN CAST('NaN' AS float8)"
        f" WHEN {{0}} >= {_TOO_LARGE} THEN CAST('Infinity' AS float8)"
        f" WHEN {{0}} <= -{_TOO_LARGE} THEN CAST('-Infinity' AS float8)"
        f" WHEN abs({{0}}) <= {_TOO_SMALL} THEN 0 ELSE CAST({{0}} AS float8) END",
    ),
    **dict.fromkeys(_TEXTS, ("text", 'CAST({0} AS text) COLLATE "C"')),
    # Dates go further than timestamps.
    "date": (
        "timestamp",
        "CASE WHEN {0} > DATE '9999-12-31' THEN TIMESTAMP 'infinity'"
        " ELSE CAST({0} AS timestamp) END",
    ),
    "timestamp": ("timestamp", "{0}"),
    "timestamptz": ("instant", "{0}"),
    "time": ("time", "{0}"),
}
"""Kind and SQL expression of the values of each type that can be counted, by its name."""

_PERSONS = {
    **dict.fromkeys(("int2", "int4", "int8", "text", "varchar", "uuid"), "CAST({0} AS text)"),
    "numeric": "CAST(trim_scale({0}) AS text)",
    "date": "CAST({0} - DATE '2000-01-01' AS text)",
}
"""SQL text of a person, by the name of the type; it separates the same persons as rows do."""


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
_SINGLE_PERCENT = re.compile(r"(?<!%)(?:%%)*%(?!%)")


def missing() -> str | None:
    """Return which package for counting is missing or too old, and the remedy; None if none is."""
    lacks = ibis_is_missing() or ("" if find_spec("psycopg") else "psycopg is not installed")
    return f"{lacks}: pip install 'jam-dagster[warehouse]'" if lacks else None


def column_types(connection: Connection, query: str) -> list[tuple[str, str]]:
    """Return the columns of a query with the names of their types.

    The query is parsed, and neither planned nor run, so that no row decides whether this succeeds.
    """
    settings = connection.exec_driver_sql(
        "SELECT current_setting('server_encoding'),"
        " current_setting('standard_conforming_strings', true)"
    ).one()
    # Otherwise the server would read the domain's texts in its own way.
    plain = settings[0] == "UTF8" and settings[1] in (None, "on")
    found = connection.exec_driver_sql(
        "SELECT CAST(oid AS bigint), typname, typnamespace = CAST('pg_catalog' AS regnamespace)"
        " FROM pg_catalog.pg_type"
    )
    types = {}
    for oid, name, builtin in found:
        counted = builtin and (plain or name not in _TEXTS)
        types[int(oid)] = str(name) if counted else f"{name}, which the server reads in its own way"
    # Its tables are locked from here on: no type changes before they are counted.
    described = parse(connection, f"SELECT * FROM ({subquery(query)}) asked")  # noqa: S608
    if connection.exec_driver_sql(_UNREADABLE).first():
        raise SourceError("its user may not read a table of the query: grant SELECT on it")
    return [(name, types[oid]) for name, oid in described]


def parse(connection: Connection, query: str) -> list[tuple[str, int]]:
    """Have the server parse a query, and return its columns with the numbers of their types."""
    from psycopg.errors import lookup
    from psycopg.pq import DiagnosticField, ExecStatus

    if _SINGLE_PERCENT.search(query):
        raise SourceError("the query has a single percent sign: write %% for it")
    connected: Any = connection.connection.driver_connection
    encoding = connected.info.encoding
    server = connected.pgconn
    result = server.prepare(b"", query.replace("%%", "%").encode(encoding))
    if result.status == ExecStatus.COMMAND_OK:
        result = server.describe_prepared(b"")
    if result.status != ExecStatus.COMMAND_OK:
        state = result.error_field(DiagnosticField.SQLSTATE) or b""
        raise lookup(state.decode())(result.error_message.decode(encoding, "replace"))
    columns = range(result.nfields)
    return [(result.fname(one).decode(encoding), result.ftype(one)) for one in columns]


def check_columns(
    found: Sequence[tuple[str, str]], domain: Domain, unit: PrivacyUnit | None = None
) -> None:
    """Raise unless the columns of a query are there, and can be counted as they are read."""
    types = dict(found)
    if len(types) < len(found):
        raise SourceError("the query returns two columns of the same name: give each one an alias")
    for one in domain.attributes:
        if one.name not in types:
            raise DomainError(
                f"the private table has no column {one.name!r}: add it, rename the column that"
                " holds it, or remove the attribute from the domain"
            )
        type_ = types[one.name]
        counted_kind(one, _KINDS.get(type_, (None, ""))[0], type_, "postgres")
    if unit is not None:
        _person(unit, types)


def counting_queries(
    query: str,
    domain: Domain,
    found: Sequence[tuple[str, str]],
    blocks: Sequence[Clique],
    unit: PrivacyUnit | None = None,
) -> Iterator[tuple[str, Sequence[Clique]]]:
    """Yield queries, with the parameter `KEY` if rows are limited, and the blocks they count."""
    check_columns(found, domain, unit)
    types = dict(found)
    limit, most = "", None
    if unit is not None:
        limit = f", {_person(unit, types)} AS {PERSON}, CAST(%({KEY})s AS text) AS {KEY}"
        most = unit.max_rows
    kinds = {name: _KINDS.get(kind, (None, ""))[0] for name, kind in types.items()}
    for start in range(0, len(blocks), _MOST_BLOCKS):
        part = blocks[start : start + _MOST_BLOCKS]
        used = [one for one in domain.names if unit or any(one in block for block in part)]
        counting = counting_query(domain, kinds, types, part, "postgres", max_rows=most)
        read = ", ".join(
            f"{_KINDS[types[name]][1].format(_doubled(quoted(name)))} AS c{index}"
            for index, name in enumerate(used)
        )
        source = f"{SOURCE} AS (SELECT {read}{limit} FROM jam_query)"  # noqa: S608
        given = f"jam_query AS ({subquery(query)}), {source}"
        yield f"WITH {given} SELECT * FROM ({_doubled(counting)}) counted", part  # noqa: S608


def records_query(query: str, found: Sequence[tuple[str, str]], unit: PrivacyUnit) -> str:
    """Return the query that counts the rows that are kept of persons; others do not count."""
    person = _person(unit, dict(found))
    persons = f"SELECT {person} AS person FROM ({subquery(query)}) asked"  # noqa: S608
    rows = f"SELECT count(*) AS n FROM ({persons}) each WHERE person IS NOT NULL GROUP BY person"  # noqa: S608
    return f"SELECT coalesce(sum(least(n, {unit.max_rows})), 0) FROM ({rows}) counted"  # noqa: S608


def _person(unit: PrivacyUnit, types: Mapping[str, str]) -> str:
    """Return a person's bytes as text: no collation takes two persons for one."""
    unit.count([pd.DataFrame(columns=list(types))])
    kind = types[unit.column]
    if kind not in _PERSONS:
        raise DomainError(
            f"column {unit.column!r} identifies a person, and postgres cannot compare persons in a"
            f" column of type {kind}: cast the column in the query, or let the source read rows,"
            " with `count: rows`. Nothing was charged"
        )
    text = _PERSONS[kind].format(_doubled(quoted(unit.column)))
    return f"encode(convert_to({text}, 'UTF8'), 'hex') COLLATE \"C\""


def groups(
    connection: Connection,
    queries: Sequence[tuple[str, Sequence[Clique]]],
    key: bytes | None = None,
) -> Iterator[tuple[Clique, npt.NDArray[np.int64]]]:
    """Yield the results of `counting_queries`: a block, some of its cells, and their counts."""
    # Compiling such long expressions takes minutes, which is longer than running them.
    compiled = "SELECT set_config(name, 'off', true) FROM pg_catalog.pg_settings WHERE name = 'jit'"
    connection.exec_driver_sql(compiled).all()
    streamed = connection.execution_options(stream_results=True, max_row_buffer=_CHUNK_ROWS)
    # The key is a parameter, so that no query's text has it.
    bound = None if key is None else {KEY: key.hex()}
    for query, blocks in queries:
        with streamed.exec_driver_sql(query, bound) as result:
            for part in result.partitions(_CHUNK_ROWS):
                found = np.array([tuple(row) for row in part], dtype=np.int64).T
                for number in np.unique(found[0]):
                    yield blocks[number], found[1:, found[0] == number]


def _doubled(text: str) -> str:
    # The driver takes a single percent sign for the start of a parameter.
    return text.replace("%", "%%")


def subquery(query: str) -> str:
    """Return a query for use within parentheses, without semicolons at its end."""
    return f"\n{_END.sub('', query.strip())}\n"
