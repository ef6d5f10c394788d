"""Columns of a public table that follow from its times: later ones, lengths, and comparisons."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import combinations, permutations
from typing import Any

import numpy as np
import numpy.typing as npt

from jam_dagster.common.deferred import pd
from jam_dagster.errors import DomainError
from jam_dagster.tables.domain.columns import missing_in
from jam_dagster.tables.domain.computed_cells import ISO_TIME
from jam_dagster.tables.domain.derived import Formats, holds, instants
from jam_dagster.tables.domain.expressions import column_text, evaluated, parsed
from jam_dagster.tables.domain.units import DATE, SECONDS
from jam_dagster.tables.domain.values import Value
from jam_dagster.tables.drafting.value_columns import (
    LEAST_ROWS,
    Floats,
    Relation,
    ValueColumns,
    expected_to_differ,
)

_LEAST_TIMES = 25
_MOST_TIMES = 20
_MOST_MINUTES = 60
_MINUTES_A_DAY = 1440
_MOST_COMPARED = 60
_MOST_RESULTS = 10
_FEW = 64
_SIGNS = ("<", "=", ">", "null")


def later_times(values: ValueColumns, times: Sequence[str]) -> Iterator[Relation]:
    """Yield times that are a number of units after another, and such numbers.

    `times` are columns of dates or timestamps, or of texts of such.
    """
    seconds = {name: _seconds(values, name) for name in times[:_MOST_TIMES]}
    starts = {name: column_text(name) for name in seconds}
    few = {name: one[values.rows] for name, one in seconds.items()}
    whole = [
        (name, values.numbers[:, index])
        for index, name in enumerate(values.columns)
        if values.decimals[index] == 0
    ]
    for first, last in permutations(seconds, 2):
        apart = few[last] - few[first]
        for name, numbers in whole:
            for unit, length in reversed(SECONDS.items()):
                known = np.isfinite(apart) & np.isfinite(numbers)
                if known.sum() < LEAST_ROWS or (apart != numbers * length)[known].any():
                    continue
                later = f'after({starts[first]}, {values.text(name)}, "{unit}")'
                yield from _time(values, last, later, (first, name))
                between = f'between({starts[first]}, {starts[last]}, "{unit}")'
                found = values.relation(name, between, 1, decimals=0, whole=True)
                yield from [found] if found else []
                break


def _seconds(values: ValueColumns, name: str) -> Floats:
    return seconds_of(values.table[name], values.formats)


def is_time(column: pd.Series[Any]) -> bool:
    """Return whether a public column holds dates or timestamps, or ISO's texts of such."""
    dtype: Any = column.dtype
    if pd.api.types.is_datetime64_any_dtype(dtype):
        return True
    if isinstance(dtype, pd.CategoricalDtype) or pd.api.types.is_numeric_dtype(dtype):
        return False
    observed = column.dropna()
    return bool(len(observed)) and all(
        bool(ISO_TIME.fullmatch(one)) if isinstance(one, str) else hasattr(one, "year")
        for one in observed
    )


def seconds_of(column: pd.Series[Any], formats: Formats) -> Floats:
    """Return the seconds since 1970 of times, NaN where they are missing."""
    moments: Any = instants(column, formats)
    moments = (
        moments if moments.dt.tz is None else moments.dt.tz_convert("UTC").dt.tz_localize(None)
    )
    raw = moments.to_numpy().astype("datetime64[us]")
    return np.where(np.isnat(raw), np.nan, raw.astype(np.int64) / 1e6)


def _time(
    values: ValueColumns, target: str, later: str, sources: tuple[str, ...]
) -> Iterator[Relation]:
    """Yield a relation of a column of times if an expression of instants gives all its cells."""
    column, dtype = values.table[target], str(values.table[target].dtype)
    written = values.formats.get(target)
    shown = later
    if dtype == DATE or dtype.startswith("date32"):
        shown = f"date({later})"
    elif isinstance(written, str):
        shown = f"text({later}, {json.dumps(written, ensure_ascii=False)})"
    elif not pd.api.types.is_datetime64_any_dtype(column.dtype):
        return
    breakable = min(values.shuffled(name) for name in (target, *sources))
    if breakable < LEAST_ROWS:
        return
    try:
        found = evaluated(parsed("", later), values.cells(np.arange(len(column))))
    except DomainError:
        return
    wanted = _seconds(values, target)
    made = found.values.astype(np.int64) / 1e6
    missing = missing_in(column)
    known = ~found.missing & np.isfinite(wanted)
    if (made != wanted)[known].any():
        return
    gaps = bool((found.missing != missing).any() or (missing == np.isfinite(wanted)).any())
    yield Relation(target, shown, later, tuple(sorted(sources)), 0, breakable, gaps)


def comparisons(
    values: ValueColumns, times: Sequence[str], targets: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Return columns of few values that follow from which of two numbers or times is larger.

    Each has its entry of a domain file.
    """
    groups: list[list[tuple[str, Floats]]] = [
        [(name, _seconds(values, name)) for name in times[:_MOST_COMPARED]],
        [(name, values.full(name)) for name in values.columns[:_MOST_COMPARED]],
    ]
    known: dict[str, tuple[npt.NDArray[Any], list[Any]]] = {}
    for name in targets:
        codes, labels = pd.factorize(values.table[name], use_na_sentinel=False)
        missing = missing_in(values.table[name])
        few = 2 <= len(labels) <= _MOST_RESULTS
        if few and not missing.any() and values.shuffled(name) >= LEAST_ROWS:
            known[name] = (codes, list(labels))
    found: dict[str, dict[str, Any]] = {}
    rows = np.unique(np.linspace(0, len(values.table) - 1, _FEW).astype(np.int64))
    for group in groups:
        for (first, left), (second, right) in combinations(group, 2):
            first_signs = _signs(left[rows], right[rows])
            for name, (codes, results) in known.items():
                if (
                    name in found
                    or name in (first, second)
                    or _ways(first_signs, codes[rows]) is None
                ):
                    continue
                signs = _signs(left, right)
                ways = _ways(signs, codes)
                if ways is None or len(set(ways.values())) < len(results):
                    continue
                # A sign that no public row has goes with one that says nearly the same.
                for sign, near in ((1, 0), (1, 2), (0, 1), (2, 1)):
                    if sign not in ways and near in ways:
                        ways[sign] = ways[near]
                entry: dict[str, Value] = {_SIGNS[one]: results[ways[one]] for one in sorted(ways)}
                if expected_to_differ(signs) >= LEAST_ROWS:
                    pair = f"compared({column_text(first)}, {column_text(second)})"
                    found[name] = {"expression": pair, "values": entry}
    return found


def _signs(left: Floats, right: Floats) -> npt.NDArray[np.int64]:
    with np.errstate(invalid="ignore"):
        signs = np.where(left < right, 0, np.where(left > right, 2, 1))
    return np.where(np.isnan(left) | np.isnan(right), 3, signs)


def _ways(signs: npt.NDArray[np.int64], codes: npt.NDArray[Any]) -> dict[int, int] | None:
    """Return the one code that rows of each sign have; None if some have several."""
    ways: dict[int, int] = {}
    for sign in range(len(_SIGNS)):
        some = codes[signs == sign]
        if len(some):
            if (some != some[0]).any():
                return None
            ways[sign] = int(some[0])
    return ways


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
