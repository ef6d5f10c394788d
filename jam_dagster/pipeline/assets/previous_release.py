"""The release of the partition before, as the public table of the next.

The tables behind a release stay: its archive keeps the public table, and a partition that is rerun
gets it from there, whatever became of the partition before in the meantime.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any

import dagster as dg
import numpy as np

from jam_dagster.certificates.ledger_faults import withdrawal_in
from jam_dagster.certificates.reliance import ancestor, reliance_faults
from jam_dagster.certificates.table import RUN_ATTRIBUTE
from jam_dagster.common.deferred import pd
from jam_dagster.errors import InputError
from jam_dagster.evaluation.domain_fit import misfit_sentence
from jam_dagster.evaluation.sentences import said
from jam_dagster.pipeline.assets.descriptions import (
    MECHANISM_RUN,
    PUBLIC_CODES,
)
from jam_dagster.pipeline.dagster_internals import PARTITION_NAME_TAG
from jam_dagster.pipeline.graph import PREVIOUS
from jam_dagster.pipeline.storage.formats import CERTIFICATE, RUN
from jam_dagster.pipeline.storage.identity import held
from jam_dagster.pipeline.storage.store_place import StorePlace
from jam_dagster.release.documents import MadeRelease
from jam_dagster.release.public_side import domain_of, identified
from jam_dagster.release.run import ReleaseRun
from jam_dagster.tables import Domain, EncodedTable, encode
from jam_dagster.tables.codes.encode import each_encoded
from jam_dagster.tables.codes.table import joined
from jam_dagster.tables.drafting.paid_draft import after_release
from jam_dagster.tables.sources.public import over_bought
from jam_dagster.tables.sources.table_file import TableFile

if TYPE_CHECKING:
    from upath import UPath

    from jam_dagster.pipeline.assets.step import ReleaseStep
    from jam_dagster.privacy import Ledger, ReleaseId
    from jam_dagster.tables import MarginalSource, Source

LOOK_AGAIN_AFTER = 3.0
"""Seconds between two looks at a run that is waited for."""

QUEUED_FOR = 600.0
"""Seconds for which a run that is queued before this one, and has not begun, is waited for."""

_WORKING = (dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED)


def public_table(
    step: ReleaseStep,
    first: EncodedTable,
    ledger: Ledger | None = None,
) -> tuple[EncodedTable, dict[str, Any]]:
    """Return the public table of this step's partition, and its metadata."""
    graph = step.graph
    partition = step.partition
    before = graph.before(partition)
    archive = _archive(step, first.domain)
    if archive is not None and _has_drawn(archive, ledger):
        # A partition that was drawn before the release had this setting was drawn on `first`.
        return archive.public() or first, {"public_source": "as this edition was drawn on"}
    metadata: dict[str, Any] = {"public_source": graph.describe_public(partition)}
    if before is None or graph.spec.previous is None:
        _check_first(step)
        return first, metadata
    _wait_for(step, before)
    run, table, folder = _release(step, before)
    if ledger is not None:
        _check_reliance(step, run, folder, ledger)
    _check_fits(step, run, folder)
    metadata["previous_partition"] = before
    metadata["previous_edition"] = run.release.release_id.edition
    quotable = graph.tells_data("public_discretized")
    if quotable:
        metadata["previous_run"] = run.digest
    codes = _encoded(table, first.domain, private=not quotable)
    return graph.spec.previous.table(codes, first), metadata


def domain_after(
    step: ReleaseStep, asking: Domain, ledger: Ledger | None = None
) -> tuple[Domain, dict[str, Any]]:
    """Return what this step's partition asks for beyond the release before, and metadata.

    A partition that was drawn before keeps what it asked for then, whatever became of the release
    before.
    """
    graph, key = step.graph, step.graph.key("domain")
    before = graph.before(step.partition)
    if before is None or asking.asked is None:
        return asking, {}
    if step.store("domain").holds(key, step.partition):
        with suppress(InputError):
            kept = step.load("domain", step.partition, Domain)
            archive = _archive(step, kept) if after_release(asking, kept) == kept else None
            if archive is not None and _has_drawn(archive, ledger):
                return kept, {"domain_of": "as this edition was drawn on"}
    _wait_for(step, before)
    run, _, folder = _release(step, before)
    _check_fits(step, run, folder)
    return after_release(asking, run.model.domain), {"domain_of": f"the release of {before}"}


def check_domain(
    step: ReleaseStep,
    domain: Domain,
    source: Source,
    given: pd.DataFrame | None,
    ledger: Ledger,
) -> None:
    """Raise unless a partition asks for what the release before lacks, as that is now.

    Parameters
    ----------
    step
        The step, not yet over the domain.
    domain
        The stored domain.
    source
        The private table, whose columns may be what is asked for.
    given
        The public table of the first partition. None, where there is one: it is not known here.
    ledger
        The ledger, which knows what was drawn.
    """
    spec = step.graph.spec
    if not step.graph.buys_on or (spec.public is not None and given is None):
        return
    if given is None:
        asking = identified(spec, source).domain.declared or domain
    else:
        asking = domain_of(spec, {"": given})
    wanted, _ = domain_after(step, asking, ledger)
    if wanted != domain:
        raise InputError(
            f"domain of partition {step.partition} of release {spec.release} asks for other values"
            " or edges than the release before lacks by now: materialize domain again first."
            " Nothing was charged."
        )


def without_rows(domain: Domain) -> EncodedTable:
    """Return the given table of a release that has none: it is empty."""
    return EncodedTable(domain, tuple(np.zeros(0, dtype=np.int64) for _ in domain.names))


def _check_first(step: ReleaseStep) -> None:
    """Raise if a later partition would have no public table: its mechanism begins with one."""
    graph, partition = step.graph, step.partition
    if graph.spec.previous is None:
        return
    if graph.spec.public is None and not graph.spec.begins_without_public(partition):
        raise InputError(
            f"Partition {partition} of release {graph.spec.release} has no release before that it"
            " may be drawn on, and no first public table: draw the one before as another edition,"
            " or name public.previous_release.first. Nothing was charged."
        )


def check_release_before(
    step: ReleaseStep,
    domain: Domain,
    ledger: Ledger,
) -> None:
    """Raise if a partition comes too early; for the step that reserves."""
    graph = step.graph
    before = graph.before(step.partition)
    if before is None:
        _check_first(step)
        return
    archive = _archive(step, domain)
    if archive is None or _has_drawn(archive, ledger):
        return
    run, _, folder = _release(step, before)
    _check_reliance(step, run, folder, ledger)
    _check_fits(step, run, folder)


def check_public_codes(
    step: ReleaseStep,
    codes: MarginalSource,
    given: pd.DataFrame | None,
    ledger: Ledger,
) -> None:
    """Raise unless a partition is about to be drawn on its public table as it is now.

    A run may leave out the steps before the mechanism's, and the release of the partition before
    may have been withdrawn or rerun since these steps ran.
    """
    graph = step.graph
    archive = _archive(step, codes.domain)
    if archive is None or _has_drawn(archive, ledger):
        return
    domain = codes.domain
    first = without_rows(domain) if given is None else encode(given, domain, private=False)
    wanted, _ = public_table(step, first, ledger)
    if not (isinstance(codes, EncodedTable) and _same(codes, wanted)):
        raise InputError(
            f"public_discretized of partition {step.partition} of release"
            f" {graph.spec.release} is not made of its public table as that is now: materialize"
            f" public_discretized again first. Nothing was charged."
        )


def _check_reliance(
    step: ReleaseStep,
    run: ReleaseRun,
    folder: UPath,
    ledger: Ledger,
) -> None:
    """Raise if the release of the partition before is not to be relied on."""
    graph = step.graph
    before = run.release.release_id.partition
    archive = StorePlace.of(step.archive, run.release.release_id, folder)
    public = _drawn_on(step, run, folder)
    store = step.store(MECHANISM_RUN)
    faults = reliance_faults(
        ledger,
        run.release.release_id,
        run.transcript,
        run.model,
        public,
        specification=archive.specification,
        # The digest is of the table as it was read, not as it is by now.
        content=run.content,
        certificate=store.beside(graph.key("release_certificate"), before, CERTIFICATE.suffix),
    )
    fault = next(chain(faults, _ancestor_faults(step, run.release.release_id, ledger)), None)
    if fault is not None:
        raise InputError(
            f"Partition {step.partition} of release {graph.spec.release} is drawn on"
            f" the release of {before}, which is not to be relied on: {fault}. Materialize"
            f" {before} again, which costs nothing, or draw it as another edition first. Nothing"
            f" was charged."
        )


def _drawn_on(step: ReleaseStep, run: ReleaseRun, folder: UPath) -> MarginalSource:
    """Return the public table that the release of the partition before was drawn on."""
    archive = StorePlace.of(step.archive, run.release.release_id, folder)
    # Before the release had this setting, or in the store of another mechanism.
    before = run.release.release_id.partition
    codes = archive.public() or step.load(PUBLIC_CODES, before, EncodedTable)
    return over_bought(codes, run.model.domain)


def _check_fits(step: ReleaseStep, run: ReleaseRun, folder: UPath) -> None:
    """Raise if the domain does not fit the partition before: its table has lost a column.

    That follows from released outcomes. The file alone accepts it: no launch, event or check does.
    """
    graph, before = step.graph, run.release.release_id.partition
    if not graph.stops_at_misfit:
        return
    public = held(_drawn_on(step, run, folder))
    made = MadeRelease(graph.spec, run, pd.DataFrame(), public=public)
    if (sentence := misfit_sentence(made.fits)) == "":
        return
    if not graph.tells_data("synthetic_records"):
        sentence = said("misfit_withheld")
    raise InputError(
        f"Partition {step.partition} of release {graph.spec.release} is not drawn on the release of"
        f" {before}. {sentence} Mend the table or the domain, and draw {before} as another edition;"
        f" or let later partitions pass over it, by accept_misfit: [{before}] in the release's"
        f" file. Nothing was charged."
    )


def _ancestor_faults(step: ReleaseStep, release_id: ReleaseId, ledger: Ledger) -> Iterator[str]:
    """Yield which of the releases that a release was drawn on, one on the other, is withdrawn."""
    for one in ancestors(step, release_id, ledger):
        if (withdrawn := withdrawal_in(ledger, one)) is not None:
            yield (
                f"it was drawn, by itself or by others, on the release of {one.partition}, edition"
                f" {one.edition}, which was withdrawn on {withdrawn.on}: {withdrawn.reason}"
            )


def ancestors(step: ReleaseStep, release_id: ReleaseId, ledger: Ledger) -> Iterator[ReleaseId]:
    """Yield the releases that a release was drawn on, one on the other, the latest first."""
    graph, found = step.graph, release_id
    while True:
        folder = step.store(MECHANISM_RUN).beside(
            graph.key(MECHANISM_RUN), found.partition, RUN.suffix
        )
        archive = StorePlace.of(step.archive, found, folder)
        before = archive.drawn_on(graph.before(found.partition))
        # Before the release had this setting, partitions were drawn on the given table.
        earlier = None if before is None else ancestor(ledger, found, before)
        if earlier is None or not archive.keeps_public:
            return
        found = earlier
        yield found


def drawn_on(step: ReleaseStep, domain: Domain) -> tuple[str, bool]:
    """Return in words what this partition was drawn on, and whether that was released before.

    One that was drawn before the release had this setting was drawn on the given table.
    """
    graph = step.graph
    partition = step.partition
    if graph.spec.previous is None:
        return graph.describe_public(partition), False
    archive, before = _archive(step, domain), graph.before(partition)
    if archive is not None and archive.has_drawn:
        before = archive.drawn_on(before) if archive.keeps_public else None
    if before is None:
        return graph.describe_first(partition), False
    return graph.spec.previous.describe(before), True


def report_release(step: ReleaseStep, run: ReleaseRun) -> None:
    """Report to Dagster that the next partition has a release to be drawn on."""
    graph = step.graph
    metadata: dict[str, Any] = {"synthetic_records": graph.key("synthetic_records")}
    if graph.tells_data("synthetic_records"):
        metadata["run"] = run.digest
    step.context.log_event(
        dg.AssetMaterialization(graph.key(PREVIOUS), partition=step.partition, metadata=metadata)
    )


def _archive(step: ReleaseStep, domain: Domain) -> StorePlace | None:
    """Return this partition's archive; research keeps none."""
    graph = step.graph
    if graph.spec.privacy.noise != "exact":
        return None
    return step.place(domain)


def _has_drawn(archive: StorePlace, ledger: Ledger | None) -> bool:
    """Return whether a partition was drawn before; who may write in its archive cannot say so."""
    return archive.has_drawn and (ledger is None or ledger.has_drawn(archive.release_id))


def _release(step: ReleaseStep, before: str) -> tuple[ReleaseRun, TableFile, UPath]:
    """Return the run, the synthetic table and the run's folder, once they are of one release."""
    graph = step.graph
    store, partition = step.store(MECHANISM_RUN), step.partition
    name = f"Partition {partition} of release {graph.spec.release}"
    records = graph.key("synthetic_records")
    # Another mechanism may have made the release.
    keys = [key for key in graph.run_keys() if store.holds(key, before)]
    if not (store.holds(records, before) and keys):
        raise InputError(
            f"{name} needs the release of {before}: materialize it first. Nothing was charged."
        )
    with store.files.guarded(f"reading the release of {before}"):
        table = store.load(records, before, TableFile)
        mark = table.attrs.get(RUN_ATTRIBUTE)
        made = {key: run_of(step, key, before) for key in keys}
        of_table = (key for key, one in made.items() if one is not None and mark == one.digest)
        asset = next(of_table, None)
        run = None if asset is None else made[asset]
    if run is None or asset is None or run.release.release_id.partition != before:
        raise InputError(
            f"{name} needs the release of {before}, whose stored synthetic_records do not match its"
            f" last run: materialize synthetic_records of {before} first. Nothing was charged."
        )
    found = run.release.release_id
    if (found.dataset, found.release) != (graph.spec.dataset, graph.spec.release):
        raise InputError(
            f"{name} needs the release of {before}, but the stored one of {before} is of release"
            f" {found.release} of dataset {found.dataset}: materialize {before} first. Nothing was"
            f" charged."
        )
    if graph.spec.releasable:
        # Labels and stores keep it out too; what is in a store may have been put there by hand.
        made_with = ""
        if run.model.domain.restricted:
            made_with = "over a domain from private data"
        elif not run.transcript.releasable:
            made_with = "with seeded noise"
        if made_with:
            raise InputError(
                f"{name} needs the release of {before}, but that one was made {made_with} and may"
                f" not leave, nor may what is drawn on it: materialize {before} as it is configured"
                f" now first. Nothing was charged."
            )
    return run, table, store.beside(asset, before, RUN.suffix)


def run_of(step: ReleaseStep, asset: dg.AssetKey, partition: str) -> ReleaseRun | None:
    """Return a run that is in the store; None if it is not what was written."""
    try:
        return step.store(MECHANISM_RUN).load(asset, partition, ReleaseRun)
    except InputError:
        return None


def _encoded(table: TableFile, domain: Domain, *, private: bool) -> EncodedTable:
    chunks = each_encoded(table.chunks(), domain, private=private)
    return joined(chunks, domain, records=len(table))


def _same(one: EncodedTable, other: EncodedTable) -> bool:
    """Whether two tables over one domain have the same records in the same order."""
    return all(np.array_equal(*pair) for pair in zip(one.columns, other.columns, strict=True))


def _wait_for(step: ReleaseStep, before: str) -> None:
    """Wait as long as another run is making the release of a partition.

    Backfills launch all their runs at once, the earlier partitions first.
    """
    graph = step.graph
    waiting_for, queued_since = "", time.monotonic()
    while (run := _making(step, before)) is not None:
        if run.status is not dg.DagsterRunStatus.QUEUED:
            queued_since = time.monotonic()
        elif time.monotonic() - queued_since > QUEUED_FOR:
            # This run overtook it, and where runs are limited may hold the place it waits for.
            raise InputError(
                f"Partition {step.partition} of release {graph.spec.release} needs the"
                f" release of {before}, and run {run.run_id} that will make it is still queued:"
                f" launch this one when that has ended. Nothing was charged."
            )
        if waiting_for != run.run_id:
            step.context.log.info(
                f"Waiting for the release of {before}, which run {run.run_id} makes. If that run"
                f" died and Dagster does not know, mark it as canceled."
            )
            waiting_for = run.run_id
        time.sleep(LOOK_AGAIN_AFTER)


def _making(step: ReleaseStep, before: str) -> dg.DagsterRun | None:
    """Return the run under way that makes the synthetic table of a partition."""
    graph = step.graph
    wanted, instance = graph.key("synthetic_records"), step.context.instance
    own = instance.get_run_record_by_id(step.context.run.run_id)
    statuses = [*_WORKING, dg.DagsterRunStatus.QUEUED]
    tags = {PARTITION_NAME_TAG: before}
    for record in instance.get_run_records(dg.RunsFilter(statuses=statuses, tags=tags)):
        run: dg.DagsterRun = record.dagster_run
        # One that was queued later would wait for this one to end.
        late = own is not None and record.storage_id > own.storage_id
        if run.status is dg.DagsterRunStatus.QUEUED and late:
            continue
        selected = run.asset_selection
        if wanted in selected if selected else run.job_name == f"{graph.spec.release}_release":
            return run
    return None
