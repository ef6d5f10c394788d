"""The functions of expressions: of numbers, texts, dates and clocks, and for keys."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from jam_dagster.common.deferred import pd
from jam_dagster.errors import DomainError
from jam_dagster.tables.domain.columns import each_value
from jam_dagster.tables.domain.computed_cells import (
    Cells,
    Rows,
    as_instants,
    number_cells,
    text_cells,
    zone_of,
)
from jam_dagster.tables.domain.moment_texts import text_at
from jam_dagster.tables.domain.values import text_of

_MINUTES_A_DAY = 1440
_MOST_WIDTH = 100

# Each part of a date, and what pandas calls it.
PARTS = {one: one for one in ("year", "month", "day", "hour", "minute")}
PARTS |= {"weekday": "day_of_week", "quarter": "quarter", "week": "week"}
# Directives that give a few characters each, whatever the date.
_DATE_FORMAT = re.compile(
    r"(?:[^%\0-\x1f]|%[YmdHMSfyjGVuqzIpaAbB]|%-[dmHIMS]|%:z){1,100}", re.ASCII
)


def _text(rows: Rows, cells: Cells, width: int | str = 0) -> Cells:
    if isinstance(width, str):
        return _date_text(cells, width)
    if cells.kind == "time":
        raise DomainError('text of a date needs a format, such as text(start, "%Y-%m")')
    column = pd.Series(cells.values)
    texts = each_value(column, lambda value: text_of(value).zfill(width), "")
    return text_cells(texts, cells.missing)


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
