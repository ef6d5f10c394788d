"""The one step that opens the private table, and the assets that it makes."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import dagster as dg

from jam_dagster.certificates import table_csv
from jam_dagster.common.deferred import pd
from jam_dagster.common.shown_text import one_line
from jam_dagster.errors import EmptyCandidateSetError, SpecificationError
from jam_dagster.evaluation import released_marginal
from jam_dagster.mechanisms import Round
from jam_dagster.models.graphical.sampling import sampling_distance
from jam_dagster.pipeline.assets.assessment import error_metadata, verdict_on
from jam_dagster.pipeline.assets.asset_options import PRIVATE_STEP, private_step, table_metadata
from jam_dagster.pipeline.assets.descriptions import (
    CHILDREN,
    MECHANISM_RUN,
    PUBLIC_CODES,
    PUBLIC_RECORDS,
)
from jam_dagster.pipeline.assets.execution import executed
from jam_dagster.pipeline.assets.metadata import (
    listed,
    pictures,
    preview,
    rounds_table,
    sampling_error_metadata,
    tidy,
)
from jam_dagster.pipeline.assets.previous_release import (
    check_domain,
    check_public_codes,
    report_release,
)
from jam_dagster.pipeline.assets.step import STORES, ReleaseStep, ledger_funding
from jam_dagster.pipeline.budget.refusal import refusal_ends_run, renewal_added
from jam_dagster.pipeline.graph import ReleaseGraph, Results
from jam_dagster.pipeline.storage.identity import check_domains, held
from jam_dagster.privacy import epsilon_from_rho
from jam_dagster.privacy.shares import MECHANISM
from jam_dagster.privacy.warnings import configuration_warnings
from jam_dagster.release.documents import MadeRelease
from jam_dagster.release.engine import Engine
from jam_dagster.release.run import ReleaseRun
from jam_dagster.release.spec import ReleaseSpec
from jam_dagster.reports import plots
from jam_dagster.reports.budget_over_rounds import Spending
from jam_dagster.reports.mechanism_text import chooses_source
from jam_dagster.reports.plot_style import png
from jam_dagster.tables import Domain, MarginalSource, Source
from jam_dagster.tables.sources.table_file import TableFile, first_rows


def private_assets(graph: ReleaseGraph) -> dg.AssetsDefinition:
    """Build the step from the private table to the synthetic one and its error.

    It cannot be split: whether a part that charges nothing ends well would answer a question about
    values.
    """
    given = [
        *graph.public_codes,
        *(graph.public_records if graph.spec.previous is not None else ()),
    ]
    resources = {*graph.spending_resources, *STORES, *map(graph.store, _names(graph))}

    def drawn(context: dg.AssetExecutionContext, domain: Domain, inputs: Any) -> Results:
        codes: MarginalSource | None = inputs.get(PUBLIC_CODES)
        public = held(codes)
        step = ReleaseStep(graph, context)
        source = step.checked_source("private_records")
        asking, step = step, step.over(domain, source)
        check_domains(step.graph, domain, public)
        rounds = _check_can_start(step.graph, domain)
        context.log.info(step.graph.spec.at(step.partition).mechanism.build().described)
        with refusal_ends_run(context):
            engine = step.engine(
                domain, reads=source, on_round=lambda done: _log_round(step, done, rounds)
            )
            given = inputs.get(PUBLIC_RECORDS)
            if (funding := ledger_funding(engine)) is not None:
                check_domain(asking, domain, source, given, funding.ledger)
            _reserve(step, engine, codes, given)
        # The folder holds a table in chunks until the store has it.
        with TemporaryDirectory(prefix="jam-") as folder:
            # Too many attempts, or another table, are refused where it would be opened.
            with refusal_ends_run(context), engine.exclusive("the same run, launched once more,"):
                made, errors = engine.draw(public, Path(folder, "table.parquet"))
            # The private table is closed. The paid results stay, even if the evaluation failed.
            yield from _private_tables(step, engine, source, domain)
            yield from _outcomes(step, made)
            if isinstance(errors, Exception):
                with refusal_ends_run(context):
                    raise errors
            if "workload_error" in graph.names:
                # The later steps find the same: the checks of a table are made once.
                table = step.load("synthetic_records", step.partition, TableFile)
                children = None
                for name in graph.children:
                    children = step.load(name, step.partition, pd.DataFrame)
                stored = replace(made, table=table, children=children)
                verdict = verdict_on(step.graph, stored)
                yield dg.MaterializeResult(
                    asset_key=graph.key("workload_error"),
                    value=errors,
                    metadata=tidy(error_metadata(graph, errors, verdict)),
                )

    @private_step(graph, _deps(graph), ins=graph.ins("domain", *given), resources=resources)
    def private_side(context: dg.AssetExecutionContext, domain: Domain, **inputs: Any) -> Results:
        yield from executed(graph.execute, context, drawn(context, domain, inputs))

    return private_side


def _names(graph: ReleaseGraph) -> list[str]:
    return [name for name in PRIVATE_STEP if name in graph.names]


def _deps(graph: ReleaseGraph) -> dict[str, list[dg.AssetKey]]:
    """Return what each asset of the step depends on, by which labels are judged."""
    follows = graph.spec.previous is not None
    source = graph.source_deps("private_records")
    counted = [] if graph.spec.reads_values else source
    names = {
        # A declared domain is known without the asset; that saves the graph an arrow.
        "private_records": [
            *([] if _is_known(graph.spec) else ["domain"]),
            "privacy_budget",
        ],
        "private_discretized": ["domain", "private_records"],
        MECHANISM_RUN: [
            *graph.public_codes,
            *(graph.public_records if follows else ()),
            "private_discretized",
        ],
        "synthetic_records": [MECHANISM_RUN, *graph.public_codes],
        CHILDREN: ["synthetic_records", MECHANISM_RUN, *graph.public_codes],
        "workload_error": [
            *graph.public_codes,
            "synthetic_records",
            MECHANISM_RUN,
            "private_discretized",
        ],
    }
    loaded = {"private_records": source, MECHANISM_RUN: counted, "workload_error": counted}
    return {name: [*map(graph.key, names[name]), *loaded.get(name, ())] for name in _names(graph)}


def _is_known(spec: ReleaseSpec) -> bool:
    return spec.domain.declared is not None and not spec.asks_by_tables


def _reserve(
    step: ReleaseStep,
    engine: Engine,
    public: MarginalSource | None,
    given: "pd.DataFrame | None",
) -> None:
    """Reserve the release, once more, for runs that leave ``privacy_budget`` out."""
    funding = ledger_funding(engine)
    if funding is None:
        return
    if public is not None and step.graph.spec.previous is not None:
        check_public_codes(step, public, given, funding.ledger)
    engine.check_cells()
    with renewal_added(funding):
        engine.reserve()


def _private_tables(step: ReleaseStep, engine: Engine, source: Source, domain: Domain) -> Results:
    """Report what was read, of which nothing is kept; never how many rows there are."""
    graph, read = step.graph, {"source": source.describe(), "kept": "no row of it"}
    for name, shown in (("private_records", read), ("private_discretized", {})):
        metadata: dict[str, Any] = dict(shown)
        if graph.tells_domain(domain):
            metadata |= table_metadata(graph, name, domain)
        yield dg.MaterializeResult(asset_key=graph.key(name), metadata=metadata)


def _outcomes(step: ReleaseStep, made: MadeRelease) -> Results:
    """Keep the run and the synthetic tables."""
    graph, run = step.graph, made.run
    for warning in run_warnings(graph, run):
        step.context.log.warning(warning)
    domain, shown_of_run = run.model.domain, run_metadata(graph, run)
    if domain.bought is not None and graph.tells_data(MECHANISM_RUN):
        text = one_line(made.bought)
        shown_of_run["bought"] = text
        step.context.log.info(text)
    yield dg.MaterializeResult(
        asset_key=graph.key(MECHANISM_RUN),
        value=run,
        metadata=tidy({**shown_of_run, "made_again": made.repeated}),
    )
    tables = [("synthetic_records", made.table, domain.roots)]
    if made.children is not None and domain.children is not None:
        tables.append((CHILDREN, made.children, domain.children.domain))
    for name, table, own in tables:
        store, csv = step.store(name), step.beside(name, ".csv")
        shown: dict[str, Any] = {}
        if isinstance(table, TableFile):
            # The file is of a table with fewer rows that was stored here before.
            csv.unlink(missing_ok=True)
        else:
            store.files.write(csv, table_csv(table, own, graph.spec.dialect))
            shown["csv"] = dg.MetadataValue.path(store.files.shown(csv))
        yield dg.MaterializeResult(
            asset_key=graph.key(name),
            value=table,
            metadata={
                **shown,
                **sampled_metadata(graph, name, run, table),
                **(sample_metadata(graph, made) if own is domain.roots else {}),
            },
        )
    if graph.spec.previous is not None:
        report_release(step, run)


def _log_round(step: ReleaseStep, done: Round, rounds: int | None) -> None:
    if step.graph.tells_data(MECHANISM_RUN):
        step.context.log.info(done.line(rounds))
    elif rounds is not None:
        # If the number of rounds is unknown before, private data had a say in it.
        step.context.log.info(f"round {done.index + 1}/{rounds}")


def _check_can_start(graph: ReleaseGraph, domain: Domain) -> int | None:
    """Return the expected number of rounds, or raise if the mechanism cannot start.

    No size of a domain from private data is shown.
    """
    mechanism = graph.spec.mechanism.build()
    workload = graph.spec.workload.build(domain)
    graph.spec.check_classifiers()
    try:
        mechanism.check(domain, workload, graph.spec.shares[MECHANISM])
    except (EmptyCandidateSetError, SpecificationError) as error:
        if graph.tells_domain(domain):
            raise
        settings = mechanism.parameters()
        rounds = " or mechanism.rounds" if "rounds" in settings else ""
        size = " raise mechanism.size_limit_mb," if "size_limit_mb" in settings else ""
        raise type(error)(
            "The mechanism cannot start over a domain that was identified from private data; why"
            " is withheld, because it shows sizes of the domain. Lower domain.bins, the workload's"
            f" degree{rounds},{size} or declare the domain."
        ) from None
    return mechanism.expected_rounds(domain, workload)


# Pictures are in the event log, which should stay small; the report has them all.
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
        # Texts, since a plot over time of a constant is useless.
        "delta": f"{delta:g}",
        "noise": transcript.noise,
        "neighbours": transcript.neighbours.describe(),
        "releasable": graph.spec.releasable,
    }
    related = graph.spec.workload.build(result.model.domain).related
    if related and graph.tells_domain(result.model.domain):
        configured["related"] = listed(" x ".join(pair) for pair in related)
    if warnings := run_warnings(graph, result):
        configured["warnings"] = dg.MetadataValue.md("\n".join(f"- {one}" for one in warnings))
    if not graph.tells_data(MECHANISM_RUN):
        return configured | graph.withheld_note()
    picks = transcript.picks
    shares: dict[str, Any] = {}
    if chooses_source(transcript.mechanism):
        measured = Spending.of(transcript).measuring
        shares = {
            "share_of_public_picks": picks["public"] / max(1, sum(picks.values())),
            "share_measured_privately": measured / transcript.rho_budget if measured else 0.0,
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
        # The rest after rounding is not a loss.
        "rho_returned": max(0.0, round(transcript.rho_budget - transcript.rho_spent, 12)),
        "ended": transcript.ended,
        "model_mb": result.model.size_mb,
        **configured,
    }


def sampled_metadata(
    graph: ReleaseGraph, name: str, run: ReleaseRun, table: "pd.DataFrame | TableFile"
) -> dict[str, Any]:
    """Return what the UI shows of each synthetic table."""
    domain = run.model.domain
    metadata: dict[str, Any] = {"releasable": graph.spec.releasable}
    if graph.tells_domain(domain):
        metadata |= table_metadata(graph, name, domain)
    if graph.tells_data(name) or graph.spec.neighbours.records_public:
        # Seeded noise around a private number shows it to everyone who knows the seed.
        metadata["dagster/row_count"] = len(table)
    if not graph.tells_data(name):
        return metadata | graph.withheld_note()
    return metadata | {"preview": preview(first_rows(table))}


def sample_metadata(graph: ReleaseGraph, made: MadeRelease) -> dict[str, Any]:
    """Return what the UI shows of a sample, with the synthetic table; of two, with the roots."""
    if not graph.tells_data("synthetic_records"):
        return {}
    metadata: dict[str, Any] = dict(
        sampling_error_metadata(*sampling_distance(made.run.model, made.counts))
    )
    pictured = "distributions" if made.public is None else "compared_with_public"
    metadata[pictured] = _comparisons(made.run, made.counts, made.public)
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
