"""Columns of a public table that are a time of day so many minutes after another, in every row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from jam_dagster.tables.domain.derived import holds
from jam_dagster.tables.domain.expressions import column_text

_LEAST_TIMES = 25
_MOST_TIMES = 20
_MOST_MINUTES = 60
_MINUTES_A_DAY = 1440


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
