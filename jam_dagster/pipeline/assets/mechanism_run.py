"""The assets that spend and what comes of it: the mechanism's run and the synthetic table."""

from typing import TYPE_CHECKING, Any

import dagster as dg
import pandas as pd

from jam_dagster.certificates import table_csv
from jam_dagster.errors import EmptyCandidateSetError, SpecificationError
from jam_dagster.evaluation import released_marginal
from jam_dagster.mechanisms import Round
from jam_dagster.models.graphical.sampling import sampling_distance
from jam_dagster.pipeline.assets.asset_options import release_asset, table_metadata
from jam_dagster.pipeline.assets.descriptions import (
    MECHANISM_RUN,
    PUBLIC_CODES,
    PUBLIC_RECORDS,
)
from jam_dagster.pipeline.assets.engine import STORES, check_places, release_engine
from jam_dagster.pipeline.assets.metadata import (
    pictures,
    preview,
    rounds_table,
    sampling_error_metadata,
    tidy,
)
from jam_dagster.pipeline.assets.opening import (
    ingestion_of,
    private_marginals,
    stored_codes,
)
from jam_dagster.pipeline.assets.previous_release import check_public_codes, report_release
from jam_dagster.pipeline.graph import MECHANISM_SHARE, ReleaseGraph
from jam_dagster.pipeline.storage.identity import (
    check_domains,
    check_ingestion,
    check_tables,
    mark,
)
from jam_dagster.privacy import epsilon_from_rho
from jam_dagster.privacy.warnings import configuration_warnings
from jam_dagster.release.engine import sample_of
from jam_dagster.release.run import ReleaseRun
from jam_dagster.reports import plots
from jam_dagster.reports.history import PartitionRelease
from jam_dagster.reports.mechanism_text import chooses_source
from jam_dagster.tables import Domain, EncodedTable, MarginalSource

if TYPE_CHECKING:
    from jam_dagster.pipeline.storage.io_manager import ReleaseStore

# Pictures lie in the event log, which should stay small; the report has them all.
PICTURED_ATTRIBUTES = 4


def synthesis_assets(graph: ReleaseGraph) -> list[dg.AssetsDefinition]:
    """Build the mechanism's run and the synthetic table."""
    return [_mechanism_run(graph), _synthetic_records(graph)]


def _mechanism_run(graph: ReleaseGraph) -> dg.AssetsDefinition:
    follows = graph.spec.previous is not None

    @release_asset(
        graph,
        MECHANISM_RUN,
        ins=graph.ins(*graph.public_codes, *(graph.public_records if follows else ())),
        deps=[graph.key("private_discretized"), *graph.counted_deps],
        resources={*graph.spending_resources, *STORES},
    )
    def mechanism_run(context: dg.AssetExecutionContext, **inputs: Any) -> ReleaseRun:
        public: MarginalSource | None = inputs.get(PUBLIC_CODES)
        check_places(context)
        stored = stored_codes(graph, context, rows=False)
        domain = check_domains(graph, public, stored)
        check_ingestion(graph, stored, graph.partition_of(context))
        rounds = _check_can_start(graph, domain)
        engine = release_engine(
            graph,
            context,
            domain,
            stored=ingestion_of(stored),
            on_round=lambda done: _log_round(graph, context, done, rounds),
        )
        if follows and engine.funding.ledger is not None:
            check_public_codes(
                graph, context, inputs[PUBLIC_CODES], inputs[PUBLIC_RECORDS], engine.funding.ledger
            )
        engine.reserve()
        with engine.funding.exclusive(), engine.opened("running the mechanism"):
            run, made_again = engine.run(private_marginals(graph, context, engine, domain), public)
        engine.close(MECHANISM_SHARE)
        metadata = {**_run_metadata(graph, run), "made_again": made_again}
        context.add_output_metadata(tidy(metadata))
        return run

    return mechanism_run


def _log_round(
    graph: ReleaseGraph, context: dg.AssetExecutionContext, done: Round, rounds: int | None
) -> None:
    if graph.tells_data(MECHANISM_RUN):
        context.log.info(done.line(rounds))
    elif rounds is not None:
        # Where the number of rounds is unknown before, private data had a say in it.
        context.log.info(f"round {done.index + 1}/{rounds}")


def _check_can_start(graph: ReleaseGraph, domain: Domain) -> int | None:
    """Return the expected number of rounds, or raise if the mechanism cannot start.

    Of a domain from private data no size is shown.
    """
    mechanism = graph.spec.mechanism.build()
    workload = graph.spec.workload.build(domain)
    try:
        mechanism.check(domain, workload, graph.shares[MECHANISM_SHARE])
    except (EmptyCandidateSetError, SpecificationError) as error:
        if not domain.restricted:
            raise
        settings = mechanism.parameters()
        rounds = " or mechanism.rounds" if "rounds" in settings else ""
        size = " raise mechanism.size_limit_mb," if "size_limit_mb" in settings else ""
        raise type(error)(
            "The mechanism cannot start over a domain that was identified from private data; why"
            " is withheld, because it tells sizes of the domain. Lower domain.bins, the workload's"
            f" degree{rounds},{size} or declare the domain."
        ) from None
    return mechanism.expected_rounds(domain, workload)


def _run_metadata(graph: ReleaseGraph, result: ReleaseRun) -> dict[str, Any]:
    transcript, delta = result.transcript, graph.spec.privacy.delta
    configured: dict[str, Any] = {
        "rho_budget": transcript.rho_budget,
        # As text: a plot over time of what never changes tells nothing.
        "delta": f"{delta:g}",
        "noise": transcript.noise,
        "neighbours": transcript.neighbours.describe(),
        "releasable": graph.spec.releasable,
    }
    # A warning may depend on the number of rows only where that is shown.
    shown = graph.tells_data(MECHANISM_RUN) or graph.neighbours.records_public
    warnings = configuration_warnings(
        graph.spec.privacy.epsilon, delta, transcript.records if shown else 1
    )
    if warnings:
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
            {"Budget over rounds": plots.png(plots.budget_over_rounds(transcript))}
        ),
        "choices_per_round": pictures(
            {"Choices per round": plots.png(plots.choices_per_round(transcript))}
        ),
        # What is left of rounding is none.
        "rho_returned": max(0.0, round(transcript.rho_budget - transcript.rho_spent, 12)),
        "ended": transcript.ended,
        "model_mb": result.model.size_mb,
        **configured,
    }


def _synthetic_records(graph: ReleaseGraph) -> dg.AssetsDefinition:
    name = "synthetic_records"
    store_key = graph.store(name)

    @release_asset(
        graph, name, ins=graph.ins(MECHANISM_RUN, *graph.public_codes), resources={store_key}
    )
    def synthetic_records(
        context: dg.AssetExecutionContext,
        mechanism_run: ReleaseRun,
        **inputs: MarginalSource,
    ) -> pd.DataFrame:
        public = inputs.get(PUBLIC_CODES)
        check_tables(graph, mechanism_run, graph.partition_of(context), public=public)
        sample = sample_of(mechanism_run)
        table, encoded = sample.table, sample.codes
        mark(mechanism_run, table)
        store: ReleaseStore = getattr(context.resources, store_key)
        csv = store.beside(context.asset_key, graph.partition_of(context), ".csv")
        store.write(csv, table_csv(table))
        metadata: dict[str, Any] = {
            "csv": dg.MetadataValue.path(store.shown(csv)),
            "releasable": graph.spec.releasable,
        }
        if not mechanism_run.model.domain.restricted:
            metadata |= table_metadata(graph, name, mechanism_run.model.domain)
        if graph.tells_data(name) or graph.neighbours.records_public:
            # Seeded noise around a private number tells it to everyone who knows the seed.
            metadata["dagster/row_count"] = len(table)
        if graph.tells_data(name):
            metadata["preview"] = preview(table)
            metadata |= sampling_error_metadata(sampling_distance(mechanism_run.model, encoded))
            pictured = "distributions" if public is None else "compared_with_public"
            metadata[pictured] = _comparisons(mechanism_run, encoded, public)
        else:
            metadata |= graph.withheld_note()
        context.add_output_metadata(metadata)
        if graph.spec.previous is not None:
            report_release(graph, context, mechanism_run)
        return table

    return synthetic_records


def _comparisons(
    run: ReleaseRun, synthetic: EncodedTable, public: MarginalSource | None
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
    return pictures({name: plots.png(chart) for name, chart in charts.items()})
