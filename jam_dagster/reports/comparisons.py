"""The numbers of plots that compare tables: shares of cells or of groups of cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from jam_dagster.reports.cell_groups import CellGroup, cell_groups, gather

if TYPE_CHECKING:
    from jam_dagster.evaluation.released_marginals import ReleasedMarginal
    from jam_dagster.tables.domain.attributes import Attribute
    from jam_dagster.tables.domain.domain import Domain

INTERVAL_SIGMAS = 2.0
"""Half-width of the intervals around released counts, in standard deviations."""


@dataclass(frozen=True)
class Released:
    """A released share with the interval of its noise.

    Noise can make the share negative. `half` is the half-width of two standard deviations.
    """

    share: float
    half: float


@dataclass(frozen=True)
class CellShares:
    """The share of each table in a group of cells.

    A share is None without a public table, or where no estimate covers the attribute.
    """

    group: CellGroup
    synthetic: float
    public: float | None
    released: Released | None = None


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
    for place, group in enumerate(groups):
        estimate = None
        if released is not None and measured is not None:
            half = INTERVAL_SIGMAS * released.sigma * len(group.codes) ** 0.5 / records
            estimate = Released(float(measured[place]), half)
        other = None if others is None else float(others[place])
        rows.append(CellShares(group, float(ours[place]), other, estimate))
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
