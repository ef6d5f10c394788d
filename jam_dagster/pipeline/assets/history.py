"""Earlier partitions of this release in the same store."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from jam_dagster.certificates.reliance import newest_edition
from jam_dagster.errors import InputError, SourceError
from jam_dagster.pipeline.assets.descriptions import MECHANISM_RUN
from jam_dagster.pipeline.assets.previous_release import run_of
from jam_dagster.pipeline.assets.step import ledger_funding
from jam_dagster.release.run import ReleaseErrors
from jam_dagster.reports.history import PartitionRelease

if TYPE_CHECKING:
    from jam_dagster.evaluation import WorkloadErrors
    from jam_dagster.pipeline.assets.step import ReleaseStep
    from jam_dagster.privacy import ReleaseKey
    from jam_dagster.release.engine import Engine
    from jam_dagster.release.run import ReleaseRun

MOST_PARTITIONS = 24
"""Partitions that a report looks back on, itself among them."""


def history_of(
    step: ReleaseStep, engine: Engine, run: ReleaseRun, error: WorkloadErrors | None
) -> list[PartitionRelease]:
    """Return the releases of earlier partitions and, last, of this run; none without partitions.

    They lie in the store of this release, which holds nothing that may be seen by fewer people; a
    partition whose noise was of another kind, or whose run is another than was made last, is left
    out.
    Errors are told where noise hides them.
    """
    graph, partition = step.graph, step.partition
    if graph.spec.partitions is None:
        return []
    store = step.store(MECHANISM_RUN)
    found = []
    for one in graph.spec.partitions.up_to(partition, MOST_PARTITIONS)[:-1]:
        asset = next((key for key in graph.run_keys() if store.holds(key, one)), None)
        if asset is not None:
            made = run_of(step, asset, one)
            if made is None or not _was_last(engine, made, replace(run.release.key, partition=one)):
                step.context.log.warning(
                    f"The report leaves out partition {one}: its run is not the last that was made."
                )
            elif made.transcript.releasable == run.transcript.releasable:
                found.append(_release(one, made, _errors(step, one, made)))
    return [*found, _release(partition, run, error)]


def _was_last(engine: Engine, run: ReleaseRun, wanted: ReleaseKey) -> bool:
    """Return whether a run is of a release's partition, in the edition that was made last."""
    key, funding = run.release.key, ledger_funding(engine)
    its = replace(key, edition=wanted.edition, specification=wanted.specification) == wanted
    if not its or not engine.funding.has_made(run):
        return False
    return funding is None or newest_edition(funding.ledger, key) in ("", key.edition)


def _release(partition: str, run: ReleaseRun, error: WorkloadErrors | None) -> PartitionRelease:
    told = error if error is not None and error.mode == "private" else None
    return PartitionRelease(partition, run.release.key.edition, run.transcript, told)


def _errors(step: ReleaseStep, partition: str, run: ReleaseRun) -> WorkloadErrors | None:
    """Return the released errors of an earlier partition's run."""
    if step.graph.spec.evaluation_mode != "private":
        return None
    try:
        error = step.load("workload_error", partition, ReleaseErrors)
    except (InputError, SourceError):
        return None
    return error if error.run == run.digest else None
