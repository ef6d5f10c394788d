"""Attributes of every dtype that a domain can state, with missing cells."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from jam_dagster.tables import (
    CategoricalAttribute,
    Domain,
    EncodedTable,
    NumericAttribute,
    TimeAttribute,
    decode,
)
from jam_dagster.tables.domain.attributes import Attribute
from jam_dagster.tables.domain.values import DTYPES_OF_ANY, DTYPES_OF_KIND, Value


def of_every_dtype() -> list[Attribute]:
    """Return an attribute with missing cells of each kind, in each dtype that it can state."""

    def has_missing(dtype: str) -> bool:
        return dtype != "bool" and not dtype.startswith(("int", "uint"))

    values: dict[str, tuple[Value, ...]] = {
        "text": ("a", "b"),
        "boolean": (False, True),
        "integer": (1, 2),
        "number": (1.5, 2.5),
        "mixed": ("a", 1),
    }
    found: list[Attribute] = [
        CategoricalAttribute(f"{kind} {dtype}", values[kind], nullable=True, dtype=dtype)
        for kind, dtypes in DTYPES_OF_KIND.items()
        for dtype in sorted(dtypes)
        if has_missing(dtype)
    ]
    numbers = {
        decimals: DTYPES_OF_KIND["number" if decimals else "integer"] - DTYPES_OF_ANY
        | {f"decimal128({digits}, {decimals})[pyarrow]" for digits in (10, 38)}
        for decimals in (0, 2)
    }
    found += [
        NumericAttribute(
            f"{decimals} decimals {dtype}",
            (0, 5, 9),
            integer=not decimals,
            decimals=decimals or None,
            nullable=True,
            dtype=dtype,
        )
        for decimals, dtypes in numbers.items()
        for dtype in sorted(dtypes)
        if has_missing(dtype)
    ]
    found += [
        NumericAttribute(
            "written " + dtype, (0, 5, 9), integer=True, nullable=True, dtype=dtype, format="$#,##0"
        )
        for dtype in ("str", "string")
    ]
    texts = ("str", "string", "object", "category")
    whole = ("Int32", "Int64")
    times = [
        *(("day", None, None, f"datetime64[{unit}]") for unit in ("s", "ms", "us", "ns")),
        ("second", "UTC", None, "datetime64[us, UTC]"),
        ("day", None, None, "date32[day][pyarrow]"),
        *(("second", None, None, f"time{unit}[pyarrow]") for unit in ("32[s]", "64[us]", "64[ns]")),
        *(("second", None, None, f"timedelta64[{unit}]") for unit in ("s", "us", "ns")),
        *(("day", None, "%Y-%m-%d", dtype) for dtype in texts),
        *(("second", None, "hh:mm:ss", dtype) for dtype in texts),
        *(("day", None, "%Y%m%d", dtype) for dtype in whole),
    ]
    found += [
        TimeAttribute(
            f"{written or unit} {dtype}",
            (10, 12, 20),
            unit=unit,  # type: ignore[arg-type]
            zone=zone,
            format=written,
            dtype=dtype,
            nullable=True,
        )
        for unit, zone, written, dtype in times
    ]
    # Great Expectations takes names that differ in case alone for one.
    return [replace(one, name=f"{place} {one.name}") for place, one in enumerate(found)]


EVERY_DTYPE = Domain(tuple(of_every_dtype()))


def rows_of_every_dtype(rows: int) -> pd.DataFrame:
    """Return a table over `EVERY_DTYPE`."""
    rng = np.random.default_rng(0)
    codes = tuple(rng.integers(0, size, rows) for size in EVERY_DTYPE.shape)
    return decode(EncodedTable(EVERY_DTYPE, codes), rng)
