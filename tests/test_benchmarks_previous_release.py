"""The study of releases that are drawn on each other, in small."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from benchmarks.previous_release import (
    Series,
    main,
    private_table,
    summarize,
)

SMALL = ["--partitions", "2", "--rows", "500", "--rounds", "2", "--seeds", "1", "--epsilon", "1"]


def moved(drift: str, index: int) -> float:
    """How far the ages of a partition are from those of the first."""
    series = Series("afresh", drift, 1.0, 0, 6, 20_000, 2)
    first, later = (private_table(series, one).marginal(("age",)) / 20_000 for one in (0, index))
    return float(abs(first - later).sum())


@pytest.mark.slow
def test_a_study_goes_on_where_it_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, plot = tmp_path / "runs.csv", tmp_path / "plot.svg"
    command = [*SMALL, "--drift", "slow", "--out", str(out)]
    assert main([*command, "--strategy", "afresh", "previous"]) == 0
    held = pd.read_csv(out)
    assert len(held) == 4
    # In the first partition both have the given table.
    first, later = (held[held["partition"] == one]["public"].to_list() for one in (1, 2))
    assert first[0] == first[1]
    assert later[0] != later[1]
    every = ["--strategy", "afresh", "previous", "mixed-0.5", "private", "--plot", str(plot)]
    capsys.readouterr()
    assert main([*command, *every]) == 0
    assert "afresh     drift" not in capsys.readouterr().out
    assert len(pd.read_csv(out)) == 8
    assert plot.read_text().startswith("<svg")


def test_means_are_of_later_partitions_and_differences_of_the_same_seed() -> None:
    errors = {("afresh", 0): (9, 0.2, 0.4), ("afresh", 1): (9, 0.4, 0.6)}
    errors |= {("previous", 0): (9, 0.1, 0.3), ("previous", 1): (9, 0.2, 0.2)}
    runs = pd.DataFrame(
        [
            {
                "first": "survey",
                "drift": "none",
                "epsilon": 1.0,
                "strategy": strategy,
                "seed": seed,
                "partition": place + 1,
                "error": error,
                "private_picks": 1,
            }
            for (strategy, seed), found in errors.items()
            for place, error in enumerate(found)
        ]
    )
    found = summarize(runs).set_index("strategy")
    assert found.loc["afresh", "mean error"] == pytest.approx(0.4)
    assert found.loc["previous", "against afresh"] == pytest.approx((-0.1 - 0.3) / 2)
    assert found.loc["previous", "se of that"] == pytest.approx(0.1)
    assert found.loc["previous", "last partition"] == pytest.approx(0.25)
