"""When the units of a clock begin, as values of a database's column."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, time, timedelta

from jam_dagster.tables.domain.attributes import Kind
from jam_dagster.tables.domain.clock import Clock

# What Python reads.
_FIRST, _LAST = datetime.min, datetime.max


def unit_starts(clock: Clock, kind: Kind) -> Instants | Times:
    """Return when units begin in a column of a kind."""
    return Times(clock) if kind == "time" else Instants(clock, kind)


class Instants:
    """When units begin, as values of a column of timestamps."""

    def __init__(self, clock: Clock, kind: Kind) -> None:
        self._clock = clock
        self._zone = UTC if kind == "instant" else None
        self.range = (_FIRST.replace(tzinfo=self._zone), _LAST.replace(tzinfo=self._zone))

    def start(self, count: int) -> datetime | int:
        """Return the first value of a unit; -1 if all are later, 1 if all are earlier."""
        first, last = self.range
        try:
            moment = self._clock.moment(count)
            if moment.tzinfo is not None and (self._zone or self._clock.texts_are_utc):
                moment = moment.astimezone(UTC)
            moment = moment.replace(tzinfo=self._zone)
        except (OverflowError, ValueError):
            return 1 if count > 0 else -1
        return -1 if moment < first else 1 if moment > last else moment

    def steps(self, count: int) -> bool:
        """Return whether all values from the first on, and none before, lie in the unit or later.

        The two days around are looked at: in a zone a clock may go back.
        """
        start = self.start(count)
        if isinstance(start, int) or self._clock.zone is None:
            return True
        ages = [timedelta(minutes=15 * quarter) for quarter in range(96)]
        first, last = self.range
        around = [start + age for age in ages if age <= last - start]
        ages.append(timedelta(microseconds=1))
        around += [start - age for age in ages if age <= start - first]
        return all(
            (self._clock.count_at(moment) >= count) == (moment >= start) for moment in around
        )


class Times:
    """When units begin, as values of a column of times of day."""

    range = (time.min, time.max)

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def start(self, count: int) -> time | int:
        """Return the first value of a unit; -1 if all are later, 1 if all are earlier."""
        if count <= 0:
            return -1
        with suppress(OverflowError, ValueError):
            moment = self._clock.moment(count)
            if moment.date() == self._clock.moment(0).date():
                return moment.time()
        return 1

    def steps(self, count: int) -> bool:
        """Return True: a time of day has no zone."""
        return True
