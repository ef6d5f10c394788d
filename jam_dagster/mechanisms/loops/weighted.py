"""The base of mechanisms that weight records: settings, selection, rounds, refit."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from jam_dagster.mechanisms.base import public_of
from jam_dagster.mechanisms.context import Context
from jam_dagster.mechanisms.loops.graphical import alpha_setting
from jam_dagster.mechanisms.loops.queries import QueryMechanism
from jam_dagster.models.weighted.fit import HistogramFit
from jam_dagster.models.weighted.model import WeightedTable
from jam_dagster.models.weighted.support import (
    Support,
    check_enumerable,
    log_frequencies,
    public_records,
)
from jam_dagster.tables import Clique, Domain, MarginalSource, Workload


@dataclass(frozen=True)
class HistogramMechanism(QueryMechanism):
    """A mechanism with a distribution over a support as its model.

    Attributes
    ----------
    rounds, alpha
        See `QueryMechanism`. T is 10 by default, as in the code of Liu et al. Few rounds suit small
        budgets: the weights keep the noise of every measurement.

    Choices where the papers are silent: a marginal is measured again only after all have been
    measured equally often, and one with a fixed answer for all weights (all records are in one
    cell) is no candidate.
    """

    alpha: float = alpha_setting(0.5)

    page: ClassVar[str] = "histograms.md"
    choices: ClassVar[dict[str, Any]] = {"queries": "marginal", "selection": "exponential"}

    @abstractmethod
    def weigh(
        self, support: Support, log_start: npt.NDArray[np.float64], total: float
    ) -> HistogramFit:
        """Return the weights before any measurement."""

    def check(self, domain: Domain, workload: Workload, rho: float) -> None:
        """Raise if the mechanism cannot start, before anything is reserved or counted."""
        super().check(domain, workload, rho)
        if not self.uses_public:
            check_enumerable(domain)

    def start(self, ctx: Context) -> _Weights:
        """Return the weights before any measurement."""
        support, log_start = self.weighed(ctx.domain, ctx.public)
        return _Weights(self.weigh(support, log_start, ctx.records), support)

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


class _Weights:
    """The weights of a run, with the marginals that they can change."""

    def __init__(self, fit: HistogramFit, support: Support) -> None:
        self._fit, self._support = fit, support
        self._open: dict[Clique, bool] = {}
        self.add = fit.add

    @property
    def model(self) -> WeightedTable:
        """The weights after all measurements so far."""
        return self._fit.model

    @property
    def released(self) -> WeightedTable:
        """The weights that the run returns."""
        return self._fit.released

    def candidates(self, times: Mapping[Clique, int]) -> list[Clique]:
        """Return the marginals that were measured least often."""
        if not self._open:
            self._open = {clique: self._support.occupied(clique).sum() > 1 for clique in times}
        least = min((times[clique] for clique in times if self._open[clique]), default=0)
        return [one for one, often in times.items() if self._open[one] and often == least]
