"""What mechanisms come to with all the budget there is: the truth, or the best of their class.

What they should come to is worked out here, from the private table and scipy alone. Runs are given
the largest rho that is accepted, 9000: with so many rounds as here the noise has a sigma below 0.07
records, and a discrete Gaussian of that is 0 but for one draw in e^100. What is left are the last
digits of the fits. Those that learn from public data are in ``test_public_limits.py``.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

import numpy as np
import pytest
import scipy

from jam_dagster.mechanisms import MechanismResult, make_mechanism
from jam_dagster.privacy import Draws, SeededNoise, UnledgeredAccount
from jam_dagster.tables import Clique, Domain, EncodedTable, MarginalSource, Workload
from tests.tiers import first_quick, slow, slow_rows

FOUR = Domain.from_sizes({"a": 2, "b": 3, "c": 2, "d": 3})
FIVE = Domain.from_sizes({"a": 2, "b": 3, "c": 2, "d": 3, "e": 2})

TRUE = {
    "aim": {"rounds": 8, "iterations": 3000, "tolerance": 0.0},
    "jam_pgm": {"rounds": 6, "iterations": 3000, "tolerance": 0.0},
    "mwem_pgm": {"rounds": 6, "iterations": 3000, "tolerance": 0.0},
    "mwem": {"rounds": 6, "passes": 300},
    "pep": {"rounds": 6, "iterations": 2000, "gamma": 0.0},
}
"""Mechanisms that can hold any table, with settings whose fits take no account of noise."""


def limit(
    name: str, private: EncodedTable, public: EncodedTable | None, workload: Workload, **settings
) -> MechanismResult:
    """Run a mechanism with all the budget there is."""
    draws = Draws(SeededNoise(4), UnledgeredAccount(9000.0))
    return make_mechanism(name, **settings).run(private, public, workload, draws)


def drawn(domain: Domain, records: int, frequencies: np.ndarray, seed: int) -> EncodedTable:
    """Draw a table of independent records."""
    cells = np.random.default_rng(seed).choice(frequencies.size, records, p=frequencies.ravel())
    return EncodedTable(domain, np.unravel_index(cells, domain.shape))


def uneven(domain: Domain, seed: int, *, least: float = 0.0) -> np.ndarray:
    """Return frequencies in which every attribute has to do with every other."""
    cells = int(np.prod(domain.shape))
    frequencies = np.random.default_rng(seed).dirichlet(np.full(cells, 0.3))
    return (least + (1 - cells * least) * frequencies).reshape(domain.shape)


def full(seed: int) -> EncodedTable:
    """Return a table with records in all its 36 cells.

    Multiplicative weights take a cell of frequency p to what it should be like ``exp(-p t / 2)``,
    and an empty one like 1 / t.
    """
    return drawn(FOUR, 20_000, uneven(FOUR, seed, least=0.012), seed)


def error(private: MarginalSource, answers: MarginalSource, workload: Workload) -> float:
    """Return the mean over the workload of ``||q(D) - q(answers)||_1 / n``."""
    apart = (private.marginal(q) - answers.marginal(q) for q in workload.cliques)
    return float(np.mean([np.abs(one).sum() for one in apart])) / private.records


def sampling_floor(private: MarginalSource, workload: Workload) -> float:
    """Return the expected error of n independent draws from the private table.

    The count of a cell is binomial; its mean absolute deviation is de Moivre's, exactly.
    """
    n = private.records
    expected = []
    for clique in workload.cliques:
        counts = private.marginal(clique).ravel().astype(float)
        counts = counts[(counts > 0) & (counts < n)]
        # The probability of the first count above the mean.
        above = np.floor(counts) + 1
        logs = (
            scipy.special.gammaln(n + 1)
            - scipy.special.gammaln(above + 1)
            - scipy.special.gammaln(n - above + 1)
        )
        logs += above * np.log(counts / n) + (n - above) * np.log1p(-counts / n)
        expected.append(float((2 * above * (1 - counts / n) * np.exp(logs)).sum()))
    return float(np.mean(expected)) / n


@pytest.mark.parametrize("degree", [3, *slow(4)])
@pytest.mark.parametrize("name", first_quick(TRUE))
def test_the_sampling_floor_is_reached(name: str, degree: int) -> None:
    """What is wrong with the table is that it has whole rows, and nothing else.

    - The model: 1e-4 of the records is a hundredth of the floor. Fits end below a tenth of it.
    - The table: samplers stratify, so that each cell of the joint distribution is within two rows
      of its expectation. That beats independent draws.
    """
    private = full(seed=0)
    public = drawn(FOUR, 500, np.full(FOUR.shape, 1 / 36), seed=2)
    workload = Workload.all_k_way(FOUR, degree)
    made = limit(name, private, public, workload, **TRUE[name])
    floor = sampling_floor(private, workload)
    assert error(private, product_of(private), workload) > 5 * floor
    assert error(private, made.model, workload) < 1e-4 < floor / 100
    sampled = made.model.sample(private.records, np.random.default_rng(0))
    rounding = 2 * 36 / private.records
    assert error(private, sampled, workload) < min(floor, rounding + 1e-4)


def test_the_floor_is_that_of_drawn_tables() -> None:
    """Six deviations of the mean of 400 tables: 2 in 10^9 means are further off."""
    private, workload = Joint(FOUR, full(seed=0).marginal(FOUR.names)), Workload.all_k_way(FOUR, 3)
    frequencies = private.counts / private.records
    tables = np.random.default_rng(0).multinomial(private.records, frequencies.ravel(), size=400)
    errors = [error(private, Joint(FOUR, t.reshape(FOUR.shape)), workload) for t in tables]
    apart = sampling_floor(private, workload) - np.mean(errors)
    assert abs(apart) < 6 * np.std(errors) / 20 < 0.05 * np.mean(errors)


def test_gaussian_answers_are_true() -> None:
    """The noise is 0, and nothing is fitted: the true counts, but for rounding."""
    private, workload = full(seed=0), Workload.all_k_way(FOUR, 3)
    model = limit("gaussian", private, None, workload).model
    for clique in workload.downward_closure():
        np.testing.assert_allclose(model.marginal(clique), private.marginal(clique), atol=1e-9)


class Joint:
    """Marginals of a joint distribution, in counts."""

    def __init__(self, domain: Domain, counts: np.ndarray) -> None:
        self.domain = domain
        self.counts = counts

    @property
    def records(self) -> int:
        return round(float(self.counts.sum()))

    def marginal(self, names: Iterable[str]) -> np.ndarray:
        names = tuple(names)
        away = tuple(i for i, name in enumerate(self.domain.names) if name not in names)
        return np.asarray(self.counts.sum(axis=away))

    def marginals(self, cliques: Iterable[Clique]) -> dict[Clique, np.ndarray]:
        return {clique: self.marginal(clique) for clique in cliques}


def tree_of(private: EncodedTable, edges: Iterable[Clique]) -> np.ndarray:
    """Return the pairs' marginals multiplied, over the attributes' between them, in counts."""
    names, n = private.domain.names, private.records
    joint = np.ones(private.domain.shape)
    degree = dict.fromkeys(names, 0)
    for edge in edges:
        joint = joint * spread(names, edge, private.marginal(edge) / n)
        for name in edge:
            degree[name] += 1
    for name, times in degree.items():
        joint = joint / spread(names, (name,), private.marginal((name,)) / n) ** (times - 1)
    return joint * n


def spread(names: Clique, clique: Clique, table: np.ndarray) -> np.ndarray:
    """Return a marginal with an axis for each attribute."""
    return np.expand_dims(table, [i for i, name in enumerate(names) if name not in clique])


def product_of(private: EncodedTable) -> Joint:
    """Return the product of the one-way marginals: of trees, the one without an edge."""
    return Joint(private.domain, tree_of(private, []))


def test_independent_is_the_product_of_the_attributes() -> None:
    """But for a hundredth of a record in a cell, where the fit ends."""
    private = full(seed=0)
    workload = Workload.all_k_way(FOUR, 2)
    model = limit("independent", private, None, workload, tolerance=0.0).model
    wanted = product_of(private).counts
    np.testing.assert_allclose(model.marginal(FOUR.names), wanted, atol=0.01)


def chain(seed: int) -> np.ndarray:
    """Return frequencies by which each attribute of five follows from the one before."""
    rng = np.random.default_rng(seed)
    joint = rng.dirichlet(np.full(2, 3.0))
    for before, size in zip(FIVE.shape, FIVE.shape[1:], strict=False):
        # The nearer to one value, the more an attribute tells of the next.
        joint = joint[..., None] * rng.dirichlet(np.full(size, 0.5), size=before)
    return joint


def log_likelihood(private: EncodedTable, edges: Iterable[Clique]) -> float:
    """Return how likely the records are by a tree."""
    counts, joint = private.marginal(private.domain.names), tree_of(private, edges)
    seen = counts > 0
    return float((counts[seen] * np.log(joint[seen] / private.records)).sum())


def from_independence(private: EncodedTable, edges: Iterable[Clique]) -> float:
    """Return how far a tree's pairs are from independence, in L1, which MST scores edges by."""
    product = product_of(private)
    return sum(
        float(np.abs(private.marginal(edge) - product.marginal(edge)).sum()) for edge in edges
    )


def all_trees(names: Clique) -> list[tuple[Clique, ...]]:
    """Return the spanning trees of attributes: of n there are n^(n - 2)."""
    pairs = list(combinations(names, 2))
    trees = []
    for edges in combinations(pairs, len(names) - 1):
        near = np.zeros((len(names), len(names)))
        for one, other in edges:
            near[names.index(one), names.index(other)] = 1
        if scipy.sparse.csgraph.connected_components(near, directed=False)[0] == 1:
            trees.append(edges)
    return trees


@pytest.mark.parametrize(
    ("frequencies", "best"),
    [
        (chain(0), log_likelihood),
        (uneven(FIVE, 1), from_independence),
        *slow_rows((chain(1), log_likelihood), (uneven(FIVE, 2), from_independence)),
    ],
)
def test_mst_is_the_best_tree(frequencies, best) -> None:
    """Where there is a tree to be found, it is that of maximum likelihood, of all 125.

    MST scores pairs by L1 and not by mutual information, as Chow and Liu do. On a table of no
    tree's the two may differ, and it is the tree whose pairs are furthest from independence.
    Of 4000 records the fit leaves a fifth in a cell at most.
    """
    private = drawn(FIVE, 4000, frequencies, seed=3)
    made = limit("mst", private, None, Workload.all_k_way(FIVE, 2), tolerance=0.0, iterations=2000)
    trees = all_trees(FIVE.names)
    assert len(trees) == 125
    edges = max(trees, key=lambda tree: best(private, tree))
    assert {one.clique for one in made.transcript.rounds[5:]} == set(edges)
    np.testing.assert_allclose(made.model.marginal(FIVE.names), tree_of(private, edges), atol=0.2)
