"""A split that takes no time, in a folder as the JAM authors publish theirs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

SIZES = {"a": 3, "b": 2, "c": 2, "d": 4}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with two small splits."""
    root = tmp_path / "data"
    for seed, split in enumerate(("small", "other")):
        folder = root / "paper" / split
        folder.mkdir(parents=True)
        (folder / "domain.json").write_text(json.dumps(SIZES))
        rng = np.random.default_rng(seed)
        for name, rows in (("priv", 120), ("pub", 40)):
            table = pd.DataFrame({a: rng.integers(0, size, rows) for a, size in SIZES.items()})
            table.to_csv(folder / f"{name}.csv", index=False)
    return root


GRID = """
splits: [small]
mechanisms:
  - {mechanism: jam_pgm, settings: {rounds: 2, iterations: 10}}
  - {mechanism: aim, settings: {rounds: 6, iterations: 10}}
epsilons: [1, 10]
seeds: 1
degree: 2
"""


@pytest.fixture
def grid_file(tmp_path: Path) -> Path:
    path = tmp_path / "grid.yaml"
    path.write_text(GRID)
    return path
