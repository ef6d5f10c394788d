"""Columns of a public table that are a product, a rate, a power or a logarithm of others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
import numpy.typing as npt

from jam_dagster.tables.drafting.value_columns import (
    Floats,
    Relation,
    ValueColumns,
    decimals_of,
)

_FEW = 12
_MOST_IN_PAIRS = 60
_MOST_FOUND = 5000
_LEAST_VALUES = 10
_PLAIN = 2
_NARROW = 1e-3
_LARGEST_FACTOR = 1_000_000
_MOST_DIGITS = 8
_MOST_DECIMALS = 10
_BATCH = 2**12
_SLACK = 1e-12


@dataclass(frozen=True)
class _Form:
    """A term of one or two columns, before a constant factor."""

    text: str
    of: Callable[..., Any]
    rank: int
    swapped: bool = False
    """Whether the columns in the other order are another form."""

    whole: bool = False
    """Whether whole numbers give whole ones."""


_OF_ONE = (
    _Form("{0}", lambda x: x, 1, whole=True),
    _Form("{0} * {0}", lambda x: x * x, 4, whole=True),
    _Form("{0} * {0} * {0}", lambda x: x * x * x, 4, whole=True),
    _Form("log({0})", np.log, 4),
    _Form("log10({0})", np.log10, 4),
    _Form("log({0} + 1)", lambda x: np.log(x + 1), 4),
    _Form("exp({0})", np.exp, 5),
    _Form("sqrt({0})", np.sqrt, 4),
    _Form("1 / {0}", lambda x: 1 / x, 4),
)
_OF_TWO = (
    _Form("{0} * {1}", lambda x, y: x * y, 2, whole=True),
    _Form("{0} / {1}", lambda x, y: x / y, 2, swapped=True),
    _Form("{0} * (100 + {1})", lambda x, y: x * (100 + y), 3, swapped=True),
    _Form("{0} * (100 - {1})", lambda x, y: x * (100 - y), 3, swapped=True),
    _Form("{0} * (1 + {1})", lambda x, y: x * (1 + y), 3, swapped=True),
    _Form("{0} * (1 - {1})", lambda x, y: x * (1 - y), 3, swapped=True),
    _Form("{0} / ({1} * {1})", lambda x, y: x / (y * y), 4, swapped=True),
    _Form("{0} * {1} * {1}", lambda x, y: x * y * y, 4, swapped=True),
)


def products(values: ValueColumns, targets: Sequence[str]) -> Iterator[Relation]:
    """Yield columns that are a constant times a form of one or two others, rounded to decimals.

    The constant is the shortest number of those that give all rows.
    """
    wanted = [values.columns.index(name) for name in targets if name in values.columns]
    if not wanted:
        return
    decimals = {
        one: decimals_of(values.full(values.columns[one]), _MOST_DECIMALS) for one in wanted
    }
    several = np.array([values.distinct[one] >= _LEAST_VALUES for one in wanted])
    rows = values.telling(_FEW)
    few = values.numbers[rows]
    room = np.stack(
        [values.room(values.columns[one], decimals[one])[values.rows[rows]] for one in wanted],
        axis=1,
    )
    least, most = few[:, wanted] - room, few[:, wanted] + room
    for form, subsets in _forms(len(values.columns)):
        for start in range(0, len(subsets), _BATCH):
            some = subsets[start : start + _BATCH]
            with np.errstate(all="ignore"):
                given = form.of(*(few[:, column] for column in some.T))
            low, high = _factors(given, least, most)
            with np.errstate(invalid="ignore"):
                inside = (low <= high * (1 + np.sign(high) * _SLACK)) & np.isfinite(low + high)
            inside &= several[None, :] | (form.rank <= _PLAIN)
            for subset, place in np.argwhere(inside)[:_MOST_FOUND].tolist():
                target = wanted[place]
                sources = some[subset].tolist()
                if target not in sources:
                    found = _relation(values, form, target, sources, decimals[target])
                    if found is not None:
                        yield found


def _forms(columns: int) -> Iterator[tuple[_Form, npt.NDArray[np.intp]]]:
    """Yield each form with the columns that it may be of, in arrays of shape (choices, 1 or 2)."""
    every = np.arange(columns)
    for form in _OF_ONE:
        yield form, every[:, None]
    if 2 <= columns <= _MOST_IN_PAIRS:
        pairs = np.array(list(permutations(range(columns), 2)))
        for form in _OF_TWO:
            yield form, pairs if form.swapped else pairs[pairs[:, 0] < pairs[:, 1]]


def _factors(given: Floats, least: Floats, most: Floats) -> tuple[Floats, Floats]:
    """Return the least and largest factor of forms, shape (forms, targets), by all rows.

    `given` has shape (rows, forms), what targets may be shape (rows, targets).
    """
    low = np.full((given.shape[1], least.shape[1]), -np.inf)
    high = np.full_like(low, np.inf)
    for row in range(len(given)):
        with np.errstate(all="ignore"):
            one = least[row][None, :] / given[row][:, None]
            other = most[row][None, :] / given[row][:, None]
        # A zero gives zeros alone; what is missing rules out nothing.
        zero = given[row] == 0
        wrong = zero[:, None] & ((least[row] > 0) | (most[row] < 0))[None, :]
        np.fmax(low, np.where(zero[:, None], -np.inf, np.fmin(one, other)), out=low)
        np.fmin(high, np.where(zero[:, None], np.inf, np.fmax(one, other)), out=high)
        high[wrong] = -np.inf
    return low, high


def _relation(
    values: ValueColumns, form: _Form, target: int, sources: Sequence[int], decimals: int | None
) -> Relation | None:
    """Return the relation of a form times the shortest factor that gives all rows, if any."""
    names = [values.columns[one] for one in sources]
    name = values.columns[target]
    numbers, room = values.full(name), values.room(name, decimals)
    low = high = 0.0
    for rows in (values.rows, slice(None)):
        with np.errstate(all="ignore"):
            given = form.of(*(values.full(one)[rows] for one in names))
        low, high = _all_factors(given, (numbers - room)[rows], (numbers + room)[rows])
        if not low <= high + abs(high) * _SLACK or not np.isfinite(low + high):
            return None
    factor = _shortest(low, high)
    if factor is None or not 1 / _LARGEST_FACTOR <= factor <= _LARGEST_FACTOR:
        return None
    # Coarse numbers fit many factors, and do not show the right one.
    coarse = high - low > _NARROW * factor or values.distinct[target] < _LEAST_VALUES
    if coarse and factor != 1 and round(np.log10(factor), 9) % 1:
        return None
    text = form.text.format(*(values.texts[one] for one in sources))
    if factor != 1:
        inverse = round(1 / factor)
        divided = abs(factor) < 1 and inverse and low <= 1 / inverse <= high
        times = (
            f"{inverse}"
            if divided
            else np.format_float_positional(factor, _MOST_DIGITS, fractional=False, trim="-")
        )
        text = f"{text} {'/' if divided else '*'} {times}"
    given_whole = (
        form.whole
        and factor == int(factor)
        and not any(values.decimals[one] is None or values.decimals[one] for one in sources)
    )
    return values.relation(name, text, form.rank, decimals=decimals, whole=bool(given_whole))


def _all_factors(given: Floats, least: Floats, most: Floats) -> tuple[float, float]:
    """Return the least and largest factor of one form that give one target, by all rows."""
    with np.errstate(all="ignore"):
        one, other = least / given, most / given
    zero, known = given == 0, np.isfinite(given) & np.isfinite(least)
    if (zero & ((least > 0) | (most < 0))).any():
        return np.inf, -np.inf
    used = known & ~zero
    if not used.any():
        return np.inf, -np.inf
    return float(np.fmin(one, other)[used].max()), float(np.fmax(one, other)[used].min())


def _shortest(low: float, high: float) -> float | None:
    """Return the number of the fewest digits in an interval, or one divided by a short one."""
    low, high = min(low, high), max(low, high)
    if low <= 1 <= high:
        return 1.0
    middle = (low + high) / 2
    for digits in range(1, _MOST_DIGITS + 1):
        near = float(f"{middle:.{digits}g}")
        if low <= near <= high:
            return near
        part = round(1 / middle)
        if part and abs(part) < 10**digits and low <= 1 / part <= high:
            return 1 / part
    return None
