"""MWEM+PGM: every round measures the worst answered marginal of the workload.

McKenna, Sheldon, Miklau: "Graphical-model based estimation and inference for differential
privacy", ICML 2019, as McKenna, Mullins, Sheldon, Miklau: "AIM: An Adaptive and Iterative Mechanism
for Differentially Private Synthetic Data", VLDB 2022, state it for zCDP in Algorithm 1.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from jam_dagster.mechanisms.base import (
    LineStyle,
    MechanismResult,
    OnRound,
    OrdinaryMechanism,
)
from jam_dagster.mechanisms.loops.base import (
    check_countable,
    check_share,
    in_rounds,
)
from jam_dagster.mechanisms.loops.graphical import (
    GraphicalRun,
    alpha_setting,
    check_first_candidates,
    estimator_setting,
    iterations_setting,
    refit_graphical,
    size_limit_setting,
    tolerance_setting,
)
from jam_dagster.mechanisms.loops.scores import penalized_scores
from jam_dagster.mechanisms.loops.selections import SelectionRule
from jam_dagster.mechanisms.loops.settings import check_settings, setting
from jam_dagster.mechanisms.loops.transcript import MOST_ROUNDS, Round, Transcript, subject_of
from jam_dagster.models.graphical.model import FittedModel
from jam_dagster.tables import Clique, Domain, MarginalSource, Workload

if TYPE_CHECKING:
    from jam_dagster.privacy import Neighbours
    from jam_dagster.privacy.draws import Draws


def _candidates(workload: Workload) -> tuple[Sequence[Clique], np.ndarray]:
    """Return the marginals of a workload, with equal weights."""
    return workload.cliques, np.ones(len(workload.cliques))


def _one_record(transcript: Transcript, done: Round) -> float:
    """Return the score's penalty for each cell, independent of the noise: one record."""
    return 1.0


@dataclass(frozen=True)
class MwemPgm(OrdinaryMechanism):
    """The mechanism and its settings.

    Attributes
    ----------
    rounds
        T, the number of marginals that are selected. None: as many as the domain has attributes,
        the default of the authors' code; the paper names none.
    alpha
        Share of a round's budget that goes to measuring; the rest selects. In (0, 1). 0.9 is the
        default of the authors' code, and AIM's; even halves do worse.
    size_limit_mb
        Largest junction tree, in megabytes of 8 bytes a cell: in round t of T at most ``t / T`` of
        it, as in the authors' code. 80, which AIM's comparison grants to all that fit a model.
    estimator, iterations, tolerance
        The fit of the model; see `jam_dagster.models.graphical.mirror_descent.make_estimator`.
        Measurements have equal weights, as rounds have equal budgets.

    Raises
    ------
    SpecificationError
        If a setting is out of range.

    Notes
    -----
    Candidates are the marginals of the workload itself, not their subsets, with equal weights. The
    score is a marginal's error less its number of cells n_r, whatever the noise: this is the error
    of noise of about one record a cell (AIM's score uses the actual noise). A marginal may be
    measured again.
    """

    rounds: int | None = setting(
        None,
        "T, the number of rounds; one an attribute if not given",
        minimum=1,
        maximum=MOST_ROUNDS,
    )
    alpha: float = alpha_setting(0.9)
    size_limit_mb: float = size_limit_setting()
    estimator: str = estimator_setting()
    iterations: int = iterations_setting()
    tolerance: float = tolerance_setting()

    name: ClassVar[str] = "mwem_pgm"
    title: ClassVar[str] = "MWEM+PGM"
    summary: ClassVar[str] = (
        "measures the marginal of the workload with the model's largest error, one a round"
    )
    rank: ClassVar[int] = 30
    page: ClassVar[str] = "without_public_data.md#mwempgm"
    line_style: ClassVar[LineStyle] = LineStyle("#15919b", "saltire")
    uses_public: ClassVar[bool] = False
    samples: ClassVar[bool] = True
    selection_rule: ClassVar[SelectionRule | None] = SelectionRule(_candidates, _one_record)

    def __post_init__(self) -> None:
        check_settings(self)

    def parameters(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        return asdict(self)

    def expected_rounds(self, domain: Domain, workload: Workload) -> int:
        """Return T."""
        return self.rounds or len(domain.names)

    def check_budget(self, rho: float) -> None:
        """Raise SpecificationError if `rho` is too little for a round."""
        check_share(rho, self.rounds or 1)

    def check(self, domain: Domain, workload: Workload, rho: float) -> None:
        """Raise if the mechanism cannot start, before anything is reserved or counted.

        Raises
        ------
        SpecificationError
            If `rho` is too little for a round, or a marginal of the workload is too large to be
            counted.
        EmptyCandidateSetError
            If no marginal of the workload fits the first round's size limit.
        """
        rounds = self.expected_rounds(domain, workload)
        check_share(rho, rounds)
        check_countable(domain, workload.cliques)
        check_first_candidates(domain, workload.cliques, self.size_limit_mb, rounds)

    def run(
        self,
        private: MarginalSource,
        public: MarginalSource | None,
        workload: Workload,
        draws: Draws,
        *,
        on_round: OnRound | None = None,
    ) -> MechanismResult:
        """Spend what `draws` holds on a model of `private`; see `Mechanism`.

        Raises
        ------
        DomainError
            If the private table is empty.
        SpecificationError, EmptyCandidateSetError
            As `check` does; nothing is charged then.
        BudgetExceededError
            If the account holds less than `draws` states.
        ReleaseClosedError
            If the account was closed before the first measurement; a later closure ends the run.
        """
        self.check(private.domain, workload, draws.total)
        run = _Run(self, private, workload, draws)
        return run.result(in_rounds(run.rounds_planned, run.round, on_round), workload)

    @classmethod
    def sensitivities(
        cls, transcript: Transcript, domain: Domain, workload: Workload, neighbours: Neighbours
    ) -> Iterable[float]:
        """Return the required sensitivity of each selection: a marginal's, in L1."""
        return repeat(neighbours.error_score())

    @classmethod
    def refit(
        cls, transcript: Transcript, domain: Domain, public: MarginalSource | None = None
    ) -> FittedModel:
        """Rebuild the model of a transcript; see `jam_dagster.mechanisms.refit`."""
        return refit_graphical(transcript, domain)


class _Run(GraphicalRun):
    """The run of MWEM+PGM, with the workload as its candidates."""

    def __init__(
        self, mechanism: MwemPgm, private: MarginalSource, workload: Workload, draws: Draws
    ) -> None:
        super().__init__(mechanism, private, workload.cliques, draws)
        self.mechanism = mechanism
        self.rounds_planned = mechanism.expected_rounds(self.domain, workload)

    def round(self, index: int) -> Round | str:
        """Select, measure and refit once; or return why the run ends here."""
        started = time.monotonic()
        limit = self.mechanism.size_limit_mb * (index + 1) / self.rounds_planned
        # Some candidate fitted the first limit, and a measured marginal fits every limit.
        fitting = self.fitting(limit)
        current_error = self.errors(fitting)

        def score(sigma: float) -> np.ndarray:
            return penalized_scores(current_error, self.cells[fitting])

        split = self.evenly(self.rounds_planned - index, self.mechanism.alpha)
        choice = self.choose(
            index,
            split,
            score,
            self.draws.neighbours.error_score(),
            named=lambda place: subject_of(self.closure[fitting[place]]),
        )
        if isinstance(choice, str):
            return choice
        return self.complete(
            started,
            index,
            self.closure[fitting[choice.index]],
            candidates=len(fitting),
            rho_select=choice.rho_select,
            rho_measure=choice.rho_measure,
            size_limit_mb=limit,
        )
