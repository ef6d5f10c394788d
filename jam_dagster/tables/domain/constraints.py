"""Constraints between the columns of a row.

::

    constraints:
      - departure <= arrival             # or <
      - date(submitted) <= due           # of a coarser unit: date, year or floor of one of both
      - combinations:                    # every row is one of these
          - {origin: JFK, carrier: [AA, DL]}
          - {origin: LGA}                # with any carrier
      - not_null: [carrier]
      - order: opened <= closed          # and so long after, in units, as often
        apart: [[0, 59, 80], [60, 600, 20]]
      - order: issued <= due             # and never another number of days
        apart: [[30, 30, 70], [60, 60, 20]]
        only: true
      - missing: [arrival, delay]        # together: see `missing_where`

As in SQL, a missing value breaks none but ``not_null`` and ``missing``. A domain's ``constraints``
hold in every record: the model gives what breaks them no probability. Its ``repairs`` are the same
of synthetic rows alone, and may be formulas (see `formula`), or say which rows differ (see
`unique`).
"""

from __future__ import annotations

import ast
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from jam_dagster.common.validation import as_boolean, as_list, as_text, check_keys
from jam_dagster.errors import DomainError, SpecificationError
from jam_dagster.tables.domain.attributes import Attribute
from jam_dagster.tables.domain.binned import BinnedAttribute
from jam_dagster.tables.domain.coarser import FUNCTIONS, Coarser, coarser_of, readers_of
from jam_dagster.tables.domain.entries import plain_entry
from jam_dagster.tables.domain.expressions import column_text, syntax_of
from jam_dagster.tables.domain.formula import Formula, formula_from
from jam_dagster.tables.domain.impossible import (
    NamedValues,
    OrderedAttributes,
    codes_of,
    condition_of,
)
from jam_dagster.tables.domain.missing_where import MissingWhere, missing_from, missing_to
from jam_dagster.tables.domain.unique import Unique, unique_from
from jam_dagster.tables.domain.values import short_number

_MOST_CHARACTERS = 2000
_MOST_CONSTRAINTS = 100
_MOST_APART = 1000
_MOST_EXEMPT = 10
_MOST_MISSING = 1000
_MOST_FORMULAS = 20


@dataclass(frozen=True)
class Order:
    """A number or time is at most another one.

    Parameters
    ----------
    lower, higher
        The names of two attributes of numbers, or of dates or times of one unit and zone, which
        are compared as whole units.
    strict
        Whether they must not be equal.
    apart
        How far apart they are: entries ``(first, last, weight)``, in units. If bins leave room for
        it, the higher one is decoded to so much more than the lower one. It decides nothing
        else.
    only
        Whether they are never apart otherwise: of whole numbers or units, and in `repairs` alone.
    functions
        Of one of the two its `date`, `year` or `floor`, which is compared with the other.
    exempt
        Numbers, as they are compared, that break it with no other: a date that means for ever.
    readers
        What reads the numbers of both by these, of an order that is `checked`.
    """

    lower: str
    higher: str
    strict: bool = False
    apart: tuple[tuple[float, float, float], ...] = ()
    only: bool = False
    functions: tuple[str, str] = ("", "")
    exempt: tuple[float, ...] = ()
    readers: tuple[Coarser, Coarser] | None = field(default=None, compare=False, repr=False)

    @property
    def attributes(self) -> tuple[str, ...]:
        """The names of the attributes."""
        return (self.lower, self.higher)

    @property
    def content(self) -> list[Any]:
        """Its identity in the domain's digest."""
        apart = [list(map(list, self.apart))] if self.apart else []
        only = ["only"] if self.only else []
        functions = [list(self.functions)] if any(self.functions) else []
        exempt = [["exempt", *self.exempt]] if self.exempt else []
        own = [*apart, *only, *functions, *exempt]
        return ["<" if self.strict else "<=", self.lower, self.higher, *own]

    def describe(self, domain: OrderedAttributes) -> str:
        """Return the constraint in words, which are those of a domain file if it is a plain one."""
        if not self.only:
            dates = " or ".join(str(one) for one in self.exempt_in(domain))
            return f"{self.text}, unless one is {dates}" if dates else self.text
        *some, last = [_span(first, end) for first, end, _ in self.apart]
        apart = f"{', '.join(some)} or {last}" if some else last
        unit = (domain.attribute(self.higher).compared_as or ("number",))[1:2]
        units = f" {unit[0]}{'' if apart == '1' else 's'}" if unit else ""
        return f"{self.higher} is {apart}{units} {'after' if unit else 'above'} {self.lower}"

    @property
    def text(self) -> str:
        """The order as a domain file has it."""
        sign = "<" if self.strict else "<="
        lower, higher = (
            f"{function}({_written(name)})" if function else _written(name)
            for function, name in zip(self.functions, self.attributes, strict=True)
        )
        return f"{lower} {sign} {higher}"

    def checked(self, domain: OrderedAttributes) -> Order:
        """Return it as it is, or raise DomainError where its attributes cannot be compared."""
        what = f"the order {self.text}"
        pair = [domain.attribute(name) for name in self.attributes]
        for one in pair:
            if one.compared_as is None:
                raise DomainError(
                    f"{what} compares {one.name!r}, which has categories: declare its edges, bounds"
                    " or a unit"
                )
            if one.hour_from is not None:
                raise DomainError(
                    f"{what} compares {one.name!r}, whose hour is that of another column: remove"
                    " hour_from or the order"
                )
        low, high = (_numeric(domain, name) for name in self.attributes)
        readers = readers_of((low, high), self.functions)
        if self.lower == self.higher or readers is None:
            function = coarser_of(low, high) or coarser_of(high, low)
            finer = low if coarser_of(low, high) else high
            raise DomainError(
                f"{what} must be between two numbers, or two dates or times of one unit and zone"
                + (f": write {function}({_written(finer.name)}) in it" if function else "")
            )
        if self.apart and self.functions[1]:
            raise DomainError(
                f"{what} keeps numbers apart, which is in units of the higher one: remove 'apart'"
            )
        entries = tuple(plain_entry(self.higher, "apart", one) for one in self.apart)
        if any(not self.strict <= first <= last for first, last, _ in entries):
            raise DomainError(
                f"{what} keeps numbers apart: an entry of 'apart' goes from {int(self.strict)} or"
                " more to the same number or a larger one"
            )
        if self.only and not (entries and high.integer and (low.integer or self.functions[0])):
            raise DomainError(
                f"{what} says 'only', which needs 'apart', and whole numbers or units: correct it"
            )
        return replace(self, apart=entries, readers=readers)

    def exempt_in(self, domain: OrderedAttributes) -> list[Any]:
        """Return the exempt numbers as a domain file has them."""
        at = 1 if self.functions[0] else 0
        attribute, numbers = _numeric(domain, self.attributes[at]), np.array(self.exempt)
        if self.readers is not None:
            numbers = self.readers[at].first(numbers)
        return [attribute.written(one) for one in numbers.tolist()]

    def exempting(self, domain: OrderedAttributes, written: Sequence[object]) -> Order:
        """Return it with exempt numbers that a domain file has."""
        order = self.checked(domain)
        at = 1 if self.functions[0] else 0
        attribute = _numeric(domain, self.attributes[at])
        numbers = [attribute.number(f"the order {self.text}", "exempt", one) for one in written]
        assert order.readers is not None  # noqa: S101  # it is checked
        return replace(order, exempt=tuple(order.readers[at](np.array(numbers)).tolist()))

    def read(
        self, lower: npt.NDArray[Any], higher: npt.NDArray[Any]
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Return numbers of both as they are compared."""
        if self.readers is None:
            return lower, higher
        return self.readers[0](lower), self.readers[1](higher)

    def least_higher(self, lower: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the least numbers of the higher one that are at least as high as lower ones."""
        if self.readers is None:
            return lower
        return self.readers[1].first(self.readers[0](lower))

    def holds(self, lower: npt.NDArray[Any], higher: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Return where it holds between numbers."""
        lower, higher = self.read(lower, higher)
        held: npt.NDArray[np.bool_] = lower < higher if self.strict else lower <= higher
        if self.only:
            held &= self._apart(lower, higher, lower, higher)
        if self.exempt:
            held |= np.isin(lower, self.exempt) | np.isin(higher, self.exempt)
        return held

    def _apart(
        self,
        low_least: npt.NDArray[Any],
        least: npt.NDArray[Any],
        low_most: npt.NDArray[Any],
        most: npt.NDArray[Any],
    ) -> npt.NDArray[np.bool_]:
        """Return where some numbers of two intervals are as far apart as an entry says."""
        found = np.zeros(np.broadcast_shapes(low_least.shape, least.shape), dtype=bool)
        for first, last, _ in self.apart:
            found |= (most - low_least >= first) & (least - low_most <= last)
        return found

    def broken(self, domain: OrderedAttributes, drawn: bool = False) -> npt.NDArray[np.bool_]:
        """Return which cells hold only pairs that break it; of values that are drawn, if asked."""
        low, high = (_numeric(domain, name) for name in self.attributes)
        mask = np.zeros((low.size, high.size), dtype=bool)
        least, largest = self.read(
            (low.drawn_limits if drawn else low.bin_limits)[0],
            (high.drawn_limits if drawn else high.bin_limits)[1],
        )
        held = least[:, None] < largest[None, :] if self.strict else least[:, None] <= largest
        if self.only:
            first, last = zip(low.bin_limits, high.bin_limits, strict=True)
            (low_least, least), (low_most, most) = self.read(*first), self.read(*last)
            held &= self._apart(low_least[:, None], least[None, :], low_most[:, None], most)
        if self.exempt:
            limits = (one.drawn_limits if drawn else one.bin_limits for one in (low, high))
            first, last = map(self.read, *limits)
            free = [
                np.any([(begin <= one) & (one <= end) for one in self.exempt], axis=0)
                for begin, end in zip(first, last, strict=True)
            ]
            held |= free[0][:, None] | free[1][None, :]
        mask[: low.bins, : high.bins] = ~held
        return mask


@dataclass(frozen=True)
class Combinations:
    """Every row is one of some combinations of values.

    Parameters
    ----------
    attributes
        The names of two attributes or more.
    listed
        The codes of each attribute, for each entry: all combinations in their product are allowed.
        No codes stand for all of them.
    """

    attributes: tuple[str, ...]
    listed: tuple[tuple[tuple[int, ...], ...], ...]

    @property
    def content(self) -> list[Any]:
        """Its identity in the domain's digest."""
        return [
            "combinations",
            list(self.attributes),
            [list(map(list, one)) for one in self.listed],
        ]

    def describe(self, domain: OrderedAttributes) -> str:
        """Return the constraint in words."""
        pair = [domain.attribute(name) for name in self.attributes]
        product = math.prod(one.size - len(one.missing_codes) for one in pair)
        broken = int(self.broken(domain).sum())
        bins = "" if not any(one.binned for one in pair) else "the bins of "
        names = ", ".join(self.attributes)
        return f"{product - broken:,} of {product:,} combinations of {bins}{names}"

    def checked(self, domain: OrderedAttributes) -> Combinations:
        """Return it with its attributes in the domain's order, or raise DomainError."""
        clique = domain.canonical(self.attributes)
        if not 2 <= len(clique) == len(self.attributes) or not self.listed:
            raise DomainError(
                "combinations need two attributes or more, and at least one entry that names them"
            )
        sizes = [domain.attribute(name).size for name in self.attributes]
        for one in self.listed:
            if len(one) != len(sizes) or any(
                codes and not 0 <= min(codes) <= max(codes) < size
                for codes, size in zip(one, sizes, strict=True)
            ):
                raise DomainError(
                    f"the combinations of {', '.join(clique)} have codes outside the attributes"
                )
        indices = [self.attributes.index(name) for name in clique]
        return Combinations(clique, tuple(tuple(one[at] for at in indices) for one in self.listed))

    def broken(self, domain: OrderedAttributes, drawn: bool = False) -> npt.NDArray[np.bool_]:
        """Return which cells are not among the combinations."""
        attributes = [domain.attribute(name) for name in self.attributes]
        mask = np.ones([one.size for one in attributes], dtype=bool)
        for entry in self.listed:
            every = zip(entry, mask.shape, strict=True)
            mask[np.ix_(*(codes or range(size) for codes, size in every))] = False
        for axis, one in enumerate(attributes):
            np.moveaxis(mask, axis, 0)[list(one.missing_codes)] = False
        return mask


@dataclass(frozen=True)
class NotNull:
    """An attribute is not missing.

    Parameters
    ----------
    attribute
        Its name.
    """

    attribute: str

    @property
    def attributes(self) -> tuple[str, ...]:
        """The name of the attribute, alone."""
        return (self.attribute,)

    @property
    def content(self) -> list[Any]:
        """Its identity in the domain's digest."""
        return ["not_null", self.attribute]

    def describe(self, domain: OrderedAttributes) -> str:
        """Return the constraint in words."""
        return f"{self.attribute} is not missing"

    def checked(self, domain: OrderedAttributes) -> NotNull:
        """Return it as it is, or raise InputError where the domain lacks the attribute."""
        domain.attribute(self.attribute)
        return self

    def broken(self, domain: OrderedAttributes, drawn: bool = False) -> npt.NDArray[np.bool_]:
        """Return which cells are released as missing."""
        attribute = domain.attribute(self.attribute)
        mask = np.zeros(attribute.size, dtype=bool)
        mask[list(attribute.missing_codes)] = True
        return mask


Constraint = Order | Combinations | NotNull | MissingWhere
Repair = Constraint | Formula | Unique
"""Rules that synthetic rows are changed to keep."""


def described(domain: OrderedAttributes, constraints: Sequence[Repair]) -> list[str]:
    """Return constraints in words, columns of which one thing holds in one line."""
    return [line for line, _ in described_alike(domain, constraints)]


def described_alike(
    domain: OrderedAttributes, constraints: Sequence[Repair]
) -> list[tuple[str, list[Repair]]]:
    """Return each line of `described`, with the constraints that it is of."""
    lines: list[tuple[str, list[Repair]]] = []
    never: list[Repair] = []
    for alike in _alike(constraints):
        first, names = alike[0], [one.attributes[0] for one in alike]
        if isinstance(first, NotNull):
            never = alike
        elif isinstance(first, MissingWhere) and len(alike) > 1:
            *some, last = [first.where, *names] if first.together(domain) else names
            rest = first.describe(domain).split(" missing ", 1)[1]
            lines.append((f"{', '.join(some)} and {last} are missing {rest}", alike))
        else:
            lines.append((first.describe(domain), alike))
    if never:
        names = [one.attributes[0] for one in never]
        lines.append((f"not missing: {', '.join(names)}", never))
    return lines


def _span(first: float, last: float) -> str:
    low, high = (f"{short_number(one)}" for one in (first, last))
    return low if low == high else f"{low} to {high}"


def _numeric(domain: OrderedAttributes, name: str) -> BinnedAttribute:
    """Return an attribute of an order, which is one of numbers once it is checked."""
    return cast("BinnedAttribute", domain.attribute(name))


def check_constraints(constraints: Sequence[Constraint], domain: OrderedAttributes) -> None:
    """Raise DomainError where constraints would refuse a record that keeps them.

    A value beyond the bounds is moved there, and may break an order that it keeps. And the
    model keeps orders in pairs, so what follows from two of them is to be declared, too.
    """
    orders = [one for one in constraints if isinstance(one, Order)]
    for one in orders:
        mask = one.broken(domain)
        low, high = (_numeric(domain, name) for name in one.attributes)
        if (high.clip and mask[:, high.bins - 1].any()) or (low.clip and mask[0].any()):
            raise DomainError(
                f"the order {one.text} is lost where a value is moved to the bounds:"
                f" give {one.higher!r} bounds at least as high as those of {one.lower!r}, and"
                f" {one.lower!r} at least as low{', or declare <=' * one.strict}"
            )
    pairs = {one.attributes for one in orders}
    for first in orders:
        for second in orders:
            follows = (first.lower, second.higher)
            if first.higher == second.lower and follows not in pairs:
                raise DomainError(
                    f"the orders {first.text} and {second.text} need a"
                    f" third one: declare {column_text(follows[0])} <= {column_text(follows[1])}"
                )


def sorted_orders(constraints: Iterable[Repair]) -> tuple[Order, ...]:
    """Return orders, each after those on its lower attribute, or raise DomainError of a circle."""
    waiting = [one for one in constraints if isinstance(one, Order)]
    done: list[Order] = []
    while waiting:
        higher = {one.higher for one in waiting}
        ready = [one for one in waiting if one.lower not in higher]
        if not ready:
            names = ", ".join(dict.fromkeys(name for one in waiting for name in one.attributes))
            raise DomainError(
                f"orders run in a circle between {names}: remove one, or derive a column that"
                " always equals another"
            )
        done += ready
        waiting = [one for one in waiting if one not in ready]
    return tuple(done)


# The form in a domain file.


def constraints_from(domain: OrderedAttributes, key: str, written: object) -> tuple[Repair, ...]:
    """Return what a domain file has under the key `constraints` or `repairs`."""
    found: list[Repair] = []
    values = NamedValues()
    for entry in as_list("the domain", key, written or []):
        if isinstance(entry, str):
            found.append(_order(entry))
            continue
        what = f"an entry of '{key}'"
        if isinstance(entry, Mapping) and "order" in entry:
            check_keys(what, entry, ("order", "apart", "only", "exempt"))
            only = as_boolean(what, "only", entry.get("only", False))
            if only and key != "repairs":
                raise DomainError(f"{what} says 'only', which is for 'repairs': move it there")
            apart = as_list(what, "apart", entry.get("apart") or [])
            if len(apart) > _MOST_APART:
                raise DomainError(f"{what} has more than {_MOST_APART:,} entries of 'apart'")
            order = _order(as_text(what, "order", entry["order"]))
            order = replace(order, apart=tuple(apart), only=only)
            exempt = as_list(what, "exempt", entry.get("exempt") or [])
            if len(exempt) > _MOST_EXEMPT:
                raise DomainError(f"{what} has more than {_MOST_EXEMPT} entries of 'exempt'")
            found.append(order.exempting(domain, exempt) if exempt else order)
            continue
        if isinstance(entry, Mapping) and "missing" in entry:
            found += missing_from(domain, what, entry, values)
            continue
        if isinstance(entry, Mapping) and "formula" in entry:
            check_keys(what, entry, ("formula",))
            if key != "repairs":
                raise DomainError(
                    f"{what} is a formula, which no model keeps: move it to 'repairs', or derive"
                    " the column"
                )
            found.append(formula_from(what, entry["formula"]))
            continue
        if isinstance(entry, Mapping) and "unique" in entry:
            check_keys(what, entry, ("unique",))
            if key != "repairs":
                raise DomainError(f"{what} says 'unique', which is for 'repairs': move it there")
            found.append(unique_from(what, entry["unique"]))
            continue
        if not isinstance(entry, Mapping) or len(entry) != 1:
            raise SpecificationError(
                f"{what} must be an order, such as departure <= arrival, or have one of the keys"
                f" 'combinations', 'not_null', 'missing', 'formula' and 'unique', got {entry!r}"
            )
        check_keys(what, entry, ("combinations", "not_null", "missing"))
        if "not_null" in entry:
            names = as_list(what, "not_null", entry["not_null"])
            found += [NotNull(as_text(what, "each of 'not_null'", name)) for name in names]
        else:
            entries = as_list(what, "combinations", entry["combinations"])
            found.append(_combinations(domain, entries, values))
    paired = sum(isinstance(one, Order | Combinations | Formula | Unique) for one in found)
    if paired > _MOST_CONSTRAINTS or len(found) - paired > _MOST_MISSING:
        raise DomainError(
            f"the domain has more than {_MOST_CONSTRAINTS:,} {key}, or more than {_MOST_MISSING:,}"
            " on missing values: declare fewer"
        )
    for one, times in Counter(one for one in found if isinstance(one, MissingWhere)).items():
        if times > 1:
            raise DomainError(f"the {key} say twice where {one.attribute!r} is missing: remove one")
    if sum(isinstance(one, Formula) for one in found) > _MOST_FORMULAS:
        raise DomainError(f"the domain has more than {_MOST_FORMULAS} formulas: declare fewer")
    return tuple(found)


def constraints_to(domain: OrderedAttributes, constraints: Sequence[Repair]) -> list[Any]:
    """Return what a domain file has of constraints: the inverse of `constraints_from`."""
    entries: list[Any] = []
    for alike in _alike(constraints):
        one = alike[0]
        if isinstance(one, MissingWhere):
            entries.append(missing_to(domain, cast("list[MissingWhere]", alike)))
        elif isinstance(one, NotNull):
            entries.append({"not_null": [name for each in alike for name in each.attributes]})
        elif isinstance(one, Formula):
            entries.append({"formula": {one.attribute: one.expression}})
        elif isinstance(one, Unique):
            entries.append({"unique": list(one.attributes)})
        elif isinstance(one, Order):
            apart = [[*map(short_number, entry)] for entry in one.apart]
            only = {"only": True} if one.only else {}
            own = {"apart": apart} | only if apart else {}
            own |= {"exempt": one.exempt_in(domain)} if one.exempt else {}
            entries.append({"order": one.text, **own} if own else one.text)
        else:
            attributes = [domain.attribute(name) for name in one.attributes]
            listed = [_conditions(attributes, codes) for codes in one.listed]
            entries.append({"combinations": listed})
    return entries


def _alike(constraints: Sequence[Repair]) -> list[list[Repair]]:
    """Return constraints in groups of neighbours that one entry of a domain file holds."""

    def entry(numbered: tuple[int, Repair]) -> tuple[Any, ...]:
        index, one = numbered
        if isinstance(one, MissingWhere):
            return (MissingWhere, one.where, one.codes, one.exactly)
        return (NotNull,) if isinstance(one, NotNull) else (index,)

    groups = groupby(enumerate(constraints), entry)
    return [[one for _, one in group] for _, group in groups]


def _conditions(
    attributes: Sequence[Attribute], listed: Sequence[tuple[int, ...]]
) -> dict[str, Any]:
    conditions = {}
    for one, codes in zip(attributes, listed, strict=True):
        if codes:
            condition = condition_of(one, codes)
            single = isinstance(condition, list) and len(condition) == 1
            conditions[one.name] = condition[0] if single else condition
    return conditions


def _combinations(
    domain: OrderedAttributes, entries: Sequence[Any], values: NamedValues
) -> Combinations:
    if not all(isinstance(one, Mapping) and one for one in entries):
        raise SpecificationError("each of 'combinations' must map attributes to conditions")
    named = [{str(name): one for name, one in entry.items()} for entry in entries]
    clique = domain.canonical(dict.fromkeys(name for entry in named for name in entry))
    listed = []
    for entry in named:
        given = (
            codes_of(domain.attribute(name), entry[name], of="a combination")
            if name in entry
            else ()
            for name in clique
        )
        listed.append(values.count(tuple(given)))
    return Combinations(clique, tuple(listed))


def _order(text: str) -> Order:
    match syntax_of(text) if len(text) <= _MOST_CHARACTERS else None:
        case ast.Compare(left=left, ops=[ast.LtE() | ast.Lt() as sign], comparators=[right]):
            (by_lower, lower), (by_higher, higher) = _side(left), _side(right)
            if lower is not None and higher is not None:
                strict = isinstance(sign, ast.Lt)
                return Order(lower, higher, strict, functions=(by_lower, by_higher))
    raise SpecificationError(
        f"an order must be written as departure <= arrival or departure < arrival, got"
        f' {text[:100]!r}; a column whose name is no identifier is col("its name")'
    )


def _written(name: str) -> str:
    """Return a name of an order, a child's after that of its table."""
    table, dot, column = name.partition(".")
    plain = dot and (column_text(table), column_text(column)) == (table, column)
    return name if plain else column_text(name)


def _side(node: ast.expr) -> tuple[str, str | None]:
    """Return the function of an order's side, if any, and the name; None if it has none."""
    match node:
        case ast.Call(func=ast.Name(id=function), args=[of], keywords=[]) if function in FUNCTIONS:
            return function, _name(of)
    return "", _name(node)


def _name(node: ast.expr) -> str | None:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id=table), attr=name):
            return f"{table}.{name}"
        case ast.Call(
            func=ast.Name(id="col"), args=[ast.Constant(value=str() as name)], keywords=[]
        ):
            return name
    return None


DESCRIBED = (
    (
        "`a <= b`, `a < b`",
        "an order of two numbers, or of two dates or times of one unit and zone, in "
        'whole units. A column whose name is no identifier is `col("its name")`',
    ),
    (
        "`date(a) <= b`, `a <= date(b)`",
        "the same of a timestamp and a day. `year` is next to a whole number or a "
        "year, and `floor` of a number with decimals next to one without",
    ),
    (
        "`order: a <= b` with `apart: [[first, last, weight], ...]`",
        "the same, and how far `b` is above `a`, in units: numbers of one bin are drawn by it",
    ),
    (
        "the same with `only: true`",
        "only these distances, such as 15, 30 or 60 days, of whole numbers or units. "
        "In `repairs` alone",
    ),
    (
        "`order: a <= b` with `exempt: [1900-01-01]`",
        "the same, unless one of the two is such a date, which means for ever or unknown",
    ),
    (
        "`combinations`",
        "a row is one of the listed ones, each written as an [impossible "
        "one](#impossible-combinations). A column that is left out may be anything",
    ),
    (
        "`not_null`",
        "these columns are not missing",
    ),
    (
        "`missing: [a, b, c]`",
        "these columns are missing in the same rows",
    ),
    (
        "`missing` with `where: {status: cancelled}`",
        "these columns are missing in exactly the rows that meet the condition on one other column",
    ),
    (
        "`missing` with `only_where: {departure: null}`",
        "these columns are missing in no other rows",
    ),
    (
        "`formula: {total: net + tax}`",
        "a number is what an [expression](#derived-columns) makes of other attributes, "
        "if all are known. In `repairs` alone",
    ),
    (
        "`unique: [player, year]`",
        "no two rows share the values of two or three attributes. In `repairs` alone",
    ),
)
"""Each entry of `constraints` and `repairs` and its meaning, as the reference has them."""
