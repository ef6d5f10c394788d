"""Units of the calendar, and what every clock shares: how values are counted in units."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from jam_dagster.errors import DomainError
from jam_dagster.tables.domain.values import text_of

if TYPE_CHECKING:
    import pandas as pd

    from jam_dagster.tables.domain.values import Numbers

Unit = Literal["year", "quarter", "month", "week", "day", "hour", "minute", "second"]
UNITS: tuple[Unit, ...] = get_args(Unit)
LONGER_THAN_DAYS: tuple[Unit, ...] = UNITS[: UNITS.index("day")]

DATE, TIME, DURATION = "date32[day][pyarrow]", "time64[us][pyarrow]", "timedelta64[us]"

SECONDS = {"week": 604800, "day": 86400, "hour": 3600, "minute": 60, "second": 1}
MONTHS = {"year": 12, "quarter": 3, "month": 1}
EPOCH = datetime(1970, 1, 1)
_MONDAY = datetime(1969, 12, 29)

_WHOLE_DTYPES = ("int64", "Int64", "int32", "Int32")
_LONGEST_FORMAT = 100


Kind = Literal["instant", "time", "duration"]


@dataclass(frozen=True)
class Clock(ABC):
    """Counts values in units, and gives them back; `clock_of` makes the one of a dtype and format.

    Units of instants are counted since 1970, days and longer ones in the zone; those of times of
    day since midnight; a duration is as many units.
    """

    name: str
    unit: Unit
    zone: str | None
    format: str | None
    dtype: str

    kind: ClassVar[Kind]

    def __post_init__(self) -> None:
        what = f"attribute {self.name!r}"
        if self.is_text and not self.format:
            raise DomainError(f"{what}: dtype {self.dtype!r} needs a format, such as '%Y-%m-%d'")
        if self.zone and self.kind != "instant":
            raise DomainError(f"{what}: a zone is for timestamps: remove it")
        self._check(what)

    @abstractmethod
    def _check(self, what: str) -> None:
        """Raise DomainError if unit, zone, format and dtype do not fit."""

    @property
    def is_text(self) -> bool:
        """Whether values decode to what a format writes."""
        return is_text(self.dtype, self.format)

    @property
    def is_whole(self) -> bool:
        """Whether what the format writes is an integer, such as 20130701."""
        return is_whole(self.dtype, self.format)

    @property
    def counts_in_utc(self) -> bool:
        """Whether units of a zone are counted in UTC: hours follow each other whatever it does."""
        return SECONDS.get(self.unit, SECONDS["day"]) < SECONDS["day"]

    @property
    def seconds(self) -> int:
        """Seconds in a unit of a day or less."""
        return SECONDS[self.unit]

    @property
    def texts_are_utc(self) -> bool:
        """Whether values without a zone are in UTC, not in the zone of the counts."""
        return (self.format or "").endswith("Z")

    def count_of(self, value: object) -> float:
        """Return the number of the unit that a value is in, NaN if it is not one.

        Texts are read by the format, else by ISO 8601. A value without a zone is in `zone`, or in
        UTC if the format ends in Z.
        """
        try:
            if isinstance(value, Real | Decimal):  # Such as 20130701, for a format without marks.
                value = text_of(value)
            return float(self._count(value))
        except Exception:  # A cell of an object column may be anything.
            return float("nan")

    @abstractmethod
    def _count(self, value: Any) -> int:
        """Return the number of the unit that a value is in, or raise any exception."""

    def counts_of(self, column: pd.Series[Any]) -> Numbers | None:
        """Return `count_of` cells that are read at once, NaN for others; None if there are none."""
        return None

    def values_of(self, counts: Iterable[float]) -> list[Any]:
        """Return the first value of each unit, as the dtype has it."""
        return [self._value(count) for count in counts]

    @abstractmethod
    def _value(self, count: float) -> Any: ...

    @abstractmethod
    def number(self, what: str, key: str, written: object, *, end: bool = False) -> float:
        """Return the unit that a bound in a domain file names, its last one if it is the end."""

    @abstractmethod
    def written(self, count: float) -> Any:
        """Return a unit as a domain file has it, the inverse of `number`."""

    @abstractmethod
    def moment(self, count: float) -> datetime:
        """Return when a unit begins, in the zone."""

    @abstractmethod
    def count_at(self, moment: datetime) -> int:
        """Return the number of the unit that a moment is in."""

    def first_of(self, every: Unit, count: int) -> int:
        """Return the first unit of a longer unit, which is counted as those of the zone are."""
        start = self._in_counts(start_of(count, every))
        first = count_in(start, self.unit)
        # If the zone's offset is not a multiple of the unit, one may extend across.
        return first if start_of(first, self.unit) == start else first + 1

    def _in_counts(self, start: datetime) -> datetime:
        """Return a moment in the zone as it is where units are counted."""
        return start

    def count_of_longer(self, every: Unit, count: float) -> int:
        """Return the number of the longer unit that a unit is in."""
        return count_in(self.moment(count).replace(tzinfo=None), every)

    def time_of_day(self, count: float) -> int:
        """Return how many units after midnight a unit begins, by the clocks of the zone."""
        at = self.moment(count)
        return (at.hour * 3600 + at.minute * 60 + at.second) // self.seconds

    def nests_in(self, every: object) -> bool:
        """Return whether each unit is in one of the longer units."""
        if every in SECONDS and self.unit in SECONDS:
            return SECONDS[str(every)] % SECONDS[self.unit] == 0
        if every in MONTHS and self.unit in MONTHS:
            return MONTHS[str(every)] % MONTHS[self.unit] == 0
        return every in MONTHS and self.unit != "week"

    def check_format(self, what: str, start: int) -> None:
        """Raise unless the text in the format of a unit can be read again."""
        written = str(self.format)
        if len(written) > _LONGEST_FORMAT or not written.isprintable():
            raise DomainError(
                f"{what}: a format has at most {_LONGEST_FORMAT} characters, all of them printed"
            )
        text = str(self._value(start))
        count = self.count_of(text)
        if count != count or str(self._value(count)) != text:
            raise DomainError(
                f"{what}: format {written!r} writes {text!r}, which it does not read: use each part"
                " once, such as '%Y-%m-%d'"
            )


def is_text(dtype: str, form: str | None) -> bool:
    """Return whether values of a dtype are what a format writes."""
    return dtype in ("str", "string", "object", "category") or is_whole(dtype, form)


def is_whole(dtype: str, form: str | None) -> bool:
    """Return whether values of a dtype are integers that a format writes."""
    return dtype in _WHOLE_DTYPES and bool(form)


def count_in(naive: datetime, unit: str) -> int:
    """Return the number since 1970 of the unit that a moment is in."""
    if unit in MONTHS:
        return ((naive.year - 1970) * 12 + naive.month - 1) // MONTHS[unit]
    return (naive - origin_of(unit)) // timedelta(seconds=SECONDS[unit])


def start_of(count: int, unit: str) -> datetime:
    """Return when a unit begins, by its number since 1970."""
    if unit in MONTHS:
        months = count * MONTHS[unit]
        return datetime(1970 + months // 12, months % 12 + 1, 1)
    return origin_of(unit) + count * timedelta(seconds=SECONDS[unit])


def origin_of(unit: str) -> datetime:
    """Return when the first unit begins: weeks begin on Mondays."""
    return _MONDAY if unit == "week" else EPOCH
