"""Releases of one snapshot after another: their partitions, schedule, and what a backfill costs."""

import itertools
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import dagster as dg

from jam_dagster.errors import SpecificationError
from jam_dagster.privacy import Budget, epsilon_from_rho
from jam_dagster.privacy.ledger.forecast import Due
from jam_dagster.tables import check_partition

if TYPE_CHECKING:
    from jam_dagster.pipeline.dagster_internals import (
        UnresolvedAssetJobDefinition,
        UnresolvedPartitionedAssetScheduleDefinition,
    )

Cadence = Literal["daily", "weekly", "monthly"]

_A_YEAR = {"daily": 365, "weekly": 52, "monthly": 12}
_MONDAY = 1


@dataclass(frozen=True)
class PartitionsSpec:
    """The partitions of a release: each reads a snapshot of its own and pays a price of its own.

    Parameters
    ----------
    every
        A partition for each day, for each week from Monday, or for each calendar month, in UTC.
        It is there when its time is over. None: the partitions are `static`.
    start
        The day from which on: the first partition that begins then or later. With `every` only.
    static
        The names of the partitions, where time has no part in them.

    Raises
    ------
    SpecificationError
        If there are neither or both, the start is missing or no date, or a name cannot be one.
    """

    every: Cadence | None = None
    start: str | None = None
    static: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.every is not None:
            if self.every not in get_args(Cadence):
                raise SpecificationError(
                    f"partitions must be {', '.join(get_args(Cadence))} or {{static: [names]}},"
                    f" got {self.every!r}."
                )
            _ = self._begin
        elif self.start is not None:
            raise SpecificationError(
                f"start is for partitions that are {', '.join(get_args(Cadence))}."
            )
        elif not self.static or len({*map(check_partition, self.static)}) < len(self.static):
            raise SpecificationError(
                f"partitions.static must name at least one partition, and each once, got"
                f" {list(self.static)!r}."
            )

    @classmethod
    def of(cls, partitions: object, start: object = None) -> "PartitionsSpec | None":
        """Return what ``partitions`` and ``start`` of a release say, None for no partitions."""
        if partitions is None:
            if start is not None:
                raise SpecificationError(
                    "start is for a release that has partitions: set partitions, or drop start."
                )
            return None
        if isinstance(partitions, cls):
            return partitions
        begin = None if start is None else str(start)
        if isinstance(partitions, Mapping):
            names = partitions.get("static")
            if set(partitions) != {"static"} or not isinstance(names, list | tuple):
                raise SpecificationError(
                    f"partitions must be {', '.join(get_args(Cadence))} or {{static: [names]}},"
                    f" got {dict(partitions)!r}."
                )
            return cls(start=begin, static=tuple(names))
        return cls(every=cast(Cadence, partitions), start=begin)

    @property
    def _begin(self) -> datetime:
        text = self.start or ""
        if self.every == "monthly" and re.fullmatch(r"\d{4}-\d{2}", text):
            text += "-01"
        try:
            day = date.fromisoformat(text)
        except ValueError:
            raise SpecificationError(
                f"partitions that are {self.every} need a start, a day such as 2026-01-01; got"
                f" {self.start!r}."
            ) from None
        return datetime(day.year, day.month, day.day, tzinfo=UTC)

    @property
    def definition(self) -> dg.PartitionsDefinition[str]:
        """The partitions as Dagster has them: months by names such as 2026-01, others by days."""
        if self.every is None:
            return dg.StaticPartitionsDefinition(list(self.static))
        if self.every == "daily":
            return dg.DailyPartitionsDefinition(start_date=self._begin)
        if self.every == "weekly":
            return dg.WeeklyPartitionsDefinition(start_date=self._begin, day_offset=_MONDAY)
        return dg.MonthlyPartitionsDefinition(start_date=self._begin, fmt="%Y-%m")

    def holds(self, name: str) -> bool:
        """Whether there is such a partition, or will be."""
        if self.every is None:
            return name in self.static
        try:
            begin = self._moment(name)
        except ValueError:
            return False
        weekly = self.every == "weekly"
        return begin >= self._first and not (weekly and begin.weekday() != 0)

    def before(self, partition: str) -> str | None:
        """Return the partition before another one, None for the first."""
        definition = self.definition
        if not isinstance(definition, dg.TimeWindowPartitionsDefinition):
            place = self.static.index(partition)
            return self.static[place - 1] if place else None
        start = definition.start_time_for_partition_key(partition)
        window = definition.get_prev_partition_window(start)
        if window is None:
            return None
        return str(definition.get_partition_key_for_timestamp(window.start.timestamp()))

    def up_to(self, partition: str, most: int) -> list[str]:
        """Return a partition and those before it, the last `most` of them, in their order."""
        names: list[str] = []
        one: str | None = partition
        while one is not None and len(names) < most:
            names.append(one)
            one = self.before(one)
        return names[::-1]

    @property
    def mapping_to_before(self) -> dg.PartitionMapping:
        """How a partition depends on the one before it, as Dagster has it."""
        if self.every is not None:
            return dg.TimeWindowPartitionMapping(
                start_offset=-1, end_offset=-1, allow_nonexistent_upstream_partitions=True
            )
        return dg.StaticPartitionMapping(dict(itertools.pairwise(self.static)))

    def following(self, done: Collection[str]) -> Iterator[Due]:
        """Yield the partitions to come, in their order, without end where they come with time.

        Parameters
        ----------
        done
            Those that were released. In time, what comes is after the last of them; of static
            partitions all others.
        """
        if self.every is None:
            yield from (Due(name) for name in self.static if name not in done)
            return
        # As text they are in the order of time.
        begin = self._moment(max(done)) if done else self._first
        if done:
            begin = self._next(begin)
        while True:
            end = self._next(begin)
            yield Due(begin.strftime("%Y-%m" if self.every == "monthly" else "%Y-%m-%d"), end)
            begin = end

    @property
    def _first(self) -> datetime:
        begin = self._begin
        if self.every == "monthly" and begin.day > 1:
            return self._next(begin.replace(day=1))
        return begin + timedelta(days=-begin.weekday() % 7) if self.every == "weekly" else begin

    def _next(self, begin: datetime) -> datetime:
        if self.every == "monthly":
            return datetime(begin.year + begin.month // 12, begin.month % 12 + 1, 1, tzinfo=UTC)
        return begin + timedelta(days=7 if self.every == "weekly" else 1)

    def _moment(self, name: str) -> datetime:
        day = date.fromisoformat(f"{name}-01" if self.every == "monthly" else name)
        return datetime(day.year, day.month, day.day, tzinfo=UTC)

    def cost(self, budget: Budget) -> str:
        """Return in words what a backfill reserves, for people to read before they launch it."""
        count = len(self.static) if self.every is None else _A_YEAR[self.every]
        which = (
            f"All {count} partitions together cost"
            if self.every is None
            else f"A year of {self.every} partitions ({count}) costs"
        )
        together = epsilon_from_rho(count * budget.rho, budget.delta)
        return (
            f"Each partition reserves rho {budget.rho:.6g} (epsilon {budget.epsilon:g} at delta"
            f" {budget.delta:g}), a backfill as much for each of its partitions that was not"
            f" released before. {which} up to rho {count * budget.rho:.6g}, which is epsilon"
            f" {together:.4g}, unless the dataset's budget says that partitions"
            f" are disjoint. How many still fit stands in the metadata of privacy_budget."
        )


# What is due once a partition, with the parts by the names that Dagster has for them.
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
    """Return the cron expression of a schedule, in UTC.

    Parameters
    ----------
    partitions
        The release's partitions.
    schedule
        See `build_release_schedule`.

    Raises
    ------
    SpecificationError
        If there are no partitions in time, or the schedule has another rhythm than they have.
    """
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
    # It fits one of the patterns, that of the partitions.
    found = next(one for pattern in _CRON.values() if (one := re.fullmatch(pattern, tick)))
    options: dict[str, Any] = {name: int(value) for name, value in found.groupdict().items()}
    return dg.build_schedule_from_partitioned_job(
        job,
        description="Releases each partition when its time is over. Every tick of a partition that"
        " was not released before spends: it is stopped until somebody starts it.",
        default_status=dg.DefaultScheduleStatus.STOPPED,
        **options,
    )
