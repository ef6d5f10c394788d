"""The base of mechanisms that choose marginals by error, one a round."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from jam_dagster.mechanisms.context import Inputs
from jam_dagster.mechanisms.loops.base import (
    IterativeMechanism,
    MechanismRun,
    RunEndedError,
    check_countable,
    check_share,
)
from jam_dagster.mechanisms.loops.graphical import alpha_setting
from jam_dagster.mechanisms.loops.settings import setting
from jam_dagster.mechanisms.loops.transcript import MOST_ROUNDS, Round, Transcript
from jam_dagster.models.measurement import MEAN_ABSOLUTE_NORMAL
from jam_dagster.tables import Domain, Workload

if TYPE_CHECKING:
    from jam_dagster.privacy import Neighbours


@dataclass(frozen=True)
class QueryMechanism(IterativeMechanism, ABC):
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
      mechanisms choose single cells.
    - T rounds take equal parts of the remaining budget; the last one spends all of it.
    """

    rounds: int = setting(10, "T, the number of rounds", minimum=1, maximum=MOST_ROUNDS)
    alpha: float = alpha_setting(0.8)

    uses_public: ClassVar[bool] = False
    samples: ClassVar[bool] = True
    choices: ClassVar[dict[str, Any]] = {"queries": "marginal"}
    """What a specification's digest and a transcript say besides the settings."""

    def parameters(self) -> dict[str, Any]:
        """Return the settings, and the choices that are none, as plain values."""
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

    @classmethod
    def sensitivities(
        cls, transcript: Transcript, domain: Domain, workload: Workload, neighbours: Neighbours
    ) -> Iterable[float]:
        """Return the required sensitivity of each selection: a marginal's, in L1."""
        return repeat(neighbours.error_score())


class QueryRun(MechanismRun):
    """A run that chooses marginals by their error."""

    def __init__(self, mechanism: QueryMechanism, given: Inputs) -> None:
        super().__init__(mechanism, given, given.workload.downward_closure())
        self.alpha = mechanism.alpha
        # Number of measurements of each marginal.
        self.times = np.zeros(len(self.closure), dtype=np.int64)

    def candidates(self) -> list[int]:
        """Return the numbers of the candidates: all marginals."""
        return list(range(len(self.closure)))

    def round(self, index: int) -> Round:
        """Select, measure and fit once.

        - an equal share of what is left, of which 1 - alpha selects and alpha measures
        - select q by the exponential mechanism with ||q(D) - q(model)||_1 - sqrt(2/pi) sigma n_q
        - measure q(D) + N(0, sigma^2)
        - fit the model to all measurements
        """
        numbers = self.candidates()
        if not numbers:
            raise RunEndedError("no candidate fits")

        share = self.share()
        rho_select = (1 - self.alpha) * share
        rho_measure = share - rho_select

        expected = MEAN_ABSOLUTE_NORMAL * self.sigma(rho_measure) * self.cells[numbers]
        scores, sensitivity = self.errors(numbers) - expected, self.draws.neighbours.error_score()
        number = self.select_private(numbers, scores, rho_select, sensitivity)
        clique = self.closure[number]

        done = self.finish(
            clique,
            self.measure(clique, rho_measure),
            candidates=len(numbers),
            rho_select=rho_select,
            rho_measure=rho_measure,
        )
        if done.measurement is not None:
            self.times[number] += 1
        return done
