"""The benchmark command, on a split that takes no time."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.jam_pgm import main, summarize

QUICK = ("--rounds", "2", "--iterations", "10", "--degree", "2", "--seeds", "2")


@pytest.fixture
def splits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Point JAM_DATA at a folder with one small split."""
    sizes = {"a": 3, "b": 2, "c": 2}
    folder = tmp_path / "paper" / "small"
    folder.mkdir(parents=True)
    (folder / "domain.json").write_text(json.dumps(sizes))
    rng = np.random.default_rng(0)
    for name, rows in (("priv", 120), ("pub", 40)):
        table = pd.DataFrame({a: rng.integers(0, size, rows) for a, size in sizes.items()})
        table.to_csv(folder / f"{name}.csv", index=False)
    monkeypatch.setenv("JAM_DATA", str(tmp_path))
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


def test_the_standard_error_is_that_of_the_mean() -> None:
    names = ("model", "public", "private_picks", "public_picks", "seconds")
    runs = pd.DataFrame({"epsilon": 1.0, "error": [0.1, 0.2, 0.3], **dict.fromkeys(names, 0.0)})

    (row,) = summarize(runs).to_dict("records")

    assert row["mean error"] == pytest.approx(0.2)
    assert row["se"] == pytest.approx(0.1 / 3**0.5)
    assert row["seeds"] == 3


def test_without_the_data_it_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("JAM_DATA", raising=False)

    assert main(["--split", "titanic"]) == 2
    assert "JAM_DATA is not set" in capsys.readouterr().err


def test_an_unknown_split_is_told_which_are_there(
    splits: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--split", "titanic"]) == 2
    assert "it holds small" in capsys.readouterr().err
