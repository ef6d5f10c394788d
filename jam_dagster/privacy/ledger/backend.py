"""The database behind a ledger: the protocol that SQLite and PostgreSQL share."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

import sqlalchemy as sa

BUSY_SECONDS = 60.0
"""How long to wait for another writer."""

CLAIM_SECONDS = 5.0
"""How long to wait for another run of a release; a killed run releases its claim."""


class LedgerBackend(Protocol):
    """A database that holds one journal.

    There is one writer at a time, from the first read of its transaction to its commit. A backend
    can be pickled and used after a fork: connections live as long as one transaction.
    """

    @property
    def location(self) -> str:
        """The location as it is shown and as a `Ledger` takes it; without a password."""

    @property
    def place(self) -> str:
        """The location with variables expanded; without a password. The journal may name it."""

    @property
    def exists(self) -> bool:
        """Whether there is a ledger."""

    def reading(self) -> AbstractContextManager[sa.Connection]:
        """Yield a connection with one consistent view for all reads; never create a ledger."""

    def writing(self) -> AbstractContextManager[sa.Connection]:
        """Yield the only connection that may write; commit durably at the end, or not at all.

        A commit may have succeeded although its connection was lost: read the journal to find out.
        """

    def check_writable(self) -> None:
        """Raise the errors of `writing` or `create`, and write nothing."""

    def claim(self, name: str) -> AbstractContextManager[bool]:
        """Hold a name that one process at a time may hold; a process that dies releases it.

        If it has forked, the name is held until those processes have died, too; none of them can
        release it before.

        Yields whether the name was free within `CLAIM_SECONDS`.
        """

    def create(self) -> None:
        """Create an empty ledger if there is none yet, whole or not at all."""

    def upgrade(self) -> None:
        """Bring the schema of a ledger that an earlier version made up to date; keep its events."""


def wait_for(take: Callable[[], bool], seconds: float, *, pause: float = 0.05) -> bool:
    """Retry `take` until it succeeds or the time is over; return whether it succeeded."""
    end = time.monotonic() + seconds
    while not take():
        if time.monotonic() > end:
            return False
        time.sleep(pause)
    return True
