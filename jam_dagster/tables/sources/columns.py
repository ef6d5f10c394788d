"""Values of columns, read one by one whatever the column's dtype.

A record's codes must depend on that record alone; otherwise changing one record could change all
the others, and no sensitivity would hold. A reader chooses a column's dtype by all its rows. This
module therefore reads values one by one, and chooses a dtype only if it changes no value.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api.types import infer_dtype, is_object_dtype

from jam_dagster.tables.domain.text_dtype import TEXT
from jam_dagster.tables.domain.values import LARGEST_INTEGER, exact_number, truth_of

ARROW_GAPS = {"integer_object_nulls": True}
"""Options from Arrow to pandas: the defaults turn integers with a gap into less exact floats."""


def each_value(
    column: pd.Series[Any],
    function: Callable[[Any], Any],
    missing: Any,
    dtype: npt.DTypeLike = object,
) -> npt.NDArray[Any]:
    """Apply a function to each value, computed once for values that are the same.

    Parameters
    ----------
    column
        Values of any dtype, shape (rows,).
    function
        Computes the result of a value.
    missing
        The result of a missing value.
    dtype
        Dtype of the result.

    Returns
    -------
    array of shape (rows,)
    """
    distinct: Any
    if isinstance(column.dtype, pd.CategoricalDtype):
        places, distinct = column.cat.codes.to_numpy(), column.cat.categories
    elif is_object_dtype(column.dtype):
        # pandas.factorize treats True and 1 as the same value.
        null = column.isna().to_numpy(dtype=bool)
        places, distinct = np.arange(len(column)), column.to_numpy()
        places = np.where(null, -1, places)
        distinct = [None if lost else value for value, lost in zip(distinct, null, strict=True)]
    else:
        places, distinct = pd.factorize(column)
    results = np.empty(len(distinct) + 1, dtype)
    for place, value in enumerate(distinct):
        results[place] = missing if value is None else function(value)
    # The last entry is for code -1 of missing values.
    results[-1] = missing
    return results[places]


def numbers_of(column: pd.Series[Any]) -> npt.NDArray[np.float64]:
    """Return the number of each value, NaN for missing and non-numeric values."""
    return each_value(column, _float, np.nan, np.float64)


def _float(value: object) -> float:
    number = exact_number(value)
    if number is None:
        return np.nan
    try:
        return float(number)
    except OverflowError:
        return np.inf if number > 0 else -np.inf


def with_types(table: pd.DataFrame, keep: Collection[str]) -> pd.DataFrame:
    """Return a table of texts, such as a CSV file, with the types of its texts.

    It reads whole columns, so it is for public tables only. A column of texts that are all numbers
    becomes numeric; one of texts that are all booleans becomes boolean.

    Parameters
    ----------
    table
        Columns of texts; other columns stay unchanged.
    keep
        Names of columns that stay texts.
    """
    typed = {
        name: column
        if name in keep or not isinstance(column.dtype, pd.StringDtype)
        else _with_type(column)
        for name, column in table.items()
    }
    return pd.DataFrame(typed, index=table.index)


def _with_type(column: pd.Series[Any]) -> pd.Series[Any]:
    for read in (exact_number, truth_of):
        values = pd.Series(each_value(column, read, None), index=column.index, dtype=object)
        if len(values) and not (values.isna() & column.notna()).any() and values.notna().any():
            typed = exact_column(values)
            return column if is_object_dtype(typed.dtype) else typed
    return column


def exact_column(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column of objects with a dtype that holds each value exactly.

    Without a suitable dtype, as for texts among numbers, the column stays unchanged. A missing
    value among integers or booleans leaves their type unchanged.
    """
    kind = infer_dtype(column, skipna=True)
    gaps = bool(column.isna().any())
    dtype: Any = None
    if kind == "string":
        dtype = TEXT
    elif kind == "boolean":
        dtype = "boolean" if gaps else "bool"
    elif kind == "floating":
        dtype = "float64"
    elif kind == "integer":
        known = [value for value in column if not pd.isna(value)]
        for fits in ("int64", "uint64"):
            limits = np.iinfo(fits)
            if dtype is None and limits.min <= min(known) and max(known) <= limits.max:
                dtype = fits.replace("int", "Int").replace("u", "U") if gaps else fits
    elif kind in ("decimal", "mixed-integer-float"):
        numbers = [exact_number(value) for value in column]
        exact = all(not isinstance(one, int) or abs(one) <= LARGEST_INTEGER for one in numbers)
        if exact:
            return pd.Series(numbers_of(column), index=column.index, name=column.name)
    return column if dtype is None else column.astype(dtype)


def exact_columns(table: pd.DataFrame) -> pd.DataFrame:
    """Give columns of objects a dtype that holds their values exactly, if there is one."""
    for place in range(len(table.columns)):
        column = table.iloc[:, place]
        if is_object_dtype(column.dtype):
            table.isetitem(place, exact_column(column).array)
    return table


def without_index(table: pd.DataFrame, stored: Callable[[list[str]], pd.DataFrame]) -> pd.DataFrame:
    """Return a table of Arrow data with its named index as columns.

    Parameters
    ----------
    table
        The table as pandas restores it from the schema's metadata.
    stored
        Returns stored columns by their names.
    """
    index = table.index
    names = [str(name) for name in index.names if name is not None]
    if names and isinstance(index, pd.RangeIndex):
        table = table.reset_index()
    elif names:
        table = pd.concat([stored(names), table.reset_index(drop=True)], axis=1)
    return table.reset_index(drop=True)
