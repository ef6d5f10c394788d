"""Consistent marginals, and records that are updated until they have them, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from jam_dagster.models.measurement import Measurement
from jam_dagster.models.weighted import records as module
from jam_dagster.models.weighted.records import consistent, fit_records
from jam_dagster.tables import Domain, ImpossibleCombination
from jam_dagster.tables.domain.domain import Clique


def measured(clique: Clique, values: np.ndarray, sigma: float = 1.0) -> Measurement:
    return Measurement(clique, "private", np.asarray(values, dtype=float), sigma, 0)


def test_a_shared_attribute_is_the_mean_by_the_variance_of_the_sums() -> None:
    domain = Domain.from_sizes({"a": 2, "b": 2, "c": 8})
    one, other = np.full((2, 2), 25.0), np.full((2, 8), 6.25)
    # b is 60, 40 by the first and 40, 60 by the second.
    one[:, 0], one[:, 1] = 30, 20
    other[0], other[1] = 5.0, 7.5
    found = consistent(domain, [measured(("a", "b"), one), measured(("b", "c"), other)], 100.0)
    # Sums of two and of eight cells: weights of 1/2 and 1/8, which is 0.8 and 0.2.
    wanted = [0.8 * 60 + 0.2 * 40, 0.8 * 40 + 0.2 * 60]
    assert found["a", "b"].sum(axis=0).tolist() == pytest.approx(wanted)
    assert found["b", "c"].sum(axis=1).tolist() == pytest.approx(wanted)
    # The difference is spread evenly.
    assert found["b", "c"][0].tolist() == pytest.approx([wanted[0] / 8] * 8)


def test_negative_counts_are_taken_from_all_others_alike() -> None:
    domain = Domain.from_sizes({"a": 3})
    found = consistent(domain, [measured(("a",), [5.0, 3.0, -2.0])], 6.0)
    assert found["a",].tolist() == pytest.approx([4.0, 2.0, 0.0])


def test_marginals_agree_and_hold_nobody_in_impossible_cells() -> None:
    impossible = ImpossibleCombination(("a", "b"), ((0,), (1,)))
    domain = Domain.from_sizes({"a": 3, "b": 3, "c": 2})
    domain = Domain(domain.attributes, (impossible,))
    rng = np.random.default_rng(0)
    cliques: list[Clique] = [("a", "b"), ("b", "c"), ("a", "c"), ("b",), ("a", "b", "c")]
    noisy = [measured(q, rng.normal(5, 8, domain.project(q).shape), 8.0) for q in cliques]
    found = consistent(domain, noisy, 100.0)
    for table in found.values():
        assert table.min() >= 0.0
        assert table.sum() == pytest.approx(100.0)
    assert found["a", "b"][0, 1] == 0.0
    for one, other, axis in (("a", "b"), ("b", "c"), 0), (("a", "c"), ("b", "c"), 0):
        assert found[one].sum(axis=axis).sum() == pytest.approx(found[other].sum())
    np.testing.assert_allclose(found["a", "b", "c"].sum(axis=2), found["a", "b"], atol=0.5)


def test_measurements_of_one_marginal_are_averaged_by_their_variance() -> None:
    domain = Domain.from_sizes({"a": 2})
    both = [measured(("a",), [60.0, 40.0], 1.0), measured(("a",), [40.0, 60.0], 2.0)]
    assert consistent(domain, both, 100.0)["a",].tolist() == pytest.approx([56.0, 44.0])


def test_counts_far_beyond_the_total_leave_a_marginal() -> None:
    """Their difference from the total is no float: nothing would be left of them."""
    impossible = ImpossibleCombination(("a",), ((2,),))
    domain = Domain(Domain.from_sizes({"a": 3}).attributes, (impossible,))
    found = consistent(domain, [measured(("a",), [9e18, 9e18, 9e18])], 1.0)
    assert found["a",].tolist() == [0.5, 0.5, 0.0]
    whole = Domain.from_sizes({"a": 2})
    found = consistent(whole, [measured(("a",), [9e18, 9e18])], 1.0)
    assert fit_records(whole, found, 1).records == 1


def test_records_move_to_the_cells_that_lack_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The start is independent: a quarter in each cell; half of the pairs must move."""
    monkeypatch.setattr(module, "PASSES", 1)
    domain = Domain.from_sizes({"a": 2, "b": 2})
    target = np.array([[50.0, 0.0], [0.0, 50.0]])
    after_one = fit_records(domain, {("a", "b"): target}, 100).marginal(("a", "b"))
    assert after_one.sum() == 100
    assert np.abs(after_one - target).sum() <= 4
    monkeypatch.setattr(module, "PASSES", 3)
    again = fit_records(domain, {("a", "b"): target}, 100)
    assert again.marginal(("a", "b")).tolist() == target.tolist()


def test_records_have_several_marginals_at_once() -> None:
    rng = np.random.default_rng(1)
    domain = Domain.from_sizes({"a": 3, "b": 4, "c": 2, "d": 3})
    joint = rng.dirichlet(np.full(72, 0.4)).reshape(3, 4, 2, 3) * 2000
    cliques = {("a", "b"): (2, 3), ("b", "c"): (0, 3), ("c", "d"): (0, 1), ("a", "d"): (1, 2)}
    targets = {clique: joint.sum(axis=axes) for clique, axes in cliques.items()}
    made = fit_records(domain, targets, 2000)
    assert made.records == 2000
    for clique, target in targets.items():
        assert np.abs(made.marginal(clique) - target).sum() < 0.01 * 2000, clique
    same = fit_records(domain, targets, 2000)
    assert all(map(np.array_equal, made.columns, same.columns))


def test_a_single_attribute_is_spread_to_the_next_record() -> None:
    domain = Domain.from_sizes({"a": 3})
    made = fit_records(domain, {("a",): np.array([1.0, 1.0, 2.0])}, 9)
    assert sorted(made.marginal(("a",)).tolist()) == [2, 2, 5]
