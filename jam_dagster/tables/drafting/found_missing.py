"""Columns of a public table that are missing together, or only where another one says so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from jam_dagster.tables.codes.table import EncodedTable
from jam_dagster.tables.domain.attributes import Attribute
from jam_dagster.tables.domain.missing_where import MissingWhere

_LEAST_EXPECTED = 10
"""Least number of missing cells that an unrelated column would have elsewhere."""

_LEAST_ELSEWHERE = 0.2
"""Least share of the rows in which a column is never missing, by the values of another."""

_Rows = npt.NDArray[np.bool_]


def found_missing(encoded: EncodedTable) -> tuple[MissingWhere, ...]:
    """Return where columns are missing in a public table, those with most missing cells first.

    Columns that are missing in the same rows follow the first of them. That one may follow another
    column, which is missing in more rows, or the values of one.
    """
    domain, groups = encoded.domain, dict[bytes, list[str]]()
    missing: dict[str, _Rows] = {}
    for one in domain.attributes:
        if one.null_code is not None:
            rows = encoded.column(one.name) == one.null_code
            if _unlikely(rows, rows):
                missing[one.name] = rows
                groups.setdefault(np.packbits(rows).tobytes(), []).append(one.name)
    leaders = sorted((group[0] for group in groups.values()), key=lambda one: -missing[one].sum())
    found: list[MissingWhere] = []
    for index, name in enumerate(leaders):
        (group,) = (one for one in groups.values() if one[0] == name)
        found += _rule(encoded, missing, name, leaders[:index], group)
        found += (MissingWhere(other, name, (_null(encoded, name),)) for other in group[1:])
    return tuple(found)


def _rule(
    encoded: EncodedTable,
    missing: Mapping[str, _Rows],
    name: str,
    others: Sequence[str],
    group: Sequence[str],
) -> Iterator[MissingWhere]:
    """Yield at most one rule: exactly at some values, only next to a missing cell, or at values."""
    rows, only = missing[name], None
    for other in encoded.domain.attributes:
        if not other.binned and other.name not in group:
            codes, exactly = _values(rows, encoded.column(other.name), other)
            if codes and exactly:
                yield MissingWhere(name, other.name, codes)
                return
            only = only or (MissingWhere(name, other.name, codes, False) if codes else None)
    # The narrowest comes first.
    for other_name in reversed(others):
        there = missing[other_name]
        if not (rows & ~there).any() and _unlikely(rows, there):
            yield MissingWhere(name, other_name, (_null(encoded, other_name),), exactly=False)
            return
    if only is not None:
        yield only


def _unlikely(missing: _Rows, there: _Rows) -> bool:
    """Return whether chance would put some of the missing cells of a column elsewhere."""
    return bool(missing.sum() * (1 - there.mean()) >= _LEAST_EXPECTED)


def _values(
    missing: _Rows, column: npt.NDArray[Any], other: Attribute
) -> tuple[tuple[int, ...], bool]:
    """Return the values in whose rows a column is missing, and whether it is in all of these."""
    rows = np.bincount(column.astype(np.intp), minlength=other.size)
    nulls = np.bincount(column[missing].astype(np.intp), minlength=other.size)
    always = (nulls == rows) & (rows > 0)
    known = np.arange(other.size) != other.null_code
    if (always & known).any() and nulls[always].sum() == missing.sum():
        return tuple(np.flatnonzero(always).tolist()), True
    never = (nulls == 0) & (rows * missing.mean() >= _LEAST_EXPECTED) & known
    # Next to a missing cell it may be missing, too, even if no row shows it.
    enough = rows[never].sum() >= _LEAST_ELSEWHERE * len(missing)
    return (tuple(np.flatnonzero(~never).tolist()) if enough else ()), False


def _null(encoded: EncodedTable, name: str) -> int:
    null = encoded.domain.attribute(name).null_code
    assert null is not None  # noqa: S101  # it is missing in some rows
    return null
