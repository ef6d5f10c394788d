"""The keys of the domain file, its expressions and rules, as tables of its page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jam_dagster.tables import CategoricalAttribute, NumericAttribute
from jam_dagster.tables.domain.attributes import Key
from jam_dagster.tables.domain.domain_file import DOMAIN_KEYS
from jam_dagster.tables.domain.prefixes import PrefixAttribute
from jam_dagster.tables.domain.times import TimeAttribute


def key_table(keys: Mapping[str, Key], known: Mapping[str, Key] | None = None) -> str:
    """Return the table of some keys, without those that are `known` from another one."""
    rows = [
        f"| `{name}` | {key.default} | {key.meaning} |"
        for name, key in keys.items()
        if known is None or known.get(name) != key
    ]
    return "\n".join(["| key | default | what it is |", "|---|---|---|", *rows])


TABLES = {
    "domain": (DOMAIN_KEYS, None),
    "categories": (CategoricalAttribute.keys, None),
    "prefix": (PrefixAttribute.keys, CategoricalAttribute.keys),
    "numbers": (NumericAttribute.keys, None),
    "times": (TimeAttribute.keys, NumericAttribute.keys),
}
"""The keys of each table of the page, and those that the page has before."""


def described(what: str, meaning: str, rows: Sequence[tuple[str, str]]) -> str:
    """Return the table of what may be written, and its meaning."""
    lines = [f"| {one} | {means} |" for one, means in rows]
    return "\n".join([f"| {what} | {meaning} |", "|---|---|", *lines])
