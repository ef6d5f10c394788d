"""The benchmark as a partitioned job makes what the command makes."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest
from dagster.components.testing import create_defs_folder_sandbox

from jam_dagster import Benchmark
from jam_dagster.benchmark import load_grid, read_rows, run_grid
from jam_dagster.pipeline import build_benchmark, check_definitions
from tests.benchmark.conftest import data as data
from tests.benchmark.test_running import without_times

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
    assert (out / "figures" / "benchmark.html").exists()


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
        told = str(instance.all_logs(done.run_id))

    assert not done.success
    (row,) = read_rows(tmp_path / "runs" / f"{partition}.parquet")
    assert "rounds must be more than" in row["message"]
    assert "its file says why" in told
    assert "rounds must be more than" not in told


def test_every_run_of_a_grid_is_a_partition() -> None:
    for name in ("smoke", "quick", "paper"):
        grid = load_grid(name)

        job = build_benchmark(grid, out="/nowhere").resolve_job_def("benchmark_runs")

        assert job.partitions_def is not None
        assert len(job.partitions_def.get_partition_keys()) == len(set(grid.runs()))


@pytest.mark.filterwarnings("ignore::dagster.BetaWarning")
@pytest.mark.filterwarnings("ignore:`parse_obj_as` is deprecated")
def test_the_component_finds_its_files_beside_it() -> None:
    with create_defs_folder_sandbox() as sandbox:
        contents = {
            "type": "jam_dagster.Benchmark",
            "attributes": {"grid": "mine.yaml", "out": "results", "name": "peers"},
        }
        path = sandbox.scaffold_component(component_cls=Benchmark, defs_yaml_contents=contents)
        (path / "mine.yaml").write_text(GRID)
        with sandbox.build_component_tree() as tree:
            made = tree.build_defs(path)

    job = made.resolve_job_def("peers_runs")
    assert job.partitions_def is not None
    assert len(job.partitions_def.get_partition_keys()) == 2
    keys = {spec.key.to_user_string() for spec in made.resolve_all_asset_specs()}
    assert keys == {"peers/benchmark_runs", "peers/benchmark_figures"}
