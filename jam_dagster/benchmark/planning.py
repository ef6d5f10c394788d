"""What of a grid is there already, what is to be made, and how long that may take."""

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
    """A run of a grid, and what is known of it beforehand.

    Parameters
    ----------
    run
        The run.
    key
        By which its row is found.
    status
        ``done`` or ``failed`` where there is a row; None where the run is to be made.
    seconds
        What it is expected to take.
    known
        Whether that comes from runs of its kind, or at least from what the grid says.
    made_by
        The version of the package that made the row that this run is to replace; empty where
        there is none, or it was this version.
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
    """Look at every run of a grid: what is there already, and what the others may take.

    A row that another version of the package made is not that of the run any more.

    Parameters
    ----------
    grid
        The runs.
    rows
        What was made before.
    data
        The folder of published tables.
    again
        Whether runs that failed are to be made once more.
    limit_s
        Seconds after which a run is to be ended. None: never.

    Returns
    -------
    list of Planned
        All runs, in the order in which they are made.
    dict
        The splits that they use.

    Raises
    ------
    SourceError
        If a split is not there.
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
        # Of two runs that are one, such as a setting spelled out that is the default, the first.
        made.setdefault(key, Planned(run, key, status, *durations.expected(run), made_by))
    return list(made.values()), splits
