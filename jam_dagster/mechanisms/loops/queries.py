"""The base of mechanisms that choose marginals by error, one a round."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from jam_dagster.mechanisms.base import Mechanism, check_countable, check_share
from jam_dagster.mechanisms.context import Context
from jam_dagster.mechanisms.loops.graphical import alpha_setting
from jam_dagster.mechanisms.loops.scores import error_scores
from jam_dagster.mechanisms.loops.settings import setting
from jam_dagster.mechanisms.loops.transcript import MOST_ROUNDS
from jam_dagster.models.base import Model
from jam_dagster.models.graphical.estimator import Convergence
from jam_dagster.models.graphical.model import possible_sizes
from jam_dagster.models.measurement import MEAN_ABSOLUTE_NORMAL, Measurement
from jam_dagster.privacy import Neighbours
from jam_dagster.tables import Clique, Domain, Workload


class QueryFit(Protocol):
    """The model of a run that chooses marginals by their error."""

    @property
    def model(self) -> Model:
        """The model of all measurements so far."""
        ...

    @property
    def released(self) -> Model:
        """The model that the run returns."""
        ...

    def add(self, measurement: Measurement) -> Convergence:
        """Fit the model to a further measurement."""
        ...

    def candidates(self, times: Mapping[Clique, int]) -> list[Clique]:
        """Return what a round may choose, given how often each marginal was measured."""
        ...


@dataclass(frozen=True)
class QueryMechanism(Mechanism, ABC):
    """A mechanism that chooses one marginal a round, and the settings of all of them.

    Attributes
    ----------
    rounds
        T, the number of marginals that are selected.
    alpha
        Share of a round's budget that goes to measuring; the rest selects. In (0, 1).

    - Marginals are chosen from the downward closure of the workload by
      ``||q(D) - q(model)||_1 - sqrt(2/pi) sigma n_q``, as in AIM and JAM-PGM: a marginal with more
      noise than error gives no information. n_q counts the possible cells. The papers of these
      mechanisms choose single cells. `candidates`, `penalty`, `scores` and `sensitivity` are what a
      subclass may replace.
    - T rounds take equal parts of the remaining budget; the last one spends all of it.
    """

    rounds: int = setting(10, "T, the number of rounds", minimum=1, maximum=MOST_ROUNDS)
    alpha: float = alpha_setting(0.8)

    choices: ClassVar[dict[str, Any]] = {"queries": "marginal"}
    """Facts in a specification's digest and a transcript in addition to the settings."""

    def parameters(self) -> dict[str, Any]:
        """Return the settings, and the choices that are not settings, as plain values."""
        return super().parameters() | self.choices

    def expected_rounds(self, domain: Domain, workload: Workload) -> int:
        """Return T."""
        return self.rounds

    def check_budget(self, rho: float) -> None:
        """Raise SpecificationError if `rho` is too little for a round."""
        check_share(rho, self.rounds)

    def check(self, domain: Domain, workload: Workload, rho: float) -> None:
        """Raise if the mechanism cannot start, before anything is reserved or counted."""
        self.check_budget(rho)
        check_countable(domain, workload.cliques)

    def candidates(self, workload: Workload) -> Sequence[Clique]:
        """Return the marginals that a round may choose from."""
        return workload.downward_closure()

    def penalty(self, sigma: float) -> float:
        """Return what a cell costs in the score of a marginal, given the noise; in counts."""
        return MEAN_ABSOLUTE_NORMAL * sigma

    def scores(
        self, ctx: Context, model: Model, cliques: Sequence[Clique], cells: np.ndarray, sigma: float
    ) -> np.ndarray:
        """Return the scores of marginals with so many possible cells, given the noise."""
        errors = ctx.errors(model, cliques)
        return error_scores(errors, cells, self.penalty(sigma), np.ones(len(cliques)))

    def sensitivity(self, neighbours: Neighbours) -> float:
        """Return how far one person moves any score, in counts."""
        return neighbours.error_score()

    @abstractmethod
    def start(self, ctx: Context) -> QueryFit:
        """Return the model before any measurement."""

    def draw(self, ctx: Context) -> Model:
        """Select, measure and fit, once a round.

        - an equal share of what is left, of which 1 - alpha selects and alpha measures
        - select q by the exponential mechanism with ||q(D) - q(model)||_1 - p n_q, p the penalty
        - measure q(D) + N(0, sigma^2)
        - fit the model to all measurements
        """
        every = list(self.candidates(ctx.workload))
        cells = dict(zip(every, possible_sizes(ctx.domain, every), strict=True))
        ctx.hold(every)
        fit, times = self.start(ctx), dict.fromkeys(every, 0)
        ctx.model = lambda: fit.model
        for t in ctx.rounds(self.rounds):
            near = fit.candidates(times)
            if not near:
                ctx.end("no candidate fits")
            share = ctx.share(self.rounds - t)
            if ctx.has_ended():
                break
            rho_select = (1 - self.alpha) * share
            rho_measure = share - rho_select
            chosen = ctx.select(
                near,
                lambda: self.scores(
                    *(ctx, fit.model, near, np.array([cells[clique] for clique in near])),
                    ctx.sigma(rho_measure),
                ),
                rho=rho_select,
                sensitivity=self.sensitivity(ctx.neighbours),
            )
            if chosen is not None:
                measured = ctx.measure(chosen, rho_measure)
                ctx.fit(fit, measured)
                times[chosen] += measured is not None
        return fit.released
