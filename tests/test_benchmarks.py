"""The error study: two settings of a benchmark side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchmarks import error_study, tilt_ratio, tilt_splits
from benchmarks.error_study import compare
from docs_build.measured_tables import entries, lines_of
from jam_dagster.errors import InputError
from jam_dagster.trials import load_grid, read_frame
from jam_dagster.trials.measures import searched
from jam_dagster.trials.results import to_parquet
from jam_dagster.trials.summary import markdown
from tests.tiers import slow
from tests.trials.rows import row

ROOT = Path(__file__).parents[1]
TILT = ("tilt.yaml", "tilt_wrong.yaml", "tilt_held_out.yaml", "tilt_held_out_peers.yaml")


def runs(
    label: str, errors: dict[int, float], *, epsilon: float = 1.0, **settings: Any
) -> list[dict[str, Any]]:
    parameters = {
        "rounds": 30,
        "estimator": "accelerated",
        "iterations": 1000,
        "tolerance": 0.1,
        **settings,
    }
    return [
        row(
            0,
            split="small",
            mechanism="jam_pgm",
            label=label,
            epsilon=epsilon,
            seed=seed,
            error_mean=error,
            seconds=1.0,
            parameters=json.dumps(parameters),
            rounds=2,
        )
        for seed, error in errors.items()
    ]


def written(path: Path, *made: list[dict[str, Any]]) -> Path:
    rows = [one for part in made for one in part]
    path.write_bytes(
        to_parquet([one | {"key": f"{number:016x}"} for number, one in enumerate(rows)])
    )
    return path


def compared(path: Path) -> dict[str, object]:
    first, second = error_study.read(path, "a"), error_study.read(path, "b")
    (found,) = compare(first, second).to_dict("records")
    return {str(name): value for name, value in found.items()}


def test_a_difference_is_told_in_standard_errors(tmp_path: Path) -> None:
    path = written(
        tmp_path / "rows.parquet",
        runs("a", {1: 0.30, 2: 0.40, 3: 0.50}),
        runs("b", {1: 0.10, 2: 0.22, 3: 0.28}, tolerance=0.0),
    )

    found = compared(path)

    assert found["first"] == pytest.approx(0.4)
    assert found["second"] == pytest.approx(0.2)
    assert found["se"] == pytest.approx(0.1 / 3**0.5)
    assert found["difference"] == pytest.approx(0.2)
    # Variances 0.01 and 0.0084 of one run; the differences are 0.20, 0.18 and 0.22.
    assert found["unpaired"] == pytest.approx(0.2 / ((0.01 + 0.0084) / 3) ** 0.5)
    assert found["paired_difference"] == pytest.approx(0.2)
    assert found["paired"] == pytest.approx(0.2 / (0.02 / 3**0.5))
    assert found["not_worse"] is False


def test_seeds_that_one_setting_lacks_are_not_paired(tmp_path: Path) -> None:
    path = written(
        tmp_path / "rows.parquet", runs("a", {1: 0.3, 2: 0.4}), runs("b", {2: 0.5, 3: 0.7, 4: 0.9})
    )

    found = compared(path)

    assert found["seeds"] == "2, 3"
    assert found["pairs"] == 1
    assert found["paired_difference"] == pytest.approx(-0.1)
    assert np.isnan(found["paired"])  # type: ignore[call-overload]
    assert found["not_worse"] is True


def test_only_the_same_experiment_is_compared(tmp_path: Path) -> None:
    ours = runs("a", {1: 0.3, 2: 0.4})

    with pytest.raises(InputError, match=r"differ in rounds \(20, 30\)"):
        compared(written(tmp_path / "r.parquet", ours, runs("b", {1: 0.3, 2: 0.4}, rounds=20)))
    with pytest.raises(InputError, match="in common"):
        compared(written(tmp_path / "c.parquet", ours, runs("b", {1: 0.3, 2: 0.4}, epsilon=10.0)))


def test_the_comparison_is_printed_and_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(
        tmp_path / "rows.parquet",
        runs("a", {1: 0.3, 2: 0.4}),
        runs("b", {1: 0.5, 2: 0.7}, tolerance=0.0),
    )
    out = tmp_path / "table.csv"

    assert error_study.main([str(path), "a", "b", "--out", str(out)]) == 0

    printed = capsys.readouterr().out
    assert "first: estimator accelerated, iterations 1000, tolerance 0.1; seeds 1 to 2" in printed
    assert pd.read_csv(out)["difference"].item() == pytest.approx(-0.25)


def test_the_study_that_is_published_is_the_one_that_its_grid_makes() -> None:
    path = ROOT / "docs" / "measurements" / "errors.parquet"
    grid = load_grid(ROOT / "benchmarks" / "errors.yaml")

    first, second = (error_study.read(path, one) for one in ("accelerated", "mirror_descent"))

    named = {(one.split, one.label, one.epsilon, one.seed) for one in grid.runs()}
    for found in (first, second):
        held = found[["split", "label", "epsilon", "seed"]].itertuples(index=False)
        assert {tuple(one) for one in held} <= named
    titanic = compare(first, second).query("split == 'titanic' and epsilon == 10").iloc[0]
    # As docs/performance.md has it.
    assert titanic["first"] == pytest.approx(0.3765, abs=5e-5)
    assert titanic["second"] == pytest.approx(0.3805, abs=5e-5)


@pytest.mark.parametrize("name", ["errors.yaml", "readme.yaml", *TILT])
def test_the_grids_of_the_documentation_can_be_read(name: str) -> None:
    assert load_grid(ROOT / "benchmarks" / name).runs()


@pytest.mark.parametrize("name", [*slow("peers", "peers_budgets"), "peers_small_domain"])
def test_ratios_to_aim_on_the_page_are_those_of_the_rows(name: str) -> None:
    frame = read_frame([ROOT / "docs" / "measurements" / f"{name}.parquet"])
    grid = load_grid(ROOT / "benchmarks" / f"{name}.yaml")

    text = markdown(searched(frame), [], search=True)

    table = text.partition("| mechanism |")[2].partition("\n\n")[0].splitlines()[2:]
    assert len(table) >= 5
    assert [*lines_of(entries("without_public_data")[name])][2:] == table
    named = {(one.split, one.mechanism, one.epsilon, one.seed) for one in grid.runs()}
    held = frame[["split", "mechanism", "epsilon", "seed"]].itertuples(index=False)
    assert {tuple(one) for one in held} <= named


def test_wrong_public_tables_are_made_of_right_ones() -> None:
    rows, sizes = pd.DataFrame({"a": [0, 0, 1], "b": [3, 1, 3]}), {"a": 2, "b": 4}
    made = {name: make(rows, sizes, 0) for name, make in tilt_splits.WRONG.items()}
    assert made["reversed"].to_dict("list") == {"a": [1, 1, 0], "b": [0, 2, 0]}
    for name, size in sizes.items():
        assert sorted(made["shuffled"][name]) == sorted(rows[name])
        assert made["uniform"][name].between(0, size - 1).all()


def test_a_draw_leaves_the_other_rows_to_be_private() -> None:
    table = pd.DataFrame({"a": range(9)})
    private, public = tilt_splits.drawn(table, np.array([1.0] * 4 + [0.0] * 5), 3, 0)
    assert set(public["a"]) < set(range(4))
    assert sorted([*private["a"], *public["a"]]) == [*range(9)]


def test_a_ratio_is_to_the_least_of_all_others() -> None:
    def of(mechanism: str, epsilon: float, *errors: float) -> list[dict[str, Any]]:
        known = {"split": "small", "mechanism": mechanism, "epsilon": epsilon}
        return [row(0, **known, searched_error_mean=error) for error in errors]

    public = row(0, split="small", mechanism="public_table", kind="baseline", error_mean=0.3)
    made = [*of("tilt", 1.0, 0.1, 0.3), *of("aim", 1.0, 0.25), *of("jam_pgm", 1.0, 0.4)]
    made += [*of("tilt", 0.1, 0.4), *of("aim", 0.1, 0.8), public]
    low, high = tilt_ratio.ratios(pd.DataFrame(made)).to_dict("records")
    assert (low["other"], low["ratio"]) == ("public_table", pytest.approx(0.4 / 0.3))
    assert (high["other"], high["ratio"]) == ("AIM", pytest.approx(0.8))
