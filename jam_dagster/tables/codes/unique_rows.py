"""Synthetic rows that no other has the same values of some columns as."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from jam_dagster.common.deferred import pd
from jam_dagster.tables.codes.within_bins import DrawnNumbers
from jam_dagster.tables.domain.attributes import Attribute
from jam_dagster.tables.domain.binned import BinnedAttribute
from jam_dagster.tables.domain.columns import numbers_of
from jam_dagster.tables.domain.domain import Domain
from jam_dagster.tables.domain.times import TimeAttribute
from jam_dagster.tables.domain.unique import Unique, repeated_rows

_MOST_CELLS = 10_000_000
_MANY = 1_000_000
_RARE = 1e-6
_ROUNDS = 30
_MOST_POINTS = 4096

_Codes = Mapping[str, npt.NDArray[np.intp]]


def spread_out(
    domain: Domain, codes: _Codes, one: Unique, rng: np.random.Generator
) -> dict[str, npt.NDArray[np.intp]]:
    """Return the codes that change so that cells hold the rows that they have.

    A cell has as many rows as different values can be decoded in it. If others have too many, some
    of these rows, by chance, get another code of the attribute of most cells: one with room next to
    the row's other codes, as often as rows have it. Rows without one get a code of another
    attribute. Those for which there is no room stay.
    """
    names = domain.canonical(one.clique(domain))
    if domain.size(names) > _MOST_CELLS:
        return {}
    changed: dict[str, npt.NDArray[np.intp]] = {}
    for mover in sorted(names, key=lambda name: -domain.attribute(name).size):
        column = _moved(domain, {**codes, **changed}, names, mover, rng)
        if column is not None:
            changed[mover] = column
    return changed


def _moved(
    domain: Domain, codes: _Codes, names: Sequence[str], mover: str, rng: np.random.Generator
) -> npt.NDArray[np.intp] | None:
    """Return codes of one attribute in which fewer cells have too many rows; None if none had."""
    others = [name for name in names if name != mover]
    kept = codes[mover]
    sizes = [domain.attribute(name).size for name in others]
    own = domain.attribute(mover).size
    known = np.logical_and.reduce(
        [~np.isin(codes[name], domain.attribute(name).missing_codes) for name in names]
    )
    rows = np.flatnonzero(known)
    group = np.ravel_multi_index(tuple(codes[name][rows] for name in others), sizes)
    room_of_group = np.ones(1)
    for name in others:
        room = values_in(domain.attribute(name), bool(domain.attribute(name).hour_from))
        room_of_group = np.outer(room_of_group, room).ravel()
    room = values_in(domain.attribute(mover), bool(domain.attribute(mover).hour_from))
    room[list(domain.attribute(mover).missing_codes)] = 0
    # Rows in an order by chance, of which the first of a cell stay.
    shuffled = rng.permutation(len(rows))
    cells = group[shuffled] * own + kept[rows][shuffled]
    order = np.argsort(cells, kind="stable")
    starts = np.flatnonzero(np.diff(cells[order], prepend=-1))
    rank = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    most = np.minimum(room_of_group[group[shuffled][order]] * room[cells[order] % own], _MANY)
    excess = shuffled[order][rank >= most]
    if not len(excess):
        return None
    moved, often = kept.copy(), np.bincount(kept[rows], minlength=own).astype(np.float64)
    used = np.bincount(group * own + kept[rows], minlength=len(room_of_group) * own)
    groups = group[excess]
    order = np.argsort(groups, kind="stable")
    found, first = np.unique(groups[order], return_index=True)
    for place, here in zip(found.tolist(), np.split(excess[order], first[1:]), strict=True):
        limit = np.minimum(room_of_group[place] * room, _MANY)
        taken = used[place * own : (place + 1) * own]
        left = np.maximum(limit - taken, 0).astype(np.int64)
        slots = np.repeat(np.arange(own), np.minimum(left, len(here)))
        # A code that no row has is taken where the others have no room.
        weights = ((often + _RARE) / np.maximum(limit, 1))[slots]
        count = min(len(here), len(slots))
        if count:
            chosen = rng.choice(slots, count, replace=False, p=weights / weights.sum())
            moved[rows[here[:count]]] = chosen
    return moved


def values_in(attribute: Attribute, by_day: bool) -> npt.NDArray[np.float64]:
    """Return how many different values each code can be decoded to, shape (codes,)."""
    values = np.ones(attribute.size)
    if isinstance(attribute, BinnedAttribute):
        if attribute.scale is None:
            values[: attribute.bins] = _MANY
            return values
        first, last = attribute.grid_limits
        every = last - first + 1
        if by_day and isinstance(attribute, TimeAttribute):
            days = np.rint(every * attribute.clock.seconds / 86400)
            values[: attribute.bins] = np.maximum(days, 1)
            return values
        values[: attribute.bins] = every
        if attribute.within:
            indices, entries = attribute.entries
            points = (entries[:, 1] - entries[:, 0]) * attribute.scale + 1
            values[: attribute.bins] = np.bincount(indices, np.rint(points), attribute.bins)
    elif attribute.drawn:
        values[:] = _MANY
    return np.minimum(values, _MANY)


def draw_unique(
    columns: dict[str, Any],
    drawn: Mapping[str, DrawnNumbers],
    one: Unique,
    rng: np.random.Generator,
) -> None:
    """Draw numbers of rows that repeat others again in their bins, until none does.

    `columns` are decoded, and those of `drawn` may be drawn again, but for orders and formulas: the
    attribute whose bins have most numbers is. Rows that 30 draws do not help get a number of their
    bin that is free, if there is one.
    """
    movers = [name for name in one.attributes if name in drawn]
    if not movers:
        return
    mover = max(movers, key=lambda name: _room(drawn[name].attribute))
    numbers = drawn[mover]
    hours = None
    if numbers.attribute.hour_from is not None:
        hours = numbers_of(columns[numbers.attribute.hour_from])
    rest = [pd.factorize(columns[name])[0] for name in one.attributes if name != mover]

    def repeats() -> npt.NDArray[np.intp]:
        points = np.where(numbers.null, -1, pd.factorize(numbers.points)[0])
        return np.flatnonzero(repeated_rows([*rest, points]))

    for _ in range(_ROUNDS):
        rows = repeats()
        if not len(rows):
            break
        _again(numbers, rows, hours, rng)
    for row in repeats().tolist():
        same = np.logical_and.reduce([one == one[row] for one in rest]) & ~numbers.null
        free = np.setdiff1d(_points_of(numbers, row, hours), numbers.points[same])
        if len(free):
            numbers.points[row] = rng.choice(free)
    columns[mover] = numbers.column


def _room(attribute: BinnedAttribute) -> float:
    """Return how many different values a bin can be decoded to, in the mean."""
    return float(values_in(attribute, bool(attribute.hour_from))[: attribute.bins].mean())


def _again(
    numbers: DrawnNumbers,
    rows: npt.NDArray[np.intp],
    hours: npt.NDArray[np.float64] | None,
    rng: np.random.Generator,
) -> None:
    numbers.draw_again(rows, rng)
    if hours is not None:
        numbers.points[rows] = numbers.attribute.at_hours(numbers.points[rows], hours[rows])


def _points_of(
    numbers: DrawnNumbers, row: int, hours: npt.NDArray[np.float64] | None
) -> npt.NDArray[Any]:
    """Return the numbers that a row's bin can be decoded to, few of them if they are many."""
    attribute, own = numbers.attribute, numbers.bins[row]
    if attribute.scale is None:
        return np.empty(0)
    first, last = (int(one[own]) for one in attribute.grid_limits)
    points = np.arange(first, min(last, first + _MOST_POINTS) + 1)
    if attribute.within:
        indices, entries = attribute.entries
        ends = np.rint(entries[indices == own, :2] * attribute.scale)
        inside = (points[:, None] >= ends[:, 0]) & (points[:, None] <= ends[:, 1])
        points = points[inside.any(axis=1)]
    if hours is not None:
        points = np.unique(attribute.at_hours(points, np.full(len(points), hours[row])))
    return points
