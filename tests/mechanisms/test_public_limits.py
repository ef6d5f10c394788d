"""What mechanisms that weigh public records, or train mixtures, come to with all the budget.

As in ``test_limits.py`` the noise is nothing, and what runs should come to is worked out here, from
the tables and scipy alone.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy

from jam_dagster.models.mixture.model import ProductMixture
from jam_dagster.models.weighted.model import WeightedTable
from jam_dagster.tables import Clique, Domain, EncodedTable, Workload
from tests.mechanisms.test_limits import FOUR, drawn, error, limit, uneven
from tests.tiers import slow_rows

PAIRS = Workload.all_k_way(FOUR, 2)


class Reweighting:
    """The weights that a public table's records could be given.

    Attributes
    ----------
    records
        The distinct public records in lexicographic order, shape ``(k, d)``.
    frequencies
        How often each occurs, shape ``(k,)``.
    cells
        Which records each cell of the workload counts, shape ``(q, k)``.
    wanted
        What it should count, as fractions, shape ``(q,)``.
    """

    def __init__(self, private: EncodedTable, public: EncodedTable, workload: Workload) -> None:
        names, rows = private.domain.names, np.stack(public.columns, axis=1)
        self.records, counts = np.unique(rows, axis=0, return_counts=True)
        self.frequencies = counts / counts.sum()
        cells, wanted = [], []
        for clique in workload.cliques:
            columns = self.records[:, [names.index(name) for name in clique]]
            truth = private.marginal(clique) / private.records
            for codes, fraction in np.ndenumerate(truth):
                cells.append((columns == codes).all(axis=1))
                wanted.append(fraction)
        self.cells, self.wanted = np.array(cells, dtype=float), np.array(wanted)
        self.marginals = len(workload.cliques)

    def apart(self, weights: np.ndarray) -> np.ndarray:
        """Return how far the weights' answers are from what they should be."""
        return np.asarray(self.cells @ weights - self.wanted)

    def error(self, weights: np.ndarray) -> float:
        """Return the mean over the workload of ``||q(D) - q(weights)||_1 / n``."""
        return float(np.abs(self.apart(weights)).sum()) / self.marginals

    def least_error(self) -> float:
        """Return the least mean error of any weights: a linear program in weights and errors."""
        q, k = self.cells.shape
        below = np.block([[self.cells, -np.eye(q)], [-self.cells, -np.eye(q)]])
        found = scipy.optimize.linprog(
            np.r_[np.zeros(k), np.full(q, 1 / self.marginals)],
            A_ub=below,
            b_ub=np.r_[self.wanted, -self.wanted],
            A_eq=np.r_[np.ones(k), np.zeros(q)][None],
            b_eq=[1.0],
        )
        assert found.success
        return float(found.fun)

    def least_squares(self) -> np.ndarray:
        """Return the weights with the least sum of squared errors; their sum is a heavy row."""
        heavy = 1e4
        rows = np.vstack([self.cells, np.full(self.cells.shape[1], heavy)])
        return np.asarray(scipy.optimize.nnls(rows, np.r_[self.wanted, heavy])[0])

    def projection(self) -> np.ndarray:
        """Return the weights nearest to the frequencies in relative entropy that are right.

        They are ``frequencies exp(cells^T l)`` for the l that lowers ``log Z(l) - l wanted``.
        """

        def dual(multipliers: np.ndarray) -> tuple[float, np.ndarray]:
            weights = self.frequencies * np.exp(multipliers @ self.cells)
            total = weights.sum()
            return np.log(total) - multipliers @ self.wanted, self.apart(weights / total)

        options = {"gtol": 1e-8, "maxiter": 2000}
        found = scipy.optimize.minimize(
            dual, np.zeros(len(self.wanted)), jac=True, method="BFGS", options=options
        )
        weights = self.frequencies * np.exp(found.x @ self.cells)
        return np.asarray(weights / weights.sum())


def tables(seed: int, *, cells: int) -> tuple[EncodedTable, EncodedTable]:
    """Return a private table, and a public one that has records in so many of 36 cells."""
    private = drawn(FOUR, 2000, uneven(FOUR, seed, least=0.005), seed)
    here = np.zeros(36)
    here[np.random.default_rng(seed).permutation(36)[:cells]] = 1 / cells
    return private, drawn(FOUR, 600, here, seed + 1)


def weights_of(model: WeightedTable, problem: Reweighting) -> np.ndarray:
    """Return the weights of a model whose support is the public records, and nothing else."""
    support = np.stack(model.support.table.columns, axis=1)
    np.testing.assert_array_equal(support, problem.records)
    return np.asarray(model.probabilities)


def test_pmw_pub_is_right_where_weights_can_be() -> None:
    """The linear program says 0, and so do the weights, to a hundredth of a record in a cell."""
    private, public = tables(0, cells=36)
    problem = Reweighting(private, public, PAIRS)
    assert problem.least_error() < 1e-9 < 0.1 < problem.error(problem.frequencies)
    settings = {"rounds": 10, "passes": 300, "iterate": "last"}
    made = limit("pmw_pub", private, public, PAIRS, **settings)
    assert problem.error(weights_of(made.model, problem)) < 1e-4


@pytest.mark.parametrize(("seed", "cells"), [(0, 10), *slow_rows((3, 16))])
def test_pmw_pub_is_nearly_the_best_in_squares_where_weights_cannot_be_right(seed, cells) -> None:
    """It stays above the least absolute error, which is not what its updates lower.

    ``w exp(q (m - a) / 2)`` is a step along the gradient of the squared errors, so where errors
    stay it comes to where these balance. Not quite: past answers are taken up only where they are
    at least half as wrong as the newest, which makes large errors count for more. That costs less
    than 2% of the root of the squares.
    """
    private, public = tables(seed, cells=cells)
    problem = Reweighting(private, public, PAIRS)
    settings = {"rounds": 20, "passes": 50, "iterate": "last"}
    weights = weights_of(limit("pmw_pub", private, public, PAIRS, **settings).model, problem)
    least = problem.least_error()
    assert 0.1 < least < problem.error(weights) < problem.error(problem.frequencies)
    best = np.linalg.norm(problem.apart(problem.least_squares()))
    assert best < np.linalg.norm(problem.apart(weights)) < 1.02 * best


def test_pep_pub_is_the_projection_of_the_public_frequencies() -> None:
    """Of all weights that answer the pairs, those nearest to where it began, to 1e-5 in sum."""
    private, public = tables(0, cells=36)
    problem = Reweighting(private, public, PAIRS)
    settings = {"rounds": 10, "iterations": 3000, "gamma": 0.0}
    weights = weights_of(limit("pep_pub", private, public, PAIRS, **settings).model, problem)
    projection = problem.projection()
    assert problem.error(projection) < 1e-6
    assert np.abs(weights - projection).sum() < 1e-5
    # There are others that answer them as well: without the start they would not be these.
    assert np.abs(problem.least_squares() - projection).sum() > 0.1


THREE = Domain.from_sizes({"a": 2, "b": 3, "c": 2})

MIXTURES = {
    "gem": {"width": 4, "learning_rate": 0.03, "averaging_beta": 0.0},
    "gem_pub": {
        "width": 4,
        "learning_rate": 0.03,
        "averaging_beta": 0.0,
        "pretraining_degree": 2,
        "pretraining_iterations": 50,
    },
    "rap_softmax": {"learning_rate": 0.1},
    "mwem_rp": {"learning_rate": 0.1},
}
"""Mechanisms that train mixtures of products, with small networks that learn fast."""


def two_products() -> EncodedTable:
    """Return 256 records, of which each half is a product of its attributes, in whole records."""
    halves = (
        ([7 / 8, 1 / 8], [3 / 4, 1 / 8, 1 / 8], [1 / 2, 1 / 2]),
        ([1 / 8, 7 / 8], [1 / 8, 1 / 8, 3 / 4], [1 / 4, 3 / 4]),
    )
    counts = sum(256 * np.einsum("i,j,k", *half) for half in halves)
    whole = np.rint(np.ravel(counts)).astype(int)
    np.testing.assert_array_equal(np.ravel(counts), whole)
    return EncodedTable(THREE, np.unravel_index(np.repeat(np.arange(12), whole), THREE.shape))


def unrelated() -> EncodedTable:
    """Return a table that tells nothing."""
    rng = np.random.default_rng(0)
    return EncodedTable(THREE, tuple(rng.integers(0, size, 50) for size in THREE.shape))


@pytest.mark.slow
@pytest.mark.parametrize("name", MIXTURES)
def test_a_mixture_of_products_is_found(name: str) -> None:
    """Six products can be these two.

    Training ends where noise would explain what is left. With a sigma of 0.02 records in each of
    twelve cells that is a thousandth of 256 records, and the bound five of them.
    """
    private, workload = two_products(), Workload.all_k_way(THREE, 3)
    settings = {"components": 6, "rounds": 2, "iterations": 400, "threshold": 0.0}
    made = limit(name, private, unrelated(), workload, **settings, **MIXTURES[name])
    assert error(private, made.model, workload) < 0.005


def squares(tables: list[np.ndarray], measured: list[tuple[Clique, np.ndarray]]) -> float:
    """Return the sum of the squared errors of a product's answers."""
    at = dict(zip(THREE.names, tables, strict=True))
    total = 0.0
    for clique, wanted in measured:
        answer = np.ones(())
        for name in clique:
            answer = np.multiply.outer(answer, at[name])
        total += float(((answer - wanted) ** 2).sum())
    return total


@pytest.mark.slow
@pytest.mark.parametrize("name", MIXTURES)
def test_one_product_is_the_best_one(name: str) -> None:
    """Where the table is no product, and there is but one, it is the one with the least squares.

    That is of the marginals measured, each as often as it was. The logits of the best one come
    from scipy, the best of five starts: this is no convex problem. Squares agree to a millionth,
    and probabilities to the root of that.
    """
    private, workload = drawn(THREE, 2000, uneven(THREE, 2), 2), Workload.all_k_way(THREE, 2)
    settings = {"components": 1, "rounds": 4, "iterations": 400, "threshold": 0.0}
    made = limit(name, private, unrelated(), workload, **settings, **MIXTURES[name])
    measured = [
        (one.clique, private.marginal(one.clique) / private.records)
        for one in made.transcript.measurements
    ]
    ends = np.cumsum(THREE.shape)[:-1]

    def product(logits: np.ndarray) -> list[np.ndarray]:
        odds = [np.exp(part - part.max()) for part in np.split(logits, ends)]
        return [one / one.sum() for one in odds]

    starts = np.random.default_rng(0).standard_normal((5, sum(THREE.shape)))
    found = [
        scipy.optimize.minimize(lambda x: squares(product(x), measured), start) for start in starts
    ]
    best = min(found, key=lambda one: float(one.fun))
    assert isinstance(made.model, ProductMixture)
    trained = [table[0] for table in made.model.tables]
    assert squares(trained, measured) == pytest.approx(best.fun, rel=1e-6)
    assert best.fun > 0.01
    for one, other in zip(trained, product(best.x), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-3)
    # It is not the product of the single attributes, which lowers other errors.
    singles = [private.marginal((name,)) / private.records for name in THREE.names]
    assert squares(singles, measured) > 1.1 * best.fun
