"""Advice on a column of many different texts, from what they write."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection

from jam_dagster.tables.domain.column_notes import EXAMPLES
from jam_dagster.tables.domain.number_format import units_of
from jam_dagster.tables.domain.values import exact_number
from jam_dagster.tables.drafting.time_draft import NEARLY_ALL, formats_of

_SAMPLE = 200
_MOST = 0.5
_MOST_UNITS = 20
# A blood pressure, such as 120/80, or a size, such as 20 x 30.
_PAIR = re.compile(r"\d+(?:[.,]\d+)? ?[/x] ?\d+(?:[.,]\d+)?", re.ASCII)


def advice_on(texts: Collection[str]) -> str:
    """Return what texts are and how to keep them; empty for words, and for numbers alone."""
    others = [text for text in texts if exact_number(text) is None]
    if not others:
        return ""
    sample = others[:: max(len(others) // _SAMPLE, 1)]
    if len(others) >= NEARLY_ALL * len(texts):
        formats = {text: found for text in sample if (found := set(formats_of(text)))}
        read = Counter(one for found in formats.values() for one in found)
        most = max(read, key=lambda one: read[one], default="")
        if len(formats) >= NEARLY_ALL * len(sample) > read[most]:
            first = next(text for text, found in formats.items() if most in found)
            second = next(text for text, found in formats.items() if most not in found)
            return (
                f"dates in several formats, such as {first!r} and {second!r}: write them in one"
                " format in the source"
            )
        if sum(map(bool, map(_PAIR.fullmatch, sample))) >= NEARLY_ALL * len(sample):
            return f"two numbers each, as in {sample[0]!r}: make two columns of them in the source"
    units = units_of(texts)
    if 1 < len(units) <= _MOST_UNITS:
        shown = ", ".join(one or "none" for one in units[:EXAMPLES])
        return f"numbers with several units ({shown}): put the units in a column of their own"
    if len(others) <= _MOST * len(texts):
        shown = ", ".join(map(repr, sample[:EXAMPLES]))
        return (
            f"mostly numbers, but {shown} {'is' if len(others) == 1 else 'are'} not: make numbers"
            " or missing cells of these in the source, to keep the numbers"
        )
    return ""
