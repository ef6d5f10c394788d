"""`jam-dagster benchmark`: what it prints, and how it ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import Result

from jam_dagster import __version__
from jam_dagster.trials import load_grid, plan
from jam_dagster.trials.results import Row, to_parquet
from jam_dagster.trials.running import Planned
from tests.cli_bench import run_cli
from tests.tiers import slow_rows
from tests.trials.conftest import data as data
from tests.trials.conftest import grid_file as grid_file


def called(*arguments: object) -> Result:
    return run_cli("benchmark", *arguments)


def test_the_runs_and_what_they_may_take_are_listed(data: Path, grid_file: Path) -> None:
    done = called("run", grid_file, "--data", data, "--list", "--out", data / "rows.parquet")

    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert "small, public table alone: about 0:03" in lines
    assert "small, AIM, iterations 10, rounds 6, epsilon 10, seed 0: about 0:04 (a guess)" in lines
    assert lines[-1].startswith("9 runs, 9 to be made, 4 of which nothing is known: about ")
    assert not (data / "rows.parquet").exists()


LEFT_OUT = {
    ".": {name: set[str]() for name in ("aim_paper", "jam_paper", "pmw_pub_paper", "gem_paper")},
    "paper": {
        "aim_paper": {"adult"},
        "jam_paper": set(),
        "pmw_pub_paper": set(),
        "gem_paper": {"adult"},
    },
    "whole": {
        "aim_paper": {"salary"},
        "jam_paper": {"adult_pub025_01", "adult_pub075_01", "titanic", "salary"},
        "pmw_pub_paper": {
            "adult_pub025_01",
            "adult_pub075_01",
            *(f"adult_pub025_01_{rows}" for rows in (32, 324, 1620)),
        },
        "gem_paper": {"adult_pub025_01"},
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("folder", LEFT_OUT)
def test_the_papers_presets_list_what_the_tables_at_hand_allow(
    jam_data: Path, tmp_path: Path, folder: str
) -> None:
    place = jam_data / folder
    for preset, left_out in LEFT_OUT[folder].items():
        splits = {one.name for one in load_grid(preset).splits}

        done = called("run", preset, "--data", place, "--list", "--out", tmp_path / "rows.parquet")

        assert done.exit_code == 0, done.output
        *runs, total = done.stdout.splitlines()
        assert {line.split(",")[0] for line in runs} == splits - left_out
        assert total.startswith(f"{len(runs)} runs, ")
        for split in left_out:
            assert f"{split} is left out: {place} holds no split" in done.stderr


def test_the_status_tells_that_a_run_failed_after_all_were_made(
    data: Path, grid_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "rows.parquet"
    planned, _ = plan(load_grid(grid_file), [], data)
    kinds = ("done", "failed")
    out.write_bytes(to_parquet([stored(one, kinds[one == planned[3]]) for one in planned]))

    failed = called("run", grid_file, "--data", data, "--out", out)
    out.write_bytes(to_parquet([stored(one) for one in planned]))
    done = called("run", grid_file, "--data", data, "--out", out)

    assert failed.exit_code == 1
    assert "9 runs, 1 of them failed" in failed.stdout
    assert "--retry makes them once more." in failed.stderr
    assert done.exit_code == 0
    assert "9 runs, 0 of them failed" in done.stdout


def test_rows_of_another_version_are_told(data: Path, grid_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "rows.parquet"
    planned, _ = plan(load_grid(grid_file), [], data)
    versions = ["0.0.9", "0.0.9", *[__version__] * 7]
    rows = zip(planned, versions, strict=True)
    out.write_bytes(to_parquet([stored(one) | {"version": version} for one, version in rows]))

    done = called("run", grid_file, "--data", data, "--out", out, "--list")

    said = "2 runs are to be repeated: version 0.0.9 of jam_dagster made their rows, and this is"
    assert f"{said} {__version__}." in done.stderr
    assert "9 runs, 2 to be made: about" in done.stdout


def stored(one: Planned, status: str = "done") -> Row:
    row = {"key": one.key, "mechanism": one.run.mechanism, "split": one.run.split}
    row |= {"label": one.run.title, "seed": one.run.seed, "epsilon": one.run.epsilon}
    row |= {"parameters": one.run.parameters_json(), "seconds": 1.0, "message": ""}
    return {**row, "status": status, "version": __version__}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "slow"), "There is no grid 'slow'"),
        *slow_rows(
            (("run", "smoke", "--out", "rows.csv"), "must end in .parquet"),
            (("run", "smoke", "--mechanism", "magic"), "no mechanism 'magic'"),
            (("run", "smoke", "--jobs", "0"), "jobs must be at least 1"),
        ),
        (("run", "smoke", "--split", "nowhere", "--data", "."), "holds no split 'nowhere'"),
        *slow_rows(
            (("run", "aim_paper", "--split", "adult", "--data", "."), "holds no split 'adult'"),
            (("figures", "absent.parquet"), "absent.parquet is missing"),
        ),
    ],
)
def test_what_is_wrong_is_one_line_and_status_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(tmp_path)

    done = called(*arguments)

    assert done.exit_code == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_who_interrupts_is_told_how_to_go_on(
    data: Path, grid_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("jam_dagster.trials.run_grid", interrupted)

    done = called("run", grid_file, "--data", data, "--out", data / "rows.parquet")

    assert done.exit_code == 130
    assert "the same command makes the rest" in done.stderr


SPAWN = """
import multiprocessing
from jam_dagster.cli import main

if __name__ == "__main__":
    try:
        main()
    except SystemExit:
        process = multiprocessing.get_context("spawn").Process(target=print)
        process.start()
        process.join()
"""


def test_a_module_in_the_working_directory_is_not_run(tmp_path: Path) -> None:
    """The command starts processes as Python does, which looks there first by itself."""
    for name in ("multiprocessing", "pickle"):
        (tmp_path / f"{name}.py").write_text("open('ran', 'w').close()")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "command.py").write_text(SPAWN)
    command = [sys.executable, "bin/command.py", "--version"]
    done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert done.stdout.startswith(f"jam-dagster {__version__}"), done.stderr
    assert not (tmp_path / "ran").exists()
