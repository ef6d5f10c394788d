"""Forecasts of how long a budget lasts for a series of releases at the same price."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING

from jam_dagster.privacy.ledger.policy import ANOTHER

if TYPE_CHECKING:
    from jam_dagster.privacy.ledger.balance import Balance

HORIZON = 5000
"""How many releases ahead a forecast looks."""


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
    """The number of future releases that still fit, and the first that does not.

    `last` is None if none fits, `refused` if all within the horizon do. `renews` is the first day
    of the budget's next period; None for a lifetime.
    """

    fit: int
    last: Due | None
    refused: Due | None
    renews: date | None

    def describe(self) -> str:
        """Return the forecast as one or two sentences."""
        renewal = "" if self.renews is None else f" The budget renews on {self.renews} (UTC)."
        if self.refused is None:
            if self.last is None:
                return "No partition is left to release."
            return f"All partitions in sight fit, up to {self.last.partition}."
        end = f"{self.refused} does not fit any more.{renewal}"
        if self.last is None:
            return end
        return (
            f"At this price {self.fit} more {'fits' if self.fit == 1 else 'fit'}, up to"
            f" {self.last.partition}; {end}"
        )


def forecast(balance: Balance, units: int, due: Iterable[Due], *, now: datetime) -> Forecast:
    """Return how long a budget lasts if one release after another takes its price.

    `units` is the price of each, in 1e-15 rho. `due` are the future releases in their order;
    overdue ones count as made now. Other releases of the dataset are not foreseen.
    """
    policy = balance.policy
    present = policy.period_of(now.isoformat())
    left = {present: balance.remaining_units_in(ANOTHER)}
    fit, last = 0, None
    for one in due:
        at = max(one.at or now, now)
        period = policy.period_of(at.isoformat())
        room = left.setdefault(period, balance.granted_units)
        if units > room:
            return Forecast(fit, last, one, policy.renews_after(at))
        if policy.partitions == "add":
            left[period] = room - units
        fit, last = fit + 1, one
        if fit == HORIZON:
            break
    return Forecast(fit, last, None, policy.renews_after(now))
