"""Drafting dates, timestamps, times of day and durations from a public column."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import numpy.typing as npt

from jam_dagster.common.deferred import pd
from jam_dagster.errors import DomainError
from jam_dagster.tables.domain.clock import clock_of
from jam_dagster.tables.domain.columns import texts_in
from jam_dagster.tables.domain.durations import DURATION_FORMATS
from jam_dagster.tables.domain.moment_texts import is_day_first, moment_in, reads
from jam_dagster.tables.domain.numeric import NumericAttribute
from jam_dagster.tables.domain.times import TimeAttribute, equal_unit_edges
from jam_dagster.tables.domain.units import DATE, DURATION, UNITS, Clock, Unit
from jam_dagster.tables.drafting.determined import ZONES
from jam_dagster.tables.drafting.quantile_bins import (
    KEPT_VALUES,
    with_entries,
    with_far_values,
    with_quantile_bins,
)

_MOST_BINS = 64
# So many offsets are listed each by itself if so many rows have one; others as numbers are.
_MOST_OFFSETS = 400
_OFFSET_ROWS = 5

NEARLY_ALL = 0.95
"""A format reads at least so many of a column's cells; the others become missing."""

# Half of the cells are enough if the others are a few words, such as n/a, among many values.
_MOST = 0.5
_MOST_WORDS = 5
_MANY_VALUES = 60
_HAS_DIGIT = re.compile(r"\d")

# At most one of so many different dates is far from all others, at either end.
_FAR_PART = 20

_SAMPLE = 200
_MINUTES = 50

_DATES = (
    *("%Y-%m-%d", "%Y/%m/%d", "%Y%m%d", "%d.%m.%Y", "%Y-%m"),
    *("%m/%d/%Y", "%d/%m/%Y", "%m-%d-%Y", "%d-%m-%Y"),
    *("%d.%m.%y", "%m/%d/%y", "%d/%m/%y"),
)
# With the month in words.
_NAMED = (
    *("%d %b %Y", "%d-%b-%Y", "%d-%b-%y", "%d%b%Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y"),
    *("%a, %d %b %Y", "%A, %d %B %Y", "%A, %B %d, %Y"),
)
_SHAPE = re.compile(
    r"(?P<date>[\d./-]{6,10}"
    r"|(?P<named>(?:[a-z]{3,9}, )?(?:\d\d?[ -]?[a-z]{3,9}[ -]?|[a-z]{3,9} \d\d?, )\d\d(?:\d\d)?)"
    r")?(?P<between>[ T]?)"
    r"(?P<clock>\d\d?:\d\d(?P<seconds>:\d\d(?P<fraction>\.\d{1,9})?)?(?P<half> [AP]M)?)?"
    r"(?P<zone>Z|[+-]\d\d:?\d\d)?",
    re.ASCII | re.IGNORECASE,
)
_LENGTH = re.compile(
    r"-?P.+|-?\d+[hms](?: ?\d+m)?(?: ?\d+s)?|-?\d+ days?,? .+|-?\d+:\d\d(?::\d\d(?:\.\d+)?)?",
    re.ASCII,
)
# Hours of a length go beyond a day, and a time of day with seconds is written with two digits.
_IS_LENGTH = re.compile(
    r"-(?!\d+[hms]$).+|P.+|\d+[hm] ?\d+[ms].*|\d+ day.+|(?:2[4-9]|[3-9]\d|\d{3,}):.+|\d:\d\d:.+",
    re.ASCII,
)
_FRACTION = re.compile(r"(?<=:\d\d)\.(\d{3,9})(?!\d)", re.ASCII)


def draft_time(
    name: str,
    column: pd.Series[Any],
    bins: int | None,
    nullable: bool,
    zone: str | None = None,
    day_first: bool | None = None,
) -> TimeAttribute | None:
    """Draft an attribute of dates or times; None if a column holds others.

    If days and months cannot be distinguished, `day_first` says which comes first, else the shorter
    time from the first date to the last.
    """
    found = seconds_in(name, column, nullable, zone, day_first)
    if found is None:
        return None
    seconds, read = found
    known = ~np.isnan(read)
    moments, indices = np.unique(read[known], return_inverse=True)
    unit = _unit(seconds, moments.tolist())
    clock = dataclasses.replace(seconds, unit=unit)
    counts = np.array(_in_unit(clock, seconds, moments.tolist()), dtype=np.float64)[indices]
    low, high = counts.min(), counts.max()
    first, last = _without_far(np.unique(counts)) if clock.kind == "instant" else (low, high)
    is_far = first > low or last < high
    options: dict[str, Any] = {
        "nullable": nullable,
        "clip": True,
        "dtype": clock.dtype,
        "unreadable": "apart" if nullable else "error",
        "unit": unit,
        "zone": clock.zone,
        "format": clock.format,
    }
    if bins is not None:
        width = int(min(bins, high - low + 1))
        return TimeAttribute(name, equal_unit_edges(low, high, width), **options)
    plain = NumericAttribute(name, (low, max(high, low + 0.5)), integer=True)
    # In bins of days, weeks, months or years a person can write other bounds in one line.
    every = None if clock.kind == "duration" or is_far else _every(clock, low, high)
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
    if is_far:
        plain = with_far_values(plain, counts, first, last)
    return TimeAttribute(name, plain.edges, within=plain.within, **options)


def _without_far(distinct: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Return the first and the last of a column's dates, without rare ones far from all others.

    A date such as 1900-01-01 or 9999-12-31 means unknown or for ever. None between it and the
    others is drawn: the gap is longer than nearly all others take.
    """
    least = len(distinct) // _FAR_PART
    if len(distinct) <= KEPT_VALUES:
        # The values are the only ones to be drawn.
        return float(distinct[0]), float(distinct[-1])
    gaps = np.diff(distinct) > distinct[-1 - least] - distinct[least]
    below, above = np.flatnonzero(gaps[:least]), np.flatnonzero(gaps[len(gaps) - least :])
    start = int(below[-1]) + 1 if below.size else 0
    end = len(gaps) - least + int(above[0]) if above.size else len(distinct) - 1
    return float(distinct[start]), float(distinct[end])


def reads_enough(*, cells: int, read: int, values: int, others: Collection[object]) -> bool:
    """Return whether a format reads a column: nearly all cells, or all but a few words.

    So many `cells` are not missing, of which so many are `read` as so many different `values`. An
    other text with a digit, such as 90+, may be a value.
    """
    words = len(others) <= _MOST_WORDS and not any(map(_HAS_DIGIT.search, map(str, others)))
    return read >= (_MOST if words and values > _MANY_VALUES else NEARLY_ALL) * cells


def seconds_in(
    name: str,
    column: pd.Series[Any],
    nullable: bool,
    zone: str | None = None,
    day_first: bool | None = None,
) -> tuple[Clock, npt.NDArray[np.float64]] | None:
    """Return what counts the seconds of a column, and its counts; None for others than times.

    The counts are those of cells that are not missing, NaN of one that does not read.
    """
    if pd.api.types.is_object_dtype(column.dtype):
        return None
    column = column.dropna()
    indices, distinct = pd.factorize(column)
    if isinstance(column.dtype, pd.StringDtype):
        seconds = _written_clock(name, texts_in(column), day_first)
    else:
        seconds = _seconds_clock(name, column.dtype, distinct, np.bincount(indices), nullable)
    if seconds is None:
        return None
    if zone is not None:
        seconds = dataclasses.replace(seconds, zone=zone)
    counts = np.array([seconds.count_of(value) for value in distinct])
    others, read = distinct[np.isnan(counts)], counts[indices]
    known = int((~np.isnan(read)).sum())
    values = len(distinct) - len(others)
    if not reads_enough(cells=len(read), read=known, values=values, others=others):
        return None
    return (seconds, read) if nullable or known == len(read) else None


def _in_units(
    name: str,
    clock: Clock,
    every: Unit,
    counts: npt.NDArray[np.float64],
    options: dict[str, Any],
) -> TimeAttribute:
    """Return an attribute whose bins are units, alike within: only bounds show a year."""
    low, high = counts.min(), counts.max()
    if every == clock.unit:
        return TimeAttribute(name, equal_unit_edges(low, high, int(high - low + 1)), **options)
    distinct, indices = np.unique(counts, return_inverse=True)
    starts = _starts(clock, every, distinct)
    offsets = (distinct - starts)[indices]
    if not clock.counts_in_utc or every in ("day", "hour", "minute"):
        draft = TimeAttribute(name, (low, high), every=every, **options)
        if clock.kind == "time":
            return draft
        return dataclasses.replace(draft, within=shape_of(offsets))
    # The day and the time of day, apart: both would be too many to be listed together.
    days = _starts(clock, "day", distinct)
    length = 86400 // clock.seconds
    low, high = (clock.count_of_longer("day", one) for one in (low, high))
    bounds = clock.first_of("day", low), clock.first_of("day", high + 1) - 1
    within = [
        (first * length, last * length + length - 1, weight)
        for first, last, weight in shape_of(np.rint((days - starts) / length)[indices])
    ]
    # By the clocks of the zone, which may have been set that day.
    times = np.array([clock.time_of_day(one) for one in distinct.tolist()])
    of_day = shape_of(times[indices])
    return TimeAttribute(name, bounds, every=every, within=tuple(within), of_day=of_day, **options)


def _starts(clock: Clock, every: Unit, counts: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
    """Return the first unit of the longer unit that each of some units is in."""
    if clock.zone is None and clock.counts_in_utc and every in ("day", "week"):
        first = clock.first_of(every, 0)
        length = clock.first_of(every, 1) - first
        return (counts - first) // length * length + first
    longer, indices = np.unique(
        [clock.count_of_longer(every, one) for one in counts.tolist()], return_inverse=True
    )
    return np.array([clock.first_of(every, one) for one in longer.tolist()])[indices]


def _values_of(draft: TimeAttribute) -> int | None:
    """Return how many values an attribute decodes to, None if an entry has several."""
    if not draft.within:
        return draft.bins
    return len(draft.placed) if all(one[0] == one[1] for one in draft.placed) else None


def _seconds_clock(
    name: str, dtype: Any, distinct: Any, rows: npt.NDArray[np.int64], nullable: bool
) -> Clock | None:
    """Return what counts the values of a column in seconds, None if these are others."""
    text = str(dtype)
    if pd.api.types.is_timedelta64_dtype(dtype):
        return clock_of(name, "second", dtype=text if text.startswith("timedelta") else DURATION)
    if isinstance(dtype, pd.DatetimeTZDtype):
        known = getattr(dtype.tz, "key", None) or getattr(dtype.tz, "zone", None) or "UTC"
        return clock_of(name, "second", zone=known, dtype=text)
    if pd.api.types.is_datetime64_dtype(dtype):
        return clock_of(name, "second", dtype=text)
    if text.startswith("date32"):
        return clock_of(name, "day", dtype=DATE)
    if text.startswith(("time32", "time64")):
        return clock_of(name, "second", dtype=text)
    if pd.api.types.is_integer_dtype(dtype):
        whole = text.replace("int", "Int") if nullable and text.startswith("int") else text
        dates = [
            18000101 <= one <= 22001231 and reads("%Y%m%d", str(one)) for one in distinct.tolist()
        ]
        share = rows @ np.array(dates) / rows.sum()
        nearly = share >= (NEARLY_ALL if nullable else 1)
        return clock_of(name, "second", form="%Y%m%d", dtype=whole) if nearly else None
    return None


def _written_clock(name: str, texts: Mapping[str, int], day_first: bool | None) -> Clock | None:
    """Return what reads most texts, each in so many rows; None if nothing does."""
    distinct = list(texts)
    sample = distinct[:: max(len(distinct) // _SAMPLE, 1)]
    lengths = 2 * sum(map(bool, map(_LENGTH.fullmatch, sample))) > len(sample)
    if lengths and any(map(_IS_LENGTH.fullmatch, distinct)):
        clocks = [clock_of(name, "second", form=one) for one in DURATION_FORMATS]
        return _most_alike(clocks, sample)
    found = _formats_of_most(sample)
    if not found:
        return None
    if len(found) > 1:
        read = {one: sum(texts[text] for text in distinct if reads(one, text)) for one in found}
        found = [one for one in found if read[one] == max(read.values())]
        found.sort(key=lambda one: _span(one, distinct))
        found.sort(key=lambda one: day_first is not None and is_day_first(one) != day_first)
    written = found[0]
    # Codes of four digits have no fifty minutes.
    if written == "%H%M" and len({text[2:] for text in distinct}) < _MINUTES:
        return None
    zone = "UTC" if written.endswith("Z") else None
    if written.endswith("%:z"):
        each_offset = {one[-6:]: one for one in distinct}.values()
        known = (one for one in (*sample, *each_offset) if reads(written, one))
        zone = _zone_of([moment_in(one, written) for one in known])
    forms = [written, re.sub("%([dmHI])", r"%-\1", written)]
    forms += [one.replace("%f", "%3f") for one in forms if "%f" in one]
    forms += [one.replace("%9f", "%7f") for one in forms if "%9f" in one]
    clocks = [clock_of(name, "second", zone=zone, form=one) for one in forms]
    return _most_alike(clocks, sample)


def _formats_of_most(sample: Sequence[str]) -> list[str]:
    """Return the formats that more than half of the texts may be written in."""
    places: dict[str, list[int]] = {}
    for place, text in enumerate(sample):
        for one in _forms_of(text):
            places.setdefault(one, []).append(place)
    # Python keeps how a few formats are read: one format after the other reads them fastest.
    read = {
        one: [place for place in those if reads(one, sample[place])]
        for one, those in places.items()
        if 2 * len(those) > len(sample)
    }
    found = [one for one, those in read.items() if 2 * len(those) > len(sample)]
    return sorted(found, key=lambda one: read[one][0])


def formats_of(text: str) -> Iterator[str]:
    """Yield the formats that a text may be written in."""
    return (one for one in _forms_of(text) if reads(one, text))


def _forms_of(text: str) -> Iterator[str]:
    """Yield the formats of texts that look like this one."""
    if len(text) == 4 and text.isdecimal():
        yield "%H%M"
    shape = _SHAPE.fullmatch(text)
    if shape is None or not (shape["date"] or shape["clock"]):
        return
    if bool(shape["between"]) != bool(shape["date"] and shape["clock"]):
        return
    if shape["zone"] and not (shape["date"] and shape["clock"]):
        return
    clock = ""
    if shape["clock"]:
        clock = "%I:%M" if shape["half"] else "%H:%M"
        fraction = shape["fraction"] or ""
        clock += ":%S" * bool(shape["seconds"])
        clock += (".%9f" if len(fraction) > len(".000000") else ".%f") * bool(fraction)
        clock += " %p" * bool(shape["half"])
    zone = {None: "", "Z": "Z"}.get(shape["zone"] and shape["zone"].upper(), "%:z")
    dates = _NAMED if shape["named"] else _DATES if shape["date"] else ("",)
    for one in dates:
        if one != "%Y%m%d" or len(shape["date"]) == 8:
            yield f"{one}{shape['between']}{clock}{zone}"


def _most_alike(clocks: Sequence[Clock], texts: Sequence[str]) -> Clock:
    """Return the clock that writes most texts as they are."""

    def alike(clock: Clock) -> int:
        counts = [(clock.count_of(text), text) for text in texts]
        # Fractions of a second are not counted.
        return sum(
            _FRACTION.sub(lambda one: "." + "0" * len(one[1]), text) == clock.values_of([count])[0]
            for count, text in counts
            if not math.isnan(count)
        )

    return max(clocks, key=alike)


def _span(written: str, texts: Sequence[str]) -> float:
    """Return how long is between the first and the last moment that a format reads."""
    clock = clock_of("", "second", form=written.removesuffix("%:z"))
    counts = [clock.count_of(one) for one in texts if reads(written, one)]
    return max(counts) - min(counts)


def _zone_of(moments: Sequence[datetime]) -> str:
    """Return a zone that has the offsets of moments, a fixed one where they have one offset."""
    offsets = {moment.utcoffset() for moment in moments}
    hours = [one / timedelta(hours=1) for one in offsets if one is not None]
    if len(hours) == 1 and hours[0].is_integer() and abs(hours[0]) <= 12:
        return f"Etc/GMT{-hours[0]:+.0f}" if hours[0] else "UTC"
    for name in ZONES:
        with suppress(ZoneInfoNotFoundError):
            zone = ZoneInfo(name)
            if all(moment.astimezone(zone).utcoffset() == moment.utcoffset() for moment in moments):
                return name
    return "UTC"


def _unit(seconds: Clock, counts: list[float]) -> Unit:
    """Return the longest unit of which all counts of a shorter one are whole ones."""
    finest = UNITS.index(seconds.unit)
    for unit in UNITS[:finest]:
        try:
            clock = dataclasses.replace(seconds, unit=unit)
        except DomainError:  # A unit that this kind does not have.
            continue
        few = seconds.kind != "instant" or len(counts) <= KEPT_VALUES
        if unit in ("quarter", "week") and few:
            continue
        # Most columns show in their first values that they are of no longer unit.
        if all(
            _in_unit(seconds, clock, _in_unit(clock, seconds, part)) == part
            for part in (
                counts[start : start + _SAMPLE] for start in range(0, len(counts), _SAMPLE)
            )
        ):
            return unit
    return seconds.unit


def _in_unit(clock: Clock, other: Clock, counts: Sequence[float]) -> list[int]:
    """Return the units of a clock in which those of another one begin."""
    if clock.unit == other.unit:
        return [*map(int, counts)]
    if clock.kind == "instant":
        return [clock.count_at(other.moment(one)) for one in counts]
    return [int(one * other.seconds // clock.seconds) for one in counts]


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


def shape_of(offsets: npt.NDArray[np.float64]) -> tuple[tuple[float, float, float], ...]:
    """Return how often units are how far after a longer one's beginning, rare ones spread out."""
    distinct, rows = np.unique(offsets, return_counts=True)
    most = _MOST_OFFSETS if len(offsets) >= _OFFSET_ROWS * len(distinct) else KEPT_VALUES
    if len(distinct) <= most:
        return tuple(
            (offset, offset, float(times))
            for offset, times in zip(distinct.tolist(), rows.tolist(), strict=True)
        )
    plain = NumericAttribute("offset", (distinct[0], distinct[-1]), integer=True)
    plain = with_quantile_bins(plain, offsets)
    indices, entries = plain.entries
    totals = np.histogram(offsets, plain.edges)[0]
    weights = entries[:, 2] / np.bincount(indices, entries[:, 2])[indices] * totals[indices]
    return tuple(
        (first, last, weight)
        for (first, last, _), weight in zip(entries.tolist(), weights.tolist(), strict=True)
    )
