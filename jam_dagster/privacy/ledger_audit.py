"""The audit of a ledger: replay the journal and see whether it adds up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from jam_dagster.errors import LedgerIntegrityError
from jam_dagster.privacy.balance import policy_of
from jam_dagster.privacy.ledger_schema import GENESIS, Event, Kind
from jam_dagster.privacy.policy import Holding, Policy, Use, mixture_fault, use
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
    at: str
    counts_in: str
    left: int
    protects: str = ""
    spent: int = 0
    steps: set[str] = field(default_factory=set)
    returned: bool = False
    closed: bool = False


@dataclass
class _Opening:
    number: str
    shares: dict[str, _Share] = field(default_factory=dict)

    @property
    def ended_unspent(self) -> bool:
        return all(share.closed and not share.spent for share in self.shares.values())


@dataclass
class _Dataset:
    granted: int | None = None
    policy: Policy = field(default_factory=Policy)
    openings: dict[ReleaseKey, _Opening] = field(default_factory=dict)
    """The last opening of each release; from those before it nothing was spent or is held."""

    def use(self, policy: Policy, at: str) -> Use:
        """Add up what the releases hold and have spent in the period of an instant."""
        return use(policy, self.holdings(), policy.period_of(at))

    def holdings(self) -> Iterator[Holding]:
        """Yield every reservation, with what became of it."""
        for key, opening in self.openings.items():
            for share in opening.shares.values():
                yield Holding(share.at, key.partition, share.left, share.spent, share.protects)


def verify_journal(
    journal: Iterable[Event],
    balance: Callable[[str], Totals | None],
    location: str,
    now: str,
) -> Verification:
    """Replay a journal against the ledger's rules.

    Parameters
    ----------
    journal : iterable of Event
        All events, in order of their number.
    balance : callable
        Gives what the database says of a dataset.
    location : str
        How errors call the ledger.
    now : str
        The instant of the balance, ISO 8601.

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
        used = dataset.use(dataset.policy, now)
        replayed = (dataset.granted, used.reserved, used.spent)
        said = balance(name)
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
        policy = policy_of(event.period, event.partitions, event.ground)
        used = dataset.use(policy, event.at)
        if event.units < used.reserved + used.spent:
            return "grants less than was spent and reserved"
        if fault := mixture_fault(policy, dataset.holdings()):
            return f"grants a budget that {fault}"
        dataset.granted, dataset.policy = event.units, policy
        return ""
    if dataset.granted is None:
        return f"is about dataset {event.dataset!r}, which was granted nothing"
    key = event.key
    if key is None:
        return "names no release"
    opening = dataset.openings.get(key)
    if event.kind == Kind.RESERVED:
        return _reservation_fault(event, key, dataset, opening)
    if opening is None or event.share not in opening.shares or event.opening != opening.number:
        return "is about a share that was never reserved"
    share = opening.shares[event.share]
    if share.closed:
        return "comes after its share was closed"
    if event.counts_in != share.counts_in:
        return "counts in another period than its reservation"
    return _share_fault(event, share)


def _reservation_fault(
    event: Event, key: ReleaseKey, dataset: _Dataset, opening: _Opening | None
) -> str:
    follows = "" if opening is None else str(int(opening.number or 1) + 1)
    if opening is None or (event.opening == follows and opening.ended_unspent):
        opening = _Opening(follows)
    if event.opening != opening.number:
        return "opens a release again that had not ended, or had been charged"
    if event.share in opening.shares:
        return "reserves the same share again"
    policy = dataset.policy
    if event.counts_in != policy.period_of(event.at):
        return "counts in another period than its own"
    dataset.openings[key] = opening
    opening.shares[event.share] = _Share(event.at, event.counts_in, event.units, event.protects)
    used = dataset.use(policy, event.at)
    if dataset.granted is None or used.reserved + used.spent > dataset.granted:
        return "reserves more than was left"
    if fault := mixture_fault(policy, dataset.holdings()):
        return f"is of a budget that {fault}"
    return ""


def _share_fault(event: Event, share: _Share) -> str:
    if event.kind == Kind.CHARGED:
        if share.returned:
            return "charges a share that was returned"
        if event.step in share.steps:
            return "charges the same step again"
        if event.units > share.left:
            return "charges more than its share had left"
        share.steps.add(event.step)
        share.left -= event.units
        share.spent += event.units
    elif event.kind == Kind.RETURNED:
        if share.returned or event.units != share.left:
            return "returns another amount than its share had left"
        share.left, share.returned = 0, True
    else:
        if share.left:
            return "closes a share that still held something"
        share.closed = True
    return ""
