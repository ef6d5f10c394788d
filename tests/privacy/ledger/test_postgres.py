"""The ledger in PostgreSQL: what is told where it fails, and what no failure may lose."""

from __future__ import annotations

import pickle
import time

import psycopg
import pytest

from jam_dagster.errors import BudgetError, SpecificationError
from jam_dagster.privacy import Kind, Ledger, ReleaseId
from jam_dagster.privacy.ledger import postgres as ledger_server
from jam_dagster.privacy.ledger.journal import append
from tests.postgres import running_server

RELEASE_ID = ReleaseId("people", "yearly", "x")
SHARES = {"mechanism": 0.001}


@pytest.fixture
def url(postgres):
    return postgres.create_database()


@pytest.mark.slow
def test_reading_makes_nothing(url):
    ledger = Ledger(url)
    assert not ledger.datasets()
    assert not ledger.exists
    assert ledger.datasets() == ()
    assert ledger.reservation(RELEASE_ID) is None
    ledger.check_writable()
    for attempt in (
        ledger.events,
        ledger.verify,
        lambda: ledger.balance("people"),
        lambda: ledger.check(RELEASE_ID, SHARES),
        lambda: ledger.open_release(RELEASE_ID, SHARES),
    ):
        with pytest.raises(BudgetError, match=r"no ledger at postgresql://tester@.*ledger grant"):
            attempt()
    with psycopg.connect(url) as raw:
        found = raw.execute("SELECT to_regnamespace('jam_ledger')").fetchone()
    assert found == (None,)


@pytest.mark.slow
def test_commits_are_synchronous_whatever_the_server_does_by_itself(ledger, url, postgres):
    name = url.split("/")[3].split("?")[0]
    postgres.execute(f"ALTER DATABASE {name} SET synchronous_commit TO off")
    postgres.execute(f"ALTER DATABASE {name} SET default_transaction_read_only TO on")
    postgres.execute(f"ALTER DATABASE {name} SET default_transaction_isolation TO serializable")
    with ledger._backend.writing() as connection:
        for setting, value in (
            ("synchronous_commit", "on"),
            ("transaction_isolation", "read committed"),
        ):
            assert connection.exec_driver_sql(f"SHOW {setting}").scalar() == value
    ledger.open_release(RELEASE_ID, SHARES)


@pytest.mark.slow
def test_a_standby_is_claimed_and_written_by_nobody():
    with running_server() as server:
        ledger = Ledger(server.create_database())
        ledger.grant("people", epsilon=1.0, delta=1e-9)
        server.stop()
        (server.folder / "data" / "standby.signal").touch()
        server.start()
        assert ledger.balance("people").epsilon == 1.0
        for attempt in (
            lambda: ledger.claim(RELEASE_ID).__enter__(),
            ledger.check_writable,
            lambda: ledger.open_release(RELEASE_ID, SHARES),
        ):
            with pytest.raises(BudgetError, match=r"is read-only; name the primary server"):
                attempt()


@pytest.mark.slow
def test_a_writer_that_does_not_go_on_loses_its_transaction(ledger, monkeypatch):
    monkeypatch.setattr(ledger_server, "BUSY_SECONDS", 0.05)

    def grant_slowly():
        with ledger._backend.writing() as connection:
            append(connection, Kind.GRANTED, "ghost", units=1, epsilon=1.0, delta=1e-9)
            time.sleep(0.5)

    with pytest.raises(BudgetError, match="may have been recorded"):
        grant_slowly()
    assert ledger.datasets() == ("people",)


@pytest.mark.slow
def test_a_role_that_may_only_read(ledger, url, postgres):
    postgres.execute("DROP ROLE IF EXISTS reader")
    postgres.execute("CREATE ROLE reader LOGIN")
    name = url.split("/")[3].split("?")[0]
    postgres.execute("GRANT USAGE ON SCHEMA jam_ledger TO reader", name)
    postgres.execute("GRANT SELECT ON ALL TABLES IN SCHEMA jam_ledger TO reader", name)
    reader = Ledger(postgres.url(name, user="reader"))
    assert reader.balance("people") == ledger.balance("people")
    for attempt in (reader.check_writable, lambda: reader.open_release(RELEASE_ID, SHARES)):
        with pytest.raises(BudgetError, match="cannot be used by this role"):
            attempt()
    postgres.execute("GRANT INSERT ON ALL TABLES IN SCHEMA jam_ledger TO reader", name)
    reader.check_writable()
    reader.open_release(RELEASE_ID, SHARES)
    postgres.execute("DROP OWNED BY reader", name)


@pytest.mark.parametrize(
    "where", ["me:hushhush@127.0.0.1:1/ledger", "me@127.0.0.1:1/ledger?password=hushhush"]
)
def test_a_server_that_is_not_there_and_no_password_told(where):
    ledger = Ledger(f"postgresql://{where}")
    with pytest.raises(BudgetError, match=r"postgresql://me@127.0.0.1:1/ledger cannot be reached"):
        _ = ledger.exists
    with pytest.raises(BudgetError) as refusal:
        ledger.grant("people", epsilon=1, delta=1e-9)
    assert refusal.value.__cause__ is None
    shown = f"{refusal.value!r} {ledger!r} {ledger.location} {ledger._backend!r}"
    assert "hushhush" not in shown
    assert b"hushhush" not in pickle.dumps(ledger)
    assert pickle.loads(pickle.dumps(ledger)).location == ledger.location


@pytest.mark.slow
def test_a_database_that_is_not_there(postgres):
    with pytest.raises(BudgetError, match=r"cannot be reached.*does not exist"):
        Ledger(postgres.url("nowhere")).datasets()


def test_a_url_without_a_database():
    with pytest.raises(SpecificationError, match="names no database"):
        Ledger("postgresql://me@host")


@pytest.mark.slow
def test_the_server_of_the_tests_starts_where_the_locale_is_unknown(postgres, monkeypatch):
    """It would be skipped there, and with it every test of the ledger in PostgreSQL."""
    monkeypatch.setenv("LC_ALL", "xx_YY.UTF-8")
    try:
        with running_server() as server:
            assert server.execute("SHOW server_encoding") == [("UTF8",)]
    except pytest.skip.Exception as skipped:
        pytest.fail(f"one server runs here, another does not: {skipped}")
