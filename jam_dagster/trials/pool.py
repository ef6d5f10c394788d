"""A pool of runs: some at a time, and none that is expected to end after a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from jam_dagster.trials.durations import Durations
from jam_dagster.trials.results import Row
from jam_dagster.trials.runs import Run

_LOOK_SECONDS = 0.05

R = TypeVar("R", bound=Run)


class Begun(Protocol):
    """A run that has begun, in a process of its own or in this one."""

    @property
    def seconds(self) -> float:
        """Seconds since the start."""

    def over(self) -> bool:
        """Return whether it has ended."""

    def row(self) -> Row:
        """Wait for the row."""

    def end(self) -> None:
        """End it."""


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
        Begins a run.
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

    begin: Callable[[R], Begun]
    durations: Durations
    jobs: int = 1
    deadline_s: float = float("inf")
    late: list[R] = field(default_factory=list, init=False)

    def outcomes(self, runs: Iterable[R]) -> Generator[Outcome, None, None]:
        """Make runs in their order; closing the iterator ends those that are under way."""
        started, waiting = time.monotonic(), list(runs)
        total, number = len(waiting), 0
        running: list[tuple[R, Begun]] = []
        try:
            while waiting or running:
                while waiting and len(running) < self.jobs:
                    run = waiting.pop(0)
                    seconds = time.monotonic() - started + self.durations.expected(run)[0]
                    if (number or running) and seconds > self.deadline_s:
                        self.late.append(run)
                    else:
                        running.append((run, self.begin(run)))
                ended = next((one for one in running if one[1].over()), None)
                if ended is None:
                    time.sleep(_LOOK_SECONDS if running else 0)
                    continue
                run, begun = ended
                row = begun.row()
                running.remove(ended)
                self.durations.note(row)
                number += 1
                rest = [self.durations.expected(one)[0] for one in waiting]
                rest += [self.durations.expected(run)[0] - one.seconds for run, one in running]
                left = sum(max(0.0, one) for one in rest) / self.jobs
                yield Outcome(run, row, number, total, left)
        finally:
            for _, one in running:
                one.end()
