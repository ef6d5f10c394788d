"""A run again, from its transcript: without the private table, and without cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from jam_dagster.errors import InputError
from jam_dagster.mechanisms.context import Context, IndexOf, Problem, Programs
from jam_dagster.mechanisms.loops.comparison import (
    chosen_names,
    draw_difference,
    is_drawable,
    round_difference,
)
from jam_dagster.mechanisms.loops.settings import recorded_settings
from jam_dagster.mechanisms.loops.transcript import Transcript
from jam_dagster.mechanisms.registry import check_domain, mechanism_class
from jam_dagster.models.measurement import Measurement
from jam_dagster.privacy.accounting import UNITS_PER_RHO, rho_within, units_down, units_up
from jam_dagster.privacy.noise.calls import CLOSE, COUNTS, RECORDS, NoiseCall

if TYPE_CHECKING:
    from jam_dagster.models.base import Model
    from jam_dagster.tables import Clique, Domain, MarginalSource, Workload

_MOST_TABLES = 100
"""The most public tables whose names are believed without the tables."""


class ReplayError(InputError):
    """A transcript is not what its mechanism does with the outcomes that it records."""


class Replay(Context):
    """A run whose draws are those of a transcript; see `Context`.

    Each draw must be the transcript's next one: its step, kind, price, sensitivity and number of
    candidates are computed again and compared. A choice must be among the candidates, and a
    measurement be of what was asked for. Records that a solver found are sought again: those of the
    transcript must be worth about as much, and are taken.

    Parameters
    ----------
    transcript
        What the run released.
    domain, workload, public
        Its inputs apart from the private table.

    Attributes
    ----------
    differing
        The number of decisions that fits on this machine would have made otherwise, and of records
        that its solver does not find.
    lacks_tables
        Whether public counts, and how many of them could be chosen, are as the transcript states,
        since the public tables were not given.

    Raises
    ------
    DomainError
        If `domain` is not the transcript's.
    InputError
        If the transcript lacks a setting of the mechanism.
    SpecificationError
        If a setting is out of range.
    """

    def __init__(
        self,
        transcript: Transcript,
        domain: Domain,
        workload: Workload,
        public: MarginalSource | None = None,
    ) -> None:
        check_domain(transcript, domain)
        found = mechanism_class(transcript.mechanism)
        self._mechanism = found(**recorded_settings(found, transcript))
        self._transcript, self._next, self._units = transcript, 0, 0
        self._measured = {one.step: one for one in transcript.measurements}
        self.lacks_tables, self.differing = False, 0
        super().__init__(
            domain,
            workload,
            public,
            transcript.neighbours,
            transcript.rho_budget,
        )

    def run(self) -> Model:
        """Make the run again, and return its model.

        Raises
        ------
        ReplayError
            If the mechanism does not make the transcript's draws or rounds, with the first
            difference.
        DomainError
            If the mechanism needs the public table, and there is none.
        SpecificationError, EmptyCandidateSetError
            If the mechanism cannot start.
        """
        transcript, mechanism = self._transcript, self._mechanism
        if mechanism.parameters() != dict(transcript.parameters):
            raise ReplayError(
                f"the transcript has settings that {mechanism.title} does not have: read it with"
                " the version of jam-dagster that made it"
            )
        if transcript.workload_digest != self.workload.digest:
            raise ReplayError("the transcript is of a run of another workload")
        mechanism.check(self.domain, self.workload, self.total)
        model = mechanism.draw(self)
        self._finish()
        return model

    @property
    def spent(self) -> float:
        """The rho of all draws so far, lost ones included."""
        return self._units / UNITS_PER_RHO

    @property
    def remaining(self) -> float:
        """The rho left for further draws."""
        return rho_within(max(0, units_down(self.total) - self._units))

    @property
    def tables(self) -> Mapping[str, Sequence[str]]:
        """The names of the public tables; without them, of those that the transcript took from."""
        if self.public is not None:
            return super().tables
        self.lacks_tables, rounds = True, self._transcript.rounds
        taken = dict.fromkeys(one.table for one in rounds if one.source == "public")
        # Each of them has a copy of all candidates.
        if len(taken) > _MOST_TABLES:
            raise ReplayError(f"the transcript names {len(taken):,} public tables: give them")
        return dict.fromkeys(taken, self.domain.names)

    def _taken(self, step: str, clique: Clique, name: str) -> np.ndarray:
        taken = self._recorded(step, clique).values
        if self.public is not None:
            counts = super()._taken(step, clique, name)
            if not np.allclose(taken, counts, rtol=CLOSE, atol=CLOSE):
                raise ReplayError(f"{step} records other counts than the public table has")
        return taken

    def _recorded(self, step: str, clique: Clique) -> Measurement:
        """Return a measurement of the transcript."""
        found = self._measured.get(step)
        if found is None or found.clique != clique:
            raise ReplayError(f"no round records what {step} gave")
        if found.values.shape != self.domain.project(clique).shape:
            raise ReplayError(f"{step} gave counts of another shape than its marginal's")
        if not is_drawable(found.values):
            raise ReplayError(f"{step} gave counts that no draw gives")
        return found

    def hold(self, cliques: Sequence[Clique]) -> None:
        """Hold nothing: there is no private table."""

    def counts(self, cliques: Sequence[Clique]) -> Iterator[Mapping[Clique, np.ndarray]]:
        """Raise ReplayError: a mechanism looked at private data outside a draw."""
        raise ReplayError("the mechanism looks at private data outside a draw")

    def decide(self, holds: bool) -> bool:
        """Return what the run decided; `differing` counts what this fit would have otherwise."""
        at, decisions = len(self.decisions), self._transcript.decisions
        if at == len(decisions):
            raise ReplayError(f"round {len(self.done) + 1} records no decision")
        self.differing += decisions[at] != bool(holds)
        return super().decide(decisions[at])

    def _solve(self, step: str, programs: Programs) -> np.ndarray:
        here, found = programs.solve(), self._transcript.solutions.get(step)
        if found is None or found.shape != here.shape or found.dtype != np.int64:
            raise ReplayError(f"the transcript lacks the records that {step} found")
        if ((found < 0) | (found >= np.array(self.domain.shape))).any():
            raise ReplayError(f"{step} found a record outside of the domain")
        if (programs.worth(found) < programs.worth(here) - programs.slack).any():
            raise ReplayError(f"{step} found a record that is worse than those of a solver")
        self.differing += int((found != here).any(axis=1).sum())
        return found

    def _settle(self, step: str, problem: Problem) -> np.ndarray:
        found = self._transcript.solutions.get(step)
        if found is None:
            raise ReplayError(f"the transcript lacks the solution of {step}")
        if fault := problem.fault(found):
            raise ReplayError(f"the solution of {step} {fault}")
        return found

    def _count_records(self) -> int:
        """Take the draws that measured the number of records; a lost one was repeated."""
        lost, sensitivity = not self.neighbours.records_public, self.neighbours.records
        for attempt in count(1):
            if not lost:
                break
            step = "records" if attempt == 1 else f"records-{attempt}"
            # The release states the price.
            price = self._coming(step).rho
            call = NoiseCall(step, COUNTS, price, sensitivity, None, 1, subject=RECORDS)
            lost = self._take(call).lost
        records = self._transcript.records
        if records < 1:
            raise ReplayError(f"no run has {records:,} records")
        return records

    def _coming(self, step: str) -> NoiseCall:
        calls = self._transcript.calls
        if self._next == len(calls):
            raise ReplayError(f"{step} was never drawn")
        return calls[self._next]

    def _take(self, asked: NoiseCall) -> NoiseCall:
        """Return the next draw of the transcript, once it is known to be the one that was asked."""
        call = self._coming(asked.step)
        if difference := draw_difference(call, asked):
            raise ReplayError(difference)
        self._next += 1
        self._units += units_up(math.nextafter(call.rho, math.inf) if call.lost else call.rho)
        return call

    def _is_closed(self) -> bool:
        """Return whether an operator closed the release here; the run ends then."""
        closed = self._transcript.ended == "closed"
        if closed and self._next == len(self._transcript.calls):
            self.end("closed")
        return bool(self.ended)

    def _select(
        self,
        call: NoiseCall,
        scores: Callable[[], np.ndarray],
        named: Callable[[int], str],
        index_of: IndexOf | None,
        distinct: bool,
    ) -> list[int] | None:
        if self._is_closed():
            return None
        # Only the tables can say how many public candidates there were.
        cells = self._coming(call.step).cells if self.lacks_tables else call.cells
        made = self._take(replace(call, cells=cells))
        if made.lost:
            # The last one may have been lost because the release was closed.
            self._is_closed()
            return None
        names = chosen_names(made)
        indices: dict[str, int] = {}
        looked: Iterable[int | None] = range(call.cells)
        if index_of is not None:
            looked = map(index_of, dict.fromkeys(names))
        for index in looked:
            if index is None or not 0 <= index < call.cells:
                continue
            if (name := named(index)) in names:
                indices[name] = index
                if indices.keys() == set(names):
                    break
        if not names or indices.keys() != set(names):
            raise ReplayError(f"{call.step} chose what was no candidate: {made.subject}")
        if distinct and len(indices) < len(names):
            raise ReplayError(f"{call.step} chose a candidate twice: {made.subject}")
        return [indices[name] for name in names]

    def _measure(self, call: NoiseCall, clique: Clique) -> tuple[np.ndarray, float] | None:
        made = self._given(call)
        if made is None:
            return None
        found = self._recorded(call.step, clique)
        if found.source != "private" or found.sigma != made.scale:
            raise ReplayError(f"{call.step} gave other noise than its round records")
        return found.values, found.sigma

    def _values(
        self, call: NoiseCall, compute: Callable[[], np.ndarray]
    ) -> tuple[np.ndarray, float] | None:
        made = self._given(call)
        if made is None:
            return None
        found = self._transcript.values.get(call.step)
        if found is None or found.shape != (call.cells,) or made.scale is None:
            raise ReplayError(f"the transcript lacks the values that {call.step} gave")
        if not is_drawable(found):
            raise ReplayError(f"{call.step} gave values that no draw gives")
        return found, made.scale

    def _given(self, call: NoiseCall) -> NoiseCall | None:
        """Return a draw that gave something; None for a lost one, or an ended run."""
        if self._is_closed():
            return None
        made = self._take(call)
        if not made.lost:
            return made
        # The last one may have been lost because the release was closed, before its round was.
        if len(self.done) == len(self._transcript.rounds):
            self._is_closed()
        return None

    def _finish(self) -> None:
        """Raise ReplayError if draws, rounds or decisions are left, or differ."""
        self.close_round()
        transcript = self._transcript
        if self._next < len(transcript.calls):
            raise ReplayError(f"the mechanism does not make {self._coming('').step}")
        if len(self.done) != len(transcript.rounds):
            raise ReplayError(
                f"the transcript has {len(transcript.rounds)} rounds, and the mechanism makes "
                f"{len(self.done)}"
            )
        if self.noisy.keys() != transcript.values.keys():
            raise ReplayError("the transcript has values that the mechanism does not ask for")
        if self.solutions.keys() != transcript.solutions.keys():
            raise ReplayError("the transcript has records that the mechanism does not seek")
        if len(self.decisions) != len(transcript.decisions):
            raise ReplayError("the transcript has decisions that the mechanism does not make")
        ended = self.ended or "all rounds"
        if transcript.ended != ended:
            raise ReplayError(f"the run ended for another reason than {ended!r}")
        for one, was in zip(self.done, transcript.rounds, strict=True):
            if difference := round_difference(one, was):
                raise ReplayError(difference)


def refit(
    transcript: Transcript,
    domain: Domain,
    workload: Workload,
    public: MarginalSource | None = None,
) -> Model:
    """Rebuild the model of a transcript, without private data and without cost.

    The mechanism runs again, and each of its draws is compared with the transcript's.

    Parameters
    ----------
    transcript
        A whole transcript.
    domain, workload
        Those of the run.
    public
        The public table of the run, for models that consist of its records.

    Returns
    -------
    Model
        The model that the run returned: the same fits in the same order.

    Raises
    ------
    DomainError
        If `domain` is not the transcript's, or a public table is needed and not given.
    InputError
        If the transcript lacks a setting or has one that is out of range, or is not what its
        mechanism does (`ReplayError`).
    """
    return Replay(transcript, domain, workload, public).run()
