"""Decoding: from codes to values that people recognise."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from jam_dagster.tables.codes.table import EncodedTable
from jam_dagster.tables.domain.attributes import Attribute, CategoricalAttribute, NumericAttribute
from jam_dagster.tables.domain.derived import with_derived
from jam_dagster.tables.domain.text_dtype import dtype_of
from jam_dagster.tables.domain.times import TimeAttribute


def decode(encoded: EncodedTable, rng: np.random.Generator) -> pd.DataFrame:
    """Decode codes to values; ``encode(decode(x)) == x``.

    A number is drawn uniformly from its bin, or from what the attribute says of it in `within`
    (among the integers, or the numbers with the declared decimals, that lie there). Derived columns
    are computed from the others. Columns, their order and their dtypes are the domain's.

    Parameters
    ----------
    encoded
        Codes.
    rng
        Draws the numbers within the bins, and random keys.

    Returns
    -------
    DataFrame of as many rows as there are records, in their order.
    """
    columns = {
        attribute.name: _decode_column(codes, attribute, rng)
        for attribute, codes in zip(encoded.domain.attributes, encoded.columns, strict=True)
    }
    domain = encoded.domain
    for attribute, codes in zip(domain.attributes, encoded.columns, strict=True):
        if isinstance(attribute, TimeAttribute) and attribute.hour_from is not None:
            hours = columns[attribute.hour_from]
            bins = codes.astype(np.intp)
            columns[attribute.name] = attribute.at_hours(columns[attribute.name], bins, hours)
    return with_derived(pd.DataFrame(columns), domain.plan, list(domain.columns), rng)


def _decode_column(
    codes: npt.NDArray[Any], attribute: Attribute, rng: np.random.Generator
) -> pd.Series[Any]:
    dtype = dtype_of(str(attribute.dtype))
    decimal = isinstance(dtype, pd.ArrowDtype)
    if isinstance(attribute, CategoricalAttribute):
        values: Any = [*attribute.values, *([None] if attribute.nullable else [])]
        if dtype == "category":
            dtype = pd.CategoricalDtype(list(attribute.values))
        drawn: Any = pd.array(values, dtype=dtype).take(codes.astype(np.intp))
        categories: pd.Series[Any] = pd.Series(drawn, dtype=dtype)
        return categories
    null = np.zeros(len(codes), dtype=bool)
    if attribute.null_code is not None:
        null = codes == attribute.null_code
    # A number is also drawn for a missing value, so that other draws do not depend on it.
    bins = np.where(null, 0, codes).astype(np.intp)
    low, high = _range(attribute, bins, rng)
    if attribute.scale is None:
        # Unlike low + share * (high - low), this cannot overflow.
        share = rng.random(len(bins))
        numbers = (1.0 - share) * low + share * high
        if dtype.lower() == "float32":
            numbers = numbers.astype(np.float32).astype(np.float64)
        # Rounding may have moved a number over the limit of its bin.
        column: pd.Series[Any] = pd.Series(np.clip(numbers, low, high))
    else:
        points = rng.integers(low, high, endpoint=True)
        if isinstance(attribute, TimeAttribute):
            times = attribute.decoded(points)
            return times.where(~null) if null.any() else times
        if decimal:
            # Not by floats, whose digits Arrow would refuse.
            drawn = [Decimal(point).scaleb(-(attribute.decimals or 0)) for point in points.tolist()]
            return pd.Series(pd.array(np.where(null, None, drawn), dtype=dtype))
        column = pd.Series(points if attribute.integer else attribute.from_grid(points))
    column = column.astype(dtype)
    if null.any():
        column[null] = pd.NA if dtype[0].isupper() else np.nan
    return column


def _range(
    attribute: NumericAttribute, bins: npt.NDArray[np.intp], rng: np.random.Generator
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the least and the largest number to draw for each record, grid points if there are."""
    if not attribute.within:
        limits = attribute.bin_limits if attribute.scale is None else attribute.grid_limits
        return limits[0][bins], limits[1][bins]
    places, entries = attribute.entries
    # Entries lie one after the other on a line, each as long as its weight.
    ends = np.cumsum(entries[:, 2])
    first = np.searchsorted(places, np.arange(attribute.bins), side="left")
    last = np.searchsorted(places, np.arange(attribute.bins), side="right") - 1
    starts = np.concatenate([[0.0], ends])[first]
    drawn = starts[bins] + rng.random(len(bins)) * (ends[last] - starts)[bins]
    chosen = np.clip(np.searchsorted(ends, drawn, side="right"), first[bins], last[bins])
    low, high = entries[chosen, 0], entries[chosen, 1]
    if attribute.scale is None:
        return low, high
    return tuple(np.rint(one * attribute.scale).astype(np.int64) for one in (low, high))
