"""Checks that a certificate's entries form a chain and are those of the ledger."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from jam_dagster.certificates.facts import Entry, Withdrawal, to_the_second
from jam_dagster.privacy.accounting import delta_left
from jam_dagster.privacy.ledger.policy import Holding, Policy, use

if TYPE_CHECKING:
    from jam_dagster.certificates.certificate import Certificate
    from jam_dagster.privacy import Event, Ledger, ReleaseId


_HASH = re.compile(r"[0-9a-f]{64}")


def chain_faults(certificate: Certificate) -> Iterator[str]:
    """Yield the breaks in the chain of entries; entries of other releases may be between."""
    entries, standing = certificate.entries, certificate.standing
    if standing is None:
        yield "no ledger was charged"
        return
    hashes = [entry.hash for entry in entries]
    if not all(_HASH.fullmatch(one) for one in hashes) or len(set(hashes)) < len(hashes):
        yield "a hash is malformed, or occurs twice"
    for before, after in pairwise(entries):
        if after.seq <= before.seq:
            yield f"entry {after.seq} comes after entry {before.seq}"
        elif (after.seq == before.seq + 1) != (after.previous == before.hash):
            yield f"entry {after.seq} does not follow on entry {before.seq} by its hash"
    if entries:
        last = entries[-1]
        if last.seq > standing.events:
            yield "an entry is younger than the head of the ledger"
        elif (last.seq == standing.events) != (last.hash == standing.head):
            yield "the last entry and the head of the ledger do not fit"


def ledger_faults(certificate: Certificate, ledger: Ledger) -> Iterator[str]:
    """Verify the ledger, then yield its differences from the certificate."""
    ledger.verify()
    standing = certificate.standing
    if standing is None:
        yield "the certificate names no ledger"
        return
    journal = ledger.events()
    events = [
        event
        for event in journal
        if event.release_id == certificate.release_id and Entry.is_listed(event)
    ]
    there = tuple(Entry.of(event) for event in events)
    moving = [event for event in events if event.moves_amount]
    if moving and certificate.made != to_the_second(moving[-1].at):
        yield "the release ended at another time"
    known, journalled = set(certificate.entries), set(there)
    if invented := [one.seq for one in certificate.entries if one not in journalled]:
        yield f"the ledger has no such entry {invented[0]}"
    if missing := [one for one in there if one not in known]:
        late = missing[0].seq > standing.events
        when = "since the certificate was issued: issue it again" if late else "and it is left out"
        yield f"the ledger has entry {missing[0].seq} about the release, {when}"
    for name, found in _totals(journal[: standing.events], certificate).items():
        if standing.totals.get(name) != found:
            yield f"the {name} of the dataset were different when the certificate was issued"
    if not (
        0 < standing.events <= len(journal) and journal[standing.events - 1].hash == standing.head
    ):
        yield (
            "the ledger never had the head that the certificate names: its end was cut off, or it "
            "is another ledger"
        )


def certified(certificate: Certificate, ledger: Ledger) -> bool | None:
    """Return whether the ledger has journalled a certificate.

    None if it has none of the release, whose domain is from private data: such are not
    journalled.
    """
    digests = {
        event.digest
        for event in ledger.events(certificate.release_id.dataset)
        if event.release_id == certificate.release_id and event.kind.value == "certified"
    }
    if certificate.domain.restricted and not digests:
        return None
    return certificate.digest in digests


def signing_key_faults(certificate: Certificate, public: str, ledger: Ledger) -> Iterator[str]:
    """Yield why the ledger rejects a key's signature.

    A certificate that the ledger lists before the revocation stays signed.
    """
    known = {one.public: one for one in ledger.signing_keys.all()}
    signing = known.get(public)
    if signing is None:
        yield "the ledger does not know its key"
    elif not signing.covers(ledger.issued(certificate.release_id, certificate.digest)):
        yield "its key was revoked before the certificate was journalled"


def _totals(journal: Sequence[Event], certificate: Certificate) -> dict[str, Any]:
    """Return the dataset's balance after a journal, in the period of the certificate."""
    dataset = certificate.release_id.dataset
    last = _last(journal, "granted", dataset=dataset)
    if last is None:
        return {"granted_units": 0}
    policy, holdings = _holdings(journal, dataset, last)
    period = None
    if policy.period != "lifetime":
        stated = certificate.standing.totals.get("period") if certificate.standing else None
        possible = _periods(policy, journal[-1].at)
        period = stated if stated in possible else possible[0]
    now = use(policy, holdings, period)
    return {
        "policy": asdict(policy),
        "epsilon": last.epsilon,
        "delta": delta_left(last.delta or 0.0, last.selections or 0),
        "period": period or "lifetime",
        "granted_units": last.units,
        "spent_units": now.spent,
        "reserved_units": now.reserved,
        "lifetime_spent_units": use(policy, holdings).spent,
    }


def _last(journal: Sequence[Event], kind: str, **fields: str) -> Event | None:
    """Return the last event of a kind with these fields, or None."""
    for event in reversed(journal):
        if event.kind.value == kind and fields.items() <= vars(event).items():
            return event
    return None


def _holdings(
    journal: Sequence[Event], dataset: str, granted: Event
) -> tuple[Policy, list[Holding]]:
    """Return the policy of a dataset's grant, and its reservations after a journal."""
    from jam_dagster.privacy.ledger.holdings import policy_of

    accounts: dict[tuple[ReleaseId | None, str, str], dict[str, list[Event]]] = {}
    for event in journal:
        if event.dataset == dataset and event.release_id is not None and event.moves_amount:
            kinds = accounts.setdefault((event.release_id, event.share, event.opening), {})
            kinds.setdefault(event.kind.value, []).append(event)
    holdings = []
    for kinds in accounts.values():
        units = {kind: sum(event.units for event in kinds.get(kind, [])) for kind in _AMOUNTS}
        first = kinds["reserved"][0]
        held = units["reserved"] - units["returned"] - units["charged"]
        holdings.append(Holding(first.at, first.partition, held, units["charged"]))
    return policy_of(granted), holdings


def _periods(policy: Policy, since: str) -> list[str]:
    """Return the periods in which a certificate of that journal may have been issued, in order.

    It may be issued again long after the last entry.
    """
    first, last = datetime.fromisoformat(since).astimezone(UTC), datetime.now(UTC)
    begin, end = (one.year * 12 + one.month - 1 for one in (first, max(first, last)))
    months = (divmod(month, 12) for month in range(begin, end + 1))
    return [policy.period_of(f"{year:04}-{month + 1:02}-01T00:00+00:00") for year, month in months]


_AMOUNTS = ("reserved", "charged", "returned")


def withdrawal_in(
    ledger: Ledger, release_id: ReleaseId, drawn_on: Sequence[ReleaseId] = ()
) -> Withdrawal | None:
    """Return a ledger's withdrawal of a release, or of the first that it was drawn on, or None."""
    from jam_dagster.privacy.ledger.journal import withdrawal_of

    journal = ledger.events(release_id.dataset)
    for one in (release_id, *drawn_on):
        found = withdrawal_of(journal, one)
        if found is not None:
            return Withdrawal(found.at[:10], found.reason, "" if one == release_id else str(one))
    return None


def withdrawal_faults(certificate: Certificate, ledger: Ledger) -> Iterator[str]:
    """Yield the ledger's withdrawal of the certificate's release, or of one it was drawn on."""
    found = withdrawal_in(ledger, certificate.release_id, certificate.drawn_on)
    if found is not None:
        yield found.sentence
