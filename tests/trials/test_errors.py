"""Errors of cells, and in sampled records, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from jam_dagster.evaluation.workload_error import table_errors
from jam_dagster.tables import Domain, EncodedTable, Workload
from jam_dagster.trials.trial import DrawnErrors, cell_errors

DOMAIN = Domain.from_sizes({"a": 2, "b": 2})


def table(*rows: tuple[int, int]) -> EncodedTable:
    return EncodedTable(DOMAIN, tuple(np.array(column) for column in zip(*rows, strict=True)))


def test_the_largest_the_mean_and_the_root_mean_square_of_all_cells() -> None:
    private = table((0, 0), (0, 0), (0, 1), (1, 1))
    # Of two records: half each in (0, 0) and (1, 0).
    other = table((0, 0), (1, 0))
    workload = Workload.of(DOMAIN, [("a",), ("a", "b")], weights=[1.0, 9.0])
    same, found = (cell_errors(private, one, workload) for one in (private, other))
    assert set(same.values()) == {0.0}
    # a: 3/4 1/4 against 1/2 1/2. ab: 1/2 1/4 0 1/4 against 1/2 0 1/2 0. Weights do not count.
    apart = np.array([0.25, 0.25, 0.0, 0.25, 0.5, 0.25])
    rmse = np.sqrt((apart**2).mean())
    assert found == pytest.approx({"cell_max": 0.5, "cell_mean": apart.mean(), "cell_rmse": rmse})


def test_a_sample_errs_by_the_mean_deviation_of_a_binomial() -> None:
    private = table((0, 0), (0, 1), (1, 0), (1, 1))
    drawn = DrawnErrors(private, Workload.of(DOMAIN, [("a",)]))
    # Two cells of share 1/2: E|X / 2 - 1/2| is 1/4 each. One record always errs by 1/2 each.
    assert drawn.expected(2) == pytest.approx(0.5)
    assert drawn.expected(1) == pytest.approx(1.0)
    # Four: |X - 2| is 2, 1, 0, 1, 2 with chances 1, 4, 6, 4, 1 of 16.
    assert drawn.expected(4) == pytest.approx(2 * 12 / 16 / 4)
    assert drawn.share(0.5) == 0.75
    assert drawn.share(0.37) == 1.25
    assert drawn.share(2.0) == 0


@pytest.mark.slow
def test_the_expected_error_is_that_of_drawn_records() -> None:
    rng = np.random.default_rng(0)
    private = EncodedTable(DOMAIN, tuple(rng.integers(0, 2, (2, 30)) * rng.integers(0, 2, (2, 30))))
    workload = Workload.of(DOMAIN, [("a", "b")])
    samples = [private.take(np.sort(rng.integers(0, 30, 7))) for _ in range(3000)]
    found = np.mean([one.mean for one in table_errors(private, samples, workload)])
    assert DrawnErrors(private, workload).expected(7) == pytest.approx(found, rel=0.02)
