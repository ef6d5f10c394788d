"""Errors of cells by hand."""

from __future__ import annotations

import numpy as np
import pytest

from jam_dagster.benchmark.cell_errors import cell_errors
from jam_dagster.tables import Domain, EncodedTable, Workload

DOMAIN = Domain.from_sizes({"a": 2, "b": 2})


def table(*rows: tuple[int, int]) -> EncodedTable:
    return EncodedTable(DOMAIN, tuple(np.array(column) for column in zip(*rows, strict=True)))


def test_the_largest_the_mean_and_the_root_mean_square_of_all_cells() -> None:
    private = table((0, 0), (0, 0), (0, 1), (1, 1))
    # Of two records: half each in (0, 0) and (1, 0).
    other = table((0, 0), (1, 0))
    workload = Workload.of(DOMAIN, [("a",), ("a", "b")], weights=[1.0, 9.0])
    same, found = cell_errors(private, [private, other], workload)
    assert same == (0.0, 0.0, 0.0)
    # a: 3/4 1/4 against 1/2 1/2. ab: 1/2 1/4 0 1/4 against 1/2 0 1/2 0. Weights do not count.
    apart = np.array([0.25, 0.25, 0.0, 0.25, 0.5, 0.25])
    assert found.largest == 0.5
    assert found.mean == pytest.approx(apart.mean())
    assert found.rmse == pytest.approx(np.sqrt((apart**2).mean()))
