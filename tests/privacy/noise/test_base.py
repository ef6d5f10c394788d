"""Both noise backends follow the laws they claim, and the tests would notice if they did not.

A goodness-of-fit test fails by chance with probability ALPHA = 1e-7. The exact backend cannot be
seeded; its tests together fail by chance less than once in a million runs. The seeded backend's
either always pass or always fail.
"""

from __future__ import annotations

import math
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from jam_dagster.errors import SpecificationError
from jam_dagster.privacy.accounting import exponential_epsilon
from jam_dagster.privacy.noise import exact as exact_noise
from jam_dagster.privacy.noise.exact import ROUNDING_SLACK, ExactNoise
from jam_dagster.privacy.noise.make import make_noise
from jam_dagster.privacy.noise.seeded import SeededNoise
from jam_dagster.privacy.sensitivity import JAM_SCORE, MARGINAL_L2
from tests.examples import examples

ALPHA = 1e-7
BACKENDS = [ExactNoise(), SeededNoise(20_261_101)]
backends = pytest.mark.parametrize("noise", BACKENDS, ids=lambda noise: noise.name)


def fit_of_cells(observed: np.ndarray, probabilities: np.ndarray) -> float:
    """Return the p-value of Pearson's test, once cells expected to be nearly empty are joined."""
    expected = probabilities * observed.sum()
    joined_observed, joined_expected = [0.0], [0.0]
    for seen, due in zip(observed, expected, strict=True):
        if joined_expected[-1] >= observed.sum() / 60:
            joined_observed.append(0.0)
            joined_expected.append(0.0)
        joined_observed[-1] += seen
        joined_expected[-1] += due
    if joined_expected[-1] < 20:
        joined_expected[-2:] = [sum(joined_expected[-2:])]
        joined_observed[-2:] = [sum(joined_observed[-2:])]
    due = np.array(joined_expected)
    return float(scipy.stats.chisquare(joined_observed, due * observed.sum() / due.sum()).pvalue)


def fit_of_discrete_gaussian(sample: np.ndarray, sigma: float) -> float:
    reach = int(12 * sigma) + 3
    support = np.arange(-reach, reach + 1)
    probabilities = np.exp(-(support**2) / (2 * sigma**2))
    probabilities /= probabilities.sum()
    assert np.abs(sample).max() <= reach  # chance of a false alarm: below 1e-30 a draw
    return fit_of_cells(np.bincount(sample + reach, minlength=support.size), probabilities)


def fit_of_gaussian(sample: np.ndarray, sigma: float) -> float:
    cells = np.floor(scipy.stats.norm.cdf(sample / sigma) * 50).astype(int)
    return fit_of_cells(np.bincount(cells, minlength=50), np.full(50, 1 / 50))


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [0.45, 3.3, 2_000.0])
@backends
def test_discrete_gaussian_noise(noise, sigma):
    truth = np.full((150, 200), 7, dtype=np.int64)
    noisy, reported = noise.gaussian_counts(truth, MARGINAL_L2, 1 / sigma**2, "step")
    assert noisy.dtype == np.int64
    assert noisy.shape == truth.shape
    assert reported == pytest.approx(sigma, rel=1e-12)
    sample = (noisy - truth).ravel()
    assert fit_of_discrete_gaussian(sample, sigma) > ALPHA
    # Power: the same draws do not pass for a scale that is wrong by 30% (chance below 1e-100).
    assert fit_of_discrete_gaussian(sample, 1.3 * sigma) < ALPHA
    assert fit_of_discrete_gaussian(sample, sigma / 1.3) < ALPHA


@pytest.mark.slow
def test_a_rounded_gaussian_would_be_noticed():
    """At a small scale, rounding a continuous Gaussian gives another law."""
    sample = np.rint(np.random.default_rng(1).normal(0, 0.6, 30_000)).astype(np.int64)
    assert fit_of_discrete_gaussian(sample, 0.6) < ALPHA


@pytest.mark.slow
@backends
def test_gaussian_noise_on_reals(noise):
    values, sensitivity, rho = np.linspace(0, 1, 20_000), 1e-3, 0.02
    noisy, sigma = noise.gaussian_values(values, sensitivity, rho, "step")
    assert noisy.dtype == np.float64
    assert sigma == pytest.approx(sensitivity / math.sqrt(2 * rho), rel=1e-5)
    assert fit_of_gaussian(noisy - values, sigma) > ALPHA
    assert fit_of_gaussian(noisy - values, 1.3 * sigma) < ALPHA
    assert fit_of_gaussian(noisy - values, sigma / 1.3) < ALPHA


SCORES = np.array([0.0, 3.0, -4.0, 7.0, 5.0])


def exponential_mechanism(scores, epsilon, sensitivity):
    weights = np.exp(epsilon * (scores - scores.max()) / (2 * sensitivity))
    return weights / weights.sum()


def permute_and_flip(scores, epsilon, sensitivity, size, rng):
    keep = np.exp(epsilon * (scores - scores.max()) / (2 * sensitivity))
    chosen = []
    while len(chosen) < size:
        chosen.append(next(i for i in rng.permutation(scores.size) if rng.random() < keep[i]))
    return np.array(chosen)


@pytest.mark.slow
@backends
def test_selection_follows_the_exponential_mechanism(noise):
    rho, size = 1.0, 5_000
    epsilon = exponential_epsilon(rho)
    chosen = np.array(
        [noise.select(SCORES, rho, JAM_SCORE, f"round-{i}/select") for i in range(size)]
    )
    observed = np.bincount(chosen, minlength=SCORES.size)
    theory = exponential_mechanism(SCORES, epsilon, JAM_SCORE)
    assert scipy.stats.chisquare(observed, theory * size).pvalue > ALPHA
    # Power: a wrong scale passes by chance less than once in 10^10 runs.
    for wrong in (1.3, 1 / 1.3):
        other = exponential_mechanism(SCORES, wrong * epsilon, JAM_SCORE)
        assert scipy.stats.chisquare(observed, other * size).pvalue < ALPHA


def test_permute_and_flip_would_be_noticed():
    """It is another mechanism: charging it as the exponential one is a known bug."""
    epsilon = exponential_epsilon(1.0)
    chosen = permute_and_flip(SCORES, epsilon, JAM_SCORE, 5_000, np.random.default_rng(1))
    observed = np.bincount(chosen, minlength=SCORES.size)
    theory = exponential_mechanism(SCORES, epsilon, JAM_SCORE)
    assert scipy.stats.chisquare(observed, theory * 5_000).pvalue < ALPHA


@backends
def test_selection_among_one(noise):
    assert noise.select(np.array([-1e9]), 1e-6, JAM_SCORE, "step") == 0


def test_exact_noise_survives_floating_point():
    """From 1 no output may be impossible that is possible from 0.

    In floating point 1 + z has no bits below 2^-53 where the sum is near zero, so a small output
    with finer bits excludes 1: seeded noise is betrayed by that, exact noise is not.
    """

    def coarse(noise):
        noisy, _ = noise.gaussian_values(np.ones(4_000), 1.0, 0.5, "step")
        near_zero = noisy[np.abs(noisy) < 2**-4]
        assert near_zero.size > 20  # about 120 are expected
        return np.mean(near_zero * 2.0**53 == np.rint(near_zero * 2.0**53))

    assert coarse(SeededNoise(3)) == 1.0
    assert coarse(ExactNoise()) < 1.0  # each is coarse with chance 2^-4 or less


@given(rho=st.floats(1e-10, 50.0))
@examples(60)
def test_opendp_agrees_that_the_charge_covers_the_noise(rho):
    import opendp.prelude as dp

    integers = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T=float)
    reals = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l2_distance(T=float)

    _, sigma = ExactNoise().gaussian_counts(np.zeros(1, dtype=np.int64), MARGINAL_L2, rho, "step")
    assert dp.m.make_gaussian(*integers, sigma).map(MARGINAL_L2) <= rho
    assert sigma == pytest.approx(1 / math.sqrt(rho), rel=1e-12)

    _, sigma = ExactNoise().gaussian_values(np.zeros(2), 3e-4, rho, "step")
    assert dp.m.make_gaussian(*reals, sigma).map(3e-4) <= rho
    assert sigma == pytest.approx(3e-4 / math.sqrt(2 * rho), rel=2 * ROUNDING_SLACK)


@given(rho=st.floats(1e-10, 50.0))
@examples(60)
def test_opendp_agrees_that_the_charge_covers_the_selection(rho):
    scale = 2 * JAM_SCORE / exponential_epsilon(rho)
    made = []
    original = exact_noise._noisy_max
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            exact_noise, "_noisy_max", lambda scale: made.append(scale) or original(scale)
        )
        ExactNoise().select(SCORES, rho, JAM_SCORE, "step")
    assert original(made[-1]).map(JAM_SCORE) <= rho
    assert made[-1] == pytest.approx(scale, rel=2 * ROUNDING_SLACK)


@backends
def test_counts_beyond_32_bits_and_in_chunks_keep_their_places(noise, monkeypatch):
    monkeypatch.setattr(exact_noise, "CHUNK_CELLS", 7)
    counts = np.arange(60, dtype=np.int64).reshape(3, 4, 5) * 2**40
    # At rho = 9000 the noise is zero but for one draw in e^4500.
    noisy, _ = noise.gaussian_counts(counts, MARGINAL_L2, 9_000.0, "step")
    np.testing.assert_array_equal(noisy, counts)


@backends
def test_values_in_chunks_keep_their_places(noise, monkeypatch):
    monkeypatch.setattr(exact_noise, "CHUNK_CELLS", 7)
    values = np.arange(60.0) * 2**30
    # At rho = 9000 the noise has a sigma of a hundredth.
    noisy, _ = noise.gaussian_values(values, MARGINAL_L2, 9_000.0, "step")
    np.testing.assert_allclose(noisy, values, atol=0.5)


def test_small_integer_dtypes_do_not_overflow():
    noisy, _ = SeededNoise(0).gaussian_counts(
        np.full(100, 255, dtype=np.uint8), MARGINAL_L2, 1e-6, "step"
    )
    assert noisy.dtype == np.int64
    assert np.abs(noisy - 255).max() > 300


def test_seeded_noise_depends_on_seed_and_step_alone():
    counts = np.zeros(40, dtype=np.int64)

    def draw(seed, step):
        return SeededNoise(seed).gaussian_counts(counts, MARGINAL_L2, 1e-3, step)[0].tolist()

    noise = SeededNoise(1)
    noise.select(SCORES, 1.0, JAM_SCORE, "another step before it")
    assert noise.gaussian_counts(counts, MARGINAL_L2, 1e-3, "a")[0].tolist() == draw(1, "a")
    assert draw(1, "a") != draw(1, "b")
    assert draw(1, "a") != draw(2, "a")


@pytest.mark.slow
def test_seeded_noise_repeats_in_another_process():
    script = (
        "import numpy as np; from jam_dagster.privacy.noise.seeded import SeededNoise as S;"
        "print(S(5).gaussian_counts(np.zeros(9, dtype=np.int64), 2**.5, 1e-4, 'round-001/measure')"
        "[0]"
        ".tolist())"
    )
    said = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONHASHSEED": "77"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    here = SeededNoise(5).gaussian_counts(
        np.zeros(9, dtype=np.int64), 2**0.5, 1e-4, "round-001/measure"
    )
    assert said.strip() == str(here[0].tolist())


def test_exact_noise_does_not_repeat():
    counts = np.zeros(40, dtype=np.int64)
    first, second = (
        ExactNoise().gaussian_counts(counts, MARGINAL_L2, 1e-6, "step")[0] for _ in range(2)
    )
    assert first.tolist() != second.tolist()  # equal with chance below 1e-100


def test_labels():
    assert [(noise.name, noise.releasable) for noise in BACKENDS] == [
        ("exact", True),
        ("numpy", False),
    ]
    assert all(pickle.loads(pickle.dumps(noise)) == noise for noise in BACKENDS)


def test_make_noise():
    assert make_noise("exact") == ExactNoise()
    assert make_noise("numpy", 4) == SeededNoise(4)
    with pytest.raises(SpecificationError, match="got 'laplace'"):
        make_noise("laplace")
    with pytest.raises(SpecificationError, match="cannot be seeded"):
        make_noise("exact", 4)
    with pytest.raises(SpecificationError, match=r"seed must be .* got -1"):
        make_noise("numpy", -1)


@backends
@pytest.mark.parametrize("rho", [0.0, -1.0, math.nan, math.inf, "1"])
def test_rho_out_of_range(noise, rho):
    with pytest.raises(SpecificationError, match=r"rho must be .* got"):
        noise.gaussian_counts(np.zeros(2, dtype=np.int64), MARGINAL_L2, rho, "step")
    with pytest.raises(SpecificationError, match=r"rho must be .* got"):
        noise.gaussian_values(np.zeros(2), 1.0, rho, "step")
    with pytest.raises(SpecificationError, match=r"rho must be .* got"):
        noise.select(SCORES, rho, 4.0, "step")


@backends
@pytest.mark.parametrize("sensitivity", [0.0, -2.0, math.nan, math.inf])
def test_sensitivity_out_of_range(noise, sensitivity):
    with pytest.raises(SpecificationError, match="sensitivity must be positive, got"):
        noise.select(SCORES, 1.0, sensitivity, "step")
    with pytest.raises(SpecificationError, match="sensitivity must be positive, got"):
        noise.gaussian_values(np.zeros(2), sensitivity, 1.0, "step")


@backends
def test_inputs_that_are_no_statistics(noise):
    with pytest.raises(SpecificationError, match="scores must be finite, 1 of 3 are not"):
        noise.select(np.array([1.0, np.nan, 2.0]), 1.0, 4.0, "step")
    with pytest.raises(SpecificationError, match="values must be finite, 2 of 2 are not"):
        noise.gaussian_values(np.array([np.inf, -np.inf]), 1.0, 1.0, "step")
    with pytest.raises(SpecificationError, match=r"scores must be .*not empty, got shape \(0,\)"):
        noise.select(np.array([]), 1.0, 4.0, "step")
    with pytest.raises(SpecificationError, match=r"counts must not be empty, got shape \(0, 3\)"):
        noise.gaussian_counts(np.zeros((0, 3), dtype=np.int64), MARGINAL_L2, 1.0, "step")
    with pytest.raises(SpecificationError, match="counts must be integers, got dtype float64"):
        noise.gaussian_counts(np.array([1.5]), MARGINAL_L2, 1.0, "step")
    with pytest.raises(SpecificationError, match="scores must be numbers, got dtype object"):
        noise.select(np.array(["a", None], dtype=object), 1.0, 4.0, "step")
