"""Columns, pairs, and the noise of their counts."""

from __future__ import annotations

import numpy as np
import pytest

from jam_dagster.evaluation.columns_and_pairs import CountNoise, columns_and_pairs
from jam_dagster.tables import Domain
from tests.tiers import slow


def test_pairs_that_are_too_large_are_left_out() -> None:
    domain = Domain.from_sizes({"a": 2, "b": 1_000, "c": 1_001})
    assert columns_and_pairs(domain) == [("a",), ("b",), ("c",), ("a", "b"), ("a", "c")]


@pytest.mark.parametrize("cells", [2, *slow(10, 100)])
def test_noise_alone_seldom_exceeds_the_bound(cells: int) -> None:
    """At most 5% of 2,000 true tables of 20 columns go beyond it; 2.5% more is over 5 deviations.

    Bounds at level .05 leave room: a chance below 5% is found above 7.5% with p < 1e-6.
    """
    rng = np.random.default_rng(7)
    noise = CountNoise(0.01, cells)
    apart = np.abs(0.01 * rng.standard_normal((2_000, 20, cells))).sum(axis=2).max(axis=1)
    named = np.mean(apart > noise.most(0.05 / 20))
    assert named < 0.075
    # And the bound is no idle one: four in ten are named at a level of one.
    assert np.mean(apart > noise.mean) > 0.4
