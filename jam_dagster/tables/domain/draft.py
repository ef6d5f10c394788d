"""Drafting a domain from data: from a public table, or the papers' way from both."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import nullcontext
from datetime import date, timedelta
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from jam_dagster.common.redaction import private_values
from jam_dagster.errors import DomainError, InputError, SpecificationError
from jam_dagster.tables.domain.attributes import (
    Attribute,
    CategoricalAttribute,
    NumericAttribute,
    equal_width_edges,
)
from jam_dagster.tables.domain.domain import Domain
from jam_dagster.tables.domain.values import (
    LARGEST_INTEGER,
    Value,
    exact_number,
    kind_of,
    text_of,
    truth_of,
)
from jam_dagster.tables.sources.columns import each_value, exact_column

_MAX_CATEGORIES = 1000
# From this many rows on, a text column without repetitions counts as names or keys.
_MAX_DISTINCT_TEXTS = 100
# Larger numbers of categories get a remark.
_MANY_VALUES = 100
_MAX_DECIMALS = 6
_OWN_BIN_SHARE = 0.1
_OWN_BIN_ROWS = 20


def draft_domain(
    public: pd.DataFrame,
    *,
    private: pd.DataFrame | None = None,
    bins: int = 32,
    other: str | None = "other",
    nullable: Literal["observed", "all"] = "observed",
) -> Domain:
    """Draft a domain for a person to review.

    Text becomes a categorical attribute of the observed values plus `other`; numbers become bins
    of equal width from the smallest to the largest observed value, and values outside are clipped.
    A value in at least a tenth of the public rows, such as no capital gain or 40 hours a week,
    gets a bin of its own, so that a synthetic table reproduces it. Integers with a range no larger
    than `bins` get a bin a value, and so do numbers with few decimals. Floats that are all
    integers are read as integers (pandas reads integers with gaps as floats).

    Parameters
    ----------
    public
        The public table. Its columns, their order and their dtypes become the domain's.
    private
        The private table, to draft from both tables as the papers do: the observed categories
        without `other`, and bins of equal width. For research: the domain holds private values, is
        marked ``identified_from="private"``, and no result of it may be released.
    bins
        Number of bins of a numeric attribute.
    other
        Name of the category for unobserved values, in the case of an existing category of that
        name; None: an unobserved value is an error.
    nullable
        "observed": an attribute is nullable if a missing value was observed. "all": every attribute
        is nullable, for tables that are known to have missing values anywhere.

    Returns
    -------
    Domain
        ``identified_from`` "public" or "private".

    Raises
    ------
    SpecificationError
        `bins` is not a positive integer, or `nullable` is unknown.
    InputError
        The public table is empty. An empty private table is accepted: that may be private itself.
    DomainError
        A column is all missing, holds dates, or text that looks like names or keys; or the
        tables do not fit together.
    PrivateValuesError
        In place of a `DomainError` that depends on values of a private table.
    """
    if isinstance(bins, bool) or not isinstance(bins, int) or bins < 1:
        raise SpecificationError(f"bins must be a positive integer, got {bins!r}")
    if nullable not in ("observed", "all"):
        raise SpecificationError(f"nullable must be 'observed' or 'all', got {nullable!r}")
    if not len(public):
        raise InputError("a domain cannot be drafted from a table without rows: check the source")
    _check_columns(public, private)
    attributes = []
    for name in public.columns:
        with nullcontext() if private is None else private_values():
            columns = [public[name]]
            if private is not None:
                columns.append(_read_like(public[name], private[name]))
            attributes.append(_draft(name, columns, bins, other, nullable == "all"))
    return Domain(tuple(attributes), identified_from="public" if private is None else "private")


def wide_attributes(domain: Domain) -> str:
    """Return a remark on attributes with too many categories to be counted well, or "".

    Dates are the usual case, in files without a date type: each day becomes a value. A domain from
    private data gets no remark: its number of values is a fact about that data.
    """
    if domain.restricted:
        return ""
    wide = [
        f"{one.name} ({one.size} values)"
        for one in domain.attributes
        if isinstance(one, CategoricalAttribute) and one.size > _MANY_VALUES
    ]
    if not wide:
        return ""
    return (
        f"{', '.join(wide)}: every value gets noise of its own. Group them in the source (a date by"
        " its year, a code by its first digits), or leave the column out."
    )


def _check_columns(public: pd.DataFrame, private: pd.DataFrame | None) -> None:
    if not len(public.columns):
        raise InputError("the public table has no columns: check the source")
    for name in public.columns:
        if not isinstance(name, str) or not name:
            raise DomainError(f"the name of the public table's column {name!r} must be a text")
        if list(public.columns).count(name) > 1:
            raise DomainError(f"the public table has column {name!r} twice: rename or remove one")
        if private is not None and list(private.columns).count(name) != 1:
            raise DomainError(
                f"the private table must have column {name!r} of the public table, once: rename,"
                " add or remove it"
            )


def _read_like(public: pd.Series[Any], private: pd.Series[Any]) -> pd.Series[Any]:
    """Convert private texts to the kind of the public column, where that is possible."""
    # Texts are objects in a table that another program read with pandas 2.
    if not (
        isinstance(private.dtype, pd.StringDtype) or pd.api.types.is_object_dtype(private.dtype)
    ):
        return private
    if pd.api.types.is_bool_dtype(public.dtype):
        read: Callable[[object], object] = truth_of
    elif pd.api.types.is_numeric_dtype(public.dtype):
        read = exact_number
    else:
        return private

    def value_of(text: object) -> object:
        value = read(text) if isinstance(text, str) else None
        return text if value is None else value

    return exact_column(pd.Series(each_value(private, value_of, None)))


def _draft(
    name: str, columns: list[pd.Series[Any]], bins: int, other: str | None, nullable: bool
) -> Attribute:
    private = len(columns) > 1
    nullable = nullable or any(bool(column.isna().any()) for column in columns)
    observed = [column.dropna() for column in columns]
    kinds = {_kind(name, column) for column in observed if len(column)}
    if not kinds:
        raise DomainError(
            f"column {name!r} is missing in every row: leave it out, or declare the attribute"
        )
    if kinds == {"number"}:
        return _draft_numeric(name, columns[0].dtype, observed, bins, nullable)
    if "number" in kinds and len(kinds) > 1:
        raise DomainError(
            f"column {name!r} holds numbers in only one table: give both tables the same"
            " type, or declare the attribute"
        )
    return _draft_categorical(name, columns[0].dtype, observed, nullable, other, private)


def _kind(name: str, column: pd.Series[Any]) -> str:
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
        raise DomainError(
            f"column {name!r} holds dates or another type (dtype {dtype}) that has no categories"
            " and no bins: turn it into a number in the source (a year, say), or leave it out"
        )
    if all(isinstance(value, bool | np.bool_) for value in column):
        return "boolean"
    if any(isinstance(value, bool | np.bool_ | str) for value in column):
        return "text" if all(isinstance(value, str) for value in column) else "mixed"
    if pd.to_numeric(column, errors="coerce").notna().all():
        return "number"
    raise DomainError(
        f"column {name!r} holds objects that are neither text nor numbers: turn them into one of"
        " these in the source, or leave the column out"
    )


def _draft_categorical(
    name: str,
    dtype: Any,
    observed: list[pd.Series[Any]],
    nullable: bool,
    other: str | None,
    private: bool,
) -> CategoricalAttribute:
    by_text: dict[str, Value] = {}
    for column in observed:
        for value in column if pd.api.types.is_object_dtype(column.dtype) else column.unique():
            by_text.setdefault(text_of(value), value)
    rows = sum(map(len, observed))
    if len(by_text) > _MAX_CATEGORIES or (
        len(by_text) > _MAX_DISTINCT_TEXTS and len(by_text) == rows
    ):
        count = "" if private else f" ({len(by_text):,} in {rows:,} rows)"
        raise DomainError(
            f"column {name!r} holds too many different values for an attribute{count}; names, keys"
            " and free text identify persons: leave the column out, group its values, or"
            " declare the attribute"
        )
    values = [by_text[text] for text in sorted(by_text)]
    if all(isinstance(value, bool | np.bool_) for value in values):
        # Both values are listed whatever the table shows, so that no value lies outside.
        return CategoricalAttribute(name, (False, True), nullable)
    if private:
        other = None
    if other is not None:
        like = [text for text in sorted(by_text) if text.lower() == other.lower()]
        other = other if other in like else (like or [other])[0]
        if not like:
            values.append(other)
    attribute = CategoricalAttribute(name, tuple(values), nullable, other)
    if isinstance(dtype, pd.CategoricalDtype):
        return CategoricalAttribute(name, attribute.values, nullable, other, "category")
    if kind_of(attribute.values) == "text" and str(dtype) == "string":
        return CategoricalAttribute(name, attribute.values, nullable, other, "string")
    return attribute


def _draft_numeric(
    name: str, dtype: Any, observed: list[pd.Series[Any]], bins: int, nullable: bool
) -> NumericAttribute:
    arrays = [_finite(column) for column in observed]
    values = np.concatenate([array.astype(np.float64) for array in arrays])
    if not len(values):
        raise DomainError(
            f"column {name!r} holds no finite number: leave it out, or declare the attribute"
        )
    low, high = float(values.min()), float(values.max())
    exact = max(abs(low), abs(high)) <= LARGEST_INTEGER
    integer = exact and bool((values == np.floor(values)).all())
    if pd.api.types.is_integer_dtype(dtype) and not integer:
        raise DomainError(
            f"column {name!r} holds integers too large to be counted in bins, such as keys: leave"
            " it out, or declare the attribute"
        )
    decimals = None if integer else _decimals(arrays)
    count = float("inf")
    if integer or decimals is not None:
        count = round((high - low) * 10 ** (decimals or 0)) + 1
    width = min(bins, count) if high > low else 1
    draft = NumericAttribute(
        name,
        equal_width_edges(low, high, int(width)),
        integer=integer,
        nullable=nullable,
        clip=True,
        decimals=decimals,
        dtype=_numeric_dtype(dtype, integer, nullable),
    )
    # A private table gives only bounds, as in the papers.
    return draft if len(observed) > 1 else _with_own_bins(draft, values)


def _with_own_bins(draft: NumericAttribute, values: npt.NDArray[np.float64]) -> NumericAttribute:
    """Give values that many rows share a bin of their own."""
    distinct, counts = np.unique(values, return_counts=True)
    often = distinct[counts >= max(_OWN_BIN_SHARE * len(values), _OWN_BIN_ROWS)]
    low, high = draft.bin_limits
    often = np.setdiff1d(often, low[low == high])
    if not len(often):
        return draft
    # The same bins with edges that are values: 3125 for 3124.96875 if the numbers are integers.
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
    for decimals in range(1, _MAX_DECIMALS + 1):
        if largest * 10**decimals > LARGEST_INTEGER:
            return None
        if all((np.round(array, decimals) == array).all() for array in arrays):
            return decimals
    return None


def _numeric_dtype(dtype: Any, integer: bool, nullable: bool) -> str | None:
    """Return the table's dtype if it can hold the decoded values, else None."""
    name = str(dtype)
    if not integer:
        return name if name in ("float32", "Float32", "Float64") else None
    if pd.api.types.is_integer_dtype(dtype) and name.lower().lstrip("u").startswith("int"):
        if nullable and name.islower() and "[" not in name:
            return name.replace("uint", "UInt").replace("int", "Int")
        return None if "[" in name else name
    # A float column with gaps is how pandas reads integers with gaps.
    return None if nullable or name not in ("float32", "float64", "Float64") else name
