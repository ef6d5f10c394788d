"""The state of a release: read from the journal once, and continued by the entries since."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import sqlalchemy as sa

from jam_dagster.errors import LedgerIntegrityError, ReleaseClosedError
from jam_dagster.privacy.ledger.journal import (
    Event,
    Kind,
    check_chain,
    events,
    last_lines,
    moved_to,
    moves_an_amount,
    of_release,
    read,
    read_from,
    refuse_moved,
)
from jam_dagster.privacy.ledger.release_id import ReleaseId, id_fields


@dataclass
class ShareState:
    """The state of a share since its last opening; amounts in units of 1e-15 rho.

    `charges` are by step, and `spent` is their sum. `returned` says that the rest went back to the
    dataset, and `ended` that the share ended after that.
    """

    reservation: Event
    charges: dict[str, int] = field(default_factory=dict)
    spent: int = 0
    returned: bool = False
    ended: bool = False

    @property
    def reserved(self) -> int:
        """The amount of the reservation."""
        return self.reservation.units

    @property
    def left(self) -> int:
        """The amount that was not charged."""
        return self.reserved - self.spent

    @property
    def closed(self) -> bool:
        """Whether it pays for no further draw, regardless of who returned the rest."""
        return self.returned or self.ended

    @property
    def held(self) -> int:
        """The amount that can still be charged."""
        return 0 if self.closed else self.left

    def apply(self, event: Event) -> None:
        """Apply one more event of the share."""
        if event.kind == Kind.CHARGED:
            self.spent += event.units - self.charges.get(event.step, 0)
            self.charges[event.step] = event.units
        self.returned |= event.kind == Kind.RETURNED
        self.ended |= event.kind == Kind.CLOSED


class ReleaseState:
    """The shares of a release and the digests of what it stored, from its events in their order.

    `shares` are those of the last opening, by name; none if the release was never opened. An
    earlier opening ended without a charge.
    """

    def __init__(self, journal: Iterable[Event] = ()) -> None:
        self.shares: dict[str, ShareState] = {}
        self._digests: dict[tuple[str, str], str] = {}
        self._derived: dict[tuple[str, str], str] = {}
        for event in journal:
            self.apply(event)

    @property
    def spent(self) -> int:
        """The amount charged to all shares, in units of 1e-15 rho."""
        return sum(share.spent for share in self.shares.values())

    @property
    def closed(self) -> bool:
        """Whether all shares are closed, as if the release was never opened."""
        return all(share.closed for share in self.shares.values())

    def digest(self, share: str, step: str) -> str | None:
        """Return the digest of the stored outcome of a step; None if the journal has none."""
        return self._digests.get((share, step))

    def derived(self, share: str, step: str) -> str | None:
        """Return the digest of what follows from outcomes; None if the last opening has none."""
        return self._derived.get((share, step))

    def includes(self, earlier: ReleaseState) -> bool:
        """Return whether it has each reservation, charge, digest and end of an earlier state."""
        digests = self._digests.items() >= earlier._digests.items()
        return digests and all(
            (now := self.shares.get(name)) is not None
            and now.reservation == share.reservation
            and now.closed >= share.closed
            and now.charges.items() >= share.charges.items()
            for name, share in earlier.shares.items()
        )

    def apply(self, event: Event) -> None:
        """Apply one more event of the release; raise if the ledger never writes it there."""
        if event.kind == Kind.STORED:
            self._digests.setdefault((event.share, event.step), event.digest)
        elif event.kind == Kind.DERIVED:
            self._derived.setdefault((event.share, event.step), event.digest)
        elif event.kind == Kind.RESERVED:
            self._reserve(event)
        elif event.moves_amount:
            share = self.shares.get(event.share)
            if share is None or share.reservation.opening != event.opening:
                raise _misplaced(event, "is about a share that was never reserved")
            share.apply(event)

    def _reserve(self, event: Event) -> None:
        if any(share.reservation.opening != event.opening for share in self.shares.values()):
            if self.spent or not self.closed:
                raise _misplaced(event, "reopens a release that had not ended, or had been charged")
            self.shares, self._derived = {}, {}
        if event.share in self.shares:
            raise _misplaced(event, "reserves the same share again")
        self.shares[event.share] = ShareState(event)


def _misplaced(event: Event, fault: str) -> LedgerIntegrityError:
    return LedgerIntegrityError(
        f"event {event.seq} of the ledger {fault}: jam-dagster did not write it. Run "
        "`jam-dagster ledger verify`; only the ledger's owner can repair it, from a backup"
    )


def release_state(connection: sa.Connection, release_id: ReleaseId) -> ReleaseState:
    """Return the state of a release, without the digests of its outcomes."""
    return ReleaseState(read(connection, of_release(release_id), moves_an_amount()))


def states_in(journal: Iterable[Event]) -> dict[ReleaseId, ReleaseState]:
    """Return the states of the releases that a journal opens, in their order, without digests."""
    states: dict[ReleaseId, ReleaseState] = {}
    for event in journal:
        if event.release_id is not None and event.moves_amount:
            states.setdefault(event.release_id, ReleaseState()).apply(event)
    return states


class ReleaseView(ReleaseState):
    """The state of a release through one entry of the journal, which is kept to be continued.

    `tail` has the `last_lines` of the journal, which that entry ends. `wrote` is the entry that a
    transaction of this process adds, and `own` one that is committed and was not read since.
    `moved_to` is the place to
    which the ledger has moved; empty if it has not. `covered` has the hashes of the reservations
    that are known to be covered by a grant.
    """

    def __init__(self, connection: sa.Connection, release_id: ReleaseId) -> None:
        self.tail = last_lines(connection)
        through = events.c.seq <= (self.tail[-1].seq if self.tail else 0)
        super().__init__(read(connection, of_release(release_id), through))
        self._release_id, self._fields = release_id, id_fields(release_id)
        self.moved_to = moved_to(connection)
        self.own: Event | None = None
        self.wrote: Event | None = None
        self.covered: frozenset[str] = frozenset()

    @property
    def opened(self) -> Mapping[str, ShareState]:
        """The shares of the last opening of a release that was opened; raise if it has none."""
        if not self.shares:
            raise _forgotten(f"the reservation of {self._release_id}")
        return self.shares

    def share(self, name: str) -> ShareState:
        """Return a share that was reserved in the last opening, or in one before.

        Raises
        ------
        LedgerIntegrityError
            If the ledger has no reservation of the release.
        ReleaseClosedError
            If the release was opened again without the share.
        """
        if name not in self.opened:
            raise ReleaseClosedError(
                f"share {name!r} of {self._release_id} has ended: the release was closed, and "
                "opened again without it"
            )
        return self.opened[name]

    def check_not_moved(self) -> None:
        """Raise if the ledger has moved to another place."""
        refuse_moved(self.moved_to)

    def continues(self, connection: sa.Connection) -> bool:
        """Apply the entries since `tail`; return False if the journal does not continue it.

        If other entries, or none, are in its place, the ledger was replaced, restored or changed,
        or this transaction began before the one that read `tail`. Entries that do not follow it
        as `check_chain` says are a `LedgerIntegrityError`.
        """
        if not self.tail:
            return False
        since = read_from(connection, self.tail[0].seq)
        if since[: len(self.tail)] != self.tail:
            return False
        if self.own is not None and self.own not in since:
            return False
        last, new = self.tail[-1], since[len(self.tail) :]
        check_chain(new, last.seq + 1, last.hash, events)
        for event in new:
            if event.kind in (Kind.MOVED, Kind.ARRIVED):
                self.moved_to = event.step if event.kind == Kind.MOVED else ""
            if all(getattr(event, name) == value for name, value in self._fields.items()):
                self.apply(event)
        self.tail, self.own = since[-2:], None
        return True

    def committed(self) -> None:
        """Remember what the transaction wrote: an older copy of the ledger would lack it."""
        own, self.wrote = self.wrote, None
        # Another thread may have taken the view meanwhile, and have read the entry.
        if own is not None and own.seq > self.tail[-1].seq:
            self.own = own

    def lacks(self, connection: sa.Connection, earlier: ReleaseView) -> bool:
        """Return whether the journal has forgotten what an earlier view had, or its own entry."""
        own = earlier.own
        forgot = own is not None and own not in read(connection, events.c.seq == own.seq)
        return forgot or not self.includes(earlier)


class KeptView:
    """The view of a release between two transactions of this process.

    Each transaction takes it out until it ends, so no two threads share it, and one that fails
    while it reads leaves none. A pickle holds none.
    """

    def __init__(self) -> None:
        self._views: deque[ReleaseView] = deque(maxlen=1)
        self.failed = False
        """Whether the ledger refused the outcome of a draw, or its answer never came."""

    def __reduce__(self) -> tuple[type[KeptView], tuple[()]]:
        return KeptView, ()

    @contextmanager
    def through(
        self, connection: sa.Connection, release_id: ReleaseId, *, writing: bool = False
    ) -> Iterator[ReleaseView]:
        """Give the state of a release that a transaction sees before it writes.

        A transaction that may write sees all that was committed. If it finds less than was read
        before, the ledger has forgotten it: a `LedgerIntegrityError`.
        """
        kept = view = self._views.pop() if self._views else None
        if view is None or not view.continues(connection):
            view = ReleaseView(connection, release_id)
        # A reader may have begun before another thread drew: that thread's state is the later one.
        known = kept is None or view is kept or not view.lacks(connection, kept)
        latest = view if known or kept is None else kept
        try:
            if writing and latest is not view:
                raise _forgotten(f"entries of {release_id} that this process has read")
            yield view
        finally:
            # The copy holds only entries that were read, so it outlives the transaction's effects.
            self._views.append(latest)


def _forgotten(what: str) -> LedgerIntegrityError:
    return LedgerIntegrityError(
        f"the ledger has forgotten {what}: an older copy was put in its place, or its last entries "
        "were removed. Nothing was added to it. Restore the newest copy"
    )
