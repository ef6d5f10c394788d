"""A benchmark as a partitioned job: a run a partition, for those who have a cluster."""

# Dagster reads the annotations of the component as types when it derives the YAML schema, so they
# must not be postponed to strings.
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import dagster as dg

from jam_dagster.benchmark import Grid, Run, load_grid, read_frame, write_figures
from jam_dagster.benchmark.results import gather, to_parquet
from jam_dagster.benchmark.run_process import RunProcess
from jam_dagster.benchmark.trial import describe
from jam_dagster.errors import SpecificationError
from jam_dagster.pipeline.configuration import Configured, described, told_where
from jam_dagster.pipeline.labels import LABEL_TAG, PrivacyLabel
from jam_dagster.tables.files import OWNER_ONLY, write_whole

RUNS, FIGURES = "benchmark_runs", "benchmark_figures"
POOL = "jam_benchmark"

_TAGS = {LABEL_TAG: str(PrivacyLabel.RESTRICTED)}


def build_benchmark(
    grid: Grid,
    *,
    out: str | Path,
    data: str | Path | None = None,
    name: str = "benchmark",
) -> dg.Definitions:
    """Build the assets and jobs of a benchmark.

    ``benchmark_runs`` has a partition for each run of the grid, which its step makes in a process
    of its own, as ``jam-dagster benchmark run`` does, and keeps in ``<out>/runs``.
    ``benchmark_figures`` gathers what is there into ``<out>/results.parquet`` and draws
    ``<out>/figures``. How many runs are made at a time is the limit of the pool ``jam_benchmark``.

    Parameters
    ----------
    grid
        The runs.
    out
        A folder that all steps reach. What lies there is restricted, unless the tables are
        published ones; metadata and messages hold no error of any table.
    data
        The folder of published tables; that of JAM_DATA where the steps run, if not given.
    name
        The key prefix of the assets, and the beginning of the jobs' names.

    Returns
    -------
    dagster.Definitions
        Both assets and the jobs ``<name>_runs`` and ``<name>_figures``.

    Raises
    ------
    SpecificationError
        If a mechanism does not take its settings, or the grid has no runs.

    Examples
    --------
    >>> from jam_dagster.benchmark import load_grid
    >>> from jam_dagster.pipeline import build_benchmark
    >>> defs = build_benchmark(load_grid("smoke"), out="/srv/benchmark")
    """
    runs = {run.name: run for run in grid.runs()}
    if not runs:
        raise SpecificationError(f"The grid {grid.name!r} has no runs.")
    partitions = dg.StaticPartitionsDefinition(list(runs))
    folder, tables = Path(out), None if data is None else Path(data)
    skipped = ", ".join(grid.missing)

    @dg.asset(
        name=RUNS,
        key_prefix=name,
        partitions_def=partitions,
        tags=_TAGS,
        group_name=name,
        pool=POOL,
        kinds={"parquet"},
        description="A mechanism with seeded noise on a split, its errors measured exactly. "
        + grid.description
        + (f" Not there in this version: {skipped}." if skipped else ""),
    )
    def benchmark_runs(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
        return _make(runs[context.partition_key], grid, folder, tables)

    @dg.asset(
        name=FIGURES,
        key_prefix=name,
        deps=[benchmark_runs],
        tags=_TAGS,
        group_name=name,
        kinds={"parquet", "html"},
        description="Every run that was made, in one file, and the papers' figures of them.",
    )
    def benchmark_figures() -> dg.MaterializeResult[None]:
        return _draw(list(runs), folder)

    return dg.Definitions(
        assets=[benchmark_runs, benchmark_figures],
        jobs=[
            dg.define_asset_job(f"{name}_runs", [benchmark_runs]),
            dg.define_asset_job(f"{name}_figures", [benchmark_figures]),
        ],
    )


def _path(folder: Path, partition: str) -> Path:
    return folder / "runs" / f"{partition.replace('/', '-')}.parquet"


def _make(run: Run, grid: Grid, folder: Path, data: Path | None) -> dg.MaterializeResult[None]:
    """Make a run and keep its row, that of a run that failed too."""
    files = grid.by_name[run.split]
    split = files.load(data)
    path = _path(folder, run.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    process = RunProcess(run, files, data)
    try:
        row = process.row(partial(describe, run, split))
    finally:
        process.end()
    write_whole(path, to_parquet([row]), mode=OWNER_ONLY)
    if row["status"] == "failed":
        # What a library says of a failure may quote private values.
        raise dg.Failure(
            description=f"The run failed; its file says why: {path}", allow_retries=False
        )
    return dg.MaterializeResult(
        metadata={
            "path": dg.MetadataValue.path(str(path)),
            "run": str(run),
            "seconds": round(row["seconds"], 2),
            "peak_memory_mb": round(row["peak_memory_mb"]),
        }
    )


def _draw(partitions: Sequence[str], folder: Path) -> dg.MaterializeResult[None]:
    """Gather the rows that are there, and draw them."""
    there = [path for one in partitions if (path := _path(folder, one)).exists()]
    rows = gather(there)
    results = folder / "results.parquet"
    write_whole(results, to_parquet(rows), mode=OWNER_ONLY)
    page, *_ = write_figures(read_frame([results]), folder / "figures")
    return dg.MaterializeResult(
        metadata={
            "path": dg.MetadataValue.path(str(page)),
            "results": dg.MetadataValue.path(str(results)),
            "runs": len(rows),
            "failed": sum(row["status"] == "failed" for row in rows),
            "not yet made": len(partitions) - len(there),
        }
    )


@dataclass
class Benchmark(dg.Component, Configured):
    """The papers' comparison of mechanisms, a run a partition, and its figures."""

    grid: Annotated[
        str, described("smoke, quick, paper, or a YAML file of one's own", "quick", "grid.yaml")
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

    @classmethod
    def get_spec(cls) -> dg.ComponentTypeSpec:
        """Return what Dagster's catalogue of components shows."""
        return dg.ComponentTypeSpec(
            description=cls.__doc__,
            tags=["differential privacy", "synthetic data", "benchmark"],
            produces=["asset", "job"],
        )

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Build the definitions; relative paths are relative to the folder of ``defs.yaml``."""
        folder = Path(context.path)
        folder = folder if folder.is_dir() else folder.parent
        with told_where(context, "grid"):
            beside = folder / self.grid
            grid = load_grid(beside if beside.is_file() else self.grid)
        with told_where(context):
            return build_benchmark(
                grid,
                out=folder / self.out,
                data=None if self.data is None else folder / self.data,
                name=self.name,
            )
