"""JAM-PGM: joint adaptive measurements of private and public marginals.

Fuentes, Mullins, McKenna, Miklau, Sheldon: "Joint Selection: Adaptively Incorporating Public
Information for Private Synthetic Data", AISTATS 2024, Algorithm 2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, NamedTuple

import numpy as np

from jam_dagster.mechanisms.base import PublicUse, check_countable, check_share
from jam_dagster.mechanisms.context import Context
from jam_dagster.mechanisms.loops.graphical import (
    GraphicalMechanism,
    alpha_setting,
    check_first_candidates,
    size_limit_setting,
)
from jam_dagster.mechanisms.loops.graphical_fit import GraphicalFit
from jam_dagster.mechanisms.loops.settings import setting
from jam_dagster.mechanisms.loops.transcript import MOST_ROUNDS, subject_of
from jam_dagster.models.graphical.model import FittedModel
from jam_dagster.models.measurement import MEAN_ABSOLUTE_NORMAL
from jam_dagster.tables import Clique, Domain, Workload


@dataclass(frozen=True)
class JamPgm(GraphicalMechanism):
    """The mechanism and its settings; alpha and the size limit are the paper's by default.

    Attributes
    ----------
    rounds
        T, the number of marginals that are selected.
    alpha
        Share of a round's budget that goes to measuring; the rest selects. In (0, 1).
    size_limit_mb
        Largest junction tree, in megabytes of 8 bytes a cell. It is released in proportion to the
        budget spent.
    estimator
        The fit of the model: ``accelerated`` or ``mbi``, see
        `jam_dagster.models.graphical.fit.make_estimator`.
    iterations
        Most steps of a fit.
    tolerance
        Trades error for time: a fit of the accelerated estimator ends when its loss falls by less
        than this share over 15 steps. The other takes all `iterations`.

    Raises
    ------
    SpecificationError
        If a setting is out of range.

    Notes
    -----
    Differences from the paper: there are any number of public tables, each with some of the
    attributes; n_q is the number of possible cells; the noise is discrete; before anything is spent
    the size limit is an even share of the whole; a marginal within a measured one is a candidate
    whatever the size limit; and the run ends early if no candidate fits. A choice that was lost is
    repeated with the rest of the budget; a measurement that was lost leaves its round without
    one.
    """

    rounds: int = setting(30, "T, the number of rounds", minimum=1, maximum=MOST_ROUNDS)
    alpha: float = alpha_setting(0.8)
    size_limit_mb: float = size_limit_setting()

    name: ClassVar[str] = "jam_pgm"
    title: ClassVar[str] = "JAM-PGM"
    summary: ClassVar[str] = (
        "each measurement is private (noisy, paid) or public (biased, free), whichever "
        "promises less error"
    )
    rank: ClassVar[int] = 10
    page: ClassVar[str] = "jam_pgm.md"
    compared: ClassVar[bool] = True
    pace: ClassVar[float] = 7.0
    takes_public: ClassVar[PublicUse] = "must"
    chooses_source: ClassVar[bool] = True

    def expected_rounds(self, domain: Domain, workload: Workload) -> int:
        """Return T."""
        return self.rounds

    def check_budget(self, rho: float) -> None:
        """Raise SpecificationError if `rho` is too little for a round."""
        check_share(rho, self.rounds)

    def check(self, domain: Domain, workload: Workload, rho: float) -> None:
        """Raise if the mechanism cannot start, before anything is reserved or counted.

        Raises
        ------
        SpecificationError
            If `rho` is too little for a round, or a marginal of the workload is too large to be
            counted.
        EmptyCandidateSetError
            If no marginal of the workload's downward closure fits the first round's size limit.
        """
        self.check_budget(rho)
        check_countable(domain, workload.cliques)
        closure = workload.downward_closure()
        check_first_candidates(domain, closure, self.size_limit_mb, self.rounds)

    def draw(self, ctx: Context) -> FittedModel:
        """Make the rounds of Algorithm 2.

        - the model starts uniform, with n records; its fits weigh all measurements alike
        - C_t: the candidates that keep the model within the size limit, which grows with rho_used
          (Appendix 2)
        - rho_t = (rho - rho_used) / (T - t), of which 1 - alpha selects and alpha measures
        - sigma_t^2 = Delta^2 / (2 rho_measure) with the L2 sensitivity of a marginal, so
          1 / rho_measure for replace-one neighbours
        - select tau_t, i_t from C_t by the exponential mechanism with Score(tau, i; sigma_t^2)
        - measure y_t on the private table, or take it from a public one, whose price is left over
        - estimate the model by Private-PGM
        """
        closure = ctx.workload.downward_closure()
        fit = GraphicalFit(ctx, self, closure)
        answered = {
            table: [clique for clique in closure if set(clique) <= set(attributes)]
            for table, attributes in ctx.tables.items()
        }
        candidates = [Candidate(clique) for clique in closure]
        candidates += [Candidate(clique, one) for one in answered for clique in answered[one]]

        @cache
        def public_errors() -> dict[str, dict[Clique, float]]:
            return {table: ctx.public_errors(table, answered[table]) for table in answered}

        for t in ctx.rounds(self.rounds):
            whole = self.size_limit_mb
            # Before any charge the size limit is an even share of the whole.
            limit = whole / self.rounds if t == 0 else whole * ctx.round.spent / ctx.total
            tractable = fit.tractable(limit)
            if not tractable:
                ctx.end("no candidate fits")
                break
            share = ctx.share(self.rounds - t)
            if ctx.has_ended():
                break
            rho_select = (1 - self.alpha) * share
            rho_measure = share - rho_select

            noise = MEAN_ABSOLUTE_NORMAL * ctx.sigma(rho_measure) * fit.cells(tractable)
            expected = dict(zip(tractable, noise, strict=True))
            near = [one for one in candidates if one.clique in expected]
            chosen = ctx.select(
                near,
                lambda: scores(
                    *(near, dict(zip(tractable, fit.errors(tractable), strict=True))),
                    *(expected, public_errors()),
                ),
                rho=rho_select,
                sensitivity=ctx.neighbours.jam_score,
                named=Candidate.subject,
            )
            if chosen is None:
                continue  # the same round again, or the end
            if chosen.table is None:
                fit.add(ctx.measure(chosen.clique, rho_measure))
            else:
                fit.add(ctx.take(chosen.clique, chosen.table))
        return fit.model


class Candidate(NamedTuple):
    """A marginal, and the name of the public table to take it from; None: measure it."""

    clique: Clique
    table: str | None = None

    def subject(self) -> str:
        """Return what the digest of a selection says was chosen."""
        if self.table is None:
            return subject_of(self.clique)
        return subject_of(self.clique, "public", self.table)


def scores(
    candidates: Sequence[Candidate],
    errors: Mapping[Clique, float],
    expected: Mapping[Clique, float],
    public: Mapping[str, Mapping[Clique, float]],
) -> np.ndarray:
    """Return Score(tau, i; sigma^2) of candidates, in counts, shape ``(m,)``.

    Replacing one record moves each L1 distance by at most 2, so a score by at most 4, however many
    public tables there are (`jam_dagster.privacy.sensitivity.JAM_SCORE`; `Neighbours.jam_score` for
    other neighbours).

    Parameters
    ----------
    candidates
        Marginals and their sources.
    errors
        ``||q(D) - q(model)||_1`` of each marginal.
    expected
        ``sqrt(2/pi) sigma n_q``, the expected error of a private measurement.
    public
        ``||q(D) - q(D_pub) n / n_pub||_1`` by table and marginal.
    """
    predicted = [expected[q] if table is None else public[table][q] for q, table in candidates]
    scored: np.ndarray = np.array([errors[q] for q, _ in candidates]) - np.array(predicted)
    return scored
