"""What a protected dataset was granted and where it went, as the journal's sums say."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from jam_dagster.errors import BudgetError
from jam_dagster.privacy.accounting import epsilon_from_rho, rho_within
from jam_dagster.privacy.ledger_backend import grant_command
from jam_dagster.privacy.ledger_schema import Kind, events

_DUST_UNITS = 1000


@dataclass(frozen=True)
class Balance:
    """What a protected dataset was granted, and where it went.

    ``granted = spent + reserved + remaining``, exactly in units of 1e-15 rho.

    Parameters
    ----------
    dataset : str
        The protected dataset.
    epsilon, delta : float
        The budget as it was granted.
    granted_units, reserved_units, spent_units : int
        Amounts in units of 1e-15 rho; reserved is what releases hold and have not spent.
    """

    dataset: str
    epsilon: float
    delta: float
    granted_units: int
    reserved_units: int
    spent_units: int

    @property
    def remaining_units(self) -> int:
        """What a new release can reserve, in units of 1e-15 rho."""
        return self.granted_units - self.reserved_units - self.spent_units

    @property
    def granted(self) -> float:
        """Rho of the whole budget."""
        return rho_within(self.granted_units)

    @property
    def reserved(self) -> float:
        """Rho that releases hold and have not spent."""
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
        """What a new release can reserve, as epsilon at the grant's delta.

        0.0 where only what rounding left is there: shares are whole units, and a few units of
        1e-15 rho pay for nothing, though as epsilon they look like something.
        """
        return 0.0 if self.remaining_units < _DUST_UNITS else self.epsilon_of(self.remaining)

    def epsilon_of(self, rho: float) -> float:
        """Return an amount of rho as epsilon at the grant's delta; epsilons do not add up."""
        return epsilon_from_rho(rho, self.delta)


def known_balance(connection: sa.Connection, location: str, dataset: str) -> Balance:
    """Return the balance of a dataset, or raise BudgetError with how to grant it a budget."""
    balance = balance_of(connection, dataset)
    if balance is None:
        raise BudgetError(
            f"dataset {dataset!r} has no budget in the ledger {location}; grant it one: "
            f"{grant_command(location, dataset)}"
        )
    return balance


def balance_of(connection: sa.Connection, dataset: str) -> Balance | None:
    """Return the balance of a dataset, or None if it was granted nothing."""
    grant = connection.execute(
        sa.select(events.c.epsilon, events.c.delta, events.c.units)
        .where(events.c.dataset == dataset, events.c.kind == Kind.GRANTED.value)
        .order_by(events.c.seq.desc())
        .limit(1)
    ).first()
    if grant is None:
        return None

    def total(*signed: tuple[Kind, int]) -> sa.ColumnElement[int]:
        amounts = [(events.c.kind == kind.value, sign * events.c.units) for kind, sign in signed]
        return sa.func.coalesce(sa.func.sum(sa.case(*amounts, else_=0)), 0)

    held, spent = connection.execute(
        sa.select(
            total((Kind.RESERVED, 1), (Kind.RETURNED, -1), (Kind.CHARGED, -1)),
            total((Kind.CHARGED, 1)),
        ).where(events.c.dataset == dataset)
    ).one()
    return Balance(dataset, grant.epsilon, grant.delta, grant.units, int(held), int(spent))
