"""The runs that a file of results lacks, some at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from jam_dagster.benchmark.grid import Grid
from jam_dagster.benchmark.planning import Durations, Planned, plan
from jam_dagster.benchmark.results import Results, Row
from jam_dagster.benchmark.run_process import RunProcess
from jam_dagster.benchmark.runs import Run
from jam_dagster.errors import SpecificationError

_LOOK_SECONDS = 0.05


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


def run_grid(
    grid: Grid,
    path: Path,
    *,
    data: Path | None = None,
    jobs: int = 1,
    limit_s: float | None = None,
    again: bool = False,
    on_plan: Callable[[Sequence[Planned]], None] = lambda planned: None,
    on_outcome: Callable[[Outcome], None] = lambda outcome: None,
) -> list[Row]:
    """Make the runs of a grid that a file lacks, and return the rows of all its runs.

    Every row is written as its run ends; existing rows get the grid's labels. If a callback raises,
    or the caller is interrupted, the current runs are ended without a row.

    Parameters
    ----------
    grid
        The runs.
    path
        The Parquet file of rows.
    data
        The folder of published tables.
    jobs
        The number of parallel runs.
    limit_s
        Time limit of a run in seconds, after which it counts as failed. None: no limit.
    again
        Whether failed runs are repeated.
    on_plan
        Called with all runs before the first one starts.
    on_outcome
        Called with every run as it ends.

    Raises
    ------
    InputError
        If the grid, a split or the file is invalid.
    SpecificationError
        If `jobs` or `limit_s` is out of range.
    """
    if jobs < 1:
        raise SpecificationError(f"jobs must be at least 1, got {jobs}.")
    if limit_s is not None and not limit_s > 0:
        raise SpecificationError(f"the limit of a run must be above 0 seconds, got {limit_s}.")
    with Results.opened(path) as results:
        planned, splits = plan(grid, results.rows, data, again=again, limit_s=limit_s)
        results.relabel({one.key: one.run.title for one in planned})
        on_plan(planned)
        waiting = [one.run for one in planned if one.status is None]
        total, number = len(waiting), 0
        durations = Durations(grid, results.rows, limit_s)
        running: list[RunProcess] = []
        try:
            while waiting or running:
                while waiting and len(running) < jobs:
                    run = waiting.pop(0)
                    running.append(RunProcess(run, grid.by_name[run.split], data, limit_s))
                ended = next((one for one in running if one.over()), None)
                if ended is None:
                    time.sleep(_LOOK_SECONDS)
                    continue
                row = results.add(ended.row(splits[ended.run.split]))
                running.remove(ended)
                durations.note(row)
                number += 1
                rest = [durations.expected(one)[0] for one in waiting]
                rest += [durations.expected(one.run)[0] - one.seconds for one in running]
                left = sum(max(0.0, one) for one in rest) / jobs
                on_outcome(Outcome(ended.run, row, number, total, left))
        finally:
            for one in running:
                one.end()
        wanted = {one.key for one in planned}
        return [row for row in results.rows if row["key"] in wanted]
