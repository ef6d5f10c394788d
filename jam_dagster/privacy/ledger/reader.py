"""The queries of a ledger: balances, events, releases and their audit."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import sqlalchemy as sa

from jam_dagster.common.variables import expanded, names_variables
from jam_dagster.errors import BudgetError, SpecificationError
from jam_dagster.privacy.accounting import rho_reserving
from jam_dagster.privacy.ledger.approval import not_reserved_yet
from jam_dagster.privacy.ledger.attempts import open_attempts, payments, verify_accesses
from jam_dagster.privacy.ledger.audit import Verification, verify_journal
from jam_dagster.privacy.ledger.backend import LedgerBackend
from jam_dagster.privacy.ledger.balance import Balance, balance_of, known_balance
from jam_dagster.privacy.ledger.clock import ledger_time
from jam_dagster.privacy.ledger.journal import (
    Access,
    AccessKind,
    Event,
    Kind,
    accesses,
    events,
    last,
    moved_to,
    moves_an_amount,
    of_release,
    read,
    read_accesses,
    utc_now,
)
from jam_dagster.privacy.ledger.postgres import LedgerServer
from jam_dagster.privacy.ledger.release_id import ReleaseId, check_name
from jam_dagster.privacy.ledger.reservation import Reservation, counted
from jam_dagster.privacy.ledger.sqlite import LedgerFile
from jam_dagster.privacy.ledger.state import ReleaseState, release_state, states_in


class LedgerReader:
    """The queries of a ledger; see `Ledger` for the parameters."""

    def __init__(
        self, url_or_path: str | os.PathLike[str], *, clock: Callable[[], datetime] = utc_now
    ) -> None:
        self._backend = backend_at(url_or_path)
        self._clock = clock

    def __repr__(self) -> str:
        return f"Ledger({self.location!r})"

    @property
    def location(self) -> str:
        """The ledger's location as it is shown: without a password, with the names of variables."""
        return self._backend.location

    @property
    def place(self) -> str:
        """The ledger's location with variables expanded, without a password; do not show it."""
        return self._backend.place

    @property
    def exists(self) -> bool:
        """Whether there is a ledger."""
        return self._backend.exists

    @property
    def file(self) -> Path | None:
        """The ledger's file; None for a database on a server."""
        return self._backend.path if isinstance(self._backend, LedgerFile) else None

    @property
    def moved_to(self) -> str:
        """The place the ledger has moved to, without a password; empty if it has not moved."""
        if not self.exists:
            return ""
        with self._backend.reading() as connection:
            return moved_to(connection)

    def datasets(self) -> tuple[str, ...]:
        """Return the protected datasets that have a budget; none if there is no ledger.

        Raises
        ------
        BudgetError
            If it is not a ledger, or cannot be read.
        """
        if not self.exists:
            return ()
        with self._backend.reading() as connection:
            granted = read(connection, events.c.kind == Kind.GRANTED.value)
            return tuple(sorted({event.dataset for event in granted}))

    @property
    def identity(self) -> str:
        """The hash of the first event, by which a ledger is known wherever it moves.

        It is empty if there is no ledger, or nothing in it.
        """
        if not self.exists:
            return ""
        with self._backend.reading() as connection:
            first = read(connection, events.c.seq == 1)
        return first[0].hash if first else ""

    def by_hand(self) -> bool:
        """Return whether definitions grant no new dataset; see `Ledger.grant_by_hand`.

        Raises
        ------
        BudgetError
            If there is no ledger, or it cannot be read.
        """
        with self._backend.reading() as connection:
            return is_by_hand(connection)

    def balance(self, dataset: str, *, through: int | None = None) -> Balance:
        """Return the balance of a dataset.

        Parameters
        ----------
        dataset : str
            The protected dataset.
        through : int, optional
            The number of the last event that counts; by default all do.

        Raises
        ------
        SpecificationError
            If a dataset cannot have that name.
        BudgetError
            If there is no ledger, or the dataset has no budget.
        """
        check_name(dataset, "the protected dataset")
        with self._backend.reading() as connection:
            at = ledger_time(connection, self._clock)
            return known_balance(connection, self.location, dataset, at, through=through)

    def balance_if_granted(self, dataset: str) -> Balance | None:
        """Return the balance of a dataset, or None if there is no budget or no ledger.

        Raises
        ------
        SpecificationError
            If a dataset cannot have that name.
        """
        check_name(dataset, "the protected dataset")
        if not self.exists:
            return None
        with self._backend.reading() as connection:
            return balance_of(connection, dataset, ledger_time(connection, self._clock))

    def balance_after(self, event: Event) -> Balance:
        """Return the balance of an event's dataset right after the event."""
        with self._backend.reading() as connection:
            return known_balance(
                connection, self.location, event.dataset, event.at, through=event.seq
            )

    def events(self, dataset: str | None = None) -> list[Event]:
        """Return the journal in its order, of one dataset or of all.

        Raises
        ------
        SpecificationError
            If a dataset cannot have that name.
        BudgetError
            If there is no ledger.
        """
        if dataset is not None:
            check_name(dataset, "the protected dataset")
        conditions = () if dataset is None else (events.c.dataset == dataset,)
        with self._backend.reading() as connection:
            return read(connection, *conditions)

    def approved(self, dataset: str) -> tuple[Event, ...]:
        """Return the approvals of a dataset without a reservation yet, in their order.

        Approvals of all partitions of a release are always included.

        Raises
        ------
        BudgetError
            If there is no ledger.
        """
        check_name(dataset, "the protected dataset")
        with self._backend.reading() as connection:
            return not_reserved_yet(connection, dataset)

    def acknowledgements(self, dataset: str | None = None) -> list[Access]:
        """Return the acknowledgements of attempts, of one dataset or of all, in their order.

        Raises
        ------
        SpecificationError
            If a dataset cannot have that name.
        BudgetError
            If there is no ledger.
        """
        if dataset is not None:
            check_name(dataset, "the protected dataset")
        conditions = [accesses.c.kind == AccessKind.ACKNOWLEDGED.value]
        conditions += [] if dataset is None else [accesses.c.dataset == dataset]
        with self._backend.reading() as connection:
            return read_accesses(connection, *conditions)

    def open_attempts(self, dataset: str) -> list[Access]:
        """Return the attempts of a dataset that count: neither ended well nor acknowledged.

        Raises
        ------
        SpecificationError
            If a dataset cannot have that name.
        BudgetError
            If there is no ledger, or the dataset has no budget.
        """
        check_name(dataset, "the protected dataset")
        with self._backend.reading() as connection:
            at = ledger_time(connection, self._clock)
            balance = known_balance(connection, self.location, dataset, at)
            return open_attempts(connection, balance, at)

    def reservation(self, release_id: ReleaseId) -> Reservation | None:
        """Return the last reservation of a release, or None if it was never opened here."""
        if not self.exists:
            return None
        with self._backend.reading() as connection:
            state = release_state(connection, release_id)
        return self._reservation(release_id, state) if state.shares else None

    def records(self, release_id: ReleaseId) -> int | None:
        """Return the public number of records that a release has read, or None.

        Raises
        ------
        BudgetError
            If there is no ledger.
        """
        with self._backend.reading() as connection:
            found = counted(connection, of_release(release_id)).get(release_id)
        return None if found is None else int(found)

    def has_drawn(self, release_id: ReleaseId) -> bool:
        """Return whether a release was charged for a draw, or journalled its number of records."""
        if not self.exists:
            return False
        with self._backend.reading() as connection:
            return payments(connection, release_id) > 0

    def last_run(self, release_id: ReleaseId) -> str | None:
        """Return the digest of a release's run, as `Ledger.ran` journalled it last, or None."""
        if not self.exists:
            return None
        with self._backend.reading() as connection:
            return last_run(connection, release_id)

    def reservations(self, dataset: str | None = None) -> tuple[Reservation, ...]:
        """Return the reservations of all releases, of one dataset or of all, in their order.

        Raises
        ------
        BudgetError
            If there is no ledger.
        """
        states = states_in(self.events(dataset))
        return tuple(self._reservation(release_id, state) for release_id, state in states.items())

    def _reservation(self, release_id: ReleaseId, state: ReleaseState) -> Reservation:
        reserved = {name: rho_reserving(share.reserved) for name, share in state.shares.items()}
        return Reservation(self._backend, release_id, reserved, clock=self._clock)

    def issued(self, release_id: ReleaseId, digest: str) -> Event | None:
        """Return the ledger entry of a release's certificate, or None."""
        with self._backend.reading() as connection:
            return issued(connection, release_id, digest)

    def ended(self, release_id: ReleaseId) -> tuple[str, Balance]:
        """Return when an amount of a release last moved, and its dataset's balance right after.

        Raises
        ------
        BudgetError
            If the release was never opened here.
        """
        with self._backend.reading() as connection:
            event = last(connection, of_release(release_id), moves_an_amount())
        if event is None:
            raise BudgetError(f"{release_id} was never reserved in the ledger {self.location}")
        return event.at, self.balance_after(event)

    def verify(self) -> Verification:
        """Prove that the journal was not altered and that the balances follow from it.

        Replays every event in Python against the ledger's rules, and compares the result with the
        balances of the database; the journal of attempts likewise. The replay cannot detect that
        the last events were cut off: keep the returned `head` elsewhere to detect that.

        Raises
        ------
        LedgerIntegrityError
            At the first event that does not fit, with its number.
        BudgetError
            If there is no ledger.
        """
        with self._backend.reading() as connection:
            now = ledger_time(connection, self._clock)
            journal = read(connection)
            verified = verify_journal(
                journal, lambda dataset: balance_of(connection, dataset, now), self.location, now
            )
            granted = {event.dataset for event in journal if event.kind == Kind.GRANTED}
            opened = verify_accesses(read_accesses(connection), granted, self.location)
            return replace(verified, accesses=opened)


def is_by_hand(connection: sa.Connection) -> bool:
    """Return whether definitions grant no new dataset; see `Ledger.grant_by_hand`."""
    return last(connection, events.c.kind == Kind.BY_HAND.value) is not None


def issued(connection: sa.Connection, release_id: ReleaseId, digest: str) -> Event | None:
    """Return the event of a release's certificate with a digest, or None."""
    certified = events.c.kind == Kind.CERTIFIED.value
    return last(connection, of_release(release_id), certified, events.c.digest == digest)


def last_run(connection: sa.Connection, release_id: ReleaseId) -> str | None:
    """Return the digest of a release's run, as it was made last; None if none was."""
    made = last(connection, of_release(release_id), events.c.kind == Kind.RAN.value)
    return None if made is None else made.digest


_URLS = "sqlite:////path/to/ledger.db or postgresql://user@host/database"


def backend_at(location: str | os.PathLike[str]) -> LedgerBackend:
    """Return the backend of a ledger at a path or a URL; open and create nothing.

    ``~`` and ``${VARIABLES}`` are expanded, and messages show the variables' names.
    """
    given = os.fspath(location)
    text = expanded(given, "the ledger's location")
    shown = _without_password(given) if names_variables(given) else ""
    if "://" not in text:
        return LedgerFile(_file_of(text, shown), shown)
    try:
        url = sa.make_url(text)
    except (sa.exc.ArgumentError, ValueError):
        # The location may hold a password: neither it nor the cause is repeated.
        raise SpecificationError(
            f"the ledger's location is neither a path nor a URL; give a path, {_URLS}"
        ) from None
    if url.drivername in ("postgresql", "postgresql+psycopg"):
        return LedgerServer(url, shown)
    if url.drivername in ("sqlite", "sqlite+pysqlite"):
        return LedgerFile(_file_of(url.database or "", shown), shown)
    raise SpecificationError(
        f"the ledger is kept in SQLite or in PostgreSQL (by psycopg), got a URL of "
        f"{url.drivername!r}; give a path, {_URLS}"
    )


def _file_of(location: str, shown: str) -> Path:
    if not location or location == ":memory:":
        raise SpecificationError(
            f"the ledger must be a file, got {shown or location!r}: a budget in memory would be"
            " forgotten"
        )
    path = Path(location).expanduser().absolute()
    if path.is_dir():
        raise SpecificationError(
            f"the ledger must be a file, {shown or path} is a folder; name a file in it"
        )
    return path


def _without_password(url: str) -> str:
    """Return a URL that names variables, without any literal password in it."""
    url = re.sub(r"(://[^:/@]*):(?!\$\{\w+\}@)[^@]*@", r"\1@", url)
    return re.sub(r"([?&][^=&]*password[^=&]*=)(?!\$\{)[^&]*", r"\1***", url)
