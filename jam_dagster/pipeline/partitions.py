"""Partitions and schedules of a release, as Dagster has them."""

import itertools
import re
from typing import TYPE_CHECKING, Any

import dagster as dg

from jam_dagster.errors import SpecificationError
from jam_dagster.release.partitions import PartitionsSpec

if TYPE_CHECKING:
    from jam_dagster.pipeline.dagster_internals import (
        UnresolvedAssetJobDefinition,
        UnresolvedPartitionedAssetScheduleDefinition,
    )

_MONDAY = 1


def partitions_definition(partitions: PartitionsSpec) -> dg.PartitionsDefinition[str]:
    """Return Dagster's partitions: months by names such as 2026-01, others by days."""
    if partitions.every is None:
        return dg.StaticPartitionsDefinition(list(partitions.static))
    if partitions.every == "daily":
        return dg.DailyPartitionsDefinition(start_date=partitions.begin)
    if partitions.every == "weekly":
        return dg.WeeklyPartitionsDefinition(start_date=partitions.begin, day_offset=_MONDAY)
    return dg.MonthlyPartitionsDefinition(start_date=partitions.begin, fmt="%Y-%m")


def mapping_to_before(partitions: PartitionsSpec) -> dg.PartitionMapping:
    """Return how a partition depends on the one before it."""
    if partitions.every is not None:
        return dg.TimeWindowPartitionMapping(
            start_offset=-1, end_offset=-1, allow_nonexistent_upstream_partitions=True
        )
    return dg.StaticPartitionMapping(dict(itertools.pairwise(partitions.static)))


# Schedules that are due once a partition, with the parts by the names that Dagster has for them.
_TIME = r"(?P<minute_of_hour>[0-5]?\d) (?P<hour_of_day>[01]?\d|2[0-3])"
_CRON = {
    "daily": rf"{_TIME} \* \* \*",
    "weekly": rf"{_TIME} \* \* (?P<day_of_week>[0-6])",
    "monthly": rf"{_TIME} (?P<day_of_month>0?[1-9]|1\d|2[0-8]) \* \*",
}
_EXAMPLE = {"daily": "0 6 * * *", "weekly": "0 6 * * 1", "monthly": "0 6 3 * *"}
# The schedule of the same name as the partitions: the moment at which one is over.
_START = {"daily": "0 0 * * *", "weekly": "0 0 * * 1", "monthly": "0 0 1 * *"}


def tick_of(partitions: PartitionsSpec | None, schedule: str) -> str:
    """Return the cron expression of a schedule, in UTC."""
    if partitions is None:
        raise SpecificationError(
            "schedule is for a release that has partitions: without them each run would make the"
            " same release again, for nothing, from the stored draws. Set partitions and start, or"
            " schedule the job yourself."
        )
    if partitions.every is None:
        raise SpecificationError(
            "schedule is for daily, weekly or monthly partitions: static ones do not come with"
            " time. Launch a backfill for them."
        )
    tick = _START[partitions.every] if schedule == partitions.every else str(schedule)
    if re.fullmatch(_CRON[partitions.every], tick) is None:
        raise SpecificationError(
            f"schedule of {partitions.every} partitions must be {partitions.every}, or a cron"
            f" expression that is due once for each of them, such as"
            f" {_EXAMPLE[partitions.every]!r}; got {schedule!r}."
        )
    return tick


def build_release_schedule(
    job: "UnresolvedAssetJobDefinition", partitions: PartitionsSpec | None, schedule: str
) -> "UnresolvedPartitionedAssetScheduleDefinition | dg.ScheduleDefinition":
    """Build the schedule that releases each partition when its time is over; it is stopped.

    Parameters
    ----------
    job
        The release's job.
    partitions
        Its partitions.
    schedule
        How often, which is how often there is a partition: ``monthly`` with monthly ones; or a
        cron expression in UTC that says how long after the end of each, such as ``0 6 3 * *``.

    Raises
    ------
    SpecificationError
        If there are no partitions in time, or the schedule has another rhythm than they have.
    """
    tick = tick_of(partitions, schedule)
    # The name fits one of the patterns, that of the partitions.
    found = next(one for pattern in _CRON.values() if (one := re.fullmatch(pattern, tick)))
    options: dict[str, Any] = {name: int(value) for name, value in found.groupdict().items()}
    return dg.build_schedule_from_partitioned_job(
        job,
        description="Releases each partition when its time is over. Every tick of a partition that"
        " was not released before spends: it is stopped until somebody starts it.",
        default_status=dg.DefaultScheduleStatus.STOPPED,
        **options,
    )
