"""Checks by the ledger that a later release may rely on a release."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from jam_dagster.certificates.facts import MECHANISM_SHARE, Entry, PaidDraw
from jam_dagster.certificates.outcome_faults import compare_outcomes
from jam_dagster.certificates.withdrawal import withdrawal_in

if TYPE_CHECKING:
    from jam_dagster.mechanisms import Transcript
    from jam_dagster.privacy import Ledger, ReleaseKey


def reliance_faults(ledger: Ledger, key: ReleaseKey, transcript: Transcript) -> Iterator[str]:
    """Yield why no later release should rely on a release.

    Parameters
    ----------
    ledger
        The ledger that was charged for it.
    key
        The release.
    transcript
        The stored transcript of its mechanism.

    Yields
    ------
    str
        Its withdrawal with the reason; its absence from the ledger; or the outcome that does not
        match its digest. Releases of version 0.1.0 have no journalled outcomes to compare.
    """
    withdrawn = withdrawal_in(ledger, key)
    if withdrawn is not None:
        yield f"it was withdrawn on {withdrawn.on}: {withdrawn.reason}"
    entries = [
        Entry.of(event)
        for event in ledger.events(key.dataset)
        if event.key == key and event.share == MECHANISM_SHARE and Entry.is_listed(event)
    ]
    if not any(entry.kind == "charged" for entry in entries):
        if not transcript.calls and ledger.is_bound_for_good(key):
            # It has read a public number of records, which is never charged.
            return
        yield f"the ledger {ledger.location} was never charged for it"
        return
    draws = [PaidDraw(MECHANISM_SHARE, call) for call in transcript.calls]
    yield from compare_outcomes(draws, entries, transcript, None).faults
