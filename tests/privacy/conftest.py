"""A ledger with a budget, and a release to spend it on."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from jam_dagster.errors import LedgerIntegrityError
from jam_dagster.privacy import Ledger, Policy, ReleaseKey
from jam_dagster.privacy.ledger.journal import append
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


@pytest.fixture
def ledger(url: str) -> Ledger:
    ledger = Ledger(url)
    ledger.grant("people", epsilon=1.0, delta=1e-9, reason="policy")
    return ledger


@pytest.fixture
def key() -> ReleaseKey:
    return ReleaseKey("people", "yearly", "d1gest")


@pytest.fixture
def either(each_url: str) -> Ledger:
    """The ledger, on SQLite and on PostgreSQL."""
    ledger = Ledger(each_url)
    ledger.grant("people", epsilon=1.0, delta=1e-9)
    return ledger


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


def grant_disjoint(ledger: Ledger) -> None:
    """Grant a budget of which only the largest partition counts, with public numbers of records."""
    ground = "membership public and fixed"
    policy = Policy(partitions="disjoint", ground=ground, records="public")
    ledger.grant("people", epsilon=1.0, delta=1e-9, policy=policy)
