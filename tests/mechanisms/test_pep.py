"""PEP by hand: one projection, the band around an answer, several answers together."""

from __future__ import annotations

import math

import numpy as np
import pytest

from jam_dagster.models.measurement import Measurement
from jam_dagster.models.weighted.fit import EntropyProjection
from jam_dagster.models.weighted.support import Support
from tests.mechanisms.conftest import histogram_run as run


def measured(clique, values, *, sigma=1.0):
    return Measurement(clique, "private", np.array(values, dtype=float), sigma, 0)


def projected(domain, *measurements, gamma=0.0, iterations=1, start=None):
    support = Support.of_domain(domain)
    logs = np.zeros(12) if start is None else start
    fit = EntropyProjection(support, logs, 10, gamma=gamma, iterations=iterations)
    steps = [fit.add(one).iterations for one in measurements]
    return fit.model, steps


def test_one_projection_of_a_cell(domain):
    """A third of the domain has b = 0; to make it a half it gets (1/2 2/3) / (1/2 1/3) = 2."""
    model, steps = projected(domain, measured(("b",), [5, 2.5, 2.5]))
    inside = model.support.codes(("b",)) == 0
    np.testing.assert_allclose(model.probabilities[inside], 1 / 8, rtol=1e-12)
    np.testing.assert_allclose(model.probabilities[~inside], 1 / 16, rtol=1e-12)
    assert steps == [1]


def test_the_worst_cell_of_a_marginal_comes_first(domain):
    """b should be (5, 4, 1) of 10 and is 10/3 each: the last is furthest, odds 1/2 become 1/9."""
    model, _ = projected(domain, measured(("b",), [5, 4, 1]))
    np.testing.assert_allclose(model.marginal(("b",)), [4.5, 4.5, 1.0], rtol=1e-12)


def test_a_projection_begins_with_the_public_frequencies(private, public):
    """Half of the public records have a = 0, 8/12 of the private: odds 1 become 2."""
    made, _ = run("pep_pub", private, public, [0], gamma=0.0)
    np.testing.assert_allclose(made.model.probabilities, np.array([2, 2, 1, 1]) / 6, rtol=1e-12)
    made, _ = run("pep", private, None, [0], gamma=0.0)
    np.testing.assert_allclose(made.model.marginal(("a",)), [8, 4], rtol=1e-12)
    np.testing.assert_allclose(made.model.marginal(("b", "c")), 2.0, rtol=1e-12)


def test_an_answer_is_taken_as_far_as_its_noise_allows(domain):
    # 9 of 10, give or take twice 1: up to 7. From 5 that is where the projection ends.
    model, _ = projected(domain, measured(("a",), [9, 1]), gamma=2.0, iterations=100)
    np.testing.assert_allclose(model.marginal(("a",)), [7, 3], rtol=1e-9)
    model, steps = projected(domain, measured(("a",), [6, 4]), gamma=2.0, iterations=100)
    assert steps == [0]
    np.testing.assert_allclose(model.marginal(("a",)), [5, 5], rtol=1e-12)
    # Noise beyond what a fraction can be leaves an answer within the band, not an end of it.
    model, _ = projected(domain, measured(("a",), [-2, 12]), gamma=3.0, iterations=100)
    np.testing.assert_allclose(model.marginal(("a",)), [1, 9], rtol=1e-9)


@pytest.mark.parametrize(
    ("value", "share"),
    [(-0.5, 1e-8), (0.0, 1e-9), (-40.0, 1e-7), (10.5, 1 - 1e-8), (10.0, 1 - 1e-9), (50, 1 - 1e-7)],
)
def test_an_answer_within_its_band_is_not_moved_however_near_to_the_ends(domain, value, share):
    """Noise of 1 and gamma 2: what weights say is allowed, or nearer to it than a step may go."""
    inside = Support.of_domain(domain).codes(("a",)) == 0
    start = np.where(inside, math.log(share), math.log1p(-share))
    model, steps = projected(
        domain, measured(("a",), [value, 10 - value]), gamma=2.0, iterations=100, start=start
    )
    assert steps == [0]
    assert model.marginal(("a",))[0] == pytest.approx(10 * share, rel=1e-12, abs=0)
    assert model.marginal(("a",))[1] == pytest.approx(10 * (1 - share), rel=1e-7, abs=0)


def test_what_is_allowed_of_a_tiny_answer_is_reached(domain):
    """The band of 1e-6 of 10, give or take half of it, begins at 5e-8 as a fraction."""
    inside = Support.of_domain(domain).codes(("a",)) == 0
    start = np.where(inside, math.log(1e-9), 0.0)
    model, steps = projected(
        domain,
        measured(("a",), [1e-6, 10 - 1e-6], sigma=2.5e-7),
        gamma=2.0,
        iterations=100,
        start=start,
    )
    assert steps == [1]
    assert model.marginal(("a",))[0] == pytest.approx(5e-7, rel=1e-6, abs=0)


def test_answers_that_do_not_meet_make_a_product(domain):
    """Of all distributions with two one-way marginals their product is closest to the even one."""
    model, _ = projected(
        domain, measured(("a",), [8, 2]), measured(("b",), [5, 3, 2]), iterations=500
    )
    np.testing.assert_allclose(
        model.marginal(("a", "b")), np.outer([8, 2], [5, 3, 2]) / 10, rtol=1e-9
    )
    np.testing.assert_allclose(model.marginal(("c",)), 5.0, rtol=1e-12)


def test_the_same_query_measured_again_is_their_mean(domain):
    one, other = measured(("a",), [9, 1], sigma=1.0), measured(("a",), [6, 4], sigma=2.0)
    model, _ = projected(domain, one, other, iterations=100)
    # Worth 1 and 1/4: (4 * 9 + 6) / 5.
    np.testing.assert_allclose(model.marginal(("a",)), [8.4, 1.6], rtol=1e-9)


def test_answers_that_contradict_each_other_end(domain):
    _, steps = projected(domain, measured(("b",), [9, 9, 9]), iterations=70)
    assert steps == [70]


@pytest.mark.parametrize("value", [-5, 0, 10, 1e18])
def test_answers_at_the_ends_are_nearly_reached(domain, value):
    model, _ = projected(domain, measured(("a",), [value, 10 - value]), iterations=100)
    wanted = 1e-5 if value < 5 else 10 - 1e-5
    assert model.marginal(("a",))[0] == pytest.approx(wanted, rel=1e-9)


def test_what_has_no_weight_gets_none(domain):
    start = np.full(12, -np.inf)
    start[[0, 1, 5]] = 0.0  # all of them have a = 0
    model, steps = projected(
        domain, measured(("a",), [5, 5]), measured(("c",), [9, 1]), start=start, iterations=50
    )
    assert steps == [0, 1]
    np.testing.assert_allclose(model.marginal(("a",)), [10, 0])
    np.testing.assert_allclose(model.marginal(("c",)), [9, 1], rtol=1e-9)
