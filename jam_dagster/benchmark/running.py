"""Many runs side by side, as many as there are cores and memory for."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import wait
from pathlib import Path

from jam_dagster.benchmark.data import Split
from jam_dagster.benchmark.durations import Durations
from jam_dagster.benchmark.grid import Grid
from jam_dagster.benchmark.machine import available_memory_mb, memory_of_mb
from jam_dagster.benchmark.planning import Planned, plan
from jam_dagster.benchmark.results import Results, Row
from jam_dagster.benchmark.run_process import (
    LOOK_SECONDS,
    RunProcess,
    check_no_worker,
    was_killed,
)
from jam_dagster.benchmark.runs import Run
from jam_dagster.benchmark.trial import describe
from jam_dagster.errors import SpecificationError

FIRST_GUESS_MB = 1000.0
"""What a run is taken to hold at most before one of its kind has ended."""


@dataclass(frozen=True)
class Outcome:
    """A run that ended.

    Parameters
    ----------
    run
        The run.
    row
        Its row.
    number, of
        How many have ended, and how many there are to make.
    left
        The seconds that the others are expected to take.
    """

    run: Run
    row: Row
    number: int
    of: int
    left: float


@dataclass
class _Running:
    planned: Planned
    process: RunProcess
    expected_mb: float


class Runner:
    """Makes the runs of a grid that a file of results lacks.

    Parameters
    ----------
    grid
        The runs.
    results
        The file; every run is in it as soon as it has ended.
    data
        The folder of published tables.
    jobs
        Runs at a time at most. Fewer are started where the machine's memory would not hold what
        runs of their kind have held before.
    limit_s
        Seconds after which a run is ended, and kept as one that failed. None: never.

    Raises
    ------
    SpecificationError
        If `jobs` or `limit_s` is out of range.
    """

    def __init__(
        self,
        grid: Grid,
        results: Results,
        *,
        data: Path | None = None,
        jobs: int = 1,
        limit_s: float | None = None,
    ) -> None:
        if jobs < 1:
            raise SpecificationError(f"jobs must be at least 1, got {jobs}.")
        if limit_s is not None and not limit_s > 0:
            raise SpecificationError(f"the limit of a run must be above 0 seconds, got {limit_s}.")
        self.grid = grid
        self.results = results
        self.data = data
        self.jobs = jobs
        self.limit_s = limit_s
        self.splits: dict[str, Split] = {}
        self._durations = Durations(grid, results.rows, limit_s)

    def run(self, planned: Sequence[Planned], splits: Mapping[str, Split]) -> Iterator[Outcome]:
        """Make what was planned and has no row yet; yield every run as it ends.

        Where the caller stops, or is interrupted, the runs under way are ended and leave nothing.
        """
        waiting = [one for one in planned if one.status is None]
        total, ended = len(waiting), 0
        self.splits = dict(splits)
        running: list[_Running] = []
        try:
            while waiting or running:
                while waiting and len(running) < self.jobs and self._fits(waiting[0], running):
                    running.append(self._start(waiting.pop(0)))
                for one in self._ended(running):
                    run = one.planned.run
                    about = partial(describe, run, self.splits[run.split])
                    row = self.results.add(one.process.row(about, self.limit_s))
                    running.remove(one)
                    self._durations.note(row)
                    ended += 1
                    left = self._left(waiting, running)
                    yield Outcome(one.planned.run, row, ended, total, left)
        finally:
            for one in running:
                one.process.end()

    def _fits(self, one: Planned, running: Sequence[_Running]) -> bool:
        if not running:
            return True
        expected = self._expected_mb(one.run)
        if math.isinf(expected) or any(math.isinf(other.expected_mb) for other in running):
            return False
        available = available_memory_mb()
        if available is None:
            return True
        # What those that run may still come to hold is not free.
        growing = sum(
            max(0.0, other.expected_mb - memory_of_mb(other.process.pid)) for other in running
        )
        return expected <= available - growing

    def _expected_mb(self, run: Run) -> float:
        """Return what a run may come to hold; infinity where it is to run alone.

        Of one that was killed it is known what it held a moment before, and that this was not all.
        """
        kind = (run.mechanism, run.split)
        alike = [row for row in self.results.rows if (row["mechanism"], row["split"]) == kind]
        if any(was_killed(row) for row in alike):
            return math.inf
        peaks = [row["peak_memory_mb"] or 0.0 for row in alike]
        ended = any(row["status"] == "done" for row in alike)
        return max(peaks) if ended else max([FIRST_GUESS_MB, *peaks])

    def _start(self, planned: Planned) -> _Running:
        run = planned.run
        process = RunProcess(run, self.grid.by_name[run.split], self.data)
        return _Running(planned, process, self._expected_mb(run))

    def _ended(self, running: Sequence[_Running]) -> list[_Running]:
        """Wait until runs have ended, or run out of time; return them."""
        while True:
            if ended := [
                one for one in running if one.process.over() or one.process.late(self.limit_s)
            ]:
                return ended
            wait([one.process.receiver for one in running], LOOK_SECONDS)

    def _left(self, waiting: Sequence[Planned], running: Sequence[_Running]) -> float:
        def expected(one: Planned) -> float:
            return self._durations.expected(one.run)[0]

        now = time.monotonic()
        rest = [max(0.0, expected(one.planned) - (now - one.process.started)) for one in running]
        rest += [expected(one) for one in waiting]
        return max(sum(rest) / self.jobs, max(rest, default=0.0))


OnOutcome = Callable[[Outcome], None]


def run_grid(
    grid: Grid,
    path: Path,
    *,
    data: Path | None = None,
    jobs: int = 1,
    limit_s: float | None = None,
    again: bool = False,
    on_plan: Callable[[Sequence[Planned]], None] = lambda planned: None,
    on_outcome: OnOutcome = lambda outcome: None,
) -> list[Row]:
    """Make the runs of a grid that a file lacks, and return the rows of all its runs.

    Rows of its runs that are there get the grid's labels.

    Parameters
    ----------
    grid
        The runs.
    path
        The Parquet file that rows are read from and added to.
    data, jobs, limit_s
        See `Runner`.
    again
        Whether runs that failed are made once more.
    on_plan
        Called with all runs before the first one starts.
    on_outcome
        Called with every run as it ends.

    Raises
    ------
    InputError
        If the grid, a split or the file is not what it should be, or a script calls this without
        ``if __name__ == "__main__":``, so that the process of each run would call it again.
    """
    check_no_worker()
    with Results.opened(path) as results:
        planned, splits = plan(grid, results.rows, data, again=again, limit_s=limit_s)
        results.relabel({one.key: one.run.title for one in planned})
        on_plan(planned)
        runner = Runner(grid, results, data=data, jobs=jobs, limit_s=limit_s)
        for outcome in runner.run(planned, splits):
            on_outcome(outcome)
        wanted = {one.key for one in planned}
        return [row for row in results.rows if row["key"] in wanted]
