"""Constraints that hold in every row of a public table, to repair synthetic rows by.

Only findings count that chance does not explain: what the columns would break
often if they had nothing to do with each other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, combinations, product
from typing import Any

import numpy as np
import numpy.typing as npt

from jam_dagster.common.deferred import pd
from jam_dagster.errors import DomainError
from jam_dagster.tables.codes.table import EncodedTable
from jam_dagster.tables.domain.attributes import Attribute
from jam_dagster.tables.domain.binned import BinnedAttribute
from jam_dagster.tables.domain.coarser import coarser_of, readers_of
from jam_dagster.tables.domain.constraints import (
    Combinations,
    NotNull,
    Order,
    Repair,
    sorted_orders,
)
from jam_dagster.tables.domain.derived import reproduces
from jam_dagster.tables.domain.expressions import columns_of, parsed
from jam_dagster.tables.domain.formula import Formula
from jam_dagster.tables.domain.missing_where import MissingWhere
from jam_dagster.tables.domain.unique import Unique, repeated_rows
from jam_dagster.tables.domain.units import LONGER_THAN_DAYS
from jam_dagster.tables.drafting.determined import relations
from jam_dagster.tables.drafting.determined_sums import shares
from jam_dagster.tables.drafting.determined_times import clock_sums
from jam_dagster.tables.drafting.time_draft import shape_of
from jam_dagster.tables.drafting.value_columns import (
    LEAST_ROWS,
    ValueColumns,
    chosen_relations,
    looked_at,
    may_be_in_formula,
)

LEAST_RULED = 1000
"""The least number of rows of a table of which a rule is proposed."""

LEAST_REPEATED = 50
"""How many rows unrelated columns would repeat, at least, that are unique."""

MOST_UNIQUE = 3
"""The largest number of keys that are proposed."""

# A row in twenty would break it by chance, and so would as many rows as rule chance out.
_LEAST_SHARE = 0.05
_LEAST_EXPECTED = 10
_SAMPLE = 5000
_MOST_COLUMNS = 60
_MOST_PAIRED = 2**14
_MOST_FOUND = 10
_MOST_DISTANCES = 12
_MOST_UNLISTED = 0.05
_LEAST_DATES = 30
_FOR_EVER = 0.01

_LEAST_ELSEWHERE = 0.2
"""Least share of the rows in which a column is never missing, by the values of another."""

_LEAST_KNOWN = 0.5

_Rows = npt.NDArray[np.bool_]


def found_constraints(table: pd.DataFrame, encoded: EncodedTable) -> dict[Repair, int]:
    """Return what holds in every row of a public table, which is encoded as well.

    Each has the number of rows that unrelated columns would break. If orders and combinations are
    many, they are those that unrelated columns would break most often.
    """
    attributes = encoded.domain.attributes
    never = [
        NotNull(one.name)
        for one in attributes
        if encoded.records >= LEAST_ROWS
        and one.null_code is not None
        and not np.isin(encoded.column(one.name), one.missing_codes).any()
    ]
    # Decoding keeps no formula and no order of one column.
    binned = encoded.domain.binned
    added = _shares(table, binned)
    taken = {name for one in added for name in one.attributes}
    orders = found_orders(table, [one for one in binned if one.name not in taken])
    taken.update(name for one in orders for name in one.attributes)
    # Cells are filled first, then fitted to others.
    found: dict[Repair, int] = dict.fromkeys(never, encoded.records)
    for one in _missing(encoded):
        found[one] = _missing_by_chance(encoded, one)
    found.update(orders)
    found.update(_combinations(encoded))
    found.update(added)
    found.update(_formulas(table, binned, taken))
    found.update(_unique(table, encoded))
    return found


def _missing_by_chance(encoded: EncodedTable, one: MissingWhere) -> int:
    """Return how many missing cells chance would put where they break a constraint."""
    missing = np.isin(encoded.column(one.attribute), _missing_codes(encoded, one.attribute))
    there = one.rows(encoded.column(one.where))
    return int(missing.sum() * (1 - there.mean()))


def found_orders(
    table: pd.DataFrame, attributes: Sequence[BinnedAttribute], far: Collection[str] = ()
) -> dict[Repair, int]:
    """Return orders of a table's columns, with the rows that unrelated ones would break.

    If there are `far` columns, an order is between one of these and another one. If no finer
    order of two columns holds, one in the coarser unit of both may.
    """
    kinds: dict[tuple[str, ...], list[BinnedAttribute]] = {}
    for one in attributes:
        if one.hour_from is None:
            kinds.setdefault(one.compared_as, []).append(one)
    numbers = _Numbers(table, _sampled(len(table)))
    found: list[tuple[float, Order]] = []
    for pair, ways in _comparable(list(kinds.values())):
        if far and sum(one.name in far for one in pair) != 1:
            continue
        if pair[0].size * pair[1].size > _MOST_PAIRED:
            continue
        for order in ways:
            lower, higher = numbers.of(order, pair, few=True)
            if (lower > higher).any():
                # No order with a child's column has exempt values.
                order = order if far else _exempting(order, pair, lower, higher)
                if not order.exempt:
                    continue
            lower, higher = numbers.of(order, pair)
            if order.exempt:
                held = ~(np.isin(lower, order.exempt) | np.isin(higher, order.exempt))
                lower, higher = lower[held], higher[held]
            if (lower > higher).any():
                continue
            share = _share_above(lower, higher) * len(lower) / len(table)
            if share >= _LEAST_SHARE:
                found.append((share, order))
                break
    kept: dict[Order, int] = {}
    for share, order in sorted(found, key=lambda one: -one[0]):
        with suppress(DomainError):  # A circle: columns that equal each other where both are known.
            sorted_orders([*kept, order])
            kept[order] = int(share * len(table))
        if len(kept) == _MOST_FOUND:
            break
    named = {one.name: one for one in attributes}
    return {_kept_apart(table, order, named): rows for order, rows in kept.items()}


class _Numbers:
    """The numbers of a table's columns, in few rows and in all."""

    def __init__(self, table: pd.DataFrame, rows: npt.NDArray[np.intp]) -> None:
        self._table, self._rows = table, rows
        self._read: dict[tuple[str, bool], npt.NDArray[np.float64]] = {}

    def of(
        self, order: Order, pair: Sequence[BinnedAttribute], *, few: bool = False
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return the numbers of an order's lower and higher column as they are compared."""
        for one in pair:
            if (one.name, few) not in self._read:
                column = self._table[one.name]
                self._read[one.name, few] = one.numbers_in(
                    column.iloc[self._rows] if few else column
                )
        return order.read(self._read[order.lower, few], self._read[order.higher, few])


def _exempting(
    order: Order,
    pair: Sequence[BinnedAttribute],
    lower: npt.NDArray[np.float64],
    higher: npt.NDArray[np.float64],
) -> Order:
    """Return an order of dates that exempts what many rows have, far from all others.

    Such a date, as 9999-12-31 or 1900-01-01, means for ever or unknown.
    """
    if any(one.compared_as[0] != "instant" for one in pair):
        return order
    wrong, exempt = lower > higher, set[float]()
    for numbers in (lower, higher):
        distinct, rows = np.unique(numbers[~np.isnan(numbers)], return_counts=True)
        rest = distinct[1:-1]
        if len(rest) < _LEAST_DATES:
            continue
        for at, gap in ((0, rest[0] - distinct[0]), (-1, distinct[-1] - rest[-1])):
            often = rows[at] >= max(_LEAST_EXPECTED, _FOR_EVER * rows.sum())
            if often and gap > np.ptp(rest) and (numbers[wrong] == distinct[at]).any():
                exempt.add(float(distinct[at]))
    return replace(order, exempt=tuple(sorted(exempt)))


def _comparable(
    kinds: Sequence[Sequence[BinnedAttribute]],
) -> Iterator[tuple[tuple[BinnedAttribute, BinnedAttribute], list[Order]]]:
    """Yield pairs of attributes, and the orders of each that may hold, the finest first."""
    for alike in kinds:
        for low, high in combinations(alike[:_MOST_COLUMNS], 2):
            ways = [Order(low.name, high.name), Order(high.name, low.name)]
            ways += _coarser_orders(low, high)
            yield (low, high), ways
    for first, second in combinations(kinds, 2):
        for low, high in product(first[:_MOST_COLUMNS], second[:_MOST_COLUMNS]):
            if ways := _coarser_orders(low, high):
                yield (low, high), ways


def _coarser_orders(one: BinnedAttribute, other: BinnedAttribute) -> list[Order]:
    """Return the orders of two attributes in the unit of one of them."""
    found = []
    for fine, coarse in ((one, other), (other, one)):
        if function := coarser_of(fine, coarse):
            up = Order(fine.name, coarse.name, functions=(function, ""))
            found.append(replace(up, readers=readers_of((fine, coarse), up.functions)))
            # A whole number is at most another one where it is at most its floor.
            if function != "floor":
                down = Order(coarse.name, fine.name, functions=("", function))
                found.append(replace(down, readers=readers_of((coarse, fine), down.functions)))
    return found


def _kept_apart(
    table: pd.DataFrame, order: Order, attributes: Mapping[str, BinnedAttribute]
) -> Order:
    """Return the order of two times with how far apart they are, where that is less than a bin.

    Both are drawn within their bins, which alone would keep the order only. Few distances are all
    that there are: a bill is due after 15, 30 or 60 days.
    """
    low, high = (attributes[name] for name in order.attributes)
    kind, *unit = high.compared_as
    if kind != "instant" or unit[0] in LONGER_THAN_DAYS or order.functions[1]:
        return order
    starts, ends = order.read(low.numbers_in(table[low.name]), high.numbers_in(table[high.name]))
    between = (ends - starts)[~(np.isin(starts, order.exempt) | np.isin(ends, order.exempt))]
    between = between[~np.isnan(between)]
    distances, rows = np.unique(between, return_counts=True)
    if len(distances) <= _MOST_DISTANCES and rows.min() >= _LEAST_EXPECTED:
        others = np.random.default_rng(0).permutation(ends) - starts
        elsewhere = ~np.isin(others, distances) & ~np.isnan(others)
        if elsewhere.mean() >= _LEAST_SHARE:
            return replace(order, apart=shape_of(between), only=True)
    near = 2 * np.median(between) < np.median(np.diff(high.edge_array))
    return replace(order, apart=shape_of(between)) if near else order


def _share_above(lower: npt.NDArray[np.float64], higher: npt.NDArray[np.float64]) -> float:
    """Return how often a number is above one of any other row; 0 where rows are too few."""
    known = ~np.isnan(lower) & ~np.isnan(higher)
    if known.sum() < LEAST_RULED:
        return 0.0
    above = np.searchsorted(np.sort(higher[known]), lower[known], side="left")
    return float(above.mean() / known.sum())


def _combinations(encoded: EncodedTable) -> dict[Repair, int]:
    domain = encoded.domain
    few = [one for one in domain.attributes if not one.binned]
    found: list[tuple[float, Combinations]] = []
    for pair in combinations(few[:_MOST_COLUMNS], 2):
        shape = pair[0].size, pair[1].size
        if shape[0] * shape[1] > _MOST_PAIRED:
            continue
        columns = [encoded.column(one.name) for one in pair]
        rows = _sampled(encoded.records)
        # A combination that no row of the table has is in no sampled one either.
        if _absent(pair, [column[rows] for column in columns], 0)[1] < _LEAST_SHARE:
            continue
        absent, share = _absent(pair, columns, _LEAST_EXPECTED)
        if share >= _LEAST_SHARE and encoded.records >= LEAST_RULED:
            found.append((share, _listed(pair, absent)))
    found.sort(key=lambda one: -one[0])
    return {one: int(share * encoded.records) for share, one in found[:_MOST_FOUND]}


def _absent(
    pair: Sequence[Attribute], columns: Sequence[npt.NDArray[Any]], least: float
) -> tuple[npt.NDArray[np.bool_], float]:
    """Return the cells without rows that unrelated columns would have in many, and their share."""
    shape = tuple(one.size for one in pair)
    indices = np.ravel_multi_index(tuple(column.astype(np.intp) for column in columns), shape)
    counts = np.bincount(indices, minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)
    for axis, one in enumerate(pair):
        np.moveaxis(counts, axis, 0)[list(one.missing_codes)] = 0
    total = max(counts.sum(), 1.0)
    expected = counts.sum(axis=1)[:, None] * counts.sum(axis=0)[None, :] / total
    absent = (counts == 0) & (expected > 0) & (expected >= least)
    return absent, float(expected[absent].sum() / total)


def _listed(pair: Sequence[Attribute], absent: npt.NDArray[np.bool_]) -> Combinations:
    """Return the combinations that are left, an entry for all values that have the same ones."""
    known = (one.size - len(one.missing_codes) for one in pair)
    plain = absent[tuple(map(slice, known))]
    entries: dict[tuple[int, ...], list[int]] = {}
    for code, row in enumerate(plain):
        entries.setdefault(tuple(np.flatnonzero(~row).tolist()), []).append(code)
    every = tuple(range(plain.shape[1]))
    listed = tuple(
        (tuple(codes), () if allowed == every else allowed) for allowed, codes in entries.items()
    )
    return Combinations(tuple(one.name for one in pair), listed)


def _missing(encoded: EncodedTable) -> tuple[MissingWhere, ...]:
    """Return where columns are missing in a public table, those with most missing cells first.

    Columns that are missing in the same rows follow the first of them. That one may follow another
    column, which is missing in more rows, or the values of one.
    """
    domain, groups = encoded.domain, dict[bytes, list[str]]()
    missing: dict[str, _Rows] = {}
    for one in domain.attributes:
        if one.null_code is not None:
            rows = np.isin(encoded.column(one.name), one.missing_codes)
            if _unlikely(rows, rows):
                missing[one.name] = rows
                groups.setdefault(np.packbits(rows).tobytes(), []).append(one.name)
    leaders = sorted((group[0] for group in groups.values()), key=lambda one: -missing[one].sum())
    found: list[MissingWhere] = []
    for index, name in enumerate(leaders):
        (group,) = (one for one in groups.values() if one[0] == name)
        found += _rule(encoded, missing, name, leaders[:index], group)
        found += (MissingWhere(other, name, _missing_codes(encoded, name)) for other in group[1:])
    return tuple(found)


def _rule(
    encoded: EncodedTable,
    missing: Mapping[str, _Rows],
    name: str,
    others: Sequence[str],
    group: Sequence[str],
) -> Iterator[MissingWhere]:
    """Yield at most one rule: exactly at some values, only next to a missing cell, or at values."""
    rows, only = missing[name], None
    for other in encoded.domain.attributes:
        if not other.binned and other.name not in group:
            codes, exactly = _values(rows, encoded.column(other.name), other)
            if codes and exactly:
                yield MissingWhere(name, other.name, codes)
                return
            only = only or (MissingWhere(name, other.name, codes, False) if codes else None)
    # The narrowest comes first.
    for other_name in reversed(others):
        there = missing[other_name]
        if not (rows & ~there).any() and _unlikely(rows, there):
            yield MissingWhere(name, other_name, _missing_codes(encoded, other_name), exactly=False)
            return
    if only is not None:
        yield only


def _unlikely(missing: _Rows, there: _Rows) -> bool:
    """Return whether chance would put some of the missing cells of a column elsewhere."""
    return bool(missing.sum() * (1 - there.mean()) >= _LEAST_EXPECTED)


def _values(
    missing: _Rows, column: npt.NDArray[Any], other: Attribute
) -> tuple[tuple[int, ...], bool]:
    """Return the values in whose rows a column is missing, and whether it is in all of these."""
    rows = np.bincount(column.astype(np.intp), minlength=other.size)
    nulls = np.bincount(column[missing].astype(np.intp), minlength=other.size)
    always = (nulls == rows) & (rows > 0)
    known = ~np.isin(np.arange(other.size), other.missing_codes)
    if (always & known).any() and nulls[always].sum() == missing.sum():
        return tuple(np.flatnonzero(always).tolist()), True
    never = (nulls == 0) & (rows * missing.mean() >= _LEAST_EXPECTED) & known
    # Next to a missing cell it may be missing, too, even if no row shows it.
    enough = rows[never].sum() >= _LEAST_ELSEWHERE * len(missing)
    return (tuple(np.flatnonzero(~never).tolist()) if enough else ()), False


def _missing_codes(encoded: EncodedTable, name: str) -> tuple[int, ...]:
    return encoded.domain.attribute(name).missing_codes


def _shares(table: pd.DataFrame, attributes: Sequence[BinnedAttribute]) -> dict[Repair, int]:
    """Return formulas of the rests of shares that add up to the same number.

    Such a rest could be below 0 if it was derived.
    """
    if len(table) < LEAST_ROWS:
        return {}
    values = _formula_columns(table, attributes, ())
    return _disjoint(table, values, ((one.target, one.expression) for one in shares(values)))


def _formulas(
    table: pd.DataFrame, attributes: Sequence[BinnedAttribute], taken: Collection[str]
) -> dict[Repair, int]:
    """Return formulas of attributes, none `taken`, that miss other cells than those that give them.

    No derived column could be so.
    """
    values = _formula_columns(table, attributes, taken)
    numbers, columns = values.table, list(values.names)
    if len(table) < LEAST_ROWS or numbers.notna().all(axis=None):
        return {}
    known = numbers.dropna().reset_index(drop=True)
    sample = known.iloc[looked_at(len(known))] if len(known) else known
    chosen = chosen_relations(relations(values, (), columns), values.by_cost(columns))
    of_values = ((one.target, one.expression) for one in chosen)
    return _disjoint(table, values, chain(clock_sums(sample, known, columns), of_values))


def _formula_columns(
    table: pd.DataFrame, attributes: Sequence[BinnedAttribute], taken: Collection[str]
) -> ValueColumns:
    """Return the numbers of attributes that may be in a formula."""
    names = [
        one.name
        for one in attributes
        if one.name not in taken and one.hour_from is None and not one.dated and not one.format
    ]
    names = [name for name in names if may_be_in_formula(name, table, {})]
    return ValueColumns(table[names], names, {})


def _disjoint(
    table: pd.DataFrame, values: ValueColumns, ways: Iterable[tuple[str, str]]
) -> dict[Repair, int]:
    """Return formulas that hold, no two of which have an attribute in common."""
    used: set[str] = set()
    found: dict[Repair, int] = {}
    for name, expression in ways:
        all_names = {name, *columns_of(parsed(name, expression))}
        if not all_names & used and _holds(expression, name, table):
            used |= all_names
            found[Formula(name, expression)] = min(map(values.shuffled, all_names))
    return found


def _unique(table: pd.DataFrame, encoded: EncodedTable) -> dict[Repair, int]:
    """Return pairs of columns whose values no two rows share, though each repeats its own.

    Unrelated columns would repeat many pairs. Only columns count of which rows have listed values.
    """
    if encoded.records < LEAST_RULED:
        return {}
    keys = keys_of(table, encoded)
    found: list[tuple[float, Repair]] = []
    for first, second in combinations(keys, 2):
        expected = len(table) ** 2 / 2 * keys[first][1] * keys[second][1]
        if expected < LEAST_REPEATED:
            continue
        codes = np.stack([keys[first][0], keys[second][0]], axis=1)
        for some in (codes[_sampled(len(codes))], codes):
            if repeated_rows(list(some.T)).any():
                break
        else:
            found.append((expected, Unique((first, second))))
    found.sort(key=lambda one: -one[0])
    return {one: int(min(rows, encoded.records)) for rows, one in found[:MOST_UNIQUE]}


def keys_of(
    table: pd.DataFrame, encoded: EncodedTable
) -> dict[str, tuple[npt.NDArray[np.int64], float]]:
    """Return numbers of the values, and how alike two rows are, of columns that may be in a key.

    Most rows of such a column have a listed value, some have the same, and half are known.
    """
    keys: dict[str, tuple[npt.NDArray[np.int64], float]] = {}
    for one in encoded.domain.attributes:
        listed = one.other_code is None
        if not listed and (encoded.column(one.name) == one.other_code).mean() > _MOST_UNLISTED:
            continue
        codes = pd.factorize(table[one.name])[0].astype(np.int64)
        counts = np.bincount(codes[codes >= 0]).astype(np.float64)
        known = counts.sum()
        if known > _LEAST_KNOWN * len(codes) and len(counts) < (1 - _LEAST_SHARE) * known:
            keys[one.name] = codes, float((counts**2).sum() / known**2)
    return keys


def _holds(expression: str, name: str, table: pd.DataFrame) -> bool:
    try:
        return reproduces(expression, table[name], table, gaps=True)
    except DomainError:
        return False


def _sampled(records: int) -> npt.NDArray[np.intp]:
    return np.unique(np.linspace(0, records - 1, _SAMPLE).astype(np.intp))
