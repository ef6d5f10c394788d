"""The mixture of products against brute force, and what it samples and stores."""

from __future__ import annotations

import numpy as np
import pytest

from jam_dagster.errors import InputError
from jam_dagster.models.mixture.answers import expected, pulled_back
from jam_dagster.models.mixture.model import ProductMixture
from jam_dagster.tables import Domain, Workload

SIZES = {"a": 2, "b": 5, "c": 3, "d": 4}


def probabilities(rng: np.random.Generator, rows: int, size: int) -> np.ndarray:
    return rng.dirichlet(np.full(size, 0.3), rows)


@pytest.fixture
def mixture() -> ProductMixture:
    rng = np.random.default_rng(0)
    tables = tuple(probabilities(rng, 7, size) for size in SIZES.values())
    return ProductMixture(Domain.from_sizes(SIZES), 500.0, tables, (("a", "b"),))


def joint(mixture: ProductMixture) -> np.ndarray:
    """Return the whole distribution, in counts, component by component."""
    whole = np.zeros(tuple(SIZES.values()))
    for k in range(mixture.components):
        a, b, c, d = (table[k] for table in mixture.tables)
        whole += (
            a[:, None, None, None]
            * b[None, :, None, None]
            * c[None, None, :, None]
            * d[None, None, None, :]
        )
    return whole * mixture.total / mixture.components


def test_every_marginal_is_that_of_the_whole_distribution(mixture: ProductMixture) -> None:
    whole, names = joint(mixture), tuple(SIZES)
    for degree in (1, 2, 3, 4):
        for clique in Workload.all_k_way(mixture.domain, degree).cliques:
            left_out = tuple(place for place, name in enumerate(names) if name not in clique)
            np.testing.assert_allclose(mixture.marginal(clique), whole.sum(axis=left_out))
    np.testing.assert_allclose(
        mixture.marginal(("d", "a")), np.einsum("abcd->da", whole), rtol=1e-12
    )
    assert mixture.marginal(()) == 500.0


def test_rows_are_gone_through_in_blocks(
    mixture: ProductMixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = mixture.marginal(tuple(SIZES))
    direction = np.random.default_rng(1).normal(size=whole.shape)
    at_once = pulled_back(mixture.tables, direction)
    monkeypatch.setattr("jam_dagster.models.mixture.answers._BLOCK_CELLS", 50)
    np.testing.assert_allclose(mixture.marginal(tuple(SIZES)), whole)
    for block, one in zip(pulled_back(mixture.tables, direction), at_once, strict=True):
        np.testing.assert_allclose(block, one)


@pytest.mark.parametrize("degree", [1, 2, 3, 4])
def test_gradients_are_those_of_finite_differences(mixture: ProductMixture, degree: int) -> None:
    # The marginal is linear in each table, so a difference is the derivative itself.
    tables = list(mixture.tables[:degree])
    rng = np.random.default_rng(degree)
    direction = rng.normal(size=[table.shape[1] for table in tables])
    found = pulled_back(tables, direction)
    for place, table in enumerate(tables):
        move = rng.normal(size=table.shape)
        moved = [table + move if at == place else other for at, other in enumerate(tables)]
        change = float(np.vdot(direction, expected(moved) - expected(tables)))
        assert np.vdot(found[place], move) == pytest.approx(change, rel=1e-9)


@pytest.mark.parametrize("rows", [3, 7, 100, 40_000])
def test_samples_follow_the_model(mixture: ProductMixture, rows: int) -> None:
    table = mixture.sample(rows, np.random.default_rng(2))
    assert table.records == rows
    if rows > 7:
        # Systematic sampling: within one of the expectation in each of seven components.
        share = rows / mixture.total
        for name in SIZES:
            apart = table.marginal((name,)) - mixture.marginal((name,)) * share
            assert np.abs(apart).max() <= 7 + 7 * share
    if rows == 40_000:
        whole = tuple(SIZES)
        apart = np.abs(table.marginal(whole) / rows - mixture.marginal(whole) / 500).sum()
        # 120 cells: independent rows would be sqrt(2 / pi) sqrt(p / n) off in each, 0.04 at most.
        assert apart < 0.05


def test_what_has_no_probability_is_never_sampled() -> None:
    one = np.array([[0.0, 0.3, 0.7, 0.0]])
    mixture = ProductMixture(Domain.from_sizes({"a": 4}), 1.0, (one,))
    assert set(mixture.sample(5000, np.random.default_rng(0)).columns[0]) == {1, 2}


def test_what_is_no_mixture_is_refused(mixture: ProductMixture) -> None:
    with pytest.raises(InputError, match="a distribution"):
        ProductMixture(mixture.domain, 1.0, tuple(2 * table for table in mixture.tables))
    with pytest.raises(InputError, match="a table"):
        ProductMixture(mixture.domain, 1.0, mixture.tables[:2])
    with pytest.raises(InputError, match="repeated"):
        mixture.marginal(("a", "a"))
    with pytest.raises(InputError, match="no attribute"):
        mixture.marginal(("z",))
    with pytest.raises(InputError, match="at least 1"):
        mixture.sample(0, np.random.default_rng(0))
