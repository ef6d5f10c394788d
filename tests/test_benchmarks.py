"""The benchmark of errors and the comparison of its files, on a split that takes no time."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import error_study, jam_pgm
from benchmarks.error_study import compare
from benchmarks.jam_pgm import RESULTS, Run, append_run, main, summarize
from jam_dagster.errors import InputError

QUICK = ("--rounds", "2", "--iterations", "10", "--degree", "2", "--seeds", "2")


@pytest.fixture
def splits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Point JAM_DATA at a folder with two small splits."""
    sizes = {"a": 3, "b": 2, "c": 2}
    for seed, split in enumerate(("small", "other")):
        folder = tmp_path / "paper" / split
        folder.mkdir(parents=True)
        (folder / "domain.json").write_text(json.dumps(sizes))
        rng = np.random.default_rng(seed)
        for name, rows in (("priv", 120), ("pub", 40)):
            table = pd.DataFrame({a: rng.integers(0, size, rows) for a, size in sizes.items()})
            table.to_csv(folder / f"{name}.csv", index=False)
    monkeypatch.setenv("JAM_DATA", str(tmp_path))
    jam_pgm._split.cache_clear()
    return tmp_path


def test_it_reports_every_run_and_a_row_an_epsilon(
    splits: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = splits / "runs.csv"

    status = main(["--split", "small", "--epsilon", "1", "10", *QUICK, "--out", str(runs)])

    assert status == 0
    frame = pd.read_csv(runs)
    assert frame["epsilon"].tolist() == [1, 1, 10, 10]
    assert frame["seed"].tolist() == [0, 1, 0, 1]
    assert (frame["private_picks"] + frame["public_picks"] == 2).all()
    assert frame["error"].between(0, 2).all()
    assert len(set(frame["public"])) == 1
    printed = capsys.readouterr().out
    assert "epsilon 10, seed 1: error" in printed
    assert "public error" in printed


def test_a_seed_repeats(splits: Path) -> None:
    for name in ("one.csv", "two.csv"):
        main(["--split", "small", "--epsilon", "1", *QUICK, "--out", str(splits / name)])

    one, two = (
        pd.read_csv(splits / name).drop(columns="seconds") for name in ("one.csv", "two.csv")
    )
    pd.testing.assert_frame_equal(one, two)


def test_runs_that_are_there_are_not_made_again(
    splits: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--split", "small", "--epsilon", "1", *QUICK, "--out", str(splits / "runs.csv")]
    main(given)
    first = (splits / "runs.csv").read_text()
    capsys.readouterr()

    main([*given, "--split", "small", "other", "--first-seed", "1"])

    printed = capsys.readouterr().out
    assert "1 of 4 runs are in" in printed
    assert "small, epsilon 1, seed 1" not in printed
    # What is there counts in the table.
    assert printed.splitlines()[-2].split()[:3] == ["small", "1.0", "2"]
    assert (splits / "runs.csv").read_text().startswith(first)
    frame = pd.read_csv(splits / "runs.csv")
    assert list(zip(frame["split"], frame["seed"], strict=True)) == [
        ("small", 0),
        ("small", 1),
        ("small", 2),
        ("other", 1),
        ("other", 2),
    ]


@pytest.mark.parametrize(
    "other",
    [
        ("--estimator", "mirror_descent"),
        ("--iterations", "9"),
        ("--tolerance", "0.5"),
        ("--size-limit-mb", "40"),
        ("--all-private",),
    ],
)
def test_another_setting_is_another_run(splits: Path, other: tuple[str, ...]) -> None:
    given = ["--split", "small", "--epsilon", "1", *QUICK, "--out", str(splits / "runs.csv")]

    main(given)
    main([*given, *other])

    assert len(pd.read_csv(splits / "runs.csv")) == 4


def test_one_public_record_is_not_chosen(splits: Path) -> None:
    # With so much budget the selection all but maximizes its score.
    given = ["--split", "small", "--epsilon", "100", *QUICK, "--out", str(splits / "runs.csv")]

    main([*given, "--all-private"])

    frame = pd.read_csv(splits / "runs.csv")
    assert (frame["public_picks"] == 0).all()
    # The public table's error is still that of the table that was published.
    main([*given, "--epsilon", "1"])
    assert len(set(pd.read_csv(splits / "runs.csv")["public"])) == 1


@pytest.mark.slow
def test_processes_side_by_side_come_to_the_same(splits: Path) -> None:
    given = ["--split", "small", "--epsilon", "1", *QUICK]
    main([*given, "--out", str(splits / "one.csv")])
    main([*given, "--jobs", "2", "--out", str(splits / "two.csv")])

    one, two = (
        pd.read_csv(splits / name).drop(columns="seconds").sort_values("seed", ignore_index=True)
        for name in ("one.csv", "two.csv")
    )
    pd.testing.assert_frame_equal(one, two)


def test_another_file_is_not_written_to(splits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = splits / "mine.csv"
    out.write_text("name,age\nAda,36\n")

    assert main(["--split", "small", *QUICK, "--out", str(out)]) == 2
    assert "--out" in capsys.readouterr().err
    assert out.read_text() == "name,age\nAda,36\n"


def test_the_standard_error_is_that_of_the_mean() -> None:
    names = ("model", "public", "private_picks", "public_picks", "seconds")
    runs = pd.DataFrame(
        {"split": "s", "epsilon": 1.0, "error": [0.1, 0.2, 0.3], **dict.fromkeys(names, 0.0)}
    )

    (row,) = summarize(runs).to_dict("records")

    assert row["mean error"] == pytest.approx(0.2)
    assert row["se"] == pytest.approx(0.1 / 3**0.5)
    assert row["seeds"] == 3


def test_without_the_data_it_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("JAM_DATA", raising=False)
    jam_pgm._split.cache_clear()

    assert main(["--split", "titanic"]) == 2
    assert "JAM_DATA is not set" in capsys.readouterr().err


def test_an_unknown_split_is_told_which_are_there(
    splits: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--split", "titanic"]) == 2
    assert "it holds other, small" in capsys.readouterr().err


# --- the comparison


def write_runs(
    path: Path,
    errors: dict[int, float],
    *,
    epsilon: float = 1.0,
    rounds: int = 30,
    tolerance: float = 0.1,
) -> Path:
    for seed, error in errors.items():
        run = Run(
            "small",
            epsilon,
            seed,
            1e-9,
            3,
            rounds,
            80.0,
            "accelerated",
            1000,
            tolerance,
            all_private=False,
        )
        append_run(path, run, {**dict.fromkeys(RESULTS, 1.0), "error": error})
    return path


def compared(first: Path, second: Path) -> dict[str, object]:
    (row,) = compare(error_study.read(first), error_study.read(second)).to_dict("records")
    return {str(name): value for name, value in row.items()}


def test_a_difference_is_told_in_standard_errors(tmp_path: Path) -> None:
    first = write_runs(tmp_path / "a.csv", {1: 0.30, 2: 0.40, 3: 0.50})
    second = write_runs(tmp_path / "b.csv", {1: 0.10, 2: 0.22, 3: 0.28}, tolerance=0.0)

    row = compared(first, second)

    assert row["first"] == pytest.approx(0.4)
    assert row["second"] == pytest.approx(0.2)
    assert row["se"] == pytest.approx(0.1 / 3**0.5)
    assert row["difference"] == pytest.approx(0.2)
    # Variances 0.01 and 0.0084 of one run; the differences are 0.20, 0.18 and 0.22.
    assert row["unpaired"] == pytest.approx(0.2 / ((0.01 + 0.0084) / 3) ** 0.5)
    assert row["paired_difference"] == pytest.approx(0.2)
    assert row["paired"] == pytest.approx(0.2 / (0.02 / 3**0.5))
    assert row["not_worse"] is False


def test_seeds_that_one_file_lacks_are_not_paired(tmp_path: Path) -> None:
    first = write_runs(tmp_path / "a.csv", {1: 0.3, 2: 0.4})
    second = write_runs(tmp_path / "b.csv", {2: 0.5, 3: 0.7, 4: 0.9})

    row = compared(first, second)

    assert row["seeds"] == "2, 3"
    assert row["pairs"] == 1
    assert row["paired_difference"] == pytest.approx(-0.1)
    assert np.isnan(row["paired"])  # type: ignore[call-overload]
    assert row["not_worse"] is True


def test_one_seed_decides_nothing(tmp_path: Path) -> None:
    row = compared(
        write_runs(tmp_path / "a.csv", {1: 0.3}), write_runs(tmp_path / "b.csv", {1: 0.9})
    )

    assert row["not_worse"] is None


def test_only_the_same_experiment_is_compared(tmp_path: Path) -> None:
    first = write_runs(tmp_path / "a.csv", {1: 0.3, 2: 0.4})

    with pytest.raises(InputError, match=r"differ in rounds \(20, 30\)"):
        compared(first, write_runs(tmp_path / "b.csv", {1: 0.3, 2: 0.4}, rounds=20))
    with pytest.raises(InputError, match="in common"):
        compared(first, write_runs(tmp_path / "c.csv", {1: 0.3, 2: 0.4}, epsilon=10.0))


def test_a_file_holds_one_setting(tmp_path: Path) -> None:
    path = write_runs(tmp_path / "a.csv", {1: 0.3, 2: 0.4})
    write_runs(path, {2: 0.5}, tolerance=0.0)

    with pytest.raises(InputError, match="seed 2 of small at epsilon 1 more than once"):
        error_study.read(path)


def test_the_comparison_is_printed_and_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = write_runs(tmp_path / "a.csv", {1: 0.3, 2: 0.4})
    second = write_runs(tmp_path / "b.csv", {1: 0.5, 2: 0.7}, tolerance=0.0)
    out = tmp_path / "table.csv"

    assert error_study.main([str(first), str(second), "--out", str(out)]) == 0

    printed = capsys.readouterr().out
    assert "first: estimator accelerated, iterations 1000, tolerance 0.1; seeds 1 to 2" in printed
    assert pd.read_csv(out)["difference"].item() == pytest.approx(-0.25)


def test_a_file_that_is_not_there_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    absent = str(tmp_path / "absent.csv")

    assert error_study.main([absent, absent]) == 2
    assert "benchmarks.jam_pgm --out" in capsys.readouterr().err
