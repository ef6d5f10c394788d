"""Values of attributes: when two are the same, what kind they are, what dtype holds them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from decimal import Decimal
from numbers import Integral, Real

import numpy as np

from jam_dagster.errors import DomainError

Value = str | int | float | bool

LARGEST_INTEGER = 2**53 - 1
"""Beyond it, float64 no longer tells neighbouring integers apart."""

_INTEGER_DTYPES = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
_NULLABLE_INTEGER_DTYPES = {f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)}
_FLOAT_DTYPES = {"float32", "float64", "Float32", "Float64"}
_NOT_NULLABLE_DTYPES = _INTEGER_DTYPES | {"bool"}
DTYPES_OF_KIND = {
    "text": {"str", "string", "object", "category"},
    "boolean": {"bool", "boolean", "object", "category"},
    "integer": _INTEGER_DTYPES | _NULLABLE_INTEGER_DTYPES | _FLOAT_DTYPES | {"object", "category"},
    "number": _FLOAT_DTYPES | {"object", "category"},
    "mixed": {"object", "category"},
}


def text_of(value: object) -> str:
    """Return the text that stands for a value: two values are the same where their texts are.

    ``1``, ``1.0`` and ``"1"`` are the same value (what a reader makes of a code depends on its
    neighbours), ``True`` and ``1`` are not.
    """
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real | Decimal):
        number = float(value)
        exact = number.is_integer() and abs(number) <= LARGEST_INTEGER
        return str(int(number)) if exact else repr(number)
    return str(value)


def exact_number(value: object) -> int | float | None:
    """Return the number that a value is or that a text writes, or None.

    Integers stay exact whatever their size. Booleans are no numbers, nor are NaN and the texts
    ``"nan"``, ``"1_000"`` and ``"0x1f"``; blanks around a number do not matter.
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
    """Return the boolean that a value is or that a text writes (``true``, ``FALSE``), or None."""
    if isinstance(value, str):
        return _TRUTHS.get(value)
    return bool(value) if isinstance(value, bool | np.bool_) else None


# Python refuses to read very long integers; these are infinite as floats.
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


def kind_of(values: Sequence[Value]) -> str:
    """Return "text", "boolean", "integer", "number" or "mixed"."""
    if all(isinstance(value, str) for value in values):
        return "text"
    if all(isinstance(value, bool) for value in values):
        return "boolean"
    if any(isinstance(value, str | bool) for value in values):
        return "mixed"
    return "integer" if all(isinstance(value, int) for value in values) else "number"


def inferred_dtype(kind: str, nullable: bool) -> str:
    """Return the pandas dtype that values of a kind (see `kind_of`) decode to by default."""
    if kind == "boolean":
        return "boolean" if nullable else "bool"
    if kind == "integer":
        return "Int64" if nullable else "int64"
    return {"text": "str", "number": "float64", "mixed": "object"}[kind]


def short_number(number: float) -> int | float:
    """Return an integer where the number is one, so that it is written without a point."""
    return int(number) if number.is_integer() and abs(number) <= LARGEST_INTEGER else number


def check_name(name: object) -> None:
    """Raise DomainError unless it is a text that is not empty."""
    if not isinstance(name, str) or not name or not _is_unicode(name):
        raise DomainError(f"an attribute's name must be a text that is not empty, got {name!r}")


def check_dtype(name: str, dtype: str, allowed: set[str], nullable: bool) -> None:
    """Raise DomainError unless the dtype is allowed, and has a null where one is needed."""
    if dtype not in allowed:
        raise DomainError(
            f"attribute {name!r} cannot be decoded to dtype {dtype!r}: use one of"
            f" {', '.join(sorted(allowed))}, or leave dtype out"
        )
    if nullable and dtype in _NOT_NULLABLE_DTYPES:
        wider = "boolean" if dtype == "bool" else dtype.replace("int", "Int").replace("uI", "UI")
        raise DomainError(
            f"attribute {name!r} is nullable, but dtype {dtype!r} has no null: use {wider!r}"
        )


def plain_value(name: str, value: object) -> Value:
    """Return a value as the Python type that JSON and YAML know, or raise DomainError."""
    if isinstance(value, str) and _is_unicode(value):
        return str(value)
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real) and math.isfinite(float(value)):
        return float(value) + 0.0
    raise DomainError(
        f"attribute {name!r} lists {value!r}: a value must be a text, a finite number or a boolean"
        " (for a missing value say nullable)"
    )


def _is_unicode(text: str) -> bool:
    """Tell whether a text can be stored: lone surrogates cannot."""
    return text.isascii() or text == text.encode("utf-8", "ignore").decode("utf-8")
