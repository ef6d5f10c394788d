"""The fitted model: marginals, sampling, saving."""

from __future__ import annotations

import numpy as np
import pytest

from jam_dagster.errors import InputError
from jam_dagster.mechanisms import FittedModel
from jam_dagster.tables import Domain
from jam_dagster.tables.domain import ImpossibleCombination


@pytest.fixture
def model(domain):
    rng = np.random.default_rng(0)
    return FittedModel(
        domain,
        1000.0,
        {("a", "b"): rng.normal(0, 1, (2, 3)), ("b", "c"): rng.normal(0, 1, (3, 2))},
    )


def test_marginals_sum_to_the_total_and_follow_the_order_asked(model):
    joint = model.marginal(("a", "b", "c"))
    assert joint.sum() == pytest.approx(1000)
    np.testing.assert_allclose(model.marginal(("c", "a")), joint.sum(axis=1).T)
    np.testing.assert_allclose(model.marginal(("b",)), joint.sum(axis=(0, 2)))


def test_uniform_model_spreads_evenly(domain):
    np.testing.assert_allclose(FittedModel.uniform(domain, 12).marginal(("a", "b")), 2)


@pytest.mark.parametrize("names", [("a", "z"), ("a", "a")])
def test_bad_attributes_are_named(model, names):
    with pytest.raises(InputError, match=names[1]):
        model.marginal(names)


def test_too_large_an_answer_is_refused_before_it_is_computed():
    domain = Domain.from_sizes({f"x{i}": 100 for i in range(6)})
    with pytest.raises(InputError, match="fewer attributes"):
        FittedModel.uniform(domain, 1).marginal(domain.names)


def test_impossible_combinations_have_no_mass_and_are_never_sampled(domain):
    combination = ImpossibleCombination(("a", "b"), ((0,), (1, 2)))
    constrained = Domain(domain.attributes, impossible=(combination,))
    model = FittedModel(constrained, 100.0, {("b", "c"): np.zeros((3, 2))})
    forbidden = model.marginal(("a", "b"))[0, 1:]
    np.testing.assert_array_equal(forbidden, 0)
    assert model.tree.cells == 2 * 3 + 3 * 2
    rows = model.sample(5000, np.random.default_rng(1))
    np.testing.assert_array_equal(rows.marginal(("a", "b"))[0, 1:], 0)
    assert (rows.marginal(("a", "b"))[1] > 0).all()


def test_saved_model_answers_the_same(model, tmp_path):
    model.save(tmp_path / "model")
    loaded = FittedModel.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.marginal(("a", "c")), model.marginal(("a", "c")))
    assert loaded.domain.digest == model.domain.digest
    assert loaded.cliques == model.cliques


def test_loading_an_empty_folder_says_so(tmp_path):
    with pytest.raises(InputError, match=r"model\.json"):
        FittedModel.load(tmp_path)


def test_sampling_rounds_as_closely_as_rows_allow(model):
    """A cell takes all of its whole strata, and may miss or take the two that it shares."""
    rows = model.sample(1000, np.random.default_rng(2))
    root = ("a", "b")
    assert np.abs(rows.marginal(root) - model.marginal(root)).max() < 2
    # The cells of a value of a lie in a row, as one cell would.
    assert np.abs(rows.marginal(("a",)) - model.marginal(("a",))).max() < 2
    # Within each b the rows divide c anew.
    assert np.abs(rows.marginal(("b", "c")) - model.marginal(("b", "c"))).max() < 5
    # a and c are independent within each b: the sd is below 16 rows, six of them fail once in 5e8.
    assert np.abs(rows.marginal(("a", "c")) - model.marginal(("a", "c"))).max() < 96


def test_sampling_is_not_tuned_to_the_period_of_an_attribute():
    """With as many rows as values of x, evenly spaced points would all have one value of a."""
    domain = Domain.from_sizes({"x": 1000, "a": 2})
    model = FittedModel(domain, 1000.0, {("x", "a"): np.zeros((1000, 2))})
    rows = model.sample(1000, np.random.default_rng(0))
    # Binomial of 1,000: the sd is 16, six of them fail once in 5e8.
    assert abs(rows.marginal(("a",))[0] - 500) < 96
    np.testing.assert_array_equal(rows.marginal(("x",)), 1)


def test_sampling_covers_single_rows_and_other_totals(model):
    assert model.sample(1, np.random.default_rng(0)).records == 1
    rows = model.sample(10_000, np.random.default_rng(0))
    share = rows.marginal(("a", "b", "c")) / 10_000
    # The standard deviation of a share is below 0.005: six of them fail once in 5e8.
    np.testing.assert_allclose(share, model.marginal(("a", "b", "c")) / 1000, atol=0.03)


def test_rows_come_in_random_order(model):
    first, second = (model.sample(500, np.random.default_rng(s)).column("a") for s in (0, 1))
    assert not np.array_equal(first, second)
    # Sorted rows would put every a = 0 first.
    changes = np.count_nonzero(np.diff(first.astype(int)))
    assert changes > 20


def test_sampling_no_rows_is_refused(model):
    with pytest.raises(InputError, match="at least 1"):
        model.sample(0, np.random.default_rng(0))
