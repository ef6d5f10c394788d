"""A run again, from its transcript: without the private table, and without cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from jam_dagster.errors import JamError
from jam_dagster.mechanisms.context import Context
from jam_dagster.mechanisms.loops.transcript import (
    NOTHING,
    NOTHING_HELPS,
    Round,
    Transcript,
    subject_of,
)
from jam_dagster.privacy.accounting import UNITS_PER_RHO, rho_within, units_down, units_up
from jam_dagster.privacy.noise.calls import SELECTION, DrawKind, NoiseCall

if TYPE_CHECKING:
    from jam_dagster.mechanisms.loops.base import IterativeMechanism
    from jam_dagster.models.base import Model
    from jam_dagster.tables import Clique, Domain, MarginalSource, Workload

_CLOSE = 1e-9
"""Relative tolerance of what was computed with floats: sums may round otherwise elsewhere."""


class ReplayError(JamError):
    """A transcript is not what its mechanism does with the outcomes that it records."""


class Replay(Context):
    """A run whose draws are those of a transcript; see `Context`.

    Each draw must be the transcript's next one: its step, kind, price, sensitivity and number of
    candidates are computed again and compared. A choice must be among the candidates.
    """

    def __init__(
        self,
        transcript: Transcript,
        domain: Domain,
        workload: Workload,
        public: MarginalSource | None = None,
    ) -> None:
        self._transcript, self._next, self._units = transcript, 0, 0
        self._lacks_tables, self.differing = False, 0
        super().__init__(
            domain,
            workload,
            public,
            transcript.neighbours,
            transcript.rho_budget,
        )

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
        self._lacks_tables, rounds = True, self._transcript.rounds
        taken = dict.fromkeys(one.table for one in rounds if one.source == "public")
        return dict.fromkeys(taken, self.domain.names)

    def _public_counts(self, clique: Clique, name: str) -> np.ndarray:
        """Return the counts that the transcript took, once the public table is known to have them.

        Without the table nothing can be compared.
        """
        was = self._recorded
        if was is None or was.measurement is None:
            raise ReplayError(f"no round records what was taken from the public table {name!r}")
        values = was.measurement.values
        if self.public is not None:
            counted = super()._public_counts(clique, name)
            if values.shape != counted.shape or not np.allclose(
                values, counted, rtol=_CLOSE, atol=_CLOSE
            ):
                raise ReplayError(f"round {was.index + 1} records other counts than {name!r} has")
        return values

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

    def _count_records(self) -> int:
        """Take the draws that measured the number of records; a lost one was repeated."""
        lost, sensitivity = not self.neighbours.records_public, self.neighbours.records
        for attempt in count(1):
            if not lost:
                break
            step = "records" if attempt == 1 else f"records-{attempt}"
            # What it may cost is the release's to say.
            price = self._coming(step).rho
            lost = self._take(step, "discrete Gaussian", price, sensitivity, 1).lost
        return self._transcript.records

    def _coming(self, step: str) -> NoiseCall:
        calls = self._transcript.calls
        if self._next == len(calls):
            raise ReplayError(f"{step} was never drawn")
        return calls[self._next]

    def _take(
        self, step: str, kind: DrawKind, rho: float, sensitivity: float, cells: int
    ) -> NoiseCall:
        """Return the next draw of the transcript, once it is known to be the one that was asked."""
        call = self._coming(step)
        if call.step != step:
            raise ReplayError(f"{step} was not drawn, and {call.step} was")
        # A float may have lost a unit of what was charged for a lost draw.
        if not math.isclose(call.rho, rho, rel_tol=_CLOSE, abs_tol=2 / UNITS_PER_RHO):
            raise ReplayError(f"{step} cost rho {call.rho:.6g} in place of {rho:.6g}")
        for what, was, wanted in (("kind", call.kind, kind), ("size", call.cells, cells)):
            if was != wanted:
                raise ReplayError(f"{step} has the {what} {was} in place of {wanted}")
        if not math.isclose(call.sensitivity, sensitivity, rel_tol=_CLOSE):
            raise ReplayError(
                f"{step} has the sensitivity {call.sensitivity:g} in place of {sensitivity:g}"
            )
        self._next += 1
        self._units += units_up(math.nextafter(call.rho, math.inf) if call.lost else call.rho)
        return call

    def _is_closed(self) -> bool:
        """Return whether an operator closed the release here; the run ends then."""
        closed = self._transcript.ended == "closed"
        if closed and self._next == len(self._transcript.calls):
            self.end("closed")
        return bool(self.ended)

    @property
    def _recorded(self) -> Round | None:
        """The round of the transcript that is being made; None if it has no more."""
        rounds = self._transcript.rounds
        return rounds[len(self.done)] if len(self.done) < len(rounds) else None

    def _select(
        self,
        step: str,
        scores: Callable[[], np.ndarray],
        size: int,
        rho: float,
        sensitivity: float,
        named: Callable[[int], str],
    ) -> int | None:
        if self._is_closed():
            return None
        # Only the tables can say how many public candidates there were.
        cells = self._coming(step).cells if self._lacks_tables else size
        if self._take(step, SELECTION, rho, sensitivity, cells).lost:
            return None
        was = self._recorded
        if was is None and self._transcript.ended != NOTHING_HELPS:
            self._end_after_choice(step)
            return None
        subject = NOTHING if was is None else subject_of(was.clique, was.source, was.table)
        for place in range(size):
            if named(place) == subject:
                return place
        raise ReplayError(f"{step} chose what was no candidate: {subject}")

    def _end_after_choice(self, step: str) -> None:
        """End with a choice that no round records: an operator closed before it was measured."""
        calls = self._transcript.calls[self._next :]
        # A measurement that was charged, and not stored, is of a marginal that nothing records.
        if calls and calls[0].lost:
            (call, *_) = calls
            sensitivity = self.neighbours.marginal_l2
            self._take(call.step, "discrete Gaussian", call.rho, sensitivity, call.cells)
        if not self._is_closed():
            raise ReplayError(f"no round records what {step} chose")

    def _measure(self, step: str, clique: Clique, rho: float) -> tuple[np.ndarray, float] | None:
        if self._is_closed():
            return None
        cells = self.domain.size(clique)
        call = self._take(step, "discrete Gaussian", rho, self.neighbours.marginal_l2, cells)
        was = self._recorded
        if call.lost and self._is_closed():
            return None
        if was is None or was.clique != clique or was.source != "private":
            raise ReplayError(f"no round records what {step} measured")
        if call.lost != (was.measurement is None):
            raise ReplayError(f"{step} was lost, or its round has no measurement: not both")
        if was.measurement is None:
            return None
        return was.measurement.values, was.measurement.sigma

    def finish(self) -> None:
        """Check that nothing of the transcript is left.

        Raises
        ------
        ReplayError
            If draws or rounds are left, or the run ended for another reason.
        """
        self.close_round()
        if self._next < len(self._transcript.calls):
            raise ReplayError(f"the mechanism does not make {self._coming('').step}")
        if len(self.done) != len(self._transcript.rounds):
            raise ReplayError("the transcript has rounds that the mechanism does not make")
        if len(self.decisions) != len(self._transcript.decisions):
            raise ReplayError("the transcript has decisions that the mechanism does not make")
        ended = self.ended or "all rounds"
        if self._transcript.ended != ended:
            raise ReplayError(f"the run ended for another reason than {ended!r}")
        for one, was in zip(self.done, self._transcript.rounds, strict=True):
            told = (one.candidates, one.size_limit_mb, one.rho_select, one.rho_measure)
            if told != (was.candidates, was.size_limit_mb, was.rho_select, was.rho_measure):
                raise ReplayError(f"round {one.index + 1} records other numbers than it had")


def replay(
    mechanism: IterativeMechanism,
    transcript: Transcript,
    domain: Domain,
    workload: Workload,
    public: MarginalSource | None = None,
) -> Model:
    """Make a run again from its transcript, and return its model.

    Parameters
    ----------
    mechanism
        The mechanism with the settings of the run.
    transcript
        What the run released.
    domain, workload, public
        What it was given besides the private table.

    Raises
    ------
    ReplayError
        If the mechanism does not make the transcript's draws, with the first difference; or if it
        decides otherwise, although the same processor fits alike.
    """
    run = Replay(transcript, domain, workload, public)
    model = mechanism.draw(run)
    run.finish()
    if run.differing:
        raise ReplayError(f"{run.differing} decisions of the run are not those of its fits")
    return model
