"""Distributions over a support that follow measurements: what all ways to fit them share."""

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
