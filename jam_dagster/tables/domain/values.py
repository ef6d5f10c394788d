"""Values of attributes: their equality, kinds and dtypes."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from jam_dagster.errors import DomainError

Value = str | int | float | bool
Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.float64]
Units = npt.NDArray[np.int64]

NULL_LABEL = "(null)"
UNREADABLE_LABEL = "(unreadable)"

Unreadable = Literal["error", "missing", "apart"]
"""Treatment of a value that an attribute cannot hold."""

LARGEST_INTEGER = 2**53 - 1
"""The largest integer up to which float64 distinguishes neighbouring integers."""

_INTEGER_DTYPES = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
_NULLABLE_INTEGER_DTYPES = {f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)}
_FLOAT_DTYPES = {"float32", "float64", "Float32", "Float64"}
_NOT_NULLABLE_DTYPES = _INTEGER_DTYPES | {"bool"}
DTYPES_OF_ANY = {"object", "category", "ordered category"}
DTYPES_OF_KIND = {
    "text": {"str", "string"} | DTYPES_OF_ANY,
    "boolean": {"bool", "boolean"} | DTYPES_OF_ANY,
    "integer": _INTEGER_DTYPES | _NULLABLE_INTEGER_DTYPES | _FLOAT_DTYPES | DTYPES_OF_ANY,
    "number": _FLOAT_DTYPES | DTYPES_OF_ANY,
    "mixed": {"str", "string"} | DTYPES_OF_ANY,
}


DECIMAL_DTYPE = re.compile(r"decimal128\((\d{1,2}), (\d{1,2})\)\[pyarrow\]", re.ASCII)

_UNSEEN = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]")

SPELLED = (("false", "true"), ("no", "yes"), ("n", "y"), ("f", "t"), ("off", "on"), ("0", "1"))


def text_of(value: object) -> str:
    """Return the text of a value; two values are the same if their texts are.

    ``1``, ``1.0`` and ``"1"`` are the same value (a reader's type for a code depends on the other
    codes of the column); ``True`` and ``1`` are not.
    """
    if isinstance(value, str) or type(value) is int:
        return str(value)
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real | Decimal):
        number = _double(value)
        exact = number.is_integer() and abs(number) <= LARGEST_INTEGER
        return str(int(number)) if exact else repr(number)
    return str(value)


def spelled(text: str) -> str:
    """Return a text in the spelling of all that look alike: in NFC, without outer blanks."""
    return unicodedata.normalize("NFC", text).strip()


def lookalike(text: str) -> str:
    """Return a text without what cannot be seen: forms of Unicode, outer blanks, and case too."""
    return spelled(_UNSEEN.sub("", text)).casefold()


def alone(texts: Iterable[str]) -> dict[str, str]:
    """Return by `lookalike` the texts that look like no other."""
    alike: dict[str, list[str]] = {}
    for text in texts:
        alike.setdefault(lookalike(text), []).append(text)
    return {key: found[0] for key, found in alike.items() if len(found) == 1}


def _double(value: Any) -> float:
    """Return a number as a float; one of single precision by its shortest text, as in a file."""
    short = isinstance(value, np.floating) and value.itemsize < 8
    return float(str(value) if short else value)


def exact_number(value: object) -> int | float | None:
    """Return the number of a numeric value or text, or None.

    Integers of any size stay exact. Booleans, NaN and the texts ``"nan"``, ``"1_000"`` and
    ``"0x1f"`` are not numbers; blanks around a number do not matter.
    """
    if isinstance(value, str):
        if _INTEGER_TEXT.fullmatch(value):
            return int(value)
        return float(value) if _NUMBER_TEXT.fullmatch(value) else None
    if isinstance(value, bool | np.bool_):
        return None
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Decimal) and value.is_finite():
        if abs(value) < _DECIMAL_LIMIT and value == int(value):
            return int(value)
        return float(value)
    if isinstance(value, Real | Decimal):
        number = float(value)
        return None if math.isnan(number) else number
    return None


def truth_of(value: object) -> bool | None:
    """Return the boolean of a boolean value or text (``true``, ``FALSE``), or None."""
    if isinstance(value, str):
        return _TRUTHS.get(value)
    return bool(value) if isinstance(value, bool | np.bool_) else None


def spelled_truth(value: object) -> bool | None:
    """Return the boolean of a value in any spelling (``Y``, ``no``, ``1.0``), or None."""
    return _SPELLED_TRUTHS.get(_as_spelled(value))


def _as_spelled(value: object) -> str:
    """Return the text of a value without blanks and case; ``1`` for ``"1.0"``."""
    number = exact_number(value)
    return spelled(text_of(value if number is None else number)).lower()


def truths_of(values: Sequence[Value]) -> dict[bool, str]:
    """Return the texts of the false and the true value if there are just two, else nothing.

    They may be listed in any order and case, but both in words, letters or numbers.
    """
    texts = {_as_spelled(value): text_of(value) for value in values}
    for spelled in SPELLED:
        if len(values) == 2 and texts.keys() == set(spelled):
            return {truth: texts[spelled[truth]] for truth in (False, True)}
    return {}


# Python refuses to parse very long integers; they are infinite as floats.
_INTEGER_TEXT = re.compile(r"\s*[-+]?[0-9]{1,300}\s*", re.ASCII)
_NUMBER_TEXT = re.compile(
    r"\s*[-+]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[-+]?[0-9]+)?|inf|infinity)\s*", re.ASCII | re.I
)
_DECIMAL_LIMIT = Decimal(10) ** 300
_TRUTHS = {
    text: truth
    for truth in (True, False)
    for text in (str(truth), str(truth).lower(), str(truth).upper())
}


_SPELLED_TRUTHS = {text: bool(truth) for pair in SPELLED for truth, text in enumerate(pair)}

_SIGNS = tuple("=+-@\uff1d\uff0b\uff0d\uff20")
_DROPPED = '"\ufeff'
_SEPARATORS = re.compile(r"[;\t\r\n]")
_WITH_COMMAS = re.compile(r"[,;\t\r\n]")


def is_formula(cell: object, *, commas: bool = False) -> bool:
    """Return whether a spreadsheet would take a cell, or a part of it, for a formula.

    Numbers are never taken so, and neither is a single ``-``, a common mark of a missing value.
    With `commas` the cell is in a file that has another separator, so that a comma can part it,
    too.
    """
    if not isinstance(cell, str):
        return False
    if cell.startswith(("\t", "\r")) and len(cell) > 1:
        return True
    separators = _WITH_COMMAS if commas else _SEPARATORS
    parts = (part.lstrip(_DROPPED) for part in separators.split(cell))
    return any(
        part.startswith(_SIGNS) and len(part) > 1 and exact_number(part) is None for part in parts
    )


def kind_of(values: Sequence[Value]) -> str:
    """Return "text", "boolean", "integer", "number" or "mixed"."""
    if all(isinstance(value, str) for value in values):
        return "text"
    if all(isinstance(value, bool) for value in values):
        return "boolean"
    if any(isinstance(value, str | bool) for value in values):
        return "mixed"
    return "integer" if all(isinstance(value, int) for value in values) else "number"


def held_as(values: Sequence[Value], dtype: str | None) -> list[Value]:
    """Return values as a column of a dtype holds them: those of several types as texts."""
    several = kind_of(values) == "mixed" and dtype != "object"
    return list(map(text_of, values)) if several else list(values)


def inferred_dtype(kind: str, nullable: bool) -> str:
    """Return the pandas dtype that values of a kind (see `kind_of`) decode to by default."""
    if kind == "boolean":
        return "boolean" if nullable else "bool"
    if kind == "integer":
        return "Int64" if nullable else "int64"
    # No file has a column of several types.
    return {"text": "str", "number": "float64", "mixed": "str"}[kind]


def short_number(number: float) -> int | float:
    """Return a whole number as an integer, so that it is written without a point."""
    return int(number) if number.is_integer() and abs(number) <= LARGEST_INTEGER else number


def check_name(name: object) -> None:
    """Raise DomainError unless a name is a non-empty text."""
    if not isinstance(name, str) or not name or not _is_unicode(name):
        raise DomainError(f"an attribute's name must be a non-empty text, got {name!r}")


def check_dtype(name: str, dtype: str, allowed: set[str], nullable: bool) -> None:
    """Raise DomainError unless the dtype is allowed, and has a null if the attribute needs one."""
    if dtype not in allowed:
        raise DomainError(
            f"attribute {name!r} cannot be decoded to dtype {dtype!r}: use"
            f" {', '.join(sorted(allowed))}, or leave dtype out"
        )
    if nullable and dtype in _NOT_NULLABLE_DTYPES:
        wider = "boolean" if dtype == "bool" else dtype.replace("int", "Int").replace("uI", "UI")
        raise DomainError(
            f"attribute {name!r} is nullable, but dtype {dtype!r} has no null: use {wider!r}"
        )


def plain_value(name: str, value: object) -> Value:
    """Return a value as a Python type of JSON and YAML, or raise DomainError."""
    if type(value) is int:
        return value
    if isinstance(value, str) and _is_unicode(value):
        return str(value)
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real) and math.isfinite(float(value)):
        return _double(value) + 0.0
    raise DomainError(
        f"attribute {name!r} lists {value!r}: a value must be a text, a finite number or a boolean"
        " (for missing values, declare it nullable)"
    )


def _is_unicode(text: str) -> bool:
    """Return whether a text can be stored; one with lone surrogates cannot."""
    return text.isascii() or text == text.encode("utf-8", "ignore").decode("utf-8")


def check_unreadable(name: str, unreadable: object, nullable: bool) -> None:
    """Raise DomainError unless `unreadable` is a choice that the attribute has."""
    if unreadable not in get_args(Unreadable):
        raise DomainError(
            f"attribute {name!r}: unreadable must be 'error', 'missing' or 'apart', got"
            f" {unreadable!r}"
        )
    if unreadable != "error" and not nullable:
        raise DomainError(
            f"attribute {name!r} has no missing values, which unreadable ones are released as:"
            f" declare `nullable: true` next to `unreadable: {unreadable}`"
        )
