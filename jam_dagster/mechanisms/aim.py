"""AIM: an adaptive and iterative mechanism, without public data.

McKenna, Mullins, Sheldon, Miklau: "AIM: An Adaptive and Iterative Mechanism for Differentially
Private Synthetic Data", VLDB 2022: AIM, with its subroutines for the first model and for annealing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from jam_dagster.errors import SpecificationError
from jam_dagster.mechanisms.base import attributes_of, check_countable, check_share
from jam_dagster.mechanisms.context import Context
from jam_dagster.mechanisms.loops.graphical import (
    GraphicalMechanism,
    alpha_setting,
    size_limit_setting,
)
from jam_dagster.mechanisms.loops.graphical_fit import GraphicalFit
from jam_dagster.mechanisms.loops.scores import l1_distance
from jam_dagster.mechanisms.loops.settings import setting
from jam_dagster.mechanisms.loops.transcript import MOST_ROUNDS
from jam_dagster.models.graphical.estimator import Weighting
from jam_dagster.models.graphical.model import FittedModel
from jam_dagster.models.measurement import MEAN_ABSOLUTE_NORMAL
from jam_dagster.tables import Clique, Domain, Workload

ROUNDS_AN_ATTRIBUTE = 16
"""T = 16 d (Section 4): the first rounds are cheap, and annealing raises later prices."""

LEARNT = 0.2
"""The L1 error, as a part of the records, to which a planned round measures a single attribute."""

ANNEALED = 4.0
"""Half the sigma and twice the epsilon (annealing) cost four times the rho, in either part."""


def weights_of(workload: Workload, closure: Sequence[Clique]) -> np.ndarray:
    """Weight candidates by their overlap with the workload (Section 4)."""
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


@dataclass(frozen=True)
class Aim(GraphicalMechanism):
    """The mechanism and its settings; T, alpha and the size limit are the paper's by default.

    Attributes
    ----------
    rounds
        T: the first rounds cost a T-th of the budget each; the price rises when a round improves
        the model too little. None: 16 for each attribute of the domain.
    plan_rounds
        Whether T follows from the records and the budget; the paper's does not. It is the number at
        which a T-th of the budget measures single attributes to a mean L1 error of 0.2, from one
        more than there are attributes up to 16 for each. The number of records is public, or
        released.
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
    by ``w`` times the L1 sensitivity of a marginal: ``2 w`` for replace-one; the largest w among
    the candidates counts.

    Other differences: a fit weighs measurements by ``1 / sigma^2``, where the paper has
    ``1 / sigma``; n_r is the number of possible cells; the noise is discrete; a marginal within a
    measured one is a candidate whatever the size limit; the model is fitted after each single
    attribute; and what is left is taken whole before any round, also the first, if it is too little
    for two. T divides what a private number of records leaves. A choice that was lost is
    repeated, and no price follows from a measurement that was lost.
    """

    rounds: int | None = setting(
        None,
        "T, the parts of the budget to begin with; 16 an attribute if not given",
        minimum=2,
        maximum=MOST_ROUNDS,
    )
    plan_rounds: bool = setting(
        False,
        "whether T follows from the number of records and the budget; not with rounds",
        last=True,
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
    compared: ClassVar[bool] = True
    pace: ClassVar[float] = 0.2
    weighting: ClassVar[Weighting] = "noise"
    bounds_errors: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.plan_rounds and self.rounds is not None:
            raise SpecificationError("rounds is T, and plan_rounds computes it: set one of them.")

    def shares(self, domain: Domain) -> int:
        """Return T, the number of parts that the budget is divided into; at most, if planned."""
        return self.rounds or ROUNDS_AN_ATTRIBUTE * len(domain.names)

    def planned(self, ctx: Context) -> int:
        """Return T as it follows from the records and the budget."""
        most, singles = self.shares(ctx.domain), attributes_of(ctx.workload)
        cells = sum(ctx.domain.size((name,)) for name in singles) / len(singles)
        # The error of a measurement at rho = 1 is this, and falls with the root of the price.
        error = MEAN_ABSOLUTE_NORMAL * ctx.sigma(1.0) * cells / ctx.records
        wanted = self.alpha * ctx.remaining * (LEARNT / error) ** 2
        return int(min(max(wanted, len(singles) + 1), most))

    def check_budget(self, rho: float) -> None:
        """Raise SpecificationError if `rho` leaves nothing worth its noise to a round."""
        if self.rounds is not None:
            check_share(rho, self.rounds)

    def check(self, domain: Domain, workload: Workload, rho: float) -> None:
        """Raise if the mechanism cannot start, before anything is reserved or counted.

        Raises
        ------
        SpecificationError
            If T leaves nothing after the first measurements, one of each attribute, or `rho`
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

    def draw(self, ctx: Context) -> FittedModel:
        """Measure each attribute, then what is selected.

        - initialize p_t: measure every single attribute
        - C_t: the r of W+ with JT-SIZE(r_1, ..., r_t) <= rho_used / rho * MAX-SIZE
        - select r_t from C_t by the exponential mechanism with
          q_r(D) = w_r (||M_r(D) - M_r(p_t-1)||_1 - sqrt(2/pi) sigma_t n_r)
        - measure y_t = M_r(D) + N(0, sigma_t^2)
        - estimate p_t by Private-PGM, weighting measurements by their noise
        - anneal epsilon_t+1 and sigma_t+1, and take all that is left if it is not enough for two
        """
        closure = ctx.workload.downward_closure()
        fit, first = GraphicalFit(ctx, self, closure), [q for q in closure if len(q) == 1]
        weights = dict(zip(closure, weights_of(ctx.workload, closure), strict=True))
        shares = self.planned(ctx) if self.plan_rounds else self.shares(ctx.domain)
        even = ctx.remaining / shares

        def price(left: float) -> float:
            # All that is left if that is too little for two rounds.
            return ctx.affordable(left if left <= 2 * even else even)

        for t in ctx.rounds():
            if t < len(first):
                # Nothing is chosen: the limit is for readers.
                ctx.round.size_limit_mb = self.size_limit_mb * ctx.round.spent / ctx.total
                fit.add(ctx.measure(first[t], self.alpha * even, among=len(first)))
                continue
            # If its choice was lost, the same round begins again: it keeps its size limit, and
            # pays the price of a round from what the run has left.
            used, share = ctx.round.spent + price(ctx.round.left), price(ctx.remaining)
            if ctx.has_ended():
                break
            near = fit.tractable(self.size_limit_mb * used / ctx.total)
            if not near:
                # A measured marginal always fits, so all first measurements were lost here.
                ctx.end("no candidate fits")
                break
            rho_select, rho_measure = (1 - self.alpha) * share, self.alpha * share
            expected = MEAN_ABSOLUTE_NORMAL * ctx.sigma(rho_measure)
            chosen = fit.select(
                near, weights=[weights[q] for q in near], penalty=expected, rho=rho_select
            )
            if chosen is None:
                continue  # the same round again, or the end
            before = fit.current.marginal(chosen)
            measured = ctx.measure(chosen, rho_measure)
            fit.add(measured)
            if measured is not None:
                moved = l1_distance(fit.current.marginal(chosen), before)
                by_noise = MEAN_ABSOLUTE_NORMAL * measured.sigma * fit.cells([chosen])[0]
                # A replay follows what was decided: its fit may differ in the last digits.
                if ctx.decide(moved <= by_noise):
                    # The model changed by less than the noise: the next round costs more.
                    even *= ANNEALED
        return fit.model
