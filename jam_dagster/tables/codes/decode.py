"""Decoding: from codes to values that people recognise."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from jam_dagster.tables.codes.table import EncodedTable
from jam_dagster.tables.codes.within_bins import DrawnNumbers, put_in_order
from jam_dagster.tables.domain.categorical import CategoricalAttribute
from jam_dagster.tables.domain.derived import formats_of, with_derived
from jam_dagster.tables.domain.text_dtype import dtype_of
from jam_dagster.tables.domain.times import TimeAttribute
from jam_dagster.tables.sources.columns import numbers_of


def decode(encoded: EncodedTable, rng: np.random.Generator, *, before: int = 0) -> pd.DataFrame:
    """Decode codes to values; ``encode(decode(x)) == x``.

    A number is drawn uniformly from its bin, or from what the attribute says of it in `within`
    (among the integers, or the numbers with the declared decimals, that lie there), again where it
    would break an order. Derived columns are computed from the others. Columns, their order and
    their dtypes are the domain's.

    Parameters
    ----------
    encoded
        Codes.
    rng
        Draws the numbers within the bins, and random keys.
    before
        Number of rows of the table that come before, by which rows are numbered.

    Returns
    -------
    DataFrame of as many rows as there are records, in their order.
    """
    domain = encoded.domain
    ordered = {name for order in domain.orders for name in order.attributes}
    columns: dict[str, pd.Series[Any]] = {}
    drawn: dict[str, DrawnNumbers] = {}
    timed: list[tuple[TimeAttribute, str, DrawnNumbers]] = []
    for attribute, codes in zip(domain.attributes, encoded.columns, strict=True):
        if isinstance(attribute, CategoricalAttribute):
            columns[attribute.name] = _categories(codes, attribute)
            continue
        # A number is also drawn for a missing value, so that other draws do not depend on it.
        null = codes == attribute.bins
        numbers = DrawnNumbers.draw(attribute, np.where(null, 0, codes).astype(np.intp), null, rng)
        if isinstance(attribute, TimeAttribute) and attribute.hour_from is not None:
            timed.append((attribute, attribute.hour_from, numbers))
        elif attribute.name in ordered:
            drawn[attribute.name] = numbers
        else:
            columns[attribute.name] = _column(numbers)
    put_in_order(drawn, domain.orders, rng)
    columns |= {name: _column(numbers) for name, numbers in drawn.items()}
    for time, hour, numbers in timed:
        numbers.points = time.at_hours(numbers.points, numbers_of(columns[hour]))
        columns[time.name] = _column(numbers)
    formats = formats_of(domain.attributes)
    made = pd.DataFrame(columns)
    return with_derived(made, domain.plan, list(domain.columns), rng, before, formats)


def _categories(codes: npt.NDArray[Any], attribute: CategoricalAttribute) -> pd.Series[Any]:
    dtype = dtype_of(str(attribute.dtype))
    ordered = attribute.dtype == "ordered category"
    values: Any = [*attribute.values, *([None] if attribute.nullable else [])]
    if dtype == "category":
        dtype = pd.CategoricalDtype(list(attribute.values), ordered)
    drawn: Any = pd.array(values, dtype=dtype).take(codes.astype(np.intp))
    categories: pd.Series[Any] = pd.Series(drawn, dtype=dtype)
    return categories


def _column(drawn: DrawnNumbers) -> pd.Series[Any]:
    attribute, points, null = drawn.attribute, drawn.points, drawn.null
    dtype: Any = dtype_of(str(attribute.dtype))
    if isinstance(attribute, TimeAttribute):
        times = attribute.decoded(points)
        return times.where(~null, None) if null.any() else times
    if attribute.number_format is not None:
        distinct, places = np.unique(points, return_inverse=True)
        numbers = attribute.from_grid(distinct).tolist()
        texts = pd.array([*map(attribute.number_format.write, numbers), None], dtype=dtype)
        return pd.Series(texts.take(np.where(null, len(distinct), places)))
    if isinstance(dtype, pd.ArrowDtype):
        # Not by floats, whose digits Arrow would refuse.
        exponent = -(attribute.decimals or 0)
        cells: Any = np.array([Decimal(one).scaleb(exponent) for one in points.tolist()], object)
        cells[null] = None
        return pd.Series(pd.array(cells, dtype=dtype))
    column: pd.Series[Any] = pd.Series(points if attribute.integer else drawn.numbers)
    column = column.astype(dtype)
    if null.any():
        column[null] = pd.NA if dtype[0].isupper() else np.nan
    return column
