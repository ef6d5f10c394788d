"""Balances of protected datasets: granted, reserved and spent, summed from the journal."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa

from jam_dagster.errors import BudgetError
from jam_dagster.privacy.accounting import delta_left, epsilon_from_rho, rho_within
from jam_dagster.privacy.ledger.commands import grant_command, ledger_command
from jam_dagster.privacy.ledger.holdings import holdings, last_grant, policy_of
from jam_dagster.privacy.ledger.journal import Event
from jam_dagster.privacy.ledger.policy import Holding, Policy, composed, use

_DUST_UNITS = 1000

DEFAULT_ATTEMPTS = 3
"""Attempts to open private data that may fail, where a grant does not set the number."""


@dataclass(frozen=True)
class Balance:
    """The balance of a protected dataset: granted, reserved, spent and remaining.

    ``granted = spent + reserved + remaining``, exactly in units of 1e-15 rho, all within the
    current period and with partitions composed as the policy says.

    Parameters
    ----------
    dataset : str
        The protected dataset.
    epsilon : float
        The budget as it was granted.
    delta : float
        The delta at which rho and epsilon are converted: as it was granted, less what selections of
        values may have.
    granted_delta : float
        The delta as it was granted.
    granted_selections : int
        How much of it selections of values may have, in units of 1e-18.
    selections_by_partition : mapping of str to int
        How much of that releases of each partition have in the period.
    granted_units, reserved_units, spent_units : int
        Amounts in units of 1e-15 rho; reserved is what releases hold and have not spent.
    lifetime_spent_units : int
        What was charged in all periods together.
    policy : Policy
        How the budget counts.
    period : str
        The current period, such as ``"2026-11"``, or ``"lifetime"``.
    used_by_partition : mapping of str to int
        Spent and reserved of each partition in the period, ``""`` for none.
    attempts : int
        How many attempts to open private data may fail in the period.
    sources : str
        As granted: digests of the queries, assets, folders and URLs that the officer vouches for,
        separated by commas.
    approval : str
        ``"required"`` where releases wait for approval before they reserve; else empty.
    """

    dataset: str
    epsilon: float
    delta: float
    granted_units: int
    reserved_units: int
    spent_units: int
    lifetime_spent_units: int
    policy: Policy = field(default_factory=Policy)
    period: str = "lifetime"
    used_by_partition: Mapping[str, int] = field(default_factory=dict, repr=False)
    attempts: int = DEFAULT_ATTEMPTS
    sources: str = ""
    approval: str = ""
    granted_delta: float = 0.0
    granted_selections: int = 0
    selections_by_partition: Mapping[str, int] = field(default_factory=dict, repr=False)

    def _repr_html_(self) -> str:
        from jam_dagster.common.notebook import card

        amounts = {
            "granted": self.granted,
            "spent": self.spent,
            "reserved": self.reserved,
            "remaining": self.remaining,
        }
        facts = {
            "dataset": self.dataset,
            "period": self.period,
            "partitions": self.policy.partitions if self.policy.parallel else "add up",
            "delta": f"{self.delta:g}",
        }
        rows = (
            (name, rho, self.epsilon_of(rho) if rho > 0 else 0.0) for name, rho in amounts.items()
        )
        return card("Budget balance", facts, columns=("", "rho", "epsilon"), rows=rows)

    @property
    def remaining_units(self) -> int:
        """The amount that a new release of all the data can reserve, in units of 1e-15 rho."""
        return self.remaining_units_in("")

    def remaining_units_in(self, partition: str) -> int:
        """Return the amount that a new release of a partition can reserve, in units of 1e-15 rho.

        If partitions are disjoint, a partition that has released less can reserve more.
        """
        if not partition or not self.policy.parallel:
            return self.granted_units - self.reserved_units - self.spent_units
        used = self.used_by_partition
        return self.granted_units - used.get("", 0) - used.get(partition, 0)

    @property
    def used_selections(self) -> int:
        """The delta that selections of all releases have together, in units of 1e-18."""
        return composed(self.policy, self.selections_by_partition)

    def remaining_selections_in(self, partition: str) -> int:
        """Return the delta for selections that a new release of a partition can reserve."""
        used = self.selections_by_partition
        if not partition or not self.policy.parallel:
            return self.granted_selections - self.used_selections
        return self.granted_selections - used.get("", 0) - used.get(partition, 0)

    def remaining_units_after(self, units: int, partition: str = "") -> int:
        """Return the amount that one more release would leave; negative if it does not fit."""
        return min(self.remaining_units, self.remaining_units_in(partition) - units)

    @property
    def granted(self) -> float:
        """Rho of the whole budget."""
        return rho_within(self.granted_units)

    @property
    def reserved(self) -> float:
        """Rho that is reserved and not spent."""
        return rho_within(self.reserved_units)

    @property
    def spent(self) -> float:
        """Rho charged for draws."""
        return rho_within(self.spent_units)

    @property
    def remaining(self) -> float:
        """Rho that a new release can reserve."""
        return rho_within(self.remaining_units)

    @property
    def remaining_epsilon(self) -> float:
        """The amount that a new release can reserve, as epsilon at the grant's delta.

        0.0 for a rounding remainder: a few units of 1e-15 rho pay for no draw, though their
        epsilon looks like a usable amount.
        """
        return 0.0 if self.remaining_units < _DUST_UNITS else self.epsilon_of(self.remaining)

    def epsilon_of(self, rho: float) -> float:
        """Return an amount of rho as epsilon at the grant's delta; epsilons do not add up."""
        return epsilon_from_rho(rho, self.delta)

    @property
    def lifetime_spent(self) -> float:
        """Rho charged for draws over the lifetime."""
        return rho_within(self.lifetime_spent_units)


def grant_again_command(location: str, balance: Balance, **changes: object) -> str:
    """Return the command that grants a budget again with some changes, as errors quote it."""
    given = {"epsilon": repr(balance.epsilon), "delta": repr(balance.granted_delta), **changes}
    options = {name: str(value) for name, value in given.items()}
    return ledger_command("grant", location, dataset=balance.dataset, **options, reason="REASON")


def known_balance(
    connection: sa.Connection,
    location: str,
    dataset: str,
    at: str,
    *,
    without: Collection[str] = (),
    through: int | None = None,
) -> Balance:
    """Return the balance of a dataset, or raise BudgetError with how to grant it a budget."""
    balance = balance_of(connection, dataset, at, without=without, through=through)
    if balance is None:
        raise BudgetError(
            f"dataset {dataset!r} has no budget in the ledger {location}; grant it one: "
            f"{grant_command(location, dataset)}"
        )
    return balance


def balance_of(
    connection: sa.Connection,
    dataset: str,
    at: str,
    *,
    without: Collection[str] = (),
    through: int | None = None,
) -> Balance | None:
    """Return the balance of a dataset, or None if it was granted nothing.

    `at` is an instant in the period that counts, ISO 8601. Reservations whose hashes are in
    `without` count as returned, and events after `through` not at all.
    """
    grant = last_grant(connection, dataset, through=through)
    if grant is None:
        return None
    return balance_from(grant, holdings(connection, dataset, without=without, through=through), at)


def balance_from(grant: Event, held: Sequence[Holding], at: str) -> Balance:
    """Return the balance of a dataset from its last grant and its reservations."""
    policy = policy_of(grant)
    period = policy.period_of(at)
    now = use(policy, held, period)
    return Balance(
        dataset=grant.dataset,
        epsilon=grant.epsilon or 0.0,
        delta=delta_left(grant.delta or 0.0, grant.selections or 0),
        granted_units=grant.units,
        reserved_units=now.reserved,
        spent_units=now.spent,
        lifetime_spent_units=use(policy, held).spent if period else now.spent,
        policy=policy,
        period=period or "lifetime",
        used_by_partition=now.by_partition,
        attempts=DEFAULT_ATTEMPTS if grant.attempts is None else grant.attempts,
        sources=grant.sources,
        approval=grant.approval,
        granted_delta=grant.delta or 0.0,
        granted_selections=grant.selections or 0,
        selections_by_partition=now.selections,
    )
