"""The two estimators: what both owe, and what tells them apart."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from jam_dagster.mechanisms import Measurement
from jam_dagster.models.graphical.fit import make_estimator
from jam_dagster.tables import Domain
from jam_dagster.tables.domain.impossible import ImpossibleCombination
from tests.tiers import slow

ALL = ["accelerated", *slow("mbi")]


def fitted(name, domain, measurements, total, *, iterations=1000, tolerance=0.0):
    estimator = make_estimator(name, domain, total, iterations=iterations, tolerance=tolerance)
    endings = [estimator.add(measurement) for measurement in measurements]
    return estimator.model, endings


def exact(table, *cliques):
    return [
        Measurement(clique, "public", table.marginal(clique).astype(float), 0.0, i)
        for i, clique in enumerate(cliques)
    ]


def noisy(domain, cliques, *, seed, sd=30.0, mean=20.0):
    rng = np.random.default_rng(seed)
    return [
        Measurement(q, "private", rng.normal(mean, sd, [domain.sizes[a] for a in q]), sd, i)
        for i, q in enumerate(cliques)
    ]


@pytest.mark.parametrize("name", ALL)
def test_consistent_measurements_are_met(name, domain, private):
    cliques = [("a", "b"), ("b", "c")]
    model, endings = fitted(name, domain, exact(private, *cliques), private.records)
    for clique in cliques:
        np.testing.assert_allclose(model.marginal(clique), private.marginal(clique), atol=0.05)
    assert endings[-1].loss < 1e-5


@pytest.mark.parametrize("name", ALL)
def test_before_the_first_measurement_the_model_is_uniform(name, domain):
    model, _ = fitted(name, domain, [], 12)
    np.testing.assert_allclose(model.marginal(("a", "b")), 2)


@pytest.mark.parametrize("name", ALL)
def test_measurements_weigh_alike_whatever_their_noise(name, domain):
    """Two measurements of one marginal meet halfway, though one claims far less noise."""
    low = Measurement(("a",), "private", np.array([40.0, 60.0]), 100.0, 0)
    high = Measurement(("a",), "private", np.array([60.0, 40.0]), 0.1, 1)
    model, endings = fitted(name, domain, [low, high], 100)
    np.testing.assert_allclose(model.marginal(("a",)), [50, 50], atol=0.1)
    # Half of 10^2 in each of four cells, over n^2.
    assert endings[-1].loss == pytest.approx(0.5 * 4 * 10**2 / 100**2, rel=1e-3)


@pytest.mark.parametrize("name", ALL)
def test_impossible_combinations_stay_zero_whatever_is_measured(name, domain, private):
    constrained = Domain(
        domain.attributes, impossible=(ImpossibleCombination(("a", "c"), ((0,), (0,))),)
    )
    model, _ = fitted(
        name, constrained, exact(private, ("a", "b"), ("b", "c")), private.records, iterations=300
    )
    assert model.marginal(("a", "c"))[0, 0] == 0
    assert model.marginal(("a", "c")).sum() == pytest.approx(private.records)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_loss_is_that_of_the_model(name, domain):
    measurements = noisy(domain, [("a", "b"), ("b", "c"), ("a", "b"), ("c",)], seed=0)
    model, endings = fitted(name, domain, measurements, 120, iterations=50)
    squares = sum(
        np.square(model.marginal(measured.clique) - measured.values).sum()
        for measured in measurements
    )
    assert endings[-1].loss == pytest.approx(squares / (2 * 120**2), rel=1e-9)


CLIQUES = [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d"), ("b", "c"), ("d",), ("a", "b", "c")]


@pytest.mark.gate
def test_accelerated_arrives_where_private_pgm_is_going():
    """The problem is convex: the least loss is one, whoever finds it."""
    domain = Domain.from_sizes({"a": 3, "b": 4, "c": 2, "d": 5})
    measurements = noisy(domain, CLIQUES, seed=0, sd=10.0)
    _, plain = fitted("mbi", domain, measurements, 300)
    _, endings = fitted("accelerated", domain, measurements, 300, iterations=500)
    assert endings[-1].loss <= plain[-1].loss * 1.01


def test_a_larger_tolerance_takes_fewer_steps_and_leaves_more_loss():
    domain = Domain.from_sizes({"a": 6, "b": 7, "c": 8})
    measurements = noisy(domain, [("a", "b"), ("b", "c"), ("a", "c")], seed=0)
    taken, left = [], []
    for tolerance in (0.5, 0.1, 0.001, 0.0):
        _, endings = fitted("accelerated", domain, measurements, 500, tolerance=tolerance)
        taken.append(sum(ending.iterations for ending in endings))
        left.append(endings[-1].loss)
    assert taken == sorted(taken)
    assert len(set(taken)) == 4
    assert left[0] > left[1] > left[2]
    assert left[3] == pytest.approx(left[2], rel=1e-2)


def test_a_fit_stops_at_once_where_nothing_is_left_to_fit(domain, private):
    """The model already gives what is measured: its residual is less than a part of a record."""
    estimator = make_estimator("accelerated", domain, 12, iterations=1000, tolerance=0.1)
    uniform = Measurement(("a", "b"), "public", np.full((2, 3), 2.0), 0.0, 0)
    assert estimator.add(uniform).iterations == 0
    # Met once, a marginal that is measured again needs no more than a touch.
    public = exact(private, ("b", "c"))[0]
    assert estimator.add(public).iterations > 20
    estimator = make_estimator("accelerated", domain, 12, iterations=1000, tolerance=0.0)
    estimator.add(public)
    assert estimator.add(public).iterations < 20


def test_model_answers_as_its_potentials_say():
    """The beliefs that a fit hands over are those that propagation from the potentials gives."""
    domain = Domain.from_sizes({"a": 3, "b": 4, "c": 2, "d": 5})
    measurements = noisy(domain, CLIQUES, seed=3, sd=80.0)
    model, _ = fitted("accelerated", domain, measurements, 300, tolerance=0.01)
    again = model.recalibrated()
    assert "calibrated" in vars(model)
    assert "calibrated" not in vars(again)
    np.testing.assert_allclose(
        model.marginal(domain.names), again.marginal(domain.names), atol=1e-8
    )


def test_cells_without_records_neither_stall_the_fit_nor_drive_potentials_off(domain):
    """A cell far below zero has no model: its potential must not run away toward it."""
    values = np.array([[500.0, -300.0, 200.0], [-300.0, 400.0, -300.0]])
    measurement = Measurement(("a", "b"), "private", values, 300.0, 0)
    model, _ = fitted("accelerated", domain, [measurement], 1000, iterations=2000)
    fit = model.marginal(("a", "b"))
    assert fit[values < 0].max() < 1e-3
    np.testing.assert_allclose(fit[values > 0], [1400 / 3, 500 / 3, 1100 / 3], rtol=1e-3)
    assert np.ptp(model.potentials["a", "b"]) < 100


@pytest.mark.parametrize("seed", range(5))
def test_noise_far_above_the_records_leaves_a_model_that_stands(seed):
    """Steps are as long as they can be taken back: nothing overflows, whatever was measured."""
    domain = Domain.from_sizes({"a": 3, "b": 4, "c": 2, "d": 5})
    measurements = noisy(domain, CLIQUES, seed=seed, sd=1e4, mean=0.0)
    model, endings = fitted("accelerated", domain, measurements, 10, tolerance=0.1)
    answer = model.marginal(domain.names)
    assert np.isfinite(answer).all()
    assert np.isfinite([ending.loss for ending in endings]).all()
    np.testing.assert_allclose(answer.sum(), 10)
    np.testing.assert_allclose(answer, model.recalibrated().marginal(domain.names), atol=1e-6)


@pytest.mark.parametrize("zeros", [1, 2, 3])
def test_a_category_that_the_public_table_lacks_comes_back(zeros):
    """Public marginals say nobody, a private one then says 30%: the fit must find the way back."""
    names = ["a", "b", "c"][:zeros]
    domain = Domain.from_sizes(dict.fromkeys([*names, "z"], 3))
    nobody = np.array([0.0, 600.0, 400.0])
    measurements = [Measurement((n,), "public", nobody, 0.0, i) for i, n in enumerate(names)]
    joint = np.zeros([3] * zeros)
    joint[(0,) * zeros], joint[(1,) * zeros], joint[(2,) * zeros] = 300.0, 420.0, 280.0
    measurements.append(Measurement(tuple(names), "private", joint, 1.0, zeros))
    model, _ = fitted("accelerated", domain, measurements, 1000, tolerance=0.1)
    best, _ = fitted("accelerated", domain, measurements, 1000)
    expected = best.marginal(tuple(names))[(0,) * zeros]
    assert expected > 15
    assert model.marginal(tuple(names))[(0,) * zeros] > 0.7 * expected


def test_a_model_stays_as_it_is_when_the_estimator_goes_on(domain, private):
    estimator = make_estimator("accelerated", domain, 12, iterations=100, tolerance=0.1)
    estimator.add(exact(private, ("a", "b"))[0])
    kept = estimator.model
    before = kept.marginal(("a", "b"))
    estimator.add(Measurement(("a", "b"), "public", np.full((2, 3), 2.0), 0.0, 1))
    estimator.add(exact(private, ("b", "c"))[0])
    np.testing.assert_array_equal(kept.marginal(("a", "b")), before)


@pytest.mark.slow
def test_more_factors_than_an_operation_takes(domain):
    """Forty cliques inside one, and the beliefs stay normalised."""
    wide = Domain.from_sizes({f"x{i}": 2 for i in range(9)})
    cliques = [q for n in (1, 2) for q in combinations(wide.names, n)]
    whole = Measurement(wide.names, "public", np.full([2] * 9, 1.0), 0.0, 0)
    model, endings = fitted(
        "accelerated", wide, [whole, *noisy(wide, cliques, seed=0, mean=200, sd=20)], 512
    )
    assert np.isfinite(endings[-1].loss)
    np.testing.assert_allclose(model.marginal(wide.names[:1]).sum(), 512)
