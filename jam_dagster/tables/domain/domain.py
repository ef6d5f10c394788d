"""The domain of a table: its attributes, their values, and what cannot occur together."""

from __future__ import annotations

import difflib
import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Context
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from jam_dagster.common.deferred import pd
from jam_dagster.errors import DomainError, InputError
from jam_dagster.tables.domain.attributes import Attribute
from jam_dagster.tables.domain.binned import BinnedAttribute
from jam_dagster.tables.domain.bought import (
    Asked,
    Measure,
    PaidCounts,
    asking_entry,
    bought_attributes,
    bought_singles,
)
from jam_dagster.tables.domain.children import Link, child_attributes, impossible_children
from jam_dagster.tables.domain.constraints import (
    Combinations,
    Constraint,
    NotNull,
    Order,
    Repair,
    check_constraints,
    constraints_to,
    described,
    sorted_orders,
)
from jam_dagster.tables.domain.derived import (
    DerivedColumn,
    Formats,
    PlannedColumn,
    formats_of,
    planned,
)
from jam_dagster.tables.domain.domain_file import (
    domain_from_dict,
    domain_yaml,
    numbered,
    read_domain,
    save_domain,
)
from jam_dagster.tables.domain.formula import Formula
from jam_dagster.tables.domain.impossible import ImpossibleCombination, condition_of, with_missing
from jam_dagster.tables.domain.numbering import Numbering
from jam_dagster.tables.domain.order import TWO
from jam_dagster.tables.domain.text_dtype import dtype_of
from jam_dagster.tables.domain.totals import Total
from jam_dagster.tables.domain.unique import Unique
from jam_dagster.tables.domain.within_roots import BothTables, RootRule

Clique = tuple[str, ...]
"""Names of attributes, in the order of the domain."""

Provenance = Literal["declared", "public", "private"]

_MAX_IMPOSSIBLE_CELLS = 10_000_000
_MAX_MASKED_CELLS = 2**30


@dataclass(frozen=True)
class Domain:
    """The attributes of a table, in order.

    Parameters
    ----------
    attributes
        One or more, no name twice.
    impossible
        Combinations that cannot occur; a mechanism keeps them at zero.
    identified_from
        Origin of the values: "declared" by a person, identified from "public" data, or from
        "private" data. The last is for research: its output must not be released.
    derived
        Columns of the synthetic table that are computed, not modelled.
    order
        All columns of the synthetic table; empty: the attributes, then the derived columns.
    constraints
        What holds between the attributes of every record; a mechanism keeps the rest at zero.
    repairs
        Constraints and formulas that synthetic rows are changed to keep, and that no record is
        held to.
    children
        The children's table, if a row is a root with two of its children (see `with_children`).
    asked
        What is to be bought before the private table is encoded: until then attributes have bins of
        equal width; None: nothing.
    bought
        How the edges were bought, if they were.
    related
        Pairs of attributes that a workload without them has too; None: nobody said which.
    kept
        What an earlier release was asked for edges that are kept since: its entry, by attribute. It
        decides nothing of this release, and so it is not part of the digest.

    Raises
    ------
    DomainError
        No attributes, a name twice, an impossible combination or a constraint that does not fit
        them, a derived column that cannot be computed, or an order that lacks a column.
    """

    attributes: tuple[Attribute, ...]
    impossible: tuple[ImpossibleCombination, ...] = ()
    identified_from: Provenance = "declared"
    derived: tuple[DerivedColumn, ...] = ()
    order: Clique = ()
    constraints: tuple[Constraint, ...] = ()
    repairs: tuple[Repair, ...] = ()
    children: Children | None = None
    asked: Asked | None = None
    bought: Bought | None = None
    related: tuple[Clique, ...] | None = None
    kept: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "attributes", tuple(self.attributes))
        if not self.attributes:
            raise DomainError("a domain needs at least one attribute")
        names = [attribute.name for attribute in self.attributes]
        twice = sorted(name for name, times in Counter(names).items() if times > 1)
        if twice:
            raise DomainError(f"the domain has attribute {twice[0]!r} twice: rename or remove one")
        if self.identified_from not in get_args(Provenance):
            raise DomainError(
                f"identified_from must be one of {', '.join(get_args(Provenance))},"
                f" got {self.identified_from!r}"
            )
        for attribute in self.attributes:
            if attribute.alone(names) is not attribute:
                raise DomainError(
                    f"attribute {attribute.name!r} has its hour from an attribute that the domain"
                    " lacks: add that, or remove hour_from"
                )
        impossible = tuple(self._fitted(combination) for combination in self.impossible)
        object.__setattr__(self, "impossible", impossible)
        masked = sum(self.size(one.attributes) for one in impossible)
        for key in ("constraints", "repairs"):
            checked = tuple(one.checked(self) for one in getattr(self, key))
            object.__setattr__(self, key, checked)
            for one in checked:
                if isinstance(one, Formula | Unique):
                    continue
                cells = self.size(one.attributes)
                masked += cells * (len(one.listed) if isinstance(one, Combinations) else 1)
                if cells > _MAX_IMPOSSIBLE_CELLS:
                    raise DomainError(
                        f"one of the {key}, on {', '.join(one.attributes)}, spans {cells:,} cells,"
                        f" more than {_MAX_IMPOSSIBLE_CELLS:,}: use fewer bins or values"
                    )
        if masked > _MAX_MASKED_CELLS:
            raise DomainError(
                "the impossible combinations and constraints span more than"
                f" {_MAX_MASKED_CELLS:,} cells together: declare fewer, or over fewer attributes"
            )
        self._check_asked()
        self._check_related()
        # A circle is found at once.
        _ = self.orders
        check_constraints(self.constraints, self)
        self._check_formulas()
        for clique, mask in self.impossible_masks().items():
            if mask.all():
                raise DomainError(
                    f"the impossible combinations or constraints of {', '.join(clique)} leave"
                    " nothing possible: remove one"
                )
        object.__setattr__(self, "derived", tuple(self.derived))
        object.__setattr__(self, "order", tuple(self.order))
        # Computed at once, so that what is wrong with them is said here.
        all_columns = [*self.names, *(one.name for one in self.plan)]
        if self.order and sorted(map(str, self.order)) != sorted(all_columns):
            differ = sorted(set(map(str, self.order)) ^ set(all_columns)) or ["one of them twice"]
            raise DomainError(
                "the order of the columns must name each attribute and each derived column once:"
                f" see {differ[0]}"
            )

    def _check_asked(self) -> None:
        """Raise DomainError if a rule is about cells that are still to be bought."""
        names = () if self.asked is None else self.asked.names
        for one in (*self.impossible, *self.constraints, *self.repairs):
            # That a column has no gap is about none of its values.
            if isinstance(one, NotNull):
                continue
            if bought := [name for name in one.attributes if name in names]:
                raise DomainError(
                    f"a rule is about {bought[0]!r}, whose values or edges are to be bought:"
                    " declare them, or remove the rule"
                )

    def _check_related(self) -> None:
        """Bring the related pairs into the order of the domain, or raise DomainError."""
        if self.related is None:
            return
        pairs = {self.canonical(pair) for pair in self.related}
        if any(len(pair) != TWO for pair in pairs) or self.children is not None:
            raise DomainError(
                "'related' lists pairs of two attributes each, in the domain of one table: correct"
                " or remove it"
            )
        ordered = sorted(pairs, key=lambda pair: [self.positions[name] for name in pair])
        object.__setattr__(self, "related", tuple(ordered))

    def _check_formulas(self) -> None:
        """Raise DomainError if decoding cannot keep a formula in addition to the other rules."""
        ordered = {name for order in self.orders for name in order.attributes}
        taken: set[str] = set()
        for one in self.formulas:
            for name in one.attributes:
                if name in ordered or name in taken:
                    other = "an order" if name in ordered else "another formula"
                    raise DomainError(
                        f"the formula of {one.attribute!r} and {other} are on {name!r}: remove one"
                    )
            taken.update(one.attributes)

    def _fitted(self, combination: ImpossibleCombination) -> ImpossibleCombination:
        clique = self.canonical(combination.attributes)
        if len(clique) < len(combination.attributes):
            raise DomainError("an impossible combination names an attribute twice: remove one")
        codes = dict(zip(combination.attributes, combination.codes, strict=True))
        for name in clique:
            if not 0 <= codes[name][0] <= codes[name][-1] < self.sizes[name]:
                raise DomainError(
                    f"an impossible combination has a code outside attribute {name!r},"
                    f" whose codes are 0 to {self.sizes[name] - 1}"
                )
        if self.size(clique) > _MAX_IMPOSSIBLE_CELLS:
            raise DomainError(
                f"the impossible combination of {', '.join(clique)} spans {self.size(clique):,}"
                f" cells, more than {_MAX_IMPOSSIBLE_CELLS:,}: declare it over fewer attributes"
            )
        every = (with_missing(self.attribute(name), codes[name]) for name in clique)
        return ImpossibleCombination(clique, tuple(every))

    @property
    def forbidden(self) -> tuple[ImpossibleCombination | Constraint, ...]:
        """The impossible combinations and the constraints: what no record may break."""
        return (*self.impossible, *self.constraints)

    @property
    def rules(self) -> tuple[Constraint | Unique | PlannedColumn, ...]:
        """The repairs, and the derived columns that others determine: what decoded rows keep."""
        constraints = (one for one in self.repairs if not isinstance(one, Formula))
        formulas = (one.planned(self) for one in self.formulas)
        return (*constraints, *formulas, *(one for one in self.plan if one.is_determined))

    @cached_property
    def formulas(self) -> tuple[Formula, ...]:
        """The repairs that are formulas."""
        return tuple(one for one in self.repairs if isinstance(one, Formula))

    @cached_property
    def unique(self) -> tuple[Unique, ...]:
        """The repairs that say which rows differ."""
        return tuple(one for one in self.repairs if isinstance(one, Unique))

    @cached_property
    def orders(self) -> tuple[Order, ...]:
        """The orders that decoded rows keep, each after those on its lower attribute."""
        return sorted_orders((*self.constraints, *self.repairs))

    def broken_cells(
        self, constraint: Constraint, *, drawn: bool = False
    ) -> tuple[Clique, npt.NDArray[np.bool_]]:
        """Return the clique of a constraint and a mask, of its shape, of the cells that break it.

        With `drawn` those count as well in which every value that is decoded breaks it.
        """
        clique = self.canonical(constraint.attributes)
        indices = [constraint.attributes.index(name) for name in clique]
        return clique, constraint.broken(self, drawn).transpose(indices)

    @property
    def roots(self) -> Domain:
        """The domain of the root table alone; this one if rows have no children."""
        return self if self.children is None else self.children.roots

    @cached_property
    def names(self) -> Clique:
        """Names of the attributes."""
        return tuple(attribute.name for attribute in self.attributes)

    @cached_property
    def binned(self) -> tuple[BinnedAttribute, ...]:
        """The attributes that are counted in bins."""
        return tuple(one for one in self.attributes if isinstance(one, BinnedAttribute))

    @cached_property
    def plan(self) -> tuple[PlannedColumn, ...]:
        """The derived columns, in an order in which they can be computed."""
        return planned(self.attributes, self.derived)

    @cached_property
    def formats(self) -> Formats:
        """The formats in which columns write dates or numbers."""
        return formats_of(self.attributes, self.derived)

    @cached_property
    def columns(self) -> dict[str, str]:
        """Dtype of each column of the synthetic table by its name, in their order."""
        dtypes = {one.name: str(one.dtype) for one in self.attributes}
        dtypes |= {one.name: one.dtype for one in self.plan}
        default = (*self.names, *(one.name for one in self.derived))
        return {name: dtypes[name] for name in self.order or default}

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Number of cells of each attribute."""
        return tuple(attribute.size for attribute in self.attributes)

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Number of cells by name."""
        return dict(zip(self.names, self.shape, strict=True))

    @cached_property
    def _apart(self) -> dict[str, Attribute]:
        return {one.name: one for one in self.attributes if one.unreadable_code is not None}

    def as_released(self, clique: Clique, counts: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return a marginal in which unreadable values count as missing, as rows are released.

        The shape stays.
        """
        for axis, name in enumerate(clique):
            if name in self._apart:
                counts = self._apart[name].as_released(counts, axis)
        return counts

    @cached_property
    def positions(self) -> dict[str, int]:
        """Place of each attribute in the domain by name."""
        return {name: position for position, name in enumerate(self.names)}

    def size(self, clique: Iterable[str] | None = None) -> int:
        """Return the number of cells of a clique (default: of the whole domain), exactly."""
        names = self.names if clique is None else tuple(clique)
        # The second says that there is no such attribute.
        return math.prod(self.sizes.get(name) or self.attribute(name).size for name in names)

    @property
    def cells_text(self) -> str:
        """The number of cells of the whole domain to three digits, such as "1.2e+400"."""
        size = self.size()
        if size < 10**300:
            return f"{size:.3g}"
        # Beyond the range of floats.
        return f"{Context(prec=3).create_decimal(size).normalize():g}"

    def attribute(self, name: str) -> Attribute:
        """Return the attribute of that name.

        Raises
        ------
        InputError
            There is no such one.
        """
        position = self.positions.get(name)
        if position is None:
            near = difflib.get_close_matches(str(name), self.names, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(self.names)}"
            if any(one.name == name for one in self.derived):
                hint = "it is derived, so name columns that it is computed from, or model it"
            raise InputError(f"the domain has no attribute {name!r}: {hint}")
        return self.attributes[position]

    def canonical(self, names: Iterable[str]) -> Clique:
        """Return the names in the order of the domain, each once.

        Raises
        ------
        InputError
            A name is not in the domain.
        """
        wanted = {name if name in self.positions else self.attribute(name).name for name in names}
        return tuple(sorted(wanted, key=self.positions.__getitem__))

    def project(self, names: Iterable[str]) -> Domain:
        """Return the domain of some attributes, with what cannot occur together among them.

        The derived columns and repairs are those of all attributes, and stay only with them.
        """
        clique = self.canonical(names)
        if clique == self.names:
            return self
        return Domain(
            tuple(self.attribute(name).alone(clique) for name in clique),
            tuple(one for one in self.impossible if set(one.attributes) <= set(clique)),
            self.identified_from,
            constraints=tuple(
                one for one in self.constraints if set(one.attributes) <= set(clique)
            ),
        )

    def with_children(
        self,
        link: Link,
        children: Domain,
        totals: Iterable[Total] = (),
        rules: Iterable[RootRule] = (),
        numbers: Iterable[Numbering] = (),
    ) -> Domain:
        """Return the domain of this table's rows, each with its children's number and two of them.

        Parameters
        ----------
        link
            The children's table, and how its rows belong to rows of this one.
        children
            The domain of the children's table. No child of a row breaks its constraints.
        totals
            Derived columns of this table that follow from the rows of a root's children.
        rules
            What holds between the children of a root, or between a root and each of them.
        numbers
            Derived columns of the children's table that number the children of a root.

        Raises
        ------
        DomainError
            If a column has a name that the children need or is the link's, or if this is not the
            domain of one table.
        """
        table = link.table
        if self.children is not None or children.children is not None:
            raise DomainError(
                f"the table {table!r} of children is the second of two tables: there is no third"
            )
        added = child_attributes(link, children.attributes)
        if taken := {one.name for one in added} & set(self.columns):
            raise DomainError(
                f"the root table has a column {min(taken)!r}, which the table {table!r} of its"
                " children needs: rename the column, or the table"
            )
        if link.column in (*self.columns, *children.columns):
            raise DomainError(
                f"column {link.column!r} identifies a row of the root table, so it cannot be a "
                "column of the domain: remove it there, for the synthetic tables get keys of their "
                "own"
            )
        masks = children.impossible_masks()
        return Domain(
            (*self.attributes, *added),
            (*self.impossible, *impossible_children(link, children.attributes, masks)),
            "private" if children.restricted else self.identified_from,
            constraints=self.constraints,
            children=Children(link, self, children, tuple(totals), tuple(rules), tuple(numbers)),
            related=children.related if self.related is None else self.related,
        )

    def buy(self, measure: Measure) -> Domain:
        """Return the domain whose edges follow from paid counts.

        Parameters
        ----------
        measure
            Makes the draws of a level, or returns what they gave.

        Returns
        -------
        Domain
            With `bought`; it asks for nothing. This one if it asks for nothing itself.
        """
        if self.asked is None:
            return self
        attributes, counts = bought_attributes(self.attributes, self.asked, measure)
        return replace(self, attributes=attributes, asked=None, bought=Bought(self, counts))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all that the domain declares, in hexadecimal.

        It is the same in every process, and does not cover the domain's origin.
        """
        content: dict[str, Any] = {
            "attributes": [attribute.canonical_form() for attribute in self.attributes],
            "impossible": sorted(
                [list(one.attributes), [list(codes) for codes in one.codes]]
                for one in self.impossible
            ),
            "derived": [one.canonical_form() for one in self.derived],
            "order": list(self.order),
            "constraints": [one.content for one in self.constraints],
            "repairs": [one.content for one in self.repairs],
        }
        if self.children is not None:
            # Their rows are decoded by the domains of their tables.
            totals = [[one.name, one.expression] for one in self.children.totals]
            rules = [one.content for one in self.children.rules]
            numbers = {one.name: one.by for one in self.children.numbers}
            content["tables"] = [
                *(self.children.roots.digest, self.children.domain.digest),
                *([totals] if totals else []),
                *([rules] if rules else []),
                *([{"numbers": numbers}] if numbers else []),
                *([{"key_width": width}] if (width := self.children.link.width) else []),
            ]
        if self.asked is not None:
            values = {name: [most, *public] for name, (most, public) in self.asked.values.items()}
            content["asked"] = [dict(self.asked.bins), values, self.asked.to_dict()]
        if self.related:
            content["related"] = [list(pair) for pair in self.related]
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def specified(self) -> str:
        """The digest of what a release specifies: of the domain that asked, if it was bought."""
        return self.digest if self.bought is None else self.bought.asked.digest

    @property
    def restricted(self) -> bool:
        """Whether the domain was identified from private data, and must not be released."""
        return self.identified_from == "private"

    def __repr__(self) -> str:
        if self.restricted:
            # Errors and logs show this text; it must not reveal private values.
            return f"Domain({len(self.attributes)} attributes, restricted)"
        cells = ", ".join(f"{name}: {size}" for name, size in self.sizes.items())
        return f"Domain({cells}; {self.identified_from})"

    def _repr_html_(self) -> str:
        from jam_dagster.common.notebook import card

        facts = {
            "attributes": len(self.attributes),
            "cells": self.cells_text,
            "values": f"identified from {self.identified_from} data"
            if self.identified_from != "declared"
            else "declared",
            "impossible": "; ".join(one.describe(self) for one in self.impossible),
            "constraints": "; ".join(described(self, self.constraints)),
            "repairs": "; ".join(described(self, self.repairs)),
            "derived": "; ".join(f"{one.name}: {one.described}" for one in self.derived),
            "digest": self.digest[:12],
        }
        return card(
            "Domain",
            facts,
            label="restricted: from private data" if self.restricted else "",
            columns=("attribute", "cells", "values"),
            rows=((one.name, one.size, one.describe()) for one in self.attributes),
        )

    def impossible_masks(self) -> dict[Clique, npt.NDArray[np.bool_]]:
        """Return for each clique with impossible combinations a mask of the impossible cells.

        The masks have the shape of the clique; combinations of the same clique are merged. The
        cells that break a constraint are impossible, too.
        """
        masks: dict[Clique, npt.NDArray[np.bool_]] = {}
        for one in self.impossible:
            shape = tuple(self.sizes[name] for name in one.attributes)
            if one.attributes not in masks:
                masks[one.attributes] = np.zeros(shape, dtype=bool)
            masks[one.attributes][np.ix_(*one.codes)] = True
        for constraint in self.constraints:
            clique, broken = self.broken_cells(constraint)
            if broken.any():
                masks[clique] = masks[clique] | broken if clique in masks else broken
        return masks

    def to_dict(self) -> dict[str, Any]:
        """Return the content of the domain file (see `from_dict`)."""
        if self.children is not None:
            roots = self.children.roots.to_dict() | {"identified_from": self.identified_from}
            if across := self.children.across:
                roots["repairs"] = [*roots.get("repairs", []), *constraints_to(self, across)]
            return roots | {"children": self.children.to_dict()}
        content: dict[str, Any] = {
            "identified_from": self.identified_from,
            "attributes": {one.name: self._entry_of(one) for one in self.attributes},
        }
        if self.asked is not None:
            content |= self.asked.to_dict()
        if self.impossible:
            content["impossible"] = [
                {
                    name: condition_of(self.attribute(name), codes)
                    for name, codes in zip(one.attributes, one.codes, strict=True)
                }
                for one in self.impossible
            ]
        for key, constraints in (("constraints", self.constraints), ("repairs", self.repairs)):
            if constraints:
                content[key] = constraints_to(self, constraints)
        if self.derived:
            content["derived"] = {one.name: one.to_entry() for one in self.derived}
        if self.order:
            content["columns"] = list(self.order)
        if self.related is not None:
            content["related"] = [list(pair) for pair in self.related]
        if self.kept:
            content["kept"] = {name: dict(entry) for name, entry in self.kept.items()}
        if self.bought is not None:
            content["bought"] = self.bought.to_dict()
        return content

    def asked_of(self, name: str) -> Mapping[str, Any] | None:
        """Return the entry by which the edges of an attribute were bought, if they were."""
        if self.bought is not None:
            asking = self.bought.asked
            if asking.asked is not None and name in asking.asked.bins:
                return asking._entry_of(asking.attribute(name))
        return self.kept.get(name)

    def _entry_of(self, attribute: Attribute) -> dict[str, Any]:
        return attribute.to_entry() if self.asked is None else asking_entry(attribute, self.asked)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Domain:
        """Build a domain from the content of a domain file.

        Parameters
        ----------
        content
            ``{"attributes": {name: {...}}, "impossible": [...], "identified_from": ...}``, or
            the papers' form ``{name: number of codes}``. See
            `jam_dagster.tables.domain.domain_file`.

        Raises
        ------
        SpecificationError
            A key is unknown or missing, or has the wrong type.
        DomainError
            An attribute is not well formed.
        """
        domain: Domain = domain_from_dict(content, cls)
        return domain

    @classmethod
    def load(cls, path: str | Path) -> Domain:
        """Read a domain file, YAML or JSON by its suffix.

        Raises
        ------
        SourceError
            The file is not there or cannot be parsed.
        """
        return cls.from_dict(read_domain(path))

    def to_yaml(self) -> str:
        """Return the text of the domain file in YAML that `save` writes."""
        return domain_yaml(self.to_dict())

    def save(self, path: str | Path) -> None:
        """Write a domain file, YAML or JSON by its suffix."""
        save_domain(self.to_dict(), path)

    @classmethod
    def from_sizes(cls, sizes: Mapping[str, int]) -> Domain:
        """Build the papers' form: attribute `name` has the integer codes 0 to ``size - 1``."""
        return cls(numbered(sizes))


@dataclass(frozen=True)
class Bought:
    """How a domain was bought: the domain that asked, and the counts that were paid for."""

    asked: Domain
    counts: tuple[PaidCounts, ...]

    def singles(self, records: int) -> dict[str, list[float]]:
        """Return the weights of the cells of bought attributes, by `bought_singles`."""
        asked = self.asked.asked
        return (
            {}
            if asked is None
            else bought_singles(self.asked.attributes, asked, self.counts, records)
        )

    def to_dict(self) -> dict[str, Any]:
        """Return what a domain file has under ``bought``."""
        return {"asked": self.asked.to_dict(), "counts": [one.to_dict() for one in self.counts]}


@dataclass(frozen=True)
class Children:
    """The two tables of a domain whose rows are roots with two of their children.

    `roots` and `domain` are the domains of the root table and of the children's, each as if alone.
    """

    link: Link
    roots: Domain
    domain: Domain
    totals: tuple[Total, ...] = ()
    rules: tuple[RootRule, ...] = ()
    numbers: tuple[Numbering, ...] = ()

    def __post_init__(self) -> None:
        # Orders first, as a domain file has them.
        rules = tuple(map(self.both.checked, self.rules))
        rules = tuple(sorted(rules, key=lambda one: isinstance(one, Unique)))
        object.__setattr__(self, "rules", rules)
        # A circle is found at once.
        sorted_orders((*self.domain.orders, *self.across))
        for order in self.across:
            pair = map(self.both.attribute, order.attributes)
            if (cells := math.prod(one.size for one in pair)) > _MAX_IMPOSSIBLE_CELLS:
                raise DomainError(
                    f"the order {order.text} spans {cells:,} cells, more than"
                    f" {_MAX_IMPOSSIBLE_CELLS:,}: use fewer bins"
                )
        derived = {one.name: one for one in self.roots.derived}
        for one in self.totals:
            own = derived.get(one.name)
            if own is None or own.expression is not None:
                raise DomainError(
                    f"the total {one.name!r} fills a column of the root table that is derived as"
                    f" null, of some dtype: write {{expression: null, dtype: float64}} there"
                )
            if lost := one.sources - self.domain.columns.keys():
                raise DomainError(
                    f"the total {one.name!r} reads {min(lost)!r}, which is no column of the table"
                    f" {self.link.table!r}: correct it"
                )
            self.cells_of(one, pd.DataFrame({}), np.empty(0, np.intp), 0)
        self._check_numbers()

    def _check_numbers(self) -> None:
        """Raise DomainError if a column cannot number the children by another one."""
        derived = {one.name: one for one in self.domain.derived}
        for one in self.numbers:
            own = derived.get(one.name)
            if own is None or own.expression is not None or "int" not in str(own.dtype).lower():
                raise DomainError(
                    f"the column {one.name!r} that numbers children is derived in the table"
                    f" {self.link.table!r} as null: write {{expression: null, dtype: Int64}} there"
                )
            attributes = self.domain.attributes
            by = next((known for known in attributes if known.name == one.by), None)
            if by is None or by.compared_as is None:
                raise DomainError(
                    f"the column {one.name!r} numbers children by {one.by!r}, which is no number"
                    f" and no date of the table {self.link.table!r}: name one"
                )

    def numbered(
        self, one: Numbering, children: pd.DataFrame, owners: npt.NDArray[np.intp]
    ) -> pd.Series[Any]:
        """Return a column that numbers children, by their rows and the root of each."""
        dtype = self.domain.columns[one.name]
        return one.column(children, owners, self.domain.formats, dtype)

    @property
    def both(self) -> BothTables:
        """The attributes of both tables, a child's by the name of its table and its own."""
        return BothTables(self.link, self.roots, self.domain)

    @property
    def unique(self) -> tuple[Unique, ...]:
        """The rules by which the children of a root differ."""
        return tuple(one for one in self.rules if isinstance(one, Unique))

    @property
    def across(self) -> tuple[Order, ...]:
        """The orders between a root and each of its children."""
        return tuple(one for one in self.rules if isinstance(one, Order))

    def cells_of(
        self, one: Total, children: pd.DataFrame, owners: npt.NDArray[np.intp], roots: int
    ) -> pd.Series[Any]:
        """Return a total of so many roots, by the rows of their children and the root of each."""
        if not len(children.columns):
            # No row, of the dtypes that there are.
            dtypes = {name: dtype_of(kind) for name, kind in self.domain.columns.items()}
            children = pd.DataFrame({name: pd.Series(dtype=one) for name, one in dtypes.items()})
        dtype = self.roots.columns[one.name]
        return one.column(children, owners, roots, self.domain.formats, dtype)

    def to_dict(self) -> dict[str, Any]:
        """Return what a domain file has under ``children``."""
        content = self.domain.to_dict()
        content.pop("identified_from")
        totals = {one.name: one.expression for one in self.totals}
        own: dict[str, Any] = {"totals": totals} if totals else {}
        if self.numbers:
            own["numbers"] = {one.name: one.by for one in self.numbers}
        if self.unique:
            content["repairs"] = [
                *content.get("repairs", []),
                *constraints_to(self.domain, self.unique),
            ]
        return {self.link.table: {**self.link.to_dict(), **own, **content}}
