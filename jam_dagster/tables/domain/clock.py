"""Dates, timestamps, times of day and durations counted in units of the calendar."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import cached_property, lru_cache
from numbers import Real
from typing import Any, Literal, get_args
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

from jam_dagster.common.deferred import pd
from jam_dagster.common.validation import as_number
from jam_dagster.errors import DomainError, SpecificationError
from jam_dagster.tables.domain.values import Numbers, text_of

Unit = Literal["year", "quarter", "month", "week", "day", "hour", "minute", "second"]
UNITS: tuple[Unit, ...] = get_args(Unit)
LONGER_THAN_DAYS: tuple[Unit, ...] = UNITS[: UNITS.index("day")]

DATE, TIME, DURATION = "date32[day][pyarrow]", "time64[us][pyarrow]", "timedelta64[us]"

_SECONDS = {"week": 604800, "day": 86400, "hour": 3600, "minute": 60, "second": 1}
_MONTHS = {"year": 12, "quarter": 3, "month": 1}
_EPOCH = datetime(1970, 1, 1)
_LAST = datetime(9999, 12, 31, 23, 59, 59)
_MONDAY = datetime(1969, 12, 29)
# Days from 1970 between which no zone leaves Python's calendar.
_FIRST_DAY, _LAST_DAY = (
    (day - date(1970, 1, 1)).days for day in (date(1, 1, 3), date(9999, 12, 29))
)

_DTYPES = {
    "instant": re.compile(r"datetime64\[(s|ms|us|ns)(, .+)?\]|date32\[day\]\[pyarrow\]"),
    "time": re.compile(r"time32\[(s|ms)\]\[pyarrow\]|time64\[(us|ns)\]\[pyarrow\]"),
    "duration": re.compile(r"timedelta64\[(s|ms|us|ns)\]"),
}
DURATION_FORMATS = ("h:mm:ss", "hh:mm:ss", "h:mm", "hh:mm", "d days hh:mm:ss", "ISO 8601", "1h 20m")
"""How texts write durations."""

_WHOLE_DTYPES = ("int64", "Int64", "int32", "Int32")
_UNPADDED = re.compile(r"%-([dmHIMS])")
_DIRECTIVE = re.compile(r"(%-?[YymdHMS])")
# Like strptime's reading of two digits.
_CENTURY = 69
_DATE_PARTS = re.compile(r"%[aAwdbBmyYjUWcxGuV]")
# A bound names a year, or a month, a day, an hour, a minute or a second of it.
_BOUND = re.compile(
    r"(\d{4}(?:-\d\d(?:-\d\d(?:[ T]\d\d(?::\d\d(?::\d\d)?)?)?)?)?)(Z|[+-]\d\d:\d\d)?", re.ASCII
)
# A duration as Python, pandas and databases write it.
_LENGTH = re.compile(r"(?:(-?\d+) days?,?)? ?\+?(?:(\d+):(\d\d)(?::(\d\d)(?:\.\d+)?)?)?", re.ASCII)
_ISO_LENGTH = re.compile(
    r"P(?=.*\d)(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.ASCII
)
_SPELLED_LENGTH = re.compile(r"(?=\d)(?:(\d+)h)? ?(?:(\d+)m)? ?(?:(\d+)s)?", re.ASCII)
_TIME_BOUND = re.compile(r"\d\d(?::\d\d(?::\d\d)?)?", re.ASCII)
_WRITTEN = {"year": 4, "quarter": 7, "month": 7, "week": 10, "day": 10, "second": 19}
_PRECISION: dict[int, Unit] = {
    4: "year",
    7: "month",
    10: "day",
    13: "hour",
    16: "minute",
    19: "second",
}


_LONGEST_FORMAT = 100
_SAMPLE = datetime(2021, 3, 14, 15, 9, 26)


@dataclass(frozen=True)
class Clock:
    """Counts values in units, and gives them back.

    Units of instants are counted since 1970, days and longer ones in the zone; those of times of
    day since midnight; a duration is as many units.
    """

    name: str
    unit: Unit
    zone: str | None = None
    format: str | None = None
    dtype: str | None = None

    def __post_init__(self) -> None:
        what = f"attribute {self.name!r}"
        if self.unit not in UNITS:
            raise DomainError(f"{what}: unit must be one of {', '.join(UNITS)}, got {self.unit!r}")
        for key in ("zone", "format", "dtype"):
            if not isinstance(getattr(self, key), str | None):
                raise DomainError(f"{what}: {key} must be a text, got {getattr(self, key)!r}")
        if self.zone is not None:
            try:
                ZoneInfo(self.zone)
            except Exception:  # A path, a folder, or a name that no database has.
                raise DomainError(
                    f"{what}: zone {self.zone!r} is unknown: use a name such as America/New_York"
                ) from None
        if self.dtype is None:
            plain = f"datetime64[us, {self.zone}]" if self.zone else "datetime64[us]"
            object.__setattr__(self, "dtype", "str" if self.format else plain)
        dtype = str(self.dtype)
        if self.is_text:
            if not self.format:
                raise DomainError(f"{what}: dtype {dtype!r} needs a format, such as '%Y-%m-%d'")
            if "%" not in self.format and self.kind != "duration":
                raise DomainError(
                    f"{what}: format {self.format!r} has no part such as %Y, and durations are"
                    f" written as one of {', '.join(DURATION_FORMATS)}"
                )
            if self.is_whole and not re.fullmatch(r"(?:%[YmdHMS])+", self.format):
                raise DomainError(f"{what}: dtype {dtype!r} needs a format such as %Y%m%d")
        elif self.format or not _DTYPES[self.kind].fullmatch(dtype) or not _is_dtype(dtype):
            raise DomainError(
                f"{what} cannot be decoded to dtype {dtype!r}: use datetime64[us], datetime64[us,"
                f" UTC] or {DATE}, {TIME} for times of day, {DURATION} for durations, or str with a"
                " format"
            )
        fine = self.counts_in_utc
        if self.kind == "duration" and self.unit not in _SECONDS:
            raise DomainError(f"{what}: a duration is no number of {self.unit}s: use another unit")
        if self.kind == "time" and not fine:
            raise DomainError(f"{what}: a time of day is counted in hours, minutes or seconds")
        if self.zone and self.kind != "instant":
            raise DomainError(f"{what}: a zone is for timestamps: remove it")
        if not self.zone and "," in dtype:
            raise DomainError(f"{what}: dtype {dtype!r} has a zone: declare `zone`, such as UTC")
        offset = "," in dtype or (self.format or "").endswith(("Z", "%z", "%:z"))
        if self.zone and fine and not offset:
            raise DomainError(
                f"{what} has a zone, and values without one: use dtype datetime64[us, {self.zone}]"
                " or a format that ends in %:z, or remove the zone"
            )
        if self.is_text and self.kind != "duration":
            self._check_format(what)

    def _check_format(self, what: str) -> None:
        """Raise unless a text in the format can be read again."""
        written = str(self.format)
        if len(written) > _LONGEST_FORMAT or not written.isprintable():
            raise DomainError(
                f"{what}: a format has at most {_LONGEST_FORMAT} characters, all of them printed"
            )
        start = 0 if self.kind == "time" else self.count_at(_SAMPLE)
        text = str(self._value(start))
        count = self.count_of(text)
        if math.isnan(count) or str(self._value(count)) != text:
            raise DomainError(
                f"{what}: format {written!r} writes {text!r}, which it does not read: use each part"
                " once, such as '%Y-%m-%d'"
            )

    @property
    def is_text(self) -> bool:
        """Whether values decode to what a format writes."""
        return self.dtype in ("str", "string", "object", "category") or self.is_whole

    @property
    def is_whole(self) -> bool:
        """Whether what the format writes is an integer, such as 20130701."""
        return self.dtype in _WHOLE_DTYPES and bool(self.format)

    @cached_property
    def kind(self) -> str:
        """Kind of the values: "instant" (dates and timestamps), "time" of day or "duration"."""
        dtype = str(self.dtype)
        if dtype.startswith("timedelta") or (self.is_text and self.format in DURATION_FORMATS):
            return "duration"
        texts = self.is_text and not _DATE_PARTS.search(self.format or "%Y")
        return "time" if texts or dtype.startswith("time") else "instant"

    @cached_property
    def _zone(self) -> ZoneInfo | None:
        return ZoneInfo(self.zone) if self.zone else None

    @property
    def counts_in_utc(self) -> bool:
        """Whether units of a zone are counted in UTC: hours follow each other whatever it does."""
        return _SECONDS.get(self.unit, _SECONDS["day"]) < _SECONDS["day"]

    @property
    def seconds(self) -> int:
        """Seconds in a unit of a day or less."""
        return _SECONDS[self.unit]

    @property
    def texts_are_utc(self) -> bool:
        """Whether values without a zone are in UTC, not in the zone of the counts."""
        return (self.format or "").endswith("Z")

    @property
    def _counted_in(self) -> Any:
        return UTC if self.counts_in_utc else self._zone

    def count_of(self, value: object) -> float:
        """Return the number of the unit that a value is in, NaN if it is not one.

        Texts are read by the format, else by ISO 8601. A value without a zone is in `zone`, or in
        UTC if the format ends in Z.
        """
        try:
            return float(self._count(value))
        except Exception:  # A cell of an object column may be anything.
            return float("nan")

    def counts_of(self, column: pd.Series[Any]) -> Numbers | None:
        """Return `count_of` each timestamp of a column; None if its cells are read one by one."""
        ticks = self._ticks_of(column)
        if ticks is None:
            return None
        if self.unit in _MONTHS:
            counts = ticks.astype("datetime64[M]").astype(np.int64) // _MONTHS[self.unit]
        else:
            precision = np.datetime_data(ticks.dtype)[0]
            origin = np.datetime64(_origin(self.unit), "s").astype(f"M8[{precision}]")
            length = np.timedelta64(_SECONDS[self.unit], "s").astype(f"m8[{precision}]")
            counts = (ticks.astype(np.int64) - origin.astype(np.int64)) // length.astype(np.int64)
        return np.where(np.isnat(ticks), np.nan, counts)

    def _ticks_of(self, column: pd.Series[Any]) -> npt.NDArray[np.datetime64] | None:
        """Return timestamps in UTC, or of no zone, as NumPy has them.

        The result is None if a column is of another type, units are those of a zone, or a timestamp
        is where the calendar ends.
        """
        aware = isinstance(column.dtype, pd.DatetimeTZDtype)
        if not aware and not (isinstance(column.dtype, np.dtype) and column.dtype.kind == "M"):
            return None
        if self.kind != "instant" or not (self._zone is None or self.counts_in_utc):
            return None
        if self._zone is not None and not aware and not self.texts_are_utc:
            return None
        ticks: npt.NDArray[Any] = (column.dt.tz_convert(None) if aware else column).to_numpy()
        days = ticks[~np.isnat(ticks)].astype("datetime64[D]").astype(np.int64)
        inside = len(days) == 0 or (days.min() >= _FIRST_DAY and days.max() <= _LAST_DAY)
        return ticks if inside else None

    def _count(self, value: Any) -> int:
        if isinstance(value, Real | Decimal):  # Such as 20130701, for a format without marks.
            value = text_of(value)
        if isinstance(value, str):
            value = self._parsed(value.strip())
        elif isinstance(value, np.datetime64):
            value = pd.Timestamp(value)
        if isinstance(value, pd.Timestamp):
            value = value.to_pydatetime(warn=False)
        if self.kind == "duration":
            if isinstance(value, time) and value.tzinfo is None:  # Its text is a length, too.
                value = datetime.combine(_EPOCH, value) - _EPOCH
            return int(value // timedelta(seconds=_SECONDS[self.unit]))
        if self.kind == "time":
            if type(value) is timedelta and value.days == 0:  # Times as MySQL gives them.
                value = (_EPOCH + value).time()
            return _count(datetime.combine(_EPOCH, value.replace(tzinfo=None)), self.unit)
        if not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day)
        return self.count_at(value)

    def _parsed(self, text: str) -> datetime | time | timedelta:
        if self.kind == "duration":
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
        if self.format:
            with suppress(ValueError, re.error):
                read = moment_in(text, self.format)
                return read.time() if self.kind == "time" else read
        if self.kind == "time":
            text = f"0{text}" if text[1:2] == ":" else text
            return time.fromisoformat(text if text[2:3] == ":" else "")
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
        return _count(moment.replace(tzinfo=None), self.unit)

    def moment(self, count: float) -> datetime:
        """Return when a unit begins, in the zone."""
        start = _start(math.floor(count), self.unit)
        if self._zone is None:
            return start
        return start.replace(tzinfo=self._counted_in).astimezone(self._zone)

    def time_of_day(self, count: float) -> int:
        """Return how many units after midnight a unit begins, by the clocks of the zone."""
        at = self.moment(count)
        return (at.hour * 3600 + at.minute * 60 + at.second) // self.seconds

    def first_of(self, every: Unit, count: int) -> int:
        """Return the first unit of a longer unit, which is counted as those of the zone are."""
        start = _start(count, every)
        if self._zone is not None:
            start = start.replace(tzinfo=self._zone).astimezone(self._counted_in)
        start = start.replace(tzinfo=None)
        first = _count(start, self.unit)
        # If the zone's offset is not a multiple of the unit, one may extend across.
        return first if _start(first, self.unit) == start else first + 1

    def count_of_longer(self, every: Unit, count: float) -> int:
        """Return the number of the longer unit that a unit is in."""
        return _count(self.moment(count).replace(tzinfo=None), every)

    def nests_in(self, every: object) -> bool:
        """Return whether each unit is in one of the longer units."""
        if every in _SECONDS and self.unit in _SECONDS:
            return _SECONDS[str(every)] % _SECONDS[self.unit] == 0
        if every in _MONTHS and self.unit in _MONTHS:
            return _MONTHS[str(every)] % _MONTHS[self.unit] == 0
        return every in _MONTHS and self.unit != "week"

    def values_of(self, counts: Iterable[float]) -> list[Any]:
        """Return the first value of each unit, as the dtype has it."""
        return [self._value(count) for count in counts]

    def _value(self, count: float) -> Any:
        if self.kind == "duration":
            length = math.floor(count) * timedelta(seconds=_SECONDS[self.unit])
            return _written_length(length, str(self.format)) if self.is_text else length
        moment = self.moment(count)
        if self.is_text:
            written = str(self.format)
            if written.endswith("Z") and moment.tzinfo:
                moment = moment.astimezone(UTC)
            text = text_at(moment, written)
            return int(text) if self.is_whole else text
        if self.kind == "time":
            return moment.time()
        if self.dtype == DATE:
            return moment.date()
        return moment if "," in str(self.dtype) else moment.replace(tzinfo=None)

    def number(self, what: str, key: str, written: object, *, end: bool = False) -> float:
        """Return the unit that a bound in a domain file names, its last one if it is the end."""
        if self.kind == "duration":
            return as_number(what, key, written)
        if isinstance(written, date | time):
            written = written.isoformat()
        with suppress(ValueError, OverflowError):
            if self.kind == "time":
                if _TIME_BOUND.fullmatch(str(written)):
                    return self._bound(f"1970-01-01 {written}", end)
            elif _BOUND.fullmatch(str(written)):
                return self._bound(str(written), end)
        example = "08:00" if self.kind == "time" else "2013-07-01 or 2013-07-01 08:00"
        raise SpecificationError(
            f"{what}: {key} must be written as {example}, got {written!r} (durations have dtype"
            f" {DURATION}, times of day {TIME})"
        )

    def _bound(self, text: str, end: bool) -> float:
        found = _BOUND.fullmatch(text)
        written, offset = found.groups() if found else (text, None)
        moment = datetime.fromisoformat(written + "0001-01-01 00:00:00"[len(written) :])
        if end:
            precision = _PRECISION[len(written)]
            after = _LAST
            with suppress(ValueError, OverflowError):  # After the last year that there is.
                after = _start(_count(moment, precision) + 1, precision) - timedelta(seconds=1)
            moment = after
        if offset:
            moment = datetime.fromisoformat(f"{moment.isoformat()}{offset}")
        elif self._zone:
            moment = moment.replace(tzinfo=self._zone)
        return self.count_at(moment)

    def written(self, count: float) -> Any:
        """Return a unit as a domain file has it, the inverse of `number`."""
        if self.kind == "duration":
            return math.floor(count)
        moment = self.moment(count)
        text = moment.replace(tzinfo=None).isoformat(" ")
        # A zone may have had seconds before 1900.
        end = 19 if moment.second and self.counts_in_utc else _WRITTEN.get(self.unit, 16)
        if self.kind == "time":
            return text[11:end]
        # The second of two hours of the same name.
        offset = moment.strftime("%z") if end > 10 and moment.fold else ""
        return text[:end] + (offset and f"{offset[:3]}:{offset[3:]}")


def text_at(moment: datetime, written: str) -> str:
    """Return the text of a moment in a format."""
    offset = moment.strftime("%z")
    # Python pads no year.
    written = written.replace("%:z", f"{offset[:3]}:{offset[3:]}")
    written = written.replace("%3f", moment.strftime("%f")[:3])
    written = written.replace("%Y", f"{moment.year:04}")
    written = _UNPADDED.sub(lambda one: str(int(moment.strftime(f"%{one[1]}"))), written)
    return moment.strftime(written)


def moment_in(text: str, written: str) -> datetime:
    """Return the moment of a text in a format, or raise ValueError."""
    pattern, indices = _digits_of(written)
    if pattern is not None and (found := pattern.fullmatch(text)):
        parts = [1900, 1, 1, 0, 0, 0]
        for index, part in zip(indices, found.groups(), strict=True):
            parts[index] = int(part)
        if "%y" in written:
            parts[0] += 1900 if parts[0] >= _CENTURY else 2000
        return datetime(*parts)  # type: ignore[arg-type]
    return datetime.strptime(
        text, written.replace("%:z", "%z").replace("%-", "%").replace("%3f", "%f")
    )


@lru_cache(maxsize=1000)
def _digits_of(written: str) -> tuple[re.Pattern[str] | None, tuple[int, ...]]:
    """Return what reads the plainest texts of a format as strptime does, several times as fast."""
    pieces = _DIRECTIVE.split(written)
    names = [one[-1] for one in pieces[1::2]]
    year = len({"Y", "y"} & {*names})
    if len({*names}) < len(names) or year != ("m" in names) or ("d" in names) > year:
        return None, ()
    pattern = "".join(
        (r"(\d{4})" if one == "%Y" else r"(\d\d)") if index % 2 else re.escape(one)
        for index, one in enumerate(pieces)
    )
    if "%" in pattern:
        return None, ()
    return re.compile(pattern, re.ASCII), tuple(
        "YmdHMS".index(one.upper() if one == "y" else one) for one in names
    )


def _written_length(length: timedelta, written: str) -> str:
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


def _count(naive: datetime, unit: str) -> int:
    if unit in _MONTHS:
        return ((naive.year - 1970) * 12 + naive.month - 1) // _MONTHS[unit]
    return (naive - _origin(unit)) // timedelta(seconds=_SECONDS[unit])


def _start(count: int, unit: str) -> datetime:
    if unit in _MONTHS:
        months = count * _MONTHS[unit]
        return datetime(1970 + months // 12, months % 12 + 1, 1)
    return _origin(unit) + count * timedelta(seconds=_SECONDS[unit])


def _origin(unit: str) -> datetime:
    return _MONDAY if unit == "week" else _EPOCH


def _is_dtype(name: str) -> bool:
    try:
        pd.api.types.pandas_dtype(name)
    except Exception:  # An unknown zone raises what its database raises.
        return False
    return True


def reads(written: str, text: str) -> bool:
    """Return whether a format reads a text."""
    try:
        moment = moment_in(text, written)
    except ValueError:
        return False
    # %z reads Z too.
    return moment.tzinfo is None or not text.endswith("Z")


def is_day_first(written: str | None) -> bool | None:
    """Return whether a format has the day before the month; None for those that begin with a year.

    ``1/2/2024`` is read by both of the others.
    """
    found = re.match(r"%-?([dm])[/-]%-?[dm]", written or "")
    return None if found is None else found[1] == "d"


def other_order(written: str, column: pd.Series[Any]) -> str | None:
    """Return the format of the other order of day and month, where it reads all dates as well."""
    if is_day_first(written) is None:
        return None
    swapped = written.replace("d", "\0").replace("m", "d").replace("\0", "m")
    if all(reads(swapped, text) for text in column.dropna().unique() if reads(written, text)):
        return swapped
    return None


def has_fractions(written: str, column: pd.Series[Any]) -> bool:
    """Return whether a public column has fractions of a second, which are not counted."""
    if str(column.dtype).startswith("datetime64"):
        return bool((column.dt.microsecond.fillna(0) != 0).any())
    fractions = "f" in written
    return fractions and any(re.search(r"\.0*[1-9]", one) for one in column.dropna().unique())
