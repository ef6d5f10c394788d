"""Files that are missing, foreign, damaged or locked: a clear error, and nothing made."""

from __future__ import annotations

import os
import sqlite3

import pytest

from jam_dagster.errors import BudgetError, SpecificationError
from jam_dagster.privacy import Ledger, ReleaseId
from jam_dagster.privacy.ledger import sqlite as ledger_file

RELEASE_ID = ReleaseId("people", "yearly", "x")
SHARES = {"mechanism": 0.001}


def test_reading_makes_no_file(path):
    ledger = Ledger(path)
    assert not ledger.datasets()
    assert not ledger.exists
    assert ledger.datasets() == ()
    assert ledger.reservation(RELEASE_ID) is None
    for attempt in (
        ledger.events,
        ledger.verify,
        ledger.reservations,
        lambda: ledger.balance("people"),
        lambda: ledger.check(RELEASE_ID, SHARES),
        lambda: ledger.open_release(RELEASE_ID, SHARES),
    ):
        with pytest.raises(BudgetError, match=f"no ledger at {path}.*ledger grant"):
            attempt()
    assert list(path.parent.iterdir()) == []


def test_granting_makes_the_folder_too(path):
    ledger = Ledger(path.parent / "safe" / "ledger.db")
    assert ledger.grant("people", epsilon=1, delta=1e-9).spent == 0.0
    assert (path.parent / "safe").stat().st_mode & 0o777 == 0o700
    assert ledger.datasets()


@pytest.mark.parametrize(
    "content", [b"", b"name,age\nAda,36\n" * 100], ids=["empty file", "no database"]
)
def test_a_file_that_is_no_ledger(path, content):
    path.write_bytes(content)
    for attempt in (
        Ledger(path).datasets,
        lambda: Ledger(path).grant("people", epsilon=1, delta=1e-9),
    ):
        with pytest.raises(BudgetError, match=f"{path} is not a ledger"):
            attempt()
    assert path.read_bytes() == content


def test_another_sqlite_database(path):
    with sqlite3.connect(path) as raw:
        raw.execute("CREATE TABLE events (seq INTEGER)")
    with pytest.raises(BudgetError, match=f"{path} is not a ledger; name another"):
        Ledger(path).grant("people", epsilon=1, delta=1e-9)


def test_a_truncated_ledger(ledger, path):
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(BudgetError, match=f"{path} is damaged"):
        ledger.events()


def test_a_ledger_that_another_process_holds(ledger, path, monkeypatch):
    monkeypatch.setattr(ledger_file, "BUSY_SECONDS", 0.05)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(BudgetError, match="held by another process"):
        ledger.open_release(RELEASE_ID, SHARES)
    # Readers are not held up.
    assert ledger.balance("people").reserved == 0.0
    holder.rollback()
    holder.close()
    ledger.open_release(RELEASE_ID, SHARES)


def test_a_folder_in_place_of_a_file(tmp_path):
    with pytest.raises(SpecificationError, match=f"{tmp_path} is a folder"):
        Ledger(tmp_path)


def test_a_file_in_place_of_a_folder(tmp_path):
    (tmp_path / "file").write_text("here")
    with pytest.raises(BudgetError, match=r"cannot be made: File exists .*file"):
        Ledger(tmp_path / "file" / "ledger.db").grant("people", epsilon=1, delta=1e-9)


@pytest.mark.parametrize("location", ["", ":memory:", "sqlite://", "sqlite:///:memory:"])
def test_a_budget_in_memory_would_be_forgotten(location):
    with pytest.raises(SpecificationError, match="must be a file"):
        Ledger(location)


@pytest.mark.parametrize("url", ["mysql://me:secret@host/a", "postgresql+psycopg2://me:secret@b/c"])
def test_another_database_is_refused_without_its_password(url):
    with pytest.raises(SpecificationError, match="in SQLite or in PostgreSQL") as refusal:
        Ledger(url)
    assert "secret" not in str(refusal.value)


def test_what_looks_like_a_url_and_is_none():
    with pytest.raises(SpecificationError, match="neither a path nor a URL"):
        Ledger("://people")


def test_the_schema_is_strict(ledger, path):
    with sqlite3.connect(path) as raw:
        tables = {row[1]: row[5] for row in raw.execute("PRAGMA table_list")}
    assert tables["events"] == tables["accesses"] == 1


def test_the_file_is_its_owners_alone(ledger, path):
    with ledger.claim(RELEASE_ID):
        ledger.open_release(RELEASE_ID, SHARES)
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(path.parent) == [path.name]  # no log, no lock, no draft is left behind


def test_the_file_is_durable_by_its_settings(ledger, path):
    with sqlite3.connect(path) as raw:
        assert raw.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    with ledger._backend.writing() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2  # FULL


def test_the_journal_cannot_be_changed_through_sql(ledger, path):
    with ledger.attempt(RELEASE_ID), sqlite3.connect(path) as raw:
        for statement in (
            *("UPDATE events SET units = 0", "DELETE FROM events"),
            *("UPDATE accesses SET kind = 'ended'", "DELETE FROM accesses"),
        ):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                raw.execute(statement)


def test_relative_paths_and_urls_mean_the_same_file(ledger, path, monkeypatch):
    monkeypatch.chdir(path.parent)
    for location in (path.name, f"sqlite:///{path.name}", f"sqlite:///{path}", str(path), path):
        opened = Ledger(location)
        assert opened.location == str(path)
    opened = Ledger(path.name)
    monkeypatch.chdir("/")
    assert opened.datasets() == ("people",)
