"""The ledger in PostgreSQL under attack by roles that may log in, insert or make schemas."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest

from jam_dagster.errors import BudgetError, LedgerIntegrityError, ReleaseClosedError
from jam_dagster.privacy import Kind, Ledger, ReleaseId
from jam_dagster.privacy.ledger import postgres as ledger_server
from jam_dagster.privacy.ledger.approval import ALL_PARTITIONS
from jam_dagster.privacy.ledger.journal import (
    SHARE_KINDS,
    AccessKind,
    append,
    append_access,
    instant,
)
from jam_dagster.privacy.ledger.release_id import id_fields
from tests.budgets import PUBLIC_N
from tests.postgres import PostgresServer
from tests.privacy.conftest import slice_of

pytestmark = pytest.mark.slow

ROLES = Path(__file__).parents[3] / "deploy" / "roles.sql"
RELEASE_ID = ReleaseId("people", "yearly", "ab" * 32)
SHARES = {"mechanism": 0.001}

_numbers = itertools.count()


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.create_database()


@pytest.fixture
def database(url: str) -> str:
    return url.split("/")[3].split("?")[0]


@pytest.fixture
def mallory(postgres: PostgresServer, database: str) -> Iterator[str]:
    """A role of its own that may log in, and nothing else."""
    name = f"mallory_{next(_numbers)}"
    postgres.execute(f"CREATE ROLE {name} LOGIN")
    yield name
    postgres.execute(f"DROP OWNED BY {name}", database)
    postgres.execute(f"DROP ROLE {name}")


@pytest.fixture
def inserter(ledger: Ledger, postgres: PostgresServer, database: str, mallory: str) -> str:
    """Where a role logs in that may read the ledger and insert into it."""
    postgres.execute(f"GRANT USAGE ON SCHEMA jam_ledger TO {mallory}", database)
    rights = "GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA jam_ledger TO"
    postgres.execute(f"{rights} {mallory}", database)
    return postgres.url(database, user=mallory)


@pytest.fixture
def role(ledger: Ledger, url: str, database: str, postgres: PostgresServer) -> Iterator[str]:
    """Where the role of releases logs in, as `deploy/roles.sql` makes it."""
    # Once more after an upgrade is no mistake.
    for _ in range(2):
        with psycopg.connect(url, autocommit=True) as raw:
            raw.execute(ROLES.read_bytes())
    yield postgres.url(database, user="jam_releases")
    for name in ("jam_releases", "jam_auditor"):
        postgres.execute(f"DROP OWNED BY {name}", database)
        postgres.execute(f"DROP ROLE {name}")


def insert(url: str, **changes: object) -> None:
    """Insert a copy of the last event, changed, by hand."""
    with psycopg.connect(url) as raw:
        insert_by(raw, **changes)


def insert_by(raw: psycopg.Connection, **changes: object) -> None:
    """Insert a copy of the last event that a transaction sees, changed, by hand."""
    cursor = raw.execute("SELECT * FROM jam_ledger.events ORDER BY seq DESC LIMIT 1")
    names = [column.name for column in cursor.description or ()]
    row = dict(zip(names, cursor.fetchone() or (), strict=True))
    row |= {"seq": row["seq"] + 1, "previous": row["hash"], "hash": "f" * 64, **changes}
    names_in_order = ", ".join(f'"{name}"' for name in row)
    raw.execute(
        f"INSERT INTO jam_ledger.events ({names_in_order}) VALUES "
        f"({', '.join(['%s'] * len(row))})".encode(),
        list(row.values()),
    )


# --- a role that may insert


@pytest.mark.parametrize(
    "forged",
    [
        {"kind": "granted", "units": 10**18},
        {"kind": "granted", "seq": 10**9},
        {"kind": "granted", "previous": "e" * 64},
        {"kind": "a gift"},
    ],
)
def test_a_forged_event_is_noticed_before_anything_is_added(
    ledger: Ledger, inserter: str, forged: dict[str, object]
) -> None:
    insert(inserter, **forged)
    for attempt in (
        lambda: ledger.open_release(RELEASE_ID, SHARES),
        lambda: ledger.grant("others", epsilon=1.0, delta=1e-9),
        ledger.verify,
    ):
        with pytest.raises(LedgerIntegrityError):
            attempt()
    with psycopg.connect(inserter) as raw:
        assert raw.execute("SELECT count(*) FROM jam_ledger.events").fetchone() == (2,)


def test_a_forged_line_of_the_attempts_is_noticed_too(ledger: Ledger, inserter: str) -> None:
    with ledger._backend.writing() as connection:
        append_access(connection, AccessKind.ATTEMPTED, "people", attempt="a")
    with psycopg.connect(inserter) as raw:
        raw.execute(
            "INSERT INTO jam_ledger.accesses SELECT seq + 1, at, 'acknowledged', dataset, release,"
            " partition, edition, attempt, run_id, by, reason, hash, repeat('f', 64)"
            " FROM jam_ledger.accesses"
        )

    def attempt():
        with ledger._backend.writing() as connection:
            append_access(connection, AccessKind.ATTEMPTED, "people", attempt="b")

    with pytest.raises(LedgerIntegrityError, match="of the table accesses"):
        attempt()


def test_what_was_spent_cannot_be_returned(ledger: Ledger, inserter: str) -> None:
    """A sum alone would believe it, and give the budget out once more."""
    release = ledger.open_release(RELEASE_ID, SHARES)
    release.account("mechanism").charge("a", 0.0009)
    insert(inserter, kind="returned", step="", units=10**15)
    with pytest.raises(LedgerIntegrityError, match="returns or charges more"):
        ledger.balance("people")
    with pytest.raises(LedgerIntegrityError):
        ledger.check(ReleaseId("people", "next", "x"), SHARES)


def test_what_was_returned_by_hand_is_not_charged(ledger: Ledger, inserter: str) -> None:
    release = ledger.open_release(RELEASE_ID, SHARES)
    with Ledger(inserter)._backend.writing() as connection:
        append(connection, Kind.RETURNED, **id_fields(RELEASE_ID), share="mechanism", units=10**11)
    with pytest.raises(ReleaseClosedError):
        release.account("mechanism").charge("a", 0.0005)
    insert(inserter, kind="returned", units=10**12, opening="2")
    for attempt in (lambda: release.account("mechanism").charge("a", 0.0005), ledger.verify):
        with pytest.raises(LedgerIntegrityError):
            attempt()


def test_the_role_of_releases_writes_what_releases_do_and_no_more(
    ledger: Ledger, role: str, database: str, postgres: PostgresServer
) -> None:
    ledger.grant("people", epsilon=1.0, delta=1e-9, approval="required")
    ledger.grant("firms", epsilon=1.0, delta=1e-9, policy=PUBLIC_N)
    releases = Ledger(role)
    releases.check_writable()
    firms = ReleaseId("firms", "yearly", "ab" * 32)
    open_release = releases.open_release(firms, SHARES, source=slice_of("firms", ""))
    open_release.account("mechanism").publish_records(500)
    open_release.account("mechanism").charge("a", 0.0005)
    open_release.close()
    with releases._backend.writing() as connection:
        opened = {"release": "yearly", "edition": "1", "attempt": "a"}
        append_access(connection, AccessKind.ATTEMPTED, "firms", **opened)
        append_access(connection, AccessKind.ENDED, "firms", **opened)
    before = ledger.events()

    def acknowledge():
        with releases._backend.writing() as connection:
            append_access(connection, AccessKind.ACKNOWLEDGED, "firms", reason="fine")

    for attempt in (
        lambda: releases.grant("people", epsilon=9.0, delta=1e-9),
        lambda: releases.approve(RELEASE_ID),
        lambda: releases.withdraw(firms, "cd" * 32),
        lambda: releases.move(postgres.create_database()),
        lambda: releases.rebind("firms", reason="a file that moved"),
        acknowledge,
    ):
        with pytest.raises(BudgetError, match="cannot be used by this role"):
            attempt()
    of_releases = SHARE_KINDS | {Kind.STORED, Kind.DERIVED, Kind.BOUND, Kind.COUNTED}
    of_releases |= {Kind.CERTIFIED, Kind.RAN}
    for kind in set(Kind) - of_releases:
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="the owner's to write"):
            insert(role, kind=kind.value)
    for table in ("events", "accesses", "alembic_version"):
        for change in ("DELETE FROM", "TRUNCATE", "DROP TABLE"):
            with (
                psycopg.connect(role) as raw,
                pytest.raises(psycopg.errors.InsufficientPrivilege),
            ):
                raw.execute(f"{change} jam_ledger.{table}".encode())
    assert ledger.events() == before
    ledger.approve(ReleaseId("people", "yearly", "ab" * 32, ALL_PARTITIONS))
    ledger.verify()
    # Whoever has no role here cannot even log in.
    postgres.execute("CREATE ROLE stranger LOGIN")
    try:
        with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
            psycopg.connect(postgres.url(database, user="stranger"))
    finally:
        postgres.execute("DROP ROLE stranger")


def test_the_role_of_releases_writes_now_and_where_the_ledger_is(
    ledger: Ledger, url: str, role: str, postgres: PostgresServer
) -> None:
    """A month to come has a budget of its own, and what was left behind has one once more."""
    ledger.open_release(RELEASE_ID, SHARES)
    Ledger(role).open_release(replace(RELEASE_ID, edition="2"), SHARES)
    before = ledger.events()
    now = datetime.now(UTC)
    for at in (
        instant(now + timedelta(days=31)),
        instant(now + timedelta(minutes=6)),
        instant(datetime.fromisoformat(before[-1].at) - timedelta(microseconds=1)),
        instant(now - timedelta(days=31)),
        "infinity",
        "now",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="another time than now"):
            insert(role, at=at, opening="9")
    # The owner's clock ran ahead: what is open goes on, and nothing new begins.
    ahead = Ledger(url, clock=lambda: now + timedelta(days=1))
    ahead.open_release(replace(RELEASE_ID, edition="3"), SHARES)
    releases = Ledger(role)
    opened = releases.reservation(RELEASE_ID)
    assert opened is not None
    opened.account("mechanism").charge("a", 0.0005)
    ledger.grant("people", epsilon=1.0, delta=1e-9, reason="the clock ran ahead")
    opened.account("mechanism").charge("b", 0.0001)
    with psycopg.connect(role) as old:
        # Its transaction goes on seeing the ledger before the move.
        old.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        old.execute("SELECT FROM jam_ledger.events")
        ledger.move(postgres.create_database(), reason="another server")
        later = {"seq": 99, "previous": "e" * 64, "at": instant(datetime.now(UTC))}
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="READ COMMITTED"):
            insert_by(old, kind="closed", release="x", **later)
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="has moved"):
        insert(role, kind="closed", release="x", at=instant(datetime.now(UTC)))
    # Whoever could write all the same would not open it again.
    insert(url, kind="closed", release="x")
    with pytest.raises(BudgetError, match="has moved to"):
        ledger.open_release(replace(RELEASE_ID, edition="4"), SHARES)


def test_the_role_of_releases_pays_from_no_reservation_of_its_own(
    ledger: Ledger, role: str
) -> None:
    """It may write a reservation, which an opening plans; nothing says what it reserves."""
    releases, honest = Ledger(role), replace(RELEASE_ID, release="honest")
    paying = releases.open_release(honest, SHARES).account("mechanism")
    whole = ledger.balance("people").granted_units
    with releases._backend.writing() as connection:
        append(connection, Kind.RESERVED, **id_fields(RELEASE_ID), share="mechanism", units=whole)
    forged = releases.reservation(RELEASE_ID)
    assert forged is not None
    with pytest.raises(LedgerIntegrityError, match="is of more than the grant had left"):
        forged.account("mechanism").charge("a", 0.0005)
    paying.charge("a", 0.0005)


def test_a_role_without_the_attempts_is_told_before_it_writes(
    ledger: Ledger, inserter: str, postgres: PostgresServer, database: str, mallory: str
) -> None:
    postgres.execute(f"REVOKE ALL ON jam_ledger.accesses FROM {mallory}", database)
    with pytest.raises(BudgetError, match="cannot be used by this role"):
        Ledger(inserter).check_writable()


@pytest.mark.parametrize("table", ["events", "accesses"])
def test_not_even_the_owner_changes_a_line_by_mistake(ledger: Ledger, url: str, table: str) -> None:
    with ledger._backend.writing() as connection:
        append_access(connection, AccessKind.ATTEMPTED, "people", attempt="a")
    for statement in ("UPDATE {} SET reason = ''", "DELETE FROM {}", "TRUNCATE {}"):
        with psycopg.connect(url) as raw, pytest.raises(psycopg.Error, match="append-only"):
            raw.execute(statement.format(f"jam_ledger.{table}").encode())


# --- holding up


@contextlib.contextmanager
def impatient() -> Iterator[None]:
    """Let writers wait for a lock for a moment only; a machine under load ends nothing earlier."""
    with pytest.MonkeyPatch.context() as patched:
        wait = "lock_timeout TO '{milliseconds}ms'"
        assert wait in ledger_server._WRITE
        patched.setattr(
            ledger_server, "_WRITE", ledger_server._WRITE.replace(wait, "lock_timeout TO '50ms'")
        )
        yield


def test_whoever_holds_the_lock_holds_up_writers_and_nothing_else(
    ledger: Ledger, database: str, mallory: str, postgres: PostgresServer
) -> None:
    before = ledger.events()
    # Any role that may log in can: it needs no right to the ledger.
    with psycopg.connect(postgres.url(database, user=mallory)) as squatter:
        squatter.execute(f"SELECT pg_advisory_lock({ledger_server._LOCK})".encode())
        with impatient(), pytest.raises(BudgetError, match=r"held by another process.*pg_locks"):
            ledger.open_release(RELEASE_ID, SHARES)
        assert ledger.events() == before
        ledger.verify()
        ledger.check(RELEASE_ID, SHARES)
    ledger.open_release(RELEASE_ID, SHARES)


def test_an_insert_that_is_not_committed_holds_up_and_forges_nothing(
    ledger: Ledger, inserter: str
) -> None:
    with psycopg.connect(inserter) as raw:
        raw.execute(
            "INSERT INTO jam_ledger.events (seq, at, kind, dataset, release, partition, edition,"
            " specification, share, step, units, run_id, by, reason, previous, hash) VALUES"
            " (2, '', 'granted', 'x', '', '', '', '', '', '', 1, '', '', '', 'p', 'h')"
        )
        with impatient(), pytest.raises(BudgetError, match="held by another process"):
            ledger.open_release(RELEASE_ID, SHARES)
        raw.rollback()
    ledger.open_release(RELEASE_ID, SHARES)
    ledger.verify()


# --- other schemas


def test_tables_of_the_same_name_elsewhere_are_not_the_ledger(
    ledger: Ledger, url: str, database: str, mallory: str, postgres: PostgresServer
) -> None:
    postgres.execute(
        "CREATE TABLE public.events AS SELECT * FROM jam_ledger.events;"
        "CREATE TABLE public.accesses AS SELECT * FROM jam_ledger.accesses;"
        "UPDATE public.events SET units = 10 ^ 18;"
        "CREATE TABLE public.alembic_version AS SELECT '9999' AS version_num",
        database,
    )
    postgres.execute("ALTER ROLE tester SET search_path TO public, pg_temp")
    try:
        ledger.verify()
        granted = ledger.balance("people").granted_units
        assert granted < 10**18
        ledger.open_release(RELEASE_ID, SHARES)
        ledger.verify()
        # A temporary table comes before others unless it is named last.
        with ledger._backend.writing() as connection:
            connection.exec_driver_sql("CREATE TEMPORARY TABLE events (seq bigint)")
            found = connection.exec_driver_sql("SELECT count(*) FROM events WHERE seq > 0")
            assert found.scalar() == 2
    finally:
        postgres.execute("ALTER ROLE tester RESET search_path")


def test_a_schema_that_another_role_made_first_is_not_filled(
    url: str, database: str, mallory: str, postgres: PostgresServer
) -> None:
    """Its owner could drop whatever is written there."""
    postgres.execute("CREATE ROLE officer LOGIN")
    postgres.execute(f"GRANT CREATE ON DATABASE {database} TO officer, {mallory}")
    officer = Ledger(postgres.url(database, user="officer"))
    try:
        with psycopg.connect(postgres.url(database, user=mallory), autocommit=True) as raw:
            raw.execute("CREATE SCHEMA jam_ledger")
            raw.execute("GRANT ALL ON SCHEMA jam_ledger TO PUBLIC")
        with pytest.raises(BudgetError, match=f"belongs to the role '{mallory}'.*drop it"):
            officer.grant("people", epsilon=1.0, delta=1e-9)
        # An empty ledger of hers, open to all, is no better.
        Ledger(postgres.url(database, user=mallory))._backend.create()
        with psycopg.connect(postgres.url(database, user=mallory), autocommit=True) as raw:
            raw.execute("GRANT ALL ON ALL TABLES IN SCHEMA jam_ledger TO PUBLIC")
        with pytest.raises(BudgetError, match=f"belongs to the role '{mallory}'"):
            officer.grant("people", epsilon=1.0, delta=1e-9)
        with psycopg.connect(postgres.url(database, user=mallory), autocommit=True) as raw:
            raw.execute("DROP SCHEMA jam_ledger CASCADE")
        officer.grant("people", epsilon=1.0, delta=1e-9)
        officer.verify()
    finally:
        postgres.execute("DROP OWNED BY officer CASCADE", database)
        postgres.execute("DROP ROLE officer")
