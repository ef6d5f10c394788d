"""Parallel runs, as many as cores and memory allow."""

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
"""Assumed peak memory of a run before a similar run has ended."""


@dataclass(frozen=True)
class Outcome:
    """A finished run.

    Parameters
    ----------
    run
        The run.
    row
        Its row.
    number, of
        Number of finished runs, and of all runs to make.
    left
        Expected seconds for the others.
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
    """Runs the missing runs of a grid.

    Parameters
    ----------
    grid
        The runs.
    results
        The file of results; every run is added as soon as it has ended.
    data
        The folder of published tables.
    jobs
        The most parallel runs. Fewer are started if similar runs have needed more memory than the
        machine has.
    limit_s
        Time limit of a run in seconds, after which it counts as failed. None: no limit.

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
        """Run all planned runs without a row; yield every run as it ends.

        If the caller stops or is interrupted, the current runs are ended without a row.
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
        # Memory that current runs may still need is not free.
        growing = sum(
            max(0.0, other.expected_mb - memory_of_mb(other.process.pid)) for other in running
        )
        return expected <= available - growing

    def _expected_mb(self, run: Run) -> float:
        """Return the expected peak memory of a run; infinity if it must run alone.

        The last known memory of a killed run is a lower bound of its peak.
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
        """Wait until runs have ended or reached their time limit; return them."""
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

    Existing rows of its runs get the grid's labels.

    Parameters
    ----------
    grid
        The runs.
    path
        The Parquet file of rows.
    data, jobs, limit_s
        See `Runner`.
    again
        Whether failed runs are repeated.
    on_plan
        Called with all runs before the first one starts.
    on_outcome
        Called with every run as it ends.

    Raises
    ------
    InputError
        If the grid, a split or the file is invalid, or a script calls this without
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
