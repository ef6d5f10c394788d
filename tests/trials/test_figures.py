"""Figures and summary of rows that never ran."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from jam_dagster.errors import InputError
from jam_dagster.mechanisms.registry import title_of
from jam_dagster.reports.plot_style import svg
from jam_dagster.trials import figures, read_frame, write_figures
from jam_dagster.trials.figures import sharing
from jam_dagster.trials.measures import main_runs, means, sweep
from jam_dagster.trials.results import COLUMNS, Row, to_parquet
from jam_dagster.trials.runs import BASELINES
from jam_dagster.trials.summary import failures, markdown
from tests.trials.rows import PEERS, row, rows


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
        one |= {"public_share": None, "round_seconds": None}
    several, single = means(pd.DataFrame(made), ["split"])

    assert several["error_mean"] == pytest.approx(0.2)
    assert several["error_mean_se"] == pytest.approx(0.1 / math.sqrt(3))
    assert several["error_mean_low"] == pytest.approx(0.2 - 0.1 / math.sqrt(3))
    assert several["runs"] == 3
    # One run tells nothing about chance.
    assert single["error_mean_se"] is None
    assert single["error_mean_low"] == single["error_mean_high"] == 0.7


@pytest.mark.slow
def test_every_figure_is_drawn_that_has_runs(frame: pd.DataFrame) -> None:
    drawn = {one.name: one for one in figures(frame)}

    assert set(drawn) == {
        "error_by_epsilon",
        "max_error_by_epsilon",
        "best_setting_by_epsilon",
        "best_mixture",
        "public_picks",
        "error_by_rounds",
        "error_by_capacity",
        "seconds_by_epsilon",
        "seconds_by_capacity",
        "sample_share_by_epsilon",
    }
    # Only JAM-PGM chooses.
    assert {one["label"] for one in drawn["public_picks"].rows} == {"JAM-PGM"}
    spec = str(drawn["error_by_epsilon"].chart.to_dict())
    for label in ("JAM-PGM", "GEM^Pub", "public table alone", "sampling floor"):
        assert label in spec


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


@pytest.mark.slow
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


def peers(errors: dict[tuple[str, str], float], **parameters: Any) -> list[dict[str, Any]]:
    """Runs at two epsilons of mechanisms on splits, by both names, with baselines."""
    made = []
    for (split, name), error in errors.items():
        about = {"split": split, "mechanism": name, "error_mean": error, "error_max": 2 * error}
        if name in BASELINES:
            made.append(row(0, **about, kind="baseline", label=BASELINES[name]))
            continue
        about |= {"label": title_of(name), "seed": 0, "seconds": 1.0}
        made += [row(0, **about, **parameters, epsilon=epsilon) for epsilon in (1.0, 10.0)]
    return made


def data(chart: Any) -> list[dict[str, Any]]:
    held: dict[str, list[dict[str, Any]]] = chart.to_dict()["datasets"]
    return [point for rows in held.values() for point in rows]


@pytest.mark.slow
@pytest.mark.parametrize("bound", [0.3, 3.0])
def test_what_no_mixture_reaches_is_shaded(bound: float) -> None:
    runs = peers({("s", "pmw_pub"): 0.376, ("s", "aim"): 1.7, ("s", "best_mixture"): bound})

    drawn = {one.name: one.chart for one in figures(pd.DataFrame(runs))}

    (area,) = (one for one in data(drawn["best_mixture"]) if "bound" in one)
    assert area == {"panel": "s", "x": None, "bound": bound}
    # A rectangle across the panel, with room below it.
    drawing = svg(drawn["best_mixture"])
    (height,) = re.findall(r'd="M0,[\d.]+h300v([\d.]+)h-300Z" fill="#5b6875"', drawing)
    assert 16 <= float(height) <= 210


@pytest.mark.slow
@pytest.mark.parametrize("zeros", [{"aim"}, set(BASELINES)])
def test_errors_of_nothing_are_left_out_with_a_word(zeros: set[str]) -> None:
    held = {name: 0.0 if name in zeros else 0.3 for name in ("aim", "pmw_pub", *BASELINES)}
    frame = pd.DataFrame(peers({("s", name): error for name, error in held.items()}))

    drawn = {one.name: one for one in figures(frame)}

    assert {"error_by_epsilon", "max_error_by_epsilon", "best_mixture"} <= set(drawn)
    one = drawn["error_by_epsilon"]
    if zeros == {"aim"}:
        assert {point["label"] for point in one.rows} == {"PMW^Pub"}
        assert "AIM on s at epsilon 1; AIM on s at epsilon 10" in one.caption
    else:
        assert "Left out" not in one.caption
        assert not [point for point in data(one.chart) if "level" in point]


SHARED = {
    ("good", "public_table"): 0.2,
    ("bad", "public_table"): 0.6,
    ("good", "best_mixture"): 0.1,
    ("bad", "best_mixture"): 0.3,
    ("good", "true_one_ways"): 0.34,
    ("bad", "true_one_ways"): 0.34,
    ("good", "aim"): 0.25,
    ("bad", "aim"): 0.25,
    ("good", "jam_pgm"): 0.15,
    ("bad", "jam_pgm"): 0.22,
}


@pytest.mark.slow
def test_error_by_public_table_has_the_splits_of_one_private_table() -> None:
    other = {("other", name): error for (split, name), error in SHARED.items() if split == "bad"}
    frame = pd.DataFrame(peers({**SHARED, **other, ("other", "true_one_ways"): 0.35}))

    drawn = {one.name: one for one in figures(frame)}

    assert sharing(frame) == [["good", "bad"]]
    figure = drawn["error_by_public_table"]
    points = {
        (point["label"], point["epsilon"], point["public_error"], point["error_mean"])
        for point in figure.rows
    }
    assert points == {
        (label, epsilon, *place)
        for epsilon in (1.0, 10.0)
        for label, *places in (
            ("AIM", (0.2, 0.25), (0.6, 0.25)),
            ("JAM-PGM", (0.2, 0.15), (0.6, 0.22)),
        )
        for place in places
    }
    panel = "1,000 records, epsilon 10"
    own = [point for point in data(figure.chart) if point["panel"] == panel]
    assert [(one["x"], one["level"]) for one in own if "level" in one] == [(0.2, 0.2), (0.6, 0.6)]
    assert [(one["x"], one["bound"]) for one in own if "bound" in one] == [(0.2, 0.1), (0.6, 0.3)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "parameters", [{"records": 7}, {"attributes": 3}, {"delta": 1e-6}, {"degree": 2}]
)
def test_splits_that_differ_in_more_than_the_public_table_are_not_joined(
    parameters: dict[str, Any],
) -> None:
    rows = peers(SHARED)
    for one in rows:
        if one["split"] == "bad":
            one |= parameters
    frame = pd.DataFrame(rows)

    assert sharing(frame) == []


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
    text = made[0].read_text()
    assert "GEM {}, epsilon 1, seed 4: MemoryError: <b>" in text
    assert "| GEM " not in text
    assert "RESTRICTED" in text
    pictures = {one.name for one in made[1:]}
    assert {"error_by_epsilon.svg", "error_by_epsilon.png"} <= pictures
    for one in made[1:]:
        # A picture without a ground of its own is unreadable on a dark page.
        assert one.suffix != ".svg" or re.search(
            r'<svg[^>]*><rect [^>]*fill="white"', one.read_text()
        )
        begin = one.read_bytes()[:8]
        assert begin.startswith(b"<svg") if one.suffix == ".svg" else begin == b"\x89PNG\r\n\x1a\n"


@pytest.mark.slow
def test_errors_are_those_after_the_search_where_every_table_was_searched(tmp_path: Path) -> None:
    about = {"split": "s", "mechanism": "aim", "label": "AIM", "epsilon": 1.0}
    errors = {"error_mean": 0.4, "error_max": 0.8, "model_error_mean": 0.2, "model_error_max": 0.3}
    after = {"searched_error_mean": 0.25, "searched_error_max": 0.5}
    answers = row(2, **about | {"mechanism": "gaussian"}, model_error_mean=0.1, model_error_max=0.2)
    new, old = row(1, **about, **errors, **after), row(3, **about, **errors)
    path = tmp_path / "rows.parquet"

    def text(*rows: Row, search: bool | None = None) -> str:
        path.write_bytes(to_parquet(rows))
        return write_figures(read_frame([path]), tmp_path / "out", search=search)[0].read_text()

    for search in (None, True):
        made = text(new, answers, search=search)
        assert "Rows: sampled, then searched" in made
        assert "0.2500" in made
        assert "0.1000" in made
        assert "0.4000" not in made
    made = text(new, answers, search=False)
    assert "Rows: sampled alone" in made
    assert "0.4000" in made
    # Rows of an earlier version.
    assert "Rows: sampled alone" in text(new, old)
    with pytest.raises(InputError, match="draw them with --no-search"):
        text(new, old, search=True)


def test_a_baseline_that_failed_is_told_without_an_epsilon(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    about = {"kind": "baseline", "split": "s", "mechanism": "best_mixture", "label": "best mixture"}
    path.write_bytes(to_parquet([row(1, **about, status="failed", message="too large")]))
    assert failures(read_frame([path])) == [("s, best mixture {}", "too large")]


def test_a_column_without_numbers_is_one_of_numbers(tmp_path: Path) -> None:
    """Such as public records, if all tables are private as a whole."""
    path = tmp_path / "rows.parquet"
    about = {"split": "s", "mechanism": "mwem", "label": "MWEM", "epsilon": 1.0, "error_mean": 0.1}
    path.write_bytes(to_parquet([row(1, **about | {"public_records": None})]))
    frame = read_frame([path])
    assert frame["public_records"].isna().all()
    assert frame["public_records"].dtype == float
    assert frame["message"].dtype != float


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
    with pytest.raises(InputError, match="is missing: make it"):
        read_frame([tmp_path / "absent.parquet"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "column", "about"),
    [
        ("cell_max_by_marginals", "marginals", {"workload": "random {}", "marginals": 1}),
        ("cell_max_by_public_rows", "public_records", {"split": "s_{}", "public_records": 1}),
        ("error_by_public_rows", "public_records", {"split": "s_{}", "public_records": 1}),
    ],
)
def test_an_axis_of_the_set_up_joins_its_panels(
    name: str, column: str, about: dict[str, Any]
) -> None:
    made = []
    for number in (8, 64):
        own = {key: number if value == 1 else value.format(number) for key, value in about.items()}
        known = {"split": "s", "split_of": "s", "cell_max": 1 / number}
        made += [one | known | own for one in peers({("s", "pmw_pub"): 2 / number})]

    drawn = {one.name: one for one in figures(pd.DataFrame(made))}

    points = [(one["panel"], one[column], one["cell_max"]) for one in drawn[name].rows]
    assert points == [
        (f"s, epsilon {epsilon}", number, 1 / number) for number in (8, 64) for epsilon in (1, 10)
    ]


@pytest.mark.slow
def test_an_area_is_drawn_from_its_least_value_and_listed_with_its_ceiling() -> None:
    made = [
        {**one, "tstr_auc": 0.9 + 0.01 * (number % 3), "pairs8": 0.1, "correlation": 0.02}
        for number, one in enumerate(rows())
    ]
    frame = pd.DataFrame(made, columns=list(COLUMNS)).assign(tested_on="held-out rows")
    drawn = figures(frame)
    (area,) = (one for one in drawn if one.name == "auc_by_epsilon")

    scales = json.dumps(area.chart.to_dict())
    assert '"zero": false' in scales
    text = markdown(frame, drawn, search=False)
    assert "| table | epsilon | mean error | AUC on held-out rows |" in text
    assert "| sampling floor |" in text
