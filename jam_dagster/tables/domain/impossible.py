"""Impossible combinations of values, and the conditions that declare them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Protocol

import numpy as np

from jam_dagster.common.validation import as_list, check_keys, is_integer
from jam_dagster.errors import DomainError, SpecificationError
from jam_dagster.tables.domain.attributes import Attribute
from jam_dagster.tables.domain.categorical import CategoricalAttribute
from jam_dagster.tables.domain.numeric import NumericAttribute
from jam_dagster.tables.domain.values import Value, text_of

_MOST_CODES = 2**24


class OrderedAttributes(Protocol):
    """The protocol of a domain: it has attributes by their names, in an order."""

    def attribute(self, name: str) -> Attribute:
        """Return the attribute of that name."""

    def canonical(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return names in the order of the domain."""


@dataclass(frozen=True)
class ImpossibleCombination:
    """Cells that are always empty, such as married people below 15.

    Parameters
    ----------
    attributes
        The names of the attributes.
    codes
        The codes of each attribute. Every combination in their product is impossible.

    Raises
    ------
    DomainError
        No attributes, or one without codes.
    """

    attributes: tuple[str, ...]
    codes: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        codes = tuple(tuple(sorted({int(code) for code in some})) for some in self.codes)
        object.__setattr__(self, "attributes", tuple(self.attributes))
        object.__setattr__(self, "codes", codes)
        if not self.attributes or len(codes) != len(self.attributes) or not all(codes):
            raise DomainError(
                "an impossible combination needs at least one attribute, and at least one value of"
                f" each, got {dict(zip(self.attributes, codes, strict=False))}"
            )

    def describe(self, domain: OrderedAttributes) -> str:
        """Return the combination in words: ``age below 15 and marital-status Married``."""
        return " and ".join(
            f"{name} {_describe_codes(domain.attribute(name), codes)}"
            for name, codes in zip(self.attributes, self.codes, strict=True)
        )


def impossible_from(
    domain: OrderedAttributes, written: object
) -> tuple[ImpossibleCombination, ...]:
    """Return the combinations that stand under `impossible` in a domain file."""
    entries = written or []
    if not isinstance(entries, list | tuple):
        raise SpecificationError("'impossible' must be a list of combinations")
    found, values = [], NamedValues()
    for entry in entries:
        if not isinstance(entry, Mapping) or not entry:
            raise SpecificationError(
                "an impossible combination must be a mapping of attributes to conditions,"
                f" got {entry!r}"
            )
        conditions = {str(name): condition for name, condition in entry.items()}
        clique = domain.canonical(conditions)
        codes = tuple(codes_of(domain.attribute(name), conditions[name]) for name in clique)
        found.append(ImpossibleCombination(clique, values.count(codes)))
    return tuple(found)


@dataclass
class NamedValues:
    """Counts the values that combinations of a domain file name, so that they stay few."""

    number: int = 0

    def count(self, codes: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
        """Return the codes of a combination, or raise DomainError where there are too many."""
        self.number += sum(map(len, codes))
        if self.number > _MOST_CODES:
            raise DomainError(
                f"the combinations name more than {_MOST_CODES:,} values: declare fewer, or over"
                " attributes with fewer values"
            )
        return codes


def codes_of(
    attribute: Attribute, condition: object, *, of: str = "an impossible combination"
) -> tuple[int, ...]:
    """Return the codes that meet a condition."""
    items = condition if isinstance(condition, list | tuple) else [condition]
    what = f"the condition on {attribute.name!r} of {of}"
    codes = {code for item in items for code in _item_codes(what, attribute, item)}
    if not codes:
        raise DomainError(f"{of} has a condition on {attribute.name!r} that no value meets")
    return tuple(sorted(codes))


def condition_of(attribute: Attribute, codes: tuple[int, ...]) -> Any:
    """Return a condition that `codes_of` turns into the codes."""
    plain, null = _without_null(attribute, codes)
    nulls: list[Value | None] = [None] if null else []
    if isinstance(attribute, CategoricalAttribute):
        return [attribute.values[code] for code in plain] + nulls
    items: list[Any] = [_interval(attribute, first, last) for first, last in _runs(plain)]
    items += nulls
    return items[0] if len(items) == 1 and items[0] is not None else items


def _item_codes(what: str, attribute: Attribute, item: object) -> list[int]:
    if item is None:
        if attribute.null_code is None:
            raise DomainError(f"{what} is null, but the attribute is not nullable")
        return [attribute.null_code]
    if isinstance(attribute, CategoricalAttribute):
        listed = None if isinstance(item, Mapping) else attribute.listed_code(item)
        if listed is None:
            raise DomainError(f"{what} is {item!r}, which is not one of its values")
        return [listed]
    if isinstance(item, Mapping):
        return _interval_codes(what, attribute, item)
    number = attribute.number(what, "each item", item)
    low, high = attribute.bin_limits
    match = np.flatnonzero((low == number) & (high == number))
    if not len(match):
        raise DomainError(
            f"{what} is {item!r}, which is not the only value of a bin: use from and below"
        )
    return [int(match[0])]


def _interval_codes(what: str, attribute: NumericAttribute, item: Mapping[Any, Any]) -> list[int]:
    check_keys(what, item, ("from", "below", "bins"))
    if "bins" in item:
        if len(item) > 1:
            raise SpecificationError(f"{what} has 'bins' beside other keys: make it two items")
        bins = as_list(what, "bins", item["bins"])
        if not all(is_integer(code) and 0 <= code < attribute.bins for code in bins):
            raise DomainError(f"{what} has bins outside 0 to {attribute.bins - 1}")
        return bins
    low, high = attribute.bin_limits
    chosen = np.ones(attribute.bins, dtype=bool)
    for key in ("from", "below"):
        if key not in item:
            continue
        bound = attribute.number(what, key, item[key])
        if ((low < bound) & (bound <= high)).any():
            raise DomainError(
                f"{what}: {key} {item[key]!r} cuts through a bin: use an edge of the bin, or change"
                " the edges"
            )
        chosen &= (low >= bound) if key == "from" else (high < bound)
    return [int(code) for code in np.flatnonzero(chosen)]


def _without_null(attribute: Attribute, codes: tuple[int, ...]) -> tuple[list[int], bool]:
    plain = [code for code in codes if code != attribute.null_code]
    return plain, len(plain) < len(codes)


def _runs(codes: list[int]) -> list[tuple[int, int]]:
    """Return the first and last of each run of consecutive codes."""
    groups = groupby(enumerate(codes), lambda one: one[1] - one[0])
    runs = [[code for _, code in run] for _, run in groups]
    return [(run[0], run[-1]) for run in runs]


def _interval(attribute: NumericAttribute, first: int, last: int) -> dict[str, Any]:
    low, _ = attribute.bin_limits
    interval = {}
    if first > 0 or last + 1 == attribute.bins:
        interval["from"] = attribute.written(float(low[first]))
    if last + 1 < attribute.bins:
        interval["below"] = attribute.written(float(low[last + 1]))
    return interval


def _describe_codes(attribute: Attribute, codes: tuple[int, ...]) -> str:
    plain, null = _without_null(attribute, codes)
    if isinstance(attribute, CategoricalAttribute):
        parts = [text_of(attribute.values[code]) for code in plain]
    else:
        intervals = [_interval(attribute, first, last) for first, last in _runs(plain)]
        parts = [" ".join(f"{key} {bound}" for key, bound in one.items()) for one in intervals]
    return " or ".join([*parts, *(["null"] if null else [])])
