"""The benchmark as a partitioned job makes what the command makes."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster.components.testing import create_defs_folder_sandbox

from jam_dagster import Benchmark
from jam_dagster.benchmark import Grid, Run, load_grid, read_rows, run_grid, run_process
from jam_dagster.benchmark.data import SplitFiles
from jam_dagster.benchmark.results import to_parquet
from jam_dagster.benchmark.trial import describe
from jam_dagster.errors import SpecificationError
from jam_dagster.pipeline import benchmark as module
from jam_dagster.pipeline import build_benchmark, check_definitions
from tests.benchmark.conftest import data as data
from tests.benchmark.test_run_process import ENDED, KILLED
from tests.benchmark.test_running import without_times
from tests.pipeline.conftest import AS_DAGSTER_WARNS

GRID = """
splits: [small]
mechanisms:
  - {mechanism: jam_pgm, settings: {rounds: 2, iterations: 10}}
epsilons: [1, 10]
degree: 2
baselines: false
"""
FAILING = """
splits: [small]
mechanisms: [{mechanism: aim, settings: {rounds: 3}}]
epsilons: [1]
degree: 2
baselines: false
"""

pytestmark = AS_DAGSTER_WARNS


@pytest.fixture
def grid_file(tmp_path: Path) -> Path:
    path = tmp_path / "grid.yaml"
    path.write_text(GRID)
    return path


@pytest.mark.slow
def test_a_backfill_makes_the_rows_of_the_command(
    data: Path, grid_file: Path, tmp_path: Path
) -> None:
    grid, out = load_grid(grid_file), tmp_path / "out"
    definitions = check_definitions(build_benchmark(grid, out=out, data=data))
    runs = definitions.resolve_job_def("benchmark_runs")
    partitions = runs.partitions_def
    assert partitions is not None
    with dg.DagsterInstance.ephemeral() as instance:
        for partition in partitions.get_partition_keys():
            assert runs.execute_in_process(partition_key=partition, instance=instance).success
        drawn = definitions.resolve_job_def("benchmark_figures").execute_in_process(
            instance=instance
        )
        assert drawn.success
        metadata = [
            {**one.metadata}
            for one in instance.get_records_for_run(drawn.run_id).records
            if one.event_log_entry.is_dagster_event
            for one in [one.event_log_entry.asset_materialization]
            if one is not None
        ]

    expected = run_grid(grid, tmp_path / "rows.parquet", data=data)
    rows = read_rows(out / "results.parquet")
    assert {one["key"]: without_times(one) for one in rows} == {
        one["key"]: without_times(one) for one in expected
    }
    assert metadata[0]["runs"].value == 2
    assert (out / "figures" / "error_by_epsilon.svg").exists()
    assert (out / "figures" / "benchmark.md").exists()


@pytest.mark.slow
def test_a_run_that_fails_is_kept_and_its_message_is_not_logged(data: Path, tmp_path: Path) -> None:
    path = tmp_path / "grid.yaml"
    path.write_text(FAILING)
    job = build_benchmark(load_grid(path), out=tmp_path, data=data).resolve_job_def(
        "benchmark_runs"
    )
    assert job.partitions_def is not None
    (partition,) = job.partitions_def.get_partition_keys()

    with dg.DagsterInstance.ephemeral() as instance:
        done = job.execute_in_process(
            partition_key=partition, instance=instance, raise_on_error=False
        )
        message = str(instance.all_logs(done.run_id))

    assert not done.success
    (row,) = read_rows(tmp_path / "runs" / f"{partition}.parquet")
    assert "rounds must be more than" in row["message"]
    assert "its file says why" in message
    assert "rounds must be more than" not in message


def test_every_run_of_a_grid_is_a_partition() -> None:
    for name in ("smoke", "quick", "pmw_pub_paper"):
        grid = load_grid(name)

        job = build_benchmark(grid, out="/nowhere").resolve_job_def("benchmark_runs")

        assert job.partitions_def is not None
        assert len(job.partitions_def.get_partition_keys()) == len(set(grid.runs()))


def component(**attributes: object) -> tuple[Path, dg.Definitions]:
    """Load a benchmark from the YAML file of a project that has its grid beside it."""
    with create_defs_folder_sandbox() as sandbox:
        contents = {"type": "jam_dagster.Benchmark", "attributes": attributes}
        path = sandbox.scaffold_component(component_cls=Benchmark, defs_yaml_contents=contents)
        (path / "mine.yaml").write_text(GRID)
        with sandbox.build_component_tree() as tree:
            return path, tree.build_defs(path)


def test_the_component_finds_its_files_beside_it() -> None:
    _, made = component(grid="mine.yaml", out="results", name="peers")
    job = made.resolve_job_def("peers_runs")
    assert job.partitions_def is not None
    assert len(job.partitions_def.get_partition_keys()) == 2
    keys = {spec.key.to_user_string() for spec in made.resolve_all_asset_specs()}
    assert keys == {"peers/benchmark_runs", "peers/benchmark_figures"}


def held(folder: Path, run: Run, data: Path, **expected: object) -> Path:
    """Write the row of a run as its step does, with what a test says of it."""
    split = SplitFiles(run.split).load(data)
    row = {**describe(run, split), "status": "done", "message": "", "seconds": 1.0, **expected}
    path = folder / "runs" / f"{run.name}.parquet"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(to_parquet([row]))
    return path


def drawn(definitions: dg.Definitions) -> dict[str, object]:
    """Draw the figures; return the metadata."""
    job = definitions.resolve_job_def("benchmark_figures")
    with dg.DagsterInstance.ephemeral() as instance:
        done = job.execute_in_process(instance=instance)
    (made,) = done.asset_materializations_for_node("benchmark__benchmark_figures")
    return {name: value.value for name, value in made.metadata.items()}


@pytest.mark.slow
def test_only_rows_of_the_grid_as_it_is_now_are_drawn(
    data: Path, grid_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "write_figures", lambda frame, folder: [folder / "page.html"])
    grid = load_grid(grid_file)
    one, other = grid.runs()
    definitions = build_benchmark(grid, out=tmp_path, data=data)
    held(tmp_path, one, data)

    # Of a grid whose degree was another, but whose partitions were called alike.
    held(tmp_path, replace(other, degree=1), data)
    metadata = drawn(definitions)
    assert (metadata["runs"], metadata["stale"], metadata["not yet made"]) == (1, 1, 1)
    assert [row["degree"] for row in read_rows(tmp_path / "results.parquet")] == [2]

    held(tmp_path, other, data, version="0.0.0")
    assert drawn(definitions)["stale"] == 1

    held(tmp_path, other, data, label="as it was called then")
    metadata = drawn(definitions)
    assert (metadata["runs"], metadata["stale"], metadata["not yet made"]) == (2, 0, 0)
    assert {row["label"] for row in read_rows(tmp_path / "results.parquet")} == {one.title}


def failure_of(grid: Grid, out: Path, data: Path, **options: Any) -> tuple[str, int]:
    """Make the first run; return what is said of its failure, and how often it was retried."""
    assets = build_benchmark(grid, out=out, data=data, **options).assets or ()
    patient = dg.define_asset_job(
        "patient",
        dg.AssetSelection.assets("benchmark/benchmark_runs"),
        op_retry_policy=dg.RetryPolicy(max_retries=1),
    )
    job = dg.Definitions(assets=assets, jobs=[patient]).resolve_job_def("patient")
    with dg.DagsterInstance.ephemeral() as instance:
        done = job.execute_in_process(
            partition_key=grid.runs()[0].name, instance=instance, raise_on_error=False
        )
    (failed,) = done.filter_events(lambda event: event.is_step_failure)
    said = failed.step_failure_data.user_failure_data
    assert said is not None
    assert said.description is not None
    return said.description, len(done.filter_events(lambda event: event.is_step_up_for_retry))


def test_a_run_that_is_done_is_not_lost_to_one_that_fails(
    data: Path, grid_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_process, "_COMMAND", (sys.executable, "-c", ENDED))
    grid = load_grid(grid_file)
    run = grid.runs()[0]
    path = held(tmp_path, run, data)

    assert "keeps what it came to before" in failure_of(grid, tmp_path, data)[0]
    assert [row["status"] for row in read_rows(path)] == ["done"]

    # One of another experiment is worth nothing here.
    held(tmp_path, replace(run, degree=1), data)
    assert "its file says why" in failure_of(grid, tmp_path, data)[0]
    assert [row["status"] for row in read_rows(path)] == ["failed"]


@pytest.mark.parametrize(("code", "times"), [(KILLED, 1), (ENDED, 0)])
def test_only_what_was_killed_is_retried(
    data: Path,
    grid_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: str,
    times: int,
) -> None:
    monkeypatch.setattr(run_process, "_COMMAND", (sys.executable, "-c", code))

    assert failure_of(load_grid(grid_file), tmp_path, data)[1] == times


@pytest.mark.parametrize("key", ["out", "data"])
@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("s3://bucket/x", "must be a folder that every step reaches"),
        ("${NOWHERE_SET}/x", "which is not set in the environment"),
    ],
)
def test_a_folder_that_is_none_is_refused(
    grid_file: Path, tmp_path: Path, key: str, place: str, said: str
) -> None:
    folders: Any = {"out": tmp_path, key: place}

    with pytest.raises(SpecificationError, match=f"^{key} .*{said}"):
        build_benchmark(load_grid(grid_file), **folders)


def test_the_component_takes_folders_of_the_environment_and_a_limit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made: dict[str, Any] = {}
    monkeypatch.setenv("MY_OUT", str(tmp_path / "there"))
    monkeypatch.setattr(
        module,
        "build_benchmark",
        lambda grid, **expected: made.update(expected) or dg.Definitions(),
    )
    path, _ = component(grid="smoke", out="${MY_OUT}/x", data="tables", limit=60)
    assert made["out"] == tmp_path / "there" / "x"
    assert made["data"] == path / "tables"
    assert made["limit_s"] == 60
