"""What mechanisms that weigh records have in common: settings, selection, rounds, the refit."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from jam_dagster.mechanisms.base import MechanismResult, OnRound
from jam_dagster.mechanisms.loops.base import in_rounds, public_of
from jam_dagster.mechanisms.loops.graphical import alpha_setting
from jam_dagster.mechanisms.loops.queries import QueryMechanism, QueryRun
from jam_dagster.mechanisms.loops.settings import setting, told_settings
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
from jam_dagster.privacy.noise.calls import SelectionKind
from jam_dagster.tables import Domain, MarginalSource, Workload

if TYPE_CHECKING:
    from jam_dagster.privacy.draws import Draws

_SELECTIONS: dict[str, SelectionKind] = {
    "exponential": "exponential mechanism",
    "permute-and-flip": "permute-and-flip",
}


@dataclass(frozen=True)
class HistogramMechanism(QueryMechanism):
    """A mechanism whose model is a distribution over a support.

    Attributes
    ----------
    rounds, alpha, queries
        See `QueryMechanism`. T is 10 by default, as in the code of Liu et al. Few rounds suit small
        budgets: noise that was taken into the weights stays there.
    selection
        ``exponential`` or ``permute-and-flip``.

    Raises
    ------
    SpecificationError
        If a setting is out of range.

    Notes
    -----
    Where the papers leave room: a query is measured again only when all have been measured as
    often, and queries whose answer no weights can change (no record lies in the cell, or all do)
    are no candidates.
    """

    alpha: float = alpha_setting(0.5)
    selection: str = setting(
        "exponential",
        "how a query is chosen: by the exponential mechanism, or by permute-and-flip, which has"
        " half the epsilon for the same price",
        choices=tuple(_SELECTIONS),
    )

    page: ClassVar[str] = "histograms.md"

    @abstractmethod
    def start(
        self, support: Support, log_start: npt.NDArray[np.float64], total: float
    ) -> HistogramFit:
        """Return the weights before any measurement."""

    def check(self, domain: Domain, workload: Workload, rho: float) -> None:
        """Raise if the mechanism cannot start, before anything is reserved or counted.

        Raises
        ------
        SpecificationError
            If `rho` leaves nothing worth its noise to a round, the workload has too many cells, or
            the mechanism keeps the full domain and that is too large.
        """
        super().check(domain, workload, rho)
        if not self.uses_public:
            check_enumerable(domain)

    def run(
        self,
        private: MarginalSource,
        public: MarginalSource | None,
        workload: Workload,
        draws: Draws,
        *,
        on_round: OnRound | None = None,
    ) -> MechanismResult:
        """Spend what `draws` holds on a model of `private` that serves `workload`.

        Parameters
        ----------
        private
            The table to protect.
        public
            The table whose records are weighed; not learned from where the mechanism weighs the
            full domain.
        workload
            The marginals that matter.
        draws
            Charges, draws and stores. Outcomes that it already holds are used again, free, so a
            run that stopped goes on where it was.
        on_round
            Called after every round.

        Returns
        -------
        MechanismResult
            The model with n records, and the transcript.

        Raises
        ------
        DomainError
            If the tables' domains differ, a table is empty, or there are no public records where
            they are needed.
        BudgetExceededError
            If the account does not hold what `draws` says it holds.
        ReleaseClosedError
            If the account was closed before anything was measured; later that ends the run.
        """
        self.check(private.domain, workload, draws.total)
        support, log_start = self._weighed(private.domain, public)
        run = _Run(self, private, workload, draws, support, log_start)
        return run.result(in_rounds(self.rounds, run.round, on_round), workload)

    def _weighed(
        self, domain: Domain, public: MarginalSource | None
    ) -> tuple[Support, npt.NDArray[np.float64]]:
        """Return the records that get weights, and the logarithms of those to begin with."""
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
        """Rebuild the model of a transcript; see `jam_dagster.mechanisms.refit`.

        Raises
        ------
        DomainError
            If the model is made of public records, and they are not given.
        """
        mechanism = cls(**told_settings(cls, transcript))
        support, log_start = mechanism._weighed(domain, public)
        fitted = mechanism.start(support, log_start, transcript.records)
        for measurement in transcript.measurements:
            fitted.add(measurement)
        return fitted.released


class _Run(QueryRun):
    """The run of a mechanism that weighs records: which queries its weights can answer."""

    def __init__(
        self,
        mechanism: HistogramMechanism,
        private: MarginalSource,
        workload: Workload,
        draws: Draws,
        support: Support,
        log_start: npt.NDArray[np.float64],
    ) -> None:
        super().__init__(mechanism, private, workload, draws)
        self.kind = _SELECTIONS[mechanism.selection]
        self.fitted = mechanism.start(support, log_start, self.records)
        occupied = [support.occupied(clique) for clique in self.closure]
        varied = [cells.sum() > 1 for cells in occupied]
        if self.single:
            self.open = np.concatenate(
                [cells & more for cells, more in zip(occupied, varied, strict=True)]
            )
        else:
            self.open = np.array(varied)

    @property
    def model(self) -> WeightedTable:
        """The weights after all measurements so far."""
        return self.fitted.model

    @property
    def released(self) -> WeightedTable:
        """The weights that the run returns."""
        return self.fitted.released

    def fit(self, measurement: Measurement) -> Convergence:
        """Take a measurement into the weights."""
        return self.fitted.add(measurement)

    def queries(self) -> npt.NDArray[np.intp]:
        """Return the numbers of the queries that were measured least often."""
        if not self.open.any():
            return np.zeros(0, dtype=np.intp)
        return np.flatnonzero(self.open & (self.times == self.times[self.open].min()))
