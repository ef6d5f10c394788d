"""The authors' setting of FEM, on rows that take no time."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from benchmarks.fem_adult import BINS, SAME, adult, lines, workload


def rows(records: int = 300) -> pd.DataFrame:
    """Return random rows, with two values in all columns but those that have bins."""
    rng = np.random.default_rng(0)
    names = [*BINS, SAME, *(f"other {number}" for number in range(9))]
    sizes = [1000 if name in BINS else 2 for name in names]
    return pd.DataFrame(
        {n: rng.integers(size, size=records) for n, size in zip(names, sizes, strict=True)}
    )


def test_the_table_and_the_workload_are_the_authors() -> None:
    table = adult(rows())
    assert len(table.domain.names) == 14
    assert {name: table.domain.sizes[name] for name in BINS} == BINS
    asked = workload(table)
    assert len(asked.cliques) == 64
    assert max(table.domain.size(clique) for clique in asked.cliques) <= 300


@pytest.mark.slow
def test_a_run_is_a_line() -> None:
    _, _, line = lines(adult(rows()), ["3,2,1,1"])
    rounds, *_, rho, mean, most = (float(cell) for cell in line.strip("| ").split("|"))
    assert rounds == 3
    # Two choices of (0.008 48,842 / 300)^2 / 8 each.
    assert rho == pytest.approx(2 * (0.008 * 48_842 / 300) ** 2 / 8, rel=0.05)
    assert 0.0 < most <= mean <= 2.0
