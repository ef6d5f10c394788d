"""Multiplicative weights: every measured answer pulls the records that it counts."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from jam_dagster.models.graphical.estimator import Convergence
from jam_dagster.models.measurement import Measurement
from jam_dagster.models.weighted.fit import Answer, HistogramFit
from jam_dagster.models.weighted.model import WeightedTable
from jam_dagster.models.weighted.support import Support


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
