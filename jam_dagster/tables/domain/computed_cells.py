"""Cells of derived columns: read from any dtype, computed, and given a dtype."""

from __future__ import annotations

import operator
import re
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
from jam_dagster.tables.domain.number_format import NumberFormat
from jam_dagster.tables.domain.text_dtype import dtype_of
from jam_dagster.tables.domain.units import DATE
from jam_dagster.tables.domain.values import LARGEST_INTEGER, Value, is_formula, kind_of, text_of

_LONGEST_TEXT = 1000

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
FIRST, LAST = np.datetime64("0002-01-01", "us"), np.datetime64("9998-12-31", "us")


@dataclass(frozen=True)
class Cells:
    """Values of one kind, where they are missing, and their zone or format; instants are in UTC."""

    kind: str
    values: npt.NDArray[Any]
    missing: npt.NDArray[np.bool_]
    zone: tzinfo | None = None
    format: str | NumberFormat | None = None


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
        return number_cells(kind, column.to_numpy(dtype=np.float64, na_value=np.nan))
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
        return number_cells("integer" if are(Integral) else "number", numbers)
    if are(date):
        return _instants_of_values(column, missing)
    raise DomainError(f"column {name!r} holds values that no expression can read")


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return np.inf


def number_cells(kind: str, floats: npt.NDArray[np.float64]) -> Cells:
    """Return numbers as cells, missing where they are not finite, or are inexact integers."""
    missing = ~np.isfinite(floats)
    if kind == "integer":
        missing |= np.abs(floats) > LARGEST_INTEGER
    floats = np.where(missing, 0.0, floats)
    return Cells(kind, floats.astype(np.int64) if kind == "integer" else floats, missing)


def _instants(column: pd.Series[Any], missing: npt.NDArray[np.bool_]) -> Cells:
    zone = column.dt.tz
    raw = (column if zone is None else column.dt.tz_convert("UTC").dt.tz_localize(None)).to_numpy()
    if raw.dtype != "datetime64[ns]":
        missing = missing | ~((raw >= FIRST.astype(raw.dtype)) & (raw <= LAST.astype(raw.dtype)))
    raw = np.where(missing, np.datetime64(0, "s").astype(raw.dtype), raw)
    return Cells("time", raw.astype("datetime64[us]"), missing, zone)


def _instants_of_values(
    column: pd.Series[Any], missing: npt.NDArray[np.bool_], written: str | None = None
) -> Cells:
    never = np.datetime64("NaT", "us")
    instants = each_value(column, partial(_instant, written), never, "datetime64[us]")
    missing = missing | ~((instants >= FIRST) & (instants <= LAST))
    return Cells("time", np.where(missing, np.datetime64(0, "us"), instants), missing)


def as_instants(cells: Cells) -> Cells:
    """Return dates, timestamps, texts in their format or ISO's, or numbers so, as instants."""
    written = cells.format if isinstance(cells.format, str) else None
    whole = cells.kind == "integer" and written is not None
    if cells.kind != "text" and not whole:
        return cells
    texts: Any = pd.Series(list(map(str, cells.values)) if whole else cells.values, dtype=object)
    return _instants_of_values(texts, cells.missing, written)


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
        return text_cells(left.values + right.values, missing)
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
            found = number_cells("integer", floats)
            values = compute(left.values, right.values)
            return Cells("integer", values, missing | found.missing)
    found = number_cells("number", floats)
    return Cells("number", found.values, missing | found.missing)


def text_cells(values: npt.NDArray[Any], missing: npt.NDArray[np.bool_]) -> Cells:
    """Return texts as cells, missing where they are too long."""
    long = np.fromiter(map(len, values), dtype=np.int64, count=len(values)) > _LONGEST_TEXT
    missing = missing | long
    return Cells("text", np.where(missing, "", values), missing)


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
        return text_cells(known, missing)
    dtypes = {"boolean": np.bool_, "integer": np.int64, "number": np.float64}
    return Cells(kind, known.astype(dtypes[kind]), missing)


ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
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
