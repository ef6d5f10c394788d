"""Columns that are missing together, or only in rows where another column says so.

::

    constraints:
      - missing: [arrival, delay]        # in the same rows
      - missing: [refund, refunded_at]   # in exactly the rows
        where: {status: cancelled}
      - missing: tail_number             # in no other rows
        only_where: {departure: null}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from jam_dagster.common.validation import as_text, check_keys
from jam_dagster.errors import DomainError, SpecificationError
from jam_dagster.tables.domain.impossible import (
    ImpossibleCombination,
    NamedValues,
    OrderedAttributes,
    codes_of,
    condition_of,
    with_missing,
)

_KEYS = ("missing", "where", "only_where")


@dataclass(frozen=True)
class MissingWhere:
    """An attribute is missing only in rows where another one has certain codes.

    The codes may be that of missing values. `exactly` is whether it is missing in each of these
    rows.
    """

    attribute: str
    where: str
    codes: tuple[int, ...]
    exactly: bool = True

    @property
    def attributes(self) -> tuple[str, ...]:
        """The names of both attributes."""
        return (self.attribute, self.where)

    @property
    def content(self) -> list[Any]:
        """Its identity in the domain's digest."""
        return ["missing", self.attribute, self.where, list(self.codes), self.exactly]

    def together(self, domain: OrderedAttributes) -> bool:
        """Return whether both attributes are missing in the same rows."""
        return self.exactly and self.codes == domain.attribute(self.where).missing_codes

    def describe(self, domain: OrderedAttributes) -> str:
        """Return the constraint in words."""
        if self.together(domain):
            return f"{self.attribute} and {self.where} are missing together"
        there = ImpossibleCombination((self.where,), (self.codes,)).describe(domain)
        how = "exactly" if self.exactly else "only"
        return f"{self.attribute} is missing {how} where {there}"

    def checked(self, domain: OrderedAttributes) -> MissingWhere:
        """Return it, of all cells without a value if of one; raise DomainError if it is wrong."""
        what, other = domain.attribute(self.attribute), domain.attribute(self.where)
        if self.attribute == self.where:
            raise DomainError(f"{self.attribute!r} is missing where it is missing: name another")
        if what.null_code is None:
            raise DomainError(
                f"attribute {self.attribute!r} is never missing: make it nullable, or remove it"
                " from 'missing'"
            )
        if not self.codes or not 0 <= min(self.codes) <= max(self.codes) < other.size:
            raise DomainError(
                f"{self.attribute!r} is missing where {self.where!r} has codes outside 0 to"
                f" {other.size - 1}"
            )
        return replace(self, codes=with_missing(other, self.codes))

    def rows(self, where: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Return the records in which the attribute may be missing, by the other one's codes."""
        found: npt.NDArray[np.bool_] = np.isin(where, self.codes)
        return found

    def broken(self, domain: OrderedAttributes, drawn: bool = False) -> npt.NDArray[np.bool_]:
        """Return which cells of both attributes break it."""
        what, other = domain.attribute(self.attribute), domain.attribute(self.where)
        there = self.rows(np.arange(other.size))
        mask = np.zeros((what.size, other.size), dtype=bool)
        mask[:] = there if self.exactly else False
        mask[list(what.missing_codes)] = ~there
        return mask


def missing_from(
    domain: OrderedAttributes, what: str, entry: Mapping[Any, Any], values: NamedValues
) -> Iterator[MissingWhere]:
    """Yield the constraints of an entry of a domain file that has the key `missing`."""
    check_keys(what, entry, _KEYS)
    given = entry["missing"]
    names = [
        as_text(what, "each of 'missing'", name)
        for name in (given if isinstance(given, list | tuple) else [given])
    ]
    if "where" in entry and "only_where" in entry:
        raise SpecificationError(f"{what} has 'where' and 'only_where': remove one")
    key = "where" if "where" in entry else "only_where"
    if key not in entry:
        if len(set(names)) < max(len(names), 2):
            raise SpecificationError(
                f"{what} needs two columns that are missing together, or 'where'"
            )
        condition: Mapping[Any, Any] = {names.pop(0): None}
    else:
        condition = entry[key]
    if not isinstance(condition, Mapping) or len(condition) != 1:
        raise SpecificationError(f"{what}: {key} must map one attribute to a condition")
    ((where, wanted),) = condition.items()
    codes = codes_of(domain.attribute(str(where)), wanted, of=f"'{key}'")
    for name in names:
        values.count((codes,))
        yield MissingWhere(name, str(where), codes, key == "where" or key not in entry)


def missing_to(domain: OrderedAttributes, alike: Sequence[MissingWhere]) -> dict[str, Any]:
    """Return what a domain file has of constraints that differ in the missing attribute alone."""
    first, names = alike[0], [one.attribute for one in alike]
    if first.together(domain):
        return {"missing": [first.where, *names]}
    condition = condition_of(domain.attribute(first.where), first.codes)
    single = isinstance(condition, list) and len(condition) == 1
    return {
        "missing": names if len(names) > 1 else names[0],
        "where" if first.exactly else "only_where": {
            first.where: condition[0] if single else condition
        },
    }
