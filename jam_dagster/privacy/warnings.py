"""Warnings about settings of a release that are allowed but unusual."""

from __future__ import annotations

import math

from jam_dagster.privacy.accounting import describe_factor

_POWERS = (1.0, 1.1, 1.5, 2.0)
_LARGE_EPSILON = 20.0


def configuration_warnings(epsilon: float, delta: float, records: int) -> tuple[str, ...]:
    """Return warnings about a release's settings, in sentences.

    Each names the setting and the remedy. `records` is n where it is public, else its measured
    value.

    >>> configuration_warnings(1.0, 1e-9, 1000)
    ()
    """
    found = []
    if delta * records >= 1.0:
        found.append(
            f"delta = {delta:g} is not below 1 / n: a mechanism with such a delta may "
            "publish somebody's record outright. Choose one far below it."
        )
    if (power := _power_of(delta, records)) is not None:
        found.append(
            f"delta = {delta:g} is {power}: it looks as if it was computed from the private table. "
            "A delta is chosen before anybody looks, such as 1e-9."
        )
    if epsilon > _LARGE_EPSILON:
        found.append(
            f"epsilon = {epsilon:g} is large: with one of two tables that differ in one person, an "
            f"outcome may be {describe_factor(epsilon)}."
        )
    return tuple(found)


def _power_of(delta: float, records: int) -> str | None:
    """Return in words the power of n that a delta is the inverse of, or None."""
    if records < 2:
        return None
    # Powers of ten are what people choose, whatever n is.
    if math.isclose(math.log10(delta), round(math.log10(delta)), abs_tol=1e-12):
        return None
    for power in _POWERS:
        if math.isclose(delta * float(records) ** power, 1.0, rel_tol=1e-3):
            return "1 / n" if power == 1.0 else f"1 / n^{power:g}"
    return None
