"""Pools, freshness, and checks of what may start a step that spends."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

import dagster as dg

from jam_dagster.errors import SpecificationError
from jam_dagster.pipeline.assets.descriptions import CHILDREN
from jam_dagster.pipeline.budget.labels import CHARGES_TAG, RESERVES_TAG

if TYPE_CHECKING:
    from jam_dagster.release.partitions import PartitionsSpec

# Others wait for these assets: if they are late, the release is.
DUE = ("synthetic_records", CHILDREN, "release_certificate", "release_report")

_CRON_TICK = "cron_tick_passed"
_LAST_SAFE_DAY = 27


def pool_of(dataset: str) -> str:
    """Return the pool of the steps that spend from a protected dataset.

    If the instance limits it to one, releases of a dataset draw one after another. Pools are
    unlimited unless somebody limits them: what keeps a budget is the ledger's own lock.
    """
    return f"jam/{dataset}"


def freshness_of(partitions: PartitionsSpec | None, tick: str | None) -> dg.FreshnessPolicy | None:
    """Return when what a schedule makes is late: six hours after a daily tick, else a day."""
    if partitions is None or tick is None:
        return None
    return _deadline(partitions.every, tick)


# Dagster looks at hundreds of ticks of each deadline, and all assets of a release have the same.
@cache
def _deadline(every: str | None, tick: str) -> dg.FreshnessPolicy:
    minute, hour, day, _, weekday = tick.split()
    grace = timedelta(days=1)
    if every == "daily":
        grace = timedelta(hours=6)
        hour = str((int(hour) + 6) % 24)
    elif every == "weekly":
        weekday = str((int(weekday) + 1) % 7)
    elif int(day) <= _LAST_SAFE_DAY:
        day = str(int(day) + 1)
    else:
        # Not every month has the day after: what came since the 28th is in time on the first.
        day, grace = "1", timedelta(days=4)
    return dg.FreshnessPolicy.cron(
        deadline_cron=f"{minute} {hour} {day} * {weekday}", lower_bound_delta=grace
    )


def check_automation(specs: Iterable[dg.AssetSpec]) -> None:
    """Refuse an automation condition under which a step would spend without being asked.

    Spending may be started by a person, a schedule, or a condition that waits for the tick of
    a clock (``AutomationCondition.on_cron``). One that answers to what happens upstream, or to what
    is missing, as ``eager`` does, would spend whenever somebody else's asset changes.
    """
    for spec in specs:
        condition = spec.automation_condition
        if condition is None or not {CHARGES_TAG, RESERVES_TAG} & set(spec.tags):
            continue
        if not _waits_for_a_tick(condition):
            raise SpecificationError(
                f"Asset {spec.key.to_user_string()} spends privacy budget, and its automation"
                f" condition ({condition.get_label() or condition.name}) would launch it whenever"
                f" something upstream changes or is missing. Use the release's schedule, or"
                f" AutomationCondition.on_cron, or leave the condition out for this asset:"
                f" those that spend have tag {RESERVES_TAG} or {CHARGES_TAG}."
            )


def _waits_for_a_tick(condition: dg.AutomationCondition[Any]) -> bool:
    """Whether a condition cannot be true but after the tick of a clock, as far as its form shows.

    That a tick is somewhere in it is not enough: what is joined to it by "or" needs none, and
    what is negated, or only resets another condition, waits for none.
    """
    name = str(condition.name)
    if name.startswith(_CRON_TICK):
        return True
    waits = [_waits_for_a_tick(child) for child in condition.children]
    if name == "AND":
        return any(waits)
    if name == "OR":
        return bool(waits) and all(waits)
    # The first operand of SINCE triggers, the second resets.
    return name in ("SINCE", "NEWLY_TRUE") and waits[0]
