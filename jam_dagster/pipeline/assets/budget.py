"""The asset that holds a release's reservation, and the check that the budget lasts."""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from jam_dagster.errors import BudgetExceededError, NotApprovedError
from jam_dagster.pipeline.assets.asset_options import release_asset
from jam_dagster.pipeline.assets.metadata import tidy
from jam_dagster.pipeline.assets.previous_release import check_release_before
from jam_dagster.pipeline.assets.step import STORES, ReleaseStep, ledger_funding
from jam_dagster.pipeline.budget.outlook import (
    BudgetOutlook,
    alert_of_refusal,
    log_alert,
    refusal_ends_run,
)
from jam_dagster.pipeline.graph import ReleaseGraph
from jam_dagster.pipeline.markdown import literal
from jam_dagster.privacy.shares import MECHANISM
from jam_dagster.tables import Domain

SUFFICES = "budget_suffices"


def budget_assets(graph: ReleaseGraph) -> list[dg.AssetsDefinition]:
    """Build the reservation of a release's budget."""
    spec = graph.spec
    declared = spec.domain.declared if spec.domain.restricted else None

    # Nothing is reserved before the public table is known. Research reserves nothing.
    public = [graph.key("public_discretized")] if spec.previous and spec.releasable else []

    @release_asset(
        graph,
        "privacy_budget",
        # A domain from private data is restricted, and the reservation is not.
        ins=graph.ins("domain") if declared is None else {},
        deps=public,
        resources={*graph.spending_resources, *STORES},
        check_specs=[_suffices(graph)],
    )
    def privacy_budget(
        context: dg.AssetExecutionContext, **inputs: Domain
    ) -> Iterator[dg.MaterializeResult[Any] | dg.AssetCheckResult]:
        step = ReleaseStep(graph, context)
        # Nothing is read here: what is wrong with it is said before anything is reserved.
        source = step.checked_source("private_records")
        domain = inputs["domain"] if declared is None else declared
        if not domain.restricted:
            workload = spec.workload.build(domain)
            spec.mechanism.build().check(domain, workload, graph.shares[MECHANISM])
        spec.check_target(domain)
        metadata = _asked(graph, domain)
        with refusal_ends_run(context):
            engine = step.engine(domain, reads=source)
            funding = ledger_funding(engine)
            if funding is None:
                metadata["charged"] = "nothing: seeded noise is for research and not releasable"
                yield dg.MaterializeResult(metadata=metadata)
                yield _result(passed=True, description="Nothing is charged for seeded noise.")
                return
            check_release_before(step, domain, funding.ledger)
            engine.check_cells()
            before = funding.ledger.release(funding.key)
            try:
                with alert_of_refusal(graph, context, funding):
                    engine.reserve()
            except (BudgetExceededError, NotApprovedError) as refused:
                yield _result(passed=False, description=literal(str(refused)))
                raise
            outlook = BudgetOutlook.of(graph, funding)
            if outlook.low and before is None:
                log_alert(graph, context, funding, "low", outlook.text)
            shown = {**outlook.metadata, **metadata, "already_reserved": before is not None}
            yield dg.MaterializeResult(metadata=tidy(shown))
            yield _result(
                passed=not outlook.low,
                severity=dg.AssetCheckSeverity.WARN if outlook.low else dg.AssetCheckSeverity.ERROR,
                description=literal(outlook.text),
            )

    return [privacy_budget]


def _suffices(graph: ReleaseGraph) -> dg.AssetCheckSpec:
    """Return the check of what the dataset has left."""
    return dg.AssetCheckSpec(
        SUFFICES,
        asset=graph.key("privacy_budget"),
        description="The budget has room for this release and the next ones.",
        blocking=True,
        partitions_def=graph.partitions_def,
    )


def _asked(graph: ReleaseGraph, domain: Domain) -> dict[str, Any]:
    """Return what the UI shows of the budget that a release asks for."""
    spec = graph.spec
    return {
        "dataset": spec.dataset,
        "epsilon": spec.privacy.epsilon,
        # As text: a plot over time of what never changes tells nothing.
        "delta": f"{spec.privacy.delta:g}",
        "rho": graph.budget.rho,
        "specification": spec.digest(domain),
        "neighbours": graph.neighbours.describe(),
    }


def _result(
    *,
    passed: bool,
    description: str,
    severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.ERROR,
) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        check_name=SUFFICES, passed=passed, severity=severity, description=description
    )
