"""JSON of files that others may have written."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from typing import Any

from jam_dagster.errors import InputError

MOST_DEPTH = 64
"""The deepest nesting of lists and mappings in a document."""

MOST_DIGITS = 100
"""The most digits of an integer in a document."""

_NESTING = (dict, list)

DAMAGE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
"""Exceptions from reading a damaged document: wrong types, missing parts, deep nesting."""

OR_ITS_VERSION = "or read it with the version of jam-dagster that made it"
"""The remedy if a stored file is whole, and a later version made it."""


def damaged(path: object, fault: BaseException) -> InputError:
    """Return the error of a stored document that this version cannot read."""
    return InputError(
        f"{path} is damaged ({type(fault).__name__}: {fault}): restore it, {OR_ITS_VERSION}"
    )


def check_keys(content: Mapping[str, Any], known: Collection[str]) -> None:
    """Raise TypeError if a document has another key, which a later version may have written."""
    if unknown := content.keys() - set(known):
        raise TypeError(f"it has the unknown key {min(unknown)!r}")


def parse_json(text: str | bytes) -> Any:
    """Parse a JSON document; a key that occurs twice in an object is an error.

    Readers differ in which of two values they take, so a document with both says one thing to its
    verifier and another to somebody else. NaN and infinity are no JSON, and compare like no number.
    """
    deep = ValueError(f"its nesting is too deep: {MOST_DEPTH} levels are read")
    try:
        content = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_int=integer,
            parse_float=_finite,
            parse_constant=_finite,
        )
    except RecursionError:
        raise deep from None
    level = [content]
    for _ in range(MOST_DEPTH):
        inside = (one.values() if isinstance(one, dict) else one for one in level if _nests(one))
        # Almost all values are in no list: a call for each of them would take longer than parsing.
        level = [inner for values in inside for inner in values if type(inner) in _NESTING]
    if any(map(_nests, level)):
        raise deep
    return content


def integer(digits: str) -> int:
    """Return the integer of a text, or raise ValueError if it has too many digits.

    Later errors and sums would take time with the square of their number.
    """
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"an integer has {len(digits):,} digits, of {MOST_DIGITS} that are read")
    return int(digits)


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits:.20} is no finite number")
    return number


def _nests(content: object) -> bool:
    return type(content) in _NESTING


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for key, value in pairs:
        if key in content:
            raise ValueError(f"key {key!r} occurs twice")
        content[key] = value
    return content
