"""Values of columns, read one by one whatever the column's dtype.

A record's codes must depend on that record alone; otherwise changing one record could change all
the others, and no sensitivity would hold. Everything that chooses a type by the values of a column,
such as pandas, or Arrow for a column of objects, is therefore kept from private tables: a column
has the type that its schema or its caller states, and the cells of a column of objects are read one
by one. `exact_column` and `with_types` look at whole columns and are for public tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from jam_dagster.common.deferred import pd
from jam_dagster.tables.domain.number_format import NumberFormat
from jam_dagster.tables.domain.text_dtype import text_dtype
from jam_dagster.tables.domain.units import DATE, DURATION, TIME
from jam_dagster.tables.domain.values import (
    LARGEST_INTEGER,
    alone,
    exact_number,
    text_of,
    truth_of,
)

if TYPE_CHECKING:
    import pyarrow as pa

Batch: TypeAlias = "pa.RecordBatch | pd.DataFrame"
"""Rows of a table: Arrow data of declared types, or a frame whose cells are read one by one."""

ARROW_GAPS = {"integer_object_nulls": True}
"""Options from Arrow to pandas: the defaults turn integers with a gap into less exact floats."""

_TIMES: dict[str, Any] = {
    "date": DATE,
    "time": TIME,
    "timedelta": DURATION,
    "datetime": "datetime64[us]",
}
_CALENDAR = tuple((day - date(1970, 1, 1)).days for day in (date.min, date.max))
"""The first and the last day that Python has, in days since 1970."""
_ZERO_PADDED = re.compile(r"\s*0[0-9]", re.ASCII)
# No program writes all numbers as 1e3, and telephone numbers begin with a plus.
_CODE = re.compile(r"\s*(?:[0-9]+[eE][0-9]+|\+[0-9]{7,})\s*", re.ASCII)

# Values of these types that are equal are one value, unlike an instant in two zones; True, 1 and
# 1.0 are equal, and are several.
_TEXTS, _NUMBERS = {str, type(None)}, ({int}, {float}, {bool})


def each_value(
    column: pd.Series[Any],
    function: Callable[[Any], Any],
    missing: Any,
    dtype: npt.DTypeLike = object,
) -> npt.NDArray[Any]:
    """Apply a function to each value, computed once for values that are the same."""
    distinct: Any
    if isinstance(column.dtype, pd.CategoricalDtype):
        indices, distinct = column.cat.codes.to_numpy(), column.cat.categories
    elif _equal_are_same(column):
        indices, distinct = pd.factorize(column)
    else:
        return _each_cell(column, function, missing, dtype)
    results = np.empty(len(distinct) + 1, dtype)
    for index, value in enumerate(values_in(distinct)):
        results[index] = function(value)
    # The last entry is for code -1 of missing values.
    results[-1] = missing
    return results[indices]


def values_in(distinct: Any) -> Any:
    """Return values of which each can be asked for its text.

    An index gives numbers of single precision as floats of Python, whose texts are others.
    """
    dtype: Any = distinct.dtype
    narrow = pd.api.types.is_float_dtype(dtype) and dtype.itemsize < 8
    return distinct.to_numpy(f"f{dtype.itemsize}") if narrow else distinct


def _equal_are_same(column: pd.Series[Any]) -> bool:
    """Return whether a result may be computed once for equal cells, as it is theirs anyway."""
    dtype = column.dtype
    held_as_objects = isinstance(dtype, pd.StringDtype) and dtype.storage == "python"
    if (pd.api.types.is_object_dtype(dtype) or held_as_objects) and not _is_unicode(column):
        # pandas takes a text that has no UTF-8 for the text that shows it.
        return False
    if pd.api.types.is_object_dtype(dtype):
        kinds = set(map(type, column.to_numpy())) - _TEXTS
        return not kinds or kinds in _NUMBERS
    if pd.api.types.is_complex_dtype(dtype):
        return False
    return (
        pd.api.types.is_numeric_dtype(dtype)
        or pd.api.types.is_string_dtype(dtype)
        or pd.api.types.is_datetime64_any_dtype(dtype)
    )


def _is_unicode(column: pd.Series[Any]) -> bool:
    """Return whether all texts of a column can be written in UTF-8."""
    try:
        for cell in column.to_numpy(dtype=object):
            if isinstance(cell, str) and not cell.isascii():
                cell.encode()
    except UnicodeError:
        return False
    return True


def _each_cell(
    column: pd.Series[Any], function: Callable[[Any], Any], missing: Any, dtype: npt.DTypeLike
) -> npt.NDArray[Any]:
    results = np.empty(len(column), dtype)
    for index, value in enumerate(column.array):
        results[index] = missing if _is_missing(value) else function(value)
    return results


def _is_missing(value: object) -> bool:
    """Return whether one cell is missing; what has no answer to that is not."""
    if isinstance(value, Decimal):
        return value.is_nan()
    scalar: Any = value if pd.api.types.is_scalar(value) else ""
    try:
        return bool(pd.isna(scalar))
    except Exception:  # A cell of an object column may be anything.
        return False


def missing_in(column: pd.Series[Any]) -> npt.NDArray[np.bool_]:
    """Return which cells are missing, each by itself, shape (rows,)."""
    if pd.api.types.is_object_dtype(column.dtype):
        return each_value(column, lambda _: False, True, np.bool_)
    return column.isna().to_numpy(dtype=bool)


NO_TEXT = "\ufffd"
"""Stands for a cell without a text, which is not missing: it fits where any unlisted value does."""


def cell_text(value: object) -> str:
    """Return a text that encodes as the cell does; its lone surrogates are escaped."""
    try:
        number = None if isinstance(value, str) else exact_number(value)
        text = str(number) if isinstance(number, int) else text_of(value)
    except Exception:  # A cell of an object column may be anything.
        return NO_TEXT
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def with_texts(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose columns of objects hold the text of each cell (`cell_text`).

    Arrow then has no type to choose by what a column holds.
    """
    table = table.copy(deep=False)
    for index in range(len(table.columns)):
        column = table.iloc[:, index]
        kind: Any = column.dtype
        held = kind.categories.dtype if isinstance(kind, pd.CategoricalDtype) else kind
        if pd.api.types.is_object_dtype(held) or (
            isinstance(held, pd.StringDtype) and held.storage == "python"
        ):
            texts = each_value(column, cell_text, None)
            table.isetitem(index, pd.array(texts, dtype=text_dtype()))
    return table


def numbers_of(
    column: pd.Series[Any], written: NumberFormat | None = None
) -> npt.NDArray[np.float64]:
    """Return the number of each value, by a format where texts have one; NaN for others."""
    return each_value(column, partial(_float, written=written), np.nan, np.float64)


def number_of(value: Any, written: NumberFormat | None) -> float | None:
    """Return the number of a value, by a format where a text has it; None for another value."""
    number = written.read(value) if written is not None and isinstance(value, str) else None
    return exact_number(value) if number is None else number


def _float(value: Any, written: NumberFormat | None) -> float:
    try:
        number = number_of(value, written)
        return np.nan if number is None else float(number)
    except OverflowError:
        return np.inf if value > 0 else -np.inf
    except Exception:  # A cell of an object column may be anything.
        return np.nan


def with_types(table: pd.DataFrame, keep: Collection[str]) -> pd.DataFrame:
    """Return a public table of texts with types: numbers, booleans, or texts that are codes."""
    typed = {
        name: column
        if name in keep or not isinstance(column.dtype, pd.StringDtype)
        else _with_type(column)
        for name, column in table.items()
    }
    return pd.DataFrame(typed, index=table.index)


def texts_in(column: pd.Series[Any]) -> dict[str, int]:
    """Return in how many rows each text of a public column occurs."""
    return {str(text): rows for text, rows in column.value_counts().items()}


def has_codes(column: pd.Series[Any]) -> bool:
    """Return whether a public column's texts look like numbers and are codes."""
    texts = [one for one in column.dropna().unique() if isinstance(one, str)]
    padded = any(map(_ZERO_PADDED.match, texts))
    return padded or (bool(texts) and all(map(_CODE.fullmatch, texts)))


def _with_type(column: pd.Series[Any]) -> pd.Series[Any]:
    if has_codes(column):
        return column
    for read in (exact_number, truth_of):
        values = pd.Series(each_value(column, read, None), index=column.index, dtype=object)
        if len(values) and not (values.isna() & column.notna()).any() and values.notna().any():
            typed = exact_column(values)
            return column if pd.api.types.is_object_dtype(typed.dtype) else typed
    return column


def exact_column(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a public column of objects or of Arrow data with a dtype that holds it, if any.

    Intervals, which no file holds, become their texts, in their order.
    """
    if isinstance(column.dtype, pd.ArrowDtype):
        column = _of_arrow(column)
    if _has_intervals(column):
        return _of_intervals(column)
    if not pd.api.types.is_object_dtype(column.dtype):
        return column
    kind = pd.api.types.infer_dtype(column, skipna=True)
    gaps = bool(column.isna().any())
    plain = {
        "string": text_dtype(),
        "boolean": "boolean" if gaps else "bool",
        "floating": "float64",
    }
    dtype: Any = plain.get(kind)
    if kind == "integer":
        known = [value for value in column if not pd.isna(value)]
        for fits in ("int64", "uint64"):
            limits = np.iinfo(fits)
            if dtype is None and limits.min <= min(known) and max(known) <= limits.max:
                dtype = fits.replace("int", "Int").replace("u", "U") if gaps else fits
    elif kind in _TIMES:
        return _of_kind(column, kind)
    elif kind in ("decimal", "mixed-integer-float"):
        exact_kind = _of_kind(column, kind) if kind == "decimal" else column
        if exact_kind is not column:
            return exact_kind
        numbers = [exact_number(value) for value in column]
        if all(not isinstance(one, int) or abs(one) <= LARGEST_INTEGER for one in numbers):
            return pd.Series(numbers_of(column), index=column.index, name=column.name)
    with suppress(UnicodeError):  # A text may be impossible to store.
        return column if dtype is None else column.astype(dtype)
    return column


def _has_intervals(column: pd.Series[Any]) -> bool:
    dtype: Any = column.dtype
    held = dtype.categories.dtype if isinstance(dtype, pd.CategoricalDtype) else dtype
    return isinstance(held, pd.IntervalDtype)


def _of_intervals(column: pd.Series[Any]) -> pd.Series[Any]:
    if isinstance(column.dtype, pd.CategoricalDtype):
        texts: pd.Series[Any] = column.cat.rename_categories(str)
    else:
        cells = each_value(column, str, None)
        texts = pd.Series(cells, column.index, dtype=text_dtype(), name=column.name)
    return texts


def _of_arrow(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column of Arrow data with the dtype of pandas for it, where there is one."""
    import pyarrow as pa

    held = pa.table({"": pa.array(column)})
    kind = held.schema.types[0]
    if pa.types.is_decimal128(kind) or pa.types.is_date32(kind) or pa.types.is_time(kind):
        return column
    made = frame_of(held)[""]
    return pd.Series(made.array, index=column.index, name=column.name)


def without_category(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a public column with the values of its categories, whatever declares these."""
    values = exact_column(pd.Series(column.cat.categories))
    if pd.api.types.is_numeric_dtype(values.dtype):
        # Floats, which have gaps, do not hold all integers.
        values = values.astype(object)
    cells = values.reindex(column.cat.codes)
    return exact_column(pd.Series(cells.array, column.index, name=column.name))


def _of_kind(column: pd.Series[Any], kind: str) -> pd.Series[Any]:
    """Return decimals, dates or times with a dtype, or unchanged where none holds them exactly."""
    import pyarrow as pa

    known = list(column.dropna())
    with suppress(Exception):  # Too many digits or a year beyond the dtype's.
        if kind == "decimal":
            scale = max(pa.array(known).type.scale, 0)
            return column.astype(pd.ArrowDtype(pa.decimal128(38, scale)))
        aware = {getattr(value, "tzinfo", None) is not None for value in known}
        if len({isinstance(value, datetime) for value in known} | aware) > 1 and kind != "datetime":
            return column
        if kind == "datetime" and len(aware) == 1 and all(aware):
            return pd.to_datetime(column, utc=True).astype("datetime64[us, UTC]")
        typed: pd.Series[Any] = column.astype(_TIMES[kind])
        return typed
    return column


def exact_columns(table: pd.DataFrame) -> pd.DataFrame:
    """Give a public table's columns `exact_column`'s dtypes."""
    for index in range(len(table.columns)):
        column = table.iloc[:, index]
        exact = exact_column(column)
        if exact is not column:
            table.isetitem(index, exact.array)
    return table


def frame_of(rows: pa.Table) -> pd.DataFrame:
    """Return rows of Arrow as a frame, without loss."""
    return with_gaps(rows.to_pandas(**ARROW_GAPS), rows.schema)


def as_frame(batch: pa.RecordBatch | pd.DataFrame) -> pd.DataFrame:
    """Return a batch of rows as a frame, without loss."""
    import pyarrow as pa

    return batch if isinstance(batch, pd.DataFrame) else frame_of(pa.Table.from_batches([batch]))


def no_rows_of(batch: Batch) -> pd.DataFrame:
    """Return a frame with a batch's columns, whatever its rows hold."""
    import pyarrow as pa

    if isinstance(batch, pd.DataFrame):
        return batch.iloc[:0]
    fields = [
        one.with_type(one.type.value_type) if pa.types.is_dictionary(one.type) else one
        for one in batch.schema
    ]
    return frame_of(pa.schema(fields, batch.schema.metadata).empty_table())


def alike_columns(columns: Iterable[Any], names: Sequence[str]) -> dict[str, str]:
    """Return the columns that look like a name that none has, by these names.

    Only one column looks so (see `lookalike`), and no other name does.
    """
    found = [one for one in columns if isinstance(one, str)]
    lacking = set(names) - set(found)
    if not lacking:
        return {}
    by_look = alone(found)
    return {
        name: by_look[look]
        for look, name in alone(names).items()
        if name in lacking and look in by_look
    }


def column_in(batch: Batch, name: str) -> pd.Series[Any]:
    """Return a column of a batch."""
    import pyarrow as pa

    if isinstance(batch, pd.DataFrame):
        return batch[name]
    cells = batch.column(name)
    # The cells of a dictionary may be null, which no category of pandas is.
    return series_of(
        cells.cast(cells.type.value_type) if pa.types.is_dictionary(cells.type) else cells
    )


def series_of(cells: pa.Array) -> pd.Series[Any]:
    """Return cells of Arrow data as a column, without loss."""
    import pyarrow as pa

    if pa.types.is_date(cells.type):
        days = cells.cast(pa.date32()).cast(pa.int32()).to_pandas()
        beyond = ((days < _CALENDAR[0]) | (days > _CALENDAR[1])).to_numpy(dtype=bool)
        if beyond.any():
            # A date beyond Python's calendar is its text, so that it is refused by itself.
            texts = np.array(cells.cast(pa.string()).to_pylist(), dtype=object)
            texts[~beyond] = cells.filter(pa.array(~beyond)).to_pylist()
            return pd.Series(texts)
    column: pd.Series[Any] = frame_of(pa.table([cells], [""]))[""]
    return column


def with_gaps(table: pd.DataFrame, schema: pa.Schema) -> pd.DataFrame:
    """Give a table of Arrow data its types; integers and booleans with gaps are objects."""
    import pyarrow as pa

    for index, name in enumerate(table.columns):
        found = schema.get_field_index(str(name))
        if found < 0 or not pd.api.types.is_object_dtype(table.dtypes.iloc[index]):
            continue
        kind = schema.field(found).type
        if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
            dtype = str(kind).replace("bool", "boolean").replace("u", "U").replace("int", "Int")
            table.isetitem(
                index, table.iloc[:, index].astype(pd.api.types.pandas_dtype(dtype)).array
            )
    return table


def with_arrow_types(table: pd.DataFrame, schema: pa.Schema) -> pd.DataFrame:
    """Give decimals and times of day of a public table the types of their Arrow data."""
    import pyarrow as pa

    for index, name in enumerate(table.columns):
        found = schema.get_field_index(str(name))
        kind = schema.field(found).type if found >= 0 else pa.null()
        if pa.types.is_decimal128(kind) or pa.types.is_time(kind):
            table.isetitem(index, table.iloc[:, index].astype(pd.ArrowDtype(kind)).array)
    return table


def without_index(rows: pa.Table, select: Callable[[list[str]], pa.Table]) -> pd.DataFrame:
    """Return rows of Arrow as a frame, without loss, with their named index as columns."""
    table: pd.DataFrame = rows.to_pandas(**ARROW_GAPS)
    schema, index = rows.schema, table.index
    del rows  # Its memory, where nobody else holds it.
    names = [str(name) for name in index.names if name is not None]
    if names and isinstance(index, pd.RangeIndex):
        table = table.reset_index()
    elif names:
        stored = select(names).to_pandas(**ARROW_GAPS, ignore_metadata=True)
        table = pd.concat([stored, table.reset_index(drop=True)], axis=1)
    return with_gaps(table.reset_index(drop=True), schema)


def numbered_index(schema: pa.Schema) -> set[str]:
    """Return the name of a range index that pandas stored as start, stop and step, if any."""
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    return {str(one["name"]) for one in index if isinstance(one, dict) and one["name"] is not None}
