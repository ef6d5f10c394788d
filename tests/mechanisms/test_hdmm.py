"""HDMM and HDMM+PGM by hand: what is released, what is made of it, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from jam_dagster.errors import SpecificationError
from jam_dagster.mechanisms import make_mechanism
from jam_dagster.mechanisms.hdmm import MOST_CELLS, parts_of, strategy_of, tree_mb
from jam_dagster.mechanisms.loops.residuals import Strategy
from jam_dagster.privacy import Draws, Neighbours, SeededNoise, UnledgeredAccount
from jam_dagster.privacy.noise.calls import INTEGERS
from jam_dagster.tables import Domain, EncodedTable, Workload
from tests.mechanisms.conftest import ScriptedNoise
from tests.mechanisms.conftest import table as encoded

RHO = 0.5

both = pytest.mark.parametrize("name", ["hdmm", "hdmm_pgm"])


class Asked(ScriptedNoise):
    """Adds nothing, and keeps what was asked."""

    def gaussian_counts(self, counts, l2_sensitivity, rho, step):
        noisy, sigma = super().gaussian_counts(counts, l2_sensitivity, rho, step)
        self.measurements[-1]["reach"] = l2_sensitivity
        return noisy, sigma


def run(name, private, workload, noise, *, rho=RHO, relation=None, **settings):
    draws = Draws(noise, UnledgeredAccount(rho), neighbours=relation or Neighbours())
    return make_mechanism(name, **settings).run(private, None, workload, draws)


@both
def test_all_residuals_are_one_draw_of_the_whole_budget(name, private, workload):
    noise = Asked([])
    result = run(name, private, workload, noise)
    (asked,) = noise.measurements
    # Of a, b, c, ab, ac, bc with 2, 3, 2 values.
    assert asked["counts"].size == 2 + 3 + 2 + 6 + 4 + 6
    assert asked["rho"] == pytest.approx(RHO)
    (call,) = result.transcript.calls
    assert (call.step, call.kind, call.cells) == ("round-001/residuals", INTEGERS, 23)
    # a has 8 records of 0 and 4 of 1.
    scale = strategy_of(private.domain, workload).scales()["a",]
    np.testing.assert_array_equal(asked["counts"][:2], np.array([4, -4]) * scale)


def test_the_price_is_that_of_what_two_records_move_together(domain):
    """Of workload {a}, {b} with two and three values; the number of records is public."""
    pair = Domain.from_sizes({"a": 2, "b": 3})
    noise = Asked([])
    ones = encoded(pair, [(0, 0), (1, 2)])
    run("hdmm", ones, Workload.of(pair, [("a",), ("b",)]), noise)
    run("hdmm", encoded(pair, [(0, 0), (0, 0)]), Workload.of(pair, [("a",), ("b",)]), noise)
    first, second = noise.measurements
    moved = np.linalg.norm(first["counts"] - second["counts"])
    assert moved == pytest.approx(first["reach"])
    # A record moves two cells of each attribute by its number of values, times the scale.
    by_a, by_b = strategy_of(pair, Workload.of(pair, [("a",), ("b",)])).scales().values()
    assert moved**2 == pytest.approx(2 * (2 * by_a) ** 2 + 2 * (3 * by_b) ** 2)


@both
@pytest.mark.parametrize("relation", [Neighbours(), Neighbours("add_remove", 2)], ids=str)
def test_without_noise_the_answers_are_the_tables(name, relation, private, workload):
    result = run(name, private, workload, Asked([]), rho=9e3, relation=relation)
    for clique in workload.downward_closure():
        np.testing.assert_allclose(
            result.model.marginal(clique), private.marginal(clique), atol=0.2
        )


def test_weights_count_by_their_squares(domain):
    """The errors of a query that weighs three times as much count nine times."""
    heavy = Workload.of(domain, [("a",), ("b",)], weights=[3.0, 1.0])
    even = Workload.of(domain, [("a",), ("b",)])
    ratio = [
        found["a",] / found["b",]
        for found in (strategy_of(domain, w).variances for w in (heavy, even))
    ]
    # s^2 is one over the root of what it adds.
    assert ratio[0] == pytest.approx(ratio[1] / 3)


@pytest.mark.slow
def test_errors_are_those_that_the_closed_form_expects():
    """Of many records in each cell, so that non-negativity changes nothing."""
    domain = Domain.from_sizes({"a": 3, "b": 4, "c": 2})
    workload = Workload.of(domain, [("a", "b"), ("b", "c"), ("a",)])
    rows = np.unravel_index(np.repeat(np.arange(24), 200), (3, 4, 2))
    private = EncodedTable(domain, rows)
    scales = strategy_of(domain, workload).scales()
    strategy = Strategy.of_scales(domain.sizes, scales)
    reach = Neighbours().residuals(scales, domain.sizes)
    expected = reach**2 / (2 * RHO) * strategy.cell_variance(("a", "b"))
    errors = [
        run("hdmm", private, workload, SeededNoise(seed)).model.marginal(("a", "b")) - 400
        for seed in range(150)
    ]
    # 1,800 values that are nearly independent: off by a quarter with a chance below 1e-6.
    assert np.mean(np.square(errors)) == pytest.approx(expected, rel=0.25)


@both
def test_an_attribute_with_one_value_has_no_residual(name):
    domain = Domain.from_sizes({"a": 2, "b": 1, "c": 2})
    workload = Workload.all_k_way(domain, 2)
    assert parts_of(domain, workload) == [("a",), ("c",), ("a", "c")]
    private = encoded(domain, [(0, 0, 1), (1, 0, 1), (1, 0, 0)])
    for asked in (workload, Workload.of(domain, [("b",), ("c",)])):
        model = run(name, private, asked, SeededNoise(0), rho=9e3).model
        np.testing.assert_allclose(model.marginal(("c",)), [1, 2], atol=0.1)
        np.testing.assert_allclose(model.marginal(("b",)), [3])


def test_a_table_of_which_nothing_can_be_asked_is_refused():
    domain = Domain.from_sizes({"a": 1, "b": 1})
    with pytest.raises(SpecificationError, match="have one value each"):
        make_mechanism("hdmm").check(domain, Workload.all_k_way(domain, 1), 1.0)


def test_a_workload_with_a_large_model_is_refused_before_any_charge():
    domain = Domain.from_sizes(dict.fromkeys("abcdefgh", 12))
    account = UnledgeredAccount(RHO)
    rows = EncodedTable(domain, tuple(np.zeros(5, dtype=int) for _ in domain.names))
    draws = Draws(SeededNoise(0), account)
    with pytest.raises(SpecificationError, match=r"takes 3,280 MB, more than size_limit_mb = 80"):
        make_mechanism("hdmm_pgm").run(rows, None, Workload.all_k_way(domain, 2), draws)
    assert account.spent == 0
    # Pairs with one attribute make a tree, whose model has seven of them.
    star = Workload.of(domain, [("a", name) for name in domain.names[1:]])
    assert tree_mb(domain, star) == pytest.approx(7 * 144 * 8 / 2**20)
    make_mechanism("hdmm_pgm").check(domain, star, RHO)


def test_residuals_that_are_too_many_are_refused():
    domain = Domain.from_sizes({"a": 4096, "b": 4096})
    assert domain.size(("a", "b")) == MOST_CELLS
    with pytest.raises(SpecificationError, match=r"have 16,785,408 cells together"):
        make_mechanism("hdmm").check(domain, Workload.all_k_way(domain, 2), RHO)
