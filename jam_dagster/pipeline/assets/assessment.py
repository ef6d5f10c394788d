"""The reports on a release, and what Dagster's UI shows of its error."""

from dataclasses import replace
from typing import Any

import dagster as dg

from jam_dagster.evaluation import Verdict, WorkloadErrors
from jam_dagster.pipeline.assets.asset_options import release_asset
from jam_dagster.pipeline.assets.descriptions import MECHANISM_RUN
from jam_dagster.pipeline.assets.metadata import pictures, verdict_metadata
from jam_dagster.pipeline.assets.previous_release import drawn_on
from jam_dagster.pipeline.assets.step import ReleaseStep
from jam_dagster.pipeline.graph import ReleaseGraph
from jam_dagster.pipeline.storage.identity import made_release
from jam_dagster.release.documents import MadeRelease
from jam_dagster.release.run import ReleaseRun
from jam_dagster.reports import plots
from jam_dagster.reports.plot_style import png
from jam_dagster.tables.sources.table_file import TableFile

RESTRICTED = "restricted: exact statistics of private data"


def assessment_assets(graph: ReleaseGraph) -> list[dg.AssetsDefinition]:
    """Build the reports, as far as the evaluation's mode has them."""
    reports = ("release_report", "release_report_restricted")
    return [_report(graph, name) for name in graph.names if name in reports]


def error_metadata(
    graph: ReleaseGraph, measured: WorkloadErrors, verdict: Verdict
) -> dict[str, Any]:
    """Return what the UI shows of the workload errors, and of the verdict by them."""
    metadata: dict[str, Any] = {"mode": measured.mode, "rho_spent": measured.rho}
    if not graph.tells_data("workload_error"):
        return metadata | graph.withheld_note()
    if measured.restricted:
        metadata["note"] = RESTRICTED
        metadata["error_by_marginal"] = pictures(
            {f"Error by marginal ({RESTRICTED})": png(plots.error_by_marginal(measured))}
        )
    elif measured.synthetic is not None:
        metadata["sigma"] = measured.sigma
    for table, error in measured.to_dict().items():
        for statistic, value in (error or {}).items():
            if value is not None:
                metadata[f"{table}_{statistic}"] = value
    if measured.sample_equivalent is not None and not verdict.hidden:
        metadata["sample_equivalent_records"] = measured.sample_equivalent
    if measured.equivalent_within is not None and not verdict.hidden:
        metadata["sample_equivalent_within"] = "{:,} to {:,}".format(*measured.equivalent_within)
    if verdict.difference is not None and measured.public is not None:
        metadata["synthetic_minus_public"] = verdict.difference
    return verdict_metadata(verdict) | metadata


def verdict_on(graph: ReleaseGraph, made: MadeRelease) -> Verdict:
    """Return the verdict by errors that may be exact, and by checks where these may be shown."""
    checks = made.checks.results if graph.tells_data("synthetic_records") else ()
    return made.verdict(checks, restricted=True)


def _report(graph: ReleaseGraph, name: str) -> dg.AssetsDefinition:
    restricted = name == "release_report_restricted"
    # An exact error is not part of the releasable page, nor among its inputs.
    shown = ["workload_error"] if restricted or graph.spec.evaluation_mode == "private" else []

    @release_asset(
        graph,
        name,
        ins=graph.ins(
            MECHANISM_RUN, "synthetic_records", *graph.children, *graph.public_codes, *shown
        ),
        resources={*graph.spending_resources, graph.store(MECHANISM_RUN)},
    )
    def report(
        context: dg.AssetExecutionContext,
        mechanism_run: ReleaseRun,
        synthetic_records: TableFile,
        **inputs: Any,
    ) -> str:
        step = ReleaseStep(graph.over(mechanism_run.model.domain), context)
        context.log.info("The report is written.")
        made = made_release(graph, step.partition, mechanism_run, synthetic_records, inputs)
        return _page(step, made, restricted=restricted)

    return report


def _page(step: ReleaseStep, made: MadeRelease, *, restricted: bool) -> str:
    graph, run = step.graph, made.run
    domain = run.model.domain
    engine = step.engine(domain)
    public_source, public_released = drawn_on(step, domain)
    # Not as Dagster's events have them: who may launch runs can report those.
    checks = made.checks.results
    # Verdict and page are of the same counts.
    made = replace(made, codes=made.counts)
    verdict = made.verdict(checks, restricted=restricted)
    page = engine.report(
        made,
        verdict,
        checks=checks,
        restricted=restricted,
        public_source=public_source,
        public_released=public_released,
    )
    metadata: dict[str, Any] = {}
    if graph.tells_data("release_report"):
        metadata["checks_told"] = len(checks)
        metadata["checks_failed"] = verdict.failed
    if restricted:
        metadata["note"] = RESTRICTED
    elif graph.tells_data("release_report"):
        metadata["kilobytes"] = len(page.encode()) / 1000
        metadata = verdict_metadata(verdict) | metadata
    else:
        metadata |= graph.withheld_note()
    step.context.add_output_metadata(metadata)
    return page
