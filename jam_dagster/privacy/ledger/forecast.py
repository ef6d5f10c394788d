"""Forecast of how long a budget lasts for a series of releases at the same price."""

from __future__ import annotations

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
    return f"The budget renews on {renews} (UTC)." if renews else "The budget does not renew."


def forecast(
    balance: Balance, units: int, due: Iterable[tuple[str, datetime | None]], *, now: datetime
) -> tuple[int | None, str]:
    """Return how many releases fit before the first that does not, and both in words.

    `units` is the price of each, in 1e-15 rho. `due` are the future partitions in their order, each
    with the moment in whose period its reservation counts; None: at any time. Overdue ones count as
    made now. Other releases of the dataset are not foreseen. The number is None if all within the
    horizon fit.
    """
    policy = balance.policy
    left = {policy.period_of(now.isoformat()): balance.remaining_units_in(ANOTHER)}
    for fit, (partition, when) in enumerate(due):
        if fit == HORIZON:
            break
        at = max(when or now, now)
        period = policy.period_of(at.isoformat())
        room = left.setdefault(period, balance.granted_units)
        if units > room:
            dated = f", which is due on {when.date()}," if when else ""
            return fit, (
                f"At this price {fit} more {'fits' if fit == 1 else 'fit'}: {partition}{dated}"
                f" does not fit. {renewal_after(balance, at)}"
            )
        if not policy.parallel:
            left[period] = room - units
    return None, "All partitions in sight fit."
