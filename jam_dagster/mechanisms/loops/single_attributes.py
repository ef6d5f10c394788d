"""The first phase of TILT without a public table: single attributes, for what each teaches.

**What an attribute teaches.** The uniform distribution is off by something in every attribute. With
a price rho for one of k values, the part of it that is left after its measurement is taken to be

    1 / sqrt(1 + a rho),    a = c n^2 / (k^1.5 sigma_1^2),

sigma_1 the noise of a measurement at rho = 1. The noise of all cells together grows with k, and the
power would be 2 if all values were alike; most attributes have few large ones.

**Prices.** Let w be the workload's weight of the marginals that hold an attribute: each of them has
its error. The sum of w / sqrt(1 + a rho) over attributes is least, for prices that add up to R,
where its slope -w a / (2 (1 + a rho)^1.5) is the same in all that are measured:

    rho = max(0, (w a / mu)^(2/3) - 1) / a,    mu such that all add up to R.

An attribute of which the first bit would cost more than it teaches has no price. One of a single
value, which counts the records, is no part of the workload here. Prices follow from the domain, the
workload, the budget and the number of records, public or released, and from no other private data.

**The whole phase** gets f = min(1, 0.9 / D + 5 r) of the budget: D is the mean degree of the
workload, as an error of D attributes holds those of D single ones, and r the mean part that would
be left if single attributes got all. From 0.9 on they do, so a workload of single attributes
spends all on them.

**What is kept of a measurement.** Most of a distribution is in few values. Let the true fractions
be a draw of a Dirichlet distribution that is worth `WORTH` records, and each be measured with
normal noise of sigma. Independent gamma variables of shape s = `WORTH` / k are such a draw once
they add up to one, at any scale. So the mean of value v, given what was measured, is

    sigma g(y_v / sigma - h),    g(x) = E[u],  u > 0 of density ~ u^(s - 1) exp(-(u - x)^2 / 2),

with h, the scale, such that all add up to one. With g(x) = max(x, 0) this is the projection to the
simplex; g is smoother, and less where x is of the noise's size. It reads the noisy answer alone, so
it costs no privacy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from jam_dagster.mechanisms.base import attributes_of
from jam_dagster.mechanisms.context import SMALLEST_RHO
from jam_dagster.models.graphical.estimator import Convergence
from jam_dagster.models.measurement import Measurement
from jam_dagster.models.tilted.fit import TiltFit
from jam_dagster.tables import Clique, Domain, Workload

Floats = npt.NDArray[np.float64]

LEARNT = 0.7
"""c: a single attribute is half learnt once c n^2 rho / sigma_1^2 is 3 k^1.5."""

POWER = 1.5
"""The power of the number of values."""

ALL = 0.9
"""From this part of the budget on single attributes get all: the rest is too little for pairs.
For a workload of degree D they get a D-th of it at least."""

MORE = 5.0
"""How their part grows with what would be left to learn if they had all."""

WASTED = 0.01
"""A price of less than this part of an equal one measures nothing."""

WORTH = 1.5
"""The records that the sparse distribution is worth. From 1 to 2 the error differs by 2%."""

LOWEST, HIGHEST = -40.0, 12.0
"""The bounds of the table of g. Beyond them it is s / |x| or x + (s - 1) / x."""

BISECTIONS = 100
"""The steps to a scale, or to a slope."""

POINTS = np.concatenate([np.logspace(-6, -1, 120), 0.1 + 0.04 * np.arange(1, 501)])
"""The values of u in the integral. Less than the first has the mass of a gamma variable there."""


@dataclass(frozen=True)
class SingleAttributes:
    """The single attributes that are measured first, each with its price.

    `whole` says whether they spend all of the budget.
    """

    prices: Sequence[tuple[Clique, float]]
    whole: bool

    @classmethod
    def of(
        cls, domain: Domain, workload: Workload, *, records: float, sigma: float, rho: float
    ) -> SingleAttributes:
        """Return the prices within `rho`; `sigma` is the noise of a measurement at rho = 1."""
        singles = [(name,) for name in attributes_of(workload)]
        sizes = np.array([domain.size(single) for single in singles], dtype=np.float64)
        teaching = LEARNT * (records / sigma) ** 2 / sizes**POWER
        weights = _weights(workload, singles)
        everything = water_filled(teaching, weights, rho)
        left = float(weights @ (1.0 / np.sqrt(1.0 + teaching * everything)))
        share = ALL / _degree(workload) + MORE * left
        whole = share >= ALL
        prices = everything if whole else water_filled(teaching, weights, share * rho)
        least = max(WASTED * rho / len(singles), SMALLEST_RHO)
        # The digits after the sixth differ between processors.
        kept = [
            (single, float(f"{price:.6g}"))
            for single, price in zip(singles, prices, strict=True)
            if price >= least
        ]
        return cls(kept, whole)

    @property
    def paid(self) -> float:
        """The rho of all prices."""
        return sum(price for _, price in self.prices)


@dataclass(frozen=True)
class ExpectedAttributes:
    """A fit that follows what single attributes are expected to be."""

    fitted: TiltFit

    def add(self, measurement: Measurement) -> Convergence:
        """Follow the sparse mean of a measurement, and refit."""
        total = self.fitted.total
        expected = sparse_mean(measurement.values / total, measurement.sigma / total)
        return self.fitted.follow(measurement.clique, expected, measurement.sigma)


def _weights(workload: Workload, singles: Sequence[Clique]) -> Floats:
    """Return the workload's weight of the marginals that hold each attribute; they add up to 1."""
    held = {name: 0.0 for (name,) in singles}
    for clique, weight in zip(workload.cliques, workload.weights, strict=True):
        for name in clique:
            held[name] += weight
    weights = np.array(list(held.values()))
    found: Floats = weights / weights.sum()
    return found


def _degree(workload: Workload) -> float:
    """Return the mean degree of the workload's marginals."""
    degrees = [len(clique) for clique in workload.cliques]
    return float(np.average(degrees, weights=workload.weights))


def water_filled(teaching: Floats, weights: Floats, rho: float) -> Floats:
    """Return prices that add up to `rho` and leave the least to learn; see the module."""
    low, high = 0.0, float((weights * teaching).max())
    prices = np.zeros(len(teaching))
    for _ in range(BISECTIONS):
        slope = 0.5 * (low + high)
        prices = np.maximum((weights * teaching / slope) ** (2.0 / 3.0) - 1.0, 0.0) / teaching
        if prices.sum() > rho:
            low = slope
        else:
            high = slope
    summed = float(prices.sum())
    if summed == 0.0:
        # So little that no slope in floats spends it: the attribute that teaches most gets it.
        return np.where(np.arange(len(teaching)) == (weights * teaching).argmax(), rho, 0.0)
    found: Floats = prices * (rho / summed)
    return found


def sparse_mean(measured: Floats, sigma: float) -> Floats:
    """Return the expected distribution of one that was measured as fractions with such noise."""
    shape = WORTH / measured.size
    at, table = _table_of(shape)
    scaled = measured / sigma

    def means(scale: float) -> Floats:
        x = scaled - scale
        inner: Floats = np.interp(x, at, table)
        with np.errstate(divide="ignore"):
            outer = np.where(x > 0.0, x + (shape - 1.0) / x, -shape / x)
        return np.where((x > HIGHEST) | (x < LOWEST), outer, inner)

    # The largest alone is more than one at the lowest scale; all together are less at the highest.
    low = float(scaled.max()) - 2.0 / sigma - HIGHEST
    high = float(scaled.max()) + 50.0 * measured.size
    for _ in range(BISECTIONS):
        scale = 0.5 * (low + high)
        if sigma * float(means(scale).sum()) > 1.0:
            low = scale
        else:
            high = scale
    expected = means(0.5 * (low + high))
    found: Floats = expected / expected.sum()
    return found


@lru_cache(maxsize=64)
def _table_of(shape: float) -> tuple[Floats, Floats]:
    """Return the points of the table of g, and g at them."""
    at = np.arange(LOWEST, HIGHEST + 0.05, 0.1)
    table = _means(at, shape)
    for one in (at, table):
        one.setflags(write=False)
    return at, table


def _means(at: Floats, shape: float) -> Floats:
    """Return g at some points."""
    logs = (shape - 1.0) * np.log(POINTS) - 0.5 * np.square(POINTS - at[:, None])
    logs += np.log(np.gradient(POINTS))
    below = shape * np.log(POINTS[0]) - np.log(shape) - 0.5 * np.square(at)
    top = np.maximum(logs.max(axis=1), below)
    weights = np.exp(logs - top[:, None])
    means: Floats = weights @ POINTS / (weights.sum(axis=1) + np.exp(below - top))
    return means
