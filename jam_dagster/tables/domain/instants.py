"""Dates and timestamps counted in units of the calendar."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

from jam_dagster.common.deferred import pd
from jam_dagster.errors import DomainError, SpecificationError
from jam_dagster.tables.domain.moment_texts import moment_in, plain_moments, text_at
from jam_dagster.tables.domain.units import (
    DATE,
    DURATION,
    MONTHS,
    SECONDS,
    TIME,
    Clock,
    Kind,
    Unit,
    count_in,
    origin_of,
    start_of,
)
from jam_dagster.tables.domain.values import Numbers

DTYPES = re.compile(r"datetime64\[(s|ms|us|ns)(, .+)?\]|date32\[day\]\[pyarrow\]")

_LAST = datetime(9999, 12, 31, 23, 59, 59)
# Days from 1970 between which no zone leaves Python's calendar.
_FIRST_DAY, _LAST_DAY = (
    (day - date(1970, 1, 1)).days for day in (date(1, 1, 3), date(9999, 12, 29))
)
# A bound names a year, or a month, a day, an hour, a minute or a second of it.
_BOUND = re.compile(
    r"(\d{4}(?:-\d\d(?:-\d\d(?:[ T]\d\d(?::\d\d(?::\d\d)?)?)?)?)?)(Z|[+-]\d\d:\d\d)?", re.ASCII
)
_WRITTEN = {"year": 4, "quarter": 7, "month": 7, "week": 10, "day": 10, "second": 19}
_PRECISION: dict[int, Unit] = {
    4: "year",
    7: "month",
    10: "day",
    13: "hour",
    16: "minute",
    19: "second",
}

# How plain texts without a format are written, in ISO 8601.
_ISO = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d", "%Y-%m-%dT%H:%M:%S")
# Fewer texts are read one by one as quickly.
_FEW_TEXTS = 500
_SAMPLE = datetime(2021, 3, 14, 15, 9, 26)


@dataclass(frozen=True)
class InstantClock(Clock):
    """Counts the units since 1970 that dates and timestamps are in, days and longer in the zone."""

    kind: ClassVar[Kind] = "instant"

    def _check(self, what: str) -> None:
        if self.is_whole and not re.fullmatch(r"(?:%[YmdHMS])+", str(self.format)):
            raise DomainError(f"{what}: dtype {self.dtype!r} needs a format such as %Y%m%d")
        if not self.zone and "," in self.dtype:
            raise DomainError(
                f"{what}: dtype {self.dtype!r} has a zone: declare `zone`, such as UTC"
            )
        offset = "," in self.dtype or (self.format or "").endswith(("Z", "%z", "%:z"))
        if self.zone and self.counts_in_utc and not offset:
            raise DomainError(
                f"{what} has a zone, and values without one: use dtype datetime64[us, {self.zone}]"
                " or a format that ends in %:z, or remove the zone"
            )
        if self.is_text:
            self.check_format(what, self.count_at(_SAMPLE))

    @cached_property
    def _zone(self) -> ZoneInfo | None:
        return ZoneInfo(self.zone) if self.zone else None

    @property
    def _counted_in(self) -> Any:
        return UTC if self.counts_in_utc else self._zone

    def counts_of(self, column: pd.Series[Any]) -> Numbers | None:
        ticks = self._ticks_in(column) if is_texts(column) else self._ticks_of(column)
        if ticks is None:
            return None
        if self.unit in MONTHS:
            counts = ticks.astype("datetime64[M]").astype(np.int64) // MONTHS[self.unit]
        else:
            precision = np.datetime_data(ticks.dtype)[0]
            origin = np.datetime64(origin_of(self.unit), "s").astype(f"M8[{precision}]")
            length = np.timedelta64(SECONDS[self.unit], "s").astype(f"m8[{precision}]")
            since = ticks.astype(np.int64) - origin.astype(np.int64)
            counts = since // length.astype(np.int64)
        return np.where(np.isnat(ticks), np.nan, counts)

    def _ticks_in(self, column: pd.Series[Any]) -> npt.NDArray[np.datetime64] | None:
        """Return the moments of plain texts, NaT for others; None if there are few, or none."""
        if not self._is_plain(aware=False):
            return None
        indices, distinct = pd.factorize(column)
        if len(distinct) < _FEW_TEXTS:
            return None
        moments = np.full(len(distinct) + 1, np.datetime64("NaT"), "datetime64[s]")
        for one in [self.format] if self.format else _ISO:
            read = plain_moments(distinct, one, fractions=not self.format and "S" in one)
            if read is None:
                return None
            moments[:-1] = np.where(np.isnat(moments[:-1]), read, moments[:-1])
        return moments[indices]

    def _is_plain(self, *, aware: bool) -> bool:
        """Return whether no rule of a zone decides the unit of a timestamp."""
        if self._zone is None:
            return True
        return self.counts_in_utc and (aware or self.texts_are_utc)

    def _ticks_of(self, column: pd.Series[Any]) -> npt.NDArray[np.datetime64] | None:
        """Return timestamps in UTC, or of no zone, as NumPy has them.

        The result is None if a column is of another type, units are those of a zone, or a timestamp
        is where the calendar ends.
        """
        aware = isinstance(column.dtype, pd.DatetimeTZDtype)
        if not aware and not (isinstance(column.dtype, np.dtype) and column.dtype.kind == "M"):
            return None
        if not self._is_plain(aware=aware):
            return None
        ticks: npt.NDArray[Any] = (column.dt.tz_convert(None) if aware else column).to_numpy()
        days = ticks[~np.isnat(ticks)].astype("datetime64[D]").astype(np.int64)
        inside = len(days) == 0 or (days.min() >= _FIRST_DAY and days.max() <= _LAST_DAY)
        return ticks if inside else None

    def _count(self, value: Any) -> int:
        if isinstance(value, str):
            value = self._parsed(value.strip())
        elif isinstance(value, np.datetime64):
            value = pd.Timestamp(value)
        if isinstance(value, pd.Timestamp):
            value = value.to_pydatetime(warn=False)
        if not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day)
        return self.count_at(value)

    def _parsed(self, text: str) -> datetime:
        if self.format:
            with suppress(ValueError, re.error):
                return moment_in(text, self.format)
        return datetime.fromisoformat(text if text[4:5] == "-" else "")

    def count_at(self, moment: datetime) -> int:
        """Return the number of the unit that a moment is in."""
        if self._zone and moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC if self.texts_are_utc else self._zone)
        if moment.tzinfo is not None:
            try:
                moment = moment.astimezone(self._counted_in if self._zone else UTC)
            except OverflowError:
                # On the first or last day of the calendar, of which the zone has no further one.
                moment = datetime.max if moment.year > 1 else datetime.min
        return count_in(moment.replace(tzinfo=None), self.unit)

    def moment(self, count: float) -> datetime:
        """Return when a unit begins, in the zone."""
        start = start_of(math.floor(count), self.unit)
        if self._zone is None:
            return start
        return start.replace(tzinfo=self._counted_in).astimezone(self._zone)

    def _in_counts(self, start: datetime) -> datetime:
        if self._zone is None:
            return start
        return start.replace(tzinfo=self._zone).astimezone(self._counted_in).replace(tzinfo=None)

    def _value(self, count: float) -> Any:
        moment = self.moment(count)
        if self.is_text:
            written = str(self.format)
            if written.endswith("Z") and moment.tzinfo:
                moment = moment.astimezone(UTC)
            text = text_at(moment, written)
            return int(text) if self.is_whole else text
        if self.dtype == DATE:
            return moment.date()
        return moment if "," in self.dtype else moment.replace(tzinfo=None)

    def number(self, what: str, key: str, written: object, *, end: bool = False) -> float:
        given = written.isoformat() if isinstance(written, date | time) else written
        with suppress(ValueError, OverflowError):
            if _BOUND.fullmatch(str(given)):
                return self._bound(str(given), end)
        raise bound_fault(what, key, given, "2013-07-01 or 2013-07-01 08:00")

    def _bound(self, text: str, end: bool) -> float:
        found = _BOUND.fullmatch(text)
        written, offset = found.groups() if found else (text, None)
        moment = datetime.fromisoformat(written + "0001-01-01 00:00:00"[len(written) :])
        if end:
            precision = _PRECISION[len(written)]
            after = _LAST
            with suppress(ValueError, OverflowError):  # After the last year that there is.
                after = start_of(count_in(moment, precision) + 1, precision) - timedelta(seconds=1)
            moment = after
        if offset:
            moment = datetime.fromisoformat(f"{moment.isoformat()}{offset}")
        elif self._zone:
            moment = moment.replace(tzinfo=self._zone)
        return self.count_at(moment)

    def written(self, count: float) -> Any:
        moment = self.moment(count)
        text = moment.replace(tzinfo=None).isoformat(" ")
        # A zone may have had seconds before 1900.
        end = 19 if moment.second and self.counts_in_utc else _WRITTEN.get(self.unit, 16)
        # The second of two hours of the same name.
        offset = moment.strftime("%z") if end > 10 and moment.fold else ""
        return text[:end] + (offset and f"{offset[:3]}:{offset[3:]}")


def is_texts(column: pd.Series[Any]) -> bool:
    """Return whether all cells of a column are texts."""
    return isinstance(column.dtype, pd.StringDtype)


def bound_fault(what: str, key: str, written: object, example: str) -> SpecificationError:
    """Return the error of a bound that names no unit."""
    return SpecificationError(
        f"{what}: {key} must be written as {example}, got {written!r} (durations have dtype"
        f" {DURATION}, times of day {TIME})"
    )
