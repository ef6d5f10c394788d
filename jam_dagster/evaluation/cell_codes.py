"""The codes of a decoded table's values, without trust in the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd

from jam_dagster.tables.domain.categorical import CategoricalAttribute
from jam_dagster.tables.domain.numeric import NumericAttribute
from jam_dagster.tables.domain.times import TimeAttribute
from jam_dagster.tables.domain.values import text_of
from jam_dagster.tables.sources.columns import each_value, numbers_of

if TYPE_CHECKING:
    from jam_dagster.tables.domain.attributes import Attribute

OUTSIDE = -1


def cell_codes(column: pd.Series, attribute: Attribute) -> npt.NDArray[np.int64]:
    """Return the code of each value, `OUTSIDE` for a value that the attribute does not list.

    Discretization sends unlisted values to a declared `other` and clips to bounds; a check of a
    synthetic table must not, or it could not find them.
    """
    null_code = OUTSIDE if attribute.null_code is None else attribute.null_code
    if isinstance(attribute, NumericAttribute):
        return _bins(column, attribute, null_code)
    return _categories(column, attribute, null_code)


def _categories(
    column: pd.Series, attribute: CategoricalAttribute, null_code: int
) -> npt.NDArray[np.int64]:
    code_of = {text_of(value): code for code, value in enumerate(attribute.values)}
    places, values = pd.factorize(column)
    codes = [code_of.get(text_of(value), OUTSIDE) for value in values]
    # Nulls have index -1, so their code comes last.
    return np.array([*codes, null_code], dtype=np.int64)[places]


def _bins(column: pd.Series, attribute: NumericAttribute, null_code: int) -> npt.NDArray[np.int64]:
    numbers = cell_numbers(column, attribute)
    codes = np.searchsorted(attribute.edge_array, numbers, side="right").astype(np.int64) - 1
    codes[numbers == attribute.edges[-1]] = attribute.bins - 1
    codes[~(numbers >= attribute.edges[0]) | (numbers > attribute.edges[-1])] = OUTSIDE
    codes[column.isna().to_numpy()] = null_code
    return codes


def cell_numbers(column: pd.Series, attribute: NumericAttribute) -> npt.NDArray[np.float64]:
    """Return the number of each value, NaN where it is missing or has none, shape ``(rows,)``."""
    if isinstance(attribute, TimeAttribute):
        return each_value(column, attribute.clock.count_of, np.nan, np.float64)
    # pandas makes no numbers of decimals among which some are missing.
    if attribute.number_format is not None or isinstance(column.dtype, pd.ArrowDtype):
        return numbers_of(column, attribute.number_format)
    numbers = pd.to_numeric(column, errors="coerce")
    return numbers.to_numpy(dtype=np.float64, na_value=np.nan)


def cell_counts(column: pd.Series, attribute: Attribute) -> npt.NDArray[np.int64]:
    """Count the cells of an attribute, shape ``(size,)``; values outside it are not counted."""
    codes = cell_codes(column, attribute)
    counts: npt.NDArray[np.int64] = np.bincount(codes[codes >= 0], minlength=attribute.size)
    return counts
