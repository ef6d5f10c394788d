"""Errors of single counting queries: every cell of every marginal of a workload."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jam_dagster.tables.codes.marginals import marginal_blocks

if TYPE_CHECKING:
    from jam_dagster.evaluation.independent_table import IndependentTable
    from jam_dagster.tables import MarginalSource, Workload


class CellErrors(NamedTuple):
    """The largest, the mean and the root mean square error of all cells, in parts of the records.

    The largest one is the measure of PMW^Pub (Liu et al. 2021a) and of GEM (Liu et al. 2021b),
    which also has the other two.
    """

    largest: float
    mean: float
    rmse: float


def cell_errors(
    private: MarginalSource,
    tables: Sequence[MarginalSource | IndependentTable],
    workload: Workload,
) -> list[CellErrors]:
    """Return the exact errors of several tables or models; restricted.

    Parameters
    ----------
    private
        The true table.
    tables
        Tables or models over the same domain, whose answers are scaled to its records.
    workload
        The marginals; its weights do not count.
    """
    records, cells = private.records, 0
    largest, total, squares = (np.zeros(len(tables)) for _ in range(3))
    for block in marginal_blocks(private, workload.cliques):
        cells += sum(counts.size for counts in block.values())
        for place, table in enumerate(tables):
            answers = table.marginals(block)
            for clique, counts in block.items():
                scaled = answers[clique] * (records / max(1, table.records))
                apart = np.abs(counts - scaled) / records
                largest[place] = max(largest[place], float(apart.max()))
                total[place] += float(apart.sum())
                squares[place] += float(np.square(apart).sum())
    return [
        CellErrors(float(top), float(part) / cells, math.sqrt(float(square) / cells))
        for top, part, square in zip(largest, total, squares, strict=True)
    ]
