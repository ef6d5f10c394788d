"""Records that are changed a few at a time until their marginals are those that were measured.

Zhang, Wang, Li, Honorio, Backes, He, Chen, Zhang: "PrivSyn: Differentially Private Data Synthesis",
USENIX Security 2021, Section 5 (consistency) and the Gradually Update Method (GUM). They fit any
set of marginals, and need no junction tree.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from jam_dagster.models.graphical.model import possible_cells
from jam_dagster.models.measurement import Measurement
from jam_dagster.tables import Clique, Domain, EncodedTable

MOST_REPAIRS = 501
"""Most repetitions of consistency and non-negativity, unless stated."""

PASSES = 100
"""Passes of GUM over all marginals."""

SLOWER, SLOWED_EVERY = 0.84, 20
"""A pass changes 0.84 times as many records after every twenty."""

Tables = dict[Clique, npt.NDArray[np.float64]]


def consistent(
    domain: Domain,
    measurements: Sequence[Measurement],
    total: float,
    *,
    repairs: int = MOST_REPAIRS,
) -> Tables:
    """Return marginals that agree on what they share, are not negative, and sum to a total.

    Two noisy marginals of one clique are averaged. The shared part of marginals is the mean of
    their sums, weighted by one over its variance; the difference is spread evenly. At most
    `repairs` times consistency and non-negativity are made in turn.
    """
    tables, precisions = _averaged(measurements)
    possible = {clique: possible_cells(domain, clique) for clique in tables}
    shared = _shared(tables, domain)
    for _ in range(repairs):
        for part in shared:
            _agree(part, tables, precisions, total)
        wrong = [q for q in tables if (tables[q] < 0.0).any() or tables[q][~possible[q]].any()]
        for clique in wrong:
            tables[clique] = _without_negatives(tables[clique], possible[clique])
        if not wrong:
            break
    for clique, table in tables.items():
        # Floats near counts far beyond the total are further apart than it.
        if table.sum() <= 0.0:
            tables[clique] = total * possible[clique] / possible[clique].sum()
    return tables


def _averaged(measurements: Sequence[Measurement]) -> tuple[Tables, dict[Clique, float]]:
    """Return the mean measurement of each clique, with one over its variance."""
    tables: Tables = {}
    precisions: dict[Clique, float] = {}
    for one in measurements:
        more = 1.0 / one.sigma**2
        known = precisions.get(one.clique, 0.0)
        before = tables.get(one.clique, np.zeros(one.values.shape))
        tables[one.clique] = (known * before + more * one.values) / (known + more)
        precisions[one.clique] = known + more
    return tables, precisions


def _shared(tables: Tables, domain: Domain) -> list[Clique]:
    """Return all intersections of marginals, and intersections of these, the smallest first."""
    found = {frozenset(clique) for clique in tables}
    fresh = set(found)
    while fresh:
        fresh = {one & other for one in fresh for other in found} - found
        found |= fresh
    parts = {domain.canonical(one) for one in found} | {()}
    return sorted(parts, key=lambda one: (len(one), one))


def _agree(part: Clique, tables: Tables, precisions: Mapping[Clique, float], total: float) -> None:
    """Change marginals so that they have the same sums over some attributes."""
    above = [clique for clique in tables if set(part) <= set(clique)]
    if len(above) < 2 and part:
        return
    sums, weights, cells = {}, {}, {}
    for clique in above:
        others = tuple(axis for axis, name in enumerate(clique) if name not in part)
        sums[clique] = tables[clique].sum(axis=others)
        cells[clique] = tables[clique].size // max(sums[clique].size, 1)
        weights[clique] = precisions[clique] / cells[clique]
    whole = math.fsum(weights.values())
    mean = sum(weights[q] / whole * sums[q] for q in above) if part else np.array(total)
    for clique in above:
        sizes = zip(clique, tables[clique].shape, strict=True)
        spread = (mean - sums[clique]) / cells[clique]
        tables[clique] = tables[clique] + spread.reshape([n if q in part else 1 for q, n in sizes])


def _without_negatives(table: np.ndarray, possible: np.ndarray) -> npt.NDArray[np.float64]:
    """Return a table without negative counts and with the same sum (Norm-Sub).

    The same number is subtracted from all positive cells. The counts of impossible cells are zero.
    """
    total = max(float(table.sum()), 0.0)
    ordered = -np.sort(-table[possible])
    # The last of the largest k cells, each less the same number, is still positive.
    less = (np.cumsum(ordered) - total) / np.arange(1, ordered.size + 1)
    kept = np.flatnonzero(ordered > less)
    cleaned = np.zeros(table.shape)
    if total > 0.0 and kept.size:
        cleaned[possible] = np.maximum(table[possible] - less[kept[-1]], 0.0)
    return cleaned


def fit_records(domain: Domain, targets: Mapping[Clique, np.ndarray], records: int) -> EncodedTable:
    """Return records with about the marginals that are given.

    Targets are consistent, each over at least one attribute, and together over all. They are scaled
    to the number of records. Records start with independent attributes. A pass goes through the
    marginals, the worst first: cells that have too few records get more of them, taken from cells
    that have too many. A record that is taken becomes a copy of one in the cell, in every second
    pass only in the attributes of the marginal for one half. A fixed seed decides which are
    changed.
    """
    coins = np.random.default_rng(0)
    names = domain.names
    scaled = {q: target * (records / float(target.sum())) for q, target in targets.items()}
    singles = {name: _single(name, scaled) for name in names}
    rows = np.stack([_spread(singles[name], records, coins) for name in names], axis=1)
    wide = {q: target for q, target in scaled.items() if len(q) > 1}
    indices = {q: [domain.positions[name] for name in q] for q in wide}
    shapes = {q: target.shape for q, target in wide.items()}

    def codes(clique: Clique) -> npt.NDArray[np.intp]:
        columns = tuple(rows[:, index] for index in indices[clique])
        return np.ravel_multi_index(columns, shapes[clique])

    for number in range(PASSES if wide else 0):
        most = SLOWER ** (number // SLOWED_EVERY)
        errors = {
            q: float(np.abs(np.bincount(codes(q), minlength=t.size) - t.ravel()).sum())
            for q, t in wide.items()
        }
        for clique in sorted(wide, key=lambda q: -errors[q]):
            _update(
                *(rows, indices[clique], codes(clique), wide[clique], most),
                *(1.0 if number % 2 else 0.5, coins),
            )
    return EncodedTable(domain, tuple(rows[:, index] for index in range(len(names))))


def _single(name: str, targets: Mapping[Clique, np.ndarray]) -> npt.NDArray[np.float64]:
    """Return the marginal of an attribute, from the first one that has it."""
    clique = next(q for q in targets if name in q)
    others = tuple(axis for axis, other in enumerate(clique) if other != name)
    found: npt.NDArray[np.float64] = targets[clique].sum(axis=others)
    return found


def _spread(target: np.ndarray, records: int, coins: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return a column in random order whose counts are those of a marginal, to the next record."""
    ends = np.round(np.cumsum(target) / target.sum() * records).astype(np.int64)
    column = np.searchsorted(ends, np.arange(records), side="right")
    shuffled: npt.NDArray[np.int64] = column[np.argsort(coins.random(records), kind="stable")]
    return shuffled


def _update(
    rows: npt.NDArray[np.int64],
    indices: Sequence[int],
    codes: npt.NDArray[np.intp],
    target: np.ndarray,
    most: float,
    copied: float,
    coins: np.random.Generator,
) -> None:
    """Move records towards one marginal, in place; see `fit_records`.

    A cell gets at most `most` times its records more, and a part `copied` of them as copies.
    """
    now, wanted = np.bincount(codes, minlength=target.size), target.ravel()
    most_more = most * np.where(now > 0, now, wanted)
    more = np.minimum(np.maximum(wanted - now, 0.0), most_more)
    added = np.round(more).astype(np.int64)
    taken = _taken(now - wanted, now, int(added.sum()))
    # The order of the records within their cells is random.
    order = np.lexsort((coins.random(len(codes)), codes))
    rank = np.arange(len(codes)) - np.repeat(np.cumsum(now) - now, now)
    cell = codes[order]
    thrown = order[rank < taken[cell]]
    thrown = thrown[np.argsort(coins.random(len(thrown)), kind="stable")]
    copies = np.where(now > 0, np.round(copied * added), 0).astype(np.int64)
    sources = order[rank < copies[cell]][: len(thrown)]
    rows[thrown[: len(sources)]] = rows[sources]
    left = thrown[len(sources) :]
    written = np.repeat(np.arange(target.size), added - copies)[: len(left)]
    for index, values in zip(indices, np.unravel_index(written, target.shape), strict=True):
        rows[left[: len(written)], index] = values


def _taken(over: np.ndarray, now: npt.NDArray[np.int64], wanted: int) -> npt.NDArray[np.int64]:
    """Return how many records to take from each cell that has too many, so many in all.

    A cell gives at most what it has too many, and at most the same part of its records as others.
    """
    spare = np.maximum(over, 0.0)
    low, high = 0.0, 1.0
    for _ in range(50):
        part = (low + high) / 2.0
        if float(np.minimum(spare, part * now).sum()) < wanted:
            low = part
        else:
            high = part
    taken: npt.NDArray[np.int64] = np.round(np.minimum(spare, high * now)).astype(np.int64)
    return taken
