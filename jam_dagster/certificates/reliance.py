"""Checks that a later release may rely on a release: by the ledger, and by a fit of its model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jam_dagster.certificates.certificate import Certificate
from jam_dagster.certificates.facts import Entry
from jam_dagster.certificates.issue import content_of
from jam_dagster.certificates.ledger_faults import certified, withdrawal_in
from jam_dagster.certificates.outcome_faults import compare_outcomes, draws_of
from jam_dagster.certificates.refitting import Refit
from jam_dagster.errors import InputError, JamError
from jam_dagster.privacy.ledger.release_id import canonical_digest
from jam_dagster.privacy.shares import DOMAIN, MECHANISM
from jam_dagster.tables import Workload

if TYPE_CHECKING:
    from pathlib import Path

    from upath import UPath

    from jam_dagster.mechanisms import Model, Transcript
    from jam_dagster.privacy import Event, Ledger, ReleaseId
    from jam_dagster.tables import Domain, MarginalSource


def reliance_faults(
    ledger: Ledger,
    release_id: ReleaseId,
    transcript: Transcript,
    model: Model,
    public: MarginalSource,
    *,
    specification: Mapping[str, Any],
    content: str,
    certificate: Path | UPath,
) -> Iterator[str]:
    """Yield why no later release should rely on a release, what takes longest last.

    `specification` is the one that is kept with the release's draws; `content` is the
    `run_files_digest` of the files that transcript and model were read from. A model is fitted
    again unless the ledger has a certificate, in the folder `certificate`, over the same files, for
    which it was fitted.
    """
    withdrawn = withdrawal_in(ledger, release_id)
    if withdrawn is not None:
        yield f"it was withdrawn on {withdrawn.on}: {withdrawn.reason}"
    newest = newest_edition(ledger, release_id)
    if newest not in ("", release_id.edition):
        yield f"it is edition {release_id.edition}, and edition {newest} was drawn later"
    settings = list(_setting_faults(release_id, transcript, model, specification))
    yield from settings
    journalled = "" if model.domain.restricted else content
    yield from _payment_faults(ledger, release_id, transcript, model.domain, journalled)
    try:
        if not settings and not _is_certified(ledger, release_id, content, certificate):
            workload = Workload.specified(model.domain, specification["workload"])
            refit = Refit(transcript, model.domain, workload, public, {})
            if refit.fault:
                yield refit.fault
            elif not refit.closest(model).exact:
                yield "its model is not the one that its transcript gives on this machine"
    except InputError as error:
        yield f"its model cannot be fitted again ({error})"


def newest_edition(ledger: Ledger, release_id: ReleaseId) -> str:
    """Return the edition that ended last, of those of a release and partition that are valid.

    It is empty if none has ended.
    """
    newest = _newest(ledger.events(release_id.dataset), release_id.release, release_id.partition)
    return "" if newest is None else newest.edition


def ancestor(ledger: Ledger, release_id: ReleaseId, partition: str) -> ReleaseId | None:
    """Return which release of an earlier partition a release was drawn on: the newest of then."""
    from jam_dagster.privacy import Kind

    journal = ledger.events(release_id.dataset)
    payments = (Kind.CHARGED, Kind.COUNTED)
    paid = (
        n for n, one in enumerate(journal) if one.release_id == release_id and one.kind in payments
    )
    return _newest(journal[: next(paid, 0)], release_id.release, partition)


def _newest(journal: Sequence[Event], release: str, partition: str) -> ReleaseId | None:
    """Return the edition that ended last in a journal, and is not withdrawn in it."""
    from jam_dagster.privacy import Kind

    same = [
        one
        for one in journal
        if one.release_id
        and (one.release_id.release, one.release_id.partition) == (release, partition)
    ]
    withdrawn = {one.release_id for one in same if one.kind is Kind.WITHDRAWN}
    # A run that is repeated from its draws is as old as it was.
    ended = dict.fromkeys(one.release_id for one in same if one.kind is Kind.RAN)
    return next((release_id for release_id in reversed(ended) if release_id not in withdrawn), None)


def _setting_faults(
    release_id: ReleaseId, transcript: Transcript, model: Model, specification: Mapping[str, Any]
) -> Iterator[str]:
    """Yield the differences of a run from the specification that the ledger has the digest of."""
    if canonical_digest(specification) != release_id.specification:
        yield "the specification stored with its draws is another"
    elif specification["mechanism"] != {"name": transcript.mechanism, **transcript.parameters}:
        yield "it has other settings than its specification"
    elif not model.domain.restricted and specification["domain"] != model.domain.specified:
        yield "it is over another domain than its specification"


def _payment_faults(
    ledger: Ledger, release_id: ReleaseId, transcript: Transcript, domain: Domain, content: str
) -> Iterator[str]:
    """Yield the outcomes that were not paid for as they are."""
    entries = [
        Entry.of(event)
        for event in ledger.events(release_id.dataset)
        if event.release_id == release_id
        and event.share in ("", MECHANISM, DOMAIN)
        and Entry.is_listed(event)
    ]
    charged = any(entry.kind == "charged" for entry in entries)
    # To read a public number of records is never charged.
    if not charged and (transcript.calls or ledger.records(release_id) is None):
        yield f"the ledger {ledger.location} was never charged for it"
        return
    draws = draws_of(transcript, domain)
    yield from compare_outcomes(draws, entries, transcript, None, content, domain).faults


def _is_certified(
    ledger: Ledger, release_id: ReleaseId, content: str, folder: Path | UPath
) -> bool:
    """Return whether the ledger has journalled the certificate in a folder, over the same run."""
    try:
        made = Certificate.load(folder)
    except JamError:
        return False
    same = content_of(made.files, restricted=False) == content
    return made.release_id == release_id and certified(made, ledger) is True and same
