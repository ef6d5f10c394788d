"""Many runs side by side: a process each, so that none holds another's memory or threads."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from jam_dagster.benchmark.data import Split, SplitFiles
from jam_dagster.benchmark.durations import Durations
from jam_dagster.benchmark.grid import Grid
from jam_dagster.benchmark.machine import available_memory_mb, memory_of_mb
from jam_dagster.benchmark.planning import Planned, plan
from jam_dagster.benchmark.results import Results, Row
from jam_dagster.benchmark.runs import Run
from jam_dagster.benchmark.trial import describe
from jam_dagster.benchmark.worker import ONE_THREAD, work
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


class RunProcess:
    """A run in a process of its own, with one thread.

    Parameters
    ----------
    run
        What it makes.
    files
        Where its split is found.
    data
        The folder of published tables.
    """

    def __init__(self, run: Run, files: SplitFiles, data: Path | None) -> None:
        # A fork of a process with threads may hang, and would keep the libraries' thread pools.
        context = multiprocessing.get_context("spawn")
        self.receiver, sender = context.Pipe(duplex=False)
        folder = None if data is None else str(data)
        self.process = context.Process(
            target=work, args=(run.to_dict(), files.to_dict(), folder, sender), daemon=True
        )
        with _environment(ONE_THREAD):
            self.process.start()
        # Only the process holds it now, so its end is seen here.
        sender.close()
        self.started = time.monotonic()

    def row(self, about: Callable[[], Row], limit_s: float | None = None) -> Row:
        """Wait for the row, or return one that says how the run failed.

        Parameters
        ----------
        about
            Returns what is known of the row where the process told nothing.
        limit_s
            Seconds since the start after which the process is ended. None: never.
        """
        left = None if limit_s is None else max(0.0, self.started + limit_s - time.monotonic())
        why = ""
        try:
            if self.receiver.poll(left):
                row: Row = self.receiver.recv()
                self.process.join()
                return row
            why = f"it took more than {limit_s:g} s"
            self.process.kill()
        except EOFError:
            pass
        finally:
            self.receiver.close()
        self.process.join()
        seconds = time.monotonic() - self.started
        why = why or _told(self.process.exitcode or 0)
        return {**about(), "status": "failed", "message": why, "seconds": seconds}

    @property
    def pid(self) -> int:
        """Of the process."""
        return self.process.pid or 0

    def end(self) -> None:
        """End the run; nothing is left of it."""
        self.process.kill()
        self.process.join()


def _told(code: int) -> str:
    if code < 0:
        return (
            f"its process was killed by signal {-code}, for which want of memory is the usual "
            "reason"
        )
    return f"its process ended with status {code} and no result; what it said is above"


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
        self._peaks: dict[tuple[str, str], float] = {}
        for row in results.rows:
            self._note_peak(row)

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
                    running.remove(one)
                    run = one.planned.run
                    about = partial(describe, run, self.splits[run.split])
                    row = one.process.row(about, self.limit_s)
                    self._note_peak(row)
                    row = self.results.add(row)
                    self._durations.note(row)
                    ended += 1
                    left = self._left(waiting, running)
                    yield Outcome(one.planned.run, row, ended, total, left)
        finally:
            for one in running:
                one.process.end()

    def _fits(self, one: Planned, running: Sequence[_Running]) -> bool:
        available = available_memory_mb()
        if not running or available is None:
            return True
        # What those that run may still come to hold is not free.
        growing = sum(
            max(0.0, other.expected_mb - memory_of_mb(other.process.pid)) for other in running
        )
        return self._expected_mb(one.run) <= available - growing

    def _expected_mb(self, run: Run) -> float:
        return self._peaks.get((run.mechanism, run.split), FIRST_GUESS_MB)

    def _note_peak(self, row: Row) -> None:
        if row.get("peak_memory_mb"):
            kind = (row["mechanism"], row["split"])
            self._peaks[kind] = max(self._peaks.get(kind, 0.0), row["peak_memory_mb"])

    def _start(self, planned: Planned) -> _Running:
        run = planned.run
        process = RunProcess(run, self.grid.by_name[run.split], self.data)
        return _Running(planned, process, self._expected_mb(run))

    def _ended(self, running: Sequence[_Running]) -> list[_Running]:
        """Wait until runs have ended, or run out of time; return them."""
        timeout = None
        if self.limit_s is not None:
            due = min(one.process.started for one in running) + self.limit_s
            timeout = max(0.0, due - time.monotonic())
        ready = wait([one.process.receiver for one in running], timeout)
        if ready:
            return [one for one in running if one.process.receiver in ready]
        late = time.monotonic()
        return [one for one in running if late - one.process.started >= (self.limit_s or 0.0)]

    def _left(self, waiting: Sequence[Planned], running: Sequence[_Running]) -> float:
        def expected(one: Planned) -> float:
            return self._durations.expected(one.run)[0]

        now = time.monotonic()
        rest = [max(0.0, expected(one.planned) - (now - one.process.started)) for one in running]
        rest += [expected(one) for one in waiting]
        return max(sum(rest) / self.jobs, max(rest, default=0.0))


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables that a process started here inherits."""
    before: dict[str, Any] = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


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
        If the grid, a split or the file is not what it should be.
    """
    with Results.opened(path) as results:
        planned, splits = plan(grid, results.rows, data, again=again, limit_s=limit_s)
        results.relabel({one.key: one.run.title for one in planned})
        on_plan(planned)
        runner = Runner(grid, results, data=data, jobs=jobs, limit_s=limit_s)
        for outcome in runner.run(planned, splits):
            on_outcome(outcome)
        wanted = {one.key for one in planned}
        return [row for row in results.rows if row["key"] in wanted]
