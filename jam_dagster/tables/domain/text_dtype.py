"""The pandas dtype of texts, which is one under pandas 2 and 3.

pandas 3 calls it ``str``. Under pandas 2 that name stands for objects, or for texts of a fixed
width among which a missing value becomes the text ``None``. So the package asks for the dtype by
its class, never by that name.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from jam_dagster.common.deferred import pd
from jam_dagster.tables.domain.values import DECIMAL_DTYPE, text_of

if TYPE_CHECKING:
    import pyarrow as pa

SYNTHETIC = "synthetic"
"""The mark of a synthetic table: the name of its metadata, and of the column of a CSV file."""

_DTYPES = b"jam_dagster.dtypes"
_MOST_LEVELS = 1000


@cache
def text_dtype() -> Any:
    """Return texts whose missing value is NaN: the default of pandas 3, and in pandas since 2.3."""
    return pd.StringDtype(na_value=np.nan)


def dtype_of(name: str) -> Any:
    """Return the dtype that an attribute's dtype names."""
    if decimal := DECIMAL_DTYPE.fullmatch(name):
        import pyarrow as pa

        return pd.ArrowDtype(pa.decimal128(int(decimal[1]), int(decimal[2])))
    if name == "ordered category":
        return pd.CategoricalDtype(ordered=True)
    return text_dtype() if name == "str" else name


def name_of(dtype: Any) -> str:
    """Return the name of a dtype as an attribute states it."""
    return "ordered category" if getattr(dtype, "ordered", False) else str(dtype)


def is_text(kind: pa.DataType) -> bool:
    """Return whether Arrow has texts of a type."""
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def from_arrow(table: pa.Table) -> pd.DataFrame:
    """Return an Arrow table that holds no index as pandas, with texts of dtype `text_dtype`.

    Under pandas 2 they would be objects, and a synthetic table would come back from a store with
    other dtypes than it was stored with.
    """
    import pyarrow as pa

    frame: pd.DataFrame = table.to_pandas()
    for index, field in enumerate(table.schema):
        if pa.types.is_decimal128(field.type):
            # Arrow gives them as objects.
            frame.isetitem(index, frame.iloc[:, index].astype(pd.ArrowDtype(field.type)).array)
        if is_text(field.type) and pd.api.types.is_object_dtype(frame.dtypes.iloc[index]):
            frame.isetitem(index, frame.iloc[:, index].astype(text_dtype()).array)
    for name, dtype in json.loads((table.schema.metadata or {}).get(_DTYPES, b"{}")).items():
        if name in frame:
            frame[name] = _with_dtype(frame[name], *dtype)
    return frame


def with_dtypes(schema: pa.Schema, frame: pd.DataFrame) -> pa.Schema:
    """Return the schema of a table with those dtypes that its Arrow data do not bring back.

    If the table is marked as synthetic, so is the schema, for readers other than pandas.
    """
    dtypes = {
        str(name): [name_of(column.dtype), _levels(column)]
        for name, column in frame.items()
        if name_of(column.dtype) in ("object", "category", "ordered category", "datetime64[s]")
    }
    said = {_DTYPES: json.dumps(dtypes)} if dtypes else {}
    if SYNTHETIC in frame.attrs:
        said[SYNTHETIC.encode()] = str(frame.attrs[SYNTHETIC])
    return schema.with_metadata({**(schema.metadata or {}), **said})


def _levels(column: pd.Series[Any]) -> list[Any]:
    """Return the values of a column whose cells Arrow gives back as others, if they are few."""
    category = isinstance(column.dtype, pd.CategoricalDtype)
    given = pd.Series(column.cat.categories) if category else column.dropna()
    kinds = set(map(type, given))
    # Texts come back, and so do objects that are all numbers.
    if not kinds <= {str, bool, int, float} or kinds == {str} or len(kinds) < 2 - category:
        return []
    levels: list[Any] = given.unique().tolist()
    return levels if len(levels) <= _MOST_LEVELS else []


def _with_dtype(column: pd.Series[Any], name: str, levels: list[Any]) -> pd.Series[Any]:
    if name == "datetime64[s]":
        return column.astype("datetime64[s]")
    if not levels:
        objects = column.astype(object).where(column.notna(), None)
        return objects if name == "object" else column
    index_of = {text_of(level): index for index, level in enumerate(levels)}
    indices, values = pd.factorize(column)
    codes = np.array([*(index_of.get(text_of(one), -1) for one in values), -1])[indices]
    if name == "object":
        return pd.Series(np.array([*levels, None], dtype=object)[codes], column.index, object)
    dtype = pd.CategoricalDtype(levels, name == "ordered category")
    return pd.Series(pd.Categorical.from_codes(codes, dtype=dtype), index=column.index)
