"""The release of the partition before, as the public table of the next.

What a release was drawn on stays: its archive keeps the public table, and a partition that is made
again gets it from there, whatever became of the partition before in the meantime.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import dagster as dg
from dagster._core.storage.dagster_run import RunsFilter
from dagster._core.storage.tags import PARTITION_NAME_TAG

from jam_dagster.errors import InputError
from jam_dagster.pipeline.archive import ReleaseArchive
from jam_dagster.pipeline.formats import RunFormat, TableFormat
from jam_dagster.pipeline.graph import PREVIOUS, ReleaseGraph
from jam_dagster.pipeline.identity import RUN_ATTRIBUTE, ReleaseRun
from jam_dagster.tables import EncodedTable, encode

if TYPE_CHECKING:
    from jam_dagster.pipeline.storage import ReleaseStore
    from jam_dagster.tables import Domain

LOOK_AGAIN_AFTER = 3.0
"""Seconds between two looks at a run that is waited for."""

_WORKING = (dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED)


def public_table(
    graph: ReleaseGraph, context: dg.AssetExecutionContext, first: EncodedTable
) -> tuple[EncodedTable, dict[str, Any]]:
    """Return the public table of this step's partition, and what to tell of it.

    Parameters
    ----------
    graph, context
        The release, and the step.
    first
        The given public table, encoded.

    Raises
    ------
    InputError
        If the release of the partition before is not there, or may not be used for this one.
    """
    partition = graph.partition_of(context)
    before = graph.before(partition)
    archive = _archive(graph, context, first.domain)
    if archive is not None and archive.has_draws:
        # A partition that was drawn before the release had this setting was drawn on `first`.
        return archive.public() or first, {"public_source": "as this edition was drawn on"}
    told: dict[str, Any] = {"public_source": graph.describe_public(partition)}
    if before is None or graph.spec.previous is None:
        return first, told
    _wait_for(graph, context, before)
    run, table = _release(graph, context, before)
    told["previous_partition"] = before
    told["previous_edition"] = run.release.key.edition
    told["previous_run"] = run.digest
    return graph.spec.previous.table(encode(table, first.domain, private=False), first), told


def check_release_before(
    graph: ReleaseGraph, context: dg.AssetExecutionContext, domain: Domain | None
) -> None:
    """Raise if a partition comes too early; for steps that reserve or open something.

    Raises
    ------
    InputError
        If the release of the partition before is not there, and this one was not drawn either.
    """
    before = graph.before(graph.partition_of(context))
    if before is None or domain is None:
        return
    archive = _archive(graph, context, domain)
    if archive is None or not archive.has_draws:
        _release(graph, context, before)


def report_release(graph: ReleaseGraph, context: dg.AssetExecutionContext, run: ReleaseRun) -> None:
    """Tell Dagster that the next partition has a release to be drawn on."""
    metadata: dict[str, Any] = {"synthetic_records": graph.key("synthetic_records")}
    if graph.tells_data("synthetic_records"):
        metadata["run"] = run.digest
    context.log_event(
        dg.AssetMaterialization(
            graph.key(PREVIOUS), partition=graph.partition_of(context), metadata=metadata
        )
    )


def _archive(
    graph: ReleaseGraph, context: dg.AssetExecutionContext, domain: Domain
) -> ReleaseArchive | None:
    """Return this partition's archive; research keeps none."""
    if graph.spec.privacy.noise != "exact":
        return None
    return ReleaseArchive(
        _store(graph, context), graph.release_key(domain, graph.partition_of(context))
    )


def _store(graph: ReleaseGraph, context: dg.AssetExecutionContext) -> ReleaseStore:
    store: ReleaseStore = getattr(context.resources, graph.store("jam_pgm"))
    return store


def _release(
    graph: ReleaseGraph, context: dg.AssetExecutionContext, before: str
) -> tuple[ReleaseRun, Any]:
    """Return the run and the synthetic table of a partition, once they are of one release."""
    store, partition = _store(graph, context), graph.partition_of(context)
    name = f"Partition {partition} of release {graph.spec.release}"
    files = store.beside(graph.key("synthetic_records"), before, TableFormat.suffix)
    folder = store.beside(graph.key("jam_pgm"), before, RunFormat.suffix)
    if not (files.exists() and (folder / RunFormat.marker).exists()):
        raise InputError(
            f"{name} needs the release of {before}: materialize it first. Nothing was charged."
        )
    run, table = RunFormat().read(folder), TableFormat().read(files)
    if table.attrs.get(RUN_ATTRIBUTE) != run.digest:
        raise InputError(
            f"{name} needs the release of {before}, whose synthetic_records are not of its last"
            f" run: materialize synthetic_records of {before} first. Nothing was charged."
        )
    if graph.spec.releasable and not run.transcript.releasable:
        # Labels and stores keep it out too; what lies in a store may have been put there by hand.
        raise InputError(
            f"{name} needs the release of {before}, but that one was made with seeded noise and"
            f" may not leave, nor may what is drawn on it: materialize {before} with exact noise"
            f" first. Nothing was charged."
        )
    return run, table


def _wait_for(graph: ReleaseGraph, context: dg.AssetExecutionContext, before: str) -> None:
    """Wait as long as another run is making the release of a partition.

    Backfills launch all their runs at once, the earlier partitions first.
    """
    waits = False
    while (run_id := _making(graph, context, before)) is not None:
        if not waits:
            context.log.info(f"Waiting for the release of {before}, which run {run_id} makes.")
            waits = True
        time.sleep(LOOK_AGAIN_AFTER)


def _making(graph: ReleaseGraph, context: dg.AssetExecutionContext, before: str) -> str | None:
    """Return the id of a run under way that makes the synthetic table of a partition."""
    wanted, instance = graph.key("synthetic_records"), context.instance
    own = instance.get_run_record_by_id(context.run.run_id)
    statuses = [*_WORKING, dg.DagsterRunStatus.QUEUED]
    tags = {PARTITION_NAME_TAG: before}
    for record in instance.get_run_records(RunsFilter(statuses=statuses, tags=tags)):
        run = record.dagster_run
        # One that was queued later would wait for this one to end.
        late = own is not None and record.storage_id > own.storage_id
        if run.status is dg.DagsterRunStatus.QUEUED and late:
            continue
        selected = run.asset_selection
        if wanted in selected if selected else run.job_name == f"{graph.spec.release}_release":
            return str(run.run_id)
    return None
