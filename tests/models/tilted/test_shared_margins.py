"""Exchanges of potentials between measured cliques."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy

from jam_dagster.mechanisms import Measurement
from jam_dagster.models.graphical.belief_propagation import Beliefs
from jam_dagster.models.graphical.junction_tree import JunctionTree
from jam_dagster.models.tilted.fit import TiltFit
from jam_dagster.models.tilted.prior import PublicPrior
from jam_dagster.models.tilted.shared_margins import SharedMargins
from jam_dagster.tables import Domain

SIZES = (2, 3, 4, 2)
FACTORS = (0b0001, 0b0111, 0b1011, 0b0110)


def with_ridges() -> tuple[Beliefs, np.ndarray]:
    tree = JunctionTree.build(SIZES, list(FACTORS))
    beliefs = Beliefs(tree, [np.ones(tree.shape(mask)) for mask in tree.masks], FACTORS)
    return beliefs, np.repeat([0.1, 2.0, 0.5, 1.0], np.diff(beliefs.cells))


def summed_potentials(beliefs: Beliefs, flat: np.ndarray) -> np.ndarray:
    joint = np.zeros(SIZES)
    for number, axes in enumerate(beliefs.axes):
        table = beliefs.factor(flat, number).table.transpose(
            [axes.index(axis) for axis in sorted(axes)]
        )
        joint += np.expand_dims(table, [axis for axis in range(4) if axis not in axes])
    return joint


def test_the_exchange_is_the_best_that_leaves_the_sum_of_all_potentials() -> None:
    beliefs, ridges = with_ridges()
    theta, targets = np.random.default_rng(3).normal(size=(2, ridges.size))
    for start, end in itertools.pairwise(beliefs.cells):
        # The best constants, which make every sum of a gradient -1.
        short = (ridges[start:end] * theta[start:end] - targets[start:end]).sum() + 1.0
        theta[start:end] -= short / (ridges[start] * (end - start))
    before = ridges * theta - targets
    after = before.copy()

    fallen = SharedMargins(beliefs, ridges).agree(after)

    change = (after - before) / ridges
    np.testing.assert_allclose(summed_potentials(beliefs, change), 0.0, atol=1e-12)
    assert fallen == pytest.approx(-float(change @ (before + after)) / 2.0)
    assert fallen > 0.1
    # No other exchange gains anything: the gradient has no part along any of them.
    sums = [summed_potentials(beliefs, one).ravel() for one in np.eye(ridges.size)]
    exchanges = scipy.linalg.null_space(np.array(sums).T)
    assert exchanges.shape[1] >= 10
    np.testing.assert_allclose(exchanges.T @ after, 0.0, atol=1e-12)


def test_nothing_is_shared_by_cliques_apart() -> None:
    tree = JunctionTree.build((2, 3), [0b01, 0b10])
    beliefs = Beliefs(tree, [np.ones(tree.shape(mask)) for mask in tree.masks], [0b01, 0b10])
    gradient = np.arange(5.0)
    assert SharedMargins(beliefs, np.ones(5)).agree(gradient) == 0.0
    np.testing.assert_array_equal(gradient, np.arange(5.0))


def test_a_fit_ends_near_its_optimum_where_most_of_a_marginal_is_noise(monkeypatch) -> None:
    """Potentials of thousands of cells add hundreds to the objective, and a step gains little."""
    sizes = {"a": 12, "b": 12, "c": 12}
    domain, n, sigma = Domain.from_sizes(sizes), 100_000.0, 200.0
    rng = np.random.default_rng(4)
    truth = n * rng.dirichlet(np.full(12**3, 0.02)).reshape(12, 12, 12)

    def measured(clique: str) -> Measurement:
        lost = tuple(axis for axis, name in enumerate(sizes) if name not in clique)
        counts = truth.sum(axis=lost)
        noisy = counts + rng.normal(0.0, sigma, counts.shape)
        return Measurement(tuple(clique), "private", noisy, sigma, 0)

    given = [measured(clique) for clique in ("a", "b", "c", "ab", "abc", "bc")]

    def joint(settled: float) -> np.ndarray:
        monkeypatch.setattr("jam_dagster.models.tilted.fit.SETTLED", settled)
        fit = TiltFit(PublicPrior.uniform(domain), n, iterations=2000)
        for one in given:
            fit.add(one)
        return fit.model.marginal(tuple(sizes)) / n

    assert np.abs(joint(1e-4) - joint(1e-9)).sum() < 0.01
