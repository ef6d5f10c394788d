"""The differences of two domains in words, for people who edited one between two releases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jam_dagster.tables.domain.attributes import Attribute
from jam_dagster.tables.domain.domain import Domain

_NAMED = 5


def domain_changes(before: Domain, now: Domain) -> list[str]:
    """Return what a domain declares otherwise than an earlier one.

    Parameters
    ----------
    before, now
        Two domains that may be shown.

    Returns
    -------
    list of str
        A text for each attribute that differs, and one for rules; empty if nothing does.
    """
    old = {one.name: one for one in before.attributes}
    new = {one.name: one for one in now.attributes}
    found = [f"{name} is new" for name in new if name not in old]
    found += [f"{name} is no longer there" for name in old if name not in new]
    found += [
        f"{name} {', '.join(_differences(old[name], one))}"
        for name, one in new.items()
        if name in old and old[name] != one
    ]
    rules = "derived", "repairs", "impossible"
    found += [f"{name} differs" for name in rules if getattr(before, name) != getattr(now, name)]
    return found


def _differences(before: Attribute, now: Attribute) -> Iterator[str]:
    if before.binned or now.binned or type(before) is not type(now):
        yield f"is {now.describe()} and was {before.describe()}"
        return
    more = [one for one in now.labels if one not in before.labels]
    less = [one for one in before.labels if one not in now.labels]
    if more:
        yield f"has also {_listed(more)}"
    if less:
        yield f"lacks {_listed(less)}"
    if not more and not less:
        yield "has other settings"


def _listed(labels: Sequence[str]) -> str:
    shown = ", ".join(labels[:_NAMED])
    return f"{shown} and {len(labels) - _NAMED} more" if len(labels) > _NAMED else shown
