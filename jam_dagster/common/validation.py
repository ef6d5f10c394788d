"""Small checks of values in configuration files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any, TypeGuard

from jam_dagster.errors import SpecificationError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def check_keys(what: str, entry: Mapping[Any, Any], allowed: Iterable[str]) -> None:
    """Raise SpecificationError with the first unknown key and the allowed keys."""
    allowed = tuple(allowed)
    for key in entry:
        if key not in allowed:
            raise SpecificationError(f"{what} has the {unknown_key(key, allowed)}")


_INSTEAD = {
    "alerts": "docs/budgets.md shows two sensors",
    "count": "Spark counts where rows may not leave their system",
    "multiline": "store a table with line breaks in its cells as Parquet",
    "population": "several tables of the same people are sources of one dataset",
    "trusted_mechanisms": "jam_dagster.synthesize takes a mechanism of yours as an object",
}
"""Remedies for keys that people look for."""


def unknown_key(key: object, allowed: Iterable[str]) -> str:
    """Return an unknown key with the allowed ones, and what to do instead of some."""
    instead = _INSTEAD.get(str(key))
    remedy = f"; {instead}" if instead else ""
    return f"unknown key {shown_key(key)}: allowed are {', '.join(allowed)}{remedy}"


def shown_key(key: object) -> str:
    """Return an unknown key as errors show it; a value that slipped into it may have a password."""
    text = str(key)
    return "that holds a URL" if "://" in text or "@" in text else repr(key)


def as_list(what: str, key: str, content: object) -> list[Any]:
    """Return a list or tuple as a list, or raise SpecificationError."""
    if not isinstance(content, list | tuple):
        raise SpecificationError(f"{what}: {key} must be a list, got {content!r}")
    return list(content)


def as_boolean(what: str, key: str, content: object) -> bool:
    """Return a boolean, or raise SpecificationError."""
    if not isinstance(content, bool):
        raise SpecificationError(f"{what}: {key} must be true or false, got {content!r}")
    return content


def as_text(what: str, key: str, content: object) -> str:
    """Return a text, or raise SpecificationError."""
    if not isinstance(content, str):
        raise SpecificationError(f"{what}: {key} must be a text, got {content!r}")
    return content


def as_number(what: str, key: str, content: object) -> int | float:
    """Return a number, or raise SpecificationError."""
    if not is_integer(content) and not isinstance(content, float):
        raise SpecificationError(f"{what}: {key} must be a number, got {content!r}")
    try:
        float(content)
    except OverflowError:
        raise SpecificationError(f"{what}: {key} is an integer larger than any float") from None
    return content


def as_integer(what: str, key: str, content: object) -> int:
    """Return an integer, or raise SpecificationError."""
    if not is_integer(content):
        raise SpecificationError(f"{what}: {key} must be an integer, got {content!r}")
    return content


def is_integer(content: object) -> TypeGuard[int]:
    """Return whether a value is an integer; booleans are not."""
    return isinstance(content, int) and not isinstance(content, bool)


def changed_fields(instance: DataclassInstance, *left_out: str) -> dict[str, Any]:
    """Return the fields that differ from their defaults, tuples as lists."""
    changed = {}
    for one in fields(instance):
        value = getattr(instance, one.name)
        default = one.default if one.default_factory is MISSING else one.default_factory()
        if one.name not in left_out and value != default:
            changed[one.name] = list(value) if isinstance(value, tuple) else value
    return changed
