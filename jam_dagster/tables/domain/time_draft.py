"""Drafting dates, timestamps, times of day and durations from a public column."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from jam_dagster.errors import DomainError
from jam_dagster.tables.domain.clock import DATE, DURATION, TIME, UNITS, Clock, Unit
from jam_dagster.tables.domain.numeric import NumericAttribute
from jam_dagster.tables.domain.quantile_bins import (
    KEPT_VALUES,
    with_entries,
    with_quantile_bins,
)
from jam_dagster.tables.domain.times import TimeAttribute, equal_unit_edges

_MOST_BINS = 64
# So many offsets are told each by itself where so many rows have one; others as numbers are.
_MOST_OFFSETS = 400
_OFFSET_ROWS = 5

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
    if bins is not None:
        width = int(min(bins, high - low + 1))
        return TimeAttribute(name, equal_unit_edges(low, high, width), **options)
    plain = NumericAttribute(name, (low, max(high, low + 0.5)), integer=True)
    every = None if clock.kind == "duration" else _every(clock, low, high)
    if every is not None:
        draft = _in_units(name, clock, every, counts, options)
        values = len(np.unique(counts))
        if clock.kind == "instant" and (values > KEPT_VALUES or _values_of(draft) == values):
            return draft
        if values > KEPT_VALUES:
            binned = dataclasses.replace(plain, edges=draft.edges)
            return dataclasses.replace(
                draft, every=None, within=with_entries(binned, counts).within
            )
    plain = with_quantile_bins(plain, counts)
    return TimeAttribute(name, plain.edges, within=plain.within, **options)


def _in_units(
    name: str,
    clock: Clock,
    every: Unit,
    counts: npt.NDArray[np.float64],
    options: dict[str, Any],
) -> TimeAttribute:
    """Return an attribute whose bins are units, alike within: only bounds tell of a year."""
    low, high = counts.min(), counts.max()
    if every == clock.unit:
        return TimeAttribute(name, equal_unit_edges(low, high, int(high - low + 1)), **options)
    distinct, places = np.unique(counts, return_inverse=True)
    starts = _starts(clock, every, distinct)
    offsets = (distinct - starts)[places]
    if not clock.counts_in_utc or every in ("day", "hour", "minute"):
        draft = TimeAttribute(name, (low, high), every=every, **options)
        if clock.kind == "time":
            return draft
        return dataclasses.replace(draft, within=_shape(offsets))
    # The day and the time of day, apart: both would be too many to be told together.
    days = _starts(clock, "day", distinct)
    length = 86400 // clock.seconds
    low, high = (clock.count_of_longer("day", one) for one in (low, high))
    bounds = clock.first_of("day", low), clock.first_of("day", high + 1) - 1
    within = [
        (first * length, last * length + length - 1, weight)
        for first, last, weight in _shape(np.rint((days - starts) / length)[places])
    ]
    # By the clocks of the zone, which may have been set that day.
    times = np.array([clock.time_of_day(one) for one in distinct.tolist()])
    of_day = _shape(times[places])
    return TimeAttribute(name, bounds, every=every, within=tuple(within), of_day=of_day, **options)


def _starts(clock: Clock, every: Unit, counts: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
    """Return the first unit of the longer unit that each of some units lies in."""
    longer, places = np.unique(
        [clock.count_of_longer(every, one) for one in counts.tolist()], return_inverse=True
    )
    return np.array([clock.first_of(every, one) for one in longer.tolist()])[places]


def _values_of(draft: TimeAttribute) -> int | None:
    """Return how many values an attribute decodes to, None if an entry has several."""
    if not draft.within:
        return draft.bins
    return len(draft.placed) if all(one[0] == one[1] for one in draft.placed) else None


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
        if unit in ("quarter", "week") and len(distinct) <= KEPT_VALUES:
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


def _shape(offsets: npt.NDArray[np.float64]) -> tuple[tuple[float, float, float], ...]:
    """Return how often units lie how far after the beginning of a longer one.

    Those that few rows have, of many, are spread over their neighbours.
    """
    distinct, rows = np.unique(offsets, return_counts=True)
    most = _MOST_OFFSETS if len(offsets) >= _OFFSET_ROWS * len(distinct) else KEPT_VALUES
    if len(distinct) <= most:
        return tuple(
            (offset, offset, float(times))
            for offset, times in zip(distinct.tolist(), rows.tolist(), strict=True)
        )
    plain = NumericAttribute("offset", (distinct[0], distinct[-1]), integer=True)
    plain = with_quantile_bins(plain, offsets)
    places, entries = plain.entries
    totals = np.histogram(offsets, plain.edges)[0]
    weights = entries[:, 2] / np.bincount(places, entries[:, 2])[places] * totals[places]
    return tuple(
        (first, last, weight)
        for (first, last, _), weight in zip(entries.tolist(), weights.tolist(), strict=True)
    )
