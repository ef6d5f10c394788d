"""The outlook of a dataset's budget at the price of a release, and alerts about it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import dagster as dg

from jam_dagster.errors import (
    BudgetError,
    BudgetExceededError,
    LedgerIntegrityError,
    NotApprovedError,
)
from jam_dagster.pipeline.budget.alerts import AlertKind, BudgetAlert
from jam_dagster.privacy import rho_within
from jam_dagster.privacy.accounting import units_down
from jam_dagster.privacy.ledger.forecast import HORIZON, forecast, renewal_after
from jam_dagster.privacy.ledger.policy import ANOTHER
from jam_dagster.release.funding import LedgerFunding

if TYPE_CHECKING:
    from jam_dagster.pipeline.graph import ReleaseGraph

_ENOUGH = {"daily": 30, "weekly": 4, "monthly": 3}
"""Releases to come that should fit: a later alert leaves little time to act."""


@dataclass(frozen=True)
class BudgetOutlook:
    """The remaining budget of a dataset, and whether it pays for the releases to come.

    If it is `low`, somebody should act: the partitions to come soon do not fit.
    """

    text: str
    low: bool
    metadata: dict[str, Any]

    @classmethod
    def of(cls, graph: "ReleaseGraph", funding: LedgerFunding) -> "BudgetOutlook":
        """Look at the ledger."""
        from jam_dagster.privacy import Kind

        key, partitions = funding.key, graph.spec.partitions
        balance, price = funding.ledger.balance(key.dataset), units_down(graph.budget.rho)
        text, low = f"{balance.remaining_epsilon:.4g} epsilon of the dataset is left.", False
        if partitions is not None:
            done = {key.partition} | {
                one.partition
                for one in funding.ledger.events(key.dataset)
                if one.kind == Kind.RESERVED and one.release == key.release and one.partition
            }
            seen = forecast(balance, price, partitions.following(done), now=datetime.now(UTC))
            enough = HORIZON if partitions.every is None else _ENOUGH[partitions.every]
            text, low = str(seen), seen.refused is not None and seen.fit < enough
        after = balance.remaining_units_after(price, "" if partitions is None else ANOTHER)
        metadata = {
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
        return cls(text, low, metadata)


@contextmanager
def alert_of_refusal(
    graph: "ReleaseGraph", context: dg.AssetExecutionContext, funding: LedgerFunding
) -> Iterator[None]:
    """Leave an alert if a release is refused; if it does not fit, add when the budget renews."""
    try:
        yield
    except (BudgetExceededError, NotApprovedError) as error:
        refusal: BudgetError = error
        if isinstance(error, BudgetExceededError):
            balance = funding.ledger.balance(funding.key.dataset)
            refusal = BudgetExceededError(f"{error}. {renewal_after(balance, datetime.now(UTC))}")
        log_alert(graph, context, funding, "refused", str(refusal))
        raise refusal from None


@contextmanager
def refusal_ends_run(context: dg.AssetExecutionContext) -> Iterator[None]:
    """End the run as canceled where the ledger refuses the release, after a line that says why.

    Dagster shows each asset and check that a failed run leaves unmade as failed. A canceled run
    leaves them as they were, is not retried, and ends a command with an error all the same.
    """
    try:
        yield
    except LedgerIntegrityError:
        raise
    except BudgetError as refused:
        context.log.error(f"Refused: {refused}")
        context.instance.report_run_canceling(context.run, message="The release is refused.")
        raise


def log_alert(
    graph: "ReleaseGraph",
    context: dg.AssetExecutionContext,
    funding: LedgerFunding,
    kind: AlertKind,
    text: str,
) -> None:
    """Leave an alert on the asset that reserves, for sensors and for its page in the UI."""
    key = funding.key
    alert = BudgetAlert(kind, key.release, key.dataset, key.partition, key.edition, text)
    context.log_event(alert.observation(graph.key("privacy_budget")))
