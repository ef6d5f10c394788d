"""The state of a release: read from the journal once, and continued by the entries since."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise

import sqlalchemy as sa

from jam_dagster.privacy.ledger.journal import (
    Event,
    Kind,
    events,
    last_lines,
    moved_to,
    moves_an_amount,
    of_release,
    read,
    read_from,
    refuse_moved,
)
from jam_dagster.privacy.ledger.key import ReleaseKey, key_fields


@dataclass
class ShareState:
    """The state of a share since its last opening; amounts in units of 1e-15 rho.

    `charges` are by step, and `spent` is their sum.
    """

    reservation: Event
    charges: dict[str, int] = field(default_factory=dict)
    spent: int = 0
    closed: bool = False

    @property
    def reserved(self) -> int:
        """The amount of the reservation."""
        return self.reservation.units

    @property
    def left(self) -> int:
        """The amount that was not charged."""
        return self.reserved - self.spent

    def apply(self, event: Event) -> None:
        """Apply one more event of the share."""
        if event.kind == Kind.CHARGED:
            self.spent += event.units - self.charges.get(event.step, 0)
            self.charges[event.step] = event.units
        # A returned amount pays for no further draw, whoever wrote the return.
        self.closed |= event.kind in (Kind.CLOSED, Kind.RETURNED)


class ReleaseState:
    """The shares of a release and the digests of its outcomes, from its events in their order."""

    def __init__(self, journal: Iterable[Event] = ()) -> None:
        self._openings: dict[str, dict[str, ShareState]] = {}
        self._opening = ""
        self._digests: dict[tuple[str, str], str] = {}
        for event in journal:
            self.apply(event)

    @property
    def shares(self) -> dict[str, ShareState]:
        """The shares of the last opening, by name; none if the release was never opened."""
        return dict(sorted(self._openings.get(self._opening, {}).items()))

    def was_charged(self, share: str, step: str) -> bool:
        """Return whether a step was charged to a share, in any opening."""
        openings = (shares.get(share) for shares in self._openings.values())
        return any(state is not None and step in state.charges for state in openings)

    def digest(self, share: str, step: str) -> str | None:
        """Return the digest of the stored outcome of a step; None if the journal has none."""
        return self._digests.get((share, step))

    def apply(self, event: Event) -> None:
        """Apply one more event of the release."""
        if event.kind == Kind.STORED:
            self._digests.setdefault((event.share, event.step), event.digest)
        if event.moves_amount:
            self._opening = event.opening
            shares = self._openings.setdefault(event.opening, {})
            shares.setdefault(event.share, ShareState(event)).apply(event)


def states_of(journal: Iterable[Event]) -> dict[str, ShareState]:
    """Return the shares of a release's last opening, by name, from the release's events."""
    return ReleaseState(journal).shares


def share_states(connection: sa.Connection, key: ReleaseKey) -> dict[str, ShareState]:
    """Return the shares of a release's last opening, by name; none if it was never opened."""
    return states_of(read(connection, of_release(key), moves_an_amount()))


class ReleaseView(ReleaseState):
    """The state of a release through one entry of the journal, which is kept to be continued.

    `tail` has the `last_lines` of the journal, which that entry ends. `moved_to` is the place to
    which the ledger has moved; empty if it has not. `covered` has the hashes of the reservations
    that are known to be covered by a grant.
    """

    def __init__(self, connection: sa.Connection, key: ReleaseKey) -> None:
        self.tail = last_lines(connection)
        through = events.c.seq <= (self.tail[-1].seq if self.tail else 0)
        super().__init__(read(connection, of_release(key), through))
        self._key = key_fields(key)
        self.moved_to = moved_to(connection)
        self.covered: frozenset[str] = frozenset()

    def check_not_moved(self) -> None:
        """Raise if the ledger has moved to another place."""
        refuse_moved(self.moved_to)

    def continues(self, connection: sa.Connection) -> bool:
        """Apply the entries since `tail`; return False if the journal does not continue it.

        Where other entries, or none, are in its place, the ledger was replaced, restored or
        changed.
        """
        if not self.tail:
            return False
        since = read_from(connection, self.tail[0].seq)
        if since[: len(self.tail)] != self.tail or any(
            (after.seq, after.previous) != (before.seq + 1, before.hash)
            for before, after in pairwise(since)
        ):
            return False
        for event in since[len(self.tail) :]:
            if event.kind in (Kind.MOVED, Kind.ARRIVED):
                self.moved_to = event.step if event.kind == Kind.MOVED else ""
            if all(getattr(event, name) == value for name, value in self._key.items()):
                self.apply(event)
        self.tail = since[-2:]
        return True


class KeptView:
    """The view of a release between two transactions of this process.

    Each transaction takes it out until it ends, so no two threads share it, and one that fails
    while it reads leaves none. A pickle holds none.
    """

    def __init__(self) -> None:
        self._views: deque[ReleaseView] = deque(maxlen=1)

    def __reduce__(self) -> tuple[type[KeptView], tuple[()]]:
        return KeptView, ()

    @contextmanager
    def through(self, connection: sa.Connection, key: ReleaseKey) -> Iterator[ReleaseView]:
        """Give the state of a release that a transaction sees before it writes."""
        view = self._views.pop() if self._views else None
        if view is None or not view.continues(connection):
            view = ReleaseView(connection, key)
        try:
            yield view
        finally:
            # It holds only what was read, so it outlives what the transaction does.
            self._views.append(view)
