"""Repairs of synthetic records: cells drawn anew where a row breaks what holds in public data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from jam_dagster.tables.codes.alike import alike_rows, most_dependent
from jam_dagster.tables.codes.table import EncodedTable
from jam_dagster.tables.codes.unique_rows import spread_out
from jam_dagster.tables.codes.within_formula import fit_formula
from jam_dagster.tables.codes.within_roots import Family, RuleTables
from jam_dagster.tables.domain.children import SLOTS
from jam_dagster.tables.domain.constraints import Order
from jam_dagster.tables.domain.domain import Children, Clique, Domain
from jam_dagster.tables.domain.formula import Formula
from jam_dagster.tables.domain.missing_where import MissingWhere
from jam_dagster.tables.domain.unique import Unique

_PASSES = 6
_KEPT_SHARE = 0.02
_MOST_WORK = 2**28
_MOST_ALIKE = 3

_Codes = dict[str, npt.NDArray[np.intp]]


def repaired(encoded: EncodedTable, rng: np.random.Generator) -> EncodedTable:
    """Return synthetic records that keep the repairs of their domain, as far as that can be.

    In a row that breaks one, one cell is drawn anew: a value that keeps it, as often as the other
    rows have that value with the same others. A missing value, or a combination that is not
    listed, stays where more than 2% of the rows have it: so many come from the measurements. No
    repair breaks a constraint or an impossible combination of the domain.

    A cell that is missing where it cannot be changes places with one of a row where it can be, so
    that a column's share of missing cells stays what it was. Rows that must differ, and cannot in
    their cells, are spread out over more of them. A number that no formula can give in its bin
    moves to the bin in which the formula has it.

    A domain without repairs gives the same records. If a record has children, it keeps the repairs
    of the root table, each of its children those of theirs, and both those between them.
    """
    domain = encoded.domain
    if domain.children is not None:
        return _repaired_parts(encoded, domain.children, rng)
    if not domain.repairs:
        return encoded
    codes = {
        name: column.astype(np.intp)
        for name, column in zip(domain.names, encoded.columns, strict=True)
    }
    impossible = domain.impossible_masks()
    for _ in range(_PASSES):
        before = dict(codes)
        for one in domain.repairs:
            if isinstance(one, MissingWhere):
                _place_missing(domain, codes, one, rng)
                continue
            if isinstance(one, Formula):
                codes[one.attribute] = fit_formula(domain, codes, one, rng)
                continue
            if isinstance(one, Unique):
                codes |= spread_out(domain, codes, one, rng)
                continue
            kept_share = 1.0 if isinstance(one, Order) else _KEPT_SHARE
            _repair(domain, codes, *domain.broken_cells(one, drawn=True), kept_share, rng)
        changed = [name for name in domain.names if codes[name] is not before[name]]
        if not changed:
            break
        wrong = np.zeros(encoded.records, dtype=bool)
        for clique, mask in impossible.items():
            wrong |= mask[tuple(codes[name] for name in clique)]
        for name in changed:
            codes[name] = np.where(wrong, before[name], codes[name])
    return EncodedTable(domain, tuple(codes[name] for name in domain.names))


def _repaired_parts(
    encoded: EncodedTable, children: Children, rng: np.random.Generator
) -> EncodedTable:
    columns = dict(zip(encoded.domain.names, encoded.columns, strict=True))
    count, names = encoded.column(children.link.table), children.domain.names
    every = np.arange(encoded.records)
    parts = [(children.roots, children.roots.names, every)]
    for slot in SLOTS:
        there = np.flatnonzero(count >= slot)
        parts.append((children.domain, children.link.slot(slot, names), there))
    for domain, flat, rows in parts:
        part = repaired(EncodedTable(domain, tuple(columns[name][rows] for name in flat)), rng)
        for name, codes in zip(flat, part.columns, strict=True):
            columns[name] = columns[name].copy()
            columns[name][rows] = codes
    if children.rules:
        _keep_within(children, columns, [rows for _, _, rows in parts[1:]], rng)
    return EncodedTable(encoded.domain, tuple(columns.values()))


def _keep_within(
    children: Children,
    columns: dict[str, npt.NDArray[Any]],
    there: Sequence[npt.NDArray[np.intp]],
    rng: np.random.Generator,
) -> None:
    """Change the codes of two children so that they keep the rules of both tables."""
    owners = np.concatenate(there)
    order = np.argsort(owners, kind="stable")
    slots = [children.link.slot(slot, children.domain.names) for slot in SLOTS]
    codes = {
        name: np.concatenate(
            [columns[one[at]][rows] for one, rows in zip(slots, there, strict=True)]
        )[order].astype(np.intp)
        for at, name in enumerate(children.domain.names)
    }
    roots = {name: columns[name].astype(np.intp) for name in children.roots.names}
    family = Family(RuleTables(children), roots, owners[order], codes)
    made = family.kept(np.ones(len(owners), dtype=bool), rng)
    for at, name in enumerate(children.domain.names):
        back = np.empty(len(owners), np.intp)
        back[order] = made[name]
        parts = np.split(back, [len(there[0])])
        for one, rows, part in zip(slots, there, parts, strict=True):
            columns[one[at]][rows] = part


def _repair(
    domain: Domain,
    codes: _Codes,
    clique: Clique,
    broken: npt.NDArray[np.bool_],
    kept_share: float,
    rng: np.random.Generator,
) -> None:
    """Draw a cell anew in the rows that are in broken cells of a clique."""
    records = len(codes[clique[0]])
    cells = np.ravel_multi_index(tuple(codes[name] for name in clique), broken.shape)
    counts = np.bincount(cells, minlength=broken.size)
    wrong = broken.ravel() & (counts > 0) & (counts <= kept_share * records)
    rows = np.flatnonzero(wrong[cells])
    if not len(rows):
        return
    # Codes that a cell may become: no missing value, and none that is broken itself.
    allowed = ~broken
    for axis, name in enumerate(clique):
        np.moveaxis(allowed, axis, 0)[list(domain.attribute(name).missing_codes)] = False
    weights = np.where(allowed, counts.reshape(broken.shape), 0)
    drawn = cells[rows]
    found, indices, times = np.unique(drawn, return_inverse=True, return_counts=True)
    groups = np.split(np.argsort(indices, kind="stable"), np.cumsum(times)[:-1])
    # The domain may be a stranger's, with cells of any number.
    for cell, here in list(zip(found, groups, strict=True))[: _MOST_WORK // sum(broken.shape)]:
        neighbours = np.concatenate(list(_lines(cell, broken.shape)))
        chances = weights.ravel()[neighbours]
        if not chances.any():
            chances = allowed.ravel()[neighbours]
        if chances.any():
            upto = np.cumsum(chances)
            chosen = np.searchsorted(upto, rng.random(len(here)) * upto[-1], side="right")
            drawn[here] = neighbours[chosen]
    for name, column in zip(clique, np.unravel_index(drawn, broken.shape), strict=True):
        codes[name] = codes[name].copy()
        codes[name][rows] = column


def _lines(cell: np.intp, shape: tuple[int, ...]) -> Iterator[npt.NDArray[np.intp]]:
    """Yield the cells that differ from one in one attribute, for each attribute."""
    at = np.unravel_index(cell, shape)
    for axis, size in enumerate(shape):
        yield np.ravel_multi_index(
            tuple(np.arange(size) if one == axis else here for one, here in enumerate(at)), shape
        )


def _place_missing(
    domain: Domain, codes: _Codes, one: MissingWhere, rng: np.random.Generator
) -> None:
    """Make an attribute missing where a constraint has it, and nowhere else.

    If rows may be missing and need not be, as many become so as were missing elsewhere. A row
    that is no longer missing gets the value of a row with the same codes of the three attributes on
    which the value depends most; of fewer, if no row has all of them.
    """
    name, column = one.attribute, codes[one.attribute]
    null = domain.attribute(name).null_code
    assert null is not None  # noqa: S101  # the domain has checked it
    missing, there = column == null, one.rows(codes[one.where])
    wanted = there.copy()
    if not one.exactly:
        free = np.flatnonzero(there & ~missing)
        number = min(int((missing & ~there).sum()), len(free))
        wanted &= missing
        wanted[rng.permutation(free)[:number]] = True
    if np.array_equal(missing, wanted):
        return
    filled = np.flatnonzero(missing & ~wanted)
    if len(filled) and not missing.all():
        column = column.copy()
        known = np.flatnonzero(~missing)
        others = [other for other in domain.names if other != name]
        alike = most_dependent(domain, codes, [name], others, known)[:_MOST_ALIKE]
        donors = alike_rows([codes[other] for other in alike], known, filled, rng)
        column[filled] = codes[name][donors]
    else:
        wanted |= missing
    codes[name] = np.where(wanted, null, column)
