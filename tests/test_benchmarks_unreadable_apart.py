"""The benchmark of cells for unreadable values: which attributes have one, and what is compared."""

from __future__ import annotations

import pandas as pd
import pytest

from benchmarks import unreadable_apart

ENTRIES = {
    "kg": {"edges": [0, 50, 100], "nullable": True, "unreadable": "apart"},
    "sex": {"values": ["f", "m"], "nullable": True, "unreadable": "missing"},
    "club": {"values": ["A", "rest"], "other": "rest", "nullable": True},
}


@pytest.mark.parametrize(
    ("kind", "apart"),
    [("none", []), ("numbers", ["kg"]), ("categories", ["sex"]), ("all", ["kg", "sex"])],
)
def test_a_kind_of_attributes_has_the_cell(kind: str, apart: list[str]) -> None:
    made = unreadable_apart.with_cells({"attributes": ENTRIES}, kind)["attributes"]
    assert [name for name, one in made.items() if one.get("unreadable") == "apart"] == apart
    assert made["club"] == ENTRIES["club"]


def test_a_row_has_the_difference_by_the_same_seeds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = pd.DataFrame({"kg": [10.5, 60.5, 70.25] * 40, "sex": ["f", "m", "f", "f"] * 30})
    monkeypatch.setattr(unreadable_apart, "tables_of", lambda name: (rows, rows))
    monkeypatch.setattr(
        unreadable_apart,
        "run_trial",
        lambda run, split: {"error_mean": run.seed + 0.1 * (sum(split.domain.shape))},
    )
    unreadable_apart.main(
        ["--table", "x", "--mechanism", "tilt", "--seeds", "3", "--apart", "none", "all"]
    )
    *_, none, every = capsys.readouterr().out.splitlines()
    assert none.startswith("| x | 120 | tilt | 1 | none | 0 |")
    assert every.startswith("| x | 120 | tilt | 1 | all | 2 |")
    assert every.endswith("| +0.2000 | 0.0000 |")
