"""What uncertainty bounds are made of: by hand, below the paper's, and against drawn noise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from jam_dagster.evaluation.bounds.error_bounds import aligned_noise, chosen_score, summed_noise

FAILURE = 0.05


def test_by_hand():
    # exp(-2^2 / 2) is what lambda_1 = 2 leaves; 3 sqrt(25) times 2.
    assert aligned_noise(25, 3.0, math.exp(-2)) == pytest.approx(30)
    # 2 * 4 / 2 (log 10 + 3).
    assert chosen_score(10, 4.0, 2.0, math.exp(-3)) == pytest.approx(4 * (math.log(10) + 3))


@pytest.mark.parametrize("cells", [1, 2, 6, 100, 20_000])
def test_one_measurement_is_bounded_below_the_paper(cells):
    # The budget could buy no more than this one, and its half of the interval costs log 2.
    failure, sigma = 2 * FAILURE, 3.0
    found = summed_noise(cells, 1 / sigma**2, math.sqrt(2) / sigma**2, failure)
    surprise = math.log(1 / FAILURE)
    paper = math.sqrt(2 * math.log(2)) * sigma * cells + sigma * math.sqrt(2 * cells * surprise)
    assert found < paper
    # arccosh(exp(x)) <= x + log 2, the least of which over t is this.
    plain = sigma * math.sqrt(2 * cells * (cells * math.log(2) + surprise))
    assert found <= plain * 1.001
    # And it is no less than the mean of what it bounds.
    assert found > math.sqrt(2 / math.pi) * sigma * cells


def test_one_cell_by_hand():
    # With t = 2 / sigma: sigma / 2 arccosh(exp(2 + log 40)), and others are not better by much.
    by_hand = math.acosh(math.exp(2 + math.log(40))) / 2
    found = summed_noise(1, 1.0, math.sqrt(2), FAILURE)
    assert 0.9 * by_hand < found <= by_hand


@pytest.mark.slow
def test_what_depends_on_earlier_noise_is_bounded_too():
    """Whoever goes on measuring as long as the noise is small exceeds the bound no more often."""
    rng = np.random.default_rng(5)
    cells, runs, most = 4, 4000, 64.0
    exceeded = 0
    for _ in range(runs):
        noise, precision = np.zeros(cells), 0.0
        while precision < most:
            noise += rng.normal(0, 1, cells)
            precision += 1.0
            if np.abs(noise).sum() / precision > 1.6 * cells / math.sqrt(precision):
                break
        exceeded += np.abs(noise).sum() / precision > summed_noise(cells, precision, most, FAILURE)
    # At most 200 are expected; 70 more are five standard deviations.
    assert exceeded < 270


@pytest.mark.parametrize("cells", [1, 5, 60])
def test_noise_exceeds_the_bound_as_rarely_as_it_says(cells):
    rng = np.random.default_rng(3)
    drawn = np.abs(rng.normal(0, 1, (20_000, cells))).sum(axis=1)
    bound = summed_noise(cells, 1.0, math.sqrt(2), 2 * FAILURE)
    # Expected at most 1,000 of 20,000 times, within five standard deviations.
    assert (drawn > bound).sum() < 1_155
    # It is a bound, and no more than that: about a half above what would do.
    assert bound < 1.6 * np.quantile(drawn, 1 - FAILURE)


def test_an_exponent_too_large_for_a_float_is_none():
    assert math.isfinite(summed_noise(1, 1e-9, 1e9, 1e-300))
