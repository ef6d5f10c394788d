"""Times of day counted in hours, minutes or seconds since midnight."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any, ClassVar

from jam_dagster.common.deferred import pd
from jam_dagster.errors import DomainError
from jam_dagster.tables.domain.instants import InstantClock, bound_fault
from jam_dagster.tables.domain.moment_texts import moment_in, text_at
from jam_dagster.tables.domain.units import EPOCH, Kind, count_in

DTYPES = re.compile(r"time32\[(s|ms)\]\[pyarrow\]|time64\[(us|ns)\]\[pyarrow\]")

_TIME_BOUND = re.compile(r"\d\d(?::\d\d(?::\d\d)?)?", re.ASCII)


@dataclass(frozen=True)
class TimeOfDayClock(InstantClock):
    """Counts the units since midnight of times of day: those of instants on the first day."""

    kind: ClassVar[Kind] = "time"

    def _check(self, what: str) -> None:
        if self.is_whole and not re.fullmatch(r"(?:%[YmdHMS])+", str(self.format)):
            raise DomainError(f"{what}: dtype {self.dtype!r} needs a format such as %Y%m%d")
        if not self.counts_in_utc:
            fault = f"format {self.format!r} has no part of a date that is read, such as %Y, and "
            raise DomainError(
                f"{what}: {fault if self.is_text else ''}a time of day is counted in hours, minutes"
                " or seconds"
            )
        if self.is_text:
            self.check_format(what, 0)

    def counts_of(self, column: pd.Series[Any]) -> None:
        return None

    def _count(self, value: Any) -> int:
        if isinstance(value, str):
            value = self._time_in(value.strip())
        if type(value) is timedelta and value.days == 0:  # Times as MySQL gives them.
            value = (EPOCH + value).time()
        return count_in(datetime.combine(EPOCH, value.replace(tzinfo=None)), self.unit)

    def _time_in(self, text: str) -> time:
        if self.format:
            with suppress(ValueError, re.error):
                return moment_in(text, self.format).time()
        text = f"0{text}" if text[1:2] == ":" else text
        return time.fromisoformat(text if text[2:3] == ":" else "")

    def _value(self, count: float) -> Any:
        moment = self.moment(count)
        if not self.is_text:
            return moment.time()
        text = text_at(moment, str(self.format))
        return int(text) if self.is_whole else text

    def number(self, what: str, key: str, written: object, *, end: bool = False) -> float:
        given = written.isoformat() if isinstance(written, date | time) else written
        with suppress(ValueError, OverflowError):
            if _TIME_BOUND.fullmatch(str(given)):
                return self._bound(f"1970-01-01 {given}", end)
        raise bound_fault(what, key, given, "08:00")

    def written(self, count: float) -> Any:
        return super().written(count)[11:]
