"""Released estimates of marginals from a transcript, and their agreement with a synthetic table.

Only released measurements are read here, never the private table: comparing a synthetic table with
them is post-processing and costs no privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jam_dagster.mechanisms.loops.transcript import Transcript
    from jam_dagster.models.measurement import Measurement
    from jam_dagster.tables.domain.attributes import Attribute
    from jam_dagster.tables.domain.domain import Clique


@dataclass(frozen=True, eq=False)
class ReleasedMarginal:
    """The best unbiased estimate of a marginal from all private measurements that cover it.

    Noisy counts are float64 of the clique's shape, and may be negative; `sigma` is the standard
    deviation of the noise in each cell, in records. `rounds`, from 0, have a measurement in the
    average.
    """

    clique: Clique
    counts: np.ndarray
    sigma: float
    rounds: tuple[int, ...]

    def as_released(self, attribute: Attribute) -> ReleasedMarginal:
        """Return the counts of an attribute with unreadable values as missing ones; see there."""
        return replace(self, counts=attribute.as_released(self.counts))


def released_marginal(transcript: Transcript, clique: Clique) -> ReleasedMarginal | None:
    """Project every private measurement that covers a marginal onto it, and average them.

    Summing c cells of noise sigma gives noise ``sigma sqrt c``; the projections are independent and
    are weighted by the inverse of their variances.

    Parameters
    ----------
    transcript
        The released measurements.
    clique
        Attribute names in domain order.

    Returns
    -------
    ReleasedMarginal or None
        None if no private measurement covers the marginal.
    """
    total: np.ndarray | None = None
    precision = 0.0
    rounds = []
    for measurement in transcript.measurements:
        if not covers(measurement, clique):
            continue
        summed = tuple(i for i, name in enumerate(measurement.clique) if name not in clique)
        projection = measurement.values.sum(axis=summed)
        cells_summed = measurement.values.size / projection.size
        weight = 1.0 / (measurement.sigma**2 * cells_summed)
        total = weight * projection if total is None else total + weight * projection
        precision += weight
        rounds.append(measurement.round)
    if total is None:
        return None
    return ReleasedMarginal(clique, total / precision, 1.0 / math.sqrt(precision), tuple(rounds))


def covers(measurement: Measurement, clique: Clique) -> bool:
    """Return whether a private measurement covers a marginal."""
    return measurement.source == "private" and set(clique) <= set(measurement.clique)


@dataclass(frozen=True, eq=False)
class Agreement:
    """A synthetic one-way marginal and the released one.

    All arrays have shape ``(size,)``, one entry a cell, in records of n: counts of the synthetic
    table are scaled to that. `noise_allowance` is the largest distance of a released count from the
    truth by noise alone, `tolerance` the largest allowed distance of a synthetic count from the
    released one; see `one_way_agreement`.
    """

    attribute: str
    released: ReleasedMarginal
    synthetic: np.ndarray
    model: np.ndarray
    noise_allowance: float
    tolerance: np.ndarray
    records: int

    @property
    def use_of_tolerance(self) -> np.ndarray:
        """The distance as a share of the tolerance: above 1 the table disagrees."""
        share: np.ndarray = np.abs(self.synthetic - self.released.counts) / self.tolerance
        return share

    @property
    def distance(self) -> float:
        """L1 distance between synthetic and released counts, a fraction of the records."""
        return float(np.abs(self.synthetic - self.released.counts).sum() / self.records)

    @property
    def misfit(self) -> float:
        """The model's distance from the measurement, beyond its noise.

        The largest cell's ``|model - released|`` less the noise allowance, a fraction of the
        records, 0 if noise explains it all. It grows if other measurements, mostly public ones,
        contradict this one.
        """
        beyond = np.abs(self.model - self.released.counts) - self.noise_allowance
        return float(max(0.0, beyond.max()) / self.records)


def one_way_agreement(
    released: ReleasedMarginal,
    *,
    model: np.ndarray,
    synthetic: np.ndarray,
    records: int,
    level: float,
    summed: int = 1,
) -> Agreement:
    """Set the tolerance for a one-way marginal and compare a synthetic table with it.

    The released estimate and the model's counts have k cells, and sum to n `records`; the synthetic
    counts are of m rows. A released count sums at most `summed` cells with noise of `sigma`. The
    tolerance is, cell by cell, ``max(z sigma sqrt(summed), |model - released|) + t``: the noise of
    the measurement or the residual of the fit, plus the error of sampling m rows.

    Here ``z`` is the normal quantile at ``level / (2 k)``, and t is Bernstein's bound at the same
    level for the count of a cell with probability p among m independent rows, scaled to n: with
    ``L = log(2 k / level)``, ``t = (L / 3 + sqrt(L^2 / 9 + 2 L m p (1 - p)) + 1) n / m``. The one
    more row covers rounding samplers. By the triangle inequality a table of rows drawn from the
    model exceeds the tolerance in some cell with probability at most `level`, for any data, noise
    and fit.
    """
    cells = released.counts.size
    rows = float(synthetic.sum())
    sigma = released.sigma * math.sqrt(summed)
    noise_allowance = NormalDist().inv_cdf(1.0 - level / (2 * cells)) * sigma
    if rows > 0:
        probability = np.clip(model / model.sum(), 0.0, 1.0)
        log_term = math.log(2 * cells / level)
        variance = rows * probability * (1.0 - probability)
        sampling = log_term / 3 + np.sqrt(log_term**2 / 9 + 2 * log_term * variance) + 1.0
        sampling *= records / rows
        scaled = synthetic * (records / rows)
    else:
        sampling = np.zeros(cells)
        scaled = np.zeros(cells)
    residual = np.abs(model - released.counts)
    return Agreement(
        attribute=released.clique[0],
        released=released,
        synthetic=scaled,
        model=model,
        noise_allowance=noise_allowance,
        tolerance=np.maximum(noise_allowance, residual) + sampling,
        records=records,
    )
