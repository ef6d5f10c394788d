"""The sample that a table is as good as: by hand, against every sample, against drawn ones."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from jam_dagster.errors import SpecificationError
from jam_dagster.evaluation import workload_error
from jam_dagster.evaluation.sample_equivalent import SampleErrors
from jam_dagster.privacy import Draws, MemoryStore, SeededNoise, UnledgeredAccount
from jam_dagster.tables import Domain, EncodedTable, Workload


def sample_of(table: EncodedTable, rows: np.ndarray) -> EncodedTable:
    return EncodedTable(table.domain, tuple(column[rows] for column in table.columns))


def error_of(table: EncodedTable, sample: EncodedTable, workload: Workload) -> float:
    errors = [
        np.abs(table.marginal(q) / table.records - sample.marginal(q) / sample.records).sum()
        for q in workload.cliques
    ]
    return float(np.average(errors, weights=workload.weights))


@pytest.fixture
def coins():
    domain = Domain.from_sizes({"a": 2})
    return EncodedTable(domain, (np.array([0, 0, 1, 1]),)), Workload.all_k_way(domain, 1)


def test_four_coins_by_hand(coins):
    sampled = SampleErrors(*coins)
    # One record errs by 1/2 in both cells. Of the six pairs two do, and four are right. Three
    # records are a third and two thirds.
    assert [sampled.expected(rows) for rows in (1, 2, 3, 4)] == pytest.approx([1, 1 / 3, 1 / 3, 0])
    assert [sampled.equivalent(e) for e in (1.1, 0.99, 0.5, 0.3, 0, -1)] == [0, 1, 1, 3, 4, 4]


def test_it_is_the_mean_over_all_samples():
    domain = Domain.from_sizes({"a": 3, "b": 2, "c": 4})
    columns = ([0, 0, 0, 1, 1, 2, 2], [0, 0, 1, 1, 0, 0, 0], [0, 1, 1, 3, 1, 1, 1])
    table = EncodedTable(domain, tuple(map(np.array, columns)))
    workload = Workload.of(domain, [("a", "b", "c"), ("b",)], weights=[1.0, 3.0])
    sampled = SampleErrors(table, workload)
    for rows in range(1, 8):
        every = [
            error_of(table, sample_of(table, np.array(chosen)), workload)
            for chosen in combinations(range(7), rows)
        ]
        assert sampled.expected(rows) == pytest.approx(np.mean(every), abs=1e-12)


def test_it_is_what_drawn_samples_err():
    rng = np.random.default_rng(8)
    domain = Domain.from_sizes({"a": 7, "b": 5, "c": 9})
    columns = tuple(np.minimum(rng.geometric(0.4, 900), size) - 1 for size in domain.shape)
    table, workload = EncodedTable(domain, columns), Workload.all_k_way(domain, 2)
    sampled = SampleErrors(table, workload)
    for rows in (30, 200):
        drawn = [
            error_of(table, sample_of(table, rng.permutation(900)[:rows]), workload)
            for _ in range(300)
        ]
        standard_error = np.std(drawn) / math.sqrt(len(drawn))
        # Five standard errors of a mean of 300: in one of a million seeds this fails.
        assert abs(np.mean(drawn) - sampled.expected(rows)) < 5 * standard_error
        assert abs(sampled.equivalent(float(np.mean(drawn))) - rows) <= 0.05 * rows


def test_counts_of_another_size_are_scaled(coins):
    table, workload = coins
    twice = SampleErrors(table, workload, records=8)
    whole = EncodedTable(table.domain, (np.array([0, 1] * 4),))
    assert twice.expected(3) == SampleErrors(whole, workload).expected(3)


@pytest.mark.parametrize("rows", [0, 5])
def test_a_sample_that_cannot_be_is_refused(coins, rows):
    with pytest.raises(SpecificationError, match="1 to 4 rows"):
        SampleErrors(*coins).expected(rows)


def test_in_private_mode_it_follows_from_what_is_released():
    rng = np.random.default_rng(2)
    domain = Domain.from_sizes({"a": 3, "b": 4})

    def table(records: int) -> EncodedTable:
        return EncodedTable(domain, tuple(rng.integers(0, s, records) for s in domain.shape))

    private, synthetic, workload = table(500), table(500), Workload.all_k_way(domain, 2)

    def measured(private: EncodedTable, rho: float = 0.5):
        draws = Draws(SeededNoise(1), UnledgeredAccount(rho), MemoryStore())
        return workload_error(
            private, synthetic, synthetic, workload, mode="private", draws=draws, records=500
        )

    found = measured(private)
    assert found.synthetic is not None
    known = SampleErrors(synthetic, workload)
    assert found.sample_equivalent == known.equivalent(found.synthetic.mean)
    ends = [known.equivalent(found.synthetic.mean + sign * found.margin) for sign in (1, -1)]
    assert found.equivalent_within == tuple(ends)
    assert ends[0] <= found.sample_equivalent <= ends[1]
    # Noise of about ten times the error.
    assert measured(private, 1e-6).sample_equivalent is None
    exact = workload_error(private, synthetic, synthetic, workload, mode="exact")
    assert exact.synthetic is not None
    assert exact.sample_equivalent == SampleErrors(private, workload).equivalent(
        exact.synthetic.mean
    )
    unread = workload_error(private, synthetic, synthetic, workload, mode="off")
    assert unread.sample_equivalent is None
