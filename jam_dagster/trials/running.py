"""The runs of a grid: what is finished, how long the rest takes, and its execution."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from jam_dagster.errors import JamError, SourceError, SpecificationError
from jam_dagster.trials.grid import Grid
from jam_dagster.trials.pool import Outcome, Pool
from jam_dagster.trials.results import Results, Row
from jam_dagster.trials.run_process import RunProcess
from jam_dagster.trials.runs import BASELINES, BEST_MIXTURE, Run
from jam_dagster.trials.splits import Split
from jam_dagster.version import __version__

_START_SECONDS = 2.0
_UNKNOWN_SECONDS = 60.0
# The best mixture is a large linear program.
_BASELINE_SECONDS = {**dict.fromkeys(BASELINES, 1.0), BEST_MIXTURE: 60.0}


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
    runs = grid.runs()
    splits = {name: grid.by_name[name].load(data) for name in {one.split for one in runs}}
    for run in {(run.split, run.workload): run for run in runs}.values():
        try:
            run.marginals(splits[run.split].domain)
        except JamError as error:
            raise SpecificationError(f"The split {run.split!r}: {error}") from None
    held = {row["key"]: row for row in rows}
    durations = Durations(grid, rows, limit_s)
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
    return list(made.values()), splits


class Durations:
    """Expected durations of a grid's runs, from rows of any version, which it notes one by one."""

    def __init__(self, grid: Grid, rows: Iterable[Row], limit_s: float | None = None) -> None:
        self._grid, self._limit_s = grid, limit_s
        self._taken: dict[Hashable, list[float]] = defaultdict(list)
        for row in rows:
            self.note(row)

    def note(self, row: Row) -> None:
        """Add the duration of a finished run."""
        if row["status"] == "done":
            kind = (row["mechanism"], row["split"])
            alike = (*kind, row["parameters"])
            for known in (kind, alike, (*alike, row["epsilon"])):
                self._taken[known].append(row["seconds"])

    def expected(self, run: Run) -> tuple[float, bool]:
        """Return the expected seconds of a run, and whether they are more than a guess.

        The most similar source counts: runs that differ only in the seed, runs at any epsilon, the
        grid's estimate, then runs of the mechanism with other settings.
        """
        known = next(self._known(run), None)
        seconds = _START_SECONDS + (_UNKNOWN_SECONDS if known is None else known)
        if self._limit_s is not None:
            seconds = min(seconds, self._limit_s)
        return seconds, known is not None

    def _known(self, run: Run) -> Iterator[float]:
        kind = (run.mechanism, run.split)
        parameters = run.parameters_json()
        for like in ((*kind, parameters, run.epsilon), (*kind, parameters)):
            if like in self._taken:
                yield fmean(self._taken[like])
        said = _BASELINE_SECONDS.get(run.mechanism, self._grid.hint(run))
        if said is not None:
            yield said
        if kind in self._taken:
            yield fmean(self._taken[kind])


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
        planned, splits = plan(grid, results.rows, data, again=again, limit_s=limit_s)
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

        pool = Pool(begin, Durations(grid, results.rows, limit_s), jobs)
        with closing(pool.outcomes(waiting)) as outcomes:
            for outcome in outcomes:
                results.add(outcome.row)
                on_outcome(outcome)
        wanted = {one.key for one in planned}
        return [row for row in results.rows if row["key"] in wanted]
