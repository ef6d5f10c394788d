"""Ledgers of earlier versions: recognised, upgraded, and as they were."""

from __future__ import annotations

import contextlib
import re
import sqlite3
import subprocess
import sys

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from jam_dagster.errors import BudgetError
from jam_dagster.privacy import Ledger, ReleaseKey
from jam_dagster.privacy.ledger import migrations
from jam_dagster.privacy.ledger.journal import GENESIS, Event, Kind, metadata
from jam_dagster.privacy.ledger.postgres import SCHEMA
from jam_dagster.privacy.ledger.sqlite import APPLICATION_ID

KEY = ReleaseKey("people", "yearly", "x")
SHARES = {"mechanism": 0.001}

# What version 0.1.0 made, word for word.
SCHEMA_1 = """
CREATE TABLE events (
    seq INTEGER NOT NULL, at TEXT NOT NULL, kind TEXT NOT NULL, dataset TEXT NOT NULL,
    release TEXT NOT NULL, partition TEXT NOT NULL, edition TEXT NOT NULL,
    specification TEXT NOT NULL, share TEXT NOT NULL, step TEXT NOT NULL, units INTEGER NOT NULL,
    epsilon REAL, delta REAL, run_id TEXT NOT NULL, "by" TEXT NOT NULL, reason TEXT NOT NULL,
    previous TEXT NOT NULL, hash TEXT NOT NULL,
    PRIMARY KEY (seq), CONSTRAINT units_not_negative CHECK (units >= 0),
    CONSTRAINT known_kind
        CHECK (kind IN ('granted', 'reserved', 'charged', 'returned', 'closed')),
    UNIQUE (previous), UNIQUE (hash)
) STRICT;
CREATE INDEX events_by_account
    ON events (dataset, release, partition, edition, specification, share);
CREATE UNIQUE INDEX one_charge_a_step
    ON events (dataset, release, partition, edition, specification, share, step)
    WHERE kind = 'charged';
CREATE UNIQUE INDEX one_reservation_a_share
    ON events (dataset, release, partition, edition, specification, share)
    WHERE kind = 'reserved';
CREATE UNIQUE INDEX one_return_a_share
    ON events (dataset, release, partition, edition, specification, share)
    WHERE kind = 'returned';
CREATE UNIQUE INDEX one_closure_a_share
    ON events (dataset, release, partition, edition, specification, share)
    WHERE kind = 'closed';
CREATE TRIGGER events_no_update BEFORE UPDATE ON events
    BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
CREATE TRIGGER events_no_delete BEFORE DELETE ON events
    BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
"""
COLUMNS = [
    *("seq", "at", "kind", "dataset", "release", "partition", "edition", "specification"),
    *("share", "step", "units", "epsilon", "delta", "run_id", "by", "reason", "previous", "hash"),
]


def version_one(url):
    """Make an empty ledger of the first version; return what inserts a row."""
    if "://" in url:
        backend = Ledger(url)._backend
        with backend._transaction(write=True) as connection:
            connection.exec_driver_sql(f"CREATE SCHEMA {SCHEMA}")
            migrations.upgrade(connection, "0001")

        def insert(row):
            with backend._transaction(write=True) as connection:
                connection.execute(sa.insert(sa.table("events", *map(sa.column, row))), row)

        return insert
    with contextlib.closing(sqlite3.connect(url)) as raw:
        raw.execute("PRAGMA journal_mode = WAL")
        raw.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        raw.execute("PRAGMA user_version = 1")
        raw.executescript(SCHEMA_1)

    def insert_in_file(row):
        with contextlib.closing(sqlite3.connect(url)) as raw:
            raw.execute(f"INSERT INTO events VALUES ({', '.join('?' * len(row))})", [*row.values()])
            raw.commit()

    return insert_in_file


@pytest.fixture
def old(each_url):
    """A ledger as the first version left it, with a release that has charged once."""
    insert = version_one(each_url)
    said = {"at": "2026-10-31T23:00:00.000000+00:00", "dataset": "people", "by": "officer"}
    release = {**said, "release": "yearly", "specification": "x", "edition": "1"}
    events, previous = [], GENESIS
    for seq, given in enumerate(
        [
            {
                **said,
                "kind": Kind.GRANTED,
                "units": 14_973_057_700_000,
                "epsilon": 1.0,
                "delta": 1e-9,
            },
            {**release, "kind": Kind.RESERVED, "units": 1_000_000_000_000, "share": "mechanism"},
            {
                **release,
                "kind": Kind.CHARGED,
                "units": 400_000_000_000,
                "share": "mechanism",
                "step": "a",
            },
        ],
        start=1,
    ):
        draft = Event(seq=seq, previous=previous, **given)
        events.append(Event(**{**vars(draft), "hash": draft.seal()}))
        previous = events[-1].hash
        insert(
            {name: getattr(events[-1], name) for name in COLUMNS} | {"kind": given["kind"].value}
        )
    return Ledger(each_url), events


def test_reading_an_old_ledger_says_to_upgrade_it(old):
    ledger, _ = old
    command = re.escape(f"jam-dagster ledger upgrade --ledger {ledger.location}")
    for _ in range(2):  # Nobody upgrades it in passing.
        for attempt in (
            ledger.datasets,
            ledger.verify,
            ledger.check_writable,
            lambda: ledger.open_release(KEY, SHARES),
        ):
            with pytest.raises(BudgetError, match=command):
                attempt()


@pytest.mark.parametrize("how", ["upgrade", "grant"])
def test_upgrading_keeps_every_event_and_seal(old, how):
    ledger, events = old
    if how == "upgrade":
        ledger.upgrade()
    else:
        ledger.grant("others", epsilon=1.0, delta=1e-9)
    assert ledger.events("people") == events
    assert ledger.verify().events == (3 if how == "upgrade" else 4)
    balance = ledger.balance("people")
    assert (balance.spent_units, balance.reserved_units) == (4 * 10**11, 6 * 10**11)
    # It goes on where it was.
    account = ledger.open_release(KEY, SHARES).account("mechanism")
    assert account.charged("a") == pytest.approx(0.0004)
    account.charge("b", account.remaining)
    account.close()
    ledger.upgrade()
    ledger.verify()


def test_an_old_reservation_counts_in_the_period_it_was_made(old):
    ledger, _ = old
    ledger.upgrade()
    ledger.grant("people", epsilon=1.0, delta=1e-9, period="month")
    account = ledger.open_release(KEY, SHARES).account("mechanism")
    account.charge("b", account.remaining)
    balance = ledger.balance("people")
    assert (balance.spent, balance.reserved) == (0.0, 0.0)
    assert balance.lifetime_spent == pytest.approx(0.001)
    ledger.verify()


def test_the_journal_of_an_upgraded_ledger_stays_append_only(old):
    ledger, events = old
    ledger.upgrade()
    for statement in ("UPDATE events SET counts_in = 'x'", "DELETE FROM events"):
        with ledger._backend._engine.connect() as connection:
            if connection.dialect.name == "postgresql":
                connection.exec_driver_sql(f"SET LOCAL search_path TO {SCHEMA}")
            with pytest.raises(sa.exc.DBAPIError, match="append-only"):
                connection.exec_driver_sql(statement)
    assert ledger.events() == events


def test_what_the_revisions_make_is_what_the_code_reads(each_url):
    ledger = Ledger(each_url)
    ledger.grant("people", epsilon=1.0, delta=1e-9)
    with ledger._backend.reading() as connection:
        context = MigrationContext.configure(connection)
        assert compare_metadata(context, metadata) == []
        indices = sa.inspect(connection).get_indexes("events")
    wanted = {
        (str(index.name), tuple(index.columns.keys()))
        for index in metadata.tables["events"].indexes
    }
    made = {(index["name"], tuple(index["column_names"])) for index in indices}
    assert wanted <= made


def test_the_last_revision_is_the_one_that_is_read():
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "jam_dagster.privacy.ledger:migrations")
    config.set_main_option("path_separator", "os")
    assert ScriptDirectory.from_config(config).get_current_head() == migrations.REVISION


def test_using_a_ledger_does_not_wait_for_alembic(ledger, path):
    code = (
        "import sys\n"
        "from jam_dagster.privacy import Ledger, ReleaseKey\n"
        f"ledger = Ledger({str(path)!r})\n"
        "ledger.open_release(ReleaseKey('people', 'a', 'x'), {'mechanism': 0.001})\n"
        "ledger.verify()\n"
        "assert 'alembic' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
