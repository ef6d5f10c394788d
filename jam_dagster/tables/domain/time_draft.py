"""Drafting dates, timestamps, times of day and durations from a public column."""

from __future__ import annotations

import dataclasses
import math
from datetime import datetime
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from jam_dagster.errors import DomainError
from jam_dagster.tables.domain.clock import DATE, DURATION, TIME, UNITS, Clock, Unit
from jam_dagster.tables.domain.numeric import NumericAttribute
from jam_dagster.tables.domain.quantile_bins import with_quantile_bins
from jam_dagster.tables.domain.times import TimeAttribute, equal_unit_edges

_MOST_BINS = 64
_MOST_OFFSETS = 48

_CLOCKS = ("%H:%M", "%H:%M:%S", "%H:%M:%S.%f")
_DATES = ("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y")
_FORMATS = (
    *_DATES,
    *map("".join, product(_DATES, " T", _CLOCKS, ("", "Z", "%:z"))),
    *_CLOCKS[:2],
    "%Y-%m",
)


def draft_time(
    name: str,
    column: pd.Series[Any],
    bins: int | None,
    nullable: bool,
    zone: str | None = None,
) -> TimeAttribute | None:
    """Draft an attribute of dates or times; None where a column holds others.

    Bins are days, weeks, months or years, so that a person can write other bounds in one line.
    """
    if pd.api.types.is_object_dtype(column.dtype):
        return None
    distinct = column.unique()
    seconds = _seconds_clock(name, column.dtype, distinct)
    if seconds is None:
        return None
    if zone is not None:
        seconds = dataclasses.replace(seconds, zone=zone)
    places = pd.factorize(column)[0]
    unit = _unit(seconds, list(distinct))
    clock = dataclasses.replace(seconds, unit=unit)
    counts = np.array([clock.count_of(value) for value in distinct])[places]
    low, high = counts.min(), counts.max()
    options: dict[str, Any] = {
        "nullable": nullable,
        "clip": True,
        "dtype": clock.dtype,
        "unreadable": "missing" if nullable else "error",
        "unit": unit,
        "zone": clock.zone,
        "format": clock.format,
    }
    if clock.kind == "duration" and bins is None:
        plain = NumericAttribute(name, (low, max(high, low + 0.5)), integer=True)
        plain = with_quantile_bins(plain, counts)
        return TimeAttribute(name, plain.edges, within=plain.within, **options)
    if clock.kind == "time":
        low, high = 0, 86400 / {"hour": 3600, "minute": 60}.get(unit, 1) - 1
    every = None if bins is not None else _every(clock, low, high)
    if every is None:
        width = int(min(_MOST_BINS // 2 if bins is None else bins, high - low + 1))
        return TimeAttribute(name, equal_unit_edges(low, high, width), **options)
    if every == unit:
        return TimeAttribute(name, equal_unit_edges(low, high, int(high - low + 1)), **options)
    draft = TimeAttribute(name, (low, high), every=every, **options)
    return dataclasses.replace(draft, within=_within(clock, every, counts))


def _seconds_clock(name: str, dtype: Any, distinct: Any) -> Clock | None:
    """Return what counts the values of a column in seconds, None where these are others."""
    text = str(dtype)
    if pd.api.types.is_timedelta64_dtype(dtype):
        return Clock(name, "second", dtype=text if text.startswith("timedelta") else DURATION)
    if isinstance(dtype, pd.DatetimeTZDtype):
        known = getattr(dtype.tz, "key", None) or getattr(dtype.tz, "zone", None) or "UTC"
        return Clock(name, "second", zone=known, dtype=text)
    if pd.api.types.is_datetime64_dtype(dtype):
        return Clock(name, "second", dtype=text)
    if text.startswith("date32"):
        return Clock(name, "day", dtype=DATE)
    if text.startswith(("time32", "time64")):
        return Clock(name, "second", dtype=TIME)
    if not isinstance(dtype, pd.StringDtype):
        return None
    formats = [one for one in _FORMATS if _reads(one, distinct[0])]
    formats = [one for one in formats if all(_reads(one, written) for written in distinct)]
    if not formats:
        return None
    if len(formats) > 1:
        raise DomainError(
            "holds dates whose days and months cannot be told apart: declare it with a `format`,"
            f" such as '{formats[0]}'"
        )
    zone = "UTC" if formats[0].endswith(("Z", "z")) else None
    return Clock(name, "second", zone=zone, format=formats[0])


def _reads(written: str, text: str) -> bool:
    try:
        moment = datetime.strptime(text, written.replace("%:z", "%z"))
    except ValueError:
        return False
    # %z reads Z too.
    return moment.tzinfo is None or not text.endswith("Z")


def _unit(seconds: Clock, distinct: list[Any]) -> Unit:
    """Return the longest unit that all values are whole ones of."""
    counts = [seconds.count_of(value) for value in distinct]
    finest = UNITS.index(seconds.unit)
    for unit in UNITS[:finest]:
        try:
            clock = dataclasses.replace(seconds, unit=unit)
        except DomainError:  # A unit that this kind does not have.
            continue
        if unit in ("quarter", "week"):
            continue
        if seconds.kind == "instant":
            starts = (
                float(seconds.count_at(clock.moment(clock.count_of(one)))) for one in distinct
            )
        else:
            step = {"day": 86400, "hour": 3600, "minute": 60}[unit]
            starts = (count // step * step for count in counts)
        if all(one == another for one, another in zip(counts, starts, strict=True)):
            return unit
    return seconds.unit


def _every(clock: Clock, low: float, high: float) -> Unit | None:
    """Return the shortest unit of which few enough last from the first to the last value."""
    for every in reversed(UNITS[: UNITS.index(clock.unit) + 1]):
        if every != clock.unit and not clock.nests_in(every):
            continue
        if clock.kind == "time" and every not in ("hour", "minute", "second"):
            continue
        if clock.count_of_longer(every, high) - clock.count_of_longer(every, low) < _MOST_BINS:
            return every
    return None


def _within(
    clock: Clock, every: Unit, counts: npt.NDArray[np.float64]
) -> tuple[tuple[float, float, float], ...]:
    """Return how often the values lie how many units after the beginning of a bin."""
    distinct, places = np.unique(counts, return_inverse=True)
    starts = [clock.first_of(every, clock.count_of_longer(every, one)) for one in distinct.tolist()]
    offsets, rows = np.unique((distinct - starts)[places], return_counts=True)
    # Few offsets stand by themselves: appointments come every quarter of an hour.
    step = 1 if len(offsets) <= _MOST_OFFSETS else math.ceil((offsets[-1] + 1) / _MOST_OFFSETS)
    firsts = np.flatnonzero(np.diff(offsets // step, prepend=-1))
    lasts = np.append(firsts[1:], len(offsets)) - 1
    totals = np.add.reduceat(rows, firsts)
    return tuple(
        (float(offsets[first]), float(offsets[last]), float(total))
        for first, last, total in zip(firsts, lasts, totals, strict=True)
    )
