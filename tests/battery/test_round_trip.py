"""Floating-point noise betrays its input: outputs possible from one value are not from another.

From x the sampler can only give ``fl(x + z)``. An output y that is no ``fl(x + z)`` for any z was
made from another input, whatever epsilon was paid. Of NumPy's Gaussian around 0 two fifths are
impossible from 1. Of exact noise, nothing is.
"""

from __future__ import annotations

import numpy as np
import pytest

from jam_dagster.privacy import ExactNoise, Noise, SeededNoise


def around(noise: Noise, value: float, size: int = 4000) -> np.ndarray:
    return noise.gaussian_values(np.full(size, value), 1.0, 0.5, "step")[0]


def impossible_from_one(outputs: np.ndarray) -> np.ndarray:
    """Tell which outputs are no float sum of 1 and any float."""
    needed = outputs - 1.0
    # The float nearest to what is needed and its neighbours: no other could round to the output.
    reached = [
        1.0 + z for z in (np.nextafter(needed, -np.inf), needed, np.nextafter(needed, np.inf))
    ]
    return ~np.any([outputs == one for one in reached], axis=0)


def test_float_noise_around_zero_gives_itself_away() -> None:
    noise = SeededNoise(11)
    assert 0.38 < impossible_from_one(around(noise, 0.0)).mean() < 0.48
    # The search for what is impossible accuses nobody wrongly.
    assert not impossible_from_one(around(noise, 1.0)).any()


def test_exact_noise_around_one_gives_what_float_noise_could_not() -> None:
    """About a fifth of 4,000 is expected; an eighth or less has a chance below 1e-25."""
    assert impossible_from_one(around(ExactNoise(), 1.0)).mean() > 0.12


@pytest.mark.parametrize("rho", [1e-4, 0.5, 40.0])
def test_counts_stay_whole_so_every_output_is_possible(rho: float) -> None:
    for noise in (ExactNoise(), SeededNoise(1)):
        noisy, _ = noise.gaussian_counts(np.array([0, 2**40, -3]), 1.0, rho, "step")
        assert noisy.dtype == np.int64
