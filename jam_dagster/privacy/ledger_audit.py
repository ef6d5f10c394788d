"""The audit of a ledger: replay the journal and see whether it adds up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from jam_dagster.errors import LedgerIntegrityError
from jam_dagster.privacy.ledger_schema import GENESIS, Event, Kind
from jam_dagster.privacy.release_key import ReleaseKey


@dataclass(frozen=True)
class Verification:
    """What an audit found in order.

    Parameters
    ----------
    events : int
        How many events the journal holds.
    head : str
        Hash of the last one; whoever keeps it can tell later that none was cut off.
    """

    events: int
    head: str


class Totals(Protocol):
    """What the database says of one dataset, in units of 1e-15 rho."""

    @property
    def granted_units(self) -> int:
        """The whole budget."""
        ...

    @property
    def reserved_units(self) -> int:
        """What releases hold and have not spent."""
        ...

    @property
    def spent_units(self) -> int:
        """What was charged."""
        ...


@dataclass
class _Share:
    left: int
    steps: set[str] = field(default_factory=set)
    returned: bool = False
    closed: bool = False


@dataclass
class _Dataset:
    granted: int | None = None
    reserved: int = 0
    spent: int = 0
    shares: dict[tuple[ReleaseKey, str], _Share] = field(default_factory=dict)


def verify_journal(
    journal: Iterable[Event], balances: Mapping[str, Totals | None], location: str
) -> Verification:
    """Replay a journal against the ledger's rules.

    Parameters
    ----------
    journal : iterable of Event
        All events, in order of their number.
    balances : mapping of str to Totals or None
        What the database says of each dataset.
    location : str
        How errors call the ledger.

    Raises
    ------
    LedgerIntegrityError
        If an event is missing, altered or against the rules, or a balance does not follow.
    """
    previous, number = GENESIS, 0
    datasets: dict[str, _Dataset] = {}
    for number, event in enumerate(journal, start=1):
        wrong = _chain_fault(event, number, previous) or _rule_fault(
            event, datasets.setdefault(event.dataset, _Dataset())
        )
        if wrong:
            raise LedgerIntegrityError(f"event {event.seq} of the ledger {location} {wrong}")
        previous = event.hash
    for name, dataset in datasets.items():
        replayed = (dataset.granted, dataset.reserved, dataset.spent)
        said = balances[name]
        if said is None or replayed != (said.granted_units, said.reserved_units, said.spent_units):
            raise LedgerIntegrityError(
                f"the balance of dataset {name!r} in the ledger {location} does not follow from "
                "its journal"
            )
    return Verification(number, previous)


def _chain_fault(event: Event, number: int, previous: str) -> str:
    if event.seq != number:
        return f"should be event {number}: one is missing"
    if event.previous != previous:
        return "does not carry the hash of the event before it"
    if event.hash != event.seal():
        return "was altered: its hash does not fit what it says"
    return ""


def _rule_fault(event: Event, dataset: _Dataset) -> str:
    """Return what is wrong with an event, or apply it to `dataset` and return nothing."""
    if event.kind == Kind.GRANTED:
        if event.units < dataset.reserved + dataset.spent:
            return "grants less than was spent and reserved"
        dataset.granted = event.units
        return ""
    if dataset.granted is None:
        return f"is about dataset {event.dataset!r}, which was granted nothing"
    key = event.key
    if key is None:
        return "names no release"
    account = (key, event.share)
    if event.kind == Kind.RESERVED:
        if account in dataset.shares:
            return "reserves the same share again"
        if event.units > dataset.granted - dataset.reserved - dataset.spent:
            return "reserves more than was left"
        dataset.shares[account] = _Share(event.units)
        dataset.reserved += event.units
        return ""
    share = dataset.shares.get(account)
    if share is None:
        return "is about a share that was never reserved"
    if share.closed:
        return "comes after its share was closed"
    return _share_fault(event, dataset, share)


def _share_fault(event: Event, dataset: _Dataset, share: _Share) -> str:
    if event.kind == Kind.CHARGED:
        if share.returned:
            return "charges a share that was returned"
        if event.step in share.steps:
            return "charges the same step again"
        if event.units > share.left:
            return "charges more than its share had left"
        share.steps.add(event.step)
        share.left -= event.units
        dataset.reserved -= event.units
        dataset.spent += event.units
    elif event.kind == Kind.RETURNED:
        if share.returned or event.units != share.left:
            return "returns another amount than its share had left"
        share.left, share.returned = 0, True
        dataset.reserved -= event.units
    else:
        if share.left:
            return "closes a share that still held something"
        share.closed = True
    return ""
