"""Numbers drawn within their bins, and drawn again where they would break an order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from jam_dagster.common.deferred import pd
from jam_dagster.tables.domain.binned import BinnedAttribute
from jam_dagster.tables.domain.constraints import Order

_ROUNDS = 30
_ROUNDS_APART = 100


@dataclass
class DrawnNumbers:
    """The numbers of an attribute's records.

    Arrays have shape ``(records,)``. A bin is any where the value is missing; `points` are grid
    points where the attribute has them.
    """

    attribute: BinnedAttribute
    bins: npt.NDArray[np.intp]
    null: npt.NDArray[np.bool_]
    points: npt.NDArray[Any]

    @classmethod
    def draw(
        cls,
        attribute: BinnedAttribute,
        codes: npt.NDArray[Any],
        rng: np.random.Generator,
    ) -> Self:
        """Draw a number in the bin of each code.

        A missing value gets one too, so that other draws do not depend on it.
        """
        null = np.isin(codes, attribute.missing_codes)
        bins = np.where(null, 0, codes).astype(np.intp)
        return cls(attribute, bins, null, _points(attribute, bins, rng))

    def draw_again(self, rows: npt.NDArray[np.intp], rng: np.random.Generator) -> None:
        """Draw the numbers of some records anew, in their bins."""
        self.points[rows] = _points(self.attribute, self.bins[rows], rng)

    @property
    def column(self) -> pd.Series[Any]:
        """The values as they are decoded."""
        return self.attribute.column_of(self.points, self.null)

    def put(self, rows: npt.NDArray[np.intp], numbers: npt.NDArray[np.float64]) -> None:
        """Set the numbers of some records."""
        scale = self.attribute.scale
        self.points[rows] = numbers if scale is None else np.rint(numbers * scale)

    def numbers_at(self, rows: Any) -> npt.NDArray[np.float64]:
        """Return the numbers of some records."""
        points: npt.NDArray[Any] = self.points[rows]
        return points if self.attribute.scale is None else self.attribute.from_grid(points)


def put_in_order(
    drawn: Mapping[str, DrawnNumbers], orders: Sequence[Order], rng: np.random.Generator
) -> None:
    """Draw numbers anew until they keep orders, so that they are those that would be drawn if kept.

    Values that an order puts so far apart are drawn so first, where bins allow it, and again where
    they are never apart otherwise. Values that 30 draws do not help are put at those ends of its
    bins that keep the orders. Bins stay as they are: where no numbers in them keep an order, it
    stays broken.

    `orders` come each after those on its lower attribute.
    """
    placed: set[str] = set()
    for order in orders:
        if order.apart and order.higher not in placed:
            everywhere = np.arange(len(drawn[order.lower].points))
            _draw_apart(drawn, order, rng, everywhere, order.lower in placed)
            placed.add(order.higher)
    exact = [order for order in orders if order.only]
    # The distance of these is drawn, not both ends.
    held = {order.higher for order in exact}
    for group in _connected(orders):
        names = [name for name in drawn if any(name in order.attributes for order in group)]
        rows = _broken(drawn, group, np.arange(len(drawn[names[0]].points)))
        for _ in range(_ROUNDS_APART if held.intersection(names) else _ROUNDS):
            if not len(rows):
                break
            for name in names:
                if name not in held:
                    drawn[name].draw_again(rows, rng)
            for order in exact:
                if order in group:
                    _draw_apart(drawn, order, rng, rows, True)
            rows = _broken(drawn, group, rows)
        group = [order for order in group if not order.only]
        rows = _broken(drawn, group, rows)
        for limits in (attrgetter("drawn_limits"), attrgetter("bin_limits")):
            if len(rows):
                _put_apart(drawn, group, rows, limits)
                rows = _broken(drawn, group, rows)


def _draw_apart(
    drawn: Mapping[str, DrawnNumbers],
    order: Order,
    rng: np.random.Generator,
    rows: npt.NDArray[np.intp],
    placed: bool,
) -> None:
    """Draw lower numbers anew, unless they are placed, until so much more is in the higher bins.

    Both are then those that would be drawn of the lower bin and of the distances if they were so,
    moved to the nearest number that occurs, unless they are never apart otherwise. Rows that no
    draw helps stay as they are.
    """
    low, high = drawn[order.lower], drawn[order.higher]
    first, last, weights = np.array(order.apart).T
    upto = np.cumsum(weights / weights.max())
    low_least, low_most = map(order.least_higher, low.attribute.bin_limits)
    least, most = high.attribute.bin_limits
    near = most[high.bins] - low_least[low.bins] >= first.min()
    near &= least[high.bins] - low_most[low.bins] <= last.max()
    rows = rows[(near & ~low.null & ~high.null)[rows]]
    begun = low.points[rows].copy()
    for draw in range(_ROUNDS_APART):
        if not len(rows):
            return
        if draw and not placed:
            low.draw_again(rows, rng)
        chosen = np.searchsorted(upto, rng.random(len(rows)) * upto[-1], side="right")
        chosen = np.minimum(chosen, len(upto) - 1)
        share = rng.random(len(rows))
        between = (1.0 - share) * first[chosen] + share * last[chosen]
        if high.attribute.integer:
            between = np.floor(first[chosen] + share * (last[chosen] - first[chosen] + 1.0))
        begin, bins = low.numbers_at(rows), high.bins[rows]
        ends = order.least_higher(begin) + np.minimum(between, last[chosen])
        if (scale := high.attribute.scale) is not None:
            ends = high.attribute.from_grid(np.rint(ends * scale))
        inside = np.flatnonzero((ends >= least[bins]) & (ends <= most[bins]))
        moved = ends[inside] if order.only else high.attribute.nearest(ends[inside])
        fits = (moved >= least[bins[inside]]) & (moved <= most[bins[inside]])
        fits &= order.holds(begin[inside], moved)
        inside, moved = inside[fits], moved[fits]
        high.put(rows[inside], moved)
        left = np.ones(len(rows), dtype=bool)
        left[inside] = False
        rows, begun = rows[left], begun[left]
    low.points[rows] = begun


def _put_apart(
    drawn: Mapping[str, DrawnNumbers],
    orders: Sequence[Order],
    rows: npt.NDArray[np.intp],
    limits: Callable[[BinnedAttribute], tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]],
) -> None:
    """Put what is only lower at the beginning of its bins, what is only higher at the end."""
    lower = {order.lower for order in orders}
    for name in dict.fromkeys(name for order in orders for name in order.attributes):
        one = drawn[name]
        one.put(rows, limits(one.attribute)[int(name not in lower)][one.bins[rows]])
    for order in orders:
        if order.higher in lower:
            wrong, one = _broken(drawn, [order], rows), drawn[order.higher]
            least = order.least_higher(drawn[order.lower].numbers_at(wrong))
            scale = one.attribute.scale
            if scale is not None:
                # A float just above a grid point is that one.
                points = np.round(least * scale, 6)
                least = (np.floor(points) + 1 if order.strict else np.ceil(points)) / scale
            elif order.strict:
                least = np.nextafter(least, np.inf)
            one.put(wrong, np.minimum(least, limits(one.attribute)[1][one.bins[wrong]]))


def _points(
    attribute: BinnedAttribute, bins: npt.NDArray[np.intp], rng: np.random.Generator
) -> npt.NDArray[Any]:
    low, high = _range(attribute, bins, rng)
    if attribute.scale is not None:
        apart = attribute.points_apart
        points: npt.NDArray[np.int64] = (
            rng.integers(low, high, endpoint=True)
            if apart == 1
            else low + apart * rng.integers(0, (high - low) // apart, endpoint=True)
        )
        return attribute.at_drawn_times(points, rng)
    # Unlike low + share * (high - low), this cannot overflow.
    share = rng.random(len(bins))
    numbers: npt.NDArray[np.float64] = (1.0 - share) * low + share * high
    if str(attribute.dtype).lower() == "float32":
        numbers = numbers.astype(np.float32).astype(np.float64)
    # Rounding may have moved a number over the limit of its bin.
    limited: npt.NDArray[np.float64] = np.clip(numbers, low, high)
    return limited


def _range(
    attribute: BinnedAttribute, bins: npt.NDArray[np.intp], rng: np.random.Generator
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the least and the largest number to draw for each record, grid points if there are."""
    if not attribute.within:
        limits = attribute.bin_limits if attribute.scale is None else attribute.grid_limits
        return limits[0][bins], limits[1][bins]
    indices, entries = attribute.entries
    # Entries follow one another on a line, each as long as its weight.
    ends = np.cumsum(entries[:, 2])
    first = np.searchsorted(indices, np.arange(attribute.bins), side="left")
    last = np.searchsorted(indices, np.arange(attribute.bins), side="right") - 1
    starts = np.concatenate([[0.0], ends])[first]
    drawn = starts[bins] + rng.random(len(bins)) * (ends[last] - starts)[bins]
    chosen = np.clip(np.searchsorted(ends, drawn, side="right"), first[bins], last[bins])
    low, high = entries[chosen, 0], entries[chosen, 1]
    if attribute.scale is None:
        return low, high
    return tuple(np.rint(one * attribute.scale).astype(np.int64) for one in (low, high))


def _connected(orders: Sequence[Order]) -> list[list[Order]]:
    """Return the orders in groups that have no attribute in common."""
    groups: list[list[Order]] = []
    for order in orders:
        near = [
            group
            for group in groups
            if any(set(one.attributes) & set(order.attributes) for one in group)
        ]
        groups = [group for group in groups if group not in near]
        groups.append([one for one in orders if one == order or any(one in g for g in near)])
    return groups


def _broken(
    drawn: Mapping[str, DrawnNumbers], orders: Sequence[Order], rows: npt.NDArray[np.intp]
) -> npt.NDArray[np.intp]:
    """Return which of some records break an order."""
    wrong = np.zeros(len(rows), dtype=bool)
    for order in orders:
        low, high = drawn[order.lower], drawn[order.higher]
        known = ~low.null[rows] & ~high.null[rows]
        wrong |= known & ~order.holds(low.numbers_at(rows), high.numbers_at(rows))
    return rows[wrong]
