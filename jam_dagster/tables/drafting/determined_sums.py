"""Columns of a public table that are sums of multiples of others, or mean values of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, combinations, product
from math import lcm
from typing import Any

import numpy as np
import numpy.typing as npt

from jam_dagster.tables.drafting.value_columns import Floats, Relation, ValueColumns

_MOST_IN_PAIRS = 200
_MOST_IN_TRIPLES = 60
_LARGEST_SUBSET = 4
_LEAST_SHARES = 3
_LARGEST_FACTOR = 10_000
_LARGEST_DIVISOR = 12
_DECIMAL_DIVISORS = (2, 4, 5, 8, 10)
_ROWS = (8, 60)
_MOST_FOUND = 2000
_NEARLY_ALL = 1 - 1e-9
_MOST_UNEXPLAINED = 1e-3
_BATCH = 2**17

_Codes = npt.NDArray[np.intp]


def sums(values: ValueColumns, targets: Sequence[str]) -> Iterator[Relation]:
    """Yield columns that are a sum of whole multiples of up to three others, or a part of one."""
    found: set[tuple[int, tuple[int, ...]]] = set()
    for way in (_added, _solved, _runs):
        for index, sources, factors in way(values, targets):
            if (key := (index, tuple(sorted(sources)))) not in found:
                relation = _relation(values, index, sources, factors)
                if relation is not None:
                    found.add(key)
                    yield relation


def shares(values: ValueColumns) -> Iterator[Relation]:
    """Yield columns that are the rest of others which add up to the same number in all rows.

    These are neighbours, or three or four of any columns. The rest is the column that varies most.
    Computed of other rows, it may be below what there is.
    """
    neighbours = (
        range(first, last)
        for first, last in sorted(_windows(values), key=lambda one: one[0] - one[1])
        if _constant(_sum(values, first, last), values, first)
    )
    others = (one for one, _ in _same(values, _LEAST_SHARES, (1.0,)))
    found: set[int] = set()
    for columns in chain(neighbours, others):
        if found.isdisjoint(columns):
            target = max(columns, key=lambda one: float(np.nanstd(values.numbers[:, one])))
            rest = [one for one in columns if one != target]
            relation = _relation(values, target, rest, -np.ones(len(rest)))
            if relation is not None:
                found.update(columns)
                yield relation


def _runs(values: ValueColumns, targets: Sequence[str]) -> Iterator[tuple[int, list[int], Floats]]:
    """Yield columns that are the sum of many neighbours."""
    numbers = {one: values.numbers[:, one] for one in _wanted(values, targets)}
    for first, last in _windows(values):
        if last - first > _LARGEST_SUBSET - 1:
            added = _sum(values, first, last)
            for target, own in numbers.items():
                # One row rules out nearly all.
                outside = not first <= target < last
                rest = added - own
                few = outside and _constant(rest[: _ROWS[0]], values, target)
                if few and _constant(rest, values, target):
                    yield target, list(range(first, last)), np.ones(last - first)


def _windows(values: ValueColumns) -> Iterator[tuple[int, int]]:
    """Yield the first and last of three neighbours or more whose decimals are few."""
    known = [one is not None for one in values.decimals]
    for first in range(len(known) if len(known) <= _MOST_IN_PAIRS else 0):
        for last in range(first + 1, len(known) + 1):
            if not known[last - 1]:
                break
            if last - first >= _LEAST_SHARES:
                yield first, last


def _sum(values: ValueColumns, first: int, last: int) -> Floats:
    added: Floats = values.numbers[:, first:last].sum(axis=1)
    return added


def _constant(numbers: Floats, values: ValueColumns, like: int) -> bool:
    known = numbers[np.isfinite(numbers)]
    unit = 10.0 ** -(values.decimals[like] or 0)
    return len(known) > 1 and bool(np.ptp(known) <= 0.1 * unit)


def _wanted(values: ValueColumns, targets: Sequence[str]) -> set[int]:
    """Return the places of targets that have few decimals."""
    places = {name: place for place, name in enumerate(values.columns)}
    found = {places[name] for name in targets if name in places}
    return {one for one in found if values.decimals[one] is not None}


def _relation(
    values: ValueColumns, target: int, sources: Sequence[int], factors: Floats
) -> Relation | None:
    """Return the sum of columns times factors, which are about whole ones, or parts of such."""
    decimals = values.decimals[target]
    divisor = _divisor(factors)
    whole = np.rint(factors * divisor)
    if not whole.all() or np.abs(whole).max() > _LARGEST_FACTOR:
        return None
    name = values.columns[target]
    if decimals is None and (len(sources) > 1 or divisor > 1 or whole[0] != 1):
        return None
    if len(sources) == 1 and divisor in _DECIMAL_DIVISORS:
        whole, divisor, rank = whole / divisor, 1, 3
    else:
        rank = 0 if divisor == 1 else 3
    text = ""
    # Positive terms come first.
    terms = sorted(zip(sources, whole.tolist(), strict=True), key=lambda one: (one[1] < 0, one[0]))
    for index, factor in terms:
        times = "" if abs(factor) == 1 else f" * {_short(factor)}"
        sign = ("-" if factor < 0 else "") if not text else (" - " if factor < 0 else " + ")
        text += f"{sign}{values.texts[index]}{times}"
    # A copy is one, however many decimals it has.
    if decimals is not None:
        rest = divisor * values.numbers[:, target] - values.numbers[:, sources] @ whole
        constant = round(float(np.nanmedian(rest)), decimals)
        if constant > 0 and text.startswith("-"):
            text = f"{_short(constant)} - {text[1:]}"
        elif constant:
            text += f" {'-' if constant < 0 else '+'} {_short(constant)}"
    if divisor > 1:
        text = f"({text}) / {divisor}"
    fine = [values.decimals[one] for one in sources]
    exact = decimals is None or all(one is not None and one <= decimals for one in fine)
    found = values.relation(name, text, rank, decimals=decimals, whole=exact and not rank)
    is_rest = len(sources) > 1 and divisor == 1 and bool((whole == -1).all())
    return replace(found, rest=True) if found is not None and is_rest else found


def _short(number: float) -> str:
    """Return the digits of a number without its sign."""
    return np.format_float_positional(abs(number), trim="-")


def _divisor(factors: Floats) -> int:
    """Return the least number, up to 12, that makes all factors about whole; else 1."""
    parts = []
    for factor in factors.tolist():
        near = (
            one
            for one in range(1, _LARGEST_DIVISOR + 1)
            if abs(factor * one - round(factor * one)) <= 1e-3 * max(1.0, abs(factor))
        )
        parts.append(next(near, 1))
    divisor = lcm(*parts)
    return divisor if divisor <= _LARGEST_DIVISOR else 1


def _added(values: ValueColumns, targets: Sequence[str]) -> Iterator[tuple[int, list[int], Floats]]:
    """Yield columns that up to three others give if they are added or taken away."""
    wanted = _wanted(values, targets)
    for subset, signs in _same(values, 2, (1.0, -1.0)):
        yield from _ways(subset, signs, wanted)


def _same(
    values: ValueColumns, least: int, either: Sequence[float]
) -> Iterator[tuple[list[int], Floats]]:
    """Yield columns, up to four, whose sum by signs is the same in few rows, and the signs.

    Few rows rule out nearly all of them. One sum of a price, its tax and another number is all that
    says so, for no weights can be computed where columns are nearly the same.
    """
    columns = len(values.columns)
    units = [one for one in range(columns) if values.decimals[one] is not None]
    few = [values.numbers[values.telling(count)] for count in _ROWS]
    unit = np.array([10.0 ** -(values.decimals[one] or 0) for one in range(columns)])
    for size in range(least, _LARGEST_SUBSET + 1):
        if len(units) > (_MOST_IN_PAIRS if size < _LARGEST_SUBSET else _MOST_IN_TRIPLES):
            return
        for subsets in _subsets(units, size):
            for signs in product(either, repeat=size - 1):
                left = subsets
                for rows in few:
                    # A missing number rules out nothing.
                    rest = rows[:, left[:, 0]].copy()
                    for place, sign in enumerate(signs, 1):
                        rest += sign * rows[:, left[:, place]]
                    apart = np.fmax.reduce(rest) - np.fmin.reduce(rest)
                    # No row may know all, and sums of floats are not exact.
                    left = left[~(apart > 0.5 * unit[left].min(axis=1))]
                for subset in left[:_MOST_FOUND].tolist():
                    yield subset, np.array((1.0, *signs))


def _ways(
    subset: list[int], factors: Floats, wanted: set[int]
) -> Iterator[tuple[int, list[int], Floats]]:
    """Yield each column of a sum that is the same in all rows as the target of the others."""
    for place, target in enumerate(subset):
        if target in wanted:
            others = [*subset[:place], *subset[place + 1 :]]
            rest = np.delete(factors, place)
            yield target, others, -rest / factors[place]


def _subsets(columns: Sequence[int], size: int) -> Iterator[_Codes]:
    """Yield the subsets of columns of a size, in arrays of shape (subsets, size)."""
    batch: list[tuple[int, ...]] = []
    for one in combinations(columns, size):
        batch.append(one)
        if len(batch) == _BATCH:
            yield np.array(batch)
            batch = []
    if batch:
        yield np.array(batch)


def _solved(
    values: ValueColumns, targets: Sequence[str]
) -> Iterator[tuple[int, list[int], Floats]]:
    """Yield columns that up to three others determine linearly, with their factors."""
    # Rows count that know all columns but those that are often missing.
    often = 2 * np.isfinite(values.numbers).sum(axis=0) > len(values.numbers)
    numbers = np.where(often, values.numbers, 0.0)
    numbers = numbers[np.isfinite(numbers).all(axis=1)]
    if len(numbers) < 2 * (_LARGEST_DIVISOR + 1):
        return
    spread = numbers.std(axis=0)
    used = np.flatnonzero(spread > 0)
    scaled = (numbers[:, used] - numbers[:, used].mean(axis=0)) / spread[used]
    correlation = scaled.T @ scaled / len(scaled)
    places = {int(one): place for place, one in enumerate(used)}
    unexplained = np.full(len(used), 1 - _NEARLY_ALL)
    for place, index in enumerate(used):
        decimals = values.decimals[index]
        if decimals:
            room = (10.0**-decimals / spread[index]) ** 2 / 6
            unexplained[place] = min(max(room, 1 - _NEARLY_ALL), _MOST_UNEXPLAINED)
    for name in targets:
        if name not in values.columns or values.columns.index(name) not in places:
            continue
        target = places[values.columns.index(name)]
        sources = np.delete(np.arange(len(used)), target)
        for few in _explaining(correlation, target, sources, unexplained[target]):
            own = scaled[:, few]
            factors = np.linalg.lstsq(own, scaled[:, target], rcond=None)[0]
            factors = factors * spread[used[target]] / spread[used[few]]
            yield int(used[target]), [int(one) for one in used[few]], factors


def _explaining(
    correlation: Floats, target: int, sources: _Codes, unexplained: float
) -> Iterator[list[int]]:
    """Yield up to three columns that leave no more than a share of a target's variance."""
    own, each = correlation[target, sources], correlation[np.ix_(sources, sources)]
    single = np.flatnonzero(1 - own**2 < unexplained)
    yield from ([int(sources[one])] for one in single)
    if len(sources) > _MOST_IN_PAIRS:
        return
    for size in (2, 3):
        if len(sources) < size or (size == 3 and len(sources) > _MOST_IN_TRIPLES):
            return
        for subsets in _subsets(range(len(sources)), size):
            shares = _explained(own[subsets], each, subsets)
            best = np.flatnonzero(1 - shares < unexplained)[:_MOST_FOUND]
            yield from ([int(one) for one in sources[subset]] for subset in subsets[best])


def _explained(own: Floats, each: Floats, subsets: _Codes) -> Any:
    """Return the share of a target's variance that subsets explain; 0 for those alike."""
    size = subsets.shape[1]
    matrices = each[subsets[:, :, None], subsets[:, None, :]]
    if size == 2:
        both = matrices[:, 0, 1]
        scale = 1 - both**2
        with np.errstate(all="ignore"):
            found = (own[:, 0] ** 2 + own[:, 1] ** 2 - 2 * both * own[:, 0] * own[:, 1]) / scale
        return np.where(scale > 1e-6, found, 0.0)
    a, b, c = matrices[:, 0, 1], matrices[:, 0, 2], matrices[:, 1, 2]
    scale = 1 + 2 * a * b * c - a**2 - b**2 - c**2
    x, y, z = own.T
    with np.errstate(all="ignore"):
        found = (
            x**2 * (1 - c**2)
            + y**2 * (1 - b**2)
            + z**2 * (1 - a**2)
            + 2 * x * y * (b * c - a)
            + 2 * x * z * (a * c - b)
            + 2 * y * z * (a * b - c)
        ) / scale
    return np.where(scale > 1e-6, found, 0.0)
