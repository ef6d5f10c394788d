"""Bins of a public column's numbers: about equally many rows in each, and what is within them."""

from __future__ import annotations

import dataclasses
import math
from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt

from jam_dagster.tables.domain.numeric import NumericAttribute, equal_width_edges

Numbers = npt.NDArray[np.float64]

_BINS = 32
"""Up to so many different numbers get a bin each."""

_QUANTILES = 24
# The other bins part those within which more of the variance than this would be lost.
_LOST = 0.001
_NEAR = 0.1

KEPT_VALUES = 100
"""Up to so many different numbers are the only ones to be decoded."""

# A number in so many rows has a bin of its own, or an entry of its own within one.
_SPIKE_ROWS = 20
_SPIKE_BINS = 2
_HEAP_ROWS = 5
_HEAP_SHARE = 0.1
# The other numbers of a bin are spread evenly in parts of at least so many rows.
_PARTS = 4
_PART_ROWS = 20
_EVEN = 0.05

# A float has as many digits, and an edge between two numbers needs no more.
_DIGITS = 17
_LITTLE = 1e-5
"""The bounds of other floats are so much wider, in parts of their range, if that is shorter."""

_GAP = 10.0
"""No number is drawn in a gap so many times as wide as most between public values."""


def with_quantile_bins(draft: NumericAttribute, values: Numbers) -> NumericAttribute:
    """Return an attribute whose bins, and what is within them, follow a public column."""
    distinct, rows = np.unique(values, return_counts=True)
    if len(distinct) == 1:
        return with_entries(draft, values)
    if draft.scale is None and len(distinct) > _BINS:
        low, high = draft.edges[0], draft.edges[-1]
        little = _LITTLE * (high - low)
        if math.isfinite(little):
            ends = _roundest(low - little, low), _roundest(high, high + little)
            draft = dataclasses.replace(draft, edges=ends)
    if len(distinct) <= _BINS:
        chosen = {_between(draft, low, high) for low, high in pairwise(distinct.tolist())}
        low, high = draft.edges
        if draft.scale is not None and round((high - low) * draft.scale) + 1 == len(distinct):
            chosen = set(equal_width_edges(low, high, len(distinct)))
    else:
        chosen = _quantile_edges(draft, distinct, rows)
    edges = _occupied(draft, chosen, distinct)
    while len(edges) <= _BINS:
        split = _split(edges, distinct, rows)
        if split is None or split in edges:
            break
        edges = tuple(sorted({*edges, split}))
    return with_entries(dataclasses.replace(draft, edges=edges), values)


def with_entries(binned: NumericAttribute, values: Numbers) -> NumericAttribute:
    """Return an attribute that says what is within its bins, as in a public column."""
    distinct, rows = np.unique(values, return_counts=True)
    least, largest = _on_steps(binned, float(distinct[0]))
    entries: list[tuple[float, float, float]] = []
    clock = binned.scale == 1 and _is_clock(distinct)
    for index, (first, end) in enumerate(pairwise(_edge_indices(binned.edges, distinct))):
        held, times = distinct[first:end], rows[first:end]
        if first == end or binned.bin_limits[0][index] == binned.bin_limits[1][index]:
            continue
        if len(distinct) <= KEPT_VALUES:
            entries += zip(held.tolist(), held.tolist(), times.tolist(), strict=True)
        else:
            entries += _entries(binned, (least[index], largest[index]), held, times, clock)
    return dataclasses.replace(binned, within=tuple(entries))


def with_far_values(
    binned: NumericAttribute, values: Numbers, first: float, last: float
) -> NumericAttribute:
    """Return an attribute that keeps the values of a public column beyond two values as they are.

    They share a bin below the first one, and one above the last one.
    """
    low, high = binned.edges[0], binned.edges[-1]
    end = _beside(binned, last, 1)
    between = {*(one for one in binned.edges if first < one < last), low, high}
    between |= ({first} if first > low else set()) | ({end} if end < high else set())
    binned = with_entries(dataclasses.replace(binned, edges=tuple(sorted(between))), values)
    far = values[(values < first) | (values > last)]
    distinct, rows = np.unique(far, return_counts=True)
    entries = [one for one in binned.within if first <= one[0] <= last]
    entries += zip(distinct.tolist(), distinct.tolist(), rows.tolist(), strict=True)
    return dataclasses.replace(binned, within=tuple(sorted(entries)))


def step_of(draft: NumericAttribute, values: Numbers) -> float | None:
    """Return how far apart all numbers of a public column are, if that is more than a decimal.

    Up to a hundred different numbers are the only ones that are decoded.
    """
    distinct = np.unique(values)
    if draft.scale is None or len(distinct) <= KEPT_VALUES:
        return None
    points = np.rint(distinct * draft.scale).astype(np.int64)
    apart = int(np.gcd.reduce(np.diff(points)))
    return float(apart / draft.scale) if apart > 1 else None


def _on_steps(binned: NumericAttribute, start: float) -> tuple[Numbers, Numbers]:
    """Return the least and the largest number of each bin that is whole steps above the first."""
    if binned.points_apart == 1 or binned.scale is None:
        return binned.bin_limits
    apart, zero = binned.points_apart, round(start * binned.scale)
    first, last = (one - zero for one in binned.grid_limits)
    return (
        binned.from_grid(-(-first // apart) * apart + zero),
        binned.from_grid(last // apart * apart + zero),
    )


def _between(draft: NumericAttribute, low: float, high: float) -> float:
    """Return an edge between two values that parts them halfway, on the grid if there is one."""
    middle = low / 2 + high / 2
    if draft.scale is None:
        return middle if low < middle else high
    point = math.floor(round(low * draft.scale) + round((high - low) * draft.scale + 1) / 2)
    edge = float(point / draft.scale)
    return edge if edge < draft.edges[-1] else middle


def _quantile_edges(
    draft: NumericAttribute, distinct: Numbers, rows: npt.NDArray[np.intp]
) -> set[float]:
    total = int(rows.sum())
    spikes = np.flatnonzero(rows >= max(_SPIKE_BINS * total / _QUANTILES, _SPIKE_ROWS))
    edges: set[float] = set()
    for spike in spikes.tolist():
        edges.add(float(distinct[spike]))
        if spike + 1 < len(distinct):
            edges.add(_above(draft, float(distinct[spike]), float(distinct[spike + 1])))
    rest = np.delete(rows, spikes)
    others = np.delete(distinct, spikes)
    below = np.cumsum(rest) / max(rest.sum(), 1)
    number = max(round(_QUANTILES * rest.sum() / total), 1)
    for index in range(1, number):
        around = np.searchsorted(below, [(index - 0.3) / number, (index + 0.3) / number])
        low, high = others[np.minimum(around, len(others) - 1)].tolist()
        edges.add(_roundest(low, high))
    if spikes.size and spikes[-1] == len(distinct) - 1:
        # The last bin is closed: it ends at the spike, and begins just below.
        top = float(distinct[-1])
        edges = edges - {top} | {_between(draft, _beside(draft, top, -1), top)}
    return edges


def _beside(attribute: NumericAttribute, value: float, step: Literal[1, -1]) -> float:
    """Return the next number above or below another one."""
    if attribute.scale is None:
        number = np.asarray(value, dtype=str(attribute.dtype).lower())
        return float(np.nextafter(number, step * np.inf))
    return float(attribute.from_grid(np.array([round(value * attribute.scale) + step]))[0])


def _above(attribute: NumericAttribute, low: float, high: float) -> float:
    """Return the next number above a value, or one of few digits near to it, below the next one."""
    least = _beside(attribute, low, 1)
    if attribute.scale is not None or least >= high:
        return least
    return _roundest(least, max(least, low + _NEAR * (high - low)))


def _roundest(low: float, high: float) -> float:
    """Return the number from `low` to `high` that is a multiple of the largest 1, 2 or 5 x 10^n."""
    if low == high:
        return low
    largest = math.floor(math.log10(max(abs(low), abs(high))))
    for power in range(largest, largest - _DIGITS, -1):
        for factor in (10, 5, 2):
            step = factor * 10.0**power
            if not step:  # No float is finer than the least one.
                return low
            number = float(f"{math.ceil(low / step) * step:.15g}")
            if low <= number <= high:
                return number
    return low


def _occupied(draft: NumericAttribute, edges: set[float], distinct: Numbers) -> tuple[float, ...]:
    """Return increasing edges from the least to the largest value, with values in each bin."""
    low, high = draft.edges
    kept = [low]
    for edge in sorted(edge for edge in edges if low < edge < high):
        if np.diff(np.searchsorted(distinct, [kept[-1], edge]))[0]:
            kept.append(edge)
    return (*kept, high)


def _edge_indices(edges: tuple[float, ...], distinct: Numbers) -> list[int]:
    """Return the index of the first value in each bin, and last the number of values."""
    return [*np.searchsorted(distinct, edges[:-1]).tolist(), len(distinct)]


def _split(edges: tuple[float, ...], distinct: Numbers, rows: npt.NDArray[np.intp]) -> float | None:
    """Return an edge in the bin that loses most of the column's variance, unless that is little.

    Bins of equally many rows are wide where numbers are rare, and numbers are drawn within their
    bins independently of other columns: two columns of delays would hardly be related.
    """
    # The squares of the largest floats are infinite.
    unit = float(np.abs(distinct).max())
    center = np.average(distinct / unit, weights=rows)
    least = _LOST * float(rows @ (distinct / unit - center) ** 2)
    found = None
    for first, end in pairwise(_edge_indices(edges, distinct)):
        values, times = distinct[first:end], rows[first:end]
        middle = float(np.average(values / unit, weights=times))
        lost = float(times @ (values / unit - middle) ** 2)
        if len(values) > 1 and lost > least:
            least = lost
            middle *= unit
            near = _NEAR * (float(values[-1]) - float(values[0]))
            # Both parts hold a value: the first one is below the edge, the last one does not.
            low = min(max(middle - near, float(values[1])), float(values[-1]))
            found = _roundest(low, min(max(middle + near, low), float(values[-1])))
            if found == edges[-1]:
                found = float(values[-2] / 2 + values[-1] / 2)
    return found


def _entries(
    attribute: NumericAttribute,
    limits: tuple[float, float],
    values: Numbers,
    rows: npt.NDArray[np.intp],
    clock: bool,
) -> list[tuple[float, float, float]]:
    """Return what the numbers of one bin are like, nothing if they are spread evenly."""
    total = int(rows.sum())
    low, high = map(float, limits)
    heap = rows >= max(_HEAP_ROWS, _HEAP_SHARE * total)
    if attribute.scale is not None:
        # If a bin has few values, each of them has many rows.
        heap &= rows >= 2 * total / (round((high - low) * attribute.scale) + 1)
    heaps = list(zip(*[values[heap].tolist()] * 2, rows[heap].tolist(), strict=True))
    values, rows = values[~heap], rows[~heap]
    rest = int(rows.sum())
    if not rest:
        return heaps
    limits = (low, high)
    pieces = _hours(limits, values) if clock else _pieces(attribute, limits, values, rows)
    entries: list[tuple[float, float, float]] = []
    for (first, last), start, end in pieces:
        entries += _parts(attribute, (first, last), values[start:end], rows[start:end])
    even = entries == [(low, high, rest)] and not heaps and attribute.points_apart == 1
    return [] if even else [*heaps, *entries]


def _pieces(
    attribute: NumericAttribute,
    limits: tuple[float, float],
    values: Numbers,
    rows: npt.NDArray[np.intp],
) -> list[tuple[tuple[float, float], int, int]]:
    """Return the stretches of a bin between gaps."""
    low, high = limits
    spaces = np.diff(values)
    if attribute.scale is None or len(values) < 2 or rows.sum() < _PART_ROWS:
        return [((low, high), 0, len(values))]
    widest = max(_GAP * float(np.median(spaces)), _GAP / attribute.scale)
    starts = [0, *(np.flatnonzero(spaces > widest) + 1).tolist()]
    ends = [*starts[1:], len(values)]
    pieces = []
    for start, end in zip(starts, ends, strict=True):
        first, last = float(values[start]), float(values[end - 1])
        if start == 0 and first - low <= widest:
            first = low
        if end == len(values) and high - last <= widest:
            last = high
        pieces.append(((first, last), start, end))
    return pieces


def _is_clock(values: Numbers) -> bool:
    """Return whether numbers are times of day, such as 1259: whole, to 2400, and no 1275."""
    whole = bool((values % 100 < 60).all() and (values == np.floor(values)).all())
    return whole and values[0] >= 0 and values[-1] <= 2400 and len(values) > KEPT_VALUES


def _hours(
    limits: tuple[float, float], values: Numbers
) -> list[tuple[tuple[float, float], int, int]]:
    """Return the stretches of a bin within hours, for times of day have no 1275."""
    low, high = limits
    hours = values // 100
    starts = [0, *(np.flatnonzero(np.diff(hours)) + 1).tolist()]
    return [
        ((max(low, 100.0 * hours[start]), min(high, 100.0 * hours[start] + 59.0)), start, end)
        for start, end in zip(starts, [*starts[1:], len(values)], strict=True)
    ]


def _parts(
    attribute: NumericAttribute,
    limits: tuple[float, float],
    values: Numbers,
    rows: npt.NDArray[np.intp],
) -> list[tuple[float, float, float]]:
    """Return entries for the numbers of a stretch, one if they are spread evenly."""
    (low, high), rest = limits, int(rows.sum())
    middle = low + (high - low) / 2
    if abs(np.average(values, weights=rows) - middle) <= _EVEN * (high - low):
        return [(low, high, rest)]
    # Fewer rows are spread more evenly.
    parts = min(max(rest // _PART_ROWS, 1), _PARTS)
    upto = np.cumsum(rows)
    starts = np.unique(np.searchsorted(upto, rest * np.arange(parts) / parts, side="right"))
    counts = np.add.reduceat(rows, starts)
    if attribute.scale is None:
        # Stretches of any numbers meet at one of few digits.
        meet = [_roundest(float(values[one - 1]), float(values[one])) for one in starts[1:]]
        return list(zip([low, *meet], [*meet, high], counts.tolist(), strict=True))
    before = np.rint(values[starts[1:]] * attribute.scale) - attribute.points_apart
    ends = [*attribute.from_grid(before).tolist(), high]
    firsts = [low, *values[starts[1:]].tolist()]
    return list(zip(firsts, ends, counts.tolist(), strict=True))
