"""Metadata of a mechanism's run and of the synthetic table."""

from typing import Any

import dagster as dg

from jam_dagster.evaluation import released_marginal
from jam_dagster.models.graphical.sampling import sampling_distance
from jam_dagster.pipeline.assets.asset_options import table_metadata
from jam_dagster.pipeline.assets.descriptions import MECHANISM_RUN
from jam_dagster.pipeline.assets.metadata import (
    pictures,
    preview,
    rounds_table,
    sampling_error_metadata,
)
from jam_dagster.pipeline.graph import ReleaseGraph
from jam_dagster.privacy import epsilon_from_rho
from jam_dagster.privacy.warnings import configuration_warnings
from jam_dagster.release.engine import Sample
from jam_dagster.release.run import ReleaseRun
from jam_dagster.reports import plots
from jam_dagster.reports.history import PartitionRelease
from jam_dagster.reports.mechanism_text import chooses_source
from jam_dagster.reports.plot_style import png
from jam_dagster.tables import MarginalSource
from jam_dagster.tables.sources.table_file import first_rows

# Pictures lie in the event log, which should stay small; the report has them all.
PICTURED_ATTRIBUTES = 4


def run_warnings(graph: ReleaseGraph, result: ReleaseRun) -> tuple[str, ...]:
    """Return the warnings about a run's settings."""
    # A warning may depend on the number of rows only where that is shown.
    shown = graph.tells_data(MECHANISM_RUN) or graph.spec.neighbours.records_public
    privacy, records = graph.spec.privacy, result.transcript.records
    return configuration_warnings(privacy.epsilon, privacy.delta, records if shown else 1)


def run_metadata(graph: ReleaseGraph, result: ReleaseRun) -> dict[str, Any]:
    """Return what the UI shows of a mechanism's run."""
    transcript, delta = result.transcript, graph.spec.privacy.delta
    configured: dict[str, Any] = {
        "rho_budget": transcript.rho_budget,
        # As text: a plot over time of what never changes tells nothing.
        "delta": f"{delta:g}",
        "noise": transcript.noise,
        "neighbours": transcript.neighbours.describe(),
        "releasable": graph.spec.releasable,
    }
    if warnings := run_warnings(graph, result):
        configured["warnings"] = dg.MetadataValue.md("\n".join(f"- {one}" for one in warnings))
    if not graph.tells_data(MECHANISM_RUN):
        return configured | graph.withheld_note()
    picks = transcript.picks
    shares: dict[str, Any] = {}
    if chooses_source(transcript.mechanism):
        shares = {
            "share_of_public_picks": picks["public"] / max(1, sum(picks.values())),
            "share_measured_privately": PartitionRelease("", "", transcript).measured,
            "picks_private": picks["private"],
            "picks_public": picks["public"],
        }
        if picks.get("lost"):
            shares["picks_lost"] = picks["lost"]
    # Now that a draw is paid for; where the number is private, this is the one that was measured.
    return {
        "records": transcript.records,
        "rho_spent": transcript.rho_spent,
        "epsilon_spent": epsilon_from_rho(transcript.rho_spent, delta),
        **shares,
        "rounds": rounds_table(transcript),
        "budget_over_rounds": pictures(
            {"Budget over rounds": png(plots.budget_over_rounds(transcript))}
        ),
        "choices_per_round": pictures(
            {"Choices per round": png(plots.choices_per_round(transcript))}
        ),
        # What is left of rounding is none.
        "rho_returned": max(0.0, round(transcript.rho_budget - transcript.rho_spent, 12)),
        "ended": transcript.ended,
        "model_mb": result.model.size_mb,
        **configured,
    }


def sample_metadata(
    graph: ReleaseGraph, run: ReleaseRun, sample: Sample, public: MarginalSource | None
) -> dict[str, Any]:
    """Return what the UI shows of a synthetic table."""
    name, domain = "synthetic_records", run.model.domain
    metadata: dict[str, Any] = {"releasable": graph.spec.releasable}
    if not domain.restricted:
        metadata |= table_metadata(graph, name, domain)
    if graph.tells_data(name) or graph.spec.neighbours.records_public:
        # Seeded noise around a private number tells it to everyone who knows the seed.
        metadata["dagster/row_count"] = sample.codes.records
    if not graph.tells_data(name):
        return metadata | graph.withheld_note()
    metadata["preview"] = preview(first_rows(sample.table))
    metadata |= sampling_error_metadata(sampling_distance(run.model, sample.codes))
    pictured = "distributions" if public is None else "compared_with_public"
    metadata[pictured] = _comparisons(run, sample.codes, public)
    return metadata


def _comparisons(
    run: ReleaseRun, synthetic: MarginalSource, public: MarginalSource | None
) -> dg.MarkdownMetadataValue:
    """Picture some attributes, those measured on the private table first."""
    domain = run.model.domain
    released = {name: released_marginal(run.transcript, (name,)) for name in domain.names}
    order = sorted(domain.names, key=lambda name: released[name] is None)
    charts = {
        name: plots.one_way_comparison(
            domain.attribute(name),
            synthetic=synthetic.marginal((name,)),
            public=None if public is None else public.marginal((name,)),
            released=released[name],
            records=run.transcript.records,
        )
        for name in order[:PICTURED_ATTRIBUTES]
    }
    return pictures({name: png(chart) for name, chart in charts.items()})
