"""Forecast of how long a budget lasts for a series of releases at the same price."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from jam_dagster.privacy.ledger.policy import ANOTHER

if TYPE_CHECKING:
    from jam_dagster.privacy.ledger.balance import Balance

HORIZON = 5000
"""Releases ahead that a forecast looks at."""


def renewal_after(balance: Balance, at: datetime) -> str:
    """Return when a budget renews after a moment, as a sentence."""
    renews = balance.policy.renews_after(at)
    if not renews:
        return "The budget does not renew."
    shared = balance.population
    kept = f"; that of population {shared.name!r} does not" if shared is not None else ""
    return f"The budget renews on {renews} (UTC){kept}."


def forecast(
    balance: Balance, units: int, due: Iterable[tuple[str, datetime | None]], *, now: datetime
) -> tuple[int | None, str]:
    """Return how many releases fit before the first that does not, and both in words.

    `units` is the price of each, in 1e-15 rho. `due` are the future partitions in their order, each
    with the moment in whose period its reservation counts; None: at any time. Overdue ones count as
    made now. Other releases of the dataset, and of its population, are not foreseen. The number is
    None if all within the horizon fit.
    """
    policy = balance.policy
    left = {policy.period_of(now.isoformat()): balance.own_remaining_units_in(ANOTHER)}
    shared = sys.maxsize
    if balance.population is not None:
        shared = balance.population.remaining_units_in(balance.dataset, policy, ANOTHER)
    for fit, (partition, when) in enumerate(due):
        if fit == HORIZON:
            break
        at = max(when or now, now)
        period = policy.period_of(at.isoformat())
        room = left.setdefault(period, balance.granted_units)
        if units > min(room, shared):
            dated = f", which is due on {when.date()}," if when else ""
            return fit, (
                f"At this price {fit} more {'fits' if fit == 1 else 'fit'}: {partition}{dated}"
                f" does not fit. {renewal_after(balance, at)}"
            )
        if policy.partitions == "add":
            left[period] = room - units
            shared -= units
    return None, "All partitions in sight fit."
