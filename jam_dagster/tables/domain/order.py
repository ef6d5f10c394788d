"""The order of an attribute's values, and the numbers that they stand for."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from jam_dagster.tables.domain.attributes import Attribute
from jam_dagster.tables.domain.binned import BinnedAttribute
from jam_dagster.tables.domain.children import ChildAttribute

Codes = npt.NDArray[np.intp]

TWO = 2
"""Values of an attribute that are in an order, whatever they are."""


def codes_in_order(attribute: Attribute) -> Codes | None:
    """Return the codes of the values in their order, without gaps; None if they have none."""
    absent = () if attribute.absent_code is None else (attribute.absent_code,)
    codes = np.setdiff1d(np.arange(attribute.size), [*attribute.missing_codes, *absent])
    one = attribute.child if isinstance(attribute, ChildAttribute) else attribute
    if one.binned or one.ordered or codes.size == TWO:
        return codes
    numbers = [value for value in one.listed if isinstance(value, int | float)]
    if not numbers or len(numbers) < codes.size:
        return None
    return codes[np.argsort(numbers, kind="stable")]


def numbers_in_order(attribute: Attribute, order: Codes) -> npt.NDArray[np.float64]:
    """Return the number of each code: the middle of a bin, a listed number, or its place."""
    one = attribute.child if isinstance(attribute, ChildAttribute) else attribute
    if isinstance(one, BinnedAttribute):
        edges = one.edge_array
        made: npt.NDArray[np.float64] = (edges[:-1] + edges[1:]) / 2
        return made[: len(order)]
    numbers = [value for value in one.listed if isinstance(value, int | float)]
    if len(numbers) == len(order):
        return np.sort(np.array(numbers, dtype=np.float64))
    return np.arange(len(order), dtype=np.float64)
