"""Rules between the children of a public root, or between a root and its children."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import numpy as np
import numpy.typing as npt

from jam_dagster.common.deferred import pd
from jam_dagster.tables.codes.encode import encode
from jam_dagster.tables.domain.children import SLOTS, Link
from jam_dagster.tables.domain.constraints import Order
from jam_dagster.tables.domain.domain import Domain
from jam_dagster.tables.domain.numbering import Numbering
from jam_dagster.tables.domain.unique import Unique
from jam_dagster.tables.domain.within_roots import BothTables, RootRule
from jam_dagster.tables.drafting.found_constraints import (
    LEAST_REPEATED,
    LEAST_RULED,
    MOST_UNIQUE,
    found_orders,
    keys_of,
)


def found_within_roots(
    flat: pd.DataFrame, link: Link, roots: Domain, children: Domain
) -> dict[RootRule, int]:
    """Return what all roots of a flat table keep with the two children that it has of each.

    Each has the number of rows that unrelated columns would break.
    """
    number = flat[link.table].to_numpy(dtype=np.int64)
    found: dict[RootRule, int] = dict(_orders(flat, number, link, roots, children))
    return found | _unique(flat, np.flatnonzero(number >= len(SLOTS)), link, children)


def _orders(
    flat: pd.DataFrame, number: npt.NDArray[np.int64], link: Link, roots: Domain, children: Domain
) -> Iterator[tuple[RootRule, int]]:
    """Yield the orders between a column of a root and one of a child."""
    there = [np.flatnonzero(number >= slot) for slot in SLOTS]
    columns = {one.name: flat[one.name].iloc[np.concatenate(there)] for one in roots.binned}
    far = {BothTables.name(link, one.name): one for one in children.binned}
    for name, one in far.items():
        slots = zip(SLOTS, there, strict=True)
        parts = [flat[link.name(slot, one.name)].iloc[rows] for slot, rows in slots]
        columns[name] = pd.concat(parts)
    table = pd.DataFrame({name: one.reset_index(drop=True) for name, one in columns.items()})
    named = [replace(one, name=name) for name, one in far.items()]
    for rule, rows in found_orders(table, [*roots.binned, *named], far).items():
        if isinstance(rule, Order):
            # A root's number is given, and so drawn at no distance.
            yield rule if rule.higher in far else replace(rule, apart=(), only=False), rows


def _unique(
    flat: pd.DataFrame, pairs: npt.NDArray[np.intp], link: Link, children: Domain
) -> dict[RootRule, int]:
    """Return columns, and pairs of columns, whose values no two children of a root share.

    Each column of a pair is shared so often that the other one would be, too, if unrelated.
    """
    if len(SLOTS) * len(pairs) < LEAST_RULED:
        return {}
    slots = [flat.iloc[pairs][[*link.slot(slot, children.names)]] for slot in SLOTS]
    table = pd.concat([one.set_axis(children.names, axis=1) for one in slots], ignore_index=True)
    keys = keys_of(table, encode(table, children, private=False))
    same: dict[str, npt.NDArray[np.bool_]] = {}
    for name, (codes, _) in keys.items():
        first, second = np.split(codes, len(SLOTS))
        same[name] = (first == second) & (first >= 0)
    found: list[tuple[float, tuple[str, ...]]] = []
    for names in (*((one,) for one in keys), *combinations(keys, 2)):
        if any(set(one) <= set(names) for _, one in found):
            continue
        if any(set(one.attributes) <= set(names) for one in children.unique):
            continue
        if len(names) == 1:
            expected = len(pairs) * keys[names[0]][1]
        else:
            expected = min(same[a].sum() * keys[b][1] for a, b in (names, names[::-1]))
        if expected >= LEAST_REPEATED and not np.logical_and.reduce([same[a] for a in names]).any():
            found.append((float(expected), names))
    found.sort(key=lambda one: -one[0])
    return {Unique((link.column, *names)): int(rows) for rows, names in found[:MOST_UNIQUE]}


def found_numbers(
    flat: pd.DataFrame, link: Link, children: Domain, table: pd.DataFrame
) -> dict[Numbering, int]:
    """Return the columns that number the children of each root in the order of another column.

    Each has the number of pairs of children that an unrelated column would break. Roots count
    whose children a flat table has, which are two at most; of others, both are in the order.
    """
    number = flat[link.table].to_numpy(dtype=np.int64)
    pairs = np.flatnonzero(number >= len(SLOTS))
    whole = number <= (len(SLOTS) if link.maximum > len(SLOTS) else 1)
    if len(pairs) < 2 * LEAST_REPEATED:
        return {}
    values: dict[str, npt.NDArray[np.float64]] = {}
    for one in children.binned:
        slots = [flat[link.name(slot, one.name)] for slot in SLOTS]
        values[one.name] = np.stack([one.checked_numbers(column) for column in slots])
    found: dict[Numbering, int] = {}
    for name, numbers in values.items():
        if children.attribute(name).dated or not pd.api.types.is_integer_dtype(table[name].dtype):
            continue
        first, second = numbers[:, pairs]
        numbered = (numbers[0, whole & (number == 1)] == 1).all()
        numbered &= (np.sort(numbers[:, whole & (number >= len(SLOTS))], axis=0).T == [1, 2]).all()
        room = np.where(number[pairs] < link.maximum, number[pairs], np.inf)
        numbered &= ((first != second) & (np.minimum(first, second) >= 1)).all()
        if not numbered or (np.maximum(first, second) > room).any():
            continue
        # A date says more of an order than a number does.
        others = sorted(values, key=lambda one: not children.attribute(one).dated)
        for by in (one for one in others if one != name and one not in {of.name for of in found}):
            low, high = values[by][:, pairs]
            differ = low != high
            agrees = (low < high) == (first < second)
            if agrees[differ].all() and differ.sum() >= 2 * LEAST_REPEATED:
                found[Numbering(name, by)] = int(differ.sum()) // 2
                break
    return found
