"""Errors beside the mean L1 distance: of single counting queries, and in sampled records."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jam_dagster.evaluation.sample_equivalent import SampleErrors, log_choose
from jam_dagster.tables.codes.marginals import marginal_blocks

if TYPE_CHECKING:
    from jam_dagster.evaluation.independent_table import IndependentTable
    from jam_dagster.tables import MarginalSource, Workload


class CellErrors(NamedTuple):
    """The largest, the mean and the root mean square error of all cells, in parts of the records.

    The largest one is the measure of PMW^Pub (Liu et al. 2021a) and of GEM (Liu et al. 2021b),
    which also has the other two.
    """

    max: float
    mean: float
    rmse: float


def cell_errors(
    private: MarginalSource, table: MarginalSource | IndependentTable, workload: Workload
) -> CellErrors:
    """Return the exact errors of a table or model, scaled to the private records; restricted.

    The weights of the workload do not count.
    """
    records, cells, largest, total, squares = private.records, 0, 0.0, 0.0, 0.0
    for block in marginal_blocks(private, workload.cliques):
        answers = table.marginals(block)
        for clique, counts in block.items():
            scaled = answers[clique] * (records / max(1, table.records))
            apart = np.abs(counts - scaled) / records
            cells += counts.size
            largest = max(largest, float(apart.max()))
            total += float(apart.sum())
            squares += float(np.square(apart).sum())
    return CellErrors(largest, total / cells, math.sqrt(squares / cells))


_MOST_SHARE = 1000
"""The largest sample, as a multiple of the records."""


class DrawnErrors(SampleErrors):
    """The expected errors of records drawn with replacement: AIM's Appendix C, exactly.

    McKenna et al. 2022 approximate the binomial mean absolute deviation of a cell.
    """

    def expected(self, rows: int) -> float:
        """Return the expected mean workload error of K records, as a fraction of them.

        Notes
        -----
        The number X of drawn records in a cell of share p is binomial, with
        ``E|X - K p| = 2 s C(K, s) p^s (1 - p)^(K - s + 1)`` for ``s = ceil(K p)`` (De Moivre).
        """
        n, c = self.records, self._counts
        s = -(-rows * c // n)
        chance = np.exp(
            log_choose(np.full_like(s, rows), s)
            + s * np.log(c / n)
            + (rows - s + 1) * np.log1p(-c / n)
        )
        return float(self._often @ (2 * s * chance)) / rows

    def share(self, error: float) -> float:
        """Return K / n for the largest sample with an expected error of at least `error`."""
        return self.equivalent(error, most=_MOST_SHARE * self.records) / self.records
