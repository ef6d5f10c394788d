"""Children that keep what holds within their root, in their codes and in their numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from jam_dagster.common.deferred import pd
from jam_dagster.tables.codes.alike import alike_rows
from jam_dagster.tables.codes.table import EncodedTable
from jam_dagster.tables.codes.unique_rows import values_in
from jam_dagster.tables.codes.within_bins import DrawnNumbers
from jam_dagster.tables.domain.binned import BinnedAttribute
from jam_dagster.tables.domain.children import SLOTS
from jam_dagster.tables.domain.constraints import Order
from jam_dagster.tables.domain.domain import Children, Clique
from jam_dagster.tables.domain.formula import Formula
from jam_dagster.tables.domain.unique import Unique
from jam_dagster.tables.domain.within_roots import RootRule, siblings_differ

_ROUNDS = 30
_PASSES = 3
_MOST_CELLS = 10_000_000
_MOST_PAIRED = 2000
_ROOT = "\0"

_Ints = npt.NDArray[np.intp]
_Floats = npt.NDArray[np.float64]
_Rows = npt.NDArray[np.bool_]


class RuleTables:
    """The rules of both tables as masks of codes, and how many siblings may be in a cell."""

    def __init__(self, two: Children) -> None:
        self.two = two

    @cached_property
    def alone(self) -> list[tuple[Clique, _Rows]]:
        """The cliques of a child alone with cells that break something, and these cells."""
        domain = self.two.domain
        repairs = [one for one in domain.repairs if not isinstance(one, Formula | Unique)]
        masks = [domain.broken_cells(one, drawn=True) for one in repairs]
        return [*domain.impossible_masks().items(), *masks]

    @cached_property
    def orders(self) -> dict[RootRule, tuple[_Rows, str, str]]:
        """The pairs of a root's and a child's code that break an order, and their columns."""
        both, found = self.two.both, dict[RootRule, tuple[_Rows, str, str]]()
        for rule in self.two.across:
            mask, (low, high) = rule.broken(both, drawn=True), rule.attributes
            own = both.child(high)
            found[rule] = (mask.T, high, str(both.child(low))) if own is None else (mask, low, own)
        return found

    @cached_property
    def rooms(self) -> dict[RootRule, tuple[_Floats, Clique]]:
        """How many children of a root each cell of a clique may have, and the clique.

        Those with a missing value are any number. Cliques of too many cells are left out.
        """
        domain, found = self.two.domain, dict[RootRule, tuple[_Floats, Clique]]()
        for rule in self.two.unique:
            names = domain.canonical(siblings_differ(rule, self.two.link).clique(domain))
            if domain.size(names) > _MOST_CELLS:
                continue
            room = np.ones(1)
            for attribute in map(domain.attribute, names):
                values = values_in(attribute, bool(attribute.hour_from))
                values[list(attribute.missing_codes)] = np.inf
                room = np.outer(room, values).ravel()
            found[rule] = room, names
        return found

    def cells(self, rule: RootRule, codes: Sequence[npt.NDArray[Any]]) -> _Ints:
        """Return the cells of codes in the clique of a rule of siblings."""
        shape = [self.two.domain.sizes[name] for name in self.rooms[rule][1]]
        return np.ravel_multi_index(tuple(one.astype(np.intp) for one in codes), shape)

    def movers(self, rule: RootRule) -> list[str]:
        """Return the children's attributes whose codes may change, the one of most codes first."""
        domain = self.two.domain
        names = [self.orders[rule][2]] if rule in self.orders else self.rooms.get(rule, ((), ()))[1]
        formulas = {name for one in domain.formulas for name in one.attributes}
        sizes = domain.sizes
        return sorted((one for one in names if one not in formulas), key=lambda one: -sizes[one])


@dataclass(frozen=True, eq=False)
class Family:
    """Children in the order of their roots.

    Parameters
    ----------
    rules
        What they and their roots keep.
    roots
        The codes of all roots by attribute.
    owners
        The row of each child's root.
    codes
        The codes of the children by attribute.
    """

    rules: RuleTables
    roots: Mapping[str, _Ints]
    owners: _Ints
    codes: Mapping[str, _Ints]

    def kept(self, movable: _Rows, rng: np.random.Generator) -> dict[str, _Ints]:
        """Return codes of children that keep the rules of both tables, as far as that can be.

        A child that repeats a sibling, or breaks an order with its root, gets another code of one
        attribute, if it is `movable`: one that children often have if that sibling, or that root,
        is as it is. It breaks nothing that it did not break before. If no code helps, it becomes a
        child of another root.
        """
        made = self
        for _ in range(_PASSES):
            for rule in self.rules.two.rules:
                for mover in (*self.rules.movers(rule), None):
                    wrong = made._broken(rule, movable)
                    if not wrong.any():
                        break
                    near = np.flatnonzero(np.isin(self.owners, self.owners[wrong]))
                    if mover is None:
                        part = made._of(near)._replaced(rule, movable[near], made, rng)
                    else:
                        tables = made._likely(rule, mover)
                        part = made._of(near)._moved(rule, mover, movable[near], tables, rng)
                    codes = {name: column.copy() for name, column in made.codes.items()}
                    for name, column in codes.items():
                        column[near] = part.codes[name]
                    made = replace(made, codes=codes)
            if not any(made._broken(rule, movable).any() for rule in self.rules.two.rules):
                break
        return dict(made.codes)

    def _of(self, rows: _Ints) -> Family:
        codes = {name: column[rows] for name, column in self.codes.items()}
        return replace(self, owners=self.owners[rows], codes=codes)

    def _broken(self, rule: RootRule, movable: _Rows) -> _Rows:
        """Return which movable children break a rule; of siblings that are too many, the last."""
        if rule in self.rules.orders:
            mask, root, own = self.rules.orders[rule]
            wrong: _Rows = mask[self.roots[root][self.owners], self.codes[own]] & movable
            return wrong
        if rule not in self.rules.rooms:
            return np.zeros(len(movable), dtype=bool)
        room, names = self.rules.rooms[rule]
        cells = self.rules.cells(rule, [self.codes[name] for name in names])
        order = np.lexsort((movable, cells, self.owners))
        here, whose = cells[order], self.owners[order]
        first = (np.diff(here, prepend=-1) != 0) | (np.diff(whose, prepend=-1) != 0)
        starts = np.flatnonzero(first)
        rank = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
        found = np.zeros(len(order), dtype=bool)
        found[order] = rank >= room[here]
        return found & movable

    def _faults(self, rule: RootRule, movable: _Rows) -> list[_Rows]:
        """Return which children break each rule but one, and each of a child alone."""
        others = (self._broken(one, movable) for one in self.rules.two.rules if one != rule)
        alone = (mask[tuple(self.codes[name] for name in at)] for at, mask in self.rules.alone)
        return [*others, *alone]

    def _moved(
        self,
        rule: RootRule,
        mover: str,
        movable: _Rows,
        tables: Sequence[_Floats],
        rng: np.random.Generator,
    ) -> Family:
        """Return it with other codes of an attribute, by which fewer children break a rule."""
        now = self
        for drawn in range(_ROUNDS):
            rows = np.flatnonzero(now._broken(rule, movable))
            if not len(rows):
                break
            near, table = now._near(rule, mover, rows), tables[drawn * len(tables) // _ROUNDS]
            tried = now.codes[mover].copy()
            tried[rows] = _drawn(table, np.minimum(near, len(table) - 1), tried[rows], rng)
            now = now._if_better(rule, movable, {**now.codes, mover: tried})
        return now

    def _replaced(
        self, rule: RootRule, movable: _Rows, every: Family, rng: np.random.Generator
    ) -> Family:
        """Return it with other children, of roots alike, where one breaks a rule."""
        roots = [self.roots[name] for _, name, _ in self.rules.orders.values()]
        fit = np.flatnonzero(~every._broken(rule, np.ones(len(every.owners), dtype=bool)))
        now = self
        for _ in range(_ROUNDS if len(fit) else 0):
            rows = np.flatnonzero(now._broken(rule, movable))
            if not len(rows):
                break
            given = [np.concatenate([one[every.owners], one[now.owners]]) for one in roots]
            donors = alike_rows(given, fit, len(every.owners) + rows, rng)
            codes = {name: column.copy() for name, column in now.codes.items()}
            for name, column in codes.items():
                column[rows] = every.codes[name][donors]
            now = now._if_better(rule, movable, codes)
        return now

    def _if_better(self, rule: RootRule, movable: _Rows, codes: Mapping[str, _Ints]) -> Family:
        """Return it with new codes of the children that keep a rule then, and what they kept."""
        then = replace(self, codes=codes)
        wrong = then._broken(rule, movable)
        before, after = self._faults(rule, movable), then._faults(rule, movable)
        for was, one in zip(before, after, strict=True):
            wrong |= one & ~was
        kept = {name: np.where(wrong, self.codes[name], one) for name, one in codes.items()}
        return replace(self, codes=kept)

    def _near(self, rule: RootRule, mover: str, rows: _Ints) -> _Ints:
        """Return the codes by which those of some children are drawn: a root's, or a sibling's."""
        if rule in self.rules.orders:
            return self.roots[self.rules.orders[rule][1]][self.owners[rows]]
        first = np.searchsorted(self.owners, self.owners[rows])
        return self.codes[mover][np.where(first == rows, rows + 1, first)]

    def _likely(self, rule: RootRule, mover: str) -> list[_Floats]:
        """Return weights of codes by those of `_near`: as often as both are, as it is, and any."""
        attribute, column = self.rules.two.domain.attribute(mover), self.codes[mover]
        size = attribute.size
        known = np.ones(size)
        known[list(attribute.missing_codes)] = 0
        if rule in self.rules.orders:
            mask, root, _ = self.rules.orders[rule]
            given, codes, allowed = self.roots[root][self.owners], column, ~mask * known
        elif size > _MOST_PAIRED:
            return [(np.bincount(column, minlength=size) * known)[None], known[None]]
        else:
            first = np.flatnonzero(np.diff(self.owners, prepend=-1))
            first = first[np.diff(np.append(first, len(column))) > 1]
            given = np.concatenate([column[first], column[first + 1]])
            codes = np.concatenate([column[first + 1], column[first]])
            # A sibling of the same code is too near.
            allowed = (1 - np.eye(size)) * known
        tables = [np.bincount(column, minlength=size) * allowed, allowed]
        pairs = np.bincount(given * size + codes, minlength=allowed.size)
        return [pairs.reshape(allowed.shape) * allowed, *tables]


def _drawn(table: _Floats, near: _Ints, codes: _Ints, rng: np.random.Generator) -> _Ints:
    """Return a code for each row, as a table has them with that near it; or its own."""
    found, share = codes.copy(), rng.random(len(near))
    for one in np.unique(near).tolist():
        upto = np.cumsum(table[one])
        if upto[-1]:
            rows = np.flatnonzero(near == one)
            found[rows] = np.searchsorted(upto, share[rows] * upto[-1], side="right")
    return found


@dataclass(frozen=True, eq=False)
class Unfit:
    """Which candidates for a further child break a rule with its root or its siblings."""

    encoded: EncodedTable
    rules: RuleTables

    @cached_property
    def _cells(self) -> list[list[_Ints]]:
        """For each rule of siblings the cells of first and second children, -1 where many fit."""
        link, found = self.rules.two.link, []
        number = self.encoded.column(link.table)
        for rule, (room, names) in self.rules.rooms.items():
            cells = []
            for slot in SLOTS:
                there = number >= slot
                columns = map(self.encoded.column, link.slot(slot, names))
                cell = self.rules.cells(rule, [np.where(there, one, 0) for one in columns])
                cells.append(np.where(there & (room[cell] == 1), cell, -1))
            found.append(cells)
        return found

    def rows(self, here: _Ints, candidates: _Ints, earlier: Sequence[_Ints]) -> _Rows:
        """Return which candidates of some roots are unfit, by the rows that gave earlier ones."""
        unfit = np.zeros(candidates.shape, dtype=bool)
        for first, second in self._cells:
            new = second[candidates]
            for cell in (first[here], second[here], *(second[one] for one in earlier)):
                unfit |= (new == cell[:, None]) & (new >= 0)
        for mask, root, own in self.rules.orders.values():
            column = self.encoded.column(self.rules.two.link.name(SLOTS[-1], own))
            given = self.encoded.column(root)[here].astype(np.intp)
            unfit |= mask[given[:, None], column[candidates].astype(np.intp)]
        return unfit


class _GivenNumbers(DrawnNumbers):
    """Numbers of each child's root, which stay as they are."""

    def draw_again(self, rows: _Ints, rng: np.random.Generator) -> None:
        """Leave the numbers."""

    def put(self, rows: _Ints, numbers: npt.NDArray[np.float64]) -> None:
        """Leave the numbers."""


@dataclass(frozen=True, eq=False)
class Kin:
    """The roots of children that are decoded: which is whose, and their decoded numbers."""

    two: Children
    owners: _Ints
    given: Mapping[str, DrawnNumbers]

    @classmethod
    def of(cls, two: Children, table: pd.DataFrame, roots: EncodedTable, owners: _Ints) -> Kin:
        """Return it by the decoded roots, and the root of each child."""
        given: dict[str, DrawnNumbers] = {}
        for _, name, _ in RuleTables(two).orders.values():
            attribute = two.roots.attribute(name)
            assert isinstance(attribute, BinnedAttribute)  # noqa: S101  # as orders are checked
            numbers = attribute.checked_numbers(table[name])[owners]
            null = np.isnan(numbers)
            bins = np.where(null, 0, roots.column(name)[owners]).astype(np.intp)
            drawn = _GivenNumbers(attribute, bins, null, numbers)
            everywhere = np.arange(len(owners))
            DrawnNumbers.put(drawn, everywhere, np.where(null, 0, numbers))
            given[_ROOT + name] = drawn
        return cls(two, owners, given)

    @cached_property
    def orders(self) -> tuple[Order, ...]:
        """The orders with roots, by the names of `given` and of the children's own columns."""
        both = self.two.both

        def named(name: str) -> str:
            own = both.child(name)
            return _ROOT + name if own is None else own

        return tuple(
            replace(one, lower=named(one.lower), higher=named(one.higher))
            for one in self.two.across
        )


@dataclass(frozen=True, eq=False)
class Room:
    """Numbers of roots that leave a number to each child in its bin.

    A root at the last number of a bin would leave no higher one to a child in that bin.

    Attributes
    ----------
    given
        The last, or first, numbers that a root's children can have, by their names in `orders`.
    orders
        The strict orders between a root's number and these.
    """

    given: Mapping[str, DrawnNumbers]
    orders: tuple[Order, ...]

    @classmethod
    def of(cls, two: Children, every: EncodedTable, owners: _Ints, number: int) -> Room | None:
        """Return it by the codes of all children; None if nothing is strictly between tables."""
        given, orders = dict[str, DrawnNumbers](), list[Order]()
        for rule in (one for one in two.across if one.strict):
            higher = two.both.child(rule.lower) is None
            own = str(two.both.child(rule.higher if higher else rule.lower))
            attribute = two.domain.attribute(own)
            assert isinstance(attribute, BinnedAttribute)  # noqa: S101  # as orders are checked
            codes = every.column(own)
            there = ~np.isin(codes, attribute.missing_codes)
            limits = attribute.bin_limits[int(higher)][codes[there]]
            beyond = np.inf if higher else -np.inf
            least = np.full(number, beyond)
            (np.minimum if higher else np.maximum).at(least, owners[there], limits)
            null = least == beyond
            name, bins = f"{_ROOT}{len(orders)}", np.zeros(number, dtype=np.intp)
            made = _GivenNumbers(attribute, bins, null, np.zeros(number))
            DrawnNumbers.put(made, np.arange(number), np.where(null, 0, least))
            given[name] = made
            lower, upper = (rule.lower, name) if higher else (name, rule.higher)
            orders.append(replace(rule, lower=lower, higher=upper, apart=(), only=False))
        return cls(given, tuple(orders)) if orders else None
