"""Attributes of a domain: the values of a column, and the cells that count them."""

from __future__ import annotations

from jam_dagster.tables.domain.categorical import CategoricalAttribute
from jam_dagster.tables.domain.numeric import NumericAttribute

LISTED_VALUES = 10

Attribute = CategoricalAttribute | NumericAttribute


def describe(attribute: Attribute) -> str:
    """Return the values of an attribute in words."""
    null = ", or null" if attribute.nullable else ""
    if isinstance(attribute, CategoricalAttribute):
        labels = attribute.labels[: len(attribute.values)]
        if len(labels) > LISTED_VALUES:
            return f"one of {len(labels)} values: {', '.join(labels[:LISTED_VALUES])}, ...{null}"
        return f"one of {', '.join(labels)}{null}"
    low, high = attribute.bounds_text
    return f"{attribute.kind_text} from {low} to {high} in {attribute.bins} bins{null}"
