"""The runs of a grid: what is finished, how long the rest takes, and its execution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from jam_dagster.errors import JamError, SourceError, SpecificationError
from jam_dagster.trials.durations import Durations
from jam_dagster.trials.grid import Grid
from jam_dagster.trials.pool import Outcome, Pool
from jam_dagster.trials.results import Results, Row
from jam_dagster.trials.run_process import RunProcess
from jam_dagster.trials.runs import Run
from jam_dagster.trials.splits import Split
from jam_dagster.version import __version__

_START_SECONDS = 2.0


@dataclass(frozen=True)
class Planned:
    """A run of a grid, with the key of its row and its expected duration.

    `status` is ``done`` or ``failed``, or None if the run is to be made; `known` is whether the
    duration comes from similar runs or from the grid; `made_by` is the other package version that
    made the row, if any.
    """

    run: Run
    key: str
    status: str | None
    seconds: float
    known: bool
    made_by: str = ""


def plan(
    grid: Grid,
    rows: Sequence[Row],
    data: Path | None,
    *,
    again: bool = False,
    limit_s: float | None = None,
) -> tuple[list[Planned], dict[str, Split]]:
    """Plan every run of a grid: find its row, or estimate its duration.

    A row of another package version no longer counts as the run's row.

    Parameters
    ----------
    grid, data, again, limit_s
        As for `run_grid`.
    rows
        Earlier results.

    Returns
    -------
    list of Planned
        All runs, in the order of execution.
    dict
        The splits that they use.

    Raises
    ------
    SourceError
        If a split is missing.
    SpecificationError
        If a split lacks marginals of the workload.
    """
    planned, splits, _ = _planned(grid, rows, data, again, limit_s)
    return planned, splits


def _planned(
    grid: Grid, rows: Sequence[Row], data: Path | None, again: bool, limit_s: float | None
) -> tuple[list[Planned], dict[str, Split], Durations]:
    runs = grid.runs()
    splits = {name: grid.by_name[name].load(data) for name in {one.split for one in runs}}
    sizes = {}
    for run in {(run.split, run.workload): run for run in runs}.values():
        split = splits[run.split]
        try:
            marginals = len(run.marginals(split.domain).cliques)
        except JamError as error:
            raise SpecificationError(f"The split {run.split!r}: {error}") from None
        sizes[run.split, run.workload] = marginals, split.private.records
    durations = Durations(
        lambda run: sizes[run.split, run.workload],
        rows,
        hint=grid.hint,
        start_s=_START_SECONDS,
        limit_s=float("inf") if limit_s is None else limit_s,
    )
    held = {row["key"]: row for row in rows}
    made: dict[str, Planned] = {}
    for run in runs:
        key = run.key(splits[run.split].fingerprint)
        status, version = None, __version__
        if key in held:
            status, version = held[key]["status"], held[key]["version"]
        if version != __version__ or (again and status == "failed"):
            status = None
        made_by = "" if version == __version__ else str(version)
        # The first of two equal runs, such as one with an explicit default.
        made.setdefault(key, Planned(run, key, status, *durations.expected(run), made_by))
    return list(made.values()), splits, durations


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
    SourceError
        If a preset has no split that is there.
    SpecificationError
        If `jobs` or `limit_s` is out of range.
    """
    if jobs < 1:
        raise SpecificationError(f"jobs must be at least 1, got {jobs}.")
    if limit_s is not None and not limit_s > 0:
        raise SpecificationError(f"the limit of a run must be above 0 seconds, got {limit_s}.")
    with Results.opened(path) as results:
        planned, splits, durations = _planned(grid, results.rows, data, again, limit_s)
        if not planned:
            raise SourceError(
                f"No table of the grid {grid.name!r} is there: {next(iter(grid.missing.values()))}"
            )
        results.relabel({one.key: one.run.title for one in planned})
        on_plan(planned)
        waiting = [one.run for one in planned if one.status is None]

        def begin(run: Run) -> RunProcess:
            files, split = grid.by_name[run.split], splits[run.split]
            return RunProcess(run, files, split, data, limit_s)

        pool = Pool(begin, durations, jobs)
        with closing(pool.outcomes(waiting)) as outcomes:
            for outcome in outcomes:
                results.add(outcome.row)
                on_outcome(outcome)
        wanted = {one.key for one in planned}
        return [row for row in results.rows if row["key"] in wanted]
