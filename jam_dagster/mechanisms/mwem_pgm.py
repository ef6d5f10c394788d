"""MWEM+PGM: every round measures the worst answered marginal of the workload.

McKenna, Sheldon, Miklau: "Graphical-model based estimation and inference for differential
privacy", ICML 2019, as McKenna, Mullins, Sheldon, Miklau: "AIM: An Adaptive and Iterative Mechanism
for Differentially Private Synthetic Data", VLDB 2022, state it for zCDP in Algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jam_dagster.mechanisms.base import check_countable, check_share
from jam_dagster.mechanisms.context import Context
from jam_dagster.mechanisms.loops.graphical import (
    GraphicalMechanism,
    alpha_setting,
    check_first_candidates,
    size_limit_setting,
)
from jam_dagster.mechanisms.loops.graphical_fit import GraphicalFit
from jam_dagster.mechanisms.loops.settings import setting
from jam_dagster.mechanisms.loops.transcript import MOST_ROUNDS
from jam_dagster.models.graphical.model import FittedModel
from jam_dagster.tables import Domain, Workload


@dataclass(frozen=True)
class MwemPgm(GraphicalMechanism):
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
        The fit of the model; see `jam_dagster.models.graphical.fit.make_estimator`.
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

    name: ClassVar[str] = "mwem_pgm"
    title: ClassVar[str] = "MWEM+PGM"
    summary: ClassVar[str] = (
        "measures the marginal of the workload with the model's largest error, one a round"
    )
    rank: ClassVar[int] = 30
    page: ClassVar[str] = "without_public_data.md#mwempgm"
    bounds_errors: ClassVar[bool] = True

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

    def draw(self, ctx: Context) -> FittedModel:
        """Make the rounds of Algorithm 1 of the AIM paper.

        - an equal share of what is left, of which 1 - alpha selects and alpha measures
        - select r_t from the tractable marginals of the workload by the exponential mechanism with
          q_r(D) = ||M_r(D) - M_r(p_t-1)||_1 - n_r
        - measure y_t = M_r(D) + N(0, sigma^2)
        - estimate p_t by Private-PGM
        """
        rounds = self.expected_rounds(ctx.domain, ctx.workload)
        fit = GraphicalFit(ctx, self, ctx.workload.cliques)
        for t in ctx.rounds(rounds):
            share = ctx.share(rounds - t)
            rho_select = (1 - self.alpha) * share
            # Some candidate fits the first limit, and a measured marginal fits every limit.
            near = fit.tractable(self.size_limit_mb * (t + 1) / rounds)
            chosen = fit.select(near, penalty=1.0, rho=rho_select)
            if chosen is not None:
                fit.add(ctx.measure(chosen, share - rho_select))
        return fit.model
