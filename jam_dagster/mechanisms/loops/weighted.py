"""The base of mechanisms that weight records: settings, selection, rounds, refit."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from jam_dagster.mechanisms.context import Inputs
from jam_dagster.mechanisms.loops.base import public_of
from jam_dagster.mechanisms.loops.graphical import alpha_setting
from jam_dagster.mechanisms.loops.queries import QueryMechanism, QueryRun
from jam_dagster.mechanisms.loops.settings import recorded_settings
from jam_dagster.mechanisms.loops.transcript import Transcript
from jam_dagster.models.graphical.estimator import Convergence
from jam_dagster.models.measurement import Measurement
from jam_dagster.models.weighted.fit import HistogramFit
from jam_dagster.models.weighted.model import WeightedTable
from jam_dagster.models.weighted.support import (
    Support,
    check_enumerable,
    log_frequencies,
    public_records,
)
from jam_dagster.tables import Domain, MarginalSource, Workload

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class HistogramMechanism(QueryMechanism):
    """A mechanism with a distribution over a support as its model.

    Attributes
    ----------
    rounds, alpha
        See `QueryMechanism`. T is 10 by default, as in the code of Liu et al. Few rounds suit small
        budgets: the weights keep the noise of every measurement.

    Choices where the papers are silent: a marginal is measured again only after all have been
    measured equally often, and one with a fixed answer for all weights (all records lie in one
    cell) is no candidate.
    """

    alpha: float = alpha_setting(0.5)

    page: ClassVar[str] = "histograms.md"
    choices: ClassVar[dict[str, Any]] = {"queries": "marginal", "selection": "exponential"}

    @abstractmethod
    def start(
        self, support: Support, log_start: npt.NDArray[np.float64], total: float
    ) -> HistogramFit:
        """Return the weights before any measurement."""

    def check(self, domain: Domain, workload: Workload, rho: float) -> None:
        """Raise if the mechanism cannot start, before anything is reserved or counted."""
        super().check(domain, workload, rho)
        if not self.uses_public:
            check_enumerable(domain)

    def begin(self, given: Inputs) -> _Run:
        """Return a run with the weights before any measurement."""
        return _Run(self, given)

    def weighed(
        self, domain: Domain, public: MarginalSource | None
    ) -> tuple[Support, npt.NDArray[np.float64]]:
        """Return the records to weight, and the logarithms of their initial weights."""
        if self.uses_public:
            table = public_records(domain, public_of(self, public))
            support, counts = Support.of_records(table)
            return support, log_frequencies(counts)
        support = Support.of_domain(domain)
        return support, np.zeros(support.size)

    @classmethod
    def refit(
        cls, transcript: Transcript, domain: Domain, public: MarginalSource | None = None
    ) -> WeightedTable:
        """Rebuild the model of a transcript; see `jam_dagster.mechanisms.refit`."""
        mechanism = cls(**recorded_settings(cls, transcript))
        support, log_start = mechanism.weighed(domain, public)
        fitted = mechanism.start(support, log_start, transcript.records)
        for measurement in transcript.measurements:
            fitted.add(measurement)
        return fitted.released


class _Run(QueryRun):
    """The run of a mechanism that weights records, with the marginals that weights can change."""

    def __init__(self, mechanism: HistogramMechanism, given: Inputs) -> None:
        support, log_start = mechanism.weighed(given.domain, given.public)
        super().__init__(mechanism, given)
        self.fitted = mechanism.start(support, log_start, self.records)
        self.open = np.array([support.occupied(clique).sum() > 1 for clique in self.closure])

    @property
    def model(self) -> WeightedTable:
        """The weights after all measurements so far."""
        return self.fitted.model

    @property
    def released(self) -> WeightedTable:
        """The weights that the run returns."""
        return self.fitted.released

    def fit(self, measurement: Measurement) -> Convergence:
        """Fit the weights to a further measurement."""
        return self.fitted.add(measurement)

    def candidates(self) -> list[int]:
        """Return the numbers of the marginals that were measured least often."""
        if not self.open.any():
            return []
        least = self.times[self.open].min()
        return np.flatnonzero(self.open & (self.times == least)).tolist()
