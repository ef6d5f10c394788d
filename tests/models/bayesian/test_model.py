"""A Bayesian network: conditional tables by hand, marginals, rows, storage."""

from __future__ import annotations

import numpy as np
import pytest

from jam_dagster.errors import InputError
from jam_dagster.models.bayesian import model as module
from jam_dagster.models.bayesian.model import BayesianNetwork
from jam_dagster.tables import Domain
from tests.tiers import slow

SIZES = {"a": 2, "b": 3, "c": 2, "d": 2}
DOMAIN = Domain.from_sizes(SIZES)


def network(seed: int = 0) -> BayesianNetwork:
    """Return b, then c given b, then a given b and c; d is uniform."""
    rng = np.random.default_rng(seed)
    families = [("b",), ("b", "c"), ("b", "c", "a")]
    shapes = [[SIZES[name] for name in family] for family in families]
    tables = [rng.dirichlet(np.ones(shape[-1]), shape[:-1]) for shape in shapes]
    return BayesianNetwork(DOMAIN, 600.0, dict(zip(families, tables, strict=True)))


def joint(model: BayesianNetwork) -> np.ndarray:
    """Return the expected counts of all cells, of the axes a, b, c, d."""
    b, c, a = model.conditionals.values()
    whole: np.ndarray = 600.0 * np.einsum("b,bc,bca,d->abcd", b, c, a, np.full(2, 0.5))
    return whole


def test_a_measured_marginal_gives_conditional_probabilities() -> None:
    empty = BayesianNetwork(DOMAIN, 10.0, {})
    first = empty.given("a", ("a",), np.array([3.0, 1.0]))
    assert first.conditionals["a",].tolist() == [0.75, 0.25]
    counts = np.array([[6.0, 3.0, 1.0], [-2.0, 5.0, 0.0]])
    below = first.given("b", ("a", "b"), counts)
    assert below.conditionals["a", "b"].tolist() == [[0.6, 0.3, 0.1], [0.0, 1.0, 0.0]]
    # The axis of the attribute comes last, and parents without a count have an even child.
    above = empty.given("b", ("b",), np.ones(3)).given("a", ("a", "b"), counts - 3.0)
    assert above.conditionals["b", "a"].tolist() == [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]
    assert above.cliques == (("b",), ("a", "b"))


@pytest.mark.parametrize("exact", [True, *slow(False)])
def test_marginals_are_those_of_the_whole_distribution(
    exact: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not exact:
        monkeypatch.setattr(module, "EXACT_MB", 1e-6)
    model = network()
    whole = joint(model)
    # d is drawn by itself: of 2^20 rows a cell of 120 records has a standard deviation below 0.2.
    apart = 1e-9 if exact else 1.2
    wanted = {
        ("a",): whole.sum((1, 2, 3)),
        ("c", "a"): whole.sum((1, 3)).T,
        ("a", "b", "c", "d"): whole,
        (): np.array(600.0),
    }
    for names, answer in model.marginals(wanted).items():
        assert answer.shape == wanted[names].shape
        np.testing.assert_allclose(answer, wanted[names], atol=apart)
        assert answer.sum() == pytest.approx(600.0)


def test_counts_do_not_depend_on_what_was_asked_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EXACT_MB", 0)
    monkeypatch.setattr(module, "COUNTED_ROWS", 2**10)
    grown = BayesianNetwork(DOMAIN, 600.0, {})
    counts = joint(network())
    # a is uniform when it is first asked for.
    assert grown.marginal(("a",)).tolist() == [300.0, 300.0]
    for name, clique, axes in [("b", "b", (0, 2, 3)), ("c", "bc", (0, 3)), ("a", "abc", (3,))]:
        grown = grown.given(name, tuple(clique), counts.sum(axes))
        grown.marginal(tuple(clique))
    afresh = BayesianNetwork(DOMAIN, 600.0, grown.conditionals)
    for names in (("a", "d"), ("a", "b", "c"), ("d",)):
        np.testing.assert_array_equal(afresh.marginal(names), grown.marginal(names))
    assert grown.marginal(("a",))[0] != 300.0


def test_a_network_of_a_large_junction_tree_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COUNTED_ROWS", 2**10)
    domain = Domain.from_sizes({str(number): 2 for number in range(60)})
    rng = np.random.default_rng(0)
    tables: dict[tuple[str, ...], np.ndarray] = {}
    for number, name in enumerate(domain.names):
        parents = sorted(rng.choice(number, min(number, 4), replace=False).tolist())
        family = (*map(str, parents), name)
        tables[family] = rng.dirichlet(np.ones(2), [2] * len(parents))
    model = BayesianNetwork(domain, 1000.0, tables)
    assert model._exact is None
    last = model.marginal(domain.names[-2:])
    # Of 1,024 rows.
    np.testing.assert_array_equal(last * 1.024, np.rint(last * 1.024))
    assert last.sum() == pytest.approx(1000.0)
    np.testing.assert_array_equal(
        last, BayesianNetwork(domain, 1000.0, tables).marginal(domain.names[-2:])
    )


@pytest.mark.parametrize("rows", [1, 7, 20_000])
def test_rows_follow_the_tables(rows: int) -> None:
    model = network()
    table = model.sample(rows, np.random.default_rng(1))
    assert table.records == rows
    # Each of at most six groups of parents rounds its cells by two at most.
    for names in (("b",), ("b", "c"), ("a", "b", "c")):
        wanted = model.marginal(names) * rows / 600.0
        assert np.abs(table.marginal(names) - wanted).max() <= 6


def test_values_without_probability_are_not_sampled() -> None:
    counts = np.array([[5.0, 0.0, -1.0], [0.0, 2.0, 0.0]])
    model = BayesianNetwork(DOMAIN, 10.0, {}).given("a", ("a",), np.array([1.0, 2.0]))
    model = model.given("b", ("a", "b"), counts)
    found = model.sample(3000, np.random.default_rng(0)).marginal(("a", "b"))
    assert found.tolist() == [[1000, 0, 0], [0, 2000, 0]]
    np.testing.assert_allclose(model.marginal(("a", "b")) * 300.0, found)


@pytest.mark.parametrize(
    ("conditionals", "why"),
    [
        ({("a", "b"): np.full((2, 3), 1 / 3), ("a",): np.full(2, 0.5)}, "'a' follows"),
        ({("a",): np.full(2, 0.5), ("b", "a"): np.full((3, 2), 0.5)}, "'a' follows"),
        ({("a", "a"): np.full((2, 2), 0.5)}, "'a' follows"),
        ({("a",): np.full(3, 1 / 3)}, "does not fit"),
        ({("a",): np.array([1.5, -0.5])}, "no distributions"),
        ({("a",): np.array([0.5, 0.6])}, "no distributions"),
        ({("a",): np.array([np.nan, 1.0])}, "no distributions"),
    ],
)
def test_what_is_no_network_is_refused(
    conditionals: dict[tuple[str, ...], np.ndarray], why: str
) -> None:
    with pytest.raises(InputError, match=why):
        BayesianNetwork(DOMAIN, 1.0, conditionals)
