"""A pool of runs: some at a time, and none that is expected to end after a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from jam_dagster.trials.durations import Durations
from jam_dagster.trials.results import Row
from jam_dagster.trials.runs import Run

if TYPE_CHECKING:
    from jam_dagster.trials.run_process import RunProcess

_LOOK_SECONDS = 0.05

R = TypeVar("R", bound=Run)


@dataclass(frozen=True)
class Outcome:
    """A finished run: `number` of all `of` runs to make, with the expected seconds for the rest."""

    run: Run
    row: Row
    number: int
    of: int
    left: float


@dataclass
class Pool(Generic[R]):
    """A pool of runs, which fall out of it one by one as they end.

    Parameters
    ----------
    begin
        Begins a run in a process of its own, or makes its row here.
    durations
        The expected durations.
    jobs
        The number of parallel runs.
    deadline_s
        Seconds after which no run is to end; the first begins in any case.

    Attributes
    ----------
    late
        The runs that did not begin for the deadline.
    """

    begin: Callable[[R], RunProcess | Row]
    durations: Durations
    jobs: int = 1
    deadline_s: float = float("inf")
    late: list[R] = field(default_factory=list, init=False)

    def outcomes(self, runs: Iterable[R]) -> Generator[Outcome, None, None]:
        """Make runs in their order; closing the iterator ends those that are under way."""
        started, waiting = time.monotonic(), list(runs)
        total, number = len(waiting), 0
        running: list[tuple[R, RunProcess]] = []
        try:
            while waiting or running:
                ended: tuple[R, Row] | None = None
                while waiting and len(running) < self.jobs and ended is None:
                    run = waiting.pop(0)
                    seconds = time.monotonic() - started + self.durations.expected(run)[0]
                    if (number or running) and seconds > self.deadline_s:
                        self.late.append(run)
                        continue
                    begun = self.begin(run)
                    if isinstance(begun, dict):
                        ended = run, begun
                    else:
                        running.append((run, begun))
                if ended is None:
                    over = next((one for one in running if one[1].over()), None)
                    if over is None:
                        time.sleep(_LOOK_SECONDS if running else 0)
                        continue
                    ended = over[0], over[1].row()
                    running.remove(over)
                run, row = ended
                self.durations.note(row)
                number += 1
                rest = [self.durations.expected(one)[0] for one in waiting]
                rest += [self.durations.expected(run)[0] - one.seconds for run, one in running]
                left = sum(max(0.0, one) for one in rest) / self.jobs
                yield Outcome(run, row, number, total, left)
        finally:
            for _, one in running:
                one.end()
