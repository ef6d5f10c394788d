"""What keeps a ledger's journal: the surface that SQLite and PostgreSQL share."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

import sqlalchemy as sa

BUSY_SECONDS = 60.0
"""How long to wait for another writer."""

CLAIM_SECONDS = 5.0
"""How long to wait for another run of a release: one that was killed lets go at once."""


class LedgerBackend(Protocol):
    """A database that holds one journal.

    There is one writer at a time, from the first read of its transaction to its commit. A backend
    can be pickled and used after a fork: connections live as long as one transaction.
    """

    @property
    def location(self) -> str:
        """The name by which people know it, and by which a `Ledger` finds it; no password."""
        ...

    @property
    def place(self) -> str:
        """Where it lies, with what variables hold; no password. Its own journal may say it."""
        ...

    @property
    def exists(self) -> bool:
        """Whether there is a ledger."""
        ...

    def reading(self) -> AbstractContextManager[sa.Connection]:
        """Give a connection whose reads all see the same state; never makes a ledger.

        Raises
        ------
        BudgetError
            If there is no ledger, or it cannot be read.
        """
        ...

    def writing(self) -> AbstractContextManager[sa.Connection]:
        """Give a connection that alone may write; commits durably at the end, or not at all.

        Raises
        ------
        BudgetError
            If there is no ledger, or it cannot be written. Where a connection was lost during
            the commit, it may have been: whoever needs to know must read.
        """
        ...

    def check_writable(self) -> None:
        """Raise as `writing` or `create` would, and write nothing.

        Raises
        ------
        BudgetError
            If the ledger cannot be written, or cannot be made where it is not there.
        """
        ...

    def claim(self, name: str) -> AbstractContextManager[bool]:
        """Hold a name that one process at a time may hold; whoever dies lets go of it.

        Gives whether it could be had within `CLAIM_SECONDS`.

        Raises
        ------
        BudgetError
            If the ledger cannot be reached or written.
        """
        ...

    def create(self) -> None:
        """Make an empty ledger if there is none yet, whole or not at all.

        Raises
        ------
        BudgetError
            If it cannot be made.
        """
        ...

    def upgrade(self) -> None:
        """Bring the schema of a ledger that an earlier version made up to date; keep its events.

        Raises
        ------
        BudgetError
            If there is no ledger, or it cannot be written.
        """
        ...


def wait_for(take: Callable[[], bool], seconds: float, *, pause: float = 0.05) -> bool:
    """Try to take something until it is taken or the time is over; return whether it was."""
    end = time.monotonic() + seconds
    while not take():
        if time.monotonic() > end:
            return False
        time.sleep(pause)
    return True


def grant_command(location: str, dataset: str = "ID") -> str:
    """Return the command that grants a dataset its budget, as errors tell it."""
    return (
        f"jam-dagster ledger grant --ledger {location} --dataset {dataset} "
        "--epsilon EPSILON --delta DELTA"
    )


def close_command(location: str, dataset: str = "ID") -> str:
    """Return the command that closes a release that will not go on, as errors tell it."""
    return (
        f"jam-dagster ledger close --ledger {location} --dataset {dataset} --release NAME "
        "--reason REASON"
    )


def no_ledger(location: str) -> str:
    """Return what is said where there is no ledger."""
    return (
        f"there is no ledger at {location}; grant a dataset its budget to begin one: "
        f"{grant_command(location)}"
    )
