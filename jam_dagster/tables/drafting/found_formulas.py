"""Formulas that hold in every row of a public table in which all of their cells are known."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import chain

import numpy as np
import pandas as pd

from jam_dagster.errors import DomainError
from jam_dagster.tables.domain.binned import BinnedAttribute
from jam_dagster.tables.domain.derived import reproduces
from jam_dagster.tables.domain.expressions import columns_of, parsed
from jam_dagster.tables.domain.formula import Formula
from jam_dagster.tables.drafting.determined_clock import clock_sums
from jam_dagster.tables.drafting.determined_sums import LEAST_ROWS, sums

_SAMPLE = 2000
_LEAST_SHARE = 0.5


def found_formulas(
    table: pd.DataFrame, attributes: Sequence[BinnedAttribute], taken: Collection[str]
) -> Iterator[Formula]:
    """Yield formulas of attributes, which no derived column could be: some cells are missing alone.

    No two of them have an attribute in common, and none has one of `taken`.
    """
    names = [
        one.name
        for one in attributes
        if one.name not in taken and one.hour_from is None and not one.dated and not one.format
    ]
    numbers = table[[name for name in names if pd.api.types.is_numeric_dtype(table[name].dtype)]]
    numbers = numbers[[name for name in numbers if numbers[name].notna().mean() > _LEAST_SHARE]]
    known = numbers.dropna()
    if len(known) < max(LEAST_ROWS, _LEAST_SHARE * len(table)):
        return
    known = known.reset_index(drop=True)
    sample = known.iloc[np.unique(np.linspace(0, len(known) - 1, _SAMPLE).astype(np.int64))]
    distinct = {str(name): int(sample[name].nunique()) for name in sample.columns}
    columns = list(distinct)
    used: set[str] = set()
    ways = clock_sums(sample, known, columns), sums(sample, known, columns, distinct, ())
    for name, expression in chain(*ways):
        all_names = {name, *columns_of(parsed(name, expression))}
        if not all_names & used and _holds(expression, name, table):
            used |= all_names
            yield Formula(name, expression)


def _holds(expression: str, name: str, table: pd.DataFrame) -> bool:
    try:
        return reproduces(expression, table[name], table, gaps=True)
    except DomainError:
        return False
