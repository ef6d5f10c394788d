"""Rules between the children of a root, or between a root and each of its children.

::

    attributes: {ordered: {...}}
    repairs: [ordered <= lines.shipped]     # of an order and each of its lines
    children:
      lines:
        key: order_id
        max: 10
        attributes: {product: {...}, shipped: {...}}
        repairs:
          - unique: [order_id, product]     # a product once an order

They are repairs: no private row is held to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from jam_dagster.errors import DomainError
from jam_dagster.tables.domain.attributes import Attribute
from jam_dagster.tables.domain.constraints import Order, Repair
from jam_dagster.tables.domain.unique import Unique

if TYPE_CHECKING:
    from jam_dagster.tables.domain.children import Link
    from jam_dagster.tables.domain.impossible import OrderedAttributes

RootRule = Unique | Order


@dataclass(frozen=True)
class BothTables:
    """The attributes of two tables: a child's has the name of its table before its own."""

    link: Link
    roots: OrderedAttributes
    children: OrderedAttributes

    @staticmethod
    def name(link: Link, column: str) -> str:
        """Return the name that a child's column has here."""
        return f"{link.table}.{column}"

    def child(self, name: str) -> str | None:
        """Return the own name of a child's column, None of another one."""
        before, dot, own = name.partition(".")
        return own if dot and before == self.link.table else None

    def attribute(self, name: str) -> Attribute:
        """Return the attribute of that name."""
        own = self.child(name)
        return self.roots.attribute(name) if own is None else self.children.attribute(own)

    def canonical(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return names as they are."""
        return tuple(names)

    def checked(self, rule: RootRule) -> RootRule:
        """Return a rule of both tables as it is, or raise DomainError if it does not fit them."""
        if isinstance(rule, Unique):
            siblings = siblings_differ(rule, self.link)
            for name in siblings.attributes:
                self.children.attribute(name)
            if len(rule.attributes) > 2:
                siblings.checked(self.children)
            elif len(siblings.attributes) != 1:
                raise DomainError(f"'unique' names {self.link.column} once, and a further column")
            return replace(rule, attributes=(self.link.column, *siblings.attributes))
        own = [self.child(name) is not None for name in rule.attributes]
        if sum(own) != 1:
            raise DomainError(f"the order {rule.text} must be between a root and a child of it")
        if rule.apart and own[0]:
            raise DomainError(
                f"the order {rule.text} keeps numbers apart, which is for orders whose higher"
                " column is the child's: remove 'apart'"
            )
        return rule.checked(self)


def siblings_differ(rule: Unique, link: Link) -> Unique:
    """Return what the children of one root have of a rule."""
    return Unique(tuple(name for name in rule.attributes if name != link.column))


def between_tables(
    repairs: Iterable[Repair], link: Link, names: Iterable[str]
) -> tuple[list[Repair], list[RootRule]]:
    """Return the repairs of the root table, and those that name a column of a child."""
    own, across, known = list[Repair](), list[RootRule](), set(names)
    for one in repairs:
        begins = f"{link.table}."
        far = {name for name in one.attributes if name.startswith(begins)} - known
        if isinstance(one, Order) and far:
            across.append(one)
        else:
            own.append(one)
    return own, across


def among_siblings(written: Any, link: Link) -> tuple[list[Any], list[Any]]:
    """Return the entries of the children's `repairs` without and with the link's column."""
    own: list[Any] = []
    of_roots: list[Any] = []
    for entry in written if isinstance(written, list) else ():
        names = entry.get("unique") if isinstance(entry, Mapping) else None
        (of_roots if isinstance(names, list) and link.column in names else own).append(entry)
    return own, of_roots
