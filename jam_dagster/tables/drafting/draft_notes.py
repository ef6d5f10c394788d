"""Points to look at in a public table and in its draft."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from jam_dagster.common.deferred import pd
from jam_dagster.tables.codes.table import EncodedTable
from jam_dagster.tables.domain.attributes import Attribute
from jam_dagster.tables.domain.column_notes import AS_PARQUET, EXAMPLES, GROUP_ADVICE
from jam_dagster.tables.domain.columns import missing_in
from jam_dagster.tables.domain.values import is_formula, text_of
from jam_dagster.tables.drafting.many_texts import advice_on

_SEPARATORS = (";", "\t", "|")
_ROWS_FOR_HEADER = 1_000


def _has_line_breaks(column: pd.Series[Any]) -> bool:
    """Return whether texts of a public column have line breaks."""
    texts = isinstance(column.dtype, pd.StringDtype)
    return texts and bool(column.str.contains("\n", regex=False, na=False).any())


def notes_of(table: pd.DataFrame, encoded: EncodedTable) -> dict[str, str]:
    """Return by column what a person should look at in a public table."""
    whole = separator_of(list(table.columns)) or _header_of(table)
    notes = {
        name: "; ".join(filter(None, _notes(table[name], encoded)))
        + (whole if name == table.columns[0] else "")
        for name in table.columns
    }
    return {name: note.removeprefix("; ") for name, note in notes.items() if note}


def separator_of(names: Sequence[str]) -> str:
    """Return how to declare the separator of a table whose one name seems to be several, or ""."""
    for mark in _SEPARATORS if len(names) == 1 else ():
        if mark in names[0]:
            source = json.dumps({"csv": "people.csv", "separator": mark})
            return f"; if {mark!r} separates its columns, the table is {source}"
    return ""


def _header_of(table: pd.DataFrame) -> str:
    """Return that a table seems to lack its header, where most names are values below them."""
    rows = table.iloc[:_ROWS_FOR_HEADER]
    alike = sum(str(name) in _texts_of(rows[name]) for name in rows.columns)
    if 2 * alike <= len(rows.columns):
        return ""
    return (
        f"; the table seems to lack its header, for {alike} of its {len(rows.columns)} names are"
        " values of their columns: if the first line is a record, write the names above it, in the"
        " private file too"
    )


def _texts_of(column: pd.Series[Any]) -> set[str]:
    """Return the texts of numbers and texts, which a file without a header has."""
    cells = column.dropna()
    if pd.api.types.is_numeric_dtype(cells.dtype):
        return {text_of(cell) for cell in cells.unique()}
    if not pd.api.types.is_string_dtype(cells.dtype):
        # Some times cannot even be taken out one by one.
        return set()
    return {cell for cell in cells if isinstance(cell, str)}


def _notes(column: pd.Series[Any], encoded: EncodedTable) -> Iterator[str]:
    """Yield what a person should look at in a column, or ""."""
    name = str(column.name)
    if is_formula(name):
        yield (
            "a spreadsheet would run its name as a formula, which no release may hold: give it"
            " another first character in both tables, or exclude it"
        )
    if _has_line_breaks(column):
        yield (
            "cells hold line breaks, which no private CSV file may: write it as Parquet,"
            f" {AS_PARQUET}"
        )
    if name not in encoded.domain.names:
        return
    attribute = encoded.domain.attribute(name)
    codes = encoded.column(name)
    yield _unread(column, attribute, codes)
    for note in attribute.notes(column, codes):
        advice = advice_on(column.dropna().unique()) if note.endswith(GROUP_ADVICE) else ""
        yield f"{note.removesuffix(GROUP_ADVICE)}; they are {advice}" if advice else note


def _unread(column: pd.Series[Any], attribute: Attribute, codes: npt.NDArray[Any]) -> str:
    """Return how many cells of a public column are not read, or ""."""
    wrong = np.isin(codes, attribute.missing_codes) & ~missing_in(column)
    if not wrong.any():
        return ""
    examples = ", ".join(map(repr, column[wrong].unique()[:EXAMPLES].tolist()))
    return (
        f"{wrong.sum():,} of {len(column):,} public cells are released as missing,"
        f" such as {examples}"
    )
