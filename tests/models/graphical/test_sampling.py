"""Sampling: whole rows that follow the model, and how closely they do."""

from __future__ import annotations

import numpy as np
import pytest

from jam_dagster.errors import InputError
from jam_dagster.mechanisms import FittedModel
from jam_dagster.models.graphical import sampling
from jam_dagster.models.graphical.junction_tree import JunctionTree
from jam_dagster.models.graphical.sampling import sampling_distance
from jam_dagster.tables import Domain, EncodedTable


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


def test_parts_of_the_model_that_share_nothing_are_sampled_independently():
    """Each part's rows come cell after cell; joined as they come they would be one order."""
    domain = Domain.from_sizes({"a": 2, "b": 2, "c": 2})
    independent = FittedModel(domain, 1.0, {(name,): np.zeros(2) for name in domain.names})
    rows = independent.sample(10_000, np.random.default_rng(0))
    for pair in (("a", "b"), ("a", "c"), ("b", "c")):
        # Hypergeometric: the sd of a cell is 25 rows, six of them fail once in 5e8.
        assert np.abs(rows.marginal(pair) - 2500).max() < 150


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


def grid_model(seed):
    """Four cliques in a ring, so that separators have two attributes and groups are many."""
    domain = Domain.from_sizes({"a": 4, "b": 5, "c": 6, "d": 3, "e": 2})
    rng = np.random.default_rng(seed)
    cliques = [("a", "b", "c"), ("b", "c", "d"), ("a", "d"), ("d", "e")]
    tables = {q: rng.normal(0, 1, [domain.sizes[name] for name in q]) for q in cliques}
    return FittedModel(domain, 1.0, tables)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("where", [{"b": [1, 4]}, {"a": 2, "e": 1}, {"c": [0, 1, 2], "d": 0}])
def test_conditional_samples_follow_the_conditioned_model(seed, where):
    model, rows = grid_model(seed), 40_000
    table = model.sample(rows, np.random.default_rng(seed), where=where)
    for name, values in where.items():
        assert np.isin(table.column(name), values).all()
    conditioned = model.condition(where)
    names = model.domain.names
    expected = conditioned.marginal(names) / conditioned.total
    share = table.marginal(names) / rows
    # Independent draws would have this variance, strata have less. Seven standard deviations and
    # a row's rounding for each clique: of 720 cells one fails once in 5e8.
    bound = 7 * np.sqrt(expected * (1 - expected) / rows) + 10 / rows
    assert (np.abs(share - expected) <= bound).all()
    assert (share[expected == 0] == 0).all()


@pytest.mark.parametrize("rows", [7, 300, 20_000])
def test_going_in_blocks_of_groups_changes_nothing(rows, monkeypatch):
    model = grid_model(4)
    whole = model.sample(rows, np.random.default_rng(1))
    monkeypatch.setattr(sampling, "_BLOCK_CELLS", 10)
    blocked = model.sample(rows, np.random.default_rng(1))
    for one, other in zip(whole.columns, blocked.columns, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("rows", [50, 5000], ids=["fewer rows than cells", "more rows than cells"])
def test_each_value_of_the_first_attribute_has_its_share(rows):
    """However rows and cells compare, a run of cells misses at most the strata at its two ends."""
    domain = Domain.from_sizes({"a": 10, "b": 100})
    table = np.random.default_rng(7).normal(0, 2, (10, 100))
    model = FittedModel(domain, float(rows), {("a", "b"): table})
    sample = model.sample(rows, np.random.default_rng(8))
    assert np.abs(sample.marginal(("a",)) - model.marginal(("a",))).max() < 2
    assert np.abs(sample.marginal(("a", "b")) - model.marginal(("a", "b"))).max() < 2


def test_rows_are_kept_together_by_separators_of_more_than_16_bits():
    """Groups are sorted 16 bits at a time; the two groups here differ in the 17th alone."""
    tree = JunctionTree.build((2, 2**16, 2, 2), [0b0111, 0b1011])
    belief = np.zeros((2, 2**16, 2))
    belief[:, 0] = [[0.2, 0.3], [0.4, 0.1]]
    rows = 2000
    a, b, c, d = sampling.sample_codes(tree, [belief, belief], rows, np.random.default_rng(9))
    assert not b.any()
    for last in (c, d):
        counts = np.bincount(a * 2 + last, minlength=4)
        assert np.abs(counts - rows * belief[:, 0].ravel()).max() < 4


@pytest.mark.skipif(sampling.library() is None, reason="no kernels were compiled")
@pytest.mark.parametrize("rows", [7, 3000], ids=["fewer rows than cells", "more rows than cells"])
def test_the_kernels_choose_the_rows_that_numpy_chooses(rows, monkeypatch):
    """Separators of up to two attributes, one new attribute and several, of 1 and 2 bytes."""
    sizes = (4, 3, 300, 2, 5, 6)
    tree = JunctionTree.build(sizes, [0b000111, 0b001110, 0b011010, 0b100000])
    rng = np.random.default_rng(11)
    beliefs = []
    for mask in tree.masks:
        belief = rng.gamma(0.2, size=[sizes[p] for p in range(6) if mask >> p & 1]) + 1e-6
        belief[..., 0] = 0.0
        beliefs.append(belief)
    monkeypatch.setattr(sampling, "_BLOCK_CELLS", 500)
    fast = sampling.sample_codes(tree, beliefs, rows, np.random.default_rng(12))
    monkeypatch.setattr(sampling, "library", lambda: None)
    slow = sampling.sample_codes(tree, beliefs, rows, np.random.default_rng(12))
    for one, other in zip(fast, slow, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def test_beliefs_in_single_precision_are_summed_in_double():
    """300,000 cells summed in single precision would be off by rows, not by rounding."""
    tree = JunctionTree.build((3, 100_000), [0b11])
    beliefs = [np.full((3, 100_000), 1 / 300_000, dtype=np.float32)]
    columns = sampling.sample_codes(tree, beliefs, 300_000, np.random.default_rng(0))
    assert np.abs(np.bincount(columns[0]) - 100_000).max() < 2


def test_codes_are_small_and_follow_the_generator(model):
    first, again = (model.sample(100, np.random.default_rng(5)) for _ in range(2))
    for one, other in zip(first.columns, again.columns, strict=True):
        assert one.dtype == np.uint8
        np.testing.assert_array_equal(one, other)


def test_sampling_error_is_the_distance_in_the_measured_marginals(domain, model):
    codes = np.random.default_rng(1).integers(0, 2, (3, 50))
    table = EncodedTable(domain, tuple(codes))
    distances = [
        np.abs(table.marginal(clique) / 50 - model.marginal(clique) / 1000).sum()
        for clique in (("a", "b"), ("b", "c"))
    ]
    found = sampling_distance(model, table)
    assert found == pytest.approx((np.mean(distances), max(distances)))
    only = sampling_distance(model, table, [("c", "b")])
    assert only == pytest.approx((distances[1], distances[1]))


def test_sampling_error_is_small_where_strata_bound_it(model):
    """Each of the at most 6 cells of a clique is within 5 rows; independent draws miss by 0.05."""
    for rows in (1000, 10_000):
        mean, most = sampling_distance(model, model.sample(rows, np.random.default_rng(2)))
        assert 0 <= mean <= most < 6 * 5 / rows


def test_sampling_error_of_a_model_without_cliques_compares_attributes(domain):
    model = FittedModel.uniform(domain, 6)
    table = EncodedTable(domain, tuple(np.zeros((3, 4), dtype=int)))
    assert sampling_distance(model, table) == pytest.approx(((1 + 4 / 3 + 1) / 3, 4 / 3))


def test_an_unreadable_value_of_a_model_is_a_missing_one_of_its_rows():
    entry = {"edges": [0, 1, 2], "nullable": True, "unreadable": "apart"}
    domain = Domain.from_dict({"attributes": {"a": entry, "b": {"values": ["x"]}}})
    rows = FittedModel.uniform(domain, 8).sample(8, np.random.default_rng(0)).as_released()
    assert rows.column("a").tolist().count(3) == 4
    assert sampling_distance(FittedModel.uniform(domain, 8), rows) == (0.0, 0.0)


def test_sampling_error_refuses_what_cannot_be_compared(domain, model):
    table = model.sample(5, np.random.default_rng(0))
    other = FittedModel.uniform(Domain.from_sizes({"a": 2}), 5)
    with pytest.raises(InputError, match="another domain"):
        sampling_distance(other, table)
    for bad, cliques in ((table, []), (table.take([]), None)):
        with pytest.raises(InputError, match="nothing to compare"):
            sampling_distance(model, bad, cliques)
