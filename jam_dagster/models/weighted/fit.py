"""Distributions over a support that follow measurements.

Multiplicative weights let every measured answer pull the records that it counts. Entropy
projection takes the distribution closest to the start that agrees with the answers.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from jam_dagster.models.graphical.estimator import Convergence
from jam_dagster.models.measurement import Measurement
from jam_dagster.models.weighted.model import WeightedTable
from jam_dagster.models.weighted.support import Support
from jam_dagster.tables import Clique

LARGEST_STEP = 690.0
"""Largest step by which weights are multiplied as they are: the exponential of 710 overflows, and
a weight that so large a factor brings back has lost its digits."""

EXTREME = 1e-6
"""The least distance from 0 or 1 of a band that noise moved outside the possible answers."""

SETTLED = 1e-12
"""Distances from what is allowed that are rounding."""


class Answer:
    """A measurement of a marginal, as fractions of the records.

    Answers are clipped to [0, 1] as the papers' are: however large the noise, no update is larger
    than by a factor of ``exp(1/2)``.
    """

    def __init__(self, support: Support, measurement: Measurement, total: float) -> None:
        self.clique = measurement.clique
        self.wanted = np.clip(measurement.values.ravel() / total, 0.0, 1.0)
        self._support = support

    @property
    def codes(self) -> npt.NDArray[np.integer[Any]]:
        """The entry of `wanted` that each record adds to."""
        return self._support.codes(self.clique)

    def answer(self, weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return what the weights say, the shape of `wanted`."""
        size = len(self.wanted)
        return np.bincount(self.codes, weights=weights, minlength=size).astype(np.float64)

    def difference(self, weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return what was measured less what the weights say."""
        return self.wanted - self.answer(weights)

    @cached_property
    def _occupied(self) -> npt.NDArray[np.bool_]:
        size = len(self.wanted)
        occupied: npt.NDArray[np.bool_] = np.bincount(self.codes, minlength=size) > 0
        return occupied

    def movable(self, held: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Return of which cells the weights can change the answer, the shape of `wanted`.

        A cell that no record with weight is in stays at 0, and one that all of them are in at 1.
        """
        size = len(self.wanted)
        inside = np.bincount(self.codes[held], minlength=size)
        movable: npt.NDArray[np.bool_] = (inside > 0) & (inside < np.count_nonzero(held))
        return movable

    def error(self, weights: npt.NDArray[np.float64]) -> float:
        """Return the largest absolute difference in a cell that holds records.

        No weights can correct errors in the others.
        """
        return float(np.abs(self.difference(weights)).max(where=self._occupied, initial=0.0))


class HistogramFit(ABC):
    """Weights of a support, and the measurements that they follow.

    Weights are kept twice: directly, for sums, and as logarithms, which do not overflow or
    vanish; every measurement begins with the weights that the logarithms give.
    """

    def __init__(self, support: Support, log_start: npt.NDArray[np.float64], total: float) -> None:
        self.support = support
        self.total = float(total)
        self.answers: list[Answer] = []
        self.logs = np.array(log_start, dtype=np.float64)
        self._settle()

    def _settle(self) -> None:
        """Take the weights from the logarithms, which are shifted so that the largest is 0."""
        self.logs -= self.logs.max()
        self._weigh()
        self.model = WeightedTable(self.support, self.total, self.logs.copy(), self.cliques)

    def _weigh(self) -> None:
        """Take the weights from the logarithms as they are."""
        weights = np.exp(self.logs - self.logs.max())
        self.weights = weights / weights.sum()

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The marginals measured, each once."""
        return tuple(dict.fromkeys(answer.clique for answer in self.answers))

    def add(self, measurement: Measurement) -> Convergence:
        """Take one measurement more into the weights."""
        self.answers.append(Answer(self.support, measurement, self.total))
        convergence = self._fit(measurement)
        self._settle()
        return convergence

    @abstractmethod
    def _fit(self, measurement: Measurement) -> Convergence:
        """Change the weights; the newest of `answers` is the measurement's."""

    def multiply(self, answer: Answer, step: npt.NDArray[np.float64]) -> None:
        """Multiply the weights of the records of each cell of an answer by ``exp(step)``.

        Steps are finite; those of cells that no record is in have no effect.
        """
        codes = answer.codes
        self.logs += step[codes]
        if step.max() > LARGEST_STEP:
            # The factor is no float, and infinity times a weight of 0 is no number.
            self._weigh()
            return
        self.weights *= np.exp(step)[codes]
        self.weights /= self.weights.sum()

    @property
    def released(self) -> WeightedTable:
        """The model to release."""
        return self.model

    @property
    def loss(self) -> float:
        """Sum over all measurements of ``||model - measured||_2^2 / (2 n^2)``."""
        squares = (answer.difference(self.weights) ** 2 for answer in self.answers)
        return math.fsum(float(one.sum()) for one in squares) / 2.0


class MultiplicativeWeights(HistogramFit):
    """Weights that follow measurements by multiplicative updates.

    A query q that was answered with m, a fraction, while the weights say a, multiplies the weight
    of record x by ``exp(q(x) (m - a) / 2)`` (Hardt et al. 2012, Figure 1; Liu et al. 2021a,
    Algorithm 1). A measured marginal is one such update for each of its cells, all at once.

    In every one of the `passes` over the measurements the new one is first, then those of the
    others whose error is at least half of its error now (Liu et al. 2021a, Appendix C.3); each
    update uses the weights that the one before left. With no pass the new one is used once, and the
    others never again: MWEM without past queries (Liu, Vietri, Wu 2021b, Figure 7).
    """

    def __init__(
        self,
        support: Support,
        log_start: npt.NDArray[np.float64],
        total: float,
        *,
        passes: int,
        average: bool,
    ) -> None:
        super().__init__(support, log_start, total)
        self._passes = passes
        self._sum = np.zeros(support.size) if average else None

    def _fit(self, measurement: Measurement) -> Convergence:
        newest = self.answers[-1]
        past_ones = self.answers[-2::-1] if self._passes else []
        updates = 0
        for _ in range(max(self._passes, 1)):
            error = newest.error(self.weights)
            self._update(newest)
            updates += 1
            for past in past_ones:
                if past.error(self.weights) >= 0.5 * error:
                    self._update(past)
                    updates += 1
        if self._sum is not None:
            self._sum += self.weights
        return Convergence(updates, self.loss)

    def _update(self, answer: Answer) -> None:
        step = 0.5 * answer.difference(self.weights)
        self.multiply(answer, step)

    @property
    def released(self) -> WeightedTable:
        """The weights to release: the last, or the mean of all."""
        if self._sum is None or not self.answers:
            return self.model
        # Records that never had weight have none on average.
        with np.errstate(divide="ignore"):
            logs = np.log(self._sum / len(self.answers))
        return WeightedTable(self.support, self.total, logs, self.cliques)


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
