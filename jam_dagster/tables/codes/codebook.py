"""Encoding of Arrow data: each distinct cell of a column is encoded once.

A column becomes a dictionary of its distinct cells, an attribute encodes these, and the codes of
the rows are taken from theirs. A cell therefore has one code, whatever rows it is in and whatever
source the rows come from: `Attribute.codes_in` alone decides it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from jam_dagster.common.deferred import pd
from jam_dagster.errors import OutsideDomainError
from jam_dagster.tables.domain.attributes import Attribute, of_rows
from jam_dagster.tables.domain.columns import series_of

if TYPE_CHECKING:
    import pyarrow as pa

MOST_KEPT = 1 << 16
"""Distinct cells of a column whose codes are kept; the codes of others are made for each batch."""


class Codebook:
    """The codes of the distinct cells of one column that were met so far."""

    def __init__(self, attribute: Attribute) -> None:
        self._attribute = attribute
        self._dtype = np.min_scalar_type(attribute.size - 1)
        self._cells: pa.Array | None = None
        self._codes = np.empty(0, self._dtype)

    def encode(self, column: pa.Array) -> npt.NDArray[Any]:
        """Return the code of each cell of a private column, shape (rows,).

        Errors quote values.
        """
        import pyarrow as pa

        kind, attribute = column.type, self._attribute
        if attribute.binned and not attribute.dated and is_number(kind):
            # Bins of numbers need no dictionary.
            whole = pa.types.is_integer(kind)
            numbers = column.cast(pa.float64(), safe=False) if whole else column
            return self._coded(pd.Series(numbers.to_numpy(zero_copy_only=False)))
        held = _by_cell(column)
        if held is None:
            return self._coded(series_of(column))
        indices = held.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        # A dictionary may have cells of no row; the last entry is for rows without a cell.
        used = np.zeros(len(held.dictionary) + 1, dtype=bool)
        used[indices] = True
        found = np.flatnonzero(used[:-1])
        codes = np.zeros(len(used), self._dtype)
        if used[-1]:
            codes[-1] = null_code(attribute, indices < 0)
        if len(found):
            codes[found] = self._of_cells(held.dictionary.take(pa.array(found)))
        taken: npt.NDArray[Any] = codes[indices]
        return taken

    def _of_cells(self, cells: pa.Array) -> npt.NDArray[Any]:
        """Return the codes of distinct cells, and keep those of new ones if there is room."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if self._cells is None or self._cells.type != cells.type:
            self._cells, self._codes = cells[:0], self._codes[:0]
        places = pc.index_in(cells, self._cells).fill_null(-1).to_numpy(zero_copy_only=False)
        new = places < 0
        codes = np.zeros(len(cells), self._dtype)
        codes[~new] = self._codes[places[~new]]
        if new.any():
            unknown = cells.filter(pa.array(new))
            codes[new] = self._coded(series_of(unknown))
            room = MOST_KEPT - len(self._codes)
            if room > 0:
                self._cells = pa.concat_arrays([self._cells, unknown[:room]])
                self._codes = np.concatenate([self._codes, codes[new][:room]])
        return codes

    def _coded(self, cells: pd.Series[Any]) -> npt.NDArray[Any]:
        return coded(cells, self._attribute).astype(self._dtype)


def coded(cells: pd.Series[Any], attribute: Attribute) -> npt.NDArray[np.intp]:
    """Return the code of each cell, that of null where it is missing; errors quote values."""
    codes, null = attribute.codes_in(cells)
    if null.any():
        codes[null] = null_code(attribute, null)
    return codes


def null_code(attribute: Attribute, null: npt.NDArray[np.bool_]) -> int:
    """Return the code of missing values, or raise OutsideDomainError if none are allowed."""
    if attribute.null_code is None:
        raise OutsideDomainError(
            f"attribute {attribute.name!r} has missing values"
            f"{of_rows(null)}, which the domain does not allow: declare it nullable if public"
            " documentation of the table says so (a private table's message alone must not"
            " change the domain), or fill them in the source"
        )
    return attribute.null_code


def is_number(kind: pa.DataType) -> bool:
    """Return whether Arrow has integers or floats of a type."""
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _by_cell(column: pa.Array) -> pa.DictionaryArray | None:
    """Return a column as indices of its distinct cells; None if Arrow compares no cells of it."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):
        return None if _compares_no(kind.value_type) else column
    if pa.types.is_string_view(kind):
        return column.cast(pa.large_string()).dictionary_encode()
    return None if _compares_no(kind) else column.dictionary_encode()


@cache
def _compares_no(kind: pa.DataType) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        held = pa.nulls(0, kind).dictionary_encode()
        pc.index_in(held.dictionary, held.dictionary)
    except (pa.ArrowException, NotImplementedError, TypeError, AttributeError):
        return True
    return False
