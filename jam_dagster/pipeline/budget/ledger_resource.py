"""The privacy ledger as a Dagster resource."""

# Dagster reads the annotations of a budget as types when it derives the YAML schema, so they must
# not be postponed to strings.
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import dagster as dg

from jam_dagster.certificates.signing import Signer, configured_signer
from jam_dagster.common.variables import expanded, with_names
from jam_dagster.errors import BudgetError, JamError, SpecificationError
from jam_dagster.pipeline.launch import NO_CONFIG, declared_place, is_variable, variable_name
from jam_dagster.pipeline.storage.store_place import holds_draws_of
from jam_dagster.pipeline.yaml.configuration import NOTHING_DONE, Configured, described
from jam_dagster.privacy.accounting import UNITS_PER_DELTA, Budget, delta_units_up, units_down
from jam_dagster.privacy.ledger.commands import grant_command
from jam_dagster.privacy.ledger.identity import check_ledger, ledger_fault, new_ledger_remark
from jam_dagster.privacy.ledger.policy import (
    IN_ALL_TABLES,
    ApprovalName,
    PartitionsName,
    PeriodName,
    Policy,
    RecordsName,
    check_approval,
)

if TYPE_CHECKING:
    from jam_dagster.privacy import Balance, Ledger
    from jam_dagster.release.files import ReleaseFiles


@dataclass(frozen=True)
class DatasetBudget(Configured):
    """The most that all releases of a protected dataset may ever spend together; see `Policy`."""

    epsilon: Annotated[float, described("epsilon of everything together", exclusiveMinimum=0)]
    delta: Annotated[float, described("delta of it", exclusiveMinimum=0, exclusiveMaximum=1)] = 1e-9
    period: Annotated[
        PeriodName, described("lifetime, or a calendar period in which it renews")
    ] = "lifetime"
    partitions: Annotated[
        PartitionsName,
        described(
            "add, or (with a ground) disjoint: partitions of its one table in parallel, or disjoint"
            " in all tables"
        ),
    ] = "add"
    ground: Annotated[
        str,
        described("why nobody's change touches two partitions", "membership public and fixed"),
    ] = ""
    records: Annotated[
        RecordsName,
        described(
            "public: the table has one fixed set of people whose number may be known, as releases"
            " of replace_one neighbours show it"
        ),
    ] = "private"
    approval: Annotated[
        ApprovalName,
        described("none, or required: releases wait for `ledger approve` before they reserve"),
    ] = "none"
    attempts: Annotated[
        int | None,
        described(
            "how many attempts to open private data may end badly, or be in progress, before"
            " `jam-dagster ledger acknowledge`; 3 if not given",
            3,
            minimum=1,
        ),
    ] = None
    selections: Annotated[
        float | None,
        described(
            "how much of delta selections of values may have; 0 if not given",
            5e-10,
            minimum=0,
            exclusiveMaximum=1,
        ),
    ] = None
    sources: Annotated[
        str,
        described("digests of queries, assets, folders or URLs, as a refusal shows them"),
    ] = ""

    def __post_init__(self) -> None:
        # A variable of numbers counts as 0 until it is resolved, which nothing here does.
        for value in filter(is_variable, vars(self).values()):
            raise ValueError(
                "a budget is written out, so that everyone who reviews the definitions sees it;"
                f" it names the variable {variable_name(value)}"
            )

    @property
    def policy(self) -> Policy:
        """How the budget counts."""
        return Policy(self.period, self.partitions, self.ground, self.records)

    def check(self, dataset: str) -> None:
        """Raise if the ledger could not grant the budget to a dataset."""
        # Importing SQLAlchemy takes time, and most processes of a code location open no ledger.
        from jam_dagster.privacy.ledger.attempts import check_attempts
        from jam_dagster.privacy.ledger.bindings import check_sources

        try:
            _ = self.policy
            check_approval(self.approval)
            check_attempts(self.attempts)
            check_sources(self.sources)
            Budget(self.epsilon, self.delta, self.selections or 0.0)
        except ValueError as error:
            raise SpecificationError(f"budgets.{dataset}: {error}") from None


class LedgerResource(dg.ResourceDefinition):
    """The ledger that keeps the privacy budgets of protected datasets.

    A budget configured here is granted when its dataset is first used. From then on the ledger
    keeps it, and `jam-dagster ledger grant` changes it: configuration that says more than was
    granted is refused, so that no budget is raised by editing a file. After
    `jam-dagster ledger by-hand` nothing configured here is granted: a new name for the same
    people would have a budget beyond theirs.

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

    def _given(self, _: dg.InitResourceContext) -> "LedgerResource":
        return self

    def signer(self) -> Signer | None:
        """Return who signs certificates, if anybody does.

        Raises
        ------
        SpecificationError
            If the key itself is in the configuration, where everyone can read it.
        InputError
            If the key cannot be read, or others can read its file.
        """
        if "-----BEGIN" in self.signing_key:
            raise SpecificationError(
                "signing_key of the ledger resource holds a key, and definitions are no place for"
                " one: name its file or a ${VARIABLE}, and make a new key."
            )
        return configured_signer(expanded(self.signing_key, "signing_key of the ledger resource"))

    def _ledger(self) -> "Ledger":
        from jam_dagster.privacy import Ledger

        return Ledger(self.url)

    def knows(self, dataset: str) -> bool:
        """Whether a dataset has a budget, configured or granted, as far as it can be seen here.

        A ledger that this process cannot read may know it.
        """
        if dataset in self.budgets:
            return True
        try:
            return self._ledger().balance_if_granted(dataset) is not None
        except JamError:
            return True

    def warn_unless_known(self, dataset: str) -> None:
        """Log that the releases of a dataset without a budget will be refused."""
        if not self.knows(dataset):
            location = self._ledger().location
            dg.get_dagster_logger().warning(
                f"Protected dataset {dataset!r} has no privacy budget, so its releases will be"
                " refused: name it under budgets of the ledger resource, or let an officer grant"
                f" it (`{grant_command(location, dataset)}`)."
            )

    def warn_of_identity(self, dataset: str, ledger_id: str) -> None:
        """Log that the ledger is another one than a release names, or new where it names none.

        A ledger that this process cannot read is not compared.
        """
        try:
            ledger = self._ledger()
            fault = ledger_fault(ledger, ledger_id)
            fault = fault and f"Its runs will be refused: {fault}."
            journal = ledger.events(dataset) if ledger.exists and not ledger_id else []
            found = fault or new_ledger_remark(journal, ledger.location, ledger_id, dataset)
        except JamError:
            return
        if found:
            dg.get_dagster_logger().warning(found)

    def open(
        self,
        dataset: str,
        *,
        ledger_id: str = "",
        stores: "Iterable[ReleaseFiles]" = (),
        notify: Callable[[str], None] = lambda sentence: None,
    ) -> "Ledger":
        """Return the ledger, once it holds a budget for `dataset`.

        The ledger's grant counts, also where less is configured.

        Parameters
        ----------
        dataset
            A protected dataset.
        ledger_id
            The identity that the ledger must have; empty: any.
        stores
            Where draws of its releases may be stored.
        notify
            Gets a sentence where less is configured than was granted.

        Raises
        ------
        BudgetError
            If it is another ledger; if the dataset has no budget, or a smaller one than is
            configured; or if the ledger knows nothing of the dataset, and a store holds draws of
            it or the officer grants each new dataset by hand.
        """
        ledger = self._ledger()
        check_ledger(ledger, ledger_id)
        url = ledger.location  # without a password
        self._make_folder(url)
        configured = self.budgets.get(dataset)
        balance = ledger.balance_if_granted(dataset)
        if balance is None:
            self._grant_first(ledger, dataset, configured, stores)
        elif configured is not None and not _check_granted(balance, configured, url):
            notify(
                f"The ledger granted dataset {dataset!r} {_in_words(balance)}: that counts, and"
                " not what the ledger resource is configured with."
            )
        return ledger

    def _grant_first(
        self,
        ledger: "Ledger",
        dataset: str,
        configured: DatasetBudget | None,
        stores: "Iterable[ReleaseFiles]",
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
            approval=configured.approval,
            attempts=configured.attempts,
            sources=configured.sources,
            selections=configured.selections,
            reason="the ledger resource's budget, granted on first use",
            by_definitions=True,
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


def _check_granted(balance: "Balance", configured: DatasetBudget, location: str) -> bool:
    """Return whether a budget is configured as granted; a BudgetError if more is configured."""
    wanted: dict[str, object] = {}
    # The officer may have given a part of delta to selections of values.
    selections = balance.granted_selections / UNITS_PER_DELTA
    worth = Budget(configured.epsilon, configured.delta, selections).rho
    if units_down(worth) > balance.granted_units:
        wanted |= {"epsilon": configured.epsilon, "delta": configured.delta}
    for name, least in vars(Policy()).items():
        value = getattr(configured, name)
        granted = getattr(balance.policy, name)
        # Partitions that are disjoint in all tables are disjoint in one.
        if value not in (least, granted) and (value, granted) != ("disjoint", IN_ALL_TABLES):
            wanted[name] = value
    if check_approval(configured.approval) not in ("", balance.approval):
        wanted["approval"] = configured.approval
    if configured.attempts is not None and configured.attempts > balance.attempts:
        wanted["attempts"] = configured.attempts
    asked = delta_units_up(configured.selections or 0.0)
    if asked > balance.granted_selections:
        wanted["selection-delta"] = configured.selections
    named = [one for one in balance.sources.split(",") if one]
    if missing := [one for one in configured.sources.split(",") if one and one not in named]:
        wanted["sources"] = ",".join((*named, *missing))
    if wanted:
        from jam_dagster.privacy.ledger.balance import grant_again_command

        listed = ", ".join(f"{name} {value}" for name, value in wanted.items())
        raise BudgetError(
            f"Protected dataset {balance.dataset!r} is configured with {listed}, and the ledger"
            f" granted it {_in_words(balance)}. Configuration does not change a granted budget:"
            " configure no more than was granted, or let the officer grant it:"
            f" {grant_again_command(location, balance, **wanted)}"
        )
    same = (configured.epsilon, configured.delta, configured.policy)
    return same == (balance.epsilon, balance.granted_delta, balance.policy)


def _in_words(balance: "Balance") -> str:
    """Return what the ledger granted, as a configuration would say it."""
    words = {"epsilon": f"{balance.epsilon:g}", "delta": f"{balance.granted_delta:g}"}
    words |= {name: value for name, value in vars(balance.policy).items() if value}
    words |= {"approval": balance.approval or "none", "attempts": str(balance.attempts)}
    return ", ".join(f"{name} {value}" for name, value in words.items())


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
