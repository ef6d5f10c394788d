"""The privacy ledger as a Dagster resource."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, cast

import dagster as dg
from pydantic import Field

from jam_dagster.errors import BudgetError
from jam_dagster.pipeline.archive import holds_draws_of
from jam_dagster.pipeline.configuration import expanded
from jam_dagster.privacy import Ledger, Policy
from jam_dagster.privacy.ledger_backend import grant_command

if TYPE_CHECKING:
    from jam_dagster.pipeline.storage import ReleaseStore
    from jam_dagster.privacy.policy import PartitionsName, PeriodName


class DatasetBudget(dg.Config):
    """What may be spent on a protected dataset, all its releases together; see `Policy`."""

    epsilon: float
    delta: float
    period: str = "lifetime"
    partitions: str = "add"
    ground: str = ""

    @property
    def policy(self) -> Policy:
        """How the budget counts."""
        return Policy(
            cast("PeriodName", self.period), cast("PartitionsName", self.partitions), self.ground
        )


class LedgerResource(dg.ConfigurableResource):  # type: ignore[type-arg]  # its value is itself
    """The ledger that keeps the privacy budgets of protected datasets.

    A budget configured here is granted when its dataset is first used. From then on the ledger
    keeps it: configuration that says something else later is refused, so that nobody raises a
    budget by editing a file.

    Examples
    --------
    >>> from jam_dagster.pipeline import DatasetBudget, LedgerResource
    >>> ledger = LedgerResource(
    ...     url="/secure/ledger.sqlite",
    ...     budgets={"census_demo": DatasetBudget(epsilon=5.0, delta=1e-9)},
    ... )
    """

    url: str = Field(
        description="A file, or a sqlite:/// or postgresql:// URL; ~ and ${VARIABLES} in it are"
        " expanded, so a password can stay in the environment."
    )
    budgets: dict[str, DatasetBudget] = Field(
        default_factory=dict,
        description="Protected datasets, each with the epsilon and delta that may ever be spent.",
    )

    def open(self, dataset: str, *, stores: Iterable[ReleaseStore] = ()) -> Ledger:
        """Return the ledger, once it holds a budget for `dataset`.

        Parameters
        ----------
        dataset
            A protected dataset.
        stores
            Where draws of its releases may lie.

        Raises
        ------
        BudgetError
            If the dataset has no budget, or another one than is configured; or if a store holds
            draws of a dataset of which the ledger knows nothing.
        """
        url = expanded(self.url, "the ledger's url")
        if "://" not in url:
            Path(url).absolute().parent.mkdir(parents=True, exist_ok=True)
        ledger = Ledger(url)
        url = ledger.location  # without a password
        configured = self.budgets.get(dataset)
        if dataset not in ledger.datasets():
            if configured is None:
                raise BudgetError(
                    f"Protected dataset {dataset!r} has no privacy budget. Name it under budgets"
                    f" of the ledger resource, or run `{grant_command(url, dataset)}`."
                )
            for store in stores:
                if holds_draws_of(dataset, store):
                    raise BudgetError(
                        f"The store ({store.root}) holds draws of protected dataset {dataset!r},"
                        f" which this ledger ({url}) never charged: its file was lost, or its path"
                        f" is mistyped. Restore the ledger that charged them. If it is gone for"
                        f" good, move its draws out of the store and grant what may still be spent:"
                        f" `{grant_command(url, dataset)}`."
                    )
            policy = configured.policy
            ledger.grant(
                dataset,
                epsilon=configured.epsilon,
                delta=configured.delta,
                period=policy.period,
                partitions=policy.partitions,
                ground=policy.ground,
                by="ledger resource",
                reason="configured budget, granted on first use",
            )
        elif configured is not None:
            balance = ledger.balance(dataset)
            policy = configured.policy
            if (balance.epsilon, balance.delta) != (configured.epsilon, configured.delta):
                raise BudgetError(
                    f"Protected dataset {dataset!r} is configured with epsilon"
                    f" {configured.epsilon:g} at delta {configured.delta:g}, but the ledger"
                    f" granted it epsilon {balance.epsilon:g} at delta {balance.delta:g}."
                    f" Configuration does not change a granted budget: set it back, or run"
                    f" `jam-dagster ledger grant --ledger {url} --dataset {dataset} --epsilon"
                    f" {configured.epsilon:g} --delta {configured.delta:g}`."
                )
            if balance.policy != policy:
                raise BudgetError(
                    f"Protected dataset {dataset!r} is configured with {policy}, but the ledger"
                    f" granted its budget with {balance.policy}. Configuration does not change a"
                    f" granted budget: set it back, or grant it anew with `jam-dagster ledger"
                    f" grant --ledger {url} --dataset {dataset}` and the policy's options."
                )
        return ledger
