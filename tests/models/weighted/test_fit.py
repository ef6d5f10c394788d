"""Whatever is measured, weights stay a distribution, and a projection that ends agrees with it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jam_dagster.models.measurement import Measurement
from jam_dagster.models.weighted.fit import EXTREME, EntropyProjection, MultiplicativeWeights
from jam_dagster.models.weighted.support import Support
from jam_dagster.tables import Domain
from tests.examples import examples

DOMAIN = Domain.from_sizes({"a": 2, "b": 3, "c": 2})
SUPPORT = Support.of_domain(DOMAIN)
TOTAL = 50
CLIQUES = [("a",), ("b",), ("a", "c"), ("b", "c"), ("a", "b", "c")]


@st.composite
def measurements(draw: st.DrawFn, largest: float) -> Measurement:
    clique = draw(st.sampled_from(CLIQUES))
    size = DOMAIN.size(clique)
    value = st.floats(-largest, largest)
    values = draw(st.lists(value, min_size=size, max_size=size))
    shaped = np.array(values).reshape([DOMAIN.sizes[name] for name in clique])
    return Measurement(clique, "private", shaped, draw(st.floats(0.1, 100.0)), 0)


starts = st.lists(st.floats(-600, 0) | st.just(-np.inf), min_size=12, max_size=12).filter(
    lambda logs: max(logs) > -np.inf
)
many = examples(60)


@given(st.lists(measurements(1e300), max_size=6), starts, st.integers(0, 5), st.booleans())
@many
def test_multiplicative_weights_stay_a_distribution(
    measured: list[Measurement], logs: list[float], passes: int, average: bool
) -> None:
    start = np.array(logs)
    fit = MultiplicativeWeights(SUPPORT, start, TOTAL, passes=passes, average=average)
    for one in measured:
        assert fit.add(one).iterations >= max(passes, 1)
    for model in (fit.model, fit.released):
        assert abs(model.probabilities.sum() - 1.0) < 1e-12
        assert not model.probabilities[np.isneginf(start)].any()
        assert np.isfinite(model.marginal(("a", "b", "c"))).all()


def test_without_a_pass_past_measurements_are_not_used_again() -> None:
    """exp((m - a) / 2): .9 against .5 of a, then .1 of it against what the first left."""
    fit = MultiplicativeWeights(SUPPORT, np.zeros(12), TOTAL, passes=0, average=False)
    assert fit.add(said(("a",), [45, 5], 1)).iterations == 1
    first = np.exp(0.2) / (np.exp(0.2) + np.exp(-0.2))
    assert fit.model.marginal(("a",))[0] == pytest.approx(TOTAL * first)
    assert fit.add(said(("b",), [25, 15, 10], 1)).iterations == 1
    # The second measurement says nothing of a.
    assert fit.model.marginal(("a",))[0] == pytest.approx(TOTAL * first)
    once = MultiplicativeWeights(SUPPORT, np.zeros(12), TOTAL, passes=1, average=False)
    once.add(said(("a",), [45, 5], 1))
    assert once.add(said(("b",), [25, 15, 10], 1)).iterations == 2


@given(st.lists(measurements(1e300), max_size=6), starts, st.floats(0, 4))
@many
def test_projections_stay_a_distribution(
    measured: list[Measurement], logs: list[float], gamma: float
) -> None:
    start = np.array(logs)
    fit = EntropyProjection(SUPPORT, start, TOTAL, gamma=gamma, iterations=30)
    for one in measured:
        fit.add(one)
    assert abs(fit.model.probabilities.sum() - 1.0) < 1e-12
    assert not fit.model.probabilities[np.isneginf(start)].any()


def said(clique: tuple[str, ...], values: list, sigma: float) -> Measurement:
    return Measurement(clique, "private", np.array(values, dtype=float), sigma, 0)


OUT_OF_FLOATS = {
    # A step of 710 multiplies a weight that is 0 as a float by infinity.
    "no number": (
        1.0,
        [0, -np.inf, 0, 0, -np.inf, -np.inf, -np.inf, -np.inf, -474, 0, -np.inf, 0],
        [
            said(("b",), [-50, -50, 0], 50),
            said(("a", "c"), [[58, 0], [0, 0]], 8),
            said(("a",), [0, 0], 1),
            said(("a",), [0, 0], 1),
            said(("a",), [0, 0], 1),
            said(("a", "c"), [[0, 0], [52, 0]], 1),
        ],
    ),
    # Where weights say no number, the wanted share is 20,000, whose odds have no logarithm.
    "no odds": (0.0, [0, *[-np.inf] * 5, -720, *[-np.inf] * 5], [said(("a",), [1e6, 1e6], 1)]),
}


@pytest.mark.parametrize(("gamma", "logs", "measured"), OUT_OF_FLOATS.values(), ids=OUT_OF_FLOATS)
def test_a_projection_whose_step_no_float_can_take_ends_with_a_model(
    gamma: float, logs: list[float], measured: list[Measurement]
) -> None:
    start = np.array(logs, dtype=float)
    fit = EntropyProjection(SUPPORT, start, TOTAL, gamma=gamma, iterations=30)
    for one in measured:
        fit.add(one)
        # What has weight keeps it, however little.
        np.testing.assert_array_equal(np.isfinite(fit.logs), np.isfinite(start))
    assert abs(fit.model.probabilities.sum() - 1.0) < 1e-12
    assert not fit.model.probabilities[np.isneginf(start)].any()


def test_a_projection_brings_back_a_share_that_all_but_vanished() -> None:
    """One step of 720 moves half of the weight to a record that had 10^-313 of it."""
    logs = np.full(12, -np.inf)
    logs[[0, 6]] = 0, -720
    fit = EntropyProjection(SUPPORT, logs, TOTAL, gamma=0.0, iterations=30)
    fit.add(said(("a",), [25, 25], 1))
    np.testing.assert_allclose(fit.model.marginal(("a",)), [25, 25], rtol=1e-6)


def test_a_cell_that_holds_all_weight_takes_no_steps() -> None:
    """Weights that sum to a little less than one would ask for the same vain step every time."""
    start = np.where(SUPPORT.codes(("a",)) == 0, np.log(np.arange(1, 13)), -np.inf)
    fit = EntropyProjection(SUPPORT, start, TOTAL, gamma=0.0, iterations=100)
    fit.add(said(("a",), [0, 50], 1))
    fit.add(said(("b",), [10, 15, 25], 1))
    np.testing.assert_allclose(fit.model.marginal(("b",)), [10, 15, 25], atol=1e-6)


@given(st.permutations(CLIQUES), st.floats(0.5, 3.0), st.integers(0, 1000))
@many
def test_a_projection_that_ends_is_within_all_bands(
    cliques: list[tuple[str, ...]], gamma: float, seed: int
) -> None:
    """Weights are the start times a factor for each cell measured, as the closest ones are."""
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.full(12, 0.5))
    fit = EntropyProjection(SUPPORT, np.zeros(12), TOTAL, gamma=gamma, iterations=4000)
    measured = cliques[:2]
    for clique in measured:
        values = SUPPORT.marginal(clique, truth) * TOTAL
        done = fit.add(Measurement(clique, "private", values, 1.0, 0))
        assert done.iterations < 4000
    for clique in measured:
        said, wanted = (SUPPORT.marginal(clique, one) for one in (fit.weights, truth))
        assert np.abs(said - wanted).max() <= gamma / TOTAL + EXTREME + 1e-9
    # The logarithms are sums of a table for each marginal measured.
    design = np.concatenate(
        [np.eye(DOMAIN.size(clique))[SUPPORT.codes(clique)] for clique in measured], axis=1
    )
    fitted = design @ np.linalg.lstsq(design, fit.logs, rcond=None)[0]
    np.testing.assert_allclose(fitted, fit.logs, atol=1e-8)
