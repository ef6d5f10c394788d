"""The base of mechanisms that choose queries by error: whole marginals, or single cells."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from jam_dagster.mechanisms.loops.base import (
    IterativeMechanism,
    MechanismRun,
    RunEndedError,
    check_countable,
    check_queries,
    check_share,
)
from jam_dagster.mechanisms.loops.graphical import alpha_setting
from jam_dagster.mechanisms.loops.settings import setting
from jam_dagster.mechanisms.loops.transcript import MOST_ROUNDS, Round, Transcript, subject_of
from jam_dagster.models.measurement import MEAN_ABSOLUTE_NORMAL
from jam_dagster.privacy.noise.calls import SelectionKind
from jam_dagster.tables import Clique, Domain, MarginalSource, Workload

if TYPE_CHECKING:
    from jam_dagster.privacy import Neighbours
    from jam_dagster.privacy.draws import Draws


@dataclass(frozen=True)
class QueryMechanism(IterativeMechanism, ABC):
    """A mechanism that chooses one query a round, and the settings of all of them.

    Attributes
    ----------
    rounds
        T, the number of queries that are selected.
    alpha
        Share of a round's budget that goes to measuring; the rest selects. In (0, 1).
    queries
        ``marginal``: a round selects and measures a whole marginal; ``cell``: one cell of one.

    Raises
    ------
    SpecificationError
        If a setting is out of range.

    Notes
    -----
    - Whole marginals are chosen from the downward closure of the workload by
      ``||q(D) - q(model)||_1 - sqrt(2/pi) sigma n_q``, as in AIM and JAM-PGM: a marginal with more
      noise than error gives no information. n_q counts the possible cells.
    - Single cells, which all have the same noise, are chosen from the workload's marginals by
      ``|q(D) - q(model)|``, as in the papers.
    - T rounds take equal parts of the remaining budget; the last one spends all of it.
    """

    rounds: int = setting(10, "T, the number of rounds", minimum=1, maximum=MOST_ROUNDS)
    alpha: float = alpha_setting(0.8)
    queries: str = setting(
        "marginal",
        "what a round measures: a whole marginal, or a single cell of one",
        choices=("marginal", "cell"),
    )

    uses_public: ClassVar[bool] = False
    samples: ClassVar[bool] = True

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
        if self.queries == "cell":
            check_queries(domain, workload)

    @classmethod
    def sensitivities(
        cls, transcript: Transcript, domain: Domain, workload: Workload, neighbours: Neighbours
    ) -> Iterable[float]:
        """Return the required sensitivity of each selection, the same in every round."""
        single = transcript.parameters.get("queries") == "cell"
        return repeat(_sensitivity(neighbours, single=single))


def _sensitivity(neighbours: Neighbours, *, single: bool) -> float:
    return neighbours.cell if single else neighbours.error_score()


class QueryRun(MechanismRun):
    """A run that chooses queries by number: marginals, or the cells of all marginals.

    Attributes
    ----------
    kind
        The selection mechanism.
    times
        Number of measurements of each query.
    """

    kind: SelectionKind = "exponential mechanism"

    def __init__(
        self,
        mechanism: QueryMechanism,
        private: MarginalSource,
        workload: Workload,
        draws: Draws,
    ) -> None:
        self.single = mechanism.queries == "cell"
        cliques = workload.cliques if self.single else workload.downward_closure()
        super().__init__(mechanism, private, workload, cliques, draws)
        self.alpha = mechanism.alpha
        self.starts = np.cumsum([0, *(self.domain.size(clique) for clique in cliques)])
        self.times = np.zeros(self.starts[-1] if self.single else len(cliques), dtype=np.int64)

    def queries(self) -> npt.NDArray[np.intp]:
        """Return the numbers of the current candidates: all queries."""
        return np.arange(len(self.times))

    def query_of(self, number: int) -> tuple[Clique, int | None]:
        """Return the marginal of a query, and its cell if it is a single one."""
        if not self.single:
            return self.closure[number], None
        marginal = int(np.searchsorted(self.starts, number, side="right")) - 1
        return self.closure[marginal], number - int(self.starts[marginal])

    def query_errors(self, numbers: npt.NDArray[np.intp]) -> npt.NDArray[np.float64]:
        """Return the model's errors on queries, in counts, shape ``(m,)``."""
        if not self.single:
            return self.errors(numbers.tolist())
        errors = np.empty(int(self.starts[-1]))
        with self.stage("answer"):
            for clique, counts, answer in self.answered(self.closure):
                first = self.starts[self.number[clique]]
                apart = np.abs(counts - answer).ravel()
                errors[first : first + apart.size] = apart
        return errors[numbers]

    def round(self, index: int) -> Round:
        """Select, measure and fit once."""
        numbers = self.queries()
        if not len(numbers):
            raise RunEndedError("no candidate fits")

        share = self.share()
        rho_select = (1 - self.alpha) * share
        rho_measure = share - rho_select

        scores = self.query_errors(numbers)
        if not self.single:
            scores -= MEAN_ABSOLUTE_NORMAL * self.sigma(rho_measure) * self.cells[numbers]

        def named(place: int) -> str:
            clique, cell = self.query_of(int(numbers[place]))
            return subject_of(clique, cell=cell)

        sensitivity = _sensitivity(self.draws.neighbours, single=self.single)
        number = int(numbers[self.select(scores, rho_select, sensitivity, named, self.kind)])
        clique, cell = self.query_of(number)
        done = self.finish(
            clique,
            self.measure(clique, rho_measure, cell),
            candidates=len(numbers),
            rho_select=rho_select,
            rho_measure=rho_measure,
        )
        if done.measurement is not None:
            self.times[number] += 1
        return done
