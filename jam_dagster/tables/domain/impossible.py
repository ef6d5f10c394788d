"""Impossible combinations of values, and the conditions that declare them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from jam_dagster.errors import DomainError, SpecificationError
from jam_dagster.tables.domain.attributes import Attribute
from jam_dagster.tables.domain.values import text_of

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
    """Return the combinations that are under `impossible` in a domain file."""
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
    items = _conditions(attribute, codes)
    return items[0] if len(items) == 1 and isinstance(items[0], Mapping) else items


def _conditions(attribute: Attribute, codes: tuple[int, ...]) -> list[Any]:
    plain = [code for code in codes if code not in attribute.missing_codes]
    return attribute.conditions(plain) + [None] * (len(plain) < len(codes))


def _item_codes(what: str, attribute: Attribute, item: object) -> list[int]:
    if item is not None:
        return attribute.condition_codes(what, item)
    if attribute.null_code is None:
        raise DomainError(f"{what} is null, but the attribute is not nullable")
    return list(attribute.missing_codes)


def with_missing(attribute: Attribute, codes: tuple[int, ...]) -> tuple[int, ...]:
    """Return codes with all of cells that are released as missing, if one of them is.

    A released row has missing values in place of unreadable ones, so a rule is of both.
    """
    missing = set(attribute.missing_codes)
    return tuple(sorted(missing.union(codes))) if missing.intersection(codes) else codes


def _describe_codes(attribute: Attribute, codes: tuple[int, ...]) -> str:
    return " or ".join(
        "null"
        if one is None
        else " ".join(f"{key} {bound}" for key, bound in one.items())
        if isinstance(one, Mapping)
        else text_of(one)
        for one in _conditions(attribute, codes)
    )
