"""Tables of PostgreSQL: their rows in one snapshot, refusals, and errors without a value."""

from __future__ import annotations

import builtins
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

import jam_dagster as jam
from jam_dagster.common.redaction import keeping_details
from jam_dagster.errors import DomainError, InputError, PrivateValuesError, SourceError
from jam_dagster.mechanisms.context import Context
from jam_dagster.privacy import Ledger
from jam_dagster.tables import Domain, PrivacyUnit, SqlSource, Workload, source_from_config
from jam_dagster.tables.sources.reading import READ_ROWS
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
CODES = [[0, 1, 2], [0, 29, 10], [1, 3, 2], [0, 2, 1], [0, 12, 1]]


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
    return SqlSource(url.replace("tester@", "reader@"), "select * from people; -- 100%")


pytestmark = pytest.mark.slow


def database_of(source: SqlSource) -> str:
    return str(make_url(source.url).database)


def test_rows_are_read_by_a_role_that_reads_one_table(people: SqlSource) -> None:
    for query in (people.query, "select * from seen", "table people", "values (1)\n;"):
        source = replace(people, query=query)
        if query.startswith("values"):
            assert source.read(private=True).to_numpy().tolist() == [[1]]
            continue
        found = source.counted(DOMAIN, None, None, ASKED)
        assert found.records == source.count_records(None) == 3
        assert [found.column(name).tolist() for name in DOMAIN.names] == CODES
    empty = replace(people, query="select * from people where false")
    assert empty.counted(DOMAIN, None, None, ASKED).records == empty.count_records(None) == 0


@pytest.mark.parametrize("driver", ["postgresql", "postgresql+psycopg", "postgresql+psycopg2"])
def test_every_spelling_of_the_url_is_read(
    people: SqlSource, driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = make_url(people.url)
    monkeypatch.setenv("SOCKET", str(url.query["host"]))
    # Texts come in UTF-8, whatever else is asked for.
    spelled = f"{driver}://reader:p%40s'\\s@/{url.database}?host=${{SOCKET}}&client_encoding=latin1"
    source = replace(people, url=f"{spelled}&sslmode=prefer&application_name=é")
    assert source.count_records(None) == 3
    # Of several hosts the first that answers.
    several = f"{driver}://reader@/{url.database}?host=/nowhere:5432&host=${{SOCKET}}:5432"
    assert replace(people, url=several).names() == people.names()


def test_settings_of_a_role_change_no_text(people: SqlSource, postgres: PostgresServer) -> None:
    asked = replace(
        people,
        query="select daterange('2024-01-02', '2024-02-01') a, interval '1 day 2 hours' b,"
        " timestamptz '2024-01-02 03:04:05+00' c, 0.1::float4 d",
    )
    before = asked.read(private=True).astype(str).to_numpy().tolist()
    for setting in (
        "datestyle = 'SQL, DMY'",
        "intervalstyle = 'iso_8601'",
        "timezone = 'Asia/Tokyo'",
    ):
        postgres.execute(f"alter role reader set {setting}", database_of(people))
    try:
        assert asked.read(private=True).astype(str).to_numpy().tolist() == before
    finally:
        postgres.execute("alter role reader reset all", database_of(people))


def test_columns_have_names_without_a_row(people: SqlSource) -> None:
    assert people.names() == ["sex", "born", "income", "member", "seen"]
    failing = replace(people, query="select 1 / (a - a) as b from generate_series(1, 9) a")
    assert failing.names() == ["b"]


def test_batches_are_of_one_snapshot_that_writes_nothing(
    people: SqlSource, postgres: PostgresServer
) -> None:
    many = replace(people, query=f"select p.* from people p, generate_series(1, {READ_ROWS}) s")
    modes = "current_setting('transaction_isolation') || current_setting('transaction_read_only')"
    asked = replace(people, query=f"select {modes} as a, current_setting('timezone') as b")
    assert asked.read(private=True).to_numpy().tolist() == [["repeatable readon", "UTC"]]
    batches = many.batches(["sex", "born"])
    first = next(batches)
    assert (len(first), first.schema.names) == (0, ["sex", "born"])
    # Another session writes before the query is run, and while its rows come.
    for _ in range(2):
        postgres.execute(
            "insert into people (sex, born) values ('f', '2001-01-01')", database_of(people)
        )
        with pytest.raises(Exception, match="lock timeout"):
            postgres.execute("set lock_timeout = '50ms'; drop table people", database_of(people))
        assert len(next(batches)) == READ_ROWS
    batches.close()
    postgres.execute("drop table people", database_of(people))
    with pytest.raises(SourceError, match="UndefinedTable"):
        people.count_records(None)


def test_types_of_a_public_table_are_those_of_the_server(people: SqlSource) -> None:
    query = """select 1.505::numeric(9,3) price, time '08:30' at, interval '90 minutes' length,
        date '2024-01-02' born, 7::int2 small, 0.1::float4 single, null::bool flag
        union all select 2, null, null, null, null, 1, true"""
    table = replace(people, query=query).read(private=False)
    assert table.dtypes.astype(str).to_dict() == {
        "price": "decimal128(38, 3)[pyarrow]",
        "at": "time64[us][pyarrow]",
        "length": "timedelta64[us]",
        "born": "date32[day][pyarrow]",
        "small": "Int16",
        "single": "float64",
        "flag": "boolean",
    }
    assert (table["price"][0], table["single"][0]) == (Decimal("1.505"), 0.1)
    kept = replace(people, query="select interval '1 mon' a, time '24:00' b, 'NaN'::numeric c")
    assert kept.read(private=False).to_numpy(dtype=object).tolist() == [["1 mon", "24:00:00", None]]


def test_no_number_of_another_language_is_read_for_the_server_s(people: SqlSource) -> None:
    domain = Domain.from_dict(
        {"attributes": {"a": {"bounds": [0, 10000], "bins": 10, "format": "#.##0,00"}}}
    )
    texts = Domain.from_dict({"attributes": {"a": {"values": ["1.505", "b"], "other": "b"}}})
    for kind in ("numeric", "numeric(30, 3)", "numeric(9, 3)", "numeric(15, 11)"):
        source = replace(people, query=f"select a::{kind} from (values (1.505), (1505)) v(a)")
        assert source.counted(domain, None, None).column("a").tolist() == [0, 1]
        if kind in ("numeric(9, 3)", "numeric(15, 11)"):
            assert source.counted(texts, None, None).column("a").tolist() == [0, 1]


def test_names_and_texts_may_be_anything(people: SqlSource, postgres: PostgresServer) -> None:
    names = ['a "b" % c', "50%%", "é\u0301 \U0001f600", "q'; drop table people; --", " \n\t"]
    texts = ["'", '"', "\\", "%s %(a)s %%", "a\nb\r\n", "\U0001f600", "", "e\u0301", ";--"]
    quoted = ", ".join('"' + name.replace('"', '""') + '" text' for name in names)
    postgres.execute(f"create table odd ({quoted})", database_of(people))
    for text in texts:
        value = "'" + text.replace("'", "''") + "'"
        listed = ", ".join([value] * len(names))
        postgres.execute(f"insert into odd values ({listed})", database_of(people))
    postgres.execute("grant select on odd to reader", database_of(people))
    odd = replace(people, query="select * from odd")
    table = odd.read(private=True)
    assert list(table.columns) == odd.names() == names
    assert all(table[name].tolist() == texts for name in names)
    # The query is sent as it is written.
    percent = replace(people, query="select '%' a, '%%' b, 7 % 4 c where 'x%' like 'x%'")
    assert percent.read(private=True).to_numpy().tolist() == [["%", "%%", 3]]


def test_texts_of_a_server_in_another_encoding_come_whole(
    people: SqlSource, postgres: PostgresServer
) -> None:
    for encoding in ("LATIN1", "SQL_ASCII"):
        name = encoding.lower()
        postgres.execute(f"create database {name} encoding '{encoding}' template template0")
        postgres.execute("create table texts (a text)", name)
        postgres.execute("insert into texts values ('a'), (chr(233))", name)
        source = SqlSource(postgres.url(name), "select * from texts")
        if encoding == "LATIN1":
            assert source.read(private=True)["a"].tolist() == ["a", "é"]
        else:
            # The server does not know the letter of a byte.
            with pytest.raises(PrivateValuesError):
                source.read(private=True)


def test_one_bad_record_changes_no_other(people: SqlSource) -> None:
    domain = Domain.from_dict(
        {
            "attributes": {
                "row": {"values": [0, 1, 2]},
                "a": {"edges": [0, 1, 2], "outside": "clip", "unreadable": "missing"}
                | {"nullable": True},
                "d": {"bounds": [2000, 2024], "unit": "year", "unreadable": "missing"}
                | {"nullable": True},
            }
        }
    )
    cells = {
        "numeric": ["0.5", "1.5", "'NaN'", "'Infinity'", "1e4000", "null"],
        "float8": ["0.5", "1.5", "'NaN'", "'-Infinity'", "1e300", "null"],
        "text": ["'0.5'", "'1.5'", "'many'", "''", "null"],
    }
    days = ["timestamp 'infinity'", "timestamp '0044-03-15 BC'", "timestamp '294276-01-01'"]
    for kind, values in cells.items():
        for value in values[2:]:
            for day in days:
                rows = f"(0, {values[0]}::{kind}, timestamp '2000-01-01'), (1, {values[1]}::{kind},"
                rows += f" timestamp '2024-12-31'), (2, {value}::{kind}, {day})"
                source = replace(people, query=f"select * from (values {rows}) v(row, a, d)")
                found = source.counted(domain, None, None)
                assert found.column("a").tolist()[:2] == [0, 1], (kind, value)
                assert found.column("d").tolist() == [0, 24, 25], day


def test_persons_are_limited_as_elsewhere(people: SqlSource) -> None:
    rows = "(values ('a', 1), ('a', 2), ('A', 1), ('a ', 2), (null, 1), ('a', 1)) v(p, x)"
    source = replace(people, query=f"select * from {rows}")
    domain = Domain.from_dict({"attributes": {"x": {"values": [1, 2]}}})
    unit = PrivacyUnit("p", 2)
    # A row of nobody does not count, and is refused where that is paid for.
    assert source.count_records(unit) == 4
    with pytest.raises(PrivateValuesError):
        source.counted(domain, unit, bytes(32))
    numbers = "(values (7::numeric), (7.0), (7.00), (8), ('NaN')) v(p)"
    of_numbers = replace(source, query=f"select p, 1 x from {numbers} where p <> 'NaN'")
    assert of_numbers.count_records(unit) == 3
    assert of_numbers.counted(domain, unit, bytes(32)).records == 3
    known = replace(source, query=f"{source.query} where p is not null")
    assert known.counted(domain, unit, bytes(32)).records == 4
    with pytest.raises(InputError, match="no column 'q' to identify a person"):
        known.check(domain, PrivacyUnit("q"))
    with pytest.raises(InputError, match="no column 'q' to identify a person"):
        known.count_records(PrivacyUnit("q"))


@pytest.mark.parametrize(
    ("query", "error", "message"),
    [
        ("select 1 as sex", DomainError, "no column 'born'"),
        ("select *, 1 as sex from people", SourceError, "two columns of the same name"),
        (
            "select array[sex] sex, born, income, member, seen from people",
            DomainError,
            r"column 'sex' has type _varchar, .*cast it in the query",
        ),
        (
            "select people sex, born, income, member, seen from people",
            DomainError,
            "'sex' has type people",
        ),
        ("select ''::bytea sex, born, income, member, seen from people", DomainError, "type bytea"),
        ("select secrets.*, people.* from secrets, people", SourceError, "grant SELECT on it"),
        ("select * from nothing", SourceError, "UndefinedTable"),
        ("select * from people; select 1", SourceError, "SyntaxError"),
        ("delete from people returning *", SourceError, "SyntaxError"),
        (
            "select 'm' sex, born, income, false member, seen from people",
            PrivateValuesError,
            "always the same",
        ),
        ("select 'z' sex, born, income, member, seen from people", PrivateValuesError, "same"),
        (
            "select sex, null::date born, income, member, seen from people",
            PrivateValuesError,
            "same",
        ),
        (
            "select sex, date 'infinity' born, income, member, seen from people",
            PrivateValuesError,
            "same",
        ),
        (
            "select sex, born, 1/(born - born) income, member, seen from people",
            PrivateValuesError,
            "same",
        ),
    ],
)
def test_refusals(
    people: SqlSource,
    postgres: PostgresServer,
    query: str,
    error: type[Exception],
    message: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    source = replace(people, query=query)
    with pytest.raises(error, match=message) as caught:
        source.counted(DOMAIN, None, None, ASKED)
    assert "1990" not in str(caught.value)
    if error is PrivateValuesError:
        # Whether a row fails is not told before an attempt counts.
        source.check(DOMAIN, None)
    else:
        with pytest.raises(error, match=message):
            source.check(DOMAIN, None)
    assert capfd.readouterr() == ("", "")


def release(source: SqlSource, name: str, **changes: Any) -> jam.FrameRelease:
    given: dict[str, Any] = {
        "domain": DOMAIN.project(["born", "member"]),
        "epsilon": 1.0,
        "degree": 2,
        "mechanism": "independent",
        "dataset": "people",
        "report": False,
        "checks": False,
        "evaluation_mode": "off",
        # No officer vouches for the queries, which can select whom they like.
        "neighbours": "add_remove",
    }
    given |= {"release": name, "ledger": f"{name}.db", **changes}
    return jam.synthesize(source, None, **given)


def test_what_depends_on_no_row_is_refused_before_an_attempt(
    people: SqlSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    wrong = {
        "select array[sex] sex, born, member from people": (DomainError, "type _varchar"),
        "select sex, born::int4 - 1 from people": (SourceError, "CannotCoerce"),
        "select * from nothing": (SourceError, "UndefinedTable"),
    }
    domain = DOMAIN.project(["sex", "born", "member"])
    for name, (query, (error, message)) in zip("abd", wrong.items(), strict=True):
        for _ in range(2):
            with pytest.raises(error, match=message):
                release(replace(people, query=query), name, domain=domain)
        assert Ledger(f"{name}.db").verify().accesses.attempts == 0
    # Whether a row fails is not told before the attempt counts.
    failing = replace(
        people, query="select sex, born + 9 / (1 - member::int) born, member from people"
    )
    failing.check(domain, None)
    with pytest.raises(PrivateValuesError):
        release(failing, "c", domain=domain)
    assert Ledger("c.db").verify().accesses.not_ended == 1


def test_nobody_but_the_owner_is_told_a_value(
    people: SqlSource,
    postgres: PostgresServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    database = database_of(people)
    for statement in (
        "create table told (p text, a text, b int)",
        "insert into told select 'person-canary-' || n % 40, 'value-canary', n % 7"
        " from generate_series(1, 97) n",
        "grant select on told to reader",
        "create function noted(a text) returns text language plpgsql as"
        " $$ begin raise notice 'notice-%', a; return a; end $$",
        f"alter database {database} set log_statement = 'all'",
        f"alter database {database} set log_min_messages = 'log'",
        f"alter database {database} set client_min_messages = 'debug1'",
    ):
        postgres.execute(statement, database)
    before = (postgres.folder / "log").stat().st_size
    source = replace(people, query="select p, noted(a) a, b from told")
    other = {"values": ["x", "other"], "other": "other"}
    domain = Domain.from_dict({"attributes": {"a": other, "b": {"edges": [0, 3, 6]}}})
    given: dict[str, Any] = {"domain": domain, "privacy_unit": "p", "max_rows": 2}
    made = release(source, "a", **given, evaluation_mode="private")
    strict = Domain.from_dict({"attributes": {"a": {"values": ["x"]}, "b": {"edges": [0, 3, 6]}}})
    with pytest.raises(PrivateValuesError) as refused:
        release(source, "b", domain=strict)
    log = (postgres.folder / "log").read_bytes()[before:]
    assert b"COPY (SELECT" in log
    told = {
        path: path.read_bytes()
        for path in Path().rglob("*")
        if path.is_file() and "failures" not in path.parts
    }
    for content in (log, *told.values()):
        assert b"canary" not in content
    shown = f"{made!r} {made.messages} {refused.value!r} {''.join(capfd.readouterr())}"
    assert "canary" not in shown


def test_the_owner_reads_what_stopped_a_query(people: SqlSource, postgres: PostgresServer) -> None:
    database = database_of(people)
    postgres.execute(f"alter database {database} set statement_timeout = '50ms'", database)
    slow = replace(people, query="select people.* from people, pg_sleep(1)")
    noted: list[str] = []
    with pytest.raises(PrivateValuesError), keeping_details(noted.append):
        slow.counted(DOMAIN, None, None, ASKED)
    assert "statement timeout" in noted[0]


def test_a_server_that_cannot_be_reached_is_named_without_its_password(people: SqlSource) -> None:
    for url, reason in (
        (people.url.replace("reader@", "nobody-at-all:hunter2@"), "OperationalError|Connection"),
        ("postgresql://reader:hunter2@nowhere.invalid/people", "nowhere.invalid/people"),
        ("postgresql://reader:hunter2@/people?host=/nowhere&bogus=1", "postgresql at people"),
    ):
        for private in (True, False):
            with pytest.raises(SourceError, match=reason) as caught:
                replace(people, url=url).read(private=private)
            assert "hunter2" not in str(caught.value)
            assert caught.value.__cause__ is caught.value.__context__ is None


def test_what_reading_needs(people: SqlSource, monkeypatch: pytest.MonkeyPatch) -> None:
    found = builtins.__import__

    def without_driver(name: str, *given: Any) -> Any:
        if name.startswith("adbc_driver_postgresql"):
            raise ImportError(name)
        return found(name, *given)

    monkeypatch.setattr(builtins, "__import__", without_driver)
    for private in (True, False):
        with pytest.raises(SourceError, match=r"pip install 'jam-dagster\[postgres\]'"):
            people.read(private=private)


def interrupted(*_: Any, **__: Any) -> None:
    """Stop a release that has draws left."""
    raise KeyboardInterrupt


@pytest.fixture
def begun(people: SqlSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SqlSource:
    """Return the table of a release that was killed after its first draw."""
    monkeypatch.chdir(tmp_path)
    measure, done = Context.measure, []

    def killed(self: Context, clique: Any, rho: float, **given: Any) -> Any:
        if done:
            raise KeyboardInterrupt
        done.append(clique)
        return measure(self, clique, rho, **given)

    with monkeypatch.context() as patched:
        patched.setattr(Context, "measure", killed)
        with pytest.raises(KeyboardInterrupt):
            release(people, "a")
    return people


def test_a_release_goes_on_with_the_table_that_it_drew_on(
    begun: SqlSource, postgres: PostgresServer
) -> None:
    database = database_of(begun)
    postgres.execute("update people set born = '2001-01-01' where sex = 'm'", database)
    with pytest.raises(InputError, match="another private table"):
        release(begun, "a")
    # The same rows in another order are the same table.
    postgres.execute("update people set born = '2019-12-31' where sex = 'm'", database)
    release(begun, "a")


def test_a_release_whose_table_nobody_knows_any_more_draws_no_further(begun: SqlSource) -> None:
    (digest,) = Path("a.db-private/contents").glob("*.json")
    kept = digest.read_bytes()
    digest.unlink()
    with pytest.raises(InputError, match=r"keyed digest of the table .* draws left to make"):
        release(begun, "a")
    digest.write_bytes(kept)
    release(begun, "a")
    # Nothing is left to draw: a private store may be lost.
    digest.unlink()
    release(begun, "a")


def test_a_key_that_is_gone_is_unknown(postgres: PostgresServer) -> None:
    config = {"sql": postgres.url("postgres"), "query": "select 1"}
    assert source_from_config(config).to_dict() == config
    with pytest.raises(jam.errors.SpecificationError, match="count"):
        source_from_config(config | {"count": "rows"})
