"""What a person should look at in a public table, and in what a draft makes of it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import islice
from typing import Any

import pandas as pd

from jam_dagster.tables.codes.table import EncodedTable
from jam_dagster.tables.domain.attributes import Attribute
from jam_dagster.tables.domain.categorical import CategoricalAttribute
from jam_dagster.tables.domain.numeric import NumericAttribute
from jam_dagster.tables.domain.time_draft import has_fractions, other_order
from jam_dagster.tables.domain.times import TimeAttribute
from jam_dagster.tables.domain.values import Value, is_formula, text_of
from jam_dagster.tables.sources.columns import missing_in

CLIPPED_DATES = "dates beyond its bounds are moved to them"
"""The note on every attribute of dates."""

SHIFT_ADVICE = ": `shift` the public table to the private table's period"
"""Advice that follows the note, unless the public table was shifted."""

_EXAMPLES = 3
# Of a column's values, to see whether they are periods.
_LOOKED_AT = 1_000
_YEAR = r"(?:19|20)\d\d"
_MONTHS = (
    "jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|"
    "oct(?:ober)?|nov(?:ember)?|dec(?:ember)?"
)
_PART = rf"(?:q[1-4]|w(?:0[1-9]|[1-4]\d|5[0-3])|(?:{_MONTHS})\.?)"
_PERIOD = re.compile(
    rf"{_YEAR}(?:0[1-9]|1[0-2])|{_YEAR}[-/ ]?{_PART}|{_PART}(?:,? |[-/])?(?:{_YEAR}|'?\d\d)", re.I
)
_SEPARATORS = (";", "\t", "|")
# In seconds since 1970.
_IN_2000, _IN_2040 = 946_684_800, 2_208_988_800
_OFFSET = re.compile(r"[+-](?!00:00)\d\d:\d\d")


def has_line_breaks(column: pd.Series[Any]) -> bool:
    """Return whether texts of a public column have line breaks."""
    texts = isinstance(column.dtype, pd.StringDtype)
    return texts and bool(column.str.contains("\n", regex=False, na=False).any())


def notes_of(table: pd.DataFrame, encoded: EncodedTable) -> dict[str, str]:
    """Return by column what a person should look at in a public table."""
    notes = {
        name: "; ".join(filter(None, _notes(table[name], encoded)))
        + separator_of(list(table.columns))
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


def _notes(column: pd.Series[Any], encoded: EncodedTable) -> Iterator[str]:
    """Yield what a person should look at in a column, or ""."""
    name = str(column.name)
    if is_formula(name):
        yield (
            "a spreadsheet would run its name as a formula, which no release may hold: give it"
            " another first character in both tables, or exclude it"
        )
    if has_line_breaks(column):
        yield (
            "cells hold line breaks: declare a private CSV file with such cells as"
            " {csv: PATH, multiline: true} in the release's file"
        )
    if name not in encoded.domain.names:
        return
    attribute = encoded.domain.attribute(name)
    yield _unread(column, attribute, encoded)
    if isinstance(attribute, CategoricalAttribute):
        if attribute.other is not None:
            yield _not_kept(column, attribute, encoded)
            runs = [repr(one) for one in column.dropna().unique() if is_formula(one)]
            if runs:
                shown = ", ".join(runs[:_EXAMPLES])
                yield f"texts that a spreadsheet would run become {attribute.other!r}: {shown}"
        yield from _nearly_alike(attribute)
    if isinstance(attribute, TimeAttribute):
        if other := other_order(attribute, column):
            yield (
                f"dates are read as {attribute.format}, and {other} reads them too: see which is"
                " right"
            )
        if attribute.format == "h:mm:ss":
            yield "read as lengths of time: times of day have `format: '%-H:%M:%S'`"
        if attribute.format in ("h:mm", "hh:mm"):
            yield "read as hours and minutes; minutes and seconds come out alike"
        if has_fractions(attribute, column):
            yield "fractions of a second come out as 0"
    yield from _rewritten(column, attribute)
    if isinstance(attribute, TimeAttribute) and attribute.clock.kind == "instant":
        yield CLIPPED_DATES + SHIFT_ADVICE


def _rewritten(column: pd.Series[Any], attribute: Attribute) -> Iterator[str]:
    """Yield what comes out otherwise than the public cells are written."""
    if isinstance(attribute, TimeAttribute):
        if not isinstance(column.dtype, pd.StringDtype):
            return
        offsets = {} if attribute.zone != "UTC" else {*column.dropna().str[-6:].unique()}
        if any(_OFFSET.fullmatch(one) for one in offsets):
            yield "cells of other offsets come out at the same instant in UTC"
        if "%p" in (attribute.format or "") and column.str.contains("[ap]m", na=False).any():
            yield "am and pm come out as AM and PM"
        elif not has_fractions(attribute, column) and not (attribute.format or "").endswith("z"):
            clock = attribute.clock
            yield from _example(
                (one, clock.values_of([count])[0])
                for one in column.dropna().unique()[:_LOOKED_AT]
                if not math.isnan(count := clock.count_of(one))
            )
        return
    if isinstance(attribute, NumericAttribute) and (form := attribute.number_format):
        yield from _example(
            (one, form.write(number))
            for one in column.dropna().unique()[:_LOOKED_AT]
            if isinstance(one, str) and (number := form.read(one)) is not None
        )
    if isinstance(attribute, NumericAttribute):
        yield from _numbers(column, attribute)
    values = [text_of(one) for one in column.dropna().unique()[:_LOOKED_AT]]
    if len(values) > 1 and all(map(_PERIOD.fullmatch, values)):
        later = "are clipped"
        if isinstance(attribute, CategoricalAttribute):
            other = attribute.other
            later = "are missing" if other is None else f"become {other!r}"
        yield f"looks like months, quarters or weeks: later ones than the public table's {later}"


def _numbers(column: pd.Series[Any], attribute: NumericAttribute) -> Iterator[str]:
    """Yield what numbers may be besides, or lose."""
    low, high = attribute.edges[0], attribute.edges[-1]
    if attribute.scale is None and any(isinstance(one, Decimal) for one in column.dropna().head(1)):
        yield "numbers of so many digits come out as floats, rounded"
    for unit, factor in (("seconds", 1), ("milliseconds", 1000)):
        if low >= _IN_2000 * factor and high <= _IN_2040 * factor:
            yield (
                f"looks like {unit} since 1970: later ones than the public table's are clipped;"
                " timestamps in the source would be counted in days or weeks"
            )


def _example(cells: Iterable[tuple[str, Any]]) -> Iterator[str]:
    """Yield a note on the first cell that comes out as another text, if there is one."""
    changed = (one for one in cells if one[0].strip() != one[1])
    for text, written in islice(changed, 1):
        yield f"cells such as {text!r} come out as {written!r}"


def _nearly_alike(attribute: CategoricalAttribute) -> Iterator[str]:
    """Yield a note on the first values that differ in case or blanks alone."""
    seen: dict[str, Value] = {}
    pairs = (
        (first, value)
        for value in attribute.values
        if isinstance(value, str)
        and (first := seen.setdefault(" ".join(value.casefold().split()), value)) != value
    )
    for first, value in islice(pairs, 1):
        yield f"{first!r} and {value!r} are two values: make them one in the source if they are"


def _not_kept(
    column: pd.Series[Any], attribute: CategoricalAttribute, encoded: EncodedTable
) -> str:
    """Return how many texts of a public column, in how many rows, become another one, or ""."""
    rest = column[encoded.column(attribute.name) == attribute.code_of(attribute.other)]
    gone = [one for one in rest.unique() if one != attribute.other and not is_formula(one)]
    rows = int(rest.isin(gone).sum())
    if not rows:
        return ""
    share = f"{100 * rows / len(column):.0f}% of the public rows"
    return (
        f"{len(gone):,} of {column.nunique():,} texts become {attribute.other!r}, in {share}: group"
        " them in the source to keep them"
    )


def _unread(column: pd.Series[Any], attribute: Attribute, encoded: EncodedTable) -> str:
    """Return how many cells of a public column are not read, or ""."""
    wrong = (encoded.column(attribute.name) == attribute.null_code) & ~missing_in(column)
    if attribute.null_code is None or not wrong.any():
        return ""
    examples = ", ".join(map(repr, column[wrong].unique()[:_EXAMPLES].tolist()))
    return (
        f"{wrong.sum():,} of {len(column):,} public cells are read as missing, such as {examples}"
    )
