"""A ledger with a budget, and a release to spend it on."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from jam_dagster.errors import LedgerIntegrityError
from jam_dagster.privacy import Ledger, Policy, ReleaseId
from jam_dagster.privacy.ledger.journal import append, copy_rows, read, read_accesses
from jam_dagster.privacy.ledger.source_binding import SourceBinding
from tests.postgres import PostgresServer
from tests.tiers import gate


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def url(path: Path) -> str:
    """Where the ledger of a test lies; a module that gives `each_url` instead runs on both."""
    return str(path)


@pytest.fixture(params=["sqlite", *gate("postgresql")])
def each_url(request: pytest.FixtureRequest, path: Path) -> str:
    """Where a ledger can lie, with each backend in turn."""
    if request.param == "sqlite":
        return str(path)
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.create_database()


@pytest.fixture(scope="session")
def granted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with a budget, which no test changes."""
    file = tmp_path_factory.mktemp("granted") / "ledger.db"
    Ledger(file).grant("people", epsilon=1.0, delta=1e-9, reason="policy")
    return file


@pytest.fixture
def ledger(url: str, granted: Path) -> Ledger:
    return copy_of(granted, url)


@pytest.fixture
def release_id() -> ReleaseId:
    return ReleaseId("people", "yearly", "d1gest")


@pytest.fixture
def either(each_url: str, granted: Path) -> Ledger:
    """The ledger, on SQLite and on PostgreSQL."""
    return copy_of(granted, each_url)


def copy_of(file: Path, url: str) -> Ledger:
    """Return a copy of a ledger at a place where there is none."""
    if "://" not in url:
        shutil.copy(file, url)
        return Ledger(url)
    copy = Ledger(url)
    copy._backend.create()
    with Ledger(file)._backend.reading() as origin, copy._backend.writing() as connection:
        copy_rows(connection, read(origin), read_accesses(origin))
    return copy


def audit_finds(ledger: Ledger, fault: str, *forged: dict[str, Any]) -> None:
    """Append events that the ledger refuses to write, and see the audit name the fault."""
    for event in forged:
        with ledger._backend.writing() as connection:
            append(connection, **event)
    with pytest.raises(LedgerIntegrityError, match=fault):
        ledger.verify()


class Clock:
    """A clock that a test sets."""

    def __init__(self, *when: int) -> None:
        self.set(*when)

    def set(self, *when: int) -> None:
        self.when = datetime(*when, tzinfo=UTC)  # type: ignore[misc, arg-type]

    def __call__(self) -> datetime:
        return self.when


SECRET = b"\1" * 32


def slice_of(table: str, partition: str) -> SourceBinding:
    """Return the binding of a file of its own, which is a partition of a table."""
    return SourceBinding.of(SECRET, table + partition, table=table)


def grant_disjoint(ledger: Ledger) -> None:
    """Grant a budget of which only the largest partition counts, with public numbers of records."""
    ground = "membership public and fixed"
    policy = Policy(partitions="disjoint", ground=ground, records="public")
    ledger.grant("people", epsilon=1.0, delta=1e-9, policy=policy)
