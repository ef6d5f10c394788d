"""A run on the private table, whose draws are charged, made and stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from jam_dagster.errors import DomainError, LostDrawError, PrivateStepError, ReleaseClosedError
from jam_dagster.mechanisms.context import Context, IndexOf, Problem, Programs
from jam_dagster.mechanisms.loops.scores import representable
from jam_dagster.mechanisms.loops.transcript import Transcript
from jam_dagster.privacy.noise.calls import INTEGERS, SELECTION, NoiseCall
from jam_dagster.tables import (
    Clique,
    MarginalSource,
    Workload,
    marginal_blocks,
)
from jam_dagster.tables.codes.block_counts import KEPT_CELLS, can_be_kept

if TYPE_CHECKING:
    from jam_dagster.models.base import Model
    from jam_dagster.privacy.draws import Draws

PRIVATE_CELLS = KEPT_CELLS
"""With more counts, or more than half of the machine's memory, private marginals are counted again
in every round."""

Drawn = TypeVar("Drawn")


@dataclass(frozen=True, eq=False)
class MechanismResult:
    """A fitted model and the transcript from which it can be refitted.

    Attributes
    ----------
    model, transcript
        The released results.
    seconds
        Wall-clock time of each stage of the run.
    """

    model: Model
    transcript: Transcript
    seconds: Mapping[str, float] = field(default_factory=dict, kw_only=True)


class Live(Context):
    """A run that draws, or resumes from stored draws; see `Context` and `Mechanism.run`."""

    def __init__(
        self,
        private: MarginalSource,
        public: MarginalSource | None,
        workload: Workload,
        draws: Draws,
    ) -> None:
        # If the number of records is private, emptiness is private, too.
        if draws.neighbours.records_public and private.records < 1:
            raise DomainError("The private table is empty; it needs at least one record.")
        self._private, self._draws, self._drawing = private, draws, False
        self._closed: ReleaseClosedError | None = None
        self._failed = False
        self._held: Mapping[Clique, np.ndarray] | None = None
        self._stated: list[Clique] = []
        super().__init__(private.domain, workload, public, draws.neighbours, draws.total)

    @property
    def spent(self) -> float:
        """The rho of all draws so far, lost ones included."""
        return self._draws.spent

    @property
    def remaining(self) -> float:
        """The rho left for further draws."""
        return self._draws.remaining

    def hold(self, cliques: Sequence[Clique]) -> None:
        """State the private marginals that draws may ask for; they are counted at once if few."""
        few = sum(map(self.domain.size, cliques)) <= PRIVATE_CELLS
        if few and can_be_kept(self.domain, cliques):
            self._stated = list(cliques)

    def counts(self, cliques: Sequence[Clique]) -> Iterator[Mapping[Clique, np.ndarray]]:
        """Yield private marginals, all at once those that are in memory."""
        if not self._drawing:
            raise PrivateStepError("a mechanism looked at private data outside a draw")
        if self._held is None and self._stated:
            with self.stage("count"):
                self._held = self._private.marginals(self._stated)
        held = self._held or {}
        if known := {clique: held[clique] for clique in cliques if clique in held}:
            yield known
        if other := [clique for clique in cliques if clique not in held]:
            yield from marginal_blocks(self._private, other)

    def _select(
        self,
        call: NoiseCall,
        scores: Callable[[], np.ndarray],
        named: Callable[[int], str],
        index_of: IndexOf | None,
        distinct: bool,
    ) -> list[int] | None:
        def held() -> np.ndarray:
            return representable(self._on_private(scores), call.sensitivity)

        return self._unless_lost(
            "select",
            lambda: self._draws.select(
                *(call.step, held),
                size=call.cells,
                choices=call.choices,
                rho=call.rho,
                sensitivity=call.sensitivity,
                named=named,
                distinct=distinct,
            ),
        )

    def _measure(self, call: NoiseCall, clique: Clique) -> tuple[np.ndarray, float] | None:
        def counted() -> np.ndarray:
            (block,) = self._on_private(lambda: list(self.counts([clique])))
            counts: np.ndarray = block[clique]
            return counts

        return self._unless_lost(
            "measure",
            lambda: self._draws.measure(
                *(call.step, counted), size=call.cells, rho=call.rho, subject=call.subject
            ),
        )

    def _values(
        self, call: NoiseCall, compute: Callable[[], np.ndarray]
    ) -> tuple[np.ndarray, float] | None:
        return self._unless_lost(
            "measure",
            lambda: self._draws.values(
                *(call.step, lambda: self._on_private(compute)),
                size=call.cells,
                rho=call.rho,
                sensitivity=call.sensitivity,
                subject=call.subject,
                integers=call.kind == INTEGERS,
            ),
        )

    def decide(self, holds: bool) -> bool:
        """Return and record what holds, or what held in the run that is resumed.

        Prices of stored draws follow from it, and another processor's fit could decide otherwise.
        Nothing is decided within a draw: a decision is released, and costs nothing.
        """
        if self._drawing:
            raise PrivateStepError("a mechanism decides something within a draw")
        return super().decide(self._draws.decided(len(self.decisions) + 1, bool(holds)))

    def _solve(self, step: str, programs: Programs) -> np.ndarray:
        if self._drawing:
            raise PrivateStepError("a mechanism solves a program within a draw")
        return self._draws.solved(step, programs.solve)

    def _settle(self, step: str, problem: Problem) -> np.ndarray:
        if self._drawing:
            raise PrivateStepError("a mechanism solves a problem within a draw")
        return self._draws.solved(step, problem.solve)

    def _on_private(self, compute: Callable[[], Any]) -> Any:
        self._drawing = True
        try:
            return compute()
        finally:
            self._drawing = False

    def _count_records(self) -> int:
        return self._draws.records(self._private.records)

    def _unless_lost(self, name: str, draw: Callable[[], Drawn]) -> Drawn | None:
        """Return an outcome; None for a lost draw, and once an operator closed the release.

        A draw that fails ends the run, for its mechanism may continue in another way.
        """
        self._check_whole()
        try:
            with self.stage(name):
                return draw()
        except LostDrawError:
            return None
        except ReleaseClosedError as closed:
            self._closed = closed
            self.end("closed")
            return None
        except Exception:
            self._failed = True
            raise

    def _check_whole(self) -> None:
        """Raise if a draw has failed: what follows it would show that private values allowed it."""
        if self._failed:
            raise PrivateStepError("a mechanism continued after a draw that failed")

    def result(self, name: str, parameters: Mapping[str, Any], model: Model) -> MechanismResult:
        """Return a run's model with its transcript, by the mechanism's name and settings.

        The paid results are a release, if there is a measurement, where an operator closed the
        account.

        Raises
        ------
        ReleaseClosedError
            If the account was closed before the first measurement.
        """
        self._check_whole()
        self.close_round()
        # Other released values than marginals were measured, too, and records follow from choices.
        measured = any(one.measurement for one in self.done) or any(
            "/" in step for step in self.noisy
        )
        chosen = any(one.kind == SELECTION and not one.lost for one in self._draws.calls)
        # A solution of no round is of the model alone.
        measured = measured or (chosen and any("/" in step for step in self.solutions))
        if self._closed is not None and not measured:
            raise self._closed
        draws = self._draws
        transcript = Transcript(
            mechanism=name,
            parameters=parameters,
            domain_digest=self.domain.digest,
            records=self.records,
            rho_budget=self.total,
            rho_spent=self.spent,
            rounds=tuple(self.done),
            ended=self.ended or "all rounds",
            neighbours=self.neighbours,
            calls=draws.calls,
            decisions=tuple(self.decisions),
            values=self.noisy,
            solutions=self.solutions,
            workload_digest=self.workload.digest,
            noise=draws.noise_name,
            releasable=draws.releasable,
        )
        return MechanismResult(model, transcript, seconds=self.stages.seconds)
