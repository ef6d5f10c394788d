"""Columns of a public table that are sums, multiples, roundings or later times of others."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from jam_dagster.common.deferred import pd
from jam_dagster.tables.domain.derived import holds
from jam_dagster.tables.domain.expressions import column_text

LEAST_ROWS = 50
"""In fewer rows columns agree by chance."""

_MOST_IN_PAIRS = 200
_LARGEST_FACTOR = 10_000
_DECIMALS = 6
# A column and what it is rounded to are nearly the same.
_NEAR = 0.8
_PROPORTIONAL = 1 - 1e-4
_MOST_ALIKE = 20
_SHARE_DECIMALS = 4
_MOST_FACTORS = 60
_FEW = 20
_LEAST_TIMES = 25
_MOST_TIMES = 20
_MOST_MINUTES = 60
_MINUTES_A_DAY = 1440
_SIGNS = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0]])


Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Numbers:
    """Columns of numbers, their values in rows without a gap, and what follows from these."""

    names: list[str]
    values: Floats
    means: Floats
    spread: Floats
    correlation: Floats

    def text(self, index: int) -> str:
        """Return a column as an expression has it."""
        return column_text(self.names[index])


def sums(
    sample: pd.DataFrame,
    table: pd.DataFrame,
    modelled: Sequence[str],
    distinct: dict[str, int],
    parts: Collection[str],
) -> Iterator[tuple[str, str]]:
    """Yield columns that are a sum of multiples, a rounding, a share or a product of others."""
    names = [
        name
        for name in distinct
        if pd.api.types.is_numeric_dtype(sample[name].dtype)
        and not pd.api.types.is_bool_dtype(sample[name].dtype)
        and distinct[name] > 1
        and 2 * sample[name].notna().sum() > len(sample)
    ]
    values = sample[names].astype(np.float64).to_numpy()
    values = values[np.isfinite(values).all(axis=1)]
    if len(values) < LEAST_ROWS or len(names) < 2:
        return
    means, spread = values.mean(axis=0), values.std(axis=0)
    with np.errstate(all="ignore"):
        scaled = (values - means) / spread
    numbers = _Numbers(names, values, means, spread, scaled.T @ scaled / len(values))
    kept = [index for index, name in enumerate(names) if name in modelled and spread[index] > 0]
    # The column that takes part in most sums costs most to model, so it is derived first: of a
    # price, its tax and their sum, the sum.
    for target in sorted(range(len(names)), key=lambda one: (-distinct[names[one]], -spread[one])):
        name = names[target]
        if name in parts or not spread[target] > 0:
            continue
        sources = [index for index in kept if index != target]
        ways = (_weighted, _rounded, _shares, _products)
        found = chain.from_iterable(way(numbers, target, sources) for way in ways)
        expression = next((one for one in found if holds(one, name, sample, table)), None)
        if expression:
            yield name, expression
            kept = sources


def _rounded(numbers: _Numbers, target: int, sources: list[int]) -> Iterator[str]:
    """Yield roundings of other columns that may give a target."""
    decimals = _decimals_of(numbers.values[:, target])
    for index in sources:
        if decimals is not None and numbers.correlation[target, index] > _NEAR:
            text = numbers.text(index)
            yield f"round({text}, {decimals})" if decimals else f"round({text})"


def _shares(numbers: _Numbers, target: int, sources: list[int]) -> Iterator[str]:
    """Yield shares of other columns, such as a tax of 19%, that give a target where it is known."""
    wanted = numbers.values[:, target]
    decimals = _decimals_of(wanted)
    for index in sources:
        source = numbers.values[:, index]
        if not decimals or abs(numbers.correlation[target, index]) < _PROPORTIONAL:
            continue
        slope = float(wanted @ source / (source @ source))
        for digits in range(1, _SHARE_DECIMALS + 1):
            share = round(slope, digits)
            if share and np.array_equal(np.round(source * share, decimals), wanted):
                yield f"round({numbers.text(index)} * {share}, {decimals})"


def _products(numbers: _Numbers, target: int, sources: list[int]) -> Iterator[str]:
    """Yield products of two other columns, such as a price and a number of pieces."""
    wanted = numbers.values[:, target]
    decimals = _decimals_of(wanted)
    if decimals is None or len(sources) > _MOST_FACTORS:
        return
    for pair in combinations(sources, 2):
        left, right = numbers.values[:, pair].T
        if not np.array_equal(np.round(left[:_FEW] * right[:_FEW], decimals), wanted[:_FEW]):
            continue
        # If a factor is 0 or 1 nearly everywhere, another one would do as well.
        own = (wanted != left) & (wanted != right) & (wanted != 0)
        if own.sum() >= LEAST_ROWS:
            product = " * ".join(map(numbers.text, pair))
            yield f"round({product}, {decimals})" if decimals else product


def _solutions(
    numbers: _Numbers, target: int, sources: list[int]
) -> Iterator[tuple[list[int], Floats]]:
    """Yield one or two sources that determine a target linearly, with their factors."""
    correlation, spread = numbers.correlation, numbers.spread
    own = correlation[target, sources]
    for index in np.flatnonzero(np.abs(own) > 1 - 1e-9):
        yield [sources[index]], own[[index]] * spread[target] / spread[[sources[index]]]
    if len(sources) > _MOST_IN_PAIRS:
        return
    first, second = np.triu_indices(len(sources), 1)
    both = correlation[np.ix_(sources, sources)][first, second]
    with np.errstate(all="ignore"):
        scale = 1 - both**2
        left = (own[first] - both * own[second]) / scale
        right = (own[second] - both * own[first]) / scale
        explained = left * own[first] + right * own[second]
    for pair in np.flatnonzero((scale > 1e-6) & (explained > 1 - 1e-9)):
        indices = [sources[first[pair]], sources[second[pair]]]
        yield indices, np.array([left[pair], right[pair]]) * spread[target] / spread[indices]


def _alike(
    numbers: _Numbers, target: int, sources: list[int]
) -> Iterator[tuple[list[int], Floats]]:
    """Yield two sources that are a target together, though one says nearly what the other does.

    So are a price and its tax, of which no weights can be computed.
    """
    wanted, correlation = numbers.values[:, target], numbers.correlation[target]
    near = [index for index in sources if abs(correlation[index]) > _PROPORTIONAL]
    for pair in combinations(near[:_MOST_ALIKE], 2):
        for signs in _SIGNS:
            rest = wanted - numbers.values[:, pair] @ signs
            if np.ptp(rest) <= 1e-6 * np.ptp(wanted):
                yield [*pair], signs


def _weighted(numbers: _Numbers, target: int, sources: list[int]) -> Iterator[str]:
    """Yield sums of whole multiples, rounded where the target has decimals."""
    decimals = _decimals_of(numbers.values[:, target])
    ways = (_solutions, _alike)
    for indices, factors in chain.from_iterable(way(numbers, target, sources) for way in ways):
        whole = np.rint(factors)
        exact = not (np.abs(factors - whole) > 1e-4 * np.abs(whole)).any() and whole.all()
        if not exact or np.abs(whole).max() > _LARGEST_FACTOR:
            continue
        if decimals is None:
            # A copy is one, however many decimals it has.
            if whole.tolist() == [1]:
                yield numbers.text(indices[0])
            continue
        text = ""
        for index, factor in zip(indices, whole, strict=True):
            times = "" if abs(factor) == 1 else f" * {abs(factor):.0f}"
            sign = ("-" if factor < 0 else "") if not text else (" - " if factor < 0 else " + ")
            text += f"{sign}{numbers.text(index)}{times}"
        constant = round(float(numbers.means[target] - factors @ numbers.means[indices]), decimals)
        if constant:
            text += f" {'-' if constant < 0 else '+'} {abs(constant):.{decimals}f}"
        yield f"round({text}, {decimals})" if decimals else text


def _decimals_of(values: Floats) -> int | None:
    """Return the number of decimals that values have; None if it is large."""
    places = range(_DECIMALS + 1)
    return next((one for one in places if (np.round(values, one) == values).all()), None)


def clock_sums(
    sample: pd.DataFrame, table: pd.DataFrame, modelled: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Yield times that another one and a number of minutes give, such as a delay.

    A time is a number such as 1730.
    """
    numbers = {
        name: sample[name].to_numpy(np.float64, na_value=np.nan)
        for name in modelled
        if _is_number(sample[name])
    }
    times = [name for name, one in numbers.items() if _are_times(one)][:_MOST_TIMES]
    minutes = [name for name in numbers if name not in times][:_MOST_MINUTES]
    past = {name: numbers[name] // 100 * 60 + numbers[name] % 100 for name in times}
    sources, derived = set[str](), set[str]()
    for target in times:
        others = [name for name in times if name != target and name not in derived]
        for first, between in ((a, b) for a in others for b in minutes):
            after = np.mod(past[first] + numbers[between], _MINUTES_A_DAY)
            if target in sources or not _same(after, np.mod(past[target], _MINUTES_A_DAY)):
                continue
            midnight = ", 2400" if (numbers[target] == 2400).any() else ""
            later = f"clock_minutes({column_text(first)}) + {column_text(between)}"
            expression = f"clock_time({later}{midnight})"
            if midnight == "" and not holds(expression, target, sample, table):
                # The sample may have no row of midnight.
                expression = f"clock_time({later}, 2400)"
            if holds(expression, target, sample, table):
                sources |= {first, between}
                derived.add(target)
                yield target, expression
                break


def _is_number(column: pd.Series[Any]) -> bool:
    dtype: Any = column.dtype
    return bool(pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_bool_dtype(dtype))


def _are_times(values: npt.NDArray[np.float64]) -> bool:
    known = np.unique(values[~np.isnan(values)])
    whole = len(known) >= _LEAST_TIMES and (known == np.floor(known)).all()
    inside = whole and known[0] >= 0 and 100 < known[-1] <= 2400
    return bool(inside and (known % 100 < 60).all())


def _same(found: npt.NDArray[np.float64], wanted: npt.NDArray[np.float64]) -> bool:
    known = ~np.isnan(wanted) & ~np.isnan(found)
    return bool(len(np.unique(wanted[known])) > 1 and np.array_equal(found[known], wanted[known]))
