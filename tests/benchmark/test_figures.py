"""Figures and summary of rows that never ran."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from jam_dagster.benchmark import figures, read_frame, write_figures
from jam_dagster.benchmark.measures import main_runs, means, sweep
from jam_dagster.benchmark.page import failures
from jam_dagster.benchmark.results import COLUMNS, to_parquet
from jam_dagster.errors import InputError
from tests.benchmark.rows import PEERS, row, rows


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return pd.DataFrame(rows())


def test_a_comparison_shows_one_setting_a_mechanism(frame: pd.DataFrame) -> None:
    runs = main_runs(frame)

    # 2 splits, 3 epsilons, 3 seeds; the sweeps are left out.
    assert runs["label"].value_counts().to_dict() == {label: 18 for label, *_ in PEERS.values()}


def test_a_sweep_takes_the_runs_that_differ_in_its_setting_alone(frame: pd.DataFrame) -> None:
    runs = sweep(frame, "rounds")

    assert set(runs["label"]) == {"JAM-PGM"}
    assert sorted(set(runs["rounds"])) == [5, 10, 30, 50, 100]
    limits = sweep(frame, "size_limit_mb")
    assert set(limits["label"]) == {"AIM"}
    assert sorted(set(limits["size_limit_mb"])) == [5, 20, 80]
    assert sweep(frame, "alpha").empty


def test_means_have_the_standard_error_of_the_mean() -> None:
    made = [row(n, split="s", label="A", error_mean=e) for n, e in enumerate((0.1, 0.2, 0.3))]
    made.append(row(3, split="t", label="A", error_mean=0.7))

    for one in made:
        one["public_share"] = None
    several, single = means(pd.DataFrame(made), ["split"])

    assert several["error_mean"] == pytest.approx(0.2)
    assert several["error_mean_se"] == pytest.approx(0.1 / math.sqrt(3))
    assert several["error_mean_low"] == pytest.approx(0.2 - 0.1 / math.sqrt(3))
    assert several["runs"] == 3
    # One run tells nothing about chance.
    assert single["error_mean_se"] is None
    assert single["error_mean_low"] == single["error_mean_high"] == 0.7


def test_every_figure_is_drawn_that_has_runs(frame: pd.DataFrame) -> None:
    drawn = {one.name: one for one in figures(frame)}

    assert set(drawn) == {
        "error_by_epsilon",
        "max_error_by_epsilon",
        "best_mixture",
        "public_picks",
        "error_by_rounds",
        "error_by_capacity",
        "seconds_by_epsilon",
        "seconds_by_capacity",
    }
    # Only JAM-PGM chooses.
    assert {one["label"] for one in drawn["public_picks"].rows} == {"JAM-PGM"}
    spec = str(drawn["error_by_epsilon"].chart.to_dict())
    for label in ("JAM-PGM", "GEM^Pub", "public table", "sampling floor"):
        assert label in spec


def test_a_line_looks_the_same_in_every_panel(frame: pd.DataFrame) -> None:
    # On one split there is one mechanism less.
    part = frame[(frame["split"] != "titanic") | (frame["mechanism"] != "jam_pgm")]
    part = part[part["settings"] == "{}"]

    drawn = {one.name: one.chart.to_dict() for one in figures(part)}

    for spec in drawn.values():
        scales = [
            (tuple(scale["domain"]), tuple(scale["range"]))
            for scale in values(spec, "color", "scale")
        ]
        assert len(set(scales)) == 1
    (scale, *_) = values(drawn["error_by_epsilon"], "color", "scale")
    looks = dict(zip(scale["domain"], scale["range"], strict=True))
    assert looks["JAM-PGM"] == "#0072b2"
    assert looks["AIM"] == "#d55e00"


def values(spec: Any, name: str, inside: str) -> list[Any]:
    """Everything that is called `inside` in what is called `name`, anywhere in a chart."""
    found = []
    if isinstance(spec, dict):
        for key, value in spec.items():
            if key == name and isinstance(value, dict) and inside in value:
                found.append(value[inside])
            found += values(value, name, inside)
    elif isinstance(spec, list):
        for value in spec:
            found += values(value, name, inside)
    return found


def test_what_has_no_runs_is_not_drawn(frame: pd.DataFrame) -> None:
    part = frame[(frame["mechanism"] != "jam_pgm") & (frame["settings"] == "{}")]

    names = [one.name for one in figures(part)]

    assert names == [
        "error_by_epsilon",
        "max_error_by_epsilon",
        "best_mixture",
        "seconds_by_epsilon",
    ]


def test_answers_without_a_table_are_drawn_with_their_model_error() -> None:
    made = [
        row(
            number,
            split="s",
            mechanism="gaussian",
            label="Gaussian",
            epsilon=epsilon,
            seed=0,
            model_error_mean=0.3,
            model_error_max=0.6,
            seconds=1.0,
        )
        for number, epsilon in enumerate((1.0, 10.0))
    ]

    (one, *_) = figures(pd.DataFrame(made))

    assert [point["error_mean"] for point in one.rows] == [0.3, 0.3]


@pytest.mark.slow
def test_failed_runs_are_told_and_drawn_nowhere(tmp_path: Path) -> None:
    good = [one for one in rows() if one["epsilon"] in (0.1, 1.0) and one["label"] == "AIM"]
    bad = row(
        999,
        split="titanic",
        mechanism="gem",
        label="GEM",
        epsilon=1.0,
        seed=4,
        status="failed",
        message="MemoryError: <b>",
    )
    path = tmp_path / "rows.parquet"
    path.write_bytes(to_parquet([*good, bad]))

    made = write_figures(read_frame([path]), tmp_path / "out")

    assert {path.stat().st_mode & 0o077 for path in made} == {0}
    page, text = made[0].read_text(), made[1].read_text()
    assert "GEM {}, epsilon 1, seed 4: MemoryError: <b>" in text
    assert "MemoryError: &lt;b&gt;" in page
    assert "| GEM " not in text
    assert "RESTRICTED" in text
    assert "<strong>Restricted</strong>" in page
    pictures = {one.name for one in made[2:]}
    assert {"error_by_epsilon.svg", "error_by_epsilon.png"} <= pictures
    for one in made[2:]:
        begin = one.read_bytes()[:8]
        assert begin.startswith(b"<svg") if one.suffix == ".svg" else begin == b"\x89PNG\r\n\x1a\n"


def test_a_baseline_that_failed_is_told_without_an_epsilon(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    about = {"kind": "baseline", "split": "s", "mechanism": "best_mixture", "label": "best mixture"}
    path.write_bytes(to_parquet([row(1, **about, status="failed", message="too large")]))
    assert failures(read_frame([path])) == [("s, best mixture {}", "too large")]


def test_several_files_are_one_and_done_wins_over_failed(tmp_path: Path) -> None:
    done = row(1, split="s", mechanism="aim", label="AIM", epsilon=1.0, error_mean=0.1)
    failed = {**done, "status": "failed", "error_mean": None}
    newer = {**done, "error_mean": 0.2}
    for name, held in (("a", [done]), ("b", [failed]), ("c", [newer])):
        (tmp_path / name).write_bytes(to_parquet(held))

    frame = read_frame([tmp_path / "a", tmp_path / "b"])

    assert frame["status"].tolist() == ["done"]
    assert list(frame.columns) == list(COLUMNS)
    newest = read_frame([tmp_path / name for name in ("a", "b", "c")])
    assert newest["error_mean"].tolist() == [0.2]


def test_nothing_to_draw_is_said(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    path.write_bytes(to_parquet([row(1, split="s", mechanism="aim", label="AIM", status="failed")]))

    with pytest.raises(InputError, match="nothing to draw"):
        figures(read_frame([path]))
    with pytest.raises(InputError, match="is not there"):
        read_frame([tmp_path / "absent.parquet"])
