"""Groups of an attribute's cells for plots: single cells, or several where there are many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from jam_dagster.tables.domain.attributes import Attribute
from jam_dagster.tables.domain.binned import BinnedAttribute


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
    values = attribute.size - attribute.nullable
    if isinstance(attribute, BinnedAttribute):
        groups = _neighbours(attribute, values, limit)
    elif values <= limit:
        groups = [CellGroup(attribute.labels[code], (code,)) for code in range(values)]
    elif attribute.ordered:
        groups = _ranges(attribute, limit)
    else:
        order = np.argsort(-weights[:values], kind="stable")
        kept, others = sorted(order[: limit - 1].tolist()), sorted(order[limit - 1 :].tolist())
        groups = [CellGroup(attribute.labels[code], (code,)) for code in kept]
        groups.append(CellGroup(f"({len(others)} others)", tuple(others)))
    if attribute.null_code is not None:
        label = attribute.labels[attribute.null_code]
        groups.append(CellGroup(label, (attribute.null_code,), start=label))
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
