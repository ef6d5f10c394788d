"""AIM: an adaptive and iterative mechanism, without public data.

McKenna, Mullins, Sheldon, Miklau: "AIM: An Adaptive and Iterative Mechanism for Differentially
Private Synthetic Data", VLDB 2022, Algorithms 2 to 4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from jam_dagster.errors import SpecificationError
from jam_dagster.mechanisms.base import LineStyle
from jam_dagster.mechanisms.context import Inputs, step_of
from jam_dagster.mechanisms.loops.base import (
    RunEndedError,
    affordable,
    attributes_of,
    check_countable,
    check_share,
)
from jam_dagster.mechanisms.loops.graphical import (
    GraphicalMechanism,
    GraphicalRun,
    alpha_setting,
    size_limit_setting,
)
from jam_dagster.mechanisms.loops.scores import l1_distance, weighted_scores
from jam_dagster.mechanisms.loops.selections import SelectionRule
from jam_dagster.mechanisms.loops.settings import setting
from jam_dagster.mechanisms.loops.transcript import MOST_ROUNDS, Round, Transcript
from jam_dagster.models.graphical.estimator import Weighting
from jam_dagster.models.graphical.tractability import TractabilityFilter
from jam_dagster.models.measurement import MEAN_ABSOLUTE_NORMAL
from jam_dagster.privacy.accounting import gaussian_sigma
from jam_dagster.tables import Clique, Domain, Workload

if TYPE_CHECKING:
    from jam_dagster.privacy import Neighbours

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
class Aim(GraphicalMechanism):
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
        The fit of the model; see `jam_dagster.models.graphical.fit.make_estimator`.
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

    name: ClassVar[str] = "aim"
    title: ClassVar[str] = "AIM"
    summary: ClassVar[str] = (
        "no public data; spends where it learns, and bounds the error of each marginal"
    )
    rank: ClassVar[int] = 20
    page: ClassVar[str] = "aim.md"
    line_style: ClassVar[LineStyle] = LineStyle("#d55e00", "square")
    weighting: ClassVar[Weighting] = "noise"
    selection_rule: ClassVar[SelectionRule | None] = SelectionRule(_candidates, _expected_noise)

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
        attributes = len(attributes_of(workload))
        if shares <= attributes:
            raise SpecificationError(
                f"rounds must be more than the {attributes} attributes of the workload, each of "
                f"which is measured first, got {shares}; by default it is "
                f"{ROUNDS_AN_ATTRIBUTE} for each attribute."
            )
        check_share(rho, shares)
        check_countable(domain, workload.cliques)

    def begin(self, given: Inputs) -> _Run:
        """Return a run whose candidates are the workload's weighted downward closure."""
        return _Run(self, given)

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

    def __init__(self, mechanism: Aim, given: Inputs) -> None:
        closure = given.workload.downward_closure()
        super().__init__(mechanism, given, closure)
        self.mechanism = mechanism
        self.weights = weights_of(given.workload, closure)
        self.first = [clique for clique in closure if len(clique) == 1]
        # A share of the rho that remains after measuring a private number of records.
        self.share_of_a_round = self.draws.remaining / mechanism.shares(self.domain)

    def round(self, index: int) -> Round:
        """Measure an attribute first (Algorithm 3), then what is selected (Algorithm 2)."""
        return self._first(index) if index < len(self.first) else self._adaptive()

    def _first(self, index: int) -> Round:
        """Measure one attribute (Algorithm 3)."""
        clique, rho = self.first[index], self.mechanism.alpha * self.share_of_a_round
        return self.finish(
            clique,
            self.measure(clique, rho),
            candidates=len(self.first),
            rho_measure=rho,
            size_limit_mb=self._size_limit_mb(0.0),
        )

    def _adaptive(self) -> Round:
        """Take one round of Algorithm 2, lines 10 to 17.

        - C_t: the r of W+ with JT-SIZE(r_1, ..., r_t) <= rho_used / rho * MAX-SIZE
        - select r_t from C_t by the exponential mechanism with
          q_r(D) = w_r (||M_r(D) - M_r(p_t-1)||_1 - sqrt(2/pi) sigma_t n_r)
        - measure y_t = M_r(D) + N(0, sigma_t^2)
        - estimate p_t by Private-PGM, weighting measurements by their noise
        - anneal epsilon_t+1 and sigma_t+1 (Algorithm 4)
        """
        # The size limit is that of the round's first attempt, as a verifier finds it.
        limit = self._size_limit_mb(affordable(self._price(self.left)))
        fitting = self.fitting(limit)
        if not fitting:
            # A measured marginal always fits, so all first measurements were lost here.
            raise RunEndedError("no candidate fits")

        share = affordable(self._price(self.draws.remaining))
        alpha = self.mechanism.alpha
        rho_select, rho_measure = (1 - alpha) * share, alpha * share

        weights = self.weights[fitting]
        scores = weighted_scores(
            self.errors(fitting), self.cells[fitting], self.sigma(rho_measure), weights
        )
        sensitivity = self.draws.neighbours.error_score(float(weights.max()))
        number = self.select_private(fitting, scores, rho_select, sensitivity)
        clique = self.closure[number]

        before = self.model.marginal(clique)
        done = self.finish(
            clique,
            self.measure(clique, rho_measure),
            candidates=len(fitting),
            rho_select=rho_select,
            rho_measure=rho_measure,
            size_limit_mb=limit,
        )
        if done.measurement is not None:
            moved = l1_distance(self.model.marginal(clique), before)
            if moved <= MEAN_ABSOLUTE_NORMAL * done.sigma * self.cells[number]:
                # The model changed by less than the noise: the next round costs more.
                self.share_of_a_round *= ANNEALED
        return done

    def _price(self, left: float) -> float:
        """Return the rho of a round: all that is left if that is too little for two rounds."""
        return left if left <= 2 * self.share_of_a_round else self.share_of_a_round

    def _size_limit_mb(self, rho: float) -> float:
        """Return the size limit of a round that costs `rho`: proportional to the spent budget."""
        return self.mechanism.size_limit_mb * (self.spent + rho) / self.draws.total
