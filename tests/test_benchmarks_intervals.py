"""The benchmark of intervals and of the test of independence, on few runs."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from benchmarks import intervals

pytestmark = pytest.mark.slow

COLUMNS = ["study", "mechanism", "epsilon", "seed", "kind", "answers", "held", "seconds"]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "rows.parquet"


def made(out: Path, *given: str) -> pd.DataFrame:
    assert intervals.main([*given, "--out", str(out)]) == 0
    found = pd.read_parquet(out)
    assert list(found) == COLUMNS
    return found


def test_runs_that_the_file_has_are_not_repeated(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = made(out, "--study", "small", "--mechanism", "jam_pgm", "--runs", "2")
    again = made(out, "--study", "small", "--mechanism", "jam_pgm", "--runs", "3")
    assert again[: len(first)].equals(first)
    assert set(again["seed"]) == {0, 1, 2}
    parts = again.groupby("kind")["answers"].sum()
    assert parts["measured"] == parts.filter(like="measured ").sum() == parts["population"]
    assert "measured once" in capsys.readouterr().out


def test_a_named_pair_is_tested_in_each_run(out: Path) -> None:
    found = made(out, "--study", "null", "--mechanism", "gaussian", "--runs", "4")
    assert found["kind"].tolist() == ["all", "measured"] * 4
    assert (found["answers"] == 1).all()


def test_the_bootstrap_answers_what_was_not_measured(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intervals, "REFITS", 3)
    found = made(out, "--study", "bootstrap", "--runs", "1")
    assert found["kind"].tolist() == ["bootstrap"]
    assert found["answers"].sum() > 0


def test_a_share_has_the_standard_error_of_its_runs() -> None:
    rows = [("small", "aim", 1.0, seed, "bound", 10, held, 0.1) for seed, held in enumerate((4, 8))]
    (said,) = intervals.summarize(pd.DataFrame(rows, columns=COLUMNS)).to_dict("records")
    assert (said["answers"], said["runs"], said["share"]) == (20, 2, 0.6)
    assert said["se"] == pytest.approx(8**0.5 / 20)
