"""`jam-dagster benchmark`: what it prints, and how it ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from jam_dagster.benchmark.results import to_parquet
from jam_dagster.cli import app
from tests.benchmark.conftest import data as data
from tests.benchmark.conftest import grid_file as grid_file
from tests.benchmark.rows import rows


def called(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["benchmark", *map(str, arguments)])


def test_the_runs_and_what_they_may_take_are_listed(data: Path, grid_file: Path) -> None:
    done = called("run", grid_file, "--data", data, "--list", "--out", data / "rows.parquet")

    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert "small, public table alone: about 0:03" in lines
    assert "small, AIM, iterations 10, rounds 6, epsilon 10, seed 0: about 1:02 (a guess)" in lines
    assert lines[-1].startswith("8 runs, 8 to be made, 4 of which nothing is known: about ")
    assert not (data / "rows.parquet").exists()


def test_a_preset_says_what_this_version_lacks(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from jam_dagster.benchmark import grid_file as module

    monkeypatch.setattr(module, "MECHANISMS", {"jam_pgm": "jam_pgm.JamPgm", "aim": "aim.Aim"})

    done = called("run", "quick", "--data", data, "--split", "small", "--list")

    assert done.exit_code == 0, done.output
    assert "mst is skipped: this version of jam_dagster has no such mechanism." in done.stderr
    assert "small, JAM-PGM, epsilon 10, seed 2" in done.stdout
    assert "MST" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "slow"), "There is no grid 'slow'"),
        (("run", "smoke", "--out", "rows.csv"), "must end in .parquet"),
        (("run", "smoke", "--mechanism", "magic"), "no mechanism 'magic'"),
        (("run", "smoke", "--jobs", "0"), "jobs must be at least 1"),
        (("run", "smoke", "--split", "nowhere", "--data", "."), "holds no split 'nowhere'"),
        (("figures", "absent.parquet"), "absent.parquet is not there"),
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


@pytest.mark.slow
def test_rows_become_figures(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    path.write_bytes(to_parquet([one for one in rows() if one["split"] == "titanic"]))

    done = called("figures", path, "--out", tmp_path / "figures")

    assert done.exit_code == 0, done.output
    written = done.stdout.splitlines()
    assert written[0] == str(tmp_path / "figures" / "benchmark.html")
    assert all(Path(one).stat().st_size > 0 for one in written)
