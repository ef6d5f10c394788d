"""Counting by PostgreSQL: what it agrees with, what it may do, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import make_url

import jam_dagster as jam
from jam_dagster.common.redaction import keeping_details
from jam_dagster.errors import DomainError, InputError, PrivateValuesError, SourceError
from jam_dagster.mechanisms.context import Context
from jam_dagster.privacy import Ledger
from jam_dagster.release.engine import Engine
from jam_dagster.tables import Domain, EncodedTable, SqlSource, Workload, source_from_config
from jam_dagster.tables.codes import ibis_codes
from jam_dagster.tables.codes.block_counts import CountedTable
from jam_dagster.tables.sources import postgres as server
from tests.postgres import PostgresServer

DOMAIN = Domain.from_dict(
    {
        "attributes": {
            "sex": {"values": ["f", "m", "50% or 'x'\\"]},
            "born": {"bounds": ["1990-01-01", "2019-12-31"], "unit": "year"},
            "income": {"edges": [0, 0.1, 10, 100], "outside": "clip", "nullable": True},
            "member": {"values": ["yes", "no"], "nullable": True},
            "seen": {
                "bounds": ["2024-01-01", "2024-12-31"],
                "unit": "hour",
                "every": "month",
                "zone": "America/New_York",
                "nullable": True,
            },
        },
        "impossible": [{"sex": "m", "member": "no"}],
    }
)
ASKED = Workload.all_k_way(DOMAIN, 3).downward_closure()
ROWS = """
('f', '1990-05-01', 0.1, true, '2024-02-01 04:59:59+00'), ('m', '2019-12-31', 'NaN', null, null),
('50% or ''x''\\', '2000-01-01', 1e400, false, '2024-02-01 05:00+00')
"""


@pytest.fixture
def people(postgres: PostgresServer) -> SqlSource:
    url = postgres.create_database()
    name = str(make_url(url).database)
    for statement in (
        "create table people (sex varchar, born date, income numeric, member bool,"
        " seen timestamptz)",
        f"insert into people values {ROWS}",
        "create table secrets (a int)",
        "create table hidden as select * from people",
        "create view seen as select * from hidden",
        "do $$ begin create role reader login; exception when duplicate_object then end $$",
        f"revoke all on database {name} from public",
        f"grant connect on database {name} to reader",
        "grant select on people, seen to reader",
    ):
        postgres.execute(statement, name)
    return SqlSource(url.replace("tester@", "reader@"), "select * from people -- 100%%")


pytestmark = pytest.mark.slow


def test_marginals_are_those_of_the_rows_for_a_role_that_reads_one_table(people: Any) -> None:
    assert people.counted_by == "postgres"
    found = people.counted(DOMAIN, None, None, ASKED)
    assert replace(people, query="select * from seen").counted(DOMAIN, None, None).records == 3
    rows = replace(people, count="rows")
    expected = rows.counted(DOMAIN, None, None, ASKED)
    assert isinstance(found, CountedTable)
    assert isinstance(expected, EncodedTable)
    assert rows.counted_by == "rows"
    for clique in ((), *ASKED):
        assert np.array_equal(found.marginal(clique), expected.marginal(clique))
    empty = replace(people, query="select * from people where false")
    assert empty.counted(DOMAIN, None, None, ASKED).records == 0


def test_columns_have_names_without_a_row(people: Any) -> None:
    columns = ["sex", "born", "income", "member", "seen"]
    assert people.names() == replace(people, count="rows").names() == columns
    # A row would fail.
    assert replace(
        people, query="select 1 / (a - a) as b from generate_series(1, 9) a"
    ).names() == ["b"]


def test_all_is_asked_of_one_snapshot_that_writes_nothing(
    people: Any, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = str(make_url(people.url).database)
    found = server.column_types

    def taken_meanwhile(connection: Any, query: str) -> Any:
        types = found(connection, query)
        postgres.execute("insert into people (sex, born) values ('f', '2001-01-01')", database)
        mode = connection.exec_driver_sql("show transaction_read_only").scalar()
        assert (mode, connection.get_isolation_level()) == ("on", "REPEATABLE READ")
        return types

    monkeypatch.setattr(server, "column_types", taken_meanwhile)
    assert people.counted(DOMAIN, None, None, ASKED).records == 3


def test_texts_are_compared_as_bytes(people: Any, postgres: PostgresServer) -> None:
    database = str(make_url(people.url).database)
    try:
        postgres.execute(
            "create collation loose (provider = icu, locale = 'und-u-ks-level1',"
            " deterministic = false)",
            database,
        )
    except Exception as error:  # A server without ICU.
        pytest.skip(str(error))
    domain = Domain.from_dict({"attributes": {"a": {"values": ["e", "E", "é"]}}})
    rows = "(values ('e'), ('E'), ('E'), ('e' || chr(769)), ('é')) v(a)"
    source = replace(
        people, query=f"select a collate loose as a from {rows} where a <> 'e' || chr(769)"
    )
    assert source.counted(domain, None, None).marginal(("a",)).tolist() == [1, 2, 1]


def test_first_characters_are_those_that_python_counts(people: Any) -> None:
    codes = ("e ", "e\u0301", "éx", "\U0001f600\U0001f600a", "ab", "A")
    weights = dict.fromkeys(codes, 1)
    domain = Domain.from_dict(
        {"attributes": {"a": {"prefix": 2, "weights": weights, "other": "rest"}}}
    )
    seen = (
        *codes,
        *(f"{code}{end}" for code in codes for end in (" ", "\u0301", "z")),
        "",
        "e",
        "a",
    )
    rows = ", ".join(f"('{text}')" for text in seen)
    source = replace(people, query=f"select a from (values {rows}) v(a)")
    found, expected = (
        one.counted(domain, None, None).marginal(("a",)).tolist()
        for one in (source, replace(source, count="rows"))
    )
    assert found == expected
    assert sum(found) == len(seen)
    with pytest.raises(DomainError, match=r"column of type int4 \(.* first characters of texts\)"):
        replace(people, query="select 10001 as a").counted(domain, None, None)


@pytest.mark.parametrize(
    ("query", "error", "message"),
    [
        ("select 1 as sex", DomainError, "no column 'born'"),
        ("select *, 1 as sex from people", SourceError, "two columns of the same name"),
        (
            "select sex, born::text, income, member, seen from people",
            DomainError,
            r"attribute 'born' cannot be counted by postgres in a column of type text .*: rows",
        ),
        (
            "select sex::char(4), born, income, member, seen from people",
            DomainError,
            "type bpchar",
        ),
        ("select * from people where sex like 'f%'", SourceError, "write %% for it"),
        ("select secrets.*, people.* from secrets, people", SourceError, "grant SELECT on it"),
        ("select * from nothing", SourceError, "UndefinedTable"),
        (
            "select 'm' sex, born, income, false member, seen from people",
            PrivateValuesError,
            "always the same",
        ),
        (
            "select 'z' sex, born, income, member, seen from people",
            PrivateValuesError,
            "always the same",
        ),
        (
            "select sex, null::date born, income, member, seen from people",
            PrivateValuesError,
            "always the same",
        ),
        (
            "select sex, born, 1/(born - born) income, member, seen from people",
            PrivateValuesError,
            "",
        ),
    ],
)
def test_refusals(people: Any, query: str, error: type[Exception], message: str) -> None:
    source = replace(people, query=query)
    with pytest.raises(error, match=message) as caught:
        source.counted(DOMAIN, None, None, ASKED)
    assert "1990" not in str(caught.value)


def release(source: SqlSource, name: str, **changes: Any) -> jam.FrameRelease:
    given: dict[str, Any] = {
        "domain": DOMAIN.project(["born", "member"]),
        "epsilon": 1.0,
        "degree": 2,
        "mechanism": "independent",
        "dataset": "people",
        "report": False,
        "checks": False,
        "evaluate": "off",
        # No officer vouches for the queries, which can select whom they like.
        "neighbours": "add_remove",
    }
    given |= {"release": name, "ledger": f"{name}.db", **changes}
    return jam.synthesize(source, None, **given)


def test_what_depends_on_no_row_is_refused_before_an_attempt(
    people: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    wrong = {
        "select sex::char(1), born, member from people": (DomainError, "type bpchar"),
        "select * from nothing": (SourceError, "UndefinedTable"),
    }
    domain = DOMAIN.project(["sex", "born", "member"])
    for name, (query, (error, message)) in zip("ab", wrong.items(), strict=True):
        for _ in range(2):
            with pytest.raises(error, match=message):
                release(replace(people, query=query), name, domain=domain)
        assert Ledger(f"{name}.db").verify().accesses.attempts == 0
    # Whether a row fails is not told before the attempt counts.
    failing = replace(
        people, query="select sex, born + 9 / (1 - member::int) born, member from people"
    )
    failing.check_counting(domain, None, [])
    with pytest.raises(PrivateValuesError):
        release(failing, "c", domain=domain)
    assert Ledger("c.db").verify().accesses.not_ended == 1


def test_the_owner_reads_what_stopped_a_query(people: Any, postgres: PostgresServer) -> None:
    database = make_url(people.url).database
    postgres.execute(f"alter database {database} set statement_timeout = '50ms'", str(database))
    slow = replace(people, query="select people.* from people, pg_sleep(1)")
    noted: list[str] = []
    with pytest.raises(PrivateValuesError), keeping_details(noted.append):
        slow.counted(DOMAIN, None, None, ASKED)
    assert "psycopg.errors.QueryCanceled" in noted[0]


def test_what_counting_needs(people: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_psycopg(name: str) -> object:
        return None if name == "psycopg" else name

    monkeypatch.setattr(server, "find_spec", without_psycopg)
    remedy = ": pip install 'jam-dagster[warehouse]'"
    assert (people.counted_by, people.lacks) == ("rows", f"psycopg is not installed{remedy}")
    monkeypatch.setattr(ibis_codes, "version", lambda name: "11.0.0")
    assert (people.counted_by, people.lacks) == ("rows", f"ibis 11.0.0 is older than 12{remedy}")
    assert replace(people, count="rows").lacks is None


def test_a_release_goes_on_as_it_began(
    people: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = {}
    counted: list[str | None] = []
    kept = SqlSource.counted

    def seen(self: SqlSource, *asked: Any) -> Any:
        counted.append(self.counted_by)
        return kept(self, *asked)

    monkeypatch.setattr(SqlSource, "counted", seen)
    rows = replace(people, count="rows")
    for name, first, second in (("a", rows, people), ("b", people, rows), ("d", people, None)):
        with monkeypatch.context() as patched:
            patched.setattr(Engine, "evaluate", interrupted)
            with pytest.raises(KeyboardInterrupt):
                release(first, name, evaluate="private")
        if second is not None:
            made[name] = release(second, name, evaluate="private")
    assert counted == ["rows", "rows", "postgres", "postgres", "postgres"]
    assert [one.certificate.counted_by for one in made.values()] == ["rows", "postgres"]

    monkeypatch.setattr(ibis_codes, "version", not_installed)
    with pytest.raises(
        InputError, match=r"counts of a database, and ibis .*jam-dagster\[warehouse"
    ):
        release(people, "d", evaluate="private")
    assert "rows of the private table are read here, since ibis" in str(
        release(people, "c").messages
    )
    assert counted[5:] == ["rows"]


def interrupted(*_: Any, **__: Any) -> None:
    """Stop a release that has draws left."""
    raise KeyboardInterrupt


def not_installed(name: str) -> str:
    raise PackageNotFoundError(name)


def test_a_release_whose_counts_nobody_knows_any_more_draws_no_further(
    people: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    measure, done = Context.measure, []

    def killed(self: Context, clique: Any, rho: float, **given: Any) -> Any:
        if done:
            raise KeyboardInterrupt
        done.append(clique)
        return measure(self, clique, rho, **given)

    monkeypatch.setattr(Context, "measure", killed)
    with pytest.raises(KeyboardInterrupt):
        release(people, "a")
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    (digest,) = Path("a.db-private/contents").iterdir()
    kept = digest.read_bytes()
    digest.unlink()
    for source in (people, replace(people, count="rows")):
        with pytest.raises(InputError, match=r"keyed digest of the counts .* draws left to make"):
            release(source, "a")
    digest.write_bytes(kept)
    assert release(people, "a").certificate.counted_by == "postgres"
    # Nothing is left to draw: a private store may be lost.
    digest.unlink()
    release(people, "a")


def test_the_key(postgres: PostgresServer) -> None:
    config = {"sql": postgres.url("postgres"), "query": "select 1", "count": "rows"}
    source = source_from_config(config)
    assert source.to_dict() == config
    # How rows are counted changes none of them.
    assert source.identity() == replace(source, count=None).identity()
    assert SqlSource("sqlite:///a.db", "select 1").counted_by == "rows"
