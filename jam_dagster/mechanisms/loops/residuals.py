"""Residuals of marginals: the noise that answers a workload best, and marginals made of them.

Xiao, He, Zhang, Kifer: "An Optimal and Scalable Matrix Mechanism for Noisy Marginals under Convex
Loss Functions", NeurIPS 2023 (ResidualPlanner).

The residual of a marginal A is its table, from which the mean over each of its attributes is taken
away, one after another. Residuals of different marginals are independent of each other, and a
marginal is the sum of those of its subsets, each spread evenly over the attributes that it lacks.

A residual times the number of its cells holds whole numbers. So the noise is discrete: all of these
tables have the same, and each is multiplied by a whole number before, the larger, the less noise
its residual gets.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from jam_dagster.tables import Clique

LEAST_SCALE = 32
"""The least scale of an integer table where the largest factor allows it: the noise of a residual
is rounded by less than 2%, and the sum of squared errors grows by less than 0.1%."""

LARGEST_FACTOR = 2**28
"""The largest factor of a residual: scaled tables of 2^34 records are below 2^62."""


@dataclass(frozen=True)
class Strategy:
    """Which residuals are released, and the variance of each.

    Parameters
    ----------
    sizes
        The number of values of each attribute.
    variances
        s_A^2 by marginals. Noise of s_A^2 in each cell of a table, centred as the table is, costs
        ``p_A / s_A^2``, twice its rho where a record comes or goes, with p_A of `squared_norm`.
    """

    sizes: Mapping[str, int]
    variances: Mapping[Clique, float]

    @classmethod
    def best(
        cls, sizes: Mapping[str, int], wanted: Mapping[Clique, float], parts: Sequence[Clique]
    ) -> Strategy:
        """Return the strategy of cost 1 with the least weighted sum of the variances of cells.

        Parameters
        ----------
        sizes
            The number of values of each attribute.
        wanted
            The marginals, with the weights c_B of the variance of each of their cells.
        parts
            The residuals that are released: those of some subsets of the marginals, with at least
            two values for each attribute.

        Notes
        -----
        The sum is ``sum_A v_A s_A^2``, with v_A the weighted sum over the cells of all marginals
        that contain A of what A's noise adds to their variance. For the cost 1 it is least, and T,
        where ``s_A^2 = sqrt(T p_A / v_A)`` and ``sqrt(T) = sum_A sqrt(v_A p_A)``.
        """
        added = dict.fromkeys(parts, 0.0)
        for clique, weight in wanted.items():
            cells = _cells(sizes, clique)
            for part in subsets(clique):
                if part in added:
                    added[part] += weight * cells * _share(sizes, part, clique)
        norms = {part: squared_norm(sizes, part) for part in parts}
        root = math.fsum(math.sqrt(added[part] * norms[part]) for part in parts)
        return cls(sizes, {q: root * math.sqrt(norms[q] / added[q]) for q in parts})

    def scales(self) -> dict[Clique, int]:
        """Return whole numbers in proportion to ``1 / (s_A N_A)``, for tables of N_A cells."""
        wanted = {
            part: 1.0 / (math.sqrt(one) * _cells(self.sizes, part))
            for part, one in self.variances.items()
        }
        unit = min(
            LEAST_SCALE / min(wanted.values()),
            LARGEST_FACTOR * math.sqrt(min(self.variances.values())),
        )
        return {part: max(1, round(unit * one)) for part, one in wanted.items()}

    @classmethod
    def of_scales(cls, sizes: Mapping[str, int], scales: Mapping[Clique, int]) -> Strategy:
        """Return the strategy of integer tables times whole numbers, in units of their noise."""
        return cls(sizes, {q: (one * _cells(sizes, q)) ** -2.0 for q, one in scales.items()})

    def cell_variance(self, clique: Clique) -> float:
        """Return the variance of each cell of a marginal that is reconstructed."""
        return math.fsum(
            self.variances[part] * _share(self.sizes, part, clique)
            for part in subsets(clique)
            if part in self.variances
        )

    def reconstructed(
        self, residuals: Mapping[Clique, np.ndarray], clique: Clique
    ) -> npt.NDArray[np.float64]:
        """Return a marginal from the residuals of its subsets; one that is missing is zero.

        That of no attribute is the number of records.
        """
        whole = np.zeros([self.sizes[name] for name in clique])
        for part in subsets(clique):
            if part in residuals:
                sizes = [self.sizes[name] if name in part else 1 for name in clique]
                spread = residuals[part].reshape(sizes)
                whole += spread * (spread.size / whole.size)
        return whole


def squared_norm(sizes: Mapping[str, int], part: Clique) -> float:
    """Return ``p_A = prod_A (1 - 1 / n_i)``, the squared L2 norm of the residual of a record."""
    return math.prod(1.0 - 1.0 / sizes[name] for name in part)


def subsets(clique: Clique) -> list[Clique]:
    """Return all subsets of a marginal, the smallest first."""
    return [part for degree in range(len(clique) + 1) for part in combinations(clique, degree)]


def integer_residual(counts: np.ndarray, scale: int = 1) -> npt.NDArray[np.int64]:
    """Return the residual of a table, times its number of cells and a scale: whole numbers."""
    table = counts.astype(np.int64)
    for axis, size in enumerate(counts.shape):
        table = size * table - table.sum(axis=axis, keepdims=True)
    # An overflow would part neighbours. Clipped cells are no further apart than before.
    limit = 2**62 // scale
    return scale * table.clip(-limit, limit)


def centred(table: np.ndarray) -> npt.NDArray[np.float64]:
    """Return the residual of a table."""
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table


def _cells(sizes: Mapping[str, int], clique: Clique) -> int:
    return math.prod(sizes[name] for name in clique)


def _share(sizes: Mapping[str, int], part: Clique, clique: Clique) -> float:
    """Return the variance of a marginal's cell by noise of variance 1 in a residual within it."""
    return squared_norm(sizes, part) * (_cells(sizes, part) / _cells(sizes, clique)) ** 2
