"""The asset that holds a release's reservation, and the check that the budget lasts."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from jam_dagster.errors import BudgetExceededError, JamError, NotApprovedError
from jam_dagster.pipeline.assets.asset_options import release_asset
from jam_dagster.pipeline.assets.metadata import tidy
from jam_dagster.pipeline.assets.previous_release import check_domain, check_release_before
from jam_dagster.pipeline.assets.step import STORES, ReleaseStep, ledger_funding
from jam_dagster.pipeline.budget.refusal import refusal_ends_run, renewal_added
from jam_dagster.pipeline.graph import ReleaseGraph
from jam_dagster.pipeline.markdown import literal
from jam_dagster.privacy import rho_within
from jam_dagster.privacy.accounting import units_down
from jam_dagster.privacy.ledger.forecast import forecast
from jam_dagster.privacy.ledger.policy import ANOTHER
from jam_dagster.privacy.shares import MECHANISM
from jam_dagster.release.funding import LedgerFunding
from jam_dagster.tables import Domain
from jam_dagster.tables.domain.changes import domain_changes

SUFFICES = "budget_suffices"

_ENOUGH = {"daily": 30, "weekly": 4, "monthly": 3}
"""Releases to come that should fit: a later warning leaves little time to act."""


def budget_assets(graph: ReleaseGraph) -> list[dg.AssetsDefinition]:
    """Build the reservation of a release's budget."""
    declared = graph.spec.domain.declared if graph.spec.domain.restricted else None

    # Nothing is reserved before the public table is known. Research reserves nothing.
    follows = graph.spec.previous is not None and graph.spec.releasable
    public = [graph.key("public_discretized")] if follows else []

    @release_asset(
        graph,
        "privacy_budget",
        # A domain from private data is restricted, and the reservation is not.
        ins=graph.ins("domain") if declared is None else {},
        deps=public,
        resources={*graph.spending_resources, *STORES},
        check_specs=[
            dg.AssetCheckSpec(
                SUFFICES,
                asset=graph.key("privacy_budget"),
                description="The budget has room for this release and the next ones.",
                blocking=True,
                partitions_def=graph.partitions_def,
            )
        ],
    )
    def privacy_budget(
        context: dg.AssetExecutionContext, **inputs: Domain
    ) -> Iterator[dg.MaterializeResult[Any] | dg.AssetCheckResult]:
        step = ReleaseStep(graph, context)
        # Nothing is read here: what is wrong with it is said before anything is reserved.
        source = step.checked_source("private_records")
        domain = inputs["domain"] if declared is None else declared
        asking, step = step, step.over(domain, source)
        spec = step.graph.spec
        if not domain.restricted:
            workload = spec.workload.build(domain)
            spec.mechanism.build().check(domain, workload, spec.shares[MECHANISM])
        spec.check_classifiers()
        metadata = _asked(step.graph, domain, step.partition)
        with refusal_ends_run(context):
            engine = step.engine(domain, reads=source)
            funding = ledger_funding(engine)
            if funding is None:
                metadata["charged"] = "nothing: seeded noise is for research and not releasable"
                yield dg.MaterializeResult(metadata=metadata)
                yield _result(passed=True, description="Nothing is charged for seeded noise.")
                return
            check_domain(asking, domain, source, None, funding.ledger)
            check_release_before(step, domain, funding.ledger)
            engine.check_cells()
            before = funding.ledger.reservation(funding.release_id)
            history, new = funding.history(graph.spec)
            history += _edited(step, domain)
            if history:
                metadata["history"] = literal(" ".join(history))
            for sentence in filter(None, (*history, new)):
                context.log.warning(sentence)
            try:
                with renewal_added(funding):
                    engine.reserve()
            except (BudgetExceededError, NotApprovedError) as refused:
                yield _result(passed=False, description=literal(str(refused)))
                raise
            low, left = _left(step.graph, funding)
            shown = {**left, **metadata, "already_reserved": before is not None}
            yield dg.MaterializeResult(metadata=tidy(shown))
            yield _result(
                passed=not (low or new),
                severity=dg.AssetCheckSeverity.WARN if low or new else dg.AssetCheckSeverity.ERROR,
                description=literal(f"{left['outlook']} {new}"),
            )

    return [privacy_budget]


def _edited(step: ReleaseStep, domain: Domain) -> list[str]:
    """Return what differs from the domain that is stored of the partition before."""
    partitions = step.graph.spec.partitions
    before = None if partitions is None else partitions.before(step.partition)
    if before is None or domain.restricted:
        return []
    with suppress(JamError):
        if changes := domain_changes(step.load("domain", before, Domain), domain):
            return [f"Since {before} the domain was edited: {'; '.join(changes)}."]
    return []


def _left(graph: ReleaseGraph, funding: LedgerFunding) -> tuple[bool, dict[str, Any]]:
    """Return whether the budget is about to end, and what the UI shows of what is left of it."""
    from jam_dagster.privacy import Kind

    release_id, partitions = funding.release_id, graph.spec.partitions
    balance, price = funding.ledger.balance(release_id.dataset), units_down(graph.spec.budget.rho)
    text, low = f"{balance.remaining_epsilon:.4g} epsilon of the dataset is left.", False
    if partitions is not None:
        done = {release_id.partition} | {
            one.partition
            for one in funding.ledger.events(release_id.dataset)
            if one.kind == Kind.RESERVED and one.release == release_id.release and one.partition
        }
        due = partitions.following(done)
        fit, text = forecast(balance, price, due, now=datetime.now(UTC))
        low = fit is not None and (partitions.every is None or fit < _ENOUGH[partitions.every])
    after = balance.remaining_units_after(price, "" if partitions is None else ANOTHER)
    return low, {
        "outlook": text,
        "dataset_remaining_epsilon": balance.remaining_epsilon,
        "dataset_remaining_rho": balance.remaining,
        "dataset_spent_rho": balance.spent,
        "dataset_reserved_rho": balance.reserved,
        "dataset_granted_epsilon": balance.epsilon,
        "dataset_granted_rho": balance.granted,
        "dataset_epsilon_after_another": (
            balance.epsilon_of(rho_within(after)) if after >= 0 else "another does not fit"
        ),
    }


def _asked(graph: ReleaseGraph, domain: Domain, partition: str) -> dict[str, Any]:
    """Return what the UI shows of the budget that a release asks for."""
    spec = graph.spec
    return {
        "dataset": spec.dataset,
        "epsilon": spec.privacy.epsilon,
        # Texts, since a plot over time of a constant is useless.
        "delta": f"{spec.privacy.delta:g}",
        "rho": graph.spec.budget.rho,
        "specification": spec.release_id(domain, partition).specification,
        "neighbours": graph.spec.neighbours.describe(),
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
