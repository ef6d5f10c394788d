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
from benchmarks.simulated import CHUNK, Population, write_tables
from jam_dagster.reports.plot_style import svg


def shares(table: pd.DataFrame, name: str, size: int) -> np.ndarray:
    return np.bincount(table[name], minlength=size) / len(table)


def test_simulated_attributes_depend_on_each_other() -> None:
    population = Population.of(6, seed=0)
    table = population.draw(20_000, np.random.default_rng(0))

    joint = pd.crosstab(table["a00"], table["a01"], normalize=True).to_numpy()
    independent = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    # What 20,000 independent records show by chance is a tenth of this.
    assert np.abs(joint - independent).sum() > 0.3


def test_simulated_codes_are_those_of_the_domain() -> None:
    population = Population.of(16, seed=3)
    table = population.draw(5_000, np.random.default_rng(0))

    assert tuple(table.columns) == population.names
    for name, size in zip(population.names, population.sizes, strict=True):
        assert table[name].between(0, size - 1).all()


def test_the_public_table_is_biased() -> None:
    population = Population.of(3, seed=0)
    size = population.sizes[0]
    fair, biased = (
        shares(population.draw(50_000, np.random.default_rng(0), bias=bias), "a00", size)
        for bias in (1.0, 3.0)
    )

    low, high = fair[: size // 2].sum(), biased[: size // 2].sum()
    assert high == pytest.approx(3 * low / (3 * low + 1 - low), abs=0.01)


def test_a_larger_population_begins_with_the_smaller_one() -> None:
    small, large = Population.of(4, seed=1), Population.of(9, seed=1)

    assert large.parents[:4] == small.parents
    for one, other in zip(small.tables, large.tables, strict=False):
        np.testing.assert_array_equal(one, other)


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


def test_rows_are_written_in_groups(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    write_tables(tmp_path, rows=CHUNK + 1, attributes=2)

    groups = pq.ParquetFile(tmp_path / "priv.parquet").metadata
    assert [groups.row_group(i).num_rows for i in range(groups.num_row_groups)] == [CHUNK, 1]


def test_sweeps_share_their_base() -> None:
    made = list(points(SWEEPS, BASE))

    assert made.count(BASE) == 1
    assert len(made) == sum(map(len, SWEEPS.values())) - 3
    for axis, values in SWEEPS.items():
        assert getattr(BASE, axis) in values
    # Whole numbers stay whole, or the command line would refuse them.
    assert all(isinstance(point.rows, int) for point in made)


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


@pytest.mark.slow
def test_another_setting_is_another_run(ran: list[Point], tmp_path: Path) -> None:
    given = ["--quick", "--sweep", "rounds", "--out", str(tmp_path / "runs.csv")]

    main(given)
    main([*given, "--epsilon", "2"])

    assert len(ran) == 4


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


def test_another_file_is_not_written_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "mine.csv"
    out.write_text("name,age\nAda,36\n")

    assert main(["--quick", "--out", str(out)]) == 2
    assert "--out" in capsys.readouterr().err
    assert out.read_text() == "name,age\nAda,36\n"


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
