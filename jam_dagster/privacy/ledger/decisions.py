"""The decisions of persons in a journal: who granted, approved and withdrew what, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from jam_dagster.privacy.ledger.approval import KINDS as APPROVAL_KINDS
from jam_dagster.privacy.ledger.balance import DEFAULT_ATTEMPTS
from jam_dagster.privacy.ledger.journal import Event, Kind
from jam_dagster.privacy.ledger.release_id import fingerprint_of
from jam_dagster.privacy.ledger.signing_keys import SIGNING_KEY_KINDS

_DECIDED = frozenset(
    {Kind.ADOPTED, Kind.BY_HAND, *APPROVAL_KINDS, Kind.WITHDRAWN, Kind.MOVED, Kind.ARRIVED}
)

_TERMS = {
    "period": "lifetime",
    "partitions": "add",
    "ground": "none",
    "records": "private",
    "attempts": DEFAULT_ATTEMPTS,
    "approval": "none",
}
"""Terms of a grant that can be shown, with what holds where it names none."""


@dataclass(frozen=True)
class Decision:
    """A decision: the event, and what it says in words."""

    event: Event
    what: str

    @property
    def when(self) -> str:
        """The minute, UTC."""
        return self.event.at[:16].replace("T", " ")

    @property
    def by(self) -> str:
        """The account that decided."""
        return self.event.by or "not recorded"

    @property
    def why(self) -> str:
        """The reason that was given."""
        return self.event.reason or "no reason given"

    @property
    def said(self) -> str:
        """The decision, with its dataset and release."""
        event = self.event
        release = f"{event.release} [{event.partition}]" if event.partition else event.release
        of = " ".join(one for one in (event.dataset, release) if one)
        return f"{of}: {self.what}" if of else self.what


def decisions(events: Iterable[Event]) -> Iterator[Decision]:
    """Yield the decisions in a journal, in its order; a grant says what it changed."""
    granted: dict[str, Event] = {}
    last = None
    for event in events:
        if event.kind == Kind.GRANTED:
            yield Decision(event, _grant_text(event, granted.get(event.dataset)))
            granted[event.dataset] = event
        elif event.kind in SIGNING_KEY_KINDS:
            done = "added" if event.kind == Kind.KEY_ADDED else "revoked"
            yield Decision(event, f"key {fingerprint_of(event.digest)} {done}")
        elif event.kind == Kind.BOUND and event.release_id is None:
            yield Decision(event, "rebound")
        elif event.kind == Kind.CLOSED and event.reason and not event.run_id:
            # By a person, not by a run; each share has an event.
            if (closing := (event.release_id, event.at)) != last:
                yield Decision(event, "closed")
            last = closing
        elif event.kind in _DECIDED:
            yield Decision(event, event.kind.value)


def _grant_text(event: Event, before: Event | None) -> str:
    """Return what a grant changed of the one before."""
    now = f"epsilon {event.epsilon:g} at delta {event.delta:g}"
    if before is None:
        return f"granted {now}"
    if (before.epsilon, before.delta) == (event.epsilon, event.delta):
        said = f"other terms of {now}"
    else:
        how = "raised" if event.units > before.units else "lowered"
        said = f"{how} to {now}, from epsilon {before.epsilon:g} at delta {before.delta:g}"
    changed = [
        f"{name} {new}, before {old}"
        for name, default in _TERMS.items()
        if (new := getattr(event, name) or default) != (old := getattr(before, name) or default)
    ]
    changed += ["other sources"] if event.sources != before.sources else []
    changed += ["another delta of selections"] if event.selections != before.selections else []
    return "; ".join([said, *changed])
