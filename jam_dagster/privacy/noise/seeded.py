"""Seeded noise in NumPy, for research and reproduction; its output may not be released."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jam_dagster.errors import SpecificationError
from jam_dagster.privacy.accounting import exponential_epsilon, gaussian_sigma
from jam_dagster.privacy.noise.base import (
    check_counts,
    check_selection,
    check_sensitivity,
    check_values,
)
from jam_dagster.privacy.noise.thresholds import least_threshold


@dataclass(frozen=True)
class SeededNoise:
    """Noise that derives from the seed and the step alone.

    Repeating a step, in this process or in another, gives the same answer, whatever was drawn
    before it.

    Parameters
    ----------
    seed : int
        0 or more.

    Raises
    ------
    SpecificationError
        If the seed is not a whole number, or is negative.
    """

    seed: int

    def __post_init__(self) -> None:
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise SpecificationError(
                f"the seed must be a whole number, 0 or more, got {self.seed!r}"
            )

    @property
    def name(self) -> str:
        """The backend's name."""
        return "numpy"

    @property
    def releasable(self) -> bool:
        """False: a seed can be guessed, and floating-point noise leaks."""
        return False

    @property
    def repeatable(self) -> bool:
        """True."""
        return True

    def gaussian_counts(
        self, counts: NDArray[np.int64], l2_sensitivity: float, rho: float, step: str
    ) -> tuple[NDArray[np.int64], float]:
        """Add discrete Gaussian noise to a marginal; see `Noise.gaussian_counts`."""
        counts = check_counts(counts)
        sigma = gaussian_sigma(check_sensitivity(l2_sensitivity), rho)
        noise = discrete_gaussian(self._generator(step), sigma, counts.size)
        return counts + noise.reshape(counts.shape), sigma

    def gaussian_values(
        self, values: NDArray[np.float64], l2_sensitivity: float, rho: float, step: str
    ) -> tuple[NDArray[np.float64], float]:
        """Add Gaussian noise to real statistics; see `Noise.gaussian_values`."""
        values = check_values(values, name="values")
        sigma = gaussian_sigma(check_sensitivity(l2_sensitivity), rho)
        return values + self._generator(step).normal(0.0, sigma, values.shape), sigma

    def select_values(
        self,
        counts: NDArray[np.int64],
        l2_sensitivity: float,
        rho: float,
        delta: float,
        values: int,
        rows: int,
        step: str,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], float, int]:
        """Publish values whose noisy count reaches a threshold; see `Noise.select_values`."""
        check_selection(delta, values, rows)
        sigma = gaussian_sigma(check_sensitivity(l2_sensitivity), rho)
        threshold = least_threshold(sigma, delta, values, rows)
        noisy = counts + discrete_gaussian(self._generator(step), sigma, counts.size)
        chosen = np.flatnonzero(noisy >= threshold)
        return chosen, noisy[chosen], sigma, threshold

    def select(self, scores: NDArray[np.float64], rho: float, sensitivity: float, step: str) -> int:
        """Choose by the exponential mechanism; see `Noise.select`.

        The largest of ``epsilon score / (2 sensitivity)`` plus standard Gumbel noise follows
        the exponential mechanism's distribution.
        """
        scores = check_values(scores, name="scores")
        scaled = scores * (exponential_epsilon(rho) / (2.0 * check_sensitivity(sensitivity)))
        return int(np.argmax(scaled + self._generator(step).gumbel(size=scaled.shape)))

    def _generator(self, step: str) -> np.random.Generator:
        digest = hashlib.sha256(step.encode()).digest()
        words = [int.from_bytes(digest[i : i + 4], "little") for i in range(0, 32, 4)]
        return np.random.default_rng([self.seed, *words])


def discrete_gaussian(rng: np.random.Generator, sigma: float, size: int) -> NDArray[np.int64]:
    """Sample the discrete Gaussian, ``P(k)`` proportional to ``exp(-k^2 / (2 sigma^2))``.

    Canonne, Kamath and Steinke 2020, Algorithm 3, in floating point: a discrete Laplace proposal
    of scale ``t = floor(sigma) + 1`` is kept with probability
    ``exp(-(|y| - sigma^2 / t)^2 / (2 sigma^2))``.
    """
    t = math.floor(sigma) + 1.0
    stop = -math.expm1(-1.0 / t)
    out = np.empty(size, dtype=np.int64)
    filled = 0
    while filled < size:
        # Four proposals for three places: about three in four or more are kept.
        number = (size - filled) * 4 // 3 + 16
        proposal = rng.geometric(stop, number) - rng.geometric(stop, number)
        keep_log = -((np.abs(proposal) - sigma**2 / t) ** 2) / (2.0 * sigma**2)
        kept = proposal[np.log1p(-rng.random(number)) <= keep_log][: size - filled]
        out[filled : filled + kept.size] = kept
        filled += kept.size
    return out
