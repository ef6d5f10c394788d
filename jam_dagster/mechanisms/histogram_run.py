"""What mechanisms that weigh records have in common: settings, selection, rounds, the refit."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from jam_dagster.mechanisms.estimation import Convergence
from jam_dagster.mechanisms.graphical_run import alpha_setting
from jam_dagster.mechanisms.histogram import HistogramFit
from jam_dagster.mechanisms.protocol import MechanismResult, OnRound
from jam_dagster.mechanisms.run import (
    SMALLEST_RHO,
    MechanismRun,
    check_countable,
    check_queries,
    check_share,
    check_tables,
    public_of,
)
from jam_dagster.mechanisms.scores import MEAN_ABSOLUTE_NORMAL
from jam_dagster.mechanisms.settings import check_settings, setting, told_settings
from jam_dagster.mechanisms.support import (
    Support,
    check_enumerable,
    log_frequencies,
    public_records,
)
from jam_dagster.mechanisms.transcript import Measurement, Round, Transcript
from jam_dagster.mechanisms.weighted_table import WeightedTable
from jam_dagster.privacy.noise_calls import SelectionKind
from jam_dagster.tables import Clique, Domain, MarginalSource, Workload

if TYPE_CHECKING:
    from jam_dagster.privacy import Neighbours
    from jam_dagster.privacy.draws import Draws

_SELECTIONS: dict[str, SelectionKind] = {
    "exponential": "exponential mechanism",
    "permute-and-flip": "permute-and-flip",
}


@dataclass(frozen=True)
class HistogramMechanism(ABC):
    """A mechanism whose model is a distribution over a support.

    Attributes
    ----------
    rounds
        T, the number of queries that are selected: 10 by default, as in the code of Liu et al.
        Few rounds suit small budgets: noise that was taken into the weights stays there.
    alpha
        Share of a round's budget that goes to measuring; the rest selects. In (0, 1).
    queries
        ``marginal``: a round selects and measures a whole marginal; ``cell``: one cell of one.
    selection
        ``exponential`` or ``permute-and-flip``.

    Raises
    ------
    SpecificationError
        If a setting is out of range.

    Notes
    -----
    Where the papers leave room:

    - Whole marginals are chosen from the downward closure of the workload by
      ``||q(D) - q(A)||_1 - sqrt(2/pi) sigma n_q``, as AIM and JAM-PGM choose: a marginal whose
      noise would be larger than its error teaches nothing. Single cells, whose noise is alike,
      are chosen from the workload's marginals by ``|q(D) - q(A)|``, as the papers do.
    - A query is measured again only when all have been measured as often, and queries whose
      answer no weights can change (no record lies in the cell, or all do) are no candidates.
    - T rounds with equal parts of what is left; the last one spends all of it.
    """

    rounds: int = setting(10, "T, the number of rounds", minimum=1)
    alpha: float = alpha_setting(0.5)
    queries: str = setting(
        "marginal",
        "what a round measures: a whole marginal, or a single cell of one",
        choices=("marginal", "cell"),
    )
    selection: str = setting(
        "exponential",
        "how a query is chosen: by the exponential mechanism, or by permute-and-flip, which has"
        " half the epsilon for the same price",
        choices=tuple(_SELECTIONS),
    )

    name: ClassVar[str]
    uses_public: ClassVar[bool]
    samples: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_settings(self)

    @abstractmethod
    def start(
        self, support: Support, log_start: npt.NDArray[np.float64], total: float
    ) -> HistogramFit:
        """Return the weights before any measurement."""

    def parameters(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        return asdict(self)

    def expected_rounds(self, domain: Domain, workload: Workload) -> int:
        """Return T."""
        return self.rounds

    def check_budget(self, rho: float) -> None:
        """Raise SpecificationError if `rho` leaves nothing worth its noise to a round."""
        check_share(rho, self.rounds)

    def check(self, domain: Domain, workload: Workload, rho: float) -> None:
        """Raise if the mechanism cannot start, before anything is reserved or counted.

        Raises
        ------
        SpecificationError
            If `rho` leaves nothing worth its noise to a round, the workload has too many cells, or
            the mechanism keeps the full domain and that is too large.
        """
        self.check_budget(rho)
        check_countable(domain, workload)
        if self.queries == "cell":
            check_queries(domain, workload)
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
        check_tables(private, None)
        self.check(private.domain, workload, draws.total)
        support, log_start = self._weighed(private.domain, public)
        run = _Run(self, private, workload, draws, support, log_start)
        ended = "all rounds"
        for index in range(self.rounds):
            outcome = run.round(index)
            if isinstance(outcome, str):
                ended = outcome
                break
            if on_round is not None:
                on_round(outcome)
        return run.result(ended)

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
    def sensitivities(
        cls, transcript: Transcript, domain: Domain, workload: Workload, neighbours: Neighbours
    ) -> Iterable[float]:
        """Return what the sensitivity of each selection must be, the same in every round."""
        single = transcript.parameters.get("queries") == "cell"
        return repeat(_sensitivity(neighbours, single=single))

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


def _sensitivity(neighbours: Neighbours, *, single: bool) -> float:
    return neighbours.cell if single else neighbours.error_score()


class _Run(MechanismRun):
    """The run of a mechanism that weighs records: what it may select, and how often it did."""

    def __init__(
        self,
        mechanism: HistogramMechanism,
        private: MarginalSource,
        workload: Workload,
        draws: Draws,
        support: Support,
        log_start: npt.NDArray[np.float64],
    ) -> None:
        self.single = mechanism.queries == "cell"
        cliques = workload.cliques if self.single else workload.downward_closure()
        super().__init__(mechanism, private, cliques, draws)
        self.mechanism = mechanism
        self.fitted = mechanism.start(support, log_start, self.records)
        occupied = [support.occupied(clique) for clique in self.closure]
        varied = np.array([cells.sum() > 1 for cells in occupied])
        if self.single:
            self.starts = np.cumsum([0, *(len(cells) for cells in occupied)])
            self.open = np.concatenate(
                [cells & more for cells, more in zip(occupied, varied, strict=True)]
            )
        else:
            self.open = varied
        self.times = np.zeros(len(self.open), dtype=np.int64)

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

    def _candidates(self) -> npt.NDArray[np.intp]:
        """Return the numbers of the queries that were measured least often."""
        if not self.open.any():
            return np.zeros(0, dtype=np.intp)
        return np.flatnonzero(self.open & (self.times == self.times[self.open].min()))

    def _cell_errors(self) -> npt.NDArray[np.float64]:
        """Return ``|q(D) - q(A)|`` of every cell of the workload, in counts."""
        errors = np.empty(len(self.open))
        with self.stage("answer"):
            for block in self.blocks(self.closure):
                for clique, counts in block.items():
                    first = self.starts[self.number[clique]]
                    apart = np.abs(counts - self.model.marginal(clique)).ravel()
                    errors[first : first + apart.size] = apart
        return errors

    def _place(self, number: int) -> tuple[Clique, int | None]:
        """Return the marginal of a query, and its cell where it is one."""
        if not self.single:
            return self.closure[number], None
        marginal = int(np.searchsorted(self.starts, number, side="right")) - 1
        return self.closure[marginal], number - int(self.starts[marginal])

    def round(self, index: int) -> Round | str:
        """Select, measure and refit once; or say why the run ends here."""
        started = time.monotonic()
        allowed = self._candidates()
        if not len(allowed):
            return "no candidate fits"
        errors = self._cell_errors()[allowed] if self.single else self.errors(allowed.tolist())

        def split() -> tuple[float, float] | None:
            share = self.draws.remaining / (self.mechanism.rounds - index)
            if share < SMALLEST_RHO:
                return None
            return (1 - self.mechanism.alpha) * share, self.mechanism.alpha * share

        def score(sigma: float) -> np.ndarray:
            if self.single:
                return errors
            return errors - MEAN_ABSOLUTE_NORMAL * sigma * self.cells[allowed]

        sensitivity = _sensitivity(self.draws.neighbours, single=self.single)
        kind = _SELECTIONS[self.mechanism.selection]
        choice = self.choose(index, split, score, sensitivity, kind=kind)
        if isinstance(choice, str):
            return choice
        number = int(allowed[choice.index])
        clique, cell = self._place(number)
        done = self.complete(
            started,
            index,
            clique,
            candidates=len(allowed),
            rho_select=choice.rho_select,
            rho_measure=choice.rho_measure,
            cell=cell,
        )
        if not isinstance(done, str) and done.measurement is not None:
            self.times[number] += 1
        return done
