"""The numbers behind plots that compare tables: shares of cells, gathered where they are many."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from jam_dagster.reports.cell_groups import CellGroup, cell_groups, gather
from jam_dagster.tables.domain.attributes import NumericAttribute

if TYPE_CHECKING:
    from jam_dagster.evaluation.released_marginals import ReleasedMarginal
    from jam_dagster.tables.domain.domain import Attribute, Domain

INTERVAL_SIGMAS = 2.0
"""Half-width of the intervals around released counts, in standard deviations."""


@dataclass(frozen=True)
class Released:
    """A released share with what its noise leaves open.

    Parameters
    ----------
    share
        Of the records; noise can take it below zero.
    half
        Half-width of the interval of two standard deviations.
    """

    share: float
    half: float


@dataclass(frozen=True)
class CellShares:
    """What part of each table lies in a group of cells.

    Parameters
    ----------
    group
        The cells.
    synthetic, public
        Shares of the records; None where there is no public table.
    released
        The released estimate; None where none covers the attribute.
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
    """Return an attribute's distribution in the synthetic and the public table, and as measured.

    Parameters
    ----------
    attribute
        The attribute, k cells.
    synthetic, public
        Counts, shape ``(k,)``, of any number of records; no public ones: None.
    released
        The released estimate.
    records
        n, the number of records that released counts sum to.
    """
    limit = 48 if isinstance(attribute, NumericAttribute) else 14
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
    """A two-way marginal of several tables, in groups of cells that all of them share.

    Parameters
    ----------
    pair
        Two attributes in domain order.
    down, across
        The groups of the first and of the second.
    counts
        By title, each of shape ``(len(down), len(across))``.
    """

    pair: tuple[str, str]
    down: list[CellGroup]
    across: list[CellGroup]
    counts: dict[str, np.ndarray]

    @property
    def shares(self) -> dict[str, np.ndarray]:
        """Shares of the records; what noise took below zero is none."""
        return {title: shares(np.maximum(counts, 0.0)) for title, counts in self.counts.items()}


def pair_cells(
    domain: Domain, pair: tuple[str, str], tables: Mapping[str, np.ndarray]
) -> PairCells:
    """Gather a two-way marginal of several tables into cells that can be seen.

    Parameters
    ----------
    domain
        The domain.
    pair
        Two attributes in domain order.
    tables
        Counts by title, each of the pair's shape and of any number of records.
    """
    total = np.sum([shares(np.maximum(counts, 0.0)) for counts in tables.values()], axis=0)
    down, across = (
        cell_groups(
            attribute,
            total.sum(axis=1 - axis),
            24 if isinstance(attribute, NumericAttribute) else 12,
        )
        for axis, attribute in enumerate(map(domain.attribute, pair))
    )
    gathered = {title: gather(counts, down, across) for title, counts in tables.items()}
    return PairCells(pair, down, across, gathered)


def shares(counts: np.ndarray) -> np.ndarray:
    """Return counts as fractions of their sum; zeros where that is not above zero."""
    total = counts.sum()
    fractions: np.ndarray = counts / total if total > 0 else np.zeros(counts.shape)
    return fractions
