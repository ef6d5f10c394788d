"""Columns of a public table that are sums, multiples or roundings of others in every row."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import chain, combinations

import numpy as np
import numpy.typing as npt
import pandas as pd

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
_SIGNS = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0]])


def sums(
    sample: pd.DataFrame,
    table: pd.DataFrame,
    modelled: Sequence[str],
    distinct: dict[str, int],
    parts: Collection[str],
) -> Iterator[tuple[str, str]]:
    """Yield columns that are a sum of multiples, a rounding, a share or a product of others."""
    numeric = [
        name
        for name in distinct
        if pd.api.types.is_numeric_dtype(sample[name].dtype)
        and not pd.api.types.is_bool_dtype(sample[name].dtype)
        and distinct[name] > 1
        and 2 * sample[name].notna().sum() > len(sample)
    ]
    values = sample[numeric].astype(np.float64).to_numpy()
    values = values[np.isfinite(values).all(axis=1)]
    if len(values) < LEAST_ROWS or len(numeric) < 2:
        return
    means = values.mean(axis=0)
    spread = values.std(axis=0)
    with np.errstate(all="ignore"):
        scaled = (values - means) / spread
    correlation = scaled.T @ scaled / len(values)
    kept = [place for place, name in enumerate(numeric) if name in modelled and spread[place] > 0]
    # What many values take part in costs most to model, so it is derived first: of a price, its tax
    # and their sum, the sum.
    for target in sorted(
        range(len(numeric)), key=lambda one: (-distinct[numeric[one]], -spread[one])
    ):
        name = numeric[target]
        if name in parts or not spread[target] > 0:
            continue
        sources = [place for place in kept if place != target]
        solved = (
            (places, weights * spread[target] / spread[places])
            for places, weights in _solutions(correlation, target, sources)
        )
        for places, factors in chain(solved, _alike(correlation, target, sources, values)):
            expression = _weighted(
                [numeric[place] for place in places],
                factors,
                means[target] - factors @ means[places],
                values[:, target],
            )
            if expression and holds(expression, name, sample, table):
                break
        else:
            candidates = chain(
                _rounded(numeric, sources, correlation[target], values[:, target]),
                _shares(numeric, sources, target, correlation[target], values),
                _products(numeric, sources, values, target),
            )
            expression = next((one for one in candidates if holds(one, name, sample, table)), None)
        if expression:
            yield name, expression
            kept = sources


def _rounded(
    numeric: list[str],
    sources: list[int],
    correlation: npt.NDArray[np.float64],
    wanted: npt.NDArray[np.float64],
) -> Iterator[str]:
    """Yield roundings of other columns that may give a target."""
    decimals = _decimals_of(wanted)
    for place in sources:
        if decimals is not None and correlation[place] > _NEAR:
            text = column_text(numeric[place])
            yield f"round({text}, {decimals})" if decimals else f"round({text})"


def _shares(
    numeric: list[str],
    sources: list[int],
    target: int,
    correlation: npt.NDArray[np.float64],
    values: npt.NDArray[np.float64],
) -> Iterator[str]:
    """Yield shares of other columns, such as a tax of 19%, that give a target where it is known."""
    wanted = values[:, target]
    decimals = _decimals_of(wanted)
    for place in sources:
        source = values[:, place]
        if not decimals or abs(correlation[place]) < _PROPORTIONAL:
            continue
        slope = float(wanted @ source / (source @ source))
        for places in range(1, _SHARE_DECIMALS + 1):
            share = round(slope, places)
            if share and np.array_equal(np.round(source * share, decimals), wanted):
                yield f"round({column_text(numeric[place])} * {share}, {decimals})"


def _products(
    numeric: list[str], sources: list[int], values: npt.NDArray[np.float64], target: int
) -> Iterator[str]:
    """Yield products of two other columns, such as a price and a number of pieces."""
    wanted = values[:, target]
    decimals = _decimals_of(wanted)
    if decimals is None or len(sources) > _MOST_FACTORS:
        return
    for first, second in combinations(sources, 2):
        left, right = values[:, first], values[:, second]
        if not np.array_equal(np.round(left[:_FEW] * right[:_FEW], decimals), wanted[:_FEW]):
            continue
        # Where a factor is 0 or 1 nearly everywhere, another one would do as well.
        own = (wanted != left) & (wanted != right) & (wanted != 0)
        if own.sum() >= LEAST_ROWS:
            product = f"{column_text(numeric[first])} * {column_text(numeric[second])}"
            yield f"round({product}, {decimals})" if decimals else product


def _solutions(
    correlation: npt.NDArray[np.float64], target: int, sources: list[int]
) -> Iterator[tuple[list[int], npt.NDArray[np.float64]]]:
    """Yield one or two sources that determine a target linearly, with their weights."""
    own = correlation[target, sources]
    for place in np.flatnonzero(np.abs(own) > 1 - 1e-9):
        yield [sources[place]], own[[place]]
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
        places = [sources[first[pair]], sources[second[pair]]]
        yield places, np.array([left[pair], right[pair]])


def _alike(
    correlation: npt.NDArray[np.float64],
    target: int,
    sources: list[int],
    values: npt.NDArray[np.float64],
) -> Iterator[tuple[list[int], npt.NDArray[np.float64]]]:
    """Yield two sources that are a target together, though one says nearly what the other does.

    So are a price and its tax, of which no weights can be computed.
    """
    near = [place for place in sources if abs(correlation[target, place]) > _PROPORTIONAL]
    for first, second in combinations(near[:_MOST_ALIKE], 2):
        for signs in _SIGNS:
            rest = values[:, target] - values[:, [first, second]] @ signs
            if np.ptp(rest) <= 1e-6 * np.ptp(values[:, target]):
                yield [first, second], signs


def _weighted(
    names: list[str],
    factors: npt.NDArray[np.float64],
    rest: float,
    values: npt.NDArray[np.float64],
) -> str | None:
    """Return a sum with whole factors, rounded where the values have decimals; None for others."""
    whole = np.rint(factors)
    if (np.abs(factors - whole) > 1e-4 * np.abs(whole)).any() or not whole.all():
        return None
    if np.abs(whole).max() > _LARGEST_FACTOR:
        return None
    decimals = _decimals_of(values)
    if decimals is None:
        # A copy is one, however many decimals it has.
        return column_text(names[0]) if whole.tolist() == [1] else None
    text = ""
    for name, factor in zip(names, whole, strict=True):
        term = column_text(name) if abs(factor) == 1 else f"{column_text(name)} * {abs(factor):.0f}"
        sign = ("-" if factor < 0 else "") if not text else (" - " if factor < 0 else " + ")
        text += sign + term
    constant = round(float(rest), decimals)
    if constant:
        text += f" {'-' if constant < 0 else '+'} {abs(constant):.{decimals}f}"
    return f"round({text}, {decimals})" if decimals else text


def _decimals_of(values: npt.NDArray[np.float64]) -> int | None:
    """Return the number of decimals that values have; None if it is large."""
    places = range(_DECIMALS + 1)
    return next((one for one in places if (np.round(values, one) == values).all()), None)
