"""The one step that opens the private table, and the assets that it makes."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import dagster as dg
import pandas as pd

from jam_dagster.certificates import table_csv
from jam_dagster.errors import EmptyCandidateSetError, SpecificationError
from jam_dagster.mechanisms import Round
from jam_dagster.pipeline.assets.assessment import error_metadata, verdict_on
from jam_dagster.pipeline.assets.asset_options import PRIVATE_STEP, private_step, table_metadata
from jam_dagster.pipeline.assets.descriptions import MECHANISM_RUN, PUBLIC_CODES, PUBLIC_RECORDS
from jam_dagster.pipeline.assets.mechanism_run import (
    run_metadata,
    run_warnings,
    sample_metadata,
)
from jam_dagster.pipeline.assets.metadata import tidy
from jam_dagster.pipeline.assets.previous_release import check_public_codes, report_release
from jam_dagster.pipeline.assets.step import STORES, ReleaseStep, ledger_funding
from jam_dagster.pipeline.budget.alerts import alert_of_refusal, refusal_ends_run
from jam_dagster.pipeline.graph import ReleaseGraph
from jam_dagster.pipeline.storage.identity import check_domains, mark
from jam_dagster.privacy.shares import MECHANISM
from jam_dagster.release.engine import Drawn, Engine
from jam_dagster.release.run import ReleaseErrors
from jam_dagster.tables import Domain, MarginalSource, Source
from jam_dagster.tables.sources.table_file import TableFile

_Made = Iterator[dg.MaterializeResult[Any]]


def private_assets(graph: ReleaseGraph) -> dg.AssetsDefinition:
    """Build the step from the private table to the synthetic one and its error.

    It cannot be split: whether a part that charges nothing ends well would answer a question about
    values.
    """
    given = [*graph.public_codes, *([PUBLIC_RECORDS] if graph.spec.previous is not None else [])]
    resources = {*graph.spending_resources, *STORES, *map(graph.store, _names(graph))}

    @private_step(graph, _deps(graph), ins=graph.ins("domain", *given), resources=resources)
    def private_side(context: dg.AssetExecutionContext, domain: Domain, **inputs: Any) -> _Made:
        public: MarginalSource | None = inputs.get(PUBLIC_CODES)
        step = ReleaseStep(graph, context)
        source = step.checked_source("private_records")
        check_domains(graph, domain, public)
        rounds = _check_can_start(graph, domain)
        with refusal_ends_run(context):
            engine = step.engine(
                domain, reads=source, on_round=lambda done: _log_round(step, done, rounds)
            )
            _reserve(step, engine, public, inputs.get(PUBLIC_RECORDS))
        kept: list[Drawn] = []
        # Of a table in chunks, until the store has it.
        with TemporaryDirectory(prefix="jam-") as folder:
            errors: ReleaseErrors | None = None
            failed: Exception | None = None
            try:
                with engine.funding.exclusive():
                    errors = engine.draw(public, kept.append, Path(folder, "table.parquet"))
            except Exception as error:
                if not kept:
                    # Too many attempts, or another table, are refused where it would be opened.
                    with refusal_ends_run(context):
                        raise
                failed = error
            except BaseException:
                # Dagster ends a run that is cancelled by an interrupt.
                again = "the same run, launched once more,"
                step.context.log.warning(engine.funding.after_interrupt(again))
                raise
            # The private table is closed. What is paid for stays, even if the evaluation failed.
            (drawn,) = kept
            yield from _private_tables(step, engine, source, domain)
            yield from _outcomes(step, drawn, public)
            if failed is not None:
                with refusal_ends_run(context):
                    raise failed
            if errors is not None and "workload_error" in graph.names:
                # As the steps to come find it: the checks of a table are made once.
                table = step.load("synthetic_records", step.partition, TableFile)
                verdict = verdict_on(graph, drawn.run, drawn.sample.codes, table, public, errors)
                yield dg.MaterializeResult(
                    asset_key=graph.key("workload_error"),
                    value=errors,
                    metadata=tidy(error_metadata(graph, errors, verdict)),
                )

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
            *([] if graph.spec.domain.declared is not None else ["domain"]),
            "privacy_budget",
        ],
        "private_discretized": ["domain", "private_records"],
        MECHANISM_RUN: [
            *graph.public_codes,
            *(graph.public_records if follows else ()),
            "private_discretized",
        ],
        "synthetic_records": [MECHANISM_RUN, *graph.public_codes],
        "workload_error": [
            *graph.public_codes,
            "synthetic_records",
            MECHANISM_RUN,
            "private_discretized",
        ],
    }
    loaded = {"private_records": source, MECHANISM_RUN: counted, "workload_error": counted}
    return {name: [*map(graph.key, names[name]), *loaded.get(name, ())] for name in _names(graph)}


def _reserve(
    step: ReleaseStep,
    engine: Engine,
    public: MarginalSource | None,
    given: pd.DataFrame | None,
) -> None:
    """Reserve the release, once more, for runs that leave ``privacy_budget`` out."""
    funding = ledger_funding(engine)
    if funding is None:
        return
    if public is not None and given is not None:
        check_public_codes(step, public, given, funding.ledger)
    engine.check_cells()
    with alert_of_refusal(step.graph, step.context, funding):
        engine.reserve()


def _private_tables(step: ReleaseStep, engine: Engine, source: Source, domain: Domain) -> _Made:
    """Tell what was read, of which nothing is kept; never how many rows there are."""
    graph, read = step.graph, {"source": source.describe(), "kept": "no row of it"}
    if engine.counted_by is not None:
        read["counted_by"] = engine.counted_by
        step.context.log.info(f"What counted the private table: {engine.counted_by}")
    for name, shown in (("private_records", read), ("private_discretized", {})):
        metadata: dict[str, Any] = dict(shown)
        if not domain.restricted:
            metadata |= table_metadata(graph, name, domain)
        yield dg.MaterializeResult(asset_key=graph.key(name), metadata=metadata)


def _outcomes(step: ReleaseStep, drawn: Drawn, public: MarginalSource | None) -> _Made:
    """Keep the run and the synthetic table."""
    graph, run, sample = step.graph, drawn.run, drawn.sample
    for warning in run_warnings(graph, run):
        step.context.log.warning(warning)
    yield dg.MaterializeResult(
        asset_key=graph.key(MECHANISM_RUN),
        value=run,
        metadata=tidy({**run_metadata(graph, run), "made_again": drawn.repeated}),
    )
    name = "synthetic_records"
    store, csv = step.store(name), step.beside(name, ".csv")
    shown: dict[str, Any] = {}
    if isinstance(sample.table, TableFile):
        # Of a table with fewer rows that lay here before.
        csv.unlink(missing_ok=True)
    else:
        mark(run, sample.table)
        store.write(csv, table_csv(sample.table, run.model.domain, graph.spec.dialect))
        shown["csv"] = dg.MetadataValue.path(store.shown(csv))
    yield dg.MaterializeResult(
        asset_key=graph.key(name),
        value=sample.table,
        metadata={
            **shown,
            **sample_metadata(graph, run, sample, public),
        },
    )
    if graph.spec.previous is not None:
        report_release(step, run)


def _log_round(step: ReleaseStep, done: Round, rounds: int | None) -> None:
    if step.graph.tells_data(MECHANISM_RUN):
        step.context.log.info(done.line(rounds))
    elif rounds is not None:
        # Where the number of rounds is unknown before, private data had a say in it.
        step.context.log.info(f"round {done.index + 1}/{rounds}")


def _check_can_start(graph: ReleaseGraph, domain: Domain) -> int | None:
    """Return the expected number of rounds, or raise if the mechanism cannot start.

    Of a domain from private data no size is shown.
    """
    mechanism = graph.spec.mechanism.build()
    workload = graph.spec.workload.build(domain)
    graph.spec.check_target(domain)
    try:
        mechanism.check(domain, workload, graph.spec.shares[MECHANISM])
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
