"""The audit of a ledger: a replay of the journal that checks that it adds up."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from jam_dagster.errors import LedgerIntegrityError
from jam_dagster.privacy.ledger.approval import KINDS as APPROVAL_KINDS
from jam_dagster.privacy.ledger.approval import REQUIRED, Approvals
from jam_dagster.privacy.ledger.attempts import AccessesVerification
from jam_dagster.privacy.ledger.balance import Balance
from jam_dagster.privacy.ledger.bindings import (
    apply_binding,
    is_vouched,
    may_be_one_place,
    parallel_fault,
    public_fault,
    same_source,
)
from jam_dagster.privacy.ledger.holdings import policy_of
from jam_dagster.privacy.ledger.journal import GENESIS, Event, Kind, chain_fault
from jam_dagster.privacy.ledger.key import ReleaseKey, is_sha256
from jam_dagster.privacy.ledger.keys import KEY_KINDS, KeyAudit
from jam_dagster.privacy.ledger.policy import Holding, Policy, Use, mixture_fault, use
from jam_dagster.privacy.ledger.population import Population, PopulationAudit
from jam_dagster.privacy.sensitivity import REPLACE_ONE

_OF_THE_LEDGER = frozenset({Kind.MOVED, Kind.ARRIVED})
"""Kinds of events about the whole ledger instead of one dataset."""

_OF_POPULATIONS = frozenset({Kind.POPULATION, Kind.JOINED})


@dataclass(frozen=True)
class Verification:
    """The result of an audit that found no fault.

    Parameters
    ----------
    events : int
        Number of events in the journal.
    head : str
        Hash of the last event; keep it elsewhere to detect later that events were cut off.
    accesses : AccessesVerification, optional
        Result of the audit of the journal of attempts to open private data.
    """

    events: int
    head: str
    accesses: AccessesVerification | None = None


_UNMOVING = (Kind.STORED, Kind.CERTIFIED, Kind.COUNTED, Kind.RAN)


@dataclass
class _Share:
    at: str
    counts_in: str
    left: int
    reserved: int
    protects: str = ""
    spent: int = 0
    steps: set[str] = field(default_factory=set)
    stored: set[str] = field(default_factory=set)
    returned: bool = False
    closed: bool = False
    source: str = ""


@dataclass
class _Opening:
    number: str
    shares: dict[str, _Share] = field(default_factory=dict)
    records: str = ""
    """The public number of records of its source, where the release read one."""
    run: str | None = None
    """The digest of its last run."""

    @property
    def binds(self) -> bool:
        """Whether it keeps other releases from other sources."""
        return bool(self.records) or not self.ended_unspent

    @property
    def ended_unspent(self) -> bool:
        return all(share.closed and not share.spent for share in self.shares.values())

    @property
    def ended_charged(self) -> bool:
        shares = self.shares.values()
        return all(share.closed for share in shares) and any(share.spent for share in shares)


@dataclass
class _Dataset:
    granted: int | None = None
    policy: Policy = field(default_factory=Policy)
    approval: str = ""
    approvals: Approvals = field(default_factory=Approvals)
    withdrawn: set[tuple[ReleaseKey, str]] = field(default_factory=set)
    certified: set[tuple[ReleaseKey, str]] = field(default_factory=set)
    openings: dict[ReleaseKey, _Opening] = field(default_factory=dict)
    """The last opening of each release; earlier openings spent nothing and hold nothing."""
    sources: str = ""
    bound: dict[str, dict[ReleaseKey, str]] = field(default_factory=dict)
    """The source of each bound release, by partition."""
    records: dict[str, str] = field(default_factory=dict)
    """The public number of records of each partition, until it is bound to another source."""

    def use(self, policy: Policy, at: str) -> Use:
        """Add up what the releases hold and have spent in the period of an instant."""
        return use(policy, self.holdings(), policy.period_of(at))

    def live_sources(self) -> dict[str, list[str]]:
        """Return the sources of the releases that bind others, by partition."""
        return {
            partition: [
                source
                for key, source in its.items()
                if key in self.openings and self.openings[key].binds
            ]
            for partition, its in self.bound.items()
        }

    def holdings(self) -> Iterator[Holding]:
        """Yield every reservation, with the amounts that are still held and that were spent."""
        for key, opening in self.openings.items():
            for share in opening.shares.values():
                counted = bool(opening.records)
                held = (share.left, share.spent)
                yield Holding(share.at, key.partition, *held, share.protects, counted)


def verify_journal(
    journal: Iterable[Event],
    balance: Callable[[str], Balance | None],
    location: str,
    now: str,
) -> Verification:
    """Replay a journal against the ledger's rules.

    `balance` returns the database's totals of a dataset, `now` is its instant. A missing or
    altered entry, or one against the rules, is a `LedgerIntegrityError`.
    """
    previous, number, place, at = GENESIS, 0, "", ""
    datasets: dict[str, _Dataset] = {}
    keys = KeyAudit()
    populations = PopulationAudit(lambda name: _lifetime_use(datasets.get(name)))
    for number, event in enumerate(journal, start=1):
        wrong = (
            chain_fault(event, number, previous, "event")
            or _place_fault(event, place)
            or _time_fault(event, at)
        )
        if not wrong and event.kind in KEY_KINDS:
            wrong = keys.fault(event)
        elif not wrong and event.kind not in _OF_THE_LEDGER:
            if event.kind not in _OF_POPULATIONS:
                wrong = _rule_fault(event, datasets.setdefault(event.dataset, _Dataset()))
            wrong = wrong or populations.fault(event)
        if wrong:
            raise LedgerIntegrityError(f"event {event.seq} of the ledger {location} {wrong}")
        previous, place = event.hash, event.step if event.kind == Kind.MOVED else ""
        at = event.at
    for name, dataset in datasets.items():
        used = dataset.use(dataset.policy, now)
        replayed = (dataset.granted, used.reserved, used.spent, populations.totals(name))
        stored = balance(name)
        if stored is None or replayed != (
            stored.granted_units,
            stored.reserved_units,
            stored.spent_units,
            _totals(stored.population),
        ):
            raise LedgerIntegrityError(
                f"the balance of dataset {name!r} in the ledger {location} does not follow from "
                "its journal"
            )
    return Verification(number, previous)


def _lifetime_use(dataset: _Dataset | None) -> Use | None:
    if dataset is None or dataset.granted is None:
        return None
    return use(dataset.policy, dataset.holdings())


def _totals(population: Population | None) -> tuple[str, int, int, int] | None:
    if population is None:
        return None
    one = population
    return one.name, one.granted_units, one.reserved_units, one.spent_units


def _place_fault(event: Event, place: str) -> str:
    """Return the fault of an event's position; `place` is the place the ledger had moved to."""
    if place and event.kind != Kind.ARRIVED:
        return f"was written after the ledger moved to {place}"
    if event.kind == Kind.ARRIVED and event.step != (place or None):
        return "arrives without having moved there"
    if event.kind in _OF_THE_LEDGER and (event.dataset or event.units or not event.step):
        return "moves the ledger, and names a dataset, an amount or no place"
    return ""


def _time_fault(event: Event, last: str) -> str:
    """Return the fault of an event's time; only a grant with a reason sets the time back."""
    if event.at >= last or (event.kind == Kind.GRANTED and event.reason):
        return ""
    return "is dated before the event before it, and is no grant that corrects the time"


def _rule_fault(event: Event, dataset: _Dataset) -> str:
    """Return the fault of an event; without one, apply it to `dataset` and return an empty text."""
    if event.kind == Kind.GRANTED:
        policy = policy_of(event.period, event.partitions, event.ground, event.records)
        used = dataset.use(policy, event.at)
        if event.units < used.reserved + used.spent:
            return "grants less than was spent and reserved"
        if fault := mixture_fault(policy, dataset.holdings()):
            return f"grants a budget that {fault}"
        becomes = (dataset.policy.partitions, policy.partitions) == ("add", "disjoint")
        if becomes and (fault := parallel_fault(dataset.live_sources(), event.sources)):
            return f"grants a budget that {fault}"
        if event.attempts is not None and event.attempts < 1:
            return "grants no attempt to open private data"
        if event.approval not in ("", REQUIRED):
            return f"grants a budget with the unknown approval {event.approval!r}"
        dataset.granted, dataset.policy = event.units, policy
        dataset.sources, dataset.approval = event.sources, event.approval
        return ""
    if event.kind == Kind.BOUND:
        return _binding_fault(event, dataset)
    if event.kind in APPROVAL_KINDS:
        return _approval_fault(event, dataset)
    if event.kind == Kind.WITHDRAWN:
        return _withdrawal_fault(event, dataset)
    if not event.moves_amount and event.kind not in _UNMOVING:
        return f"is of the kind {event.kind.value!r}, which the ledger never writes"
    if dataset.granted is None:
        return f"is about dataset {event.dataset!r}, which was granted nothing"
    key = event.key
    if key is None:
        return "names no release"
    opening = dataset.openings.get(key)
    if event.kind == Kind.RESERVED:
        return _reservation_fault(event, key, dataset, opening)
    if event.kind == Kind.CERTIFIED:
        return _certificate_fault(event, key, dataset)
    if event.kind == Kind.RAN:
        return _run_fault(event, opening)
    if event.kind == Kind.COUNTED:
        return _count_fault(event, key, dataset, opening)
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
    if opening is None or (event.opening == follows and not opening.binds):
        opening = _Opening(follows)
    if event.opening != opening.number:
        return "reopens a release that had not ended, or had been charged"
    if event.share in opening.shares:
        return "reserves the same share again"
    policy = dataset.policy
    if event.counts_in != policy.period_of(event.at):
        return "counts in another period than its own"
    dataset.openings[key] = opening
    if any(share.source != event.source for share in opening.shares.values()):
        return "reads another source than the other shares of its release"
    opening.shares[event.share] = _Share(
        event.at, event.counts_in, event.units, event.units, event.protects, source=event.source
    )
    used = dataset.use(policy, event.at)
    if dataset.granted is None or used.reserved + used.spent > dataset.granted:
        return "reserves more than was left"
    if fault := mixture_fault(policy, dataset.holdings()):
        return f"is of a budget that {fault}"
    reserved = sum(share.reserved for share in opening.shares.values())
    if dataset.approval == REQUIRED and (fault := dataset.approvals.fault(key, reserved)):
        return f"reserves for a release that {fault}"
    return _source_fault(event, key, dataset)


def _binding_fault(event: Event, dataset: _Dataset) -> str:
    if dataset.granted is None:
        return f"is about dataset {event.dataset!r}, which was granted nothing"
    if event.key is None:
        if event.source or not event.reason:
            return "rebinds a partition without a reason, or names a source"
        dataset.bound.pop(event.partition, None)
        dataset.records.pop(event.partition, None)
        return ""
    if not event.source:
        return "binds a release to no source"
    if event.key not in dataset.openings:
        return "binds a release that was never reserved"
    if event.key in dataset.bound.get(event.partition, {}):
        return "binds a release that is bound"
    if dataset.openings[event.key].ended_charged:
        apply_binding(dataset.bound.setdefault(event.partition, {}), event)
        return ""
    return _source_fault(event, event.key, dataset)


def _count_fault(event: Event, key: ReleaseKey, dataset: _Dataset, opening: _Opening | None) -> str:
    if opening is None or all(share.closed for share in opening.shares.values()):
        return "counts the records of a release that is not open"
    if any(share.protects != REPLACE_ONE.code for share in opening.shares.values()):
        return "publishes the number of records of neighbours that protect it"
    if not re.fullmatch(r"[1-9]\d*", event.records):
        return "counts no number of records"
    if dataset.records.setdefault(event.partition, event.records) != event.records:
        return "counts another number of records than other releases of its partition"
    opening.records = event.records
    return ""


def _source_fault(event: Event, key: ReleaseKey, dataset: _Dataset) -> str:
    """Apply a binding and return its fault; empty if it has none."""
    bound = dataset.bound.setdefault(event.partition, {})
    apply_binding(bound, event)
    if dataset.policy.partitions == "disjoint" and any(
        one in dataset.openings and dataset.openings[one].binds
        for partition, others in dataset.bound.items()
        if event.source and partition != event.partition
        for one, its in others.items()
        if may_be_one_place(its, event.source)
    ):
        return "reads the source of another partition, and partitions are disjoint"
    disjoint = event.partition and dataset.policy.partitions == "disjoint"
    if disjoint and not is_vouched(event.source, dataset.sources):
        return "reads what the grant of disjoint partitions does not name"
    (protects, *_) = (share.protects for share in dataset.openings[key].shares.values())
    if not event.source or protects != REPLACE_ONE.code:
        return ""
    if fault := public_fault(dataset.policy, event.partition, event.source, dataset.sources):
        return f"reads a number of records that {fault}"
    counted = (one for one, opening in dataset.openings.items() if opening.binds)
    if any(not same_source(bound.get(one, event.source), event.source) for one in counted):
        return "reads another source than other releases of its partition"
    return ""


def _approval_fault(event: Event, dataset: _Dataset) -> str:
    key = event.key
    if key is None:
        return "names no release"
    if event.kind == Kind.APPROVED and dataset.approval != REQUIRED:
        return "approves a release that needs no approval"
    if event.kind == Kind.APPROVAL_WITHDRAWN:
        if dataset.approvals.standing(key) is None:
            return "withdraws an approval that was not given"
        opening = dataset.openings.get(key)
        if opening is not None and not opening.ended_unspent:
            return "withdraws the approval of a release that had reserved"
    dataset.approvals.apply(event)
    return ""


def _withdrawal_fault(event: Event, dataset: _Dataset) -> str:
    if event.key is None or event.key not in dataset.openings:
        return "withdraws the certificate of a release that was never reserved"
    if not event.digest or (event.key, event.digest) in dataset.withdrawn:
        return "withdraws no certificate, or withdraws the same one again"
    dataset.withdrawn.add((event.key, event.digest))
    return ""


def _certificate_fault(event: Event, key: ReleaseKey, dataset: _Dataset) -> str:
    if key not in dataset.openings:
        return "certifies a release that was never reserved"
    if not is_sha256(event.digest):
        return "names no digest of a certificate"
    if (key, event.digest) in dataset.certified:
        return "certifies the same digest again"
    dataset.certified.add((key, event.digest))
    return ""


def _run_fault(event: Event, opening: _Opening | None) -> str:
    if opening is None:
        return "is of a run of a release that was never reserved"
    if event.digest and not is_sha256(event.digest):
        return "names no digest of a run"
    if event.digest == opening.run:
        return "names the same run again"
    opening.run = event.digest
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
    elif event.kind == Kind.STORED:
        if event.step not in share.steps:
            return "stores the outcome of a draw that was never charged"
        if event.step in share.stored:
            return "stores the outcome of the same step again"
        if not is_sha256(event.digest):
            return "names no digest of an outcome"
        share.stored.add(event.step)
    else:
        if share.left:
            return "closes a share that still held something"
        share.closed = True
    return ""
