"""Durations counted in units."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Any

from jam_dagster.common.validation import as_number
from jam_dagster.errors import DomainError
from jam_dagster.tables.domain.units import EPOCH, SECONDS, Clock

DURATION_FORMATS = ("h:mm:ss", "hh:mm:ss", "h:mm", "hh:mm", "d days hh:mm:ss", "ISO 8601", "1h 20m")
"""How texts write durations."""

DTYPES = re.compile(r"timedelta64\[(s|ms|us|ns)\]")

# A duration as Python, pandas and databases write it.
_LENGTH = re.compile(r"(?:(-?\d+) days?,?)? ?\+?(?:(\d+):(\d\d)(?::(\d\d)(?:\.\d+)?)?)?", re.ASCII)
_ISO_LENGTH = re.compile(
    r"P(?=.*\d)(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.ASCII
)
_SPELLED_LENGTH = re.compile(r"(?=\d)(?:(\d+)h)? ?(?:(\d+)m)? ?(?:(\d+)s)?", re.ASCII)


@dataclass(frozen=True)
class DurationClock(Clock):
    """Counts the units of a duration."""

    kind = "duration"

    def _check(self, what: str) -> None:
        if self.is_whole:
            raise DomainError(f"{what}: dtype {self.dtype!r} needs a format such as %Y%m%d")
        if self.unit not in SECONDS:
            raise DomainError(f"{what}: a duration is no number of {self.unit}s: use another unit")

    def _count(self, value: Any) -> int:
        if isinstance(value, str):
            value = _parsed(value.strip())
        if isinstance(value, time) and value.tzinfo is None:  # Its text is a length, too.
            value = datetime.combine(EPOCH, value) - EPOCH
        return int(value // timedelta(seconds=SECONDS[self.unit]))

    def _value(self, count: float) -> Any:
        length = math.floor(count) * timedelta(seconds=SECONDS[self.unit])
        return _written(length, str(self.format)) if self.is_text else length

    def number(self, what: str, key: str, written: object, *, end: bool = False) -> float:
        return as_number(what, key, written)

    def written(self, count: float) -> Any:
        return math.floor(count)

    def moment(self, count: float) -> datetime:
        raise TypeError("a duration has no moment")

    def count_at(self, moment: datetime) -> int:
        raise TypeError("a moment is no duration")


def _parsed(text: str) -> timedelta:
    sign = -1 if text[:1] == "-" and "day" not in text else 1
    length = text[1:] if sign < 0 else text
    if length and (found := _LENGTH.fullmatch(length)):
        days, *clock = (int(part or 0) for part in found.groups())
        return sign * timedelta(days, hours=clock[0], minutes=clock[1], seconds=clock[2])
    if spelled := _SPELLED_LENGTH.fullmatch(length):
        hours, minutes, rest = (int(part or 0) for part in spelled.groups())
        return sign * timedelta(hours=hours, minutes=minutes, seconds=rest)
    # A number alone has no unit.
    parts = _ISO_LENGTH.fullmatch(length).groups()  # type: ignore[union-attr]
    units = ("weeks", "days", "hours", "minutes", "seconds")
    given = (float(part or 0) for part in parts)
    return sign * timedelta(**dict(zip(units, given, strict=True)))


def _written(length: timedelta, written: str) -> str:
    sign = "-" if length < timedelta(0) else ""
    seconds = int(abs(length).total_seconds())
    if written == "ISO 8601":
        days, rest = divmod(seconds, 86400)
        date_part = f"{days}D" * bool(days)
        units = ((rest // 3600, "H"), (rest // 60 % 60, "M"), (rest % 60, "S"))
        clock = "".join(f"{number}{unit}" for number, unit in units if number)
        return f"{sign}P{date_part}{f'T{clock}' * bool(clock)}" if seconds else "PT0S"
    if written == "1h 20m":
        units = ((seconds // 3600, "h"), (seconds // 60 % 60, "m"), (seconds % 60, "s"))
        return sign + (" ".join(f"{number}{unit}" for number, unit in units if number) or "0m")
    if written.startswith("d"):
        days, rest = divmod(int(length.total_seconds()), 86400)
        return f"{days} days {rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    width = written.index(":")
    clock = f"{seconds // 3600:0{width}}:{seconds // 60 % 60:02}"
    return f"{sign}{clock}{f':{seconds % 60:02}' * written.endswith('ss')}"
