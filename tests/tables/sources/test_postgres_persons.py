"""Rows of a person, limited by PostgreSQL: which ones stay, and what is refused."""

from __future__ import annotations

import hashlib
import random
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jam_dagster as jam
from jam_dagster.errors import DomainError, InputError, PrivateValuesError
from jam_dagster.tables import Domain, PrivacyUnit, SqlSource
from jam_dagster.tables.sources import postgres as server
from tests.postgres import PostgresServer

pytestmark = pytest.mark.slow

Row = tuple[str, str | None, int]

DOMAIN = Domain.from_dict(
    {"attributes": {"a": {"values": ["x", "y"], "nullable": True}, "b": {"edges": [0, 3, 6]}}}
)
KEY = bytes(range(32))
# Some collations take several of these for one person.
PERSONS = ["a", "A", "a ", "", "é", "e\u0301", "50%", "%(key)s", "1:0,0", "\\", "\U0001f600"]


def table_of(rows: Iterable[Row], postgres: PostgresServer) -> SqlSource:
    def text(value: object) -> str:
        return "null" if value is None else "'" + str(value).replace("'", "''") + "'"

    values = ", ".join(f"({text(p)}, {text(a)}, {b})" for p, a, b in rows)
    url = postgres.create_database()
    name = url.split("?")[0].rsplit("/", 1)[1]
    postgres.execute("create table t (p text, a text, b int)", name)
    postgres.execute(f"insert into t values {values}", name)
    return SqlSource(url, "select * from t")


def expected(rows: Iterable[Row], key: bytes, limit: int) -> list[list[int]]:
    """Return the counts of the rows that stay, chosen person by person."""
    places: Counter[tuple[str, str]] = Counter()
    tickets = defaultdict(list)
    for person, a, b in rows:
        codes = (2 if a is None else "xy".index(a), int(b >= 3))
        content = ",".join(map(str, codes))
        place = places[person, content]
        places[person, content] += 1
        text = f"{key.hex()}:{place}:{content}:{person.encode().hex()}"
        tickets[person].append((hashlib.sha256(text.encode()).digest(), codes))
    counts = np.zeros((3, 2), int)
    for person in tickets:
        for _, codes in sorted(tickets[person])[:limit]:
            counts[codes] += 1
    return counts.tolist()


def test_which_rows_stay_follows_from_a_persons_own_rows_and_the_key(
    postgres: PostgresServer,
) -> None:
    drawn = random.Random(0)
    rows = [
        (drawn.choice(PERSONS), drawn.choice(["x", "y", None]), drawn.randrange(7))
        for _ in range(80)
    ]
    source = table_of(rows, postgres)
    shuffled = replace(source, query="select * from t order by md5(t::text) -- 100%%")
    seen = set()
    for limit, key in ((1, KEY), (3, KEY), (3, KEY[::-1]), (100, KEY)):
        unit = PrivacyUnit("p", limit)
        counts = expected(rows, key, limit)
        seen.add(str(counts))
        found = source.counted(DOMAIN, unit, key, [("a", "b")])
        assert found.marginal(("a", "b")).tolist() == counts
        # The same rows are counted, in any order, whichever marginals are asked for.
        alone = shuffled.counted(DOMAIN, unit, key, [])
        assert alone.marginal(("a",)).tolist() == np.sum(counts, axis=1).tolist()
        read = replace(source, count="rows")
        assert found.records == source.count_records(unit) == read.count_records(unit)
    assert len(seen) == 4


def test_other_types_tell_persons_apart_as_their_texts_do(postgres: PostgresServer) -> None:
    source = table_of([("1", "x", 0), ("1", "x", 5), ("2", "y", 0)], postgres)
    unit = PrivacyUnit("p", 1)
    typed = ("p::int", "p::bigint", "lpad(p, 32, '0')::uuid p", "p::varchar(9)")
    for as_type in (
        *typed,
        "p::int + date '1999-12-30' p",
        "concat(p, '.', repeat('0', b))::numeric p",
    ):
        found = replace(source, query=f"select {as_type}, a, b from t")
        assert found.counted(DOMAIN, unit, KEY).marginal(("a",)).tolist() == [1, 1, 0]
        assert found.count_records(unit) == replace(found, count="rows").count_records(unit) == 2


def test_the_key_is_in_no_text_of_a_query(postgres: PostgresServer) -> None:
    source = table_of([("1", "x", 0)], postgres)
    unit = PrivacyUnit("p", 1)
    with source._connection(True, True) as opened:
        blocks = [("a", "b")]
        queries = list(server.counting_queries(source.query, DOMAIN, opened.types(), blocks, unit))

        def texts(connection):  # type: ignore[no-untyped-def]
            next(server.groups(connection, queries, KEY))
            # The server would compile long expressions for minutes.
            assert connection.exec_driver_sql("select current_setting('jit')").scalar() == "off"
            known = "select statement from pg_cursors union select query from pg_stat_activity"
            return str(connection.exec_driver_sql(known).all())

        found = opened.ask(texts)
    assert "DECLARE" in found
    assert KEY.hex() not in found


def test_a_server_that_logs_everything_logs_no_value(postgres: PostgresServer) -> None:
    rows = [("person-canary", "value-canary", 5), ("person-canary", "x", 0)]
    source = table_of(rows, postgres)
    name = source.url.split("?")[0].rsplit("/", 1)[1]
    other = Domain.from_dict({"attributes": {"a": {"values": ["x", "other"], "other": "other"}}})
    before = (postgres.folder / "log").stat().st_size
    for setting in ("log_statement = 'all'", "log_duration = on"):
        postgres.execute(f"alter database {name} set {setting}", name)
    assert source.counted(other, PrivacyUnit("p", 2), KEY).marginal(("a",)).tolist() == [1, 1]
    source.count_records(PrivacyUnit("p", 2))
    with pytest.raises(PrivateValuesError):
        source.counted(DOMAIN, PrivacyUnit("p", 2), KEY)
    log = (postgres.folder / "log").read_bytes()[before:].decode()
    assert log.count("jam_query") >= 2
    assert "canary" not in log
    # Administrators may see the key where they log parameters, and in no text of a query.
    parameters = [line for line in log.splitlines() if KEY.hex() in line]
    assert all("DETAIL" in line and "arameters" in line for line in parameters)


def test_a_release_leaves_no_value_in_the_server_s_log_or_its_own_files(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [(f"person-canary-{n % 40}", "value-canary", n % 7) for n in range(97)]
    source = table_of(rows, postgres)
    name = source.url.split("?")[0].rsplit("/", 1)[1]
    for setting in ("log_statement = 'all'", "log_duration = on", "log_parameter_max_length = 0"):
        postgres.execute(f"alter database {name} set {setting}", name)
    before = (postgres.folder / "log").stat().st_size
    other = {"values": ["x", "other"], "other": "other"}
    domain = Domain.from_dict({"attributes": {"a": other, "b": {"edges": [0, 3, 6]}}})
    given: dict[str, Any] = {
        "domain": domain,
        "dataset": "people",
        "epsilon": 1.0,
        "ledger": "a.db",
        "report": False,
        "checks": False,
        "evaluate": "private",
    }
    given |= {"privacy_unit": "p", "max_rows": 2, "mechanism": "independent", "degree": 2}
    made = jam.synthesize(source, None, release="a", **given)
    with pytest.raises(PrivateValuesError) as refused:
        jam.synthesize(source, None, release="b", **{**given, "domain": DOMAIN, "ledger": "b.db"})
    assert made.certificate.counted_by == "postgres"
    log = (postgres.folder / "log").read_bytes()[before:]
    assert log.count(b"jam_query") >= 2
    (key,) = (path.read_bytes().hex().encode() for path in Path("a.db-releases").rglob("*.key"))
    told = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    assert any("failures" in path.parts for path in told)
    # Not even the owner is told a value that the server never sent.
    for content in (log, *told.values()):
        assert b"canary" not in content
        assert key not in content
    assert "canary" not in f"{made!r} {made.messages} {refused.value!r}"


@pytest.mark.parametrize(
    ("query", "error", "message"),
    [
        ("select a, b from t", InputError, "no column 'p' to identify a person"),
        ("select p::float8, a, b from t", DomainError, "'p' identifies .* float8: .*count: rows"),
        ("select nullif(p, '2') p, a, b from t", PrivateValuesError, "always the same"),
        ("select p, 'z' a, b from t", PrivateValuesError, "always the same"),
    ],
)
def test_refusals(
    postgres: PostgresServer, query: str, error: type[Exception], message: str
) -> None:
    source = replace(table_of([("1", "x", 0), ("2", "y", 0)], postgres), query=query)
    unit = PrivacyUnit("p", 1)
    with pytest.raises(error, match=message):
        source.counted(DOMAIN, unit, KEY)
    if error is PrivateValuesError:
        # What is not charged tells nothing of a row of nobody.
        assert source.count_records(unit) == (1 if "nullif" in query else 2)
    else:
        with pytest.raises(error, match=message):
            source.count_records(unit)
