"""Description of the numbers of a bin: entries ``(first, last, weight)``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from numbers import Real
from typing import Any

import numpy as np

from jam_dagster.common.validation import as_list
from jam_dagster.errors import DomainError
from jam_dagster.tables.domain.values import Numbers, short_number

Entries = tuple[tuple[float, float, float], ...]


def plain_entry(name: str, key: str, entry: object) -> tuple[float, float, float]:
    """Return an entry of what numbers are like, or raise DomainError."""
    numbers = tuple(entry) if isinstance(entry, list | tuple) else ()
    if len(numbers) != 3:
        raise DomainError(
            f"attribute {name!r}: an entry of {key} must be a first number, a last one and a"
            f" weight, got {entry!r}"
        )
    first, last, weight = (plain_edge(name, number) + 0.0 for number in numbers)
    if weight <= 0:
        raise DomainError(f"attribute {name!r}: a weight of {key} must be above 0, got {weight}")
    return first, last, weight


def plain_edge(name: str, edge: object) -> float:
    """Return an edge as a float, or raise DomainError."""
    if not isinstance(edge, bool) and isinstance(edge, Real):
        # An integer may be larger than any float.
        with suppress(OverflowError):
            number = float(edge)
            if math.isfinite(number):
                return number
    raise DomainError(f"attribute {name!r}: an edge must be a finite number, got {edge!r}")


def entries_in(what: str, entry: Mapping[str, Any], key: str) -> tuple[Any, ...]:
    """Return entries that a domain file has under a key: a single number is written once."""
    return tuple(
        (one[0], *one) if isinstance(one, list) and len(one) == 2 else one
        for one in as_list(what, key, entry.get(key, []))
    )


def entries_to(entries: Entries, written: Callable[[float], Any]) -> list[list[Any]]:
    """Return entries as a domain file has them."""
    return [
        [*map(written, one[:1] if one[0] == one[1] else one[:2]), short_number(one[2])]
        for one in entries
    ]


def nearest_in(entries: Numbers, numbers: Numbers) -> Numbers:
    """Return for numbers the nearest ones that are in an entry."""
    # The entries of a bin may be in any order, and one within another.
    entries = entries[np.argsort(entries[:, 0], kind="stable")]
    first, last = entries[:, 0], np.maximum.accumulate(entries[:, 1])
    after = np.searchsorted(first, numbers, side="right")
    ends = last[np.maximum(after - 1, 0)]
    begins = first[np.minimum(after, len(first) - 1)]
    lower = np.where(after > 0, np.minimum(numbers, ends), first[0])
    higher = np.where(numbers <= lower, lower, begins)
    closer: Numbers = np.where(np.abs(higher - numbers) < np.abs(lower - numbers), higher, lower)
    return closer
