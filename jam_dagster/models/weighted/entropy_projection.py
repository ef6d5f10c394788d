"""Entropy projection: the distribution closest to the start that agrees with what was measured."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from jam_dagster.models.graphical.estimator import Convergence
from jam_dagster.models.measurement import Measurement
from jam_dagster.models.weighted.fit import Answer, HistogramFit
from jam_dagster.models.weighted.support import Support
from jam_dagster.tables import Clique

EXTREME = 1e-6
"""The least distance from 0 or 1 of a band that noise moved outside the possible answers."""

SETTLED = 1e-12
"""Distances from what is allowed that are rounding."""


class EntropyProjection(HistogramFit):
    """Weights of least relative entropy to the start among those that agree with measurements.

    Liu, Vietri, Wu 2021b, Algorithm 2: as long as an answer is further than gamma from what was
    measured, the query with the largest error is taken. The weights say a; the nearest answer that
    is allowed is b; and the weights of the records that the query counts are multiplied by
    ``b (1 - a) / ((1 - b) a)``. Then the weights say b, and no other weights that do are closer to
    those before in relative entropy. The queries are the measured cells; a measured marginal is
    one for each of its cells. With ``gamma = 0`` the steps converge to the closest weights that
    agree with all answers, if there are any; with bands around answers they end in them all, at
    weights that are near the closest and need not be them.

    `gamma` is in standard deviations of the noise. Noisy answers may contradict each other, and
    then no weights agree with them all, so `iterations` limits the steps.
    """

    def __init__(
        self,
        support: Support,
        log_start: npt.NDArray[np.float64],
        total: float,
        *,
        gamma: float,
        iterations: int,
    ) -> None:
        super().__init__(support, log_start, total)
        self._gamma = gamma
        self._iterations = iterations
        self._bands: dict[Clique, _Band] = {}

    def _fit(self, measurement: Measurement) -> Convergence:
        newest = self.answers[-1]
        movable = newest.movable(np.isfinite(self.logs))
        band = _Band(newest, measurement, self.total, self._gamma, movable)
        if measurement.clique in self._bands:
            self._bands[measurement.clique].combine(band)
        else:
            self._bands[measurement.clique] = band
        for step in range(self._iterations):
            found = (band.worst(self.weights) for band in self._bands.values())
            error, worst, cell, said = max(found, key=lambda one: one[0])
            if error <= SETTLED:
                return Convergence(step, self.loss)
            self._project(worst, cell, said)
        return Convergence(self._iterations, self.loss)

    def _project(self, band: _Band, cell: int, said: float) -> None:
        """Make the weights give the nearest answer that is allowed for one cell."""
        wanted = band.nearest(cell, said)
        step = np.zeros(len(band.measured))
        step[cell] = math.log(wanted / (1.0 - wanted)) - math.log(said / (1.0 - said))
        self.multiply(band.answer, step)


class _Band:
    """The answers that agree with the measurement of a marginal, as fractions.

    `movable` marks the cells with answers that weights can change.
    """

    def __init__(
        self,
        answer: Answer,
        measurement: Measurement,
        total: float,
        gamma: float,
        movable: npt.NDArray[np.bool_],
    ) -> None:
        self.answer = answer
        self._movable = movable
        self.measured = measurement.values.ravel() / total
        self._sigma = measurement.sigma / total
        self._gamma = gamma

    @property
    def _edges(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """The least and the largest answer that is allowed of each cell.

        A band reaches into what weights can say: where noise put all of it below 0, an answer of
        `EXTREME` is allowed. It is never made narrower, so what agrees with it is left alone.
        """
        reach = self._gamma * self._sigma
        low, high = self.measured - reach, self.measured + reach
        return np.minimum(low, 1.0 - EXTREME), np.maximum(high, EXTREME)

    def combine(self, other: _Band) -> None:
        """Take another measurement of the same: the mean, by what their noise makes them worth."""
        own, new = self._sigma**-2.0, other._sigma**-2.0
        share = new / (own + new)
        self.measured = (1.0 - share) * self.measured + share * other.measured
        self._sigma = (own + new) ** -0.5

    def worst(self, weights: npt.NDArray[np.float64]) -> tuple[float, _Band, int, float]:
        """Return the largest distance from what is allowed, in which cell, and what weights say.

        Where weights say 0 or 1 there is no weight that could be moved. For a cell that holds all
        weight they may say a little less, by rounding.
        """
        said = self.answer.answer(weights)
        low, high = self._edges
        errors = np.maximum(low - said, said - high)
        errors[(said <= 0.0) | (said >= 1.0) | ~self._movable] = 0.0
        cell = int(np.argmax(errors))
        return float(errors[cell]), self, cell, float(said[cell])

    def nearest(self, cell: int, said: float) -> float:
        """Return the answer nearest to what weights say that is allowed."""
        low, high = self._edges
        return float(low[cell] if said < low[cell] else high[cell])
