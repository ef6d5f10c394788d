"""The marginals that people look at, of one column and of two, and the noise of their counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from jam_dagster.models.measurement import MEAN_ABSOLUTE_NORMAL

if TYPE_CHECKING:
    from jam_dagster.tables.domain.domain import Clique, Domain

MOST_CELLS = 1_000_000
"""Largest number of cells of a pair that is compared."""

MOST_NOISE = 1.0
"""The L1 distance, of at most 2, that the noise of counts may be for a table to be compared."""

LEVEL = 0.05
"""The chance, at most, that a column of a true table is found to differ from its counts."""


@dataclass(frozen=True)
class CountNoise:
    """The noise of `cells` counts, each with a standard deviation of `sigma` of the records."""

    sigma: float
    cells: int

    @property
    def mean(self) -> float:
        """The expected L1 distance of the counts from the true ones: ``k sigma sqrt(2 / pi)``."""
        return MEAN_ABSOLUTE_NORMAL * self.sigma * self.cells

    def most(self, level: float) -> float:
        """Return a distance that noise alone exceeds with a chance of at most `level`.

        Chernoff's bound for a sum of k half-normals:
        ``min_s (k (s^2 / 2 + log(2 Phi(s))) - log(level)) / s``, in sigma.
        """
        s, log_moment = _LOG_MOMENTS
        return self.sigma * float(((self.cells * log_moment - math.log(level)) / s).min())


def _log_moments() -> tuple[np.ndarray, np.ndarray]:
    """Return values of s, and ``log E exp(s |Z|)`` for each."""
    s = np.geomspace(1e-3, 10.0, 400)
    phi = np.array([NormalDist().cdf(one) for one in s.tolist()])
    return s, s**2 / 2 + np.log(2.0 * phi)


_LOG_MOMENTS = _log_moments()


def columns_and_pairs(domain: Domain) -> list[Clique]:
    """Return the one-way marginals, and the two-way ones of at most `MOST_CELLS`."""
    pairs = (pair for pair in combinations(domain.names, 2) if domain.size(pair) <= MOST_CELLS)
    return [*((name,) for name in domain.names), *pairs]
