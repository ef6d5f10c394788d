"""The privacy ledger as a Dagster resource."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import dagster as dg
from pydantic import field_validator

from jam_dagster.certificates.signing import Signer, configured_signer
from jam_dagster.common.variables import expanded, with_names
from jam_dagster.errors import BudgetError, SpecificationError
from jam_dagster.pipeline.launch import NO_CONFIG, declared_place, is_variable, variable_name
from jam_dagster.pipeline.storage.store_place import holds_draws_of
from jam_dagster.pipeline.yaml.configuration import NOTHING_DONE
from jam_dagster.privacy import Balance, Ledger, Policy
from jam_dagster.privacy.ledger.approval import check_approval
from jam_dagster.privacy.ledger.backend import grant_command

if TYPE_CHECKING:
    from jam_dagster.pipeline.storage.io_manager import ReleaseStore
    from jam_dagster.privacy.ledger.approval import ApprovalName
    from jam_dagster.privacy.ledger.policy import PartitionsName, PeriodName, RecordsName


class DatasetBudget(dg.Config):
    """What may be spent on a protected dataset, all its releases together; see `Policy`."""

    epsilon: float
    delta: float
    period: str = "lifetime"
    partitions: str = "add"
    ground: str = ""
    records: str = "private"
    approval: str = "none"
    attempts: int | None = None
    sources: str = ""

    @field_validator("*", mode="before")
    @classmethod
    def _written_out(cls, value: object) -> object:
        # A variable of numbers counts as 0 until it is resolved, which nothing here does.
        if is_variable(value):
            raise ValueError(
                "a budget is written out, so that whoever reviews the definitions sees it;"
                f" it names the variable {variable_name(value)}"
            )
        return value

    @property
    def policy(self) -> Policy:
        """How the budget counts."""
        return Policy(
            cast("PeriodName", self.period),
            cast("PartitionsName", self.partitions),
            self.ground,
            cast("RecordsName", self.records),
        )


class LedgerResource(dg.ResourceDefinition):
    """The ledger that keeps the privacy budgets of protected datasets.

    A budget configured here is granted when its dataset is first used. From then on the ledger
    keeps it: configuration that says something else later is refused, so that no budget is raised
    by editing a file.

    Only the definitions configure it. The resource takes no run config: a launch that gives it any
    is refused.

    Parameters
    ----------
    url
        A file, or a sqlite:/// or postgresql:// URL; ``~`` and ``${VARIABLES}`` in it are expanded,
        so a password can stay in the environment. Messages show the variables' names.
    budgets
        Protected datasets, each with the epsilon and delta that may ever be spent.
    signing_key
        The file of the private key that signs certificates, or ``${VARIABLE}`` that holds the key;
        unless given, ``JAM_SIGNING_KEY`` of the environment, if it is set.

    Raises
    ------
    SpecificationError
        If `url` is no text, or `budgets` no mapping of names to `DatasetBudget`.

    Examples
    --------
    >>> from jam_dagster.pipeline import DatasetBudget, LedgerResource
    >>> ledger = LedgerResource(
    ...     url="/secure/ledger.sqlite",
    ...     budgets={"health_survey": DatasetBudget(epsilon=5.0, delta=1e-9)},
    ... )
    """

    def __init__(
        self,
        *,
        url: str,
        budgets: Mapping[str, DatasetBudget | Mapping[str, Any]] | None = None,
        signing_key: str = "",
    ) -> None:
        self.url = declared_place("the ledger's url", url)
        self.signing_key = declared_place("signing_key", signing_key) if signing_key else ""
        self.budgets = _budgets({} if budgets is None else budgets)
        super().__init__(
            self._given,
            config_schema=NO_CONFIG,
            description="The privacy ledger. Only the definitions configure it.",
        )

    def _given(self, _: dg.InitResourceContext) -> LedgerResource:
        return self

    def signer(self) -> Signer | None:
        """Return who signs certificates, if anybody does.

        Raises
        ------
        SpecificationError
            If the key itself stands in the configuration, where everyone can read it.
        InputError
            If the key cannot be read, or others can read its file.
        """
        if "-----BEGIN" in self.signing_key:
            raise SpecificationError(
                "signing_key of the ledger resource holds a key, and definitions are no place for"
                " one: name its file or a ${VARIABLE}, and make a new key."
            )
        return configured_signer(expanded(self.signing_key, "signing_key of the ledger resource"))

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
        ledger = Ledger(self.url)
        url = ledger.location  # without a password
        self._make_folder(url)
        configured = self.budgets.get(dataset)
        balance = ledger.balance_if_granted(dataset)
        if balance is None:
            self._grant_first(ledger, dataset, configured, stores)
        elif configured is not None:
            _check_granted(balance, dataset, configured, url)
        return ledger

    def _grant_first(
        self,
        ledger: Ledger,
        dataset: str,
        configured: DatasetBudget | None,
        stores: Iterable[ReleaseStore],
    ) -> None:
        """Grant the configured budget to a dataset that the ledger knows nothing of."""
        url = ledger.location
        if configured is None:
            raise BudgetError(
                f"Protected dataset {dataset!r} has no privacy budget. Name it under budgets"
                f" of the ledger resource, or run `{grant_command(url, dataset)}`."
            )
        for store in stores:
            if holds_draws_of(dataset, store):
                raise BudgetError(
                    f"The store ({store.place}) holds draws of protected dataset {dataset!r},"
                    f" which this ledger ({url}) never charged: its file was lost, or its path"
                    f" is mistyped. Restore the ledger that charged them. If it is gone for"
                    f" good, move its draws out of the store and grant what may still be spent:"
                    f" `{grant_command(url, dataset)}`."
                )
        ledger.grant(
            dataset,
            epsilon=configured.epsilon,
            delta=configured.delta,
            policy=configured.policy,
            approval=cast("ApprovalName", configured.approval),
            attempts=configured.attempts,
            sources=configured.sources,
            reason="the ledger resource's budget, granted on first use",
        )

    def _make_folder(self, shown: str) -> None:
        place = expanded(self.url, "the ledger's url", note=NOTHING_DONE)
        if "://" in place:
            return
        try:
            Path(place).absolute().parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = with_names(f"{error.strerror} ({error.filename})", self.url)
            raise BudgetError(f"the ledger {shown} cannot be made: {reason}") from None


def _check_granted(
    balance: Balance, dataset: str, configured: DatasetBudget, location: str
) -> None:
    """Raise if a budget is configured otherwise than it was granted."""
    if (balance.epsilon, balance.delta) != (configured.epsilon, configured.delta):
        raise BudgetError(
            f"Protected dataset {dataset!r} is configured with epsilon"
            f" {configured.epsilon:g} at delta {configured.delta:g}, but the ledger"
            f" granted it epsilon {balance.epsilon:g} at delta {balance.delta:g}."
            f" Configuration does not change a granted budget: set it back, or run"
            f" `jam-dagster ledger grant --ledger {location} --dataset {dataset} --epsilon"
            f" {configured.epsilon:g} --delta {configured.delta:g}`."
        )
    if balance.policy != configured.policy:
        raise BudgetError(
            f"Protected dataset {dataset!r} is configured with {configured.policy}, but the ledger"
            f" granted its budget with {balance.policy}. Configuration does not change a"
            f" granted budget: set it back, or grant it again with `jam-dagster ledger"
            f" grant --ledger {location} --dataset {dataset}` and the policy's options."
        )
    if check_approval(configured.approval) != balance.approval:
        raise BudgetError(
            f"Protected dataset {dataset!r} is configured with approval"
            f" {configured.approval}, but the ledger granted its budget with approval"
            f" {balance.approval or 'none'}. Configuration does not change a granted"
            f" budget: set it back, or grant it with `jam-dagster ledger grant --ledger"
            f" {location} --dataset {dataset}` and `--approval {configured.approval}`."
        )
    check_access(configured, balance, location)


def check_access(configured: DatasetBudget, balance: Balance, location: str) -> None:
    """Raise if how private data may be opened is configured otherwise than it was granted."""
    options = []
    if configured.attempts not in (None, balance.attempts):
        options.append(f"--attempts {configured.attempts}")
    granted = balance.sources.split(",")
    if missing := [one for one in configured.sources.split(",") if one and one not in granted]:
        options.append(f"--sources {','.join(filter(None, (*granted, *missing)))}")
    if options:
        raise BudgetError(
            f"Protected dataset {balance.dataset!r} is configured with other attempts or sources"
            f" than the ledger granted. Configuration does not change a granted budget: set it"
            f" back, or run `jam-dagster ledger grant --ledger {location} --dataset"
            f" {balance.dataset} --epsilon {balance.epsilon:g} --delta {balance.delta:g}"
            f" {' '.join(options)}`, with the policy's options where it has any."
        )


def _budgets(given: object) -> dict[str, DatasetBudget]:
    if not isinstance(given, Mapping):
        raise SpecificationError(
            f"the ledger's budgets must be a mapping of datasets to DatasetBudget, got {given!r}."
        )
    made: dict[str, DatasetBudget] = {}
    for name, budget in given.items():
        if isinstance(budget, Mapping):
            made[str(name)] = DatasetBudget(**budget)
        elif isinstance(budget, DatasetBudget):
            made[str(name)] = budget
        else:
            raise SpecificationError(
                f"budgets.{name} must be a DatasetBudget(epsilon=..., delta=...), got {budget!r}."
            )
    return made
