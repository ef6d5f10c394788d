"""The audit of a ledger: a replay of the journal that checks that it adds up."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from jam_dagster.errors import LedgerIntegrityError
from jam_dagster.privacy.ledger.approval import KINDS as APPROVAL_KINDS
from jam_dagster.privacy.ledger.approval import Approvals
from jam_dagster.privacy.ledger.attempts import AccessesVerification
from jam_dagster.privacy.ledger.balance import Balance, balance_from
from jam_dagster.privacy.ledger.bindings import (
    Bindings,
    apply_binding,
    is_vouched,
    live_sources,
    of_another_table,
    parallel_fault,
    public_fault,
)
from jam_dagster.privacy.ledger.clock import time_of
from jam_dagster.privacy.ledger.holdings import policy_of
from jam_dagster.privacy.ledger.journal import GENESIS, Event, Kind, chain_fault
from jam_dagster.privacy.ledger.policy import (
    REQUIRED,
    Holding,
    Policy,
    composed,
    mixture_fault,
    use,
)
from jam_dagster.privacy.ledger.release_id import ReleaseId, is_sha256
from jam_dagster.privacy.ledger.reservation import cover_fault
from jam_dagster.privacy.ledger.signing_keys import SIGNING_KEY_KINDS, SigningKeyAudit
from jam_dagster.privacy.ledger.source_binding import SourceBinding, binding_of
from jam_dagster.privacy.ledger.state import ReleaseState, ShareState
from jam_dagster.privacy.sensitivity import REPLACE_ONE

_OF_THE_LEDGER = frozenset({Kind.MOVED, Kind.ARRIVED})
"""Kinds of events about the whole ledger instead of one dataset."""


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


class _Release(ReleaseState):
    """The last opening of a release; earlier openings spent nothing and hold nothing."""

    records = ""
    """The public number of records of its source, where the release read one."""
    run: str | None = None
    """The digest of its last run."""

    @property
    def ended(self) -> bool:
        """Whether all shares have ended; a run that returns a rest ends its share, too."""
        return all(share.ended for share in self.shares.values())

    @property
    def binds(self) -> bool:
        """Whether it keeps other releases from other sources."""
        return bool(self.records or self.spent) or not self.ended

    def reservations(self) -> list[Event]:
        """Return the reservations of its shares."""
        return [share.reservation for share in self.shares.values()]


@dataclass
class _Dataset:
    grant: Event
    approvals: Approvals = field(default_factory=Approvals)
    named: set[tuple[Kind, ReleaseId, str]] = field(default_factory=set)
    """The digests of certificates that were issued or withdrawn."""
    releases: dict[ReleaseId, _Release] = field(default_factory=dict)
    bound: Bindings = field(default_factory=dict)
    records: dict[str, str] = field(default_factory=dict)
    """The public number of records of each partition, until it is bound to another source."""

    @property
    def policy(self) -> Policy:
        """How its budget counts."""
        return policy_of(self.grant)

    def held(self) -> list[Holding]:
        """Return every reservation, with the amounts that are still held and that were spent."""
        return [
            Holding(
                share.reservation.at,
                release_id.partition,
                share.held,
                share.spent,
                share.reservation.protects,
                bool(release.records),
                selections=share.reservation.selections or 0,
            )
            for release_id, release in self.releases.items()
            for share in release.shares.values()
        ]

    def totals(self, held: Sequence[Holding], at: str) -> tuple[int, ...]:
        """Return the granted, reserved and spent amounts, and the deltas, with these reservations.

        They are added up without `balance_from`, by which a run counts: a fault in it shows as a
        difference.
        """
        used = use(self.policy, held, self.policy.period_of(at))
        deltas = self.grant.selections or 0, composed(self.policy, used.selections)
        return self.grant.units, used.reserved, used.spent, *deltas

    def live(self) -> set[ReleaseId]:
        """Return the releases that keep others from other sources."""
        return {release_id for release_id, release in self.releases.items() if release.binds}


def verify_journal(
    journal: Iterable[Event], balance: Callable[[str], Balance | None], location: str, now: str
) -> Verification:
    """Replay a journal against the ledger's rules.

    `balance` returns the database's totals of a dataset, `now` is its instant. A missing or
    altered entry, or one against the rules, is a `LedgerIntegrityError`.
    """
    previous, number, place, at = GENESIS, 0, "", ""
    replay, keys = _Replay(), SigningKeyAudit()
    for number, event in enumerate(journal, start=1):
        wrong = (
            chain_fault(event, number, previous, "event")
            or _place_fault(event, place)
            or _time_fault(event, at)
        )
        if not wrong and event.kind in SIGNING_KEY_KINDS:
            wrong = keys.fault(event)
        elif not wrong and event.kind not in _OF_THE_LEDGER:
            wrong = replay.fault(event)
        if wrong:
            raise LedgerIntegrityError(f"event {event.seq} of the ledger {location} {wrong}")
        previous, place = event.hash, event.step if event.kind == Kind.MOVED else ""
        at = event.at
    for name, dataset in replay.datasets.items():
        stored = balance(name)
        if stored is None or _totals(stored) != dataset.totals(dataset.held(), now):
            raise LedgerIntegrityError(
                f"the balance of dataset {name!r} in the ledger {location} does not follow from "
                "its journal"
            )
    return Verification(number, previous)


def _totals(balance: Balance) -> tuple[int, ...]:
    """Return the granted, reserved and spent amounts, and the deltas, of a dataset."""
    amounts = balance.granted_units, balance.reserved_units, balance.spent_units
    return (*amounts, balance.granted_selections, balance.used_selections)


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
    time_of(event)
    if event.at >= last or (event.kind == Kind.GRANTED and event.reason):
        return ""
    return "is dated before the event before it, and is no grant that corrects the time"


class _Replay:
    """The datasets of a journal, as far as it was replayed."""

    def __init__(self) -> None:
        self.datasets: dict[str, _Dataset] = {}
        self._by_hand = False

    def fault(self, event: Event) -> str:
        """Return the fault of an event; without one, apply it and return an empty text."""
        if event.kind == Kind.BY_HAND:
            return self._by_hand_fault(event)
        if event.kind == Kind.ADOPTED:
            alone = not (event.dataset or event.release or event.units) and event.reason
            fault = "adopts the ledger, and names a dataset or an amount, or no reason"
            return "" if alone else fault
        if event.kind == Kind.GRANTED:
            return self._grant_fault(event)
        dataset = self.datasets.get(event.dataset)
        if dataset is None:
            return f"is about dataset {event.dataset!r}, which was granted nothing"
        release_id = event.release_id
        if event.kind == Kind.BOUND:
            return _binding_fault(event, dataset)
        if release_id is None:
            return "names no release"
        if event.kind in APPROVAL_KINDS:
            return _approval_fault(event, release_id, dataset)
        if event.kind == Kind.RESERVED:
            return self._reservation_fault(event, release_id, dataset)
        release = dataset.releases.get(release_id)
        if release is None:
            return "is about a release that was never reserved"
        if event.kind == Kind.COUNTED:
            return _count_fault(event, dataset, release)
        if event.kind in (Kind.CERTIFIED, Kind.WITHDRAWN):
            return _certificate_fault(event, release_id, dataset)
        if event.kind == Kind.RAN:
            return _run_fault(event, release)
        if event.kind == Kind.DERIVED:
            return _derived_fault(event, release)
        fault = _share_fault(event, release)
        if not fault:
            release.apply(event)
        return fault

    def _by_hand_fault(self, event: Event) -> str:
        if event.dataset or event.release or event.units or not event.reason:
            return "ends grants by definitions, and names a dataset or an amount, or no reason"
        if self._by_hand:
            return "ends grants by definitions again"
        self._by_hand = True
        return ""

    def _grant_fault(self, event: Event) -> str:
        dataset = self.datasets.setdefault(event.dataset, _Dataset(event))
        policy, held = policy_of(event), dataset.held()
        used = use(policy, held, policy.period_of(event.at))
        if event.units < used.reserved + used.spent:
            return "grants less than was spent and reserved"
        if (event.selections or 0) < composed(policy, used.selections):
            return "grants less delta for selections than releases have"
        if fault := mixture_fault(policy, held):
            return f"grants a budget that {fault}"
        becomes = policy.newly_parallel(dataset.policy)
        live = live_sources(dataset.bound, dataset.live())
        if becomes and (fault := parallel_fault(live, event.sources, policy)):
            return f"grants a budget that {fault}"
        if event.attempts is not None and event.attempts < 1:
            return "grants no attempt to open private data"
        if event.approval not in ("", REQUIRED):
            return f"grants a budget with the unknown approval {event.approval!r}"
        dataset.grant = event
        return ""

    def _reservation_fault(self, event: Event, release_id: ReleaseId, dataset: _Dataset) -> str:
        release = dataset.releases.setdefault(release_id, _Release())
        opening = next((one.opening for one in release.reservations()), "")
        again = event.opening == str(int(opening or 1) + 1) and not release.binds
        if event.opening != opening and not (release.shares and again):
            return "reopens a release that had not ended, or had been charged"
        if event.opening == opening and event.share in release.shares:
            return "reserves the same share again"
        release.apply(event)
        reserved = release.reservations()
        if any(one.source != event.source for one in reserved):
            return "reads another source than the other shares of its release"
        held = dataset.held()
        balance = balance_from(dataset.grant, held, event.at)
        if fault := cover_fault(balance, held, dataset.approvals, release_id, reserved):
            return fault
        granted, kept, spent, deltas, selected = dataset.totals(held, event.at)
        if kept + spent > granted or selected > deltas:
            return "reserves more than was left"
        return _source_fault(event, release_id, dataset)


def _binding_fault(event: Event, dataset: _Dataset) -> str:
    release_id = event.release_id
    if release_id is None:
        named = binding_of(event)
        bare = named and SourceBinding(named.secret, table=named.table)
        if not event.reason or named != bare or (named and not named.table):
            return "rebinds a partition without a reason, or names what is no table"
        apply_binding(dataset.bound, event)
        dataset.records.pop(event.partition, None)
        return ""
    if not event.source:
        return "binds a release to no source"
    if release_id not in dataset.releases:
        return "binds a release that was never reserved"
    its = dataset.bound[event.partition].get(release_id)
    if its is not None and its.source:
        return "binds a release that is bound"
    return _source_fault(event, release_id, dataset)


def _source_fault(event: Event, release_id: ReleaseId, dataset: _Dataset) -> str:
    """Apply a binding and return its fault; empty if it has none."""
    kept = dataset.bound.get(event.partition, {}).get(release_id)
    apply_binding(dataset.bound, event)
    release, policy, grant = dataset.releases[release_id], dataset.policy, dataset.grant
    source = dataset.bound[event.partition][release_id]
    if source is None:
        return ""
    its = {event.partition: [kept] if kept and event.kind == Kind.BOUND else []}
    if policy.of_one_table and of_another_table(source, its):
        return "reads another table than it was reserved for, and partitions are of one table"
    if release.ended and release.spent:
        return ""
    live = live_sources(dataset.bound, dataset.live())
    if policy.parallel:
        others = (one for name, its in live.items() if name != event.partition for one in its)
        if any(one is not None and one.may_share_place(source) for one in others):
            return "reads the source of another partition, and partitions are disjoint"
        if event.partition and not is_vouched(source, grant.sources):
            return "reads what the grant of disjoint partitions does not name"
        if policy.of_one_table and event.partition and of_another_table(source, live):
            return "reads another table than other partitions, which are disjoint in one table"
    if all(one.protects != REPLACE_ONE.code for one in release.reservations()):
        return ""
    if fault := public_fault(policy, event.partition, source, grant.sources):
        return f"reads a number of records that {fault}"
    known = [one for one in live[event.partition] if one is not None and one.source]
    if not all(one.reads_same(source) for one in known):
        return "reads another source than other releases of its partition"
    return ""


def _count_fault(event: Event, dataset: _Dataset, release: _Release) -> str:
    if release.ended:
        return "counts the records of a release that is not open"
    if any(one.protects != REPLACE_ONE.code for one in release.reservations()):
        return "publishes the number of records of neighbours that protect it"
    if not re.fullmatch(r"[1-9]\d*", event.records):
        return "counts no number of records"
    if dataset.records.setdefault(event.partition, event.records) != event.records:
        return "counts another number of records than other releases of its partition"
    release.records = event.records
    return ""


def _approval_fault(event: Event, release_id: ReleaseId, dataset: _Dataset) -> str:
    if event.kind == Kind.APPROVED and dataset.grant.approval != REQUIRED:
        return "approves a release that needs no approval"
    if event.kind == Kind.APPROVAL_WITHDRAWN:
        if dataset.approvals.standing(release_id) is None:
            return "withdraws an approval that was not given"
        release = dataset.releases.get(release_id)
        if release is not None and (release.spent or not release.ended):
            return "withdraws the approval of a release that had reserved"
    dataset.approvals.apply(event)
    return ""


def _certificate_fault(event: Event, release_id: ReleaseId, dataset: _Dataset) -> str:
    if not is_sha256(event.digest):
        return "names no digest of a certificate"
    named = event.kind, release_id, event.digest
    if named in dataset.named:
        return "certifies or withdraws the same digest again"
    dataset.named.add(named)
    return ""


def _run_fault(event: Event, release: _Release) -> str:
    if event.digest and not is_sha256(event.digest):
        return "names no digest of a run"
    if event.digest == release.run:
        return "names the same run again"
    release.run = event.digest
    return ""


_NO_SHARE = "is about a share that was never reserved"


def _share_of(event: Event, release: _Release) -> ShareState | None:
    """Return the share of an event in the last opening of its release."""
    share = release.shares.get(event.share)
    return share if share and event.opening == share.reservation.opening else None


def _derived_fault(event: Event, release: _Release) -> str:
    if _share_of(event, release) is None:
        return _NO_SHARE
    if event.units:
        return "moves an amount, and nothing is charged for what follows from outcomes"
    if release.derived(event.share, event.step) is not None:
        return "has another digest of what follows from the same outcomes"
    if not is_sha256(event.digest):
        return "names no digest of what follows from outcomes"
    release.apply(event)
    return ""


def _share_fault(event: Event, release: _Release) -> str:
    share = _share_of(event, release)
    if share is None:
        return _NO_SHARE
    if share.ended:
        return "comes after its share was closed"
    if event.counts_in != share.reservation.counts_in:
        return "counts in another period than its reservation"
    if event.kind == Kind.CHARGED:
        if share.returned:
            return "charges a share that was returned"
        if event.step in share.charges:
            return "charges the same step again"
        if event.units > share.left:
            return "charges more than its share had left"
    elif event.kind == Kind.RETURNED:
        if share.returned or event.units != share.left:
            return "returns another amount than its share had left"
    elif event.kind == Kind.STORED:
        if event.step not in share.charges:
            return "stores the outcome of a draw that was never charged"
        if release.digest(event.share, event.step) is not None:
            return "stores the outcome of the same step again"
        if not is_sha256(event.digest):
            return "names no digest of an outcome"
    elif share.held:
        return "closes a share that still held something"
    return ""
