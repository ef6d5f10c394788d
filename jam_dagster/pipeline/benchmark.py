"""A benchmark as a partitioned job: a run a partition, for those who have a cluster."""

# Dagster reads the annotations of the component as types when it derives the YAML schema, so they
# must not be postponed to strings.
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import dagster as dg

from jam_dagster.benchmark import Grid, Run, load_grid, plan, read_frame, read_rows, write_figures
from jam_dagster.benchmark.results import Row, gather, to_parquet
from jam_dagster.benchmark.run_process import RunProcess, was_killed
from jam_dagster.common.files import OWNER_ONLY, write_whole
from jam_dagster.common.variables import expanded
from jam_dagster.errors import InputError, SpecificationError
from jam_dagster.pipeline.budget.labels import LABEL_TAG, PrivacyLabel
from jam_dagster.pipeline.launch import NO_CONFIG
from jam_dagster.pipeline.yaml.configuration import (
    NOTHING_DONE,
    Configured,
    catalogue_entry,
    described,
    error_location,
)
from jam_dagster.version import __version__

RUNS, FIGURES = "benchmark_runs", "benchmark_figures"
POOL = "jam_benchmark"

_TAGS = {LABEL_TAG: str(PrivacyLabel.RESTRICTED)}


def build_benchmark(
    grid: Grid,
    *,
    out: str | Path,
    data: str | Path | None = None,
    name: str = "benchmark",
    limit_s: float | None = None,
) -> dg.Definitions:
    """Build the assets and jobs of a benchmark.

    ``benchmark_runs`` has a partition for each run of the grid, whose row is stored in
    ``<out>/runs``; ``benchmark_figures`` gathers the rows into ``<out>/results.parquet`` and draws
    ``<out>/figures``. Rows of another grid, table or version do not count. A failed run is not
    retried, unless its process was killed and a retry policy says so. The pool ``jam_benchmark``
    limits the runs at a time.

    Parameters
    ----------
    grid
        The runs.
    out
        A folder that all steps reach, with ``~`` and ``${VARIABLES}`` replaced. Its content is
        restricted, unless the tables are published ones; metadata and messages hold no error of any
        table.
    data
        The folder of published tables, likewise; by default that of JAM_DATA in the steps.
    name
        The key prefix of the assets, and the beginning of the jobs' names.
    limit_s
        Time limit of a run in seconds, after which it counts as failed. None: no limit.

    Raises
    ------
    SpecificationError
        If a mechanism does not take its settings, the grid has no runs, a folder is a URL or names
        a variable that is not set, or `limit_s` is not above 0.

    Examples
    --------
    >>> from jam_dagster.benchmark import load_grid
    >>> from jam_dagster.pipeline import build_benchmark
    >>> defs = build_benchmark(load_grid("smoke"), out="/srv/benchmark")
    """
    runs = {run.name: run for run in grid.runs()}
    if not runs:
        raise SpecificationError(f"The grid {grid.name!r} has no runs.")
    if limit_s is not None and not limit_s > 0:
        raise SpecificationError(f"limit must be above 0 seconds, got {limit_s}.")
    partitions = dg.StaticPartitionsDefinition(list(runs))
    folder, tables = _folder("out", out), None if data is None else _folder("data", data)
    skipped = ", ".join(grid.missing)

    @dg.asset(
        name=RUNS,
        key_prefix=name,
        partitions_def=partitions,
        tags=_TAGS,
        group_name=name,
        pool=POOL,
        config_schema=NO_CONFIG,
        kinds={"parquet"},
        description="A mechanism with seeded noise on a split, its errors measured exactly. "
        + grid.description
        + (f" Not there in this version: {skipped}." if skipped else ""),
    )
    def benchmark_runs(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
        return _make(runs[context.partition_key], grid, folder, tables, limit_s)

    @dg.asset(
        name=FIGURES,
        key_prefix=name,
        deps=[benchmark_runs],
        tags=_TAGS,
        group_name=name,
        kinds={"parquet"},
        config_schema=NO_CONFIG,
        description="Every run that was made, in one file, and the papers' figures of them.",
    )
    def benchmark_figures() -> dg.MaterializeResult[None]:
        return _draw(list(runs), grid, folder, tables)

    return dg.Definitions(
        assets=[benchmark_runs, benchmark_figures],
        jobs=[
            dg.define_asset_job(f"{name}_runs", [benchmark_runs]),
            dg.define_asset_job(f"{name}_figures", [benchmark_figures]),
        ],
    )


def _folder(key: str, place: str | Path, beside: Path = Path()) -> Path:
    """Return a folder that a key names, relative to another one unless it is absolute."""
    # A Path has lost a slash of the URL that it was made of.
    if re.match(r"[A-Za-z][\w+.-]+:/", str(place)):
        raise SpecificationError(
            f"{key} must be a folder that every step reaches, such as a mounted volume, and no "
            f"URL: got {str(place)!r}."
        )
    return beside / expanded(str(place), key, note=NOTHING_DONE)


def _path(folder: Path, partition: str) -> Path:
    return folder / "runs" / f"{partition.replace('/', '-')}.parquet"


def _make(
    run: Run, grid: Grid, folder: Path, data: Path | None, limit_s: float | None
) -> dg.MaterializeResult[None]:
    """Make a run and keep its row, that of a run that failed too."""
    files = grid.by_name[run.split]
    split = files.load(data)
    path = _path(folder, run.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    process = RunProcess(run, files, data, limit_s)
    try:
        row = process.row(split)
    finally:
        process.end()
    failed = row["status"] == "failed"
    kept = failed and _is_done(path, row["key"])
    if not kept:
        write_whole(path, to_parquet([row]), mode=OWNER_ONLY)
    if failed:
        # A library's text about a failure may quote private values.
        raise dg.Failure(
            description=(
                f"The run failed, and its file keeps what it came to before: {path}"
                if kept
                else f"The run failed; its file says why: {path}"
            ),
            # The run would fail again, unless others took its memory.
            allow_retries=was_killed(row),
        )
    return dg.MaterializeResult(
        metadata={
            "path": dg.MetadataValue.path(str(path)),
            "run": str(run),
            "seconds": round(row["seconds"], 2),
            "peak_memory_mb": round(row["peak_memory_mb"]),
        }
    )


def _is_done(path: Path, key: str) -> bool:
    """Whether a file holds the run of that key as this version made it."""
    return any(
        (row["key"], row["status"], row["version"]) == (key, "done", __version__)
        for row in read_rows(path)
    )


def _draw(
    partitions: Sequence[str], grid: Grid, folder: Path, data: Path | None
) -> dg.MaterializeResult[None]:
    """Gather the rows that are there and are of today's runs, and draw them."""
    there = [path for one in partitions if (path := _path(folder, one)).exists()]
    made = gather(there) if there else []
    planned, _ = plan(grid.at_hand(data), made, data)
    # A partition's name says nothing of degree, delta, tables, or the defaults of settings.
    titles = {one.key: one.run.title for one in planned if one.status is not None}
    rows: list[Row] = [{**row, "label": titles[row["key"]]} for row in made if row["key"] in titles]
    if not rows:
        raise InputError(
            f"No run of the grid {grid.name!r} as it is now is in {folder / 'runs'}: materialize "
            f"{RUNS} first."
        )
    results = folder / "results.parquet"
    write_whole(results, to_parquet(rows), mode=OWNER_ONLY)
    summary, *_ = write_figures(read_frame([results]), folder / "figures")
    return dg.MaterializeResult(
        metadata={
            "path": dg.MetadataValue.path(str(summary)),
            "results": dg.MetadataValue.path(str(results)),
            "runs": len(rows),
            "failed": sum(row["status"] == "failed" for row in rows),
            "not yet made": len(planned) - len(rows),
            "stale": len(made) - len(rows),
        }
    )


@dataclass
class Benchmark(dg.Component, Configured):
    """The papers' comparison of mechanisms, a run a partition, and its figures."""

    grid: Annotated[
        str, described("a preset, such as smoke or aim_paper, or a YAML file", "quick", "grid.yaml")
    ]
    out: Annotated[
        str,
        described("the folder for rows and figures, which every step reaches", "/srv/benchmark"),
    ]
    data: Annotated[
        str | None,
        described("the folder of published tables; that of JAM_DATA by default", "/srv/data"),
    ] = None
    name: Annotated[str, described("key prefix of the assets, and the jobs' names")] = "benchmark"
    limit: Annotated[
        float | None,
        described(
            "seconds after which a run is ended, and kept as one that failed; none by default",
            3600,
            exclusiveMinimum=0,
        ),
    ] = None

    @classmethod
    def get_spec(cls) -> dg.ComponentTypeSpec:
        """Return what Dagster's catalogue of components shows."""
        return catalogue_entry(
            cls.__doc__,
            tags=["differential privacy", "synthetic data", "benchmark"],
            produces=["asset", "job"],
        )

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Build the definitions; relative paths are relative to the folder of ``defs.yaml``."""
        folder = Path(context.path)
        folder = folder if folder.is_dir() else folder.parent
        with error_location(context, "grid"):
            beside = folder / self.grid
            grid = load_grid(beside if beside.is_file() else self.grid)
        with error_location(context, "out"):
            out = _folder("out", self.out, folder)
        with error_location(context, "data"):
            data = None if self.data is None else _folder("data", self.data, folder)
        with error_location(context):
            return build_benchmark(grid, out=out, data=data, name=self.name, limit_s=self.limit)
