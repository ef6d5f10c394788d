"""Drafting an attribute from a column: its kind, and its values or bins."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Collection, Sequence
from datetime import date, timedelta
from decimal import Decimal
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from jam_dagster.common.deferred import pd
from jam_dagster.errors import DomainError
from jam_dagster.tables.domain.attributes import Attribute
from jam_dagster.tables.domain.binned import LARGEST_EDGE
from jam_dagster.tables.domain.categorical import CategoricalAttribute
from jam_dagster.tables.domain.columns import (
    each_value,
    exact_column,
    has_codes,
    number_of,
    texts_in,
    values_in,
    without_category,
)
from jam_dagster.tables.domain.number_format import NumberFormat, format_of
from jam_dagster.tables.domain.numeric import NumericAttribute, equal_width_edges
from jam_dagster.tables.domain.prefixes import PrefixAttribute
from jam_dagster.tables.domain.values import (
    DECIMAL_DTYPE,
    LARGEST_INTEGER,
    Unreadable,
    Value,
    exact_number,
    is_formula,
    kind_of,
    plain_value,
    text_of,
    truths_of,
)
from jam_dagster.tables.drafting.many_texts import advice_on
from jam_dagster.tables.drafting.quantile_bins import KEPT_VALUES, step_of, with_quantile_bins
from jam_dagster.tables.drafting.time_draft import NEARLY_ALL, draft_time, reads_enough

_MAX_CATEGORIES = 1000
# Beyond this many different values, a column that hardly repeats any counts as names or keys.
_MAX_DISTINCT_TEXTS = 100
_SHOWN_CHARACTERS = 60
# Number of texts that are kept if there are more different ones.
_KEPT_TEXTS = 60
_MAX_DECIMALS = 6
_MOST_DECIMALS, _MOST_DIGITS, _SINGLE_DIGITS = 15, 10, 6
_OWN_BIN_SHARE = 0.1
_OWN_BIN_ROWS = 20
# If few numbers are different, a text among them may be one of the column's values.
_ALL_OF_FEW = 0.99
# Larger ones may be amounts or instants: flags, classes and years are no larger.
_LARGEST_CODE = 9999
_FEW = 20
# So many numbers with separated thousands are no slip.
_GROUPED_SHARE = 0.01
# So many of the different numbers stay different as floats.
_DISTINGUISHED = 0.9
_INFINITE = 10**300
# customer_id, orderNumber, ID, and pandas' name of a column without one
_KEY = re.compile(
    r"(?i:(?:^|[^a-z])(?:id|key|pk|no|nr|num|number|index|serial))$|[a-z](?:Id|ID|Key|No|Nr|Number)$"
    r"|^Unnamed: \d+$"
)

# A text in fewer public rows is in no synthetic row, if a column has many texts.
_KEPT_ROWS = 5
_MOST_PREFIXES = 60
_MOST_CODES = 10_000
_ALL_OF_ONE_SHAPE = 0.99
_KEPT_SHARE = 0.5
_CODE_SHAPES = [
    re.compile(shape, re.ASCII)
    for shape in (
        r"\d{4,9}",  # industries, procedures, postal codes of many countries
        r"\d{5}-\d{4}",
        r"[A-Z]\d[0-9A-Z](?:\.[0-9A-Z]{1,4})?",  # diagnoses
        r"[A-Z]\d[A-Z] ?\d[A-Z]\d",  # postal codes of Canada
    )
]


def draft_attribute(
    name: str, columns: list[pd.Series[Any]], bins: int | None, other: str | None
) -> Attribute:
    """Draft an attribute from a public column, or the papers' way from a private one as well."""
    gaps = any(bool(column.isna().any()) for column in columns)
    observed = [column.dropna() for column in columns]
    levels: tuple[Value, ...] = ()
    if len(columns) == 1 and isinstance(columns[0].dtype, pd.CategoricalDtype):
        levels = _levels(columns[0])
        if levels and declares_levels(columns[0]):
            return _of_levels(name, columns[0].dtype, levels, other)
        observed = [without_category(observed[0])]
    if len(columns) == 1 and len(observed[0]):
        try:
            time = draft_time(name, observed[0], bins, gaps or other is not None)
        except OverflowError:
            raise DomainError(
                "holds dates that a time zone moves beyond the years 1 to 9999: make them missing"
                " in the source"
            ) from None
        if time is not None:
            if not gaps and len(observed[0].unique()) == 1:
                raise _constant(text_of(observed[0].iloc[0]))
            return time
        written = _written_numbers(observed[0], all_cells=other is None)
        if written is not None:
            numbers, form = written
            gaps = gaps or len(numbers) < len(observed[0])
            return _draft_numeric(name, numbers.dtype, [numbers], bins, gaps, form)
    if levels and (gaps or len(levels) > 1):
        return _of_levels(name, columns[0].dtype, levels, other)
    kinds = {_kind(column) for column in observed if len(column)}
    if not kinds:
        raise DomainError("is missing in every row")
    if kinds == {"number"}:
        return _draft_numeric(name, columns[0].dtype, observed, bins, gaps)
    if "number" in kinds and len(kinds) > 1:
        raise DomainError("holds numbers in only one table")
    return _draft_categorical(name, columns[0].dtype, observed, other, gaps)


def declares_levels(column: pd.Series[Any]) -> bool:
    """Return whether a public category says more than its cells: an order, or what none of them is.

    Another may be how its program stores texts. So may one of many values.
    """
    dtype: Any = column.dtype
    levels = len(dtype.categories)
    return levels <= _MAX_DISTINCT_TEXTS and (dtype.ordered or column.nunique() < levels)


def _levels(column: pd.Series[Any]) -> tuple[Value, ...]:
    """Return the values that the dtype of a public category declares, if they can be listed."""
    levels: list[Any] = column.cat.categories.tolist()
    if pd.api.types.is_float_dtype(column.cat.categories.dtype):
        levels = [plain_value("level", one) for one in values_in(column.cat.categories)]
    levels = [exact_number(one) if isinstance(one, Decimal) else one for one in levels]
    many = len(levels) > _MAX_DISTINCT_TEXTS and 2 * column.nunique() > column.count()
    if many or len(levels) > _MAX_CATEGORIES:
        return ()
    if not all(isinstance(one, str | bool | int | float) for one in levels):
        return ()
    # No release could hold a formula.
    return tuple(one for one in levels if not is_formula(one))


def _of_levels(
    name: str, dtype: Any, levels: tuple[Value, ...], other: str | None
) -> CategoricalAttribute:
    unreadable: Unreadable = "error" if other is None else "missing"
    kept = "ordered category" if dtype.ordered else "category"
    return CategoricalAttribute(name, levels, nullable=True, dtype=kept, unreadable=unreadable)


def _written_numbers(
    column: pd.Series[Any], *, all_cells: bool
) -> tuple[pd.Series[Any], NumberFormat | None] | None:
    """Return the numbers that nearly all texts of a column write, and their format, if any."""
    held = {str} if isinstance(column.dtype, pd.StringDtype) else set(map(type, column.array))
    if not held or not held <= {str, int, float, Decimal} or str not in held:
        return None
    if has_codes(column) or column.nunique() < 2:
        return None
    form = _format_in(column) if held == {str} else None
    read = exact_number if form is None else partial(number_of, written=form)
    cells = pd.Series(each_value(column, read, None), dtype=object)
    numbers = cells.dropna()
    if form is not None:
        # Telephone numbers are written in groups, too, and a letter may end a key.
        whole = not form.decimals and (form.is_glued or not form.has_unit)
        if whole and column.is_unique and len(set(map(len, column))) == 1:
            return None
    share = len(numbers) / len(column)
    # A column of plain numbers alone is kept as texts on purpose.
    if share == 1 and form is None:
        return None
    if (values := numbers.nunique()) > _FEW:
        others = column[cells.isna().to_numpy()].unique()
        nearly = reads_enough(cells=len(cells), read=len(numbers), values=values, others=others)
    else:
        nearly = share >= _ALL_OF_FEW
    if not nearly or (all_cells and share < 1):
        return None
    return exact_column(numbers), form


def _format_in(column: pd.Series[Any]) -> NumberFormat | None:
    """Return the format of a column's numbers; None if nearly all are plain ones.

    A source with decimal commas gives ``836,65`` as ``836.65``, while a ``1.374,93`` stays:
    the largest numbers of a column must not be lost.
    """
    texts = texts_in(column)
    plain = {text: number for text in texts if (number := exact_number(text)) is not None}
    odd = {text: rows for text, rows in texts.items() if text not in plain}
    grouped = format_of(odd) if odd and plain else None
    if grouped is not None and grouped.groups and not grouped.has_unit:
        styled: Counter[str] = Counter()
        for text, rows in texts.items():
            styled[text.replace(".", grouped.point) if text in plain else text] += rows
        form = format_of(styled)
        read = 0 if form is None else sum(odd[one] for one in odd if form.read(one) is not None)
        often = read >= max(_OWN_BIN_ROWS, _GROUPED_SHARE * len(column))
        # A decimal that reads as thousands, too, would be read by the format.
        if form and often and all(form.read(one) in (None, plain[one]) for one in plain):
            return form
    many = sum(texts[text] for text in plain) >= NEARLY_ALL * len(column)
    form = None if many else format_of(texts)
    # Words among plain numbers need no format.
    return form if form and any(form.read(text) is not None for text in odd) else None


def _kind(column: pd.Series[Any]) -> str:
    """Return "number", "boolean", "text" or "mixed" for a column without missing values."""
    dtype: Any = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return "text"
    if pd.api.types.is_bool_dtype(dtype):
        return "boolean"
    if pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_complex_dtype(dtype):
        return "number"
    is_object = pd.api.types.is_object_dtype(dtype)
    if not is_object and pd.api.types.is_string_dtype(dtype):
        return "text"
    if not is_object or any(isinstance(value, date | timedelta) for value in column):
        if is_object:
            raise DomainError(
                "holds dates or times mixed with other values: give them one type in the source"
            )
        raise DomainError(f"holds values of type {dtype}, which cannot be counted")
    if any(isinstance(value, list | tuple | dict | set | np.ndarray) for value in column):
        raise DomainError("holds nested values: make columns of them in the source to keep them")
    if all(isinstance(value, bool | np.bool_) for value in column):
        return "boolean"
    if any(isinstance(value, bool | np.bool_ | str) for value in column):
        if not all(isinstance(value, str | np.bool_ | Real | Decimal) for value in column):
            raise DomainError("holds objects that are neither texts nor numbers, mixed with others")
        return "text" if all(isinstance(value, str) for value in column) else "mixed"
    if pd.to_numeric(column, errors="coerce").notna().all():
        return "number"
    raise DomainError("holds objects that are neither texts nor numbers")


def _draft_categorical(
    name: str, dtype: Any, observed: list[pd.Series[Any]], other: str | None, gaps: bool
) -> CategoricalAttribute:
    by_text: dict[str, Value] = {}
    for column in observed:
        for value in column if pd.api.types.is_object_dtype(column.dtype) else column.unique():
            plain = exact_number(value) if isinstance(value, Decimal) else value
            by_text.setdefault(text_of(value), value if plain is None else plain)
    rows, private = sum(map(len, observed)), len(observed) > 1
    other = None if private else other
    if not private and len(by_text) > _KEPT_TEXTS and kind_of([*by_text.values()]) == "text":
        codes = draft_codes(name, Counter(observed[0]), other)
        if codes is not None:
            return codes
    if not private and len(by_text) == 1 and not gaps:
        raise _constant(next(iter(by_text)))
    if len(by_text) > _MAX_DISTINCT_TEXTS and 2 * len(by_text) > rows:
        raise DomainError(
            f"holds {len(by_text):,} different texts in {rows:,} rows, {_such_as(by_text)}"
        )
    if len(by_text) > _MAX_CATEGORIES and other is None:
        raise DomainError(
            f"holds {len(by_text):,} different values in {rows:,} rows: group them in the source"
        )
    nullable = gaps or not private
    unreadable: Unreadable = "error" if other is None else "missing"
    values = [by_text[text] for text in sorted(by_text)]
    if all(isinstance(value, bool | np.bool_) for value in values):
        # Both values are listed whatever the table shows.
        return CategoricalAttribute(name, (False, True), nullable=nullable, unreadable=unreadable)
    if not private and kind_of(values) == "text" and truths_of(values):
        return CategoricalAttribute(name, tuple(values), nullable=nullable, unreadable=unreadable)
    if other is not None:
        times = Counter(map(text_of, observed[0])).most_common()
        # A value that few rows have is a sign of values that no row has.
        rare = times[-1][1] < _KEPT_ROWS
        if len(by_text) > _KEPT_TEXTS:
            often = [one for one in times if one[1] >= _KEPT_ROWS] or times
            by_text = {text: by_text[text] for text, _ in often[:_KEPT_TEXTS]}
            rare = True
        # No release could hold them.
        plain = {text: value for text, value in by_text.items() if not is_formula(value)}
        rare = rare or len(plain) < len(by_text)
        values = [plain[text] for text in sorted(plain)]
        like = [text for text in sorted(plain) if text.lower() == other.lower()]
        if like:
            other = other if other in like else like[0]
        elif rare:
            values.append(other)
        else:
            other = None
    kept = "category" if isinstance(dtype, pd.CategoricalDtype) else None
    if kind_of(values) == "text" and str(dtype) == "string":
        kept = "string"
    if other is not None:
        unreadable = "error"
    return CategoricalAttribute(
        name, tuple(values), other, nullable=nullable, dtype=kept, unreadable=unreadable
    )


def draft_codes(name: str, texts: Counter[str], other: str | None) -> PrefixAttribute | None:
    """Return an attribute of codes by their first characters, if texts are of one shape of codes.

    It has at most 60 cells, and half of the rows or more have a code that is in 5 rows.
    """
    rows = texts.total()
    if not any(
        sum(texts[one] for one in texts if shape.fullmatch(one)) >= _ALL_OF_ONE_SHAPE * rows
        for shape in _CODE_SHAPES
    ):
        return None
    often = ((one, n) for one, n in texts.most_common(_MOST_CODES) if n >= _KEPT_ROWS)
    # No release could hold a formula.
    kept = {one: n for one, n in often if not is_formula(one)}
    if sum(kept.values()) < _KEPT_SHARE * rows:
        return None
    longest = max(map(len, kept))
    for prefix in range(longest - 1, 0, -1):
        starts = {one[:prefix] for one in kept}
        if len(starts) <= _MOST_PREFIXES and not all(one[-1] in ".- " for one in starts):
            break
    else:
        return None
    if len(starts) < 2 or (other or "")[:prefix] in starts:
        return None
    return PrefixAttribute(
        name,
        other if any(one[:prefix] not in starts for one in texts) else None,
        prefix=prefix,
        weights=tuple(sorted(kept.items())),
        nullable=True,
        unreadable="missing",
    )


def _such_as(texts: Collection[str]) -> str:
    """Return what many different texts may be, and what helps."""
    if all(exact_number(text) is not None for text in texts):
        return "all of them numbers: make numbers of them in the source, unless they are keys"
    return advice_on(texts) or (
        "such as names, keys or remarks, which identify persons: shorten or group them in the"
        " source to keep them"
    )


def _constant(text: str) -> DomainError:
    shown = text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
    return DomainError(f"is {shown} in every row")


def _draft_numeric(
    name: str,
    dtype: Any,
    observed: list[pd.Series[Any]],
    bins: int | None,
    gaps: bool,
    form: NumberFormat | None = None,
) -> NumericAttribute | CategoricalAttribute:
    arrays = [_finite(column) for column in observed]
    values = np.concatenate([array.astype(np.float64) for array in arrays])
    private = len(observed) > 1
    if not len(values):
        raise DomainError("holds no finite number")
    low, high = float(values.min()), float(values.max())
    exact: npt.NDArray[Any] = values
    large = max(-low, high) > LARGEST_INTEGER and not pd.api.types.is_float_dtype(dtype)
    if large and not private:
        # Floats do not distinguish neighbours.
        finite = [one for one in observed[0].tolist() if abs(one) < _INFINITE]
        exact = np.array(finite, dtype=object)
    distinct = np.unique(exact)
    if not private and len(distinct) == 1 and not gaps and len(values) == len(observed[0]):
        raise _constant(str(distinct[0]) if large else text_of(low))
    integer = max(-low, high) <= LARGEST_INTEGER and bool((values == np.floor(values)).all())
    few = large and not private and len(distinct) <= KEPT_VALUES
    if few and all(isinstance(one, int) for one in distinct.tolist()):
        return _of_codes(name, distinct.tolist())
    if pd.api.types.is_integer_dtype(dtype) and not integer:
        if private or max(abs(low), abs(high)) > LARGEST_EDGE:
            raise DomainError("holds integers too large to be counted in bins, such as keys")
        integer = True
    whole = integer or (large and all(one == int(one) for one in distinct))
    numbered = whole and not private and not (form is not None and form.has_unit)
    if numbered and _are_keys(name, exact, distinct):
        raise DomainError(
            f"holds another integer in each of {len(values):,} rows, such as keys or row numbers"
        )
    exactly = not large or private or all(one == float(one) for one in distinct)
    if not exactly and len(np.unique(values)) < _DISTINGUISHED * len(distinct):
        raise DomainError(
            f"holds {len(distinct):,} numbers of so many digits that bins do not distinguish"
            " them, such as keys: subtract a constant in the source, or make texts of them"
        )
    decimals = None if integer else _decimals(arrays)
    kept = _numeric_dtype(dtype, integer, gaps, gaps or not private)
    if DECIMAL_DTYPE.fullmatch(str(dtype)) and (integer or decimals):
        kept = str(dtype)
    small = integer and max(-low, high) <= _LARGEST_CODE
    if small and form is None and bins is None and len(distinct) == 2 and not private:
        # Two bins hold every number: listed values show that the private table has others.
        listed = tuple(map(int, distinct))
        return CategoricalAttribute(name, listed, nullable=True, unreadable="missing", dtype=kept)
    if form is not None:
        decimals = decimals if integer or decimals is not None else form.decimals
        kept = None
    draft = NumericAttribute(
        name,
        (low, high) if low < high else equal_width_edges(low, high, 1),
        integer=integer,
        nullable=gaps or not private,
        clip=True,
        decimals=decimals,
        dtype=kept,
        unreadable="error" if private else "apart",
        format=None if form is None else form.pattern,
    )
    if bins is None:
        draft = dataclasses.replace(draft, step=step_of(draft, values))
        return with_quantile_bins(draft, values)
    count = float("inf")
    if draft.scale is not None:
        count = round((high - low) * draft.scale) + 1
    width = min(bins, count) if high > low else 1
    draft = dataclasses.replace(draft, edges=equal_width_edges(low, high, int(width)))
    # A private table gives only bounds, as in the papers.
    return draft if private else _with_own_bins(draft, values)


def _of_codes(name: str, known: Sequence[int]) -> CategoricalAttribute:
    """Return an attribute of a few integers that floats may not distinguish."""
    for dtype in ("Int64", "UInt64"):
        limits = np.iinfo(dtype.lower())
        if limits.min <= known[0] and known[-1] <= limits.max:
            return CategoricalAttribute(
                name, tuple(known), nullable=True, unreadable="missing", dtype=dtype
            )
    # No column of numbers holds them.
    return CategoricalAttribute(name, tuple(map(str, known)), nullable=True, unreadable="missing")


def _are_keys(name: str, values: npt.NDArray[Any], distinct: npt.NDArray[Any]) -> bool:
    """Return whether integers number the rows: no two alike, and dense, in steps or called so."""
    if len(values) <= _MAX_DISTINCT_TEXTS or len(distinct) < len(values):
        return False
    dense = distinct[-1] - distinct[0] < 2 * len(values)
    return dense or len(np.unique(np.diff(distinct))) == 1 or bool(_KEY.search(name))


def _with_own_bins(draft: NumericAttribute, values: npt.NDArray[np.float64]) -> NumericAttribute:
    """Give values that many rows share a bin of their own."""
    distinct, counts = np.unique(values, return_counts=True)
    often = distinct[counts >= max(_OWN_BIN_SHARE * len(values), _OWN_BIN_ROWS)]
    low, high = draft.bin_limits
    often = np.setdiff1d(often, low[low == high])
    if not len(often):
        return draft
    # Edges of the same bins become values: 3125 for 3124.96875 if the numbers are integers.
    edges = {*low.tolist(), draft.edges[-1]}
    for value in often.tolist():
        if draft.scale is None:
            above = float(np.nextafter(np.asarray(value, dtype=str(draft.dtype).lower()), np.inf))
        else:
            above = float((round(value * draft.scale) + 1) / draft.scale)
        edges |= {value, above}
        if value == draft.edges[-1]:
            # The last bin is closed: it ends halfway to the next value, so it holds only this one.
            edges = edges - {above} | {(value + above) / 2 if draft.scale else above}
    return dataclasses.replace(draft, edges=tuple(sorted(edges)))


def _finite(column: pd.Series[Any]) -> npt.NDArray[Any]:
    if column.dtype == object:
        column = pd.to_numeric(column)
    kind = np.float32 if str(column.dtype).lower() == "float32" else np.float64
    values: npt.NDArray[Any] = column.to_numpy(dtype=kind)
    finite: npt.NDArray[Any] = values[np.isfinite(values)]
    return finite


def _decimals(arrays: list[npt.NDArray[Any]]) -> int | None:
    """Return the number of decimals that suffices for all values; None if it is large."""
    largest = max(float(np.abs(array).max()) for array in arrays if len(array))
    single = any(array.dtype == np.float32 for array in arrays)
    for decimals in range(1, _MOST_DECIMALS + 1):
        if largest * 10**decimals > LARGEST_INTEGER:
            return None
        # Small numbers have more decimals, of as many digits.
        digits = _SINGLE_DIGITS if single else _MOST_DIGITS
        if decimals > _MAX_DECIMALS and largest * 10**decimals > 10**digits:
            return None
        if any((np.round(array[:_FEW], decimals) != array[:_FEW]).any() for array in arrays):
            continue
        if all((np.round(array, decimals) == array).all() for array in arrays):
            return decimals
    return None


def _numeric_dtype(dtype: Any, integer: bool, gaps: bool, nullable: bool) -> str | None:
    """Return the table's dtype if it can hold the decoded values, else None."""
    name = str(dtype)
    if not integer:
        return name if name in ("float32", "Float32", "Float64") else None
    if pd.api.types.is_integer_dtype(dtype) and name.lower().lstrip("u").startswith("int"):
        if nullable and name.islower() and "[" not in name:
            return name.replace("uint", "UInt").replace("int", "Int")
        return None if "[" in name else name
    # A float column with gaps is how pandas reads integers with gaps.
    return None if gaps or name not in ("float32", "float64", "Float64") else name
