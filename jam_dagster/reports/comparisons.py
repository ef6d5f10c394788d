"""The numbers of plots that compare tables: shares of cells or of groups of cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from jam_dagster.tables.domain.attributes import Attribute
from jam_dagster.tables.domain.binned import BinnedAttribute

if TYPE_CHECKING:
    from jam_dagster.evaluation.released_marginals import ReleasedMarginal
    from jam_dagster.tables.domain.domain import Domain

INTERVAL_SIGMAS = 2.0
"""Half-width of the intervals around released counts, in standard deviations."""


@dataclass(frozen=True)
class CellShares:
    """The share of each table in a group of cells.

    A share is None without a public table, or where no estimate covers the attribute. Noise can
    make the `released` share negative; `half` is two standard deviations of it.
    """

    group: CellGroup
    synthetic: float
    public: float | None
    released: float | None
    half: float


def one_way_shares(
    attribute: Attribute,
    *,
    synthetic: np.ndarray,
    public: np.ndarray | None,
    released: ReleasedMarginal | None,
    records: int,
) -> list[CellShares]:
    """Return an attribute's distribution in the synthetic, the public and the released counts."""
    limit = 48 if attribute.binned else 14
    both = shares(synthetic) if public is None else shares(synthetic) + shares(public)
    groups = cell_groups(attribute, both, limit)
    rows = []
    ours = gather(shares(synthetic), groups)
    others = None if public is None else gather(shares(public), groups)
    measured = None if released is None else gather(released.counts, groups) / records
    for index, group in enumerate(groups):
        share, half = None, 0.0
        if released is not None and measured is not None:
            share = float(measured[index])
            half = INTERVAL_SIGMAS * released.sigma * len(group.codes) ** 0.5 / records
        other = None if others is None else float(others[index])
        rows.append(CellShares(group, float(ours[index]), other, share, half))
    return rows


@dataclass(frozen=True, eq=False)
class PairCells:
    """A two-way marginal of several tables, in common groups of cells.

    `counts` are by title, each of shape ``(len(down), len(across))``.
    """

    pair: tuple[str, str]
    down: list[CellGroup]
    across: list[CellGroup]
    counts: dict[str, np.ndarray]

    @property
    def shares(self) -> dict[str, np.ndarray]:
        """Shares of the records, with negative noisy counts clipped at zero."""
        return {title: shares(np.maximum(counts, 0.0)) for title, counts in self.counts.items()}


def pair_cells(
    domain: Domain, pair: tuple[str, str], tables: Mapping[str, np.ndarray]
) -> PairCells:
    """Gather a two-way marginal of several tables into visible cells."""
    total = np.sum([shares(np.maximum(counts, 0.0)) for counts in tables.values()], axis=0)
    down, across = (
        cell_groups(
            attribute,
            total.sum(axis=1 - axis),
            24 if attribute.binned else 12,
        )
        for axis, attribute in enumerate(map(domain.attribute, pair))
    )
    gathered = {title: gather(counts, down, across) for title, counts in tables.items()}
    return PairCells(pair, down, across, gathered)


def shares(counts: np.ndarray) -> np.ndarray:
    """Return counts as fractions of their sum; zeros unless the sum is positive."""
    total = counts.sum()
    fractions: np.ndarray = counts / total if total > 0 else np.zeros(counts.shape)
    return fractions


@dataclass(frozen=True)
class CellGroup:
    """Cells that a plot shows as one.

    `start` labels the group's beginning on an axis: for bins their lowest value.
    """

    label: str
    codes: tuple[int, ...]
    start: str = ""


def cell_groups(attribute: Attribute, weights: np.ndarray, limit: int) -> list[CellGroup]:
    """Gather the cells of an attribute into at most about `limit` groups, in the domain's order."""
    values = [code for code in range(attribute.size) if code not in attribute.missing_codes]
    if isinstance(attribute, BinnedAttribute):
        groups = _neighbours(attribute, len(values), limit)
    elif len(values) <= limit:
        groups = [CellGroup(attribute.labels[code], (code,)) for code in values]
    elif attribute.ordered:
        groups = _ranges(attribute, limit)
    else:
        order = np.array(values)[np.argsort(-weights[values], kind="stable")]
        kept, others = sorted(order[: limit - 1].tolist()), sorted(order[limit - 1 :].tolist())
        groups = [CellGroup(attribute.labels[code], (code,)) for code in kept]
        groups.append(CellGroup(f"({len(others)} others)", tuple(others)))
    for code in attribute.missing_codes:
        label = attribute.labels[code]
        groups.append(CellGroup(label, (code,), start=label))
    return groups


def _neighbours(attribute: BinnedAttribute, bins: int, limit: int) -> list[CellGroup]:
    cuts = np.linspace(0, bins, min(bins, limit) + 1).round().astype(int).tolist()
    groups = []
    for first, end in pairwise(cuts):
        start, stop = _bounds(attribute, first, end)
        label = attribute.labels[first]
        if end - first > 1:
            label = f"[{start}, {stop})" if attribute.scale is None else f"{start} to {stop}"
        groups.append(CellGroup(label, tuple(range(first, end)), start))
    return groups


def _ranges(attribute: Attribute, limit: int) -> list[CellGroup]:
    """Group neighbours of an ordered category; `other` has no place in the order."""
    last = [] if attribute.other_code is None else [attribute.other_code]
    codes = [code for code in range(len(attribute.listed)) if code not in last]
    # Equal sizes: a group of more values would have a longer bar.
    size = -(-len(codes) // (limit - len(last)))
    groups = []
    ranges = [tuple(codes[first : first + size]) for first in range(0, len(codes), size)]
    for members in [*ranges, tuple(last)]:
        if members:
            ends = dict.fromkeys((attribute.labels[members[0]], attribute.labels[members[-1]]))
            groups.append(CellGroup(" to ".join(ends), members))
    return groups


def _bounds(attribute: BinnedAttribute, first: int, end: int) -> tuple[str, str]:
    """Return the lowest and the highest value of several bins, as the attribute's labels do."""
    if attribute.scale is None:
        return f"{attribute.edges[first]:.4g}", f"{attribute.edges[end]:.4g}"
    low, high = attribute.bin_limits
    return attribute.text(low[first]), attribute.text(high[end - 1])


def gather(counts: np.ndarray, *groups: Sequence[CellGroup]) -> np.ndarray:
    """Sum the counts of a marginal over groups of cells, one sequence of groups an axis."""
    for axis, one in enumerate(groups):
        counts = np.stack([counts.take(g.codes, axis=axis).sum(axis=axis) for g in one], axis=axis)
    return counts
