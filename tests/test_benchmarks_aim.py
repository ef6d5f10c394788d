"""The benchmarks of what AIM brings besides its table, on tables that take no time."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import aim_bounds, structural_zeros
from benchmarks.splits import load_split
from jam_dagster.errors import InputError

pytestmark = pytest.mark.slow

SIZES = {
    "education": 3,
    "education-num": 3,
    "marital-status": 7,
    "relationship": 6,
    "capital-gain": 3,
    "capital-loss": 2,
}


def rows(records: int, seed: int) -> pd.DataFrame:
    """Return records in which the three relations of Adult hold."""
    rng = np.random.default_rng(seed)
    education = np.r_[0, 1, 2, rng.integers(0, 3, records - 3)]
    marital = rng.integers(0, 7, records)
    spouse = np.isin(marital, (0, 6)) & (rng.random(records) < 0.8)
    relationship = np.where(spouse, 2 * rng.integers(0, 2, records), 1)
    gain = rng.integers(0, 3, records)
    loss = np.where(gain > 0, 0, rng.integers(0, 2, records))
    columns = (education, 2 - education, marital, relationship, gain, loss)
    return pd.DataFrame(dict(zip(SIZES, columns, strict=True)))


@pytest.fixture
def split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    folder = tmp_path / "paper" / "tiny"
    folder.mkdir(parents=True)
    (folder / "domain.json").write_text(json.dumps(SIZES))
    for name, records in (("priv", 400), ("pub", 100)):
        rows(records, records).to_csv(folder / f"{name}.csv", index=False)
    monkeypatch.setenv("JAM_DATA", str(tmp_path))
    return "tiny"


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_bounds_are_told_by_kind(split: str, capsys: pytest.CaptureFixture[str]) -> None:
    aim_bounds.main(["--split", split, "--epsilon", "1", "--seeds", "2"])
    heading, _, *lines = map(cells, capsys.readouterr().out.splitlines())
    rows = [dict(zip(heading, line, strict=True)) for line in lines]
    assert {one["kind"] for one in rows} <= {"supported", "unsupported", "none"}
    # Two runs of 6 attributes, 15 pairs and 20 triples.
    assert sum(int(one["marginals"]) for one in rows) == 2 * (6 + 15 + 20)
    assert all(float(one["ratio"]) >= 1 for one in rows)
    assert all(float(one["held"].rstrip("%")) >= 95 for one in rows)


def test_zeros_are_those_of_the_relations(split: str) -> None:
    tied = structural_zeros.constrained(load_split(split))
    masks = tied.domain.impossible_masks()
    assert masks["education", "education-num"].tolist() == [
        [True, True, False],
        [True, False, True],
        [False, True, True],
    ]
    spouses = masks["marital-status", "relationship"]
    assert np.flatnonzero(spouses.any(axis=0)).tolist() == [0, 2]
    assert np.flatnonzero(spouses.any(axis=1)).tolist() == [1, 2, 3, 4, 5]
    assert masks["capital-gain", "capital-loss"].tolist() == [
        [False, False],
        [False, True],
        [False, True],
    ]


def test_tables_that_break_a_relation_are_refused(split: str, tmp_path: Path) -> None:
    path = tmp_path / "paper" / split / "priv.csv"
    broken = rows(400, 400)
    broken.loc[0, ["capital-gain", "capital-loss"]] = 1
    broken.to_csv(path, index=False)
    with pytest.raises(InputError, match="capital-gain"):
        structural_zeros.constrained(load_split(split))


def test_errors_with_and_without_zeros_are_compared(
    split: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--split", split, "--mechanism", "aim", "--epsilon", "3", "--seeds", "2"]
    structural_zeros.main(arguments)
    heading, _, line = map(cells, capsys.readouterr().out.splitlines())
    row = dict(zip(heading, line, strict=True))
    assert float(row["ratio"]) == pytest.approx(
        float(row["with"]) / float(row["without"]), abs=2e-3
    )
    assert float(row["ratio"]) < 1
