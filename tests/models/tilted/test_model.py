"""Tilted models: a mixture's marginals, rows and storage."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from jam_dagster.errors import DomainError, InputError
from jam_dagster.mechanisms import FittedModel, load_model
from jam_dagster.models.tilted.model import TiltedModel
from jam_dagster.models.tilted.prior import LARGEST_SHARE, PublicPrior
from jam_dagster.models.weighted.model import WeightedTable
from jam_dagster.models.weighted.support import Support
from jam_dagster.tables import Domain, EncodedTable, ImpossibleCombination, PublicTables, Workload

DOMAIN = Domain.from_sizes({"a": 2, "b": 3, "c": 4})


def model(share: float = 0.3, seed: int = 0) -> TiltedModel:
    rng = np.random.default_rng(seed)
    network = FittedModel(DOMAIN, 500.0, {("a", "b"): rng.normal(size=(2, 3))})
    table = EncodedTable(DOMAIN, tuple(rng.integers(0, size, 40) for size in DOMAIN.shape))
    support, _ = Support.of_records(table)
    rows = WeightedTable(support, 500.0, rng.normal(size=support.size))
    return TiltedModel(network, rows, share, (("a", "b"),))


def test_marginals_are_the_mixtures():
    made = model()
    assert made.rows is not None
    for clique in Workload.all_k_way(DOMAIN, 2).downward_closure():
        wanted = 0.7 * made.network.marginal(clique) + 0.3 * made.rows.marginal(clique)
        np.testing.assert_allclose(made.marginal(clique), wanted, rtol=1e-12)
    np.testing.assert_array_equal(made.marginal(("c", "a")), made.marginal(("a", "c")).T)
    assert made.marginal(()).item() == pytest.approx(500.0)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_rows_follow_the_marginals(share):
    made = model(share)
    table = made.sample(20_000, np.random.default_rng(1))
    assert table.records == 20_000
    for clique in Workload.all_k_way(DOMAIN, 2).cliques:
        off = np.abs(table.marginal(clique) / 20_000 - made.marginal(clique) / 500).sum()
        assert off < 0.02


def test_one_row_can_be_sampled():
    for seed in range(20):
        assert model().sample(1, np.random.default_rng(seed)).records == 1
    with pytest.raises(InputError, match="at least 1"):
        model().sample(0, np.random.default_rng(0))


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_is_a_probability(share):
    with pytest.raises(InputError, match="from 0 to 1"):
        model(share)
    with pytest.raises(InputError, match="0 without records"):
        TiltedModel(FittedModel.uniform(DOMAIN, 1.0), None, 0.5)


def test_a_prior_mixes_network_and_records():
    rng = np.random.default_rng(2)
    table = EncodedTable(DOMAIN, tuple(rng.integers(0, size, 60) for size in DOMAIN.shape))
    prior = PublicPrior.of(DOMAIN, table)
    made = prior.model(60.0)
    assert made.share == LARGEST_SHARE
    assert made.rows is not None
    np.testing.assert_allclose(made.rows.marginal(("a", "b")), table.marginal(("a", "b")))


def test_a_prior_of_parts_has_no_records():
    rng = np.random.default_rng(3)
    part = DOMAIN.project(("a", "b"))
    table = EncodedTable(part, tuple(rng.integers(0, size, 60) for size in part.shape))
    made = PublicPrior.of(DOMAIN, PublicTables(DOMAIN, {"part": table})).model(60.0)
    assert (made.rows, made.share) == (None, 0.0)
    np.testing.assert_allclose(made.marginal(("c",)), 15.0)


def test_impossible_combinations_have_no_records():
    barred = Domain(
        DOMAIN.attributes, impossible=(ImpossibleCombination(("a", "b"), ((0,), (0,))),)
    )
    rng = np.random.default_rng(4)
    table = EncodedTable(barred, tuple(rng.integers(0, size, 60) for size in barred.shape))
    made = PublicPrior.of(barred, table).model(100.0)
    assert made.marginal(("a", "b"))[0, 0] == 0.0
    rows = made.sample(500, rng)
    assert not ((rows.column("a") == 0) & (rows.column("b") == 0)).any()
    nothing = EncodedTable(barred, (np.zeros(3, int), np.zeros(3, int), np.zeros(3, int)))
    with pytest.raises(DomainError, match="impossible"):
        PublicPrior.of(barred, nothing)


def test_a_model_of_populations_answers_without_them(tmp_path):
    rng = np.random.default_rng(5)
    one, other = (
        EncodedTable(
            DOMAIN, tuple(np.minimum(rng.integers(0, size, 900), most) for size in DOMAIN.shape)
        )
        for most in (0, 9)
    )
    made = PublicPrior.of(DOMAIN, PublicTables(DOMAIN, {"one": one, "other": other})).model(60.0)
    assert made.populations == 2
    assert made.domain.digest == DOMAIN.digest
    both = one.marginal(("a", "b")) + other.marginal(("a", "b"))
    np.testing.assert_allclose(made.marginal(("a", "b")) / 60, both / 1800, atol=0.02)
    assert made.sample(50, rng).domain.digest == DOMAIN.digest
    with pytest.raises(InputError, match="no attribute 'table'"):
        made.marginal(("table",))
    made.save(tmp_path)
    read = load_model(tmp_path)
    assert isinstance(read, TiltedModel)
    assert read.populations == 2
    np.testing.assert_array_equal(read.marginal(("a", "c")), made.marginal(("a", "c")))


def prior(seed: int, share: float = 0.3, total: float = 90.0) -> TiltedModel:
    """A model that nothing was measured for: a network, and records of a public table."""
    rng = np.random.default_rng(seed)
    domain = Domain.from_sizes({"a": 2, "b": 3})
    table = EncodedTable(domain, (np.array([0, 0, 1]), np.array([0, 1, 2])))
    rows = WeightedTable(Support(table), total, rng.normal(size=3))
    network = FittedModel(domain, total, {("a", "b"): rng.normal(size=(2, 3))})
    return TiltedModel(network, rows, share)


def test_parts_that_were_not_measured_are_compared_too() -> None:
    made, other = prior(1), prior(2)
    assert made.cliques == ()
    assert made.distance(prior(1)) == 0.0
    assert made.distance(replace(made, share=0.5)) == pytest.approx(0.2)
    others = {"network": other.network, "rows": other.rows, "before": other.rows}
    for changed in (replace(made, **{name: part}) for name, part in others.items()):
        assert made.distance(changed) > 0.01
    whole = Support.of_domain(made.domain)
    elsewhere = WeightedTable(whole, 90.0, np.zeros(whole.size))
    without = FittedModel(made.domain, 90.0, {("a",): np.zeros(2)})
    for changed in (replace(made, rows=elsewhere), replace(made, network=without)):
        assert math.isinf(made.distance(changed))
    assert math.isinf(made.distance(TiltedModel(made.network, None, 0.0)))
