"""The pandas dtype of texts, which is one under pandas 2 and 3.

pandas 3 calls it ``str``. Under pandas 2 that name stands for objects, or for texts of a fixed
width among which a missing value becomes the text ``None``. So the package asks for the dtype by
its class, never by that name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from jam_dagster.tables.domain.values import DECIMAL_DTYPE

if TYPE_CHECKING:
    import pyarrow as pa

TEXT: Any = pd.StringDtype(na_value=np.nan)
"""Texts whose missing value is NaN: the default of pandas 3, and in pandas since 2.3."""


def dtype_of(name: str) -> Any:
    """Return the dtype that an attribute's dtype names."""
    if decimal := DECIMAL_DTYPE.fullmatch(name):
        import pyarrow as pa

        return pd.ArrowDtype(pa.decimal128(int(decimal[1]), int(decimal[2])))
    if name == "ordered category":
        return pd.CategoricalDtype(ordered=True)
    return TEXT if name == "str" else name


def name_of(dtype: Any) -> str:
    """Return the name of a dtype as an attribute states it."""
    return "ordered category" if getattr(dtype, "ordered", False) else str(dtype)


def is_text(kind: pa.DataType) -> bool:
    """Return whether Arrow has texts of a type."""
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def from_arrow(table: pa.Table) -> pd.DataFrame:
    """Return an Arrow table that holds no index as pandas, with texts of dtype `TEXT`.

    Under pandas 2 they would be objects, and a synthetic table would come back from a store with
    other dtypes than it was stored with.
    """
    import pyarrow as pa

    frame: pd.DataFrame = table.to_pandas()
    for place, field in enumerate(table.schema):
        if pa.types.is_decimal128(field.type):
            # Arrow gives them as objects.
            frame.isetitem(place, frame.iloc[:, place].astype(pd.ArrowDtype(field.type)).array)
        if is_text(field.type) and pd.api.types.is_object_dtype(frame.dtypes.iloc[place]):
            frame.isetitem(place, frame.iloc[:, place].astype(TEXT).array)
    return frame
