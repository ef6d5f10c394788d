"""The plan of a grid: finished runs, runs to make, and their expected durations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jam_dagster import __version__
from jam_dagster.benchmark.data import Split
from jam_dagster.benchmark.durations import Durations
from jam_dagster.benchmark.grid import Grid
from jam_dagster.benchmark.results import Row
from jam_dagster.benchmark.runs import Run
from jam_dagster.errors import SpecificationError


@dataclass(frozen=True)
class Planned:
    """A run of a grid, with its status and expected duration.

    Parameters
    ----------
    run
        The run.
    key
        The key of its row.
    status
        ``done`` or ``failed`` if there is a row; None if the run is to be made.
    seconds
        Its expected duration.
    known
        Whether the duration comes from similar runs or from the grid.
    made_by
        The package version of the row that this run will replace; empty without a row, or if it
        was this version.
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
    grid
        The runs.
    rows
        Earlier results.
    data
        The folder of published tables.
    again
        Whether failed runs are to be repeated.
    limit_s
        Time limit of a run in seconds. None: no limit.

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
        If a split has fewer attributes than the workload's marginals.
    """
    runs = grid.runs()
    splits = {name: grid.by_name[name].load(data) for name in {one.split for one in runs}}
    for split in splits.values():
        if grid.degree > len(split.domain.names):
            raise SpecificationError(
                f"The split {split.name!r} has {len(split.domain.names)} attributes, too few for "
                f"marginals of {grid.degree}: lower degree, or leave the split out."
            )
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
