"""Residuals by hand, and by the matrices of the papers."""

from __future__ import annotations

import math
from functools import reduce

import numpy as np
import pytest

from jam_dagster.mechanisms.loops.residuals import (
    LARGEST_FACTOR,
    LEAST_SCALE,
    Strategy,
    centred,
    integer_residual,
    squared_norm,
    subsets,
)

PAIR = {"a": 2, "b": 3}
BINARY = {"a": 2, "b": 2, "c": 2}
ADULT = {
    f"a{place}": size
    for place, size in enumerate((85, 9, 100, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42, 2))
}
"""The Adult table of the authors of Private-PGM, and of ResidualPlanner."""


def best(sizes, *cliques):
    parts = list(dict.fromkeys(part for clique in cliques for part in subsets(clique)))
    return Strategy.best(sizes, dict.fromkeys(cliques, 1.0), parts)


def error(strategy, *cliques):
    """Return the sum of the variances of all cells."""
    cells = [math.prod(strategy.sizes[name] for name in clique) for clique in cliques]
    pairs = zip(cells, cliques, strict=True)
    return sum(one * strategy.cell_variance(clique) for one, clique in pairs)


def cost(strategy):
    """Return what the residuals cost together where a record comes or goes."""
    return sum(squared_norm(strategy.sizes, part) / one for part, one in strategy.variances.items())


def test_one_marginal_is_measured_as_it_is():
    strategy = best(PAIR, ("a", "b"))
    assert strategy.variances == pytest.approx({(): 6, ("a",): 3, ("b",): 2, ("a", "b"): 1})
    assert error(strategy, ("a", "b")) == pytest.approx(6)
    assert cost(strategy) == pytest.approx(1)
    # A cell has the noise that plain Gaussian noise of cost 1 would have.
    assert strategy.cell_variance(("a", "b")) == pytest.approx(1)


def test_two_attributes_share_the_number_of_records():
    strategy = best(PAIR, ("a",), ("b",))
    wanted = {(): 3.0395, ("a",): 1.9620, ("b",): 1.6020}
    assert strategy.variances == pytest.approx(wanted, abs=5e-5)
    # Two plain marginals of half the budget have 9.8990.
    assert error(strategy, ("a",), ("b",)) == pytest.approx(7.6988, abs=5e-5)
    assert cost(strategy) == pytest.approx(1)


def test_three_pairs_of_binary_attributes_cost_little_more_than_half():
    pairs = ("a", "b"), ("a", "c"), ("b", "c")
    assert error(best(BINARY, *pairs), *pairs) == pytest.approx(20.1363, abs=5e-5)


@pytest.mark.parametrize(("degree", "wanted"), [(1, 3.047), (2, 6.359), (3, 10.515)])
def test_the_papers_errors_on_adult(degree, wanted):
    cliques = [clique for clique in subsets(tuple(ADULT)) if len(clique) == degree]
    strategy = best(ADULT, *cliques)
    cells = sum(math.prod(ADULT[name] for name in clique) for clique in cliques)
    root = math.sqrt(error(strategy, *cliques) / cells)
    assert root == pytest.approx(wanted, abs=5e-4)


def test_no_other_strategy_of_the_same_cost_has_a_smaller_error():
    cliques = ("a", "b"), ("c",)
    sizes, weights = {"a": 4, "b": 3, "c": 2}, (1.0, 5.0)
    wanted = dict(zip(cliques, weights, strict=True))
    parts = [part for part in subsets(("a", "b", "c")) if part in {("c",), *subsets(("a", "b"))}]

    def whole(strategy):
        return sum(weight * error(strategy, clique) for clique, weight in wanted.items())

    chosen = Strategy.best(sizes, wanted, parts)
    rng = np.random.default_rng(0)
    for _ in range(200):
        tried = {part: one * rng.uniform(0.8, 1.25) for part, one in chosen.variances.items()}
        dearer = cost(Strategy(sizes, tried))
        other = Strategy(sizes, {part: one * dearer for part, one in tried.items()})
        assert cost(other) == pytest.approx(1)
        assert whole(other) > whole(chosen)


def test_residuals_are_those_of_the_papers_matrices():
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 50, (2, 3, 4))
    less_means = [np.eye(n) - 1 / n for n in counts.shape]
    matrix = reduce(np.kron, less_means)
    wanted = (matrix @ counts.ravel()).reshape(counts.shape)
    np.testing.assert_allclose(centred(counts), wanted, atol=1e-12)
    np.testing.assert_allclose(integer_residual(counts), wanted * 24, atol=1e-9)
    np.testing.assert_array_equal(integer_residual(counts, 7), 7 * integer_residual(counts))
    assert integer_residual(counts, 7).dtype == np.int64
    # Scaled tables never overflow.
    many = np.array([2**40, 0])
    np.testing.assert_array_equal(integer_residual(many, 2**30), [2**62, -(2**62)])


def test_scales_keep_the_proportions_of_noise():
    names = tuple(ADULT)
    triples = [clique for clique in subsets(names) if len(clique) == 3]
    strategy = best(ADULT, *triples)
    scales = strategy.scales()
    assert min(scales.values()) == LEAST_SCALE
    rounded = Strategy.of_scales(ADULT, scales)
    factors = [1 / math.sqrt(one) for one in rounded.variances.values()]
    assert max(factors) < LARGEST_FACTOR
    # For the same price the errors are hardly larger.
    dearer = error(rounded, *triples) * cost(rounded)
    assert 1.0 <= dearer / error(strategy, *triples) < 1.001


def test_no_factor_is_too_large_whatever_the_weights():
    sizes = {"a": 2, "b": 4096, "c": 4096}
    wanted = {("a",): 1e18, ("b", "c"): 1.0}
    parts = [("a",), ("b",), ("c",), ("b", "c")]
    strategy = Strategy.best(sizes, wanted, parts)
    rounded = Strategy.of_scales(sizes, strategy.scales())
    assert min(strategy.scales().values()) >= 1
    assert min(rounded.variances.values()) == pytest.approx(LARGEST_FACTOR**-2)


def test_the_residual_of_a_record_has_the_stated_norm():
    record = np.zeros((2, 3, 4))
    record[1, 0, 2] = 1
    norm = (centred(record) ** 2).sum()
    assert norm == pytest.approx(squared_norm({"a": 2, "b": 3, "c": 4}, ("a", "b", "c")))
    assert norm == pytest.approx(1 / 2 * 2 / 3 * 3 / 4)


def test_a_marginal_is_the_sum_of_its_residuals():
    sizes = {"a": 2, "b": 3, "c": 4}
    counts = np.random.default_rng(1).integers(0, 50, (2, 3, 4)).astype(float)
    names = tuple(sizes)
    residuals = {
        part: centred(counts.sum(axis=tuple(names.index(n) for n in names if n not in part)))
        for part in subsets(names)
    }
    strategy = best(sizes, names)
    np.testing.assert_allclose(strategy.reconstructed(residuals, names), counts)
    np.testing.assert_allclose(strategy.reconstructed(residuals, ("a", "c")), counts.sum(axis=1))


def test_cells_have_the_variance_that_is_stated():
    strategy, clique = best(PAIR, ("a",), ("b",), ("a", "b")), ("a", "b")
    rng = np.random.default_rng(0)
    tables = []
    for _ in range(4_000):
        drawn = {
            part: centred(rng.normal(0, math.sqrt(one), [PAIR[name] for name in part]))
            for part, one in strategy.variances.items()
        }
        tables.append(strategy.reconstructed(drawn, clique))
    # 24,000 values: the mean square is off by more than a tenth with a chance below 1e-20.
    assert np.var(tables) == pytest.approx(strategy.cell_variance(clique), rel=0.1)
