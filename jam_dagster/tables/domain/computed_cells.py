"""Cells of derived columns: read from any dtype, computed, and given a dtype."""

from __future__ import annotations

import operator
import re
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo
from decimal import Decimal
from functools import lru_cache, partial
from numbers import Integral, Real
from typing import Any, cast
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

from jam_dagster.common.deferred import pd
from jam_dagster.errors import DomainError
from jam_dagster.tables.domain.columns import each_value, missing_in
from jam_dagster.tables.domain.moment_texts import moment_in, text_at
from jam_dagster.tables.domain.text_dtype import dtype_of
from jam_dagster.tables.domain.units import DATE
from jam_dagster.tables.domain.values import LARGEST_INTEGER, Value, is_formula, kind_of, text_of

_LONGEST_TEXT = 1000
_MINUTES_A_DAY = 1440
_MOST_WIDTH = 100

_INTEGERS = tuple(f"{sign}Int{bits}" for bits in (64, 32, 16, 8) for sign in ("", "U"))
_FLOATS = ("float64", "float32", "Float64", "Float32")
_TEXTS = ("str", "string", "object")
DTYPES = {
    "integer": (*_INTEGERS, *_FLOATS),
    "number": (*_FLOATS, *_INTEGERS),
    "text": _TEXTS,
    "boolean": ("boolean", "object"),
    "time": (),
    "nothing": ("object", *_INTEGERS, *_FLOATS, "str", "string", "boolean"),
}
TIME_DTYPE = re.compile(
    r"datetime64\[(?:s|ms|us|ns)(?:, ([A-Za-z0-9_+/-]{1,64}))?\]|date32\[day\]\[pyarrow\]", re.ASCII
)
ISO_TIME = re.compile(
    r"\d{4}-\d\d-\d\d(?:[ T](?:[01]\d|2[0-3]):\d\d(?::\d\d(?:\.(?:\d{3}|\d{6}))?)?"
    r"(?:Z|[+-]\d\d:\d\d)?)?",
    re.ASCII,
)
# Each part of a date, and what pandas calls it.
PARTS = {one: one for one in ("year", "month", "day", "hour", "minute")}
PARTS |= {"weekday": "day_of_week", "quarter": "quarter", "week": "week"}
# Directives that give a few characters each, whatever the date.
_DATE_FORMAT = re.compile(
    r"(?:[^%\0-\x1f]|%[YmdHMSfyjGVuqzIpaAbB]|%-[dmHIMS]|%:z){1,100}", re.ASCII
)
_FIRST, _LAST = np.datetime64("0002-01-01", "us"), np.datetime64("9998-12-31", "us")


@dataclass(frozen=True)
class Cells:
    """Values of one kind, where they are missing, and their zone or format; instants are in UTC."""

    kind: str
    values: npt.NDArray[Any]
    missing: npt.NDArray[np.bool_]
    zone: tzinfo | None = None
    format: str | None = None


@dataclass(frozen=True)
class Rows:
    """The rows that are computed at once."""

    start: int
    count: int
    columns: Callable[[str], Cells]
    rng: np.random.Generator


@lru_cache(maxsize=1000)
def zone_of(name: str) -> ZoneInfo:
    """Return the time zone of a name."""
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        raise DomainError(
            f"no time zone has the name {name[:60]!r}: write one such as America/New_York; where no"
            " zone is found, install the package tzdata"
        ) from None


def read_cells(name: str, column: pd.Series[Any]) -> Cells:
    """Return the cells of a column of any dtype."""
    if isinstance(column.dtype, pd.ArrowDtype) and column.dtype.kind == "M":
        import pyarrow as pa

        # Arrow's dates are Python's, its timestamps have the dtype of pandas.
        column = pd.Series(pa.array(column).to_pandas().array, index=column.index)
    dtype: Any = column.dtype
    missing = missing_in(column)
    if isinstance(dtype, pd.CategoricalDtype):
        found = read_cells(name, pd.Series(dtype.categories))
        codes = np.where(missing, 0, column.cat.codes)
        if not len(found.values):
            return Cells("nothing", np.zeros(len(column)), missing)
        return Cells(found.kind, found.values[codes], missing | found.missing[codes], found.zone)
    if pd.api.types.is_datetime64_any_dtype(dtype):
        return _instants(column, missing)
    if pd.api.types.is_bool_dtype(dtype):
        return Cells("boolean", column.to_numpy(dtype=bool, na_value=False), missing)
    if pd.api.types.is_integer_dtype(dtype) or pd.api.types.is_float_dtype(dtype):
        kind = "integer" if pd.api.types.is_integer_dtype(dtype) else "number"
        return _numbers(kind, column.to_numpy(dtype=np.float64, na_value=np.nan))
    given = column.to_numpy(dtype=object)[~missing]
    types = set(map(type, given))
    if not types and not isinstance(dtype, pd.StringDtype):
        return Cells("nothing", np.zeros(len(column)), missing)

    def are(*kinds: type) -> bool:
        return all(issubclass(one, kinds) for one in types)

    if are(str):
        return Cells("text", np.where(missing, "", column.to_numpy(dtype=object)), missing)
    if are(bool, np.bool_):
        return Cells("boolean", np.where(missing, False, column).astype(bool), missing)
    if are(Integral, Real, Decimal) and not any(issubclass(one, bool) for one in types):
        numbers = np.full(len(column), np.nan)
        numbers[~missing] = [_float(value) for value in given]
        return _numbers("integer" if are(Integral) else "number", numbers)
    if are(date):
        return _instants_of_values(column, missing)
    raise DomainError(f"column {name!r} holds values that no expression can read")


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return np.inf


def _numbers(kind: str, floats: npt.NDArray[np.float64]) -> Cells:
    missing = ~np.isfinite(floats)
    if kind == "integer":
        missing |= np.abs(floats) > LARGEST_INTEGER
    floats = np.where(missing, 0.0, floats)
    return Cells(kind, floats.astype(np.int64) if kind == "integer" else floats, missing)


def _instants(column: pd.Series[Any], missing: npt.NDArray[np.bool_]) -> Cells:
    zone = column.dt.tz
    raw = (column if zone is None else column.dt.tz_convert("UTC").dt.tz_localize(None)).to_numpy()
    if raw.dtype != "datetime64[ns]":
        missing = missing | ~((raw >= _FIRST.astype(raw.dtype)) & (raw <= _LAST.astype(raw.dtype)))
    raw = np.where(missing, np.datetime64(0, "s").astype(raw.dtype), raw)
    return Cells("time", raw.astype("datetime64[us]"), missing, zone)


def _instants_of_values(
    column: pd.Series[Any], missing: npt.NDArray[np.bool_], written: str | None = None
) -> Cells:
    never = np.datetime64("NaT", "us")
    instants = each_value(column, partial(_instant, written), never, "datetime64[us]")
    missing = missing | ~((instants >= _FIRST) & (instants <= _LAST))
    return Cells("time", np.where(missing, np.datetime64(0, "us"), instants), missing)


def as_instants(cells: Cells) -> Cells:
    """Return dates, timestamps, texts in their format or ISO's, or numbers so, as instants."""
    whole = cells.kind == "integer" and cells.format is not None
    if cells.kind != "text" and not whole:
        return cells
    texts: Any = pd.Series(list(map(str, cells.values)) if whole else cells.values, dtype=object)
    return _instants_of_values(texts, cells.missing, cells.format)


def _instant(written: str | None, value: Any) -> np.datetime64:
    """Return a date, a timestamp or a text of one as an instant in UTC; NaT if it is not one."""
    try:
        if isinstance(value, str):
            value = _moment(value, written)
        if isinstance(value, datetime) and value.tzinfo is not None:
            value = value.astimezone(UTC).replace(tzinfo=None)
        return np.datetime64(value, "us")
    except (ValueError, OverflowError):
        return np.datetime64("NaT", "us")


def _moment(text: str, written: str | None) -> datetime | None:
    if written is not None and _is_read(written):
        with suppress(ValueError):
            return moment_in(text, written)
    return datetime.fromisoformat(text) if ISO_TIME.fullmatch(text) else None


@lru_cache(maxsize=1000)
def _is_read(written: str) -> bool:
    """Return whether what a format writes can be read: a stranger's may be no pattern at all."""
    try:
        moment = datetime(2000, 2, 3, 4, 5, 6, tzinfo=UTC)
        return bool(moment_in(text_at(moment, written), written))
    except Exception:
        return False


def arithmetic(symbol: str, left: Cells, right: Cells) -> Cells:
    """Return what an operator makes of two columns."""
    missing = left.missing | right.missing
    kinds = {left.kind, right.kind}
    if "nothing" in kinds:
        return Cells("nothing", missing, np.ones_like(missing))
    if kinds == {"text"} and symbol == "+":
        return _texts(left.values + right.values, missing)
    if not kinds <= {"integer", "number"}:
        raise DomainError(
            f"an expression has {symbol} between {left.kind} and {right.kind}: it takes numbers,"
            " or + two texts; text(x) makes a text of a number"
        )
    compute = ARITHMETIC[symbol]
    with np.errstate(all="ignore"):
        floats = compute(left.values.astype(np.float64), right.values.astype(np.float64))
        if kinds == {"integer"} and symbol != "/":
            # A result that fits is exact, whatever the others wrap around to.
            found = _numbers("integer", floats)
            values = compute(left.values, right.values)
            return Cells("integer", values, missing | found.missing)
    found = _numbers("number", floats)
    return Cells("number", found.values, missing | found.missing)


def _texts(values: npt.NDArray[Any], missing: npt.NDArray[np.bool_]) -> Cells:
    long = np.fromiter(map(len, values), dtype=np.int64, count=len(values)) > _LONGEST_TEXT
    missing = missing | long
    return Cells("text", np.where(missing, "", values), missing)


def _text(rows: Rows, cells: Cells, width: int | str = 0) -> Cells:
    if isinstance(width, str):
        return _date_text(cells, width)
    if cells.kind == "time":
        raise DomainError('text of a date needs a format, such as text(start, "%Y-%m")')
    column = pd.Series(cells.values)
    texts = each_value(column, lambda value: text_of(value).zfill(width), "")
    return _texts(texts, cells.missing)


def _date_text(cells: Cells, written: str) -> Cells:
    index, missing = _local("text", cells)
    if index.tz is None or written.endswith("Z"):
        index = index.tz_localize("UTC") if index.tz is None else index.tz_convert("UTC")
    return _texts(each_value(pd.Series(index), lambda one: date_text(one, written), ""), missing)


def date_text(moment: pd.Timestamp, written: str) -> str:
    """Return the text of a moment in a format, which may have %q for the quarter."""
    return text_at(moment, written.replace("%q", str(moment.quarter)))


def _round(rows: Rows, cells: Cells, digits: int = 0) -> Cells:
    if cells.kind == "integer":
        return cells
    if cells.kind != "number":
        raise DomainError("round takes a number")
    with np.errstate(all="ignore"):
        found = _numbers("number", np.round(cells.values, min(digits, 15)))
    return Cells("number", found.values, cells.missing | found.missing)


def _part(part: str, rows: Rows, cells: Cells, zone: str | None = None) -> Cells:
    index, missing = _local(part, cells, zone)
    return Cells("integer", numbers_in(part, index).astype(np.int64), missing)


def numbers_in(part: str, index: pd.DatetimeIndex) -> npt.NDArray[np.float64]:
    """Return a part of each date, NaN where it is missing."""
    called = PARTS[part]
    numbers: Any = index.isocalendar().week if called == "week" else getattr(index, called)
    found: npt.NDArray[np.float64] = numbers.to_numpy(dtype=np.float64, na_value=np.nan)
    return found


def _local(
    function: str, cells: Cells, zone: str | None = None
) -> tuple[pd.DatetimeIndex, npt.NDArray[np.bool_]]:
    """Return instants in a zone, else in their own or without one, and which are missing."""
    cells = as_instants(cells)
    if cells.kind != "time":
        raise DomainError(
            f"{function} takes a date, a timestamp or a text such as 2024-01-31T12:00"
        )
    index = pd.DatetimeIndex(cells.values)
    place = cells.zone if zone is None else zone_of(zone)
    return index if place is None else index.tz_localize("UTC").tz_convert(place), cells.missing


def _date(rows: Rows, cells: Cells, zone: str | None = None) -> Cells:
    index, missing = _local("date", cells, zone)
    days = index.tz_localize(None).to_numpy().astype("datetime64[D]")
    return Cells("time", days.astype("datetime64[us]"), missing)


def _timestamp(rows: Rows, cells: Cells, zone: str | None = None) -> Cells:
    index, missing = _local("timestamp", cells, zone)
    if zone is None:
        return as_instants(cells)
    return Cells("time", index.tz_localize(None).to_numpy().astype("datetime64[us]"), missing)


def looked_up(cells: Cells, values: Mapping[str, Value]) -> Cells:
    """Return what stands for the text of each cell; nothing else has a value."""
    found = each_value(pd.Series(cells.values), lambda value: values.get(text_of(value)), None)
    found[cells.missing] = None
    return cells_of(found, kind_of(list(values.values())))


def cells_of(values: npt.NDArray[Any], kind: str) -> Cells:
    """Return values of one kind as cells, None as a missing one."""
    none: Any = {"text": "", "boolean": False, "integer": 0, "number": 0.0}[kind]
    missing = np.array([one is None for one in values], dtype=bool)
    known = np.where(missing, none, values)
    if kind == "text":
        return _texts(known, missing)
    dtypes = {"boolean": np.bool_, "integer": np.int64, "number": np.float64}
    return Cells(kind, known.astype(dtypes[kind]), missing)


def _clock_minutes(rows: Rows, cells: Cells) -> Cells:
    """Return minutes past midnight of times written as hours times 100 and minutes."""
    if cells.kind not in ("integer", "number"):
        raise DomainError("clock_minutes takes a number such as 1730")
    values = np.where((cells.values >= 0) & (cells.values <= 2400), cells.values, 99).astype(
        np.int64
    )
    minutes = values // 100 * 60 + values % 100
    missing = cells.missing | (values != cells.values) | (values % 100 >= 60)
    return Cells("integer", np.where(missing, 0, minutes), missing)


def _clock_time(rows: Rows, cells: Cells, midnight: int = 0) -> Cells:
    """Return the time that a clock shows so many minutes after midnight, such as 1730."""
    if cells.kind not in ("integer", "number"):
        raise DomainError("clock_time takes a number of minutes")
    # The remainder of any float is a small one.
    minutes = np.floor(np.mod(cells.values, _MINUTES_A_DAY)).astype(np.int64)
    times = minutes // 60 * 100 + minutes % 60
    return Cells("integer", np.where(times == 0, midnight, times), cells.missing)


def _row(rows: Rows) -> Cells:
    numbers = np.arange(rows.start + 1, rows.start + rows.count + 1, dtype=np.int64)
    return Cells("integer", numbers, np.zeros(rows.count, dtype=bool))


def _uuid(rows: Rows) -> Cells:
    drawn = rows.rng.bytes(16 * rows.count)
    texts = [
        str(uuid.UUID(bytes=drawn[start : start + 16], version=4))
        for start in range(0, len(drawn), 16)
    ]
    return Cells("text", np.array(texts, dtype=object), np.zeros(rows.count, dtype=bool))


ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
}


def _is_zone(constant: object) -> bool:
    return isinstance(constant, str) and bool(zone_of(constant))


def _is_width(constant: object) -> bool:
    if type(constant) is int and not 0 <= constant <= _MOST_WIDTH:
        raise DomainError(f"it takes a number from 0 to {_MOST_WIDTH}")
    return type(constant) is int


def _is_midnight(constant: object) -> bool:
    return type(constant) is int and constant in (0, 2400)


def _is_width_or_format(constant: object) -> bool:
    if isinstance(constant, str) and not _DATE_FORMAT.fullmatch(constant):
        raise DomainError(
            "a format has %Y %m %d %H %M %S %f %I %p %a %A %b %B %y %j %G %V %u %q %z %:z alone"
        )
    return isinstance(constant, str) or _is_width(constant)


# Each function, the number of its columns, and whether a constant may follow them.
FUNCTIONS: dict[str, tuple[Callable[..., Cells], int, Callable[[object], bool]]] = {
    **{part: (partial(_part, part), 1, _is_zone) for part in PARTS},
    "date": (_date, 1, _is_zone),
    "timestamp": (_timestamp, 1, _is_zone),
    "text": (_text, 1, _is_width_or_format),
    "round": (_round, 1, _is_width),
    "clock_minutes": (_clock_minutes, 1, lambda _: False),
    "clock_time": (_clock_time, 1, _is_midnight),
    "row": (_row, 0, lambda _: False),
    "uuid": (_uuid, 0, lambda _: False),
}


def may_be_text(text: str) -> bool:
    """Return whether a derived column may hold a text; where it may not, the cell is missing."""
    return len(text) <= _LONGEST_TEXT and not is_formula(text)


def typed(name: str, cells: Cells, dtype: str) -> pd.Series[Any]:
    """Return cells as a column of a dtype; what it cannot hold is missing."""
    missing = cells.missing
    column: Any
    if cells.kind == "nothing":
        column = pd.Series([None] * len(missing), dtype=dtype_of(dtype))
        return cast("pd.Series[Any]", column)
    time = cells.kind == "time"
    if not (TIME_DTYPE.fullmatch(dtype) if time else dtype in DTYPES[cells.kind]):
        raise DomainError(f"derived column {name!r} cannot be {dtype}: its values are {cells.kind}")
    if time:
        return _timed(cells, dtype)
    values = cells.values
    if dtype in _INTEGERS:
        limits = np.iinfo(dtype.lower())
        # An integer dtype holds the whole ones among numbers.
        missing = missing | (values != np.floor(values))
        missing |= (values < limits.min) | (values > limits.max)
        column = pd.Series(np.where(missing, 0, values).astype(np.int64), dtype=dtype_of(dtype))
    elif dtype in _FLOATS:
        with np.errstate(over="ignore"):
            floats = values.astype(dtype.lower())
        missing = missing | ~np.isfinite(floats)
        column = pd.Series(np.where(missing, 0, floats), dtype=dtype_of(dtype))
    else:
        if cells.kind == "text":
            # Joined by pieces, a text may be what no value of an attribute may be.
            missing = missing | each_value(pd.Series(values), is_formula, False, np.bool_)
        column = pd.Series(values, dtype=dtype_of(dtype))
    if missing.any():
        column[missing] = pd.NA if dtype[0].isupper() or dtype == "boolean" else np.nan
    return cast("pd.Series[Any]", column)


def _timed(cells: Cells, dtype: str) -> pd.Series[Any]:
    missing = cells.missing
    if dtype == DATE:
        days = np.where(missing, np.datetime64("NaT", "us"), cells.values).astype("datetime64[D]")
        return pd.Series(pd.array(days.astype(object), dtype=dtype_of(dtype)))
    unit, _, zone = dtype.removeprefix("datetime64[").removesuffix("]").partition(", ")
    if unit == "ns":
        missing = missing | (cells.values < np.datetime64("1678", "us"))
        missing |= cells.values >= np.datetime64("2262", "us")
    values = np.where(missing, np.datetime64("NaT", "us"), cells.values)
    column: Any = pd.Series(values.astype(f"datetime64[{unit}]"))
    column = column.dt.tz_localize("UTC").dt.tz_convert(zone_of(zone)) if zone else column
    return cast("pd.Series[Any]", column)
