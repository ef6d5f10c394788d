"""Residuals of marginals: the noise that answers a workload best, and marginals made of them.

Xiao, He, Zhang, Kifer: "An Optimal and Scalable Matrix Mechanism for Noisy Marginals under Convex
Loss Functions", NeurIPS 2023 (ResidualPlanner).

The residual of a marginal A is its table, from which the mean over each of its attributes is taken
away, one after another. Residuals of different marginals are independent of each other, and a
marginal is the sum of those of its subsets, each spread evenly over the attributes that it lacks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from jam_dagster.tables import Clique


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

    @property
    def precisions(self) -> dict[Clique, float]:
        """One over each variance."""
        return {part: 1.0 / variance for part, variance in self.variances.items()}

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


def integer_residual(counts: np.ndarray) -> npt.NDArray[np.int64]:
    """Return the residual of a table, times its number of cells: whole numbers."""
    table = counts.astype(np.int64)
    for axis, size in enumerate(counts.shape):
        table = size * table - table.sum(axis=axis, keepdims=True)
    return table


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
