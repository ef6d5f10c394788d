"""Two tables as one: a row of the root table with two of its children, such as two of a household.

The domain of a root and its children has the attributes of the root, the number of its children,
and those of two children, which are drawn at random in random order::

    region, ..., persons, persons.1.age, persons.1.sex, ..., persons.2.age, persons.2.sex, ...

A row is one privacy unit, so every mechanism works on it as on any other table. In a domain file
the children are below the attributes of the root::

    attributes: {region: {...}}
    children:
      persons:
        key: household_id            # the column of both tables that says who belongs to whom
        max: 6
        attributes: {age: {...}, sex: {...}}
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from jam_dagster.errors import DomainError, SpecificationError
from jam_dagster.tables.domain.attributes import Attribute, CatchAll, Key
from jam_dagster.tables.domain.categorical import CategoricalAttribute
from jam_dagster.tables.domain.impossible import ImpossibleCombination
from jam_dagster.tables.domain.text_dtype import text_dtype
from jam_dagster.tables.domain.values import Mask, Value

if TYPE_CHECKING:
    import pandas as pd

SLOTS = (1, 2)
"""The children of a row: two of them, so that a table has the pairs of siblings."""

MOST_CHILDREN = 10
"""The largest number of children of a root that is modelled."""

MOST_DIGITS = 30
"""The largest width of a key that is a text of digits."""

_TABLE = re.compile(r"[a-z][a-z0-9_]*")

NO_CHILD = "(no child)"
"""The label of the cell that a child's attribute has for roots without that child."""


@dataclass(frozen=True)
class ChildAttribute(Attribute):
    """A column of one of two children, with a last cell for roots that lack that child.

    Parameters
    ----------
    name, nullable, dtype, unreadable
        As in `Attribute`; those of `child`.
    child
        The attribute of the children's table.
    slot
        Which child it is of, 1 or 2.
    table
        The name of the children's table, and of the attribute that counts them.
    """

    _: KW_ONLY
    child: Attribute
    slot: int
    table: str

    keys: ClassVar[Mapping[str, Key]] = MappingProxyType({})

    @classmethod
    def of(cls, link: Link, child: Attribute, slot: int) -> Self:
        """Return the attribute of one of the two children."""
        return cls(
            link.name(slot, child.name),
            nullable=child.nullable,
            dtype=child.dtype,
            unreadable=child.unreadable,
            child=child,
            slot=slot,
            table=link.table,
        )

    @property
    def size(self) -> int:
        """Number of cells: those of the child's attribute, and the one for no child."""
        return self.child.size + 1

    @property
    def absent_code(self) -> int:
        """Code of the cell for no child."""
        return self.child.size

    @property
    def column(self) -> str:
        """Name of the child's column, which both children have."""
        return f"{self.table}.{self.child.name}"

    @property
    def null_code(self) -> int | None:
        """Code of the null cell of the child's attribute, if it has one."""
        return self.child.null_code

    @property
    def unreadable_code(self) -> int | None:
        """Code of the unreadable cell of the child's attribute, if it has one."""
        return self.child.unreadable_code

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Label of each cell in plots and tables."""
        return (*self.child.labels, NO_CHILD)

    def _labels(self) -> Iterator[str]:
        yield from self.labels

    @property
    def listed(self) -> tuple[Value, ...]:
        """The listed values of the child's attribute."""
        return self.child.listed

    @property
    def other_code(self) -> int | None:
        """Code of the cell that encodes every unlisted value, if there is one."""
        return self.child.other_code

    @property
    def ordered(self) -> bool:
        """No: a root without the child has no place in an order of categories."""
        return False

    @property
    def catch_all_cells(self) -> list[CatchAll]:
        """The cells that also count values which the domain does not hold."""
        return self.child.catch_all_cells

    @property
    def kind_text(self) -> str:
        """The kind of the values, in a word or two."""
        return self.child.kind_text

    @property
    def outside_text(self) -> str:
        """The words for the treatment of a value that the attribute does not list."""
        return self.child.outside_text

    def values_text(self, shown: int) -> str:
        """Return the values, if there are many only so many of them."""
        return self.child.values_text(shown)

    def _described(self) -> str:
        return f"{self.child._described()}, or no child"

    @classmethod
    def from_entry(cls, name: str, entry: Mapping[str, Any]) -> Attribute:
        """Raise DomainError: a file declares the children's table, not its slots."""
        raise DomainError(f"attribute {name!r} is of a child: declare it under 'children'")

    def _own_entry(self) -> dict[str, Any]:
        return self.child.to_entry()

    @property
    def _default_dtype(self) -> str:
        return str(self.dtype)

    def canonical_form(self) -> dict[str, Any]:
        """Return what identifies the attribute in the domain's digest."""
        return {"name": self.name, "slot": self.slot, "child": self.child.canonical_form()}

    def condition_codes(self, what: str, item: object) -> list[int]:
        """Return the codes that meet an item, not null, of a condition in a domain file."""
        return self.child.condition_codes(what, item)

    def conditions(self, codes: list[int]) -> list[Any]:
        """Return items that say the codes in words."""
        own = [code for code in codes if code != self.absent_code]
        found = self.child.conditions(own) if own else []
        return found if len(own) == len(codes) else [*found, NO_CHILD]

    def check_column(self, column: pd.Series[Any]) -> None:
        """Raise DomainError if a column has a dtype that the attribute cannot hold."""
        self.child.check_column(column)

    def codes_in(self, column: pd.Series[Any]) -> tuple[npt.NDArray[np.intp], Mask]:
        """Return the code of each cell of roots that have the child, and which are missing."""
        return self.child.codes_in(column)

    def listed_codes(self, column: pd.Series[Any]) -> npt.NDArray[np.int64]:
        """Return the code of each cell of a checked table of roots that have the child."""
        return self.child.listed_codes(column)

    def column_of(self, points: npt.NDArray[Any], null: Mask) -> pd.Series[Any]:
        """Return the values of codes of roots that have the child."""
        return self.child.column_of(points, null)


@dataclass(frozen=True)
class Link:
    """A table of children, and how its rows belong to rows of the root table.

    Parameters
    ----------
    table
        Its name, which is also the attribute that counts the children of a root.
    column
        The column of both tables that identifies a root.
    maximum
        The largest number of children that a root keeps, 1 to `MOST_CHILDREN`.
    width
        Digits of a synthetic key that is a text such as ``000001``; 0: keys are numbers.

    Raises
    ------
    SpecificationError
        If one of them is malformed.
    """

    table: str
    column: str
    maximum: int
    # Public keys have it, and no other part of a release knows these.
    width: int = field(default=0, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.table, str) or not _TABLE.fullmatch(self.table):
            raise SpecificationError(
                "children: the name of their table begins with a lower-case letter and is of"
                f" lower-case letters, digits and '_', got {self.table!r}"
            )
        if not isinstance(self.column, str) or not self.column:
            raise SpecificationError(
                f"children.{self.table}.key must be the column of both tables that identifies a"
                f" row of the root table, got {self.column!r}"
            )
        whole = isinstance(self.maximum, int) and not isinstance(self.maximum, bool)
        if not whole or not 1 <= self.maximum <= MOST_CHILDREN:
            raise SpecificationError(
                f"children.{self.table}.max must be a whole number from 1 to {MOST_CHILDREN}, got"
                f" {self.maximum!r}"
            )
        whole = isinstance(self.width, int) and not isinstance(self.width, bool)
        if not whole or not 0 <= self.width <= MOST_DIGITS:
            raise SpecificationError(
                f"children.{self.table}.key_width must be a whole number from 0 to {MOST_DIGITS},"
                f" got {self.width!r}"
            )

    def name(self, slot: int, column: str) -> str:
        """Return the name of an attribute of one of the two children."""
        return f"{self.table}.{slot}.{column}"

    def slot(self, slot: int, columns: Iterable[str]) -> tuple[str, ...]:
        """Return the names of the attributes of one of the two children."""
        return tuple(self.name(slot, column) for column in columns)

    def to_dict(self) -> dict[str, Any]:
        """Return the column, which is the entry `key`, the maximum, and the width of a text."""
        width = {"key_width": self.width} if self.width else {}
        return {"key": self.column, "max": self.maximum, **width}

    def keys(self, numbers: npt.NDArray[np.intp]) -> pd.Series[Any]:
        """Return the keys of roots by their numbers."""
        import pandas as pd

        if not self.width:
            return pd.Series(numbers)
        texts = [f"{one:0{self.width}d}" for one in numbers.tolist()]
        keys: pd.Series[Any] = pd.Series(texts, dtype=text_dtype())
        return keys


def child_attributes(link: Link, attributes: Sequence[Attribute]) -> tuple[Attribute, ...]:
    """Return the number of a root's children, and the attributes of two of them."""
    count = CategoricalAttribute(link.table, tuple(range(link.maximum + 1)))
    slots = (ChildAttribute.of(link, one, slot) for slot in SLOTS for one in attributes)
    return (count, *slots)


def impossible_children(
    link: Link,
    attributes: Sequence[Attribute],
    masks: Mapping[tuple[str, ...], npt.NDArray[np.bool_]],
) -> Iterator[ImpossibleCombination]:
    """Yield the combinations that no root has.

    A root without a child has none of its values, and each other root has one in every column. The
    cells of `masks`, which no child's row can be in, are impossible for both of the two.
    """
    for one, slot in product(attributes, SLOTS):
        pair = (link.table, link.name(slot, one.name))
        fewer, enough = tuple(range(slot)), tuple(range(slot, link.maximum + 1))
        yield ImpossibleCombination(pair, (fewer, tuple(range(one.size))))
        if enough:
            yield ImpossibleCombination(pair, (enough, (one.size,)))
    for clique, mask in masks.items():
        for slot in SLOTS:
            for codes in _products(mask):
                yield ImpossibleCombination(link.slot(slot, clique), codes)


def linked_in(written: object) -> tuple[Link, dict[str, Any]]:
    """Return the link that a domain file has under ``children``, and the content of its table.

    Raises
    ------
    SpecificationError
        If it is malformed.
    """
    if not isinstance(written, Mapping) or len(written) != 1:
        raise SpecificationError(
            "'children' must be a mapping of one table's name to its key, max and attributes"
        )
    ((table, entry),) = written.items()
    if not isinstance(entry, Mapping):
        raise SpecificationError(f"children.{table} must be a mapping with key, max and attributes")
    content = dict(entry)
    names = ("key", ""), ("max", 0), ("key_width", 0)
    return Link(table, *(content.pop(*one) for one in names)), content


def _products(mask: npt.NDArray[np.bool_]) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Yield products of codes that are the cells of a mask, together."""
    if mask.ndim == 1:
        if mask.any():
            yield (tuple(np.flatnonzero(mask).tolist()),)
        return
    alike: dict[bytes, list[int]] = {}
    for code, part in enumerate(mask):
        alike.setdefault(part.tobytes(), []).append(code)
    for codes in alike.values():
        for rest in _products(mask[codes[0]]):
            yield (tuple(codes), *rest)
