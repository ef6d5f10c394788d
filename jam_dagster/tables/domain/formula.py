"""Numbers that a formula over other cells gives, in rows where all of them are known.

::

    repairs:
      - formula: {arrival: "clock_time(clock_minutes(planned) + delay, 2400)"}

Unlike a derived column, such an attribute is modelled, so it may be missing where the formula has a
value, and known where it has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from jam_dagster.common.validation import as_text
from jam_dagster.errors import DomainError, SpecificationError
from jam_dagster.tables.domain.derived import DerivedColumn, PlannedColumn, planned
from jam_dagster.tables.domain.expressions import Tree, columns_of, parsed
from jam_dagster.tables.domain.impossible import OrderedAttributes

_NUMBERS = ("integer", "number")


@dataclass(frozen=True)
class Formula:
    """An attribute of numbers is what an expression makes of others, where all are known."""

    attribute: str
    expression: str

    @cached_property
    def _tree(self) -> Tree:
        return parsed(self.attribute, self.expression)

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The names of the attributes that the expression reads."""
        return tuple(sorted(columns_of(self._tree)))

    @property
    def attributes(self) -> tuple[str, ...]:
        """The names of the attribute and its sources."""
        return (self.attribute, *self.sources)

    @property
    def content(self) -> list[Any]:
        """Its identity in the domain's digest."""
        return ["formula", self.attribute, self.expression]

    def describe(self, domain: OrderedAttributes) -> str:
        """Return the formula in words."""
        return f"{self.attribute} is {self.expression}, where all are known"

    def checked(self, domain: OrderedAttributes) -> Formula:
        """Return it as it is, or raise DomainError if it does not fit the attributes."""
        what = f"the formula of {self.attribute!r}"
        target, *sources = (domain.attribute(name) for name in self.attributes)
        if target in sources or not sources:
            raise DomainError(f"{what} must read other attributes, and not {self.attribute!r}")
        if target.compared_as != ("number",) or target.format:
            raise DomainError(
                f"{what} gives numbers: declare edges or bounds of {self.attribute!r} and no"
                " format, or derive the column"
            )
        for one in sources:
            if one.hour_from is not None:
                raise DomainError(
                    f"{what} reads {one.name!r}, whose hour is that of another column: remove"
                    " hour_from or the formula"
                )
        self.planned(domain)
        return self

    def planned(self, domain: OrderedAttributes) -> PlannedColumn:
        """Return the formula ready to be computed, or raise DomainError if it gives no number."""
        own = domain.attribute(self.attribute)
        others = [domain.attribute(name) for name in self.sources]
        try:
            (plan,) = planned(others, [DerivedColumn(self.attribute, self.expression)])
        except DomainError as error:
            raise DomainError(str(error).replace("derived column", "the formula of", 1)) from None
        return plan.where_known(str(own.dtype))


def formula_from(what: str, written: object) -> Formula:
    """Return what an entry of a domain file has under `formula`."""
    if not isinstance(written, Mapping) or len(written) != 1:
        raise SpecificationError(f"{what}: formula must map one attribute to an expression")
    ((name, expression),) = written.items()
    return Formula(str(name), as_text(what, f"the formula of {name!r}", expression))
