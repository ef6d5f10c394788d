"""Populations: the people of several datasets, and the budget of all their releases together.

A budget of a dataset says nothing of the same people in another one. The officer grants a
population a budget of its own, for its lifetime, and lets datasets join it. From then on, what a
release of any of them reserves counts in both budgets. No dataset ever leaves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from jam_dagster.errors import BudgetError, LedgerIntegrityError
from jam_dagster.privacy.accounting import describe_rho, epsilon_from_rho, rho_within
from jam_dagster.privacy.ledger.commands import population_command
from jam_dagster.privacy.ledger.holdings import holdings, last_grant, policy_of, up_to
from jam_dagster.privacy.ledger.journal import Event, Kind, append, events, last, read
from jam_dagster.privacy.ledger.policy import Policy, Use, relations_fault, use

_DUST_UNITS = 1000


class Amounts:
    """The granted, reserved, spent and remaining amounts of a budget, in rho and epsilon."""

    delta: float
    granted_units: int
    reserved_units: int
    spent_units: int

    @property
    def remaining_units(self) -> int:
        """The amount that a new release can reserve, in units of 1e-15 rho."""
        return self.granted_units - self.reserved_units - self.spent_units

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


@dataclass(frozen=True)
class Population(Amounts):
    """The balance of a population: ``granted = spent + reserved + remaining``, over its lifetime.

    Parameters
    ----------
    name : str
        The population.
    epsilon, delta : float
        The budget as it was granted.
    granted_units, reserved_units, spent_units : int
        Amounts in units of 1e-15 rho, the last two added up over its datasets.
    uses : mapping of str to Use
        What the releases of each of its datasets hold and have spent over their lifetime.
    """

    name: str
    epsilon: float
    delta: float
    granted_units: int
    reserved_units: int
    spent_units: int
    uses: Mapping[str, Use] = field(repr=False)

    def remaining_units_in(self, dataset: str, policy: Policy, partition: str) -> int:
        """Return the amount that a new release of a dataset's partition can reserve."""
        its = self.uses[dataset]
        if not partition or policy.partitions == "add":
            return self.remaining_units
        beside = its.by_partition.get("", 0) + its.by_partition.get(partition, 0)
        return self.remaining_units + its.spent + its.reserved - beside

    def fault(self, *relations: str) -> str:
        """Return why what its datasets use is no sum; empty if it is one.

        `relations` are further neighbouring relations that a release of a dataset would protect.
        """
        return relations_fault({*relations}.union(*(one.relations for one in self.uses.values())))


def population_from(grant: Event, uses: Mapping[str, Use]) -> Population:
    """Return the balance of a population from its last grant and the use of its datasets."""
    return Population(
        name=grant.step,
        epsilon=grant.epsilon or 0.0,
        delta=grant.delta or 0.0,
        granted_units=grant.units,
        reserved_units=sum(one.reserved for one in uses.values()),
        spent_units=sum(one.spent for one in uses.values()),
        uses=uses,
    )


def population_of(
    connection: sa.Connection,
    name: str,
    own: Mapping[str, Use] | None = None,
    *,
    through: int | None = None,
) -> Population | None:
    """Return the balance of a population, or None if it was granted nothing.

    `own` has what a dataset uses, or would use if it had joined, in place of what the journal says
    of it. Events after `through` do not count.
    """
    its = [events.c.step == name, *up_to(through)]
    grant = last(connection, events.c.kind == Kind.POPULATION.value, *its)
    if grant is None:
        return None
    own = own or {}
    joined = [one.dataset for one in read(connection, events.c.kind == Kind.JOINED.value, *its)]
    return population_from(
        grant,
        {
            dataset: own[dataset] if dataset in own else lifetime_use(connection, dataset, through)
            for dataset in dict.fromkeys([*joined, *own])
        },
    )


def lifetime_use(connection: sa.Connection, dataset: str, through: int | None = None) -> Use:
    """Return what a dataset's releases hold and have spent in all periods together."""
    grant = last_grant(connection, dataset, through=through)
    if grant is None:
        raise _unfounded(dataset)
    return use(policy_of(grant), holdings(connection, dataset, through=through))


def joined_by(
    connection: sa.Connection, dataset: str, use: Use, *, through: int | None = None
) -> Population | None:
    """Return the population to which a dataset belongs, where it uses `use`; None if to none."""
    its = [events.c.dataset == dataset, *up_to(through)]
    for joined in read(connection, events.c.kind == Kind.JOINED.value, *its):
        found = population_of(connection, joined.step, {dataset: use}, through=through)
        if found is None:
            raise _unfounded(dataset)
        return found
    return None


def names_of_populations(connection: sa.Connection) -> list[str]:
    """Return the populations that have a budget, by name."""
    return sorted({one.step for one in read(connection, events.c.kind == Kind.POPULATION.value)})


def known_population(
    connection: sa.Connection, location: str, name: str, own: Mapping[str, Use] | None = None
) -> Population:
    """Return the balance of a population, or raise BudgetError with how to grant it a budget."""
    found = population_of(connection, name, own)
    if found is None:
        raise BudgetError(
            f"population {name!r} has no budget in the ledger {location}; grant it one: "
            f"{population_command(location, name)}"
        )
    return found


def grant_population(
    connection: sa.Connection,
    name: str,
    *,
    units: int,
    epsilon: float,
    delta: float,
    **details: str,
) -> None:
    """Grant a population its whole budget, or replace it; an unchanged one writes nothing."""
    before = population_of(connection, name)
    if before is not None:
        if (before.epsilon, before.delta) == (epsilon, delta):
            return
        used = before.spent_units + before.reserved_units
        if units < used:
            raise BudgetError(
                f"the budget of population {name!r} cannot be lowered to "
                f"{describe_rho(rho_within(units), delta)}: its datasets have spent "
                f"{describe_rho(before.spent, delta)} and reserved "
                f"{describe_rho(before.reserved, delta)}; grant at least "
                f"{describe_rho(rho_within(used), delta)}, or close abandoned releases"
            )
    budget: dict[str, Any] = {"units": units, "epsilon": epsilon, "delta": delta}
    append(connection, Kind.POPULATION, "", step=name, **budget, **details)


def join(connection: sa.Connection, location: str, dataset: str, name: str, **details: str) -> None:
    """Make a dataset belong to a population from now on; see `Ledger.join`."""
    its = lifetime_use(connection, dataset)
    before = joined_by(connection, dataset, its)
    if before is not None:
        if before.name == name:
            return
        raise BudgetError(
            f"dataset {dataset!r} belongs to population {before.name!r}, and no dataset leaves "
            "one: what was released of its people stays released. Give the same people one "
            "population, and other people a dataset of their own"
        )
    would_be = known_population(connection, location, name, {dataset: its})
    if would_be.remaining_units < 0:
        used = rho_within(would_be.spent_units + would_be.reserved_units)
        raise BudgetError(
            f"dataset {dataset!r} cannot join population {name!r}: with what it has spent and "
            f"reserved, {describe_rho(used, would_be.delta)} would be used of "
            f"{describe_rho(would_be.granted, would_be.delta)}. Close abandoned releases, or grant "
            f"the population at least that: {population_command(location, name)}"
        )
    if fault := would_be.fault():
        raise BudgetError(
            f"dataset {dataset!r} cannot join population {name!r}: the population {fault}"
        )
    append(connection, Kind.JOINED, dataset, step=name, **details)


def _unfounded(dataset: str) -> LedgerIntegrityError:
    return LedgerIntegrityError(
        f"the ledger counts dataset {dataset!r} in a population, and lacks a grant of either; run "
        "`jam-dagster ledger verify`"
    )
