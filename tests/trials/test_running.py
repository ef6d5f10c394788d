"""Runs in processes of their own, and the file that keeps them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from jam_dagster import __version__
from jam_dagster.errors import InputError, SpecificationError
from jam_dagster.trials import load_grid, plan, read_rows, run_grid
from jam_dagster.trials.results import COLUMNS, Results, to_parquet
from jam_dagster.trials.run_process import why
from jam_dagster.trials.running import Planned
from jam_dagster.trials.splits import SplitFiles
from jam_dagster.trials.trial import run_trial

# What a run made again may differ in; the machine's words name jax where the process has loaded it.
TIMES = ("seconds", "cpu_seconds", "seconds_by_stage", "peak_memory_mb", "date", "machine")


# Each run starts a process.
ALONE = "splits: [small]\nmechanisms: [independent]\nepsilons: [{}]\nbaselines: false\ndegree: 2"


def without_times(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in TIMES}


@pytest.mark.slow
def test_a_grid_ends_in_a_row_a_run(data: Path, grid_file: Path, tmp_path: Path) -> None:
    grid = load_grid(grid_file)
    out = tmp_path / "made" / "rows.parquet"

    rows = run_grid(grid, out, data=data, jobs=2)

    assert len(rows) == len(grid.runs()) == 9
    assert {row["key"] for row in read_rows(out)} == {row["key"] for row in rows}
    by_name = {(row["mechanism"], row["epsilon"]): row for row in rows}
    jam, public = by_name["jam_pgm", 1.0], by_name["public_table", None]
    assert set(jam) == set(COLUMNS)
    assert jam["status"] == "done"
    assert json.loads(jam["parameters"])["rounds"] == 2
    assert jam["rounds"] == jam["private_picks"] + jam["public_picks"] == 2
    assert 0 < jam["error_mean"] <= jam["error_max"] <= 2
    assert 0 < jam["searched_error_mean"] <= jam["searched_error_max"] <= 2
    # Rows that are closer to the model are those of another table.
    assert jam["searched_error_mean"] != jam["error_mean"]
    assert 0 < jam["rho_spent"] <= jam["rho_budget"]
    # No target was named, and relations are measured of mechanisms and baselines alike.
    assert jam["tstr_auc"] is None
    assert all(0 <= row["pairs8"] <= 2 for row in rows)
    assert by_name["public_prior_rows", None]["association"] >= 0
    # A table with more error is worth a smaller sample.
    assert (jam["sample_share"] < jam["searched_sample_share"]) == (
        jam["error_mean"] > jam["searched_error_mean"]
    )
    assert (jam["workload"], jam["marginals"], jam["split_of"]) == ("all", 6, "small")
    assert 20 < jam["peak_memory_mb"] < 2000
    assert set(json.loads(jam["seconds_by_stage"])) >= {"mechanism", "mechanism.fit", "sample"}
    assert public["rho_spent"] == 0
    assert public["epsilon"] is None
    # No weights of the public rows do worse than equal ones.
    assert by_name["best_mixture", None]["error_mean"] <= public["error_mean"]
    # With ten times the budget and two rounds, AIM's one-ways alone are better.
    assert by_name["aim", 10.0]["error_mean"] < by_name["aim", 1.0]["error_mean"]
    assert "RESTRICTED" in pq.read_schema(out).metadata[b"notice"].decode()

    # A row made in another process, with another seed of its hashes, is the same row.
    run = next(one for one in grid.runs() if one.mechanism == "jam_pgm" and one.epsilon == 1.0)
    again = run_trial(run, SplitFiles("small").load(data))
    assert without_times(again) == without_times(jam)


@pytest.mark.slow
def test_runs_that_are_there_are_not_made_again(
    data: Path, grid_file: Path, tmp_path: Path
) -> None:
    grid_file.write_text(ALONE.format("1"))
    grid, out = load_grid(grid_file), tmp_path / "rows.parquet"
    run_grid(grid, out, data=data)
    before = out.read_bytes()
    made: list[str] = []

    run_grid(grid, out, data=data, on_outcome=lambda one: made.append(str(one.run)))

    assert made == []
    assert out.read_bytes() == before
    # Another table of the same name is another split.
    public = data / "paper" / "small" / "pub.csv"
    public.write_text(public.read_text().replace("2", "1"))
    run_grid(grid, out, data=data, on_outcome=lambda one: made.append(str(one.run)))
    assert len(made) == 1


@pytest.mark.slow
def test_a_run_that_fails_is_kept_and_made_again_on_request(
    data: Path, grid_file: Path, tmp_path: Path
) -> None:
    # Fewer rounds than attributes: AIM finds that out when it looks at the domain.
    grid_file.write_text(
        "splits: [small]\nmechanisms: [{mechanism: aim, settings: {rounds: 3}}]\nepsilons: [1]\n"
        "baselines: false\ndegree: 2"
    )
    grid, out = load_grid(grid_file), tmp_path / "rows.parquet"

    (row,) = run_grid(grid, out, data=data)

    assert row["status"] == "failed"
    assert row["message"].startswith("SpecificationError: rounds must be more than the 4")
    assert row["error_mean"] is None
    made: list[str] = []
    run_grid(grid, out, data=data, on_outcome=lambda one: made.append(one.row["status"]))
    assert made == []
    run_grid(
        grid, out, data=data, again=True, on_outcome=lambda one: made.append(one.row["status"])
    )
    assert made == ["failed"]
    assert len(read_rows(out)) == 1


@pytest.mark.slow
def test_a_benchmark_that_is_killed_goes_on_where_it_stopped(
    data: Path, grid_file: Path, tmp_path: Path
) -> None:
    grid_file.write_text(ALONE.format("1, 2, 3"))
    out = tmp_path / "rows.parquet"
    command = [sys.executable, "-m", "jam_dagster.cli", "benchmark", "run", str(grid_file)]
    command += ["--data", str(data), "--out", str(out), "--jobs", "1"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("2/3"):
            break
    # The third is under way.
    time.sleep(0.3)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stderr.close()
    held = {row["key"]: row for row in read_rows(out)}
    assert len(held) == 2
    # As if it had been killed while it wrote.
    half = out.parent / f".{out.name}.{'0' * 32}"
    half.write_bytes(b"PAR1")

    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert "2 of 3 runs are there already." in done.stderr
    assert "1/1" in done.stderr
    rows = {row["key"]: row for row in read_rows(out)}
    assert len(rows) == 3
    assert {key: rows[key] for key in held} == held
    assert not half.exists()


def test_one_benchmark_at_a_time_writes_a_file(tmp_path: Path) -> None:
    out = tmp_path / "rows.parquet"

    with (
        Results.opened(out),
        pytest.raises(InputError, match="Another benchmark writes to"),
        Results.opened(out),
    ):
        pass
    with Results.opened(out):
        pass


@pytest.mark.parametrize("content", [b"name,age\nAda,36\n", b""])
def test_another_file_is_not_written_to(tmp_path: Path, content: bytes) -> None:
    out = tmp_path / "mine.parquet"
    out.write_bytes(content)

    with pytest.raises(InputError, match="--out"), Results.opened(out):
        pass

    assert out.read_bytes() == content


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    out = tmp_path / "rows.parquet"
    content = bytearray(to_parquet([{"key": "a", "status": "done"}]))
    # Its pages come first; the footer stays whole.
    content[4:60] = bytes(56)
    out.write_bytes(content)

    with pytest.raises(InputError, match=r"rows\.parquet .* or is damaged: move it away"):
        read_rows(out)


def made(one: Planned, **columns: Any) -> dict[str, Any]:
    """Return the row of a run that took seven seconds."""
    return {
        "key": one.key,
        "mechanism": one.run.mechanism,
        "split": one.run.split,
        "parameters": one.run.parameters_json(),
        "epsilon": one.run.epsilon,
        "label": one.run.title,
        "status": "done",
        "seconds": 7.0,
        "version": __version__,
        **columns,
    }


def test_the_plan_learns_from_what_was_made(data: Path, grid_file: Path) -> None:
    grid = load_grid(grid_file)
    before, _ = plan(grid, [], data)
    row = made(next(one for one in before if one.run.mechanism == "aim"))

    after, _ = plan(grid, [row], data)

    aim = {one.key: one for one in after if one.run.mechanism == "aim"}
    assert [one.known for one in before if one.run.mechanism == "aim"] == [False, False]
    assert all(one.known for one in aim.values())
    assert {one.seconds for one in aim.values()} == {9.0}
    assert [one.status for one in aim.values()].count("done") == 1
    failed, _ = plan(grid, [{**row, "status": "failed"}], data, again=True)
    assert all(one.status is None for one in failed)


def test_a_row_of_another_version_is_made_again(data: Path, grid_file: Path) -> None:
    grid = load_grid(grid_file)
    before, _ = plan(grid, [], data)
    rows = [made(one) for one in before]
    older = {"version": "0.0.9"}
    mixed = [rows[0], rows[1] | older, rows[2] | older | {"status": "failed"}, *rows[3:]]

    after, _ = plan(grid, mixed, data)

    assert [one.status for one in after] == ["done", None, None, *["done"] * 6]
    assert [one.made_by for one in after] == ["", "0.0.9", "0.0.9", *[""] * 6]
    assert [one.key for one in after] == [row["key"] for row in rows]


def test_rows_that_are_there_get_the_labels_of_the_grid(data: Path, grid_file: Path) -> None:
    grid_file.write_text(
        grid_file.read_text().replace("{mechanism: aim", "{label: New, mechanism: aim")
    )
    grid, out = load_grid(grid_file), data / "rows.parquet"
    planned, _ = plan(grid, [], data)
    other = made(planned[0], key="of another grid", label="Other")
    out.write_bytes(to_parquet([*(made(one, label="Old") for one in planned), other]))

    run_grid(grid, out, data=data)

    labels = {row["key"]: row["label"] for row in read_rows(out)}
    assert labels == {one.key: one.run.title for one in planned} | {"of another grid": "Other"}
    assert list(labels.values()).count("New") == 2


def test_a_split_with_too_few_attributes_is_refused_before_any_run(
    data: Path, grid_file: Path
) -> None:
    grid = load_grid(grid_file).changed(degree=5)

    with pytest.raises(SpecificationError, match=r"'small': the degree .* from 1 to 4"):
        run_grid(grid, data / "rows.parquet", data=data)


@pytest.mark.parametrize(("name", "value"), [("jobs", 0), ("limit_s", 0.0)])
def test_what_cannot_be_is_refused(
    data: Path, grid_file: Path, tmp_path: Path, name: str, value: float
) -> None:
    arguments: Any = {name: value}

    with pytest.raises(SpecificationError, match="must be"):
        run_grid(load_grid(grid_file), tmp_path / "rows.parquet", data=data, **arguments)


def test_exact_errors_are_their_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with Results.opened(tmp_path / "rows.parquet") as results:
            results.add({"key": "0", "status": "failed"})
    finally:
        os.umask(before)
    assert (tmp_path / "rows.parquet").stat().st_mode & 0o777 == 0o600


def test_what_other_libraries_say_is_withheld() -> None:
    try:
        int("a private value")
    except ValueError as error:
        message = why(error)
    assert message.startswith(
        "ValueError in test_what_other_libraries_say_is_withheld, test_running"
    )
    assert "private value" not in message
    assert why(InputError("say this")) == "InputError: say this"
