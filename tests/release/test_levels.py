"""Levels that a public categorical column declares come out of a release, in their order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import jam_dagster as jam
from tests.tiers import slow

GRADES = ["low", "mid", "high", "very high"]
CODES = [30, 10, 20, 99]
EDGES = [17, 30, 50, 70, 90]
BANDS = ["(17, 30]", "(30, 50]", "(50, 70]", "(70, 90]"]


def people(rows: int, seed: int) -> pd.DataFrame:
    """Return a table whose cells lack the last level of each column but of `band`."""
    rng = np.random.default_rng(seed)
    grade = pd.Categorical.from_codes(rng.integers(0, 3, rows), categories=GRADES, ordered=True)
    code = pd.Categorical.from_codes(rng.integers(0, 3, rows), categories=CODES)
    band = pd.cut(pd.Series(rng.integers(18, 90, rows)), EDGES)
    return pd.DataFrame({"grade": grade, "code": code, "band": band})


def private() -> pd.DataFrame:
    table = people(2000, seed=0)
    table.loc[:499, "grade"], table.loc[:499, "code"] = GRADES[-1], CODES[-1]
    return table


def released(folder: Path, private: Any, public: Any) -> jam.FrameRelease:
    return jam.synthesize(
        private,
        public,
        epsilon=10.0,
        degree=1,
        mechanism="independent",
        noise="numpy",
        checks=True,
        folder=folder / "out",
    )


def test_levels_of_a_table_in_memory_keep_order_and_type(tmp_path: Path) -> None:
    made = released(tmp_path, private(), people(500, seed=1))
    assert made.table["grade"].dtype == pd.CategoricalDtype(GRADES, ordered=True)
    assert made.table["code"].cat.categories.tolist() == CODES
    # Intervals come out as their texts.
    assert made.table["band"].dtype == pd.CategoricalDtype(BANDS, ordered=True)
    assert made.verdict.failed == 0
    # No public row has the last level, and a quarter of the private ones has.
    for name, last in (("grade", GRADES[-1]), ("code", CODES[-1])):
        assert (made.table[name] == last).mean() == pytest.approx(0.25, abs=0.03)
    assert made.table.notna().mean().min() > 0.97
    csv = pd.read_csv(tmp_path / "out" / "synthetic.csv", dtype=str)
    assert set(csv["code"].dropna()) == set(map(str, CODES))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*slow("csv"), "parquet"])
def test_levels_of_texts_keep_order_in_files(tmp_path: Path, kind: str) -> None:
    table = private().drop(columns="band")
    path = tmp_path / f"private.{kind}"
    table.to_csv(path, index=False) if kind == "csv" else table.to_parquet(path, index=False)
    public = tmp_path / "public.parquet"
    people(500, seed=1).drop(columns="band").to_parquet(public, index=False)
    made = released(tmp_path, str(path), str(public))
    assert made.table["grade"].dtype == pd.CategoricalDtype(GRADES, ordered=True)
    assert (made.table["grade"] == GRADES[-1]).mean() == pytest.approx(0.25, abs=0.03)
    # A Parquet file has no levels of integers, which stay integers.
    assert made.table["code"].dtype == "Int64"
