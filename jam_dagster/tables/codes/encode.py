"""Discretization: from values to the codes of a domain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from jam_dagster.common.deferred import pd
from jam_dagster.common.redaction import private_values, redacted
from jam_dagster.errors import DomainError, InputError, OutsideDomainError
from jam_dagster.tables.codes.codebook import Codebook, coded
from jam_dagster.tables.codes.table import EncodedTable
from jam_dagster.tables.domain.attributes import Attribute, of_rows
from jam_dagster.tables.domain.children import ChildAttribute
from jam_dagster.tables.domain.columns import Batch, alike_columns, as_frame, no_rows_of
from jam_dagster.tables.domain.domain import Domain

if TYPE_CHECKING:
    import pyarrow as pa

_NO_ROWS = "the table has no rows: check the source and its query"


def encode(table: pd.DataFrame, domain: Domain, *, private: bool = True) -> EncodedTable:
    """Encode a table of values as codes of a domain.

    Each row is encoded by itself: its codes depend on the domain and on its own values, never on
    other rows. Values are matched by their text, so ``1``, ``1.0`` and ``"1"`` are the same
    category. A listed number or boolean also matches texts that write it, such as ``"1.50"`` or
    ``"TRUE"``. NaN, None and NaT are missing values. An infinite number is outside the bounds.
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
        does not `clip`, and has an error for what is `unreadable`), a missing value where
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
        names = alike_columns(table.columns, domain.names)
        columns = _columns(table, domain, names, private)
    with private_values() if private else nullcontext():
        return _encode(columns, domain)


def _encode(columns: list[pd.Series[Any]], domain: Domain) -> EncodedTable:
    """Encode columns that have types the domain can hold; errors quote values."""
    encoded: list[npt.NDArray[Any]] = []
    for column, attribute in zip(columns, domain.attributes, strict=True):
        if isinstance(attribute, ChildAttribute):
            codes = _encode_child(column, attribute, encoded[domain.positions[attribute.table]])
        else:
            codes = coded(column, attribute)
        # Stored at their final size before the next column is encoded.
        encoded.append(codes.astype(np.min_scalar_type(attribute.size - 1)))
    table = EncodedTable(domain, tuple(encoded))
    check_possible(table)
    return table


def each_encoded(
    batches: Iterable[Batch], domain: Domain, *, private: bool = True
) -> Iterator[EncodedTable]:
    """Yield each batch of a table encoded; together they are what `encode` makes of the whole."""
    empty = not private
    books = Codebooks(domain)
    for batch in batches:
        # A private batch without rows is encoded to check that its columns fit the domain.
        if not private and not len(batch):
            continue
        empty = False
        if isinstance(batch, pd.DataFrame) or domain.children is not None:
            yield encode(as_frame(batch), domain, private=private)
        else:
            yield books.encode(batch)
    if empty:
        raise InputError(_NO_ROWS)


def check_schema(schema: pa.Schema, domain: Domain, *, private: bool = True) -> dict[str, str]:
    """Return the columns of a table that look like attributes, by these names.

    Raises
    ------
    DomainError
        A column is missing, occurs twice, or has a type that its attribute cannot hold. No row
        decides it.
    """
    import pyarrow as pa

    with redacted("checking the columns of a table"):
        names = alike_columns(schema.names, domain.names)
        held = {names.get(one.name, one.name): one for one in domain.attributes}
        fields = [one for one in schema if one.name in held]
        if len(fields) >= len(held):
            for field in fields:
                attribute = held[field.name]
                # Cells of a public table that are of no value's type may become `other`.
                if private or attribute.other_code is None:
                    _check_cells(field.type, attribute, "private" if private else "public")
        if not private:
            # An error names all of them, whatever their types are.
            fields = [one if one.name in held else one.with_type(pa.null()) for one in schema]
        # Metadata of pandas may state other types than cells have.
        empty = no_rows_of(pa.schema(fields).empty_table())
        _columns(empty, domain, names, private=private)
    return names


def _check_cells(kind: pa.DataType, attribute: Attribute, called: str) -> None:
    """Raise DomainError if the cells of a type of Arrow are bytes or hold several values."""
    import pyarrow as pa

    types = pa.types
    of_bytes = (types.is_binary, types.is_large_binary, types.is_fixed_size_binary)
    if any(is_kind(kind) for is_kind in of_bytes):
        fault = "whose cells are bytes: cast it to a text in the source"
    elif types.is_nested(kind):
        fault = "whose cells hold several values: make a column of each in the source"
    else:
        return
    raise DomainError(
        f"the {called} table's column for attribute {attribute.name!r} is of the type"
        f" {str(kind).partition('<')[0]}, {fault}, or leave it out of the domain"
    )


class Codebooks:
    """The codebooks of the columns of a private table that comes in batches."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._books = [Codebook(one) for one in domain.attributes]
        self._names: dict[str, str] = {}
        self._checked: pa.Schema | None = None

    def encode(self, batch: pa.RecordBatch) -> EncodedTable:
        """Return the codes of some rows, or raise as `encode` does."""
        if batch.schema != self._checked:
            self._names = check_schema(batch.schema, self._domain)
            self._checked = batch.schema
        with private_values():
            codes = (
                book.encode(batch.column(self._names.get(name, name)))
                for book, name in zip(self._books, self._domain.names, strict=True)
            )
            table = EncodedTable(self._domain, tuple(codes))
            check_possible(table)
            return table


def _column(
    table: pd.DataFrame, attribute: Attribute, names: Mapping[str, str], private: bool
) -> pd.Series[Any]:
    name = names.get(attribute.name, attribute.name)
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
    return column


def _columns(
    table: pd.DataFrame, domain: Domain, names: Mapping[str, str], private: bool
) -> list[pd.Series[Any]]:
    """Return the columns of the attributes, which are all there and have types that they hold."""
    columns = [_column(table, one, names, private) for one in domain.attributes]
    for column, attribute in zip(columns, domain.attributes, strict=True):
        attribute.check_column(column)
        if not private:
            _check_objects(column, attribute)
    return columns


def _check_objects(column: pd.Series[Any], attribute: Attribute) -> None:
    """Raise DomainError if cells of a public column are lost, since they are of no value's type."""
    lost = attribute.unreadable != "error" and attribute.other_code is None
    if lost and (kind := _of_no_value(column)):
        raise DomainError(
            f"the public table's column for attribute {attribute.name!r} has cells of the type"
            f" {kind}: make texts, numbers or dates of them in the source, or remove the attribute"
            " from the domain"
        )


_NO_VALUES = (bytes, list, tuple, dict, set, np.ndarray)


def _of_no_value(column: pd.Series[Any]) -> str:
    """Return the type of a column's first cell, if it is bytes or holds several values."""
    if not pd.api.types.is_object_dtype(column.dtype):
        return ""
    first = next((one for one in column if one is not None), None)
    return type(first).__name__ if isinstance(first, _NO_VALUES) else ""


def _encode_child(
    column: pd.Series[Any], attribute: ChildAttribute, count: npt.NDArray[Any]
) -> npt.NDArray[np.intp]:
    """Encode a column of a child of those roots that have it; a code is its number of children."""
    there = count >= attribute.slot
    codes = np.full(len(column), attribute.absent_code, dtype=np.intp)
    codes[there] = coded(column[there], attribute)
    return codes


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
                f"the table holds a combination{of_rows(rows)} that the domain declares"
                f" impossible ({combination.describe(domain)}): correct the source, or remove it"
                " from the domain's `impossible`"
            )
    for constraint in domain.constraints:
        clique, broken = domain.broken_cells(constraint)
        rows = broken[tuple(encoded.column(name) for name in clique)]
        if rows.any():
            raise OutsideDomainError(
                f"the table breaks the constraint {constraint.describe(domain)}{of_rows(rows)}:"
                " correct the source, or remove it from the domain's `constraints`"
            )
