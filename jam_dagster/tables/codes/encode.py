"""Discretization: from values to the codes of a domain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api.types import (
    is_bool_dtype,
    is_complex_dtype,
    is_numeric_dtype,
    is_object_dtype,
    is_string_dtype,
)

from jam_dagster.common.redaction import private_values, redacted
from jam_dagster.errors import DomainError, InputError, OutsideDomainError
from jam_dagster.tables.codes.table import EncodedTable
from jam_dagster.tables.domain.attributes import Attribute
from jam_dagster.tables.domain.categorical import CategoricalAttribute
from jam_dagster.tables.domain.domain import Domain
from jam_dagster.tables.domain.numeric import NumericAttribute
from jam_dagster.tables.domain.times import TimeAttribute
from jam_dagster.tables.sources.columns import each_value, missing_in, numbers_of

_EXAMPLES = 5
_NO_ROWS = "the table has no rows: check the source and its query"


def encode(table: pd.DataFrame, domain: Domain, *, private: bool = True) -> EncodedTable:
    """Encode a table of values as codes of a domain.

    Each row is encoded by itself: its codes depend on the domain and on its own values, never on
    other rows. Values are matched by their text, so ``1``, ``1.0`` and ``"1"`` are the same
    category. A listed number or boolean also matches texts that write it, such as ``"1.50"`` or
    ``"TRUE"``. NaN, None and NaT are missing values. An infinite number lies outside the bounds.
    Text in a numeric column is read as a number if possible. Columns outside the domain are
    ignored; the order of the columns does not matter.

    This holds for encoding alone, not for the reader of the rows. The sources read private tables
    value by value; ``pandas.read_csv`` chooses types by whole columns, so one record can change
    how all the others are read.

    Parameters
    ----------
    table
        One row a record.
    domain
        What each column may hold.
    private
        Whether the rows are private. Then every fault that depends on their values ends in one
        error that names nothing; otherwise errors name attributes, counts and examples. A private
        table without rows is accepted here: whether it has any may be private too.

    Returns
    -------
    EncodedTable
        As many records as the table has rows, in their order.

    Raises
    ------
    InputError
        `table` is not a table, or is a public one without rows.
    DomainError
        A column is missing, occurs twice or has a type that the attribute cannot hold.
    OutsideDomainError
        In a public table: a value that is not in the domain (and the attribute has no `other`,
        does not `clip`, and does not count what is `unreadable` as missing), a missing value where
        the attribute is not nullable, an impossible combination, or a broken constraint.
    PrivateValuesError
        In a private table: any of these, or any other fault of a value.
    """
    if not isinstance(table, pd.DataFrame):
        raise InputError(f"encode needs a pandas DataFrame, got {type(table).__name__}")
    if not private and not len(table):
        raise InputError(_NO_ROWS)
    # All columns are checked before any value, so an error that names a column depends on no value.
    with redacted("checking the columns of the private table") if private else nullcontext():
        columns = [_column(table, attribute, private) for attribute in domain.attributes]
    with private_values() if private else nullcontext():
        return _encode(columns, domain)


def _encode(columns: list[pd.Series[Any]], domain: Domain) -> EncodedTable:
    """Encode columns that have types the domain can hold; errors quote values."""
    encoded = []
    for column, attribute in zip(columns, domain.attributes, strict=True):
        codes = _encode_column(column, attribute)
        # Stored at their final size before the next column is encoded.
        encoded.append(codes.astype(np.min_scalar_type(attribute.size - 1)))
    table = EncodedTable(domain, tuple(encoded))
    check_possible(table)
    return table


def encode_chunks(
    chunks: Iterable[pd.DataFrame], domain: Domain, *, records: int, private: bool = True
) -> EncodedTable:
    """Encode a table that comes in chunks; the result is that of `encode` for the whole.

    Memory is the codes and one chunk.

    Parameters
    ----------
    chunks
        Tables of one row a record, such as `ParquetSource.chunks` yields.
    records
        Number of rows of all chunks together.
    domain, private
        As for `encode`.

    Returns
    -------
    EncodedTable
        The records of all chunks in their order.

    Raises
    ------
    InputError, DomainError, OutsideDomainError, PrivateValuesError
        As for `encode`; InputError also if there are more or fewer rows than `records`.
    """
    columns = tuple(np.empty(records, np.min_scalar_type(size - 1)) for size in domain.shape)
    seen = 0
    for encoded in each_encoded(chunks, domain, private=private):
        rows = slice(seen, seen + encoded.records)
        seen += encoded.records
        if seen <= records:
            for column, codes in zip(columns, encoded.columns, strict=True):
                column[rows] = codes
    if seen != records:
        raise InputError(
            "the number of rows changed since the table was opened: run again while no process"
            " writes to it"
        )
    return EncodedTable(domain, columns)


def each_encoded(
    chunks: Iterable[pd.DataFrame], domain: Domain, *, private: bool = True
) -> Iterator[EncodedTable]:
    """Yield each chunk of a table encoded; see `encode_chunks`."""
    empty = not private
    for chunk in chunks:
        # A private chunk without rows is encoded to check that its columns fit the domain.
        if private or len(chunk):
            yield encode(chunk, domain, private=private)
            empty = False
    if empty:
        raise InputError(_NO_ROWS)


def _column(table: pd.DataFrame, attribute: Attribute, private: bool) -> pd.Series[Any]:
    name = attribute.name
    matches = int((table.columns == name).sum()) if len(table.columns) else 0
    if matches == 0:
        # A private file may lack a header; its first row of values would then be quoted.
        has = "" if private else f" (it has {', '.join(map(str, table.columns[:30]))})"
        raise DomainError(
            f"the {'private' if private else 'public'} table has no column {name!r}{has}: add it,"
            " rename the column that holds it, or"
            " remove the attribute from the domain"
        )
    if matches > 1:
        raise DomainError(f"the table has column {name!r} twice: rename or remove one")
    column: pd.Series[Any] = table[name]
    if isinstance(attribute, TimeAttribute):
        if is_numeric_dtype(column.dtype) and not attribute.format:
            raise DomainError(
                f"attribute {name!r} is of dates or times, but the table's column has dtype"
                f" {column.dtype}: turn it into a date in the source, or declare numbers"
            )
    elif isinstance(attribute, NumericAttribute) and not (_is_text(column) or _is_number(column)):
        raise DomainError(
            f"attribute {name!r} is numeric, but the table's column has dtype {column.dtype}:"
            " declare a `unit` if it holds dates, turn it into a number in the source, or declare"
            " values"
        )
    return column


def _encode_column(column: pd.Series[Any], attribute: Attribute) -> npt.NDArray[np.intp]:
    if isinstance(attribute, CategoricalAttribute):
        codes, null = _category_codes(column, attribute)
    else:
        codes, null = _bin_codes(column, attribute)
    if null.any():
        if attribute.null_code is None:
            raise OutsideDomainError(
                f"attribute {attribute.name!r} has missing values"
                f"{_count(null)}, which the domain does not allow: declare it nullable if public"
                " documentation of the table says so (a private table's message alone must not"
                " change the domain), or fill them in the source"
            )
        codes[null] = attribute.null_code
    return codes


def _category_codes(
    column: pd.Series[Any], attribute: CategoricalAttribute
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
    null = missing_in(column)
    other = -1 if attribute.other is None else attribute.code_of(attribute.other)

    def code_of(value: object) -> int:
        try:
            code = attribute.code_of(value)
        except Exception:  # A value in memory may be of any type, and have no text.
            code = other
        return -1 if code is None else code

    codes = each_value(column, code_of, -1, np.intp)
    if attribute.unreadable == "missing":
        null = null | (codes < 0)
    outside = (codes < 0) & ~null
    if outside.any():
        remedy = (
            "add it to the attribute's values, declare a value as `other`, or correct the source"
        )
        if all(isinstance(value, bool) for value in attribute.values):
            remedy = (
                "the domain lists booleans; if the table holds yes and no, list these in quotes,"
                f" else {remedy}"
            )
        raise OutsideDomainError(
            f"attribute {attribute.name!r}: the table holds a value that is not in the domain"
            f"{_examples(column, outside)}: {remedy}"
        )
    return codes, null


def _bin_codes(
    column: pd.Series[Any], attribute: NumericAttribute
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
    values = numbers_in(column, attribute)
    null = np.isnan(values)
    if not attribute.clip:
        edges = attribute.edge_array
        outside = (values < edges[0]) | (values > edges[-1])
        if outside.any():
            raise OutsideDomainError(
                f"attribute {attribute.name!r}: the table holds a number outside the declared"
                f" bounds {' to '.join(attribute.bounds_text)}{_examples(column, outside)}: widen"
                " them, declare `outside: clip`, or correct the source"
            )
        if attribute.integer:
            fraction = ~null & (values != np.floor(values))
            if fraction.any():
                raise OutsideDomainError(
                    f"attribute {attribute.name!r} is declared integer, but the table holds a"
                    f" fraction{_examples(column, fraction)}: declare `integer: false`, or"
                    " `outside: clip` to round down"
                )
    # NaN sorts last; the caller sets its code.
    codes = np.searchsorted(attribute.edge_array, values, side="right") - 1
    return np.clip(codes, 0, attribute.bins - 1), null


def _is_text(column: pd.Series[Any]) -> bool:
    dtype = column.dtype
    return (
        isinstance(dtype, pd.CategoricalDtype) or is_object_dtype(dtype) or is_string_dtype(dtype)
    )


def _is_number(column: pd.Series[Any]) -> bool:
    dtype = column.dtype
    return is_numeric_dtype(dtype) and not is_bool_dtype(dtype) and not is_complex_dtype(dtype)


def numbers_in(column: pd.Series[Any], attribute: NumericAttribute) -> npt.NDArray[np.float64]:
    """Return the numbers of an attribute's cells, NaN where they are missing."""
    time = isinstance(attribute, TimeAttribute)
    if time or _is_text(column):
        numbers = (
            each_value(column, attribute.clock.count_of, np.nan, np.float64)
            if isinstance(attribute, TimeAttribute)
            else numbers_of(column, attribute.number_format)
        )
        if attribute.unreadable == "missing":
            return numbers
        wrong = np.isnan(numbers) & ~missing_in(column)
        if wrong.any():
            raise OutsideDomainError(
                f"attribute {attribute.name!r} is {'of dates or times' if time else 'numeric'},"
                " but the table holds other values"
                f"{_examples(column, wrong)}: if it marks a missing value, add it to the"
                " source's missing-value markers, else correct the source or declare values"
            )
        return numbers
    return column.to_numpy(dtype=np.float64, na_value=np.nan)


def check_possible(encoded: EncodedTable) -> None:
    """Raise an `OutsideDomainError` for a record that the domain declares impossible."""
    domain = encoded.domain
    for combination in domain.impossible:
        rows = np.ones(encoded.records, dtype=bool)
        for name, codes in zip(combination.attributes, combination.codes, strict=True):
            concerned = np.zeros(domain.sizes[name], dtype=bool)
            concerned[list(codes)] = True
            rows &= concerned[encoded.column(name)]
        if rows.any():
            raise OutsideDomainError(
                f"the table holds a combination{_count(rows)} that the domain declares"
                f" impossible ({combination.describe(domain)}): correct the source, or remove it"
                " from the domain's `impossible`"
            )
    for constraint in domain.constraints:
        clique, broken = domain.broken_cells(constraint)
        rows = broken[tuple(encoded.column(name) for name in clique)]
        if rows.any():
            raise OutsideDomainError(
                f"the table breaks the constraint {constraint.describe(domain)}{_count(rows)}:"
                " correct the source, or remove it from the domain's `constraints`"
            )


def _count(rows: npt.NDArray[np.bool_]) -> str:
    return f" in {int(rows.sum()):,} of {len(rows):,} rows"


def _examples(column: pd.Series[Any], rows: npt.NDArray[np.bool_]) -> str:
    """Return the number of wrong rows and examples of their values."""
    values = list(dict.fromkeys(map(repr, column[rows].tolist())))
    more = ", ..." if len(values) > _EXAMPLES else ""
    return f"{_count(rows)} ({', '.join(values[:_EXAMPLES])}{more})"
