"""A value of one person is published with no larger probability than the delta that was paid."""

from __future__ import annotations

import math

import numpy as np
import pytest

from jam_dagster.errors import SpecificationError
from jam_dagster.privacy import Neighbours
from jam_dagster.privacy.noise.exact import ExactNoise, _thresholding
from jam_dagster.privacy.noise.seeded import SeededNoise
from jam_dagster.privacy.noise.thresholds import least_threshold, selection_delta, tail

RELATIONS = [Neighbours(), Neighbours("add_remove"), Neighbours("add_remove", 3)]


@pytest.mark.parametrize("sigma", [0.3, 1.0, 2.7, 40.0])
@pytest.mark.parametrize("least", [1, 2, 7, 100])
def test_the_tail_is_bounded_from_above(sigma: float, least: int) -> None:
    # The sum over all whole numbers, by brute force.
    numbers = np.arange(-4000, 4001)
    weights = np.exp(-((numbers / sigma) ** 2) / 2.0)
    exact = weights[numbers >= least].sum() / weights.sum()
    assert sigma < 1.0 or tail(sigma, least) <= exact * (1.0 + 1e-8) + 1e-300
    assert exact <= tail(sigma, least)


@pytest.mark.parametrize("neighbours", RELATIONS, ids=lambda one: one.describe())
@pytest.mark.parametrize("delta", [1e-3, 1e-10])
def test_a_threshold_is_worth_its_delta(neighbours: Neighbours, delta: float) -> None:
    moved = neighbours.values_of_one, neighbours.max_rows
    for sigma in (0.5, 6.0, 300.0):
        threshold = least_threshold(sigma, delta, *moved)
        assert selection_delta(sigma, threshold, *moved) <= delta
        assert selection_delta(sigma, threshold - 1, *moved) > delta
        # OpenDP's map, which rounds upward, says the same but for a percent or so.
        _, theirs = _thresholding(sigma, threshold).map(
            (moved[0], neighbours.marginal_l2, float(moved[1]))
        )
        assert theirs <= 1.2 * delta + 1e-300


@pytest.mark.parametrize("neighbours", RELATIONS, ids=lambda one: one.describe())
def test_a_draw_costs_what_it_says(neighbours: Neighbours) -> None:
    moved = neighbours.values_of_one, neighbours.max_rows
    counts = np.array([1, 1, 5_000, 7_000, 1], dtype=np.int64)
    for noise in (ExactNoise(), SeededNoise(0)):
        chosen, noisy, sigma, threshold = noise.select_values(
            counts, neighbours.marginal_l2, 1e-3, 1e-9, *moved, "domain/1"
        )
        assert chosen.tolist() == [2, 3]
        assert (noisy >= threshold).all()
        assert abs(noisy - counts[chosen]).max() < 8 * sigma
        assert selection_delta(sigma, threshold, *moved) <= 1e-9
        empty = noise.select_values(counts[:0], 1.0, 1e-3, 1e-9, *moved, "domain/2")
        assert not len(empty[0])
    made = _thresholding(sigma, threshold)
    rho, _ = made.map((moved[0], neighbours.marginal_l2, float(moved[1])))
    assert rho <= 1e-3 * (1 + 1e-12)


def test_a_value_of_one_person_is_published_as_often_as_the_bound_says() -> None:
    """2,000 values of one person each, at a delta that shows; the bound for one is attained.

    The number of published ones is binomial: seven standard deviations are exceeded with a
    probability below 1e-10.
    """
    rows, delta, sigma = 2_000, 0.02, 5.0
    rho = 1.0 / (2.0 * sigma**2)
    counts = np.ones(rows, dtype=np.int64)
    for noise in (ExactNoise(), SeededNoise(1)):
        chosen, _, scale, threshold = noise.select_values(counts, 1.0, rho, delta, 1, 1, "domain/1")
        expected = rows * tail(scale, threshold - 1)
        assert expected <= rows * delta
        assert abs(len(chosen) - expected) < 7.0 * math.sqrt(expected)


@pytest.mark.parametrize(
    ("delta", "values", "rows"), [(0.0, 1, 1), (1.0, 1, 1), (math.nan, 1, 1), (0.1, 0, 1)]
)
def test_what_makes_no_selection_is_refused(delta: float, values: int, rows: int) -> None:
    counts = np.array([3], dtype=np.int64)
    for noise in (ExactNoise(), SeededNoise(0)):
        with pytest.raises(SpecificationError, match="needs a delta"):
            noise.select_values(counts, 1.0, 1e-3, delta, values, rows, "domain/1")
