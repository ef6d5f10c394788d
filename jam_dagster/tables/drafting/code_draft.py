"""Drafting codes that are modelled by their first characters."""

from __future__ import annotations

import re
from collections import Counter

from jam_dagster.tables.domain.prefixes import PrefixAttribute

KEPT_ROWS = 5
"""A text in fewer public rows is in no synthetic row, if a column has many texts."""

_MOST_CELLS = 60
_MOST_CODES = 10_000
_NEARLY_ALL = 0.99
_LEAST_SHARE = 0.5
_SHAPES = [
    re.compile(shape, re.ASCII)
    for shape in (
        r"\d{4,9}",  # industries, procedures, postal codes of many countries
        r"\d{5}-\d{4}",
        r"[A-Z]\d[0-9A-Z](?:\.[0-9A-Z]{1,4})?",  # diagnoses
        r"[A-Z]\d[A-Z] ?\d[A-Z]\d",  # postal codes of Canada
    )
]


def draft_codes(name: str, texts: Counter[str], other: str | None) -> PrefixAttribute | None:
    """Return an attribute of codes by their first characters, if texts are of one shape of codes.

    It has at most 60 cells, and half of the rows or more have a code that is in 5 rows.
    """
    rows = texts.total()
    if not any(
        sum(texts[one] for one in texts if shape.fullmatch(one)) >= _NEARLY_ALL * rows
        for shape in _SHAPES
    ):
        return None
    kept = {one: n for one, n in texts.most_common(_MOST_CODES) if n >= KEPT_ROWS}
    if sum(kept.values()) < _LEAST_SHARE * rows:
        return None
    longest = max(map(len, kept))
    for prefix in range(longest - 1, 0, -1):
        starts = {one[:prefix] for one in kept}
        if len(starts) <= _MOST_CELLS and not all(one[-1] in ".- " for one in starts):
            break
    else:
        return None
    if len(starts) < 2:
        return None
    return PrefixAttribute(
        name,
        other if any(one[:prefix] not in starts for one in texts) else None,
        prefix=prefix,
        weights=tuple(sorted(kept.items())),
        nullable=True,
        unreadable="missing",
    )
