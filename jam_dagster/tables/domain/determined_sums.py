"""Columns of a public table that are sums, multiples or roundings of others in every row."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

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


def sums(
    sample: pd.DataFrame,
    table: pd.DataFrame,
    modelled: Sequence[str],
    distinct: dict[str, int],
    parts: Collection[str],
) -> Iterator[tuple[str, str]]:
    """Yield columns that are whole multiples of one or two others, added up, and a constant."""
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
    # What many values take part in costs most to model, so it is derived first.
    for target in sorted(range(len(numeric)), key=lambda one: -distinct[numeric[one]]):
        name = numeric[target]
        if name in parts or not spread[target] > 0:
            continue
        sources = [place for place in kept if place != target]
        for places, weights in _solutions(correlation, target, sources):
            factors = weights * spread[target] / spread[places]
            expression = _weighted(
                [numeric[place] for place in places],
                factors,
                means[target] - factors @ means[places],
                values[:, target],
            )
            if expression and holds(expression, name, sample, table):
                break
        else:
            expression = next(
                _rounded(name, numeric, sources, correlation[target], sample, table), None
            )
        if expression:
            yield name, expression
            kept = sources


def _rounded(
    target: str,
    numeric: list[str],
    sources: list[int],
    correlation: npt.NDArray[np.float64],
    sample: pd.DataFrame,
    table: pd.DataFrame,
) -> Iterator[str]:
    """Yield roundings of another column that give a target."""
    decimals = _decimals_of(sample[target].dropna().to_numpy(np.float64))
    for place in sources:
        if decimals is not None and correlation[place] > _NEAR:
            text = column_text(numeric[place])
            expression = f"round({text}, {decimals})" if decimals else f"round({text})"
            if holds(expression, target, sample, table):
                yield expression


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
