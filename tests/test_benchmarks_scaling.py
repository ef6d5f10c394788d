"""The benchmark of growth: its simulated tables, its file of runs and its plot."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import scaling
from benchmarks.process import RunFailedError
from benchmarks.scaling import BASE, QUICK_BASE, QUICK_SWEEPS, SWEEPS, Point, main, points
from benchmarks.scaling_plot import chart, on_axis
from benchmarks.simulated import write_tables
from jam_dagster.reports.plot_style import svg


def shares(table: pd.DataFrame, name: str, size: int) -> np.ndarray:
    return np.bincount(table[name], minlength=size) / len(table)


def test_tables_are_the_same_for_the_same_seed(tmp_path: Path) -> None:
    for name, seed in (("one", 0), ("two", 0), ("three", 1)):
        write_tables(tmp_path / name, rows=300, attributes=4, seed=seed)

    one, two, three = (
        pd.read_parquet(tmp_path / name / "priv.parquet") for name in ("one", "two", "three")
    )
    pd.testing.assert_frame_equal(one, two)
    assert len(one) == 300
    assert not one.equals(three)
    assert len(pd.read_parquet(tmp_path / "one" / "pub.parquet")) == 30


def result(point: Point, arguments: argparse.Namespace) -> dict[str, str]:
    """Return the line of a run that went well."""
    figures = {"wall_s": "2", "cpu_s": "1", "peak_gb": "0.3", "error": "0.1", "public": "0.2"}
    stages = {f"seconds.{stage}": "0.5" for stage in scaling.STAGES}
    return {
        **scaling.identity(point, arguments),
        **figures,
        **stages,
        "status": "ok",
        "private_picks": "1",
        "parts": "mechanism.fit=0.250",
    }


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Point]:
    """Let runs take no time; return those that were made."""
    made: list[Point] = []

    def run_once(folder: Path, point: Point, arguments: argparse.Namespace) -> dict[str, str]:
        made.append(point)
        return result(point, arguments)

    monkeypatch.setattr(scaling, "run_once", run_once)
    monkeypatch.setattr(scaling, "_tables", lambda folder, point, seed: folder)
    return made


@pytest.mark.slow
def test_a_benchmark_that_stopped_goes_on(ran: list[Point], tmp_path: Path) -> None:
    out = str(tmp_path / "runs.csv")

    assert main(["--quick", "--sweep", "rows", "--out", out]) == 0
    first = list(ran)
    assert main(["--quick", "--out", out]) == 0

    assert first == list(points({"rows": QUICK_SWEEPS["rows"]}, QUICK_BASE))
    assert ran == list(points(QUICK_SWEEPS, QUICK_BASE))
    assert len(pd.read_csv(out)) == len(ran)
    assert "<svg" in (tmp_path / "runs.svg").read_text()


def test_what_failed_is_noted_and_repeated_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(**given: object) -> None:
        raise RunFailedError("it ran out of time")

    monkeypatch.setattr(scaling, "synthesize", fail)
    monkeypatch.setattr(scaling, "_tables", lambda folder, point, seed: folder)
    out = tmp_path / "runs.csv"
    given = ["--quick", "--sweep", "rounds", "--out", str(out)]

    assert main(given) == 1
    assert set(pd.read_csv(out)["status"]) == {"failed: it ran out of time"}
    assert "nothing to plot" in capsys.readouterr().err
    main(given)
    assert len(pd.read_csv(out)) == 2
    main([*given, "--retry"])
    assert len(pd.read_csv(out)) == 4


@pytest.mark.slow
def test_a_panel_shows_the_runs_on_its_axis(tmp_path: Path) -> None:
    arguments = argparse.Namespace(
        epsilon=1.0, estimator=None, tolerance=None, iterations=None, seed=0
    )
    rows = [result(point, arguments) for point in points(SWEEPS, BASE)]

    for axis, values in SWEEPS.items():
        assert [float(row[axis]) for row in on_axis(rows, axis, asdict(BASE))] == list(values)
    drawn = svg(chart(rows, SWEEPS, asdict(BASE)))
    for title in ("rows of the private table", "attributes", "rounds", "size limit, MB"):
        assert title in drawn
