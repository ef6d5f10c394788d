"""AIM: an adaptive and iterative mechanism, without public data.

McKenna, Mullins, Sheldon, Miklau: "AIM: An Adaptive and Iterative Mechanism for Differentially
Private Synthetic Data", VLDB 2022, Algorithms 2 to 4.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from jam_dagster.errors import SpecificationError
from jam_dagster.mechanisms.base import (
    LineStyle,
    MechanismResult,
    OnRound,
    OrdinaryMechanism,
)
from jam_dagster.mechanisms.loops.base import (
    SMALLEST_RHO,
    check_countable,
    check_share,
    step_of,
)
from jam_dagster.mechanisms.loops.graphical import (
    GraphicalRun,
    alpha_setting,
    estimator_setting,
    iterations_setting,
    refit_graphical,
    size_limit_setting,
    tolerance_setting,
)
from jam_dagster.mechanisms.loops.scores import l1_distance, weighted_scores
from jam_dagster.mechanisms.loops.selections import SelectionRule
from jam_dagster.mechanisms.loops.settings import check_settings, setting
from jam_dagster.mechanisms.loops.transcript import MOST_ROUNDS, Round, Transcript, subject_of
from jam_dagster.models.graphical.estimator import Weighting
from jam_dagster.models.graphical.model import FittedModel
from jam_dagster.models.graphical.tractability import TractabilityFilter
from jam_dagster.models.measurement import MEAN_ABSOLUTE_NORMAL
from jam_dagster.privacy.accounting import gaussian_sigma
from jam_dagster.tables import Clique, Domain, MarginalSource, Workload

if TYPE_CHECKING:
    from jam_dagster.privacy import Neighbours
    from jam_dagster.privacy.draws import Draws

ROUNDS_AN_ATTRIBUTE = 16
"""T = 16 d (Section 4.1): the first rounds are cheap, and annealing raises later prices."""

ANNEALED = 4.0
"""Half the sigma and twice the epsilon (Algorithm 4) cost four times the rho, in either part."""


def weights_of(workload: Workload, closure: Sequence[Clique]) -> np.ndarray:
    """Weight candidates by their overlap with the workload (Section 3.1)."""
    marginals = [set(clique) for clique in workload.cliques]
    return np.array(
        [
            sum(
                weight * len(marginal.intersection(candidate))
                for marginal, weight in zip(marginals, workload.weights, strict=True)
            )
            for candidate in closure
        ]
    )


def _candidates(workload: Workload) -> tuple[Sequence[Clique], np.ndarray]:
    """Return the downward closure of a workload, and the weights of its marginals."""
    closure = workload.downward_closure()
    return closure, weights_of(workload, closure)


def _expected_noise(transcript: Transcript, done: Round) -> float:
    """Return the expected error of a measurement in each cell, in counts."""
    sigma = gaussian_sigma(transcript.neighbours.marginal_l2, done.rho_measure)
    return MEAN_ABSOLUTE_NORMAL * sigma


@dataclass(frozen=True)
class Aim(OrdinaryMechanism):
    """The mechanism and its settings; the defaults are the paper's.

    Attributes
    ----------
    rounds
        T: the first rounds cost a T-th of the budget each; the price rises when a round improves
        the model too little. None: 16 for each attribute of the domain.
    alpha
        Share of a round's budget that goes to measuring; the rest selects. In (0, 1).
    size_limit_mb
        Largest junction tree, in megabytes of 8 bytes a cell. It is released in proportion to the
        budget spent.
    estimator, iterations, tolerance
        The fit of the model; see `jam_dagster.models.graphical.mirror_descent.make_estimator`.
        Measurements are weighted by their noise, which differs between rounds.

    Raises
    ------
    SpecificationError
        If a setting is out of range.

    Notes
    -----
    The paper's neighbours differ by a record added or removed, and a measurement costs
    ``1 / (2 sigma^2)``. Here it is ``Delta^2 / (2 sigma^2)`` with the L2 sensitivity of the
    chosen neighbours: ``1 / sigma^2`` for replace-one. Likewise a score of weight w moves
    by ``w`` times the L1 sensitivity of a marginal: ``2 w`` for replace-one.
    """

    rounds: int | None = setting(
        None,
        "T, the parts of the budget to begin with; 16 an attribute if not given",
        minimum=2,
        maximum=MOST_ROUNDS,
    )
    alpha: float = alpha_setting(0.9)
    size_limit_mb: float = size_limit_setting()
    estimator: str = estimator_setting()
    iterations: int = iterations_setting()
    tolerance: float = tolerance_setting()

    name: ClassVar[str] = "aim"
    title: ClassVar[str] = "AIM"
    summary: ClassVar[str] = (
        "no public data; spends where it learns, and bounds the error of each marginal"
    )
    rank: ClassVar[int] = 20
    page: ClassVar[str] = "aim.md"
    line_style: ClassVar[LineStyle] = LineStyle("#d55e00", "square")
    uses_public: ClassVar[bool] = False
    samples: ClassVar[bool] = True
    weighting: ClassVar[Weighting] = "noise"
    selection_rule: ClassVar[SelectionRule | None] = SelectionRule(_candidates, _expected_noise)

    def __post_init__(self) -> None:
        check_settings(self)

    def parameters(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        return {**asdict(self), "weighting": self.weighting}

    def shares(self, domain: Domain) -> int:
        """Return T, the number of parts that the budget is divided into."""
        return self.rounds or ROUNDS_AN_ATTRIBUTE * len(domain.names)

    def expected_rounds(self, domain: Domain, workload: Workload) -> None:
        """Return None: annealing decides."""
        return

    def check_budget(self, rho: float) -> None:
        """Raise SpecificationError if `rho` leaves nothing worth its noise to a round."""
        if self.rounds is not None:
            check_share(rho, self.rounds)

    def check(self, domain: Domain, workload: Workload, rho: float) -> None:
        """Raise if the mechanism cannot start, before anything is reserved or counted.

        Raises
        ------
        SpecificationError
            If T leaves nothing beside the first measurements, one of each attribute, or `rho`
            leaves nothing worth its noise to a round, or a marginal of the workload is too large
            to be counted.
        """
        shares = self.shares(domain)
        attributes = len({name for clique in workload.cliques for name in clique})
        if shares <= attributes:
            raise SpecificationError(
                f"rounds must be more than the {attributes} attributes of the workload, each of "
                f"which is measured first, got {shares}; by default it is "
                f"{ROUNDS_AN_ATTRIBUTE} for each attribute."
            )
        check_share(rho, shares)
        check_countable(domain, workload.cliques)

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
            Ignored: AIM uses no public data.
        workload
            The marginals that matter; candidates are their weighted downward closure.
        draws
            Charges, draws and stores. Stored outcomes are reused without a charge, so an
            interrupted run resumes.
        on_round
            Called after every round.

        Returns
        -------
        MechanismResult
            The model with n records, and the transcript.

        Raises
        ------
        DomainError
            If the private table is empty.
        BudgetExceededError
            If the account holds less than `draws` states.
        ReleaseClosedError
            If the account was closed before the first measurement; a later closure ends the run.
        """
        self.check(private.domain, workload, draws.total)
        run = _Run(self, private, workload, draws)
        index = 0
        while not isinstance(outcome := run.round(index), str):
            if on_round is not None:
                on_round(outcome)
            index += 1
        return run.result(outcome, workload)

    @classmethod
    def sensitivities(
        cls, transcript: Transcript, domain: Domain, workload: Workload, neighbours: Neighbours
    ) -> Iterator[float]:
        """Yield the required sensitivity of each selection: that of the round's heaviest candidate.

        A round without a choice is the last one; its candidates follow from its price.
        """
        closure = workload.downward_closure()
        weights, fits = weights_of(workload, closure), TractabilityFilter(domain, closure)
        limits = [one.size_limit_mb or 0.0 for one in transcript.rounds]
        limits += _limit_of_a_lost_round(transcript)
        measured: list[Clique] = []
        for index, limit in enumerate(limits):
            candidates = fits.fitting(measured, limit)
            # The first rounds make no choice, and may have no candidate.
            heaviest = max((float(weights[number]) for number in candidates), default=0.0)
            yield neighbours.error_score(heaviest)
            if index < len(transcript.rounds):
                done = transcript.rounds[index]
                measured += [done.clique] if done.measurement is not None else []

    @classmethod
    def refit(
        cls, transcript: Transcript, domain: Domain, public: MarginalSource | None = None
    ) -> FittedModel:
        """Rebuild the model of a transcript; see `jam_dagster.mechanisms.refit`."""
        return refit_graphical(transcript, domain)


def _limit_of_a_lost_round(transcript: Transcript) -> list[float]:
    """Return the size limit of the round after those in a transcript, if any."""
    settings, rounds = transcript.parameters, transcript.rounds
    step = step_of(len(rounds), "select")
    for call in transcript.calls:
        if call.step == step:
            spent = rounds[-1].rho_spent if rounds else 0.0
            earned = spent + call.rho / (1 - float(settings["alpha"]))
            return [float(settings["size_limit_mb"]) * earned / transcript.rho_budget]
    return []


class _Run(GraphicalRun):
    """The run of AIM, with the budget of its next round, which annealing raises."""

    def __init__(
        self, mechanism: Aim, private: MarginalSource, workload: Workload, draws: Draws
    ) -> None:
        closure = workload.downward_closure()
        super().__init__(mechanism, private, closure, draws, weighting=mechanism.weighting)
        self.mechanism = mechanism
        self.weights = weights_of(workload, closure)
        self.first = [clique for clique in closure if len(clique) == 1]
        # A share of the rho that remains after measuring a private number of records.
        self.share = draws.remaining / mechanism.shares(self.domain)

    def round(self, index: int) -> Round | str:
        """Measure once, and refit; or return why the run ends here."""
        return self._first(index) if index < len(self.first) else self._adaptive(index)

    def _first(self, index: int) -> Round | str:
        """Measure one attribute (Algorithm 3)."""
        started = time.monotonic()
        clique, rho = self.first[index], self.mechanism.alpha * self.share
        return self.complete(
            started,
            index,
            clique,
            candidates=len(self.first),
            rho_measure=rho,
            size_limit_mb=self._size_limit_mb(0.0),
        )

    def _adaptive(self, index: int) -> Round | str:
        """Select, measure, refit and anneal (Algorithm 2)."""
        started = time.monotonic()
        if self._next() < SMALLEST_RHO:
            return "budget exhausted"
        alpha = self.mechanism.alpha
        limit = self._size_limit_mb(self._next())
        fitting = self.fitting(limit)
        if not fitting:
            # A measured marginal always fits, so all first measurements were lost here.
            return "no candidate fits"
        current_error = self.errors(fitting)
        weights, cells = self.weights[fitting], self.cells[fitting]

        def split() -> tuple[float, float] | None:
            share = self._next()
            if share < SMALLEST_RHO:
                return None
            return (1 - alpha) * share, alpha * share

        def score(sigma: float) -> np.ndarray:
            return weighted_scores(current_error, cells, sigma, weights)

        sensitivity = self.draws.neighbours.error_score(float(weights.max()))
        choice = self.choose(
            index,
            split,
            score,
            sensitivity,
            named=lambda place: subject_of(self.closure[fitting[place]]),
        )
        if isinstance(choice, str):
            return choice
        clique = self.closure[fitting[choice.index]]
        before = self.estimator.model.marginal(clique)
        done = self.complete(
            started,
            index,
            clique,
            candidates=len(fitting),
            rho_select=choice.rho_select,
            rho_measure=choice.rho_measure,
            size_limit_mb=limit,
        )
        if isinstance(done, str):
            return done
        if (measurement := done.measurement) is not None:
            moved = l1_distance(self.estimator.model.marginal(clique), before)
            if moved <= MEAN_ABSOLUTE_NORMAL * measurement.sigma * self.cells[self.number[clique]]:
                # The model changed by less than the noise: the next round costs more (Algorithm 4).
                self.share *= ANNEALED
        return done

    def _next(self) -> float:
        """Return the next round's rho: all of the rest if that is too little for two rounds."""
        left = self.draws.remaining
        return left if left <= 2 * self.share else self.share

    def _size_limit_mb(self, rho: float) -> float:
        """Return the size limit of a round that costs `rho`: proportional to the spent budget."""
        return self.mechanism.size_limit_mb * (self.draws.spent + rho) / self.draws.total
