"""Points to look at in a public column of any kind."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from jam_dagster.common.deferred import pd
from jam_dagster.tables.domain.values import text_of

CLIPPED_DATES = "dates beyond its bounds are moved to them"
"""The note on every attribute of dates."""

SHIFT_ADVICE = ": `shift` the public table to the private table's period"
"""Advice that follows the note, unless the public table was shifted."""

GROUP_ADVICE = ": group them in the source to keep them"
"""Advice on texts that become `other`, unless what they write is known."""

AS_PARQUET = (
    "python -c \"import pandas; pandas.read_csv('FILE', dtype=str, keep_default_na=False)"
    ".to_parquet('FILE.parquet')\""
)
"""The command that writes a file as Parquet, all cells as texts, whatever its lines are."""

EXAMPLES = 3
# Number of a column's values that show whether they are periods.
LOOKED_AT = 1_000
_YEAR = r"(?:19|20)\d\d"
_MONTHS = (
    "jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|"
    "oct(?:ober)?|nov(?:ember)?|dec(?:ember)?"
)
_PART = rf"(?:q[1-4]|w(?:0[1-9]|[1-4]\d|5[0-3])|(?:{_MONTHS})\.?)"
_PERIOD = re.compile(
    rf"{_YEAR}(?:0[1-9]|1[0-2])|{_YEAR}[-/ ]?{_PART}|{_PART}(?:,? |[-/])?(?:{_YEAR}|'?\d\d)", re.I
)


def period_notes(column: pd.Series[Any], later: str) -> Iterator[str]:
    """Yield that values look like periods, and what becomes of later ones."""
    values = [text_of(one) for one in column.dropna().unique()[:LOOKED_AT]]
    if len(values) > 1 and all(map(_PERIOD.fullmatch, values)):
        yield f"looks like months, quarters or weeks: later ones than the public table's {later}"


def rewritten(cells: Iterable[tuple[str, Any]]) -> Iterator[str]:
    """Yield a note on the first cell that comes out as another text, if there is one."""
    changed = (one for one in cells if one[0].strip() != one[1])
    for text, written in islice(changed, 1):
        yield f"cells such as {text!r} come out as {written!r}"
