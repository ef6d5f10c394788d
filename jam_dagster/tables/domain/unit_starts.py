"""When the units of a clock begin, as values of a database's column."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, time, timedelta

from jam_dagster.tables.domain.attributes import Kind
from jam_dagster.tables.domain.clock import Clock


class UnitStarts:
    """When units begin, as values of a column of timestamps or times of day.

    `range` has the first and the last value that Python reads.
    """

    def __init__(self, clock: Clock, kind: Kind) -> None:
        self._clock, self._of_day = clock, kind == "time"
        self._zone = UTC if kind == "instant" else None
        first, last = (one.replace(tzinfo=self._zone) for one in (datetime.min, datetime.max))
        self._first, self._last = first, last
        self.range = (time.min, time.max) if self._of_day else (first, last)

    def start(self, count: int) -> datetime | time | int:
        """Return the first value of a unit; -1 if all are later, 1 if all are earlier."""
        if not self._of_day:
            return self._instant(count)
        with suppress(OverflowError, ValueError):
            moment = self._clock.moment(count)
            if count > 0 and moment.date() == self._clock.moment(0).date():
                return moment.time()
        return 1 if count > 0 else -1

    def _instant(self, count: int) -> datetime | int:
        try:
            moment = self._clock.moment(count)
            if moment.tzinfo is not None and (self._zone or self._clock.texts_are_utc):
                moment = moment.astimezone(UTC)
            moment = moment.replace(tzinfo=self._zone)
        except (OverflowError, ValueError):
            return 1 if count > 0 else -1
        return -1 if moment < self._first else 1 if moment > self._last else moment

    def steps(self, count: int) -> bool:
        """Return whether all values from the first on, and none before, are in the unit or later.

        The two days around are looked at: in a zone a clock may go back.
        """
        if self._clock.zone is None or isinstance(start := self._instant(count), int):
            return True
        ages = [timedelta(minutes=15 * quarter) for quarter in range(96)]
        around = [start + age for age in ages if age <= self._last - start]
        ages.append(timedelta(microseconds=1))
        around += [start - age for age in ages if age <= start - self._first]
        return all(
            (self._clock.count_at(moment) >= count) == (moment >= start) for moment in around
        )
