"""The functions of expressions: of numbers, texts, dates and clocks, and for keys."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from jam_dagster.common.deferred import pd
from jam_dagster.errors import DomainError
from jam_dagster.tables.domain.columns import each_value, numbers_of
from jam_dagster.tables.domain.computed_cells import (
    FIRST,
    LAST,
    Cells,
    Rows,
    as_instants,
    number_cells,
    text_cells,
    zone_of,
)
from jam_dagster.tables.domain.moment_texts import text_at
from jam_dagster.tables.domain.number_format import NumberFormat
from jam_dagster.tables.domain.units import SECONDS
from jam_dagster.tables.domain.values import text_of

_MINUTES_A_DAY = 1440
_MOST_WIDTH = 100
_MOST_SECONDS = 1e12
_NUMBERS = ("integer", "number")
_COMPUTED: dict[str, Callable[[Any], Any]] = {
    "log": np.log,
    "log10": np.log10,
    "exp": np.exp,
    "sqrt": np.sqrt,
}

# Each part of a date, and what pandas calls it.
PARTS = {one: one for one in ("year", "month", "day", "hour", "minute")}
PARTS |= {"weekday": "day_of_week", "quarter": "quarter", "week": "week"}
# Directives that give a few characters each, whatever the date.
_DATE_FORMAT = re.compile(
    r"(?:[^%\0-\x1f]|%[YmdHMSfyjGVuqzIpaAbB]|%-[dmHIMS]|%:z){1,100}", re.ASCII
)


def _text(rows: Rows, cells: Cells, width: int | str = 0) -> Cells:
    if isinstance(width, str):
        written = cells.kind in _NUMBERS and not isinstance(cells.format, str)
        return _number_text(cells, width) if written else _date_text(cells, width)
    if cells.kind == "time":
        raise DomainError('text of a date needs a format, such as text(start, "%Y-%m")')
    column = pd.Series(cells.values)
    texts = each_value(column, lambda value: text_of(value).zfill(width), "")
    return text_cells(texts, cells.missing)


def _number_text(cells: Cells, pattern: str) -> Cells:
    write = NumberFormat(pattern).write
    return text_cells(
        each_value(pd.Series(cells.values.astype(np.float64)), write, ""), cells.missing
    )


def _date_text(cells: Cells, written: str) -> Cells:
    index, missing = _local("text", cells)
    if index.tz is None or written.endswith("Z"):
        index = index.tz_localize("UTC") if index.tz is None else index.tz_convert("UTC")
    return text_cells(
        each_value(pd.Series(index), lambda one: date_text(one, written), ""), missing
    )


def date_text(moment: pd.Timestamp, written: str) -> str:
    """Return the text of a moment in a format, which may have %q for the quarter."""
    return text_at(moment, written.replace("%q", str(moment.quarter)))


def _round(rows: Rows, cells: Cells, digits: int = 0) -> Cells:
    if cells.kind == "integer":
        return cells
    if cells.kind != "number":
        raise DomainError("round takes a number")
    with np.errstate(all="ignore"):
        found = number_cells("number", np.round(cells.values, min(digits, 15)))
    return Cells("number", found.values, cells.missing | found.missing)


def _number(rows: Rows, cells: Cells) -> Cells:
    """Return the numbers that texts write, in their attribute's format, and 1 for what is true."""
    if cells.kind == "boolean":
        return Cells("integer", cells.values.astype(np.int64), cells.missing)
    if cells.kind == "text":
        written = cells.format if isinstance(cells.format, NumberFormat) else None
        found = number_cells("number", numbers_of(pd.Series(cells.values), written))
        return Cells("number", found.values, cells.missing | found.missing)
    if cells.kind not in _NUMBERS:
        raise DomainError("number takes a number, a text that writes one, or a boolean")
    return cells


def _computed(what: str, compute: Callable[[Any], Any], rows: Rows, cells: Cells) -> Cells:
    if cells.kind not in _NUMBERS:
        raise DomainError(f"{what} takes a number")
    with np.errstate(all="ignore"):
        found = number_cells("number", compute(cells.values.astype(np.float64)))
    return Cells("number", found.values, cells.missing | found.missing)


def _after(rows: Rows, start: Cells, count: Cells, unit: str = "day") -> Cells:
    """Return times so many units later: a day has 24 hours."""
    start = as_instants(start)
    if start.kind != "time" or count.kind not in _NUMBERS:
        raise DomainError("after takes a date or timestamp, and a number")
    seconds = count.values.astype(np.float64) * SECONDS[unit]
    missing = start.missing | count.missing | (np.abs(seconds) > _MOST_SECONDS)
    later = np.rint(np.where(missing, 0, seconds) * 1e6).astype("timedelta64[us]")
    moments = start.values + later
    missing |= (moments < FIRST) | (moments > LAST)
    return Cells("time", np.where(missing, np.datetime64(0, "us"), moments), missing, start.zone)


def _between(rows: Rows, start: Cells, end: Cells, unit: str = "day") -> Cells:
    """Return how many whole units are between two times."""
    start, end = as_instants(start), as_instants(end)
    if {start.kind, end.kind} != {"time"}:
        raise DomainError("between takes two dates or timestamps")
    length = np.timedelta64(SECONDS[unit], "s").astype("timedelta64[us]")
    return Cells("integer", (end.values - start.values) // length, start.missing | end.missing)


def _compared(rows: Rows, left: Cells, right: Cells) -> Cells:
    """Return <, = or >, and null where one of both is missing."""
    both = [_comparable(one) for one in (left, right)]
    if len({one.kind in _NUMBERS for one in both}) > 1:
        raise DomainError("compared takes two numbers, or two dates or timestamps")
    (first, second), missing = (one.values for one in both), both[0].missing | both[1].missing
    signs = np.where(first < second, "<", np.where(first > second, ">", "="))
    return Cells("text", np.where(missing, "null", signs).astype(object), np.zeros_like(missing))


def _comparable(cells: Cells) -> Cells:
    if isinstance(cells.format, NumberFormat):
        cells = Cells("number", numbers_of(pd.Series(cells.values), cells.format), cells.missing)
        return Cells("number", cells.values, cells.missing | ~np.isfinite(cells.values))
    cells = as_instants(cells)
    if cells.kind not in ("time", *_NUMBERS):
        raise DomainError("compared takes two numbers, or two dates or timestamps")
    return cells


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


def _clock_minutes(rows: Rows, cells: Cells) -> Cells:
    """Return minutes past midnight of times written as hours times 100 and minutes."""
    if cells.kind not in _NUMBERS:
        raise DomainError("clock_minutes takes a number such as 1730")
    values = np.where((cells.values >= 0) & (cells.values <= 2400), cells.values, 99).astype(
        np.int64
    )
    minutes = values // 100 * 60 + values % 100
    missing = cells.missing | (values != cells.values) | (values % 100 >= 60)
    return Cells("integer", np.where(missing, 0, minutes), missing)


def _clock_time(rows: Rows, cells: Cells, midnight: int = 0) -> Cells:
    """Return the time that a clock shows so many minutes after midnight, such as 1730."""
    if cells.kind not in _NUMBERS:
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


def _none(constant: object) -> bool:
    return False


def _is_zone(constant: object) -> bool:
    return isinstance(constant, str) and bool(zone_of(constant))


def _is_width(constant: object) -> bool:
    if type(constant) is int and not 0 <= constant <= _MOST_WIDTH:
        raise DomainError(f"it takes a number from 0 to {_MOST_WIDTH}")
    return type(constant) is int


def _is_midnight(constant: object) -> bool:
    return type(constant) is int and constant in (0, 2400)


def _is_unit(constant: object) -> bool:
    if constant not in SECONDS:
        raise DomainError(f"its unit is one of {', '.join(map(repr, SECONDS))}")
    return True


def is_number_format(pattern: str) -> bool:
    """Return whether a format is one of numbers."""
    with suppress(DomainError):
        return bool(NumberFormat(pattern))
    return False


def _is_width_or_format(constant: object) -> bool:
    if (
        isinstance(constant, str)
        and not _DATE_FORMAT.fullmatch(constant)
        and not is_number_format(constant)
    ):
        raise DomainError(
            "a format has %Y %m %d %H %M %S %f %I %p %a %A %b %B %y %j %G %V %u %q %z %:z alone, or"
            " is one of numbers, such as #,##0.00"
        )
    return isinstance(constant, str) or _is_width(constant)


# Each function, the number of its columns, and whether a constant may follow them.
FUNCTIONS: dict[str, tuple[Callable[..., Cells], int, Callable[[object], bool]]] = {
    **{part: (partial(_part, part), 1, _is_zone) for part in PARTS},
    "date": (_date, 1, _is_zone),
    "timestamp": (_timestamp, 1, _is_zone),
    "text": (_text, 1, _is_width_or_format),
    "round": (_round, 1, _is_width),
    "number": (_number, 1, _none),
    **{name: (partial(_computed, name, one), 1, _none) for name, one in _COMPUTED.items()},
    "after": (_after, 2, _is_unit),
    "between": (_between, 2, _is_unit),
    "compared": (_compared, 2, _none),
    "clock_minutes": (_clock_minutes, 1, _none),
    "clock_time": (_clock_time, 1, _is_midnight),
    "row": (_row, 0, _none),
    "uuid": (_uuid, 0, _none),
}

DESCRIBED = (
    (
        "`2013`, `0.5`, `true`, `null`",
        "this value in every row; `null` is a missing one",
    ),
    (
        '`hour`, `col("a name of several words")`',
        "a column, which may be derived itself",
    ),
    (
        "`a + b`, `-`, `*`, `/`, `//`, `%`",
        "arithmetic of numbers; `+` joins two texts. A text is in double quotes",
    ),
    (
        "`year(x)`, `quarter(x)`, `month(x)`, `week(x)`, `day(x)`, `hour(x)`, "
        "`minute(x)`, `weekday(x)`",
        "a part of a date, a timestamp, or a text in its attribute's `format` or such "
        "as `2013-06-01T05:00:00Z`; weeks are ISO's, Monday is 0. `hour(x, "
        '"America/New_York")` is that of a zone, else of the column\'s own or UTC',
    ),
    (
        "`date(x)`, `timestamp(x)`",
        "of the same: its day, or itself; with a zone as second argument, as its clocks show it",
    ),
    (
        "`text(x)`, `text(x, 3)`",
        "a text, with zeros in front up to three characters",
    ),
    (
        '`text(x, "%Y-%m")`',
        "of a date: a text in this format, of `%Y %m %d %H %M %S %f %I %p %a %A %b %B "
        "%y %j %G %V %u %z %:z`, and `%q` for the quarter",
    ),
    (
        '`text(x, "#,##0.00")`',
        "of a number: a text in this [format](#attributes-with-numbers)",
    ),
    (
        "`number(x)`",
        "the number that a text writes, in its attribute's `format` if there is one; "
        "of a boolean 1 or 0",
    ),
    (
        "`round(x, 2)`",
        "a number of so many decimals",
    ),
    (
        "`log(x)`, `log10(x)`, `exp(x)`, `sqrt(x)`",
        "logarithms, the exponential, the square root",
    ),
    (
        '`after(x, n)`, `after(x, n, "hour")`',
        "so many units after a date or timestamp, of `second`, `minute`, `hour`, `day` "
        "(24 hours) and `week`",
    ),
    (
        '`between(x, y)`, `between(x, y, "hour")`',
        "how many whole units from one date or timestamp to another",
    ),
    (
        "`compared(x, y)`",
        "`<`, `=` or `>` of two numbers, dates or timestamps, and `null` where one is "
        "missing: for `values`",
    ),
    (
        "`clock_minutes(x)`",
        "minutes past midnight of a time written as 1730",
    ),
    (
        "`clock_time(x)`, `clock_time(x, 2400)`",
        "the time, written as 1730, so many minutes past midnight of any day; the "
        "second writes midnight as 2400",
    ),
    (
        "`row()`, `uuid()`",
        "the number of the row from 1; a random UUID that follows from the release's "
        "seed. For keys",
    ),
)
"""Each form of an expression and its meaning, as the reference has them."""
