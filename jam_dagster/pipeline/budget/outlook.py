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
from jam_dagster.pipeline.markdown import literal
from jam_dagster.privacy import rho_within, units_down
from jam_dagster.privacy.ledger.forecast import HORIZON, Due, Forecast, forecast
from jam_dagster.privacy.ledger.policy import ANOTHER
from jam_dagster.release.funding import LedgerFunding

if TYPE_CHECKING:
    from jam_dagster.pipeline.graph import ReleaseGraph
    from jam_dagster.privacy import Balance

# So many more should fit: a later alert leaves little time to act.
ENOUGH = {"daily": 30, "weekly": 4, "monthly": 3}


@dataclass(frozen=True)
class BudgetOutlook:
    """What a dataset has left, and which releases to come it pays for.

    `forecast` is None for a release without partitions. `before` is the partition that was reserved
    last, and when, in words; empty if there is none.
    """

    graph: "ReleaseGraph"
    funding: LedgerFunding
    balance: "Balance"
    forecast: Forecast | None
    before: str

    @classmethod
    def of(
        cls, graph: "ReleaseGraph", funding: LedgerFunding, *, refused: bool = False
    ) -> "BudgetOutlook":
        """Look at the ledger."""
        from jam_dagster.privacy import Kind

        key, now = funding.key, datetime.now(UTC)
        balance = funding.ledger.balance(key.dataset)
        partitions = graph.spec.partitions
        if partitions is None:
            return cls(graph, funding, balance, None, "")
        reserved = {
            one.partition: one.at
            for one in funding.ledger.events(key.dataset)
            if one.kind == Kind.RESERVED and one.release == key.release and one.partition
        }
        last = max(reserved, key=lambda name: reserved[name], default="")
        before = f"{last}, reserved on {reserved[last][:10]}" if last else ""
        if refused:
            seen = Forecast(0, None, Due(key.partition, now), balance.policy.renews_after(now))
        else:
            done = {*reserved, key.partition}
            price = units_down(graph.budget.rho)
            seen = forecast(balance, price, partitions.following(done), now=now)
        return cls(graph, funding, balance, seen, before)

    @property
    def low(self) -> bool:
        """Whether somebody should act: the partitions to come do not fit, soon."""
        seen, partitions = self.forecast, self.graph.spec.partitions
        if seen is None or partitions is None or seen.refused is None:
            return False
        return partitions.every is None or seen.fit < ENOUGH[partitions.every]

    @property
    def text(self) -> str:
        """The outlook in words."""
        if self.forecast is None:
            return f"{self.balance.remaining_epsilon:.4g} epsilon of the dataset is left."
        if self.balance.policy.partitions == "disjoint" and self.forecast.refused is None:
            return "Any number of partitions fits: they are disjoint."
        if self.forecast.fit == HORIZON:
            return f"At this price the budget lasts for more than {HORIZON} partitions."
        return self.forecast.describe()

    @property
    def refusal(self) -> str:
        """What a refusal adds to the numbers: since when, and until when."""
        seen = self.forecast
        renews = self.balance.policy.renews_after(datetime.now(UTC))
        until = (
            "The budget does not renew."
            if renews is None
            else f"The budget renews on {renews} (UTC): until then nothing more fits at this price."
        )
        if seen is None or not self.before:
            return until
        return f"The last partition that was paid for is {self.before}. {until}"

    @property
    def metadata(self) -> dict[str, Any]:
        """The outlook as metadata of the asset that reserves."""
        price = units_down(self.graph.budget.rho)
        another = "" if self.forecast is None else ANOTHER
        after = self.balance.remaining_units_after(price, another)
        metadata: dict[str, Any] = {"outlook": self.text}
        if self.forecast is not None:
            fit = self.balance.partitions_that_fit(price)
            metadata["partitions_that_still_fit"] = "any number: disjoint" if fit is None else fit
            refused = self.forecast.refused
            metadata["budget_lasts_until"] = (
                "no end in sight"
                if refused is None
                else f"{refused.at.date()}"
                if refused.at
                else refused.partition
            )
            if self.forecast.renews is not None:
                metadata["budget_renews_on"] = str(self.forecast.renews)
        return metadata | {
            "dataset_remaining_epsilon": self.balance.remaining_epsilon,
            "dataset_remaining_rho": self.balance.remaining,
            "dataset_spent_rho": self.balance.spent,
            "dataset_reserved_rho": self.balance.reserved,
            "dataset_granted_epsilon": self.balance.epsilon,
            "dataset_granted_rho": self.balance.granted,
            "dataset_epsilon_after_another": (
                self.balance.epsilon_of(rho_within(after)) if after >= 0 else "another does not fit"
            ),
        }

    def alert(self, kind: AlertKind, text: str) -> BudgetAlert:
        """Return what to tell people."""
        key, seen = self.funding.key, self.forecast
        refused = None if seen is None else seen.refused
        return BudgetAlert(
            kind=kind,
            release=key.release,
            dataset=key.dataset,
            partition=key.partition,
            edition=key.edition,
            asked_rho=self.graph.budget.rho,
            asked_epsilon=self.graph.budget.epsilon,
            remaining_rho=self.balance.remaining,
            remaining_epsilon=self.balance.remaining_epsilon,
            partitions_that_still_fit=None if seen is None else seen.fit,
            lasts_until=str(refused.at.date()) if refused and refused.at else None,
            renews_on=str(seen.renews) if seen and seen.renews else None,
            text=text,
        )


@contextmanager
def add_outlook_to_refusal(
    graph: "ReleaseGraph", context: dg.AssetExecutionContext, funding: LedgerFunding
) -> Iterator[None]:
    """Leave an alert where a release is refused; where it does not fit, add until when."""
    try:
        yield
    except NotApprovedError as error:
        outlook = BudgetOutlook.of(graph, funding, refused=True)
        log_alert(context, graph.key("privacy_budget"), outlook.alert("not approved", str(error)))
        raise
    except BudgetExceededError as error:
        outlook = BudgetOutlook.of(graph, funding, refused=True)
        refusal = BudgetExceededError(f"{error}. {outlook.refusal}")
        log_alert(context, graph.key("privacy_budget"), outlook.alert("refused", str(refusal)))
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


def log_alert(context: dg.AssetExecutionContext, key: dg.AssetKey, alert: BudgetAlert) -> None:
    """Leave an alert on an asset, for sensors and for its page in the UI."""
    context.log_event(
        dg.AssetObservation(
            key,
            description=literal(alert.title),
            metadata=alert.metadata,
            partition=alert.partition or None,
        )
    )
