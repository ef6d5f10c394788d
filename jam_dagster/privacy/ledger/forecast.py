"""Forecasts of how long a budget lasts for a series of releases at the same price."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from jam_dagster.privacy.ledger.policy import ANOTHER

if TYPE_CHECKING:
    from jam_dagster.privacy.ledger.balance import Balance

HORIZON = 5000
"""Releases ahead that a forecast looks at."""


@dataclass(frozen=True)
class Due:
    """A release to come.

    Its reservation counts in the period of `at`, when it can run; None: at any time.
    """

    partition: str
    at: datetime | None = None

    def __str__(self) -> str:
        return self.partition + (f", which is due on {self.at.date()}," if self.at else "")


@dataclass(frozen=True)
class Forecast:
    """How many releases to come fit, and the first that does not.

    `refused` is None if all within the horizon fit. `renewal` says when the budget renews.
    """

    fit: int
    refused: Due | None
    renewal: str

    def __str__(self) -> str:
        if self.refused is None:
            return "All partitions in sight fit."
        fit = f"{self.fit} more {'fits' if self.fit == 1 else 'fit'}"
        return f"At this price {fit}: {self.refused} does not fit. {self.renewal}"


def renewal_after(balance: Balance, at: datetime) -> str:
    """Return when a budget renews after a moment, as a sentence."""
    renews = balance.policy.renews_after(at)
    return f"The budget renews on {renews} (UTC)." if renews else "The budget does not renew."


def forecast(balance: Balance, units: int, due: Iterable[Due], *, now: datetime) -> Forecast:
    """Return how long a budget lasts if one release after another takes its price.

    `units` is the price of each, in 1e-15 rho. `due` are the future releases in their order;
    overdue ones count as made now. Other releases of the dataset are not foreseen.
    """
    policy = balance.policy
    left = {policy.period_of(now.isoformat()): balance.remaining_units_in(ANOTHER)}
    fit = 0
    for one in due:
        at = max(one.at or now, now)
        period = policy.period_of(at.isoformat())
        room = left.setdefault(period, balance.granted_units)
        if units > room:
            return Forecast(fit, one, renewal_after(balance, at))
        if policy.partitions == "add":
            left[period] = room - units
        fit += 1
        if fit == HORIZON:
            break
    return Forecast(fit, None, renewal_after(balance, now))
