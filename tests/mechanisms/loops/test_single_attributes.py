"""The first phase of TILT without a public table: prices by their slope, and the sparse mean."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy

from jam_dagster.mechanisms import make_mechanism, refit
from jam_dagster.mechanisms.configuration import read_mechanism
from jam_dagster.mechanisms.loops.single_attributes import (
    WORTH,
    SingleAttributes,
    sparse_mean,
    water_filled,
)
from jam_dagster.mechanisms.loops.transcript import Transcript
from jam_dagster.mechanisms.replay import ReplayError
from jam_dagster.privacy import Draws, Neighbours, SeededNoise, UnledgeredAccount
from jam_dagster.privacy.accounting import gaussian_sigma
from jam_dagster.tables import Domain, EncodedTable, Workload

DOMAIN = Domain.from_sizes({"a": 2, "b": 3, "c": 2, "d": 40})


def of(workload: Workload, rho: float, records: float = 1000.0) -> SingleAttributes:
    return SingleAttributes.of(DOMAIN, workload, records=records, sigma=1.0, rho=rho)


def test_prices_add_up_and_their_slopes_are_the_same() -> None:
    teaching, weights = np.array([100.0, 10.0, 1e-3]), np.array([0.5, 0.25, 0.25])
    prices = water_filled(teaching, weights, 2.0)
    assert prices.sum() == pytest.approx(2.0)
    slopes = weights * teaching / (1 + teaching * prices) ** 1.5
    assert slopes[0] == pytest.approx(slopes[1])
    # The first bit of the third costs more than it teaches.
    assert prices[2] == 0.0
    assert slopes[2] < slopes[1]


@pytest.mark.parametrize("rho", [1e-9, 1e-3, 10.0])
def test_a_workload_of_single_attributes_spends_all_on_them(rho: float) -> None:
    found = of(Workload.all_k_way(DOMAIN, 1), rho)
    assert found.whole
    assert found.paid <= rho * (1 + 1e-5)


def test_larger_workloads_leave_a_part_where_little_is_left_to_learn() -> None:
    for degree, part in ((2, 0.45), (3, 0.3)):
        found = of(Workload.all_k_way(DOMAIN, degree), 10.0, records=1e6)
        assert not found.whole
        assert found.paid == pytest.approx(part * 10.0, rel=1e-2)
        assert of(Workload.all_k_way(DOMAIN, degree), 1e-4, records=10).whole


def uniform_run(
    domain: Domain, workload: Workload, relation: Neighbours, rho: float, records: int = 300
) -> Transcript:
    rng = np.random.default_rng(1)
    private = EncodedTable(
        domain, tuple(rng.integers(0, size, records) // 2 for size in domain.shape)
    )
    draws = Draws(SeededNoise(1), UnledgeredAccount(rho), neighbours=relation)
    return make_mechanism("tilt", prior="uniform").run(private, None, workload, draws).transcript


@pytest.mark.parametrize(
    "relation",
    [
        Neighbours("replace_one"),
        Neighbours("replace_one", 3),
        Neighbours("add_remove"),
        Neighbours("add_remove", 2),
    ],
    ids=lambda one: f"{one.relation}-{one.max_rows}",
)
def test_rounds_share_what_single_attributes_leave(relation: Neighbours) -> None:
    """The prices are those of the records as released, and of the noise of the relation."""
    workload = Workload.all_k_way(DOMAIN, 2)
    made = uniform_run(DOMAIN, workload, relation, 50.0)
    counted = sum(call.rho for call in made.calls if call.step == "records")
    expected = SingleAttributes.of(
        DOMAIN,
        workload,
        records=made.records,
        sigma=gaussian_sigma(relation.marginal_l2, 1.0),
        rho=50.0 - counted,
    )
    assert (counted > 0.0) is not relation.records_public
    assert not expected.whole
    first = made.rounds[: len(expected.prices)]
    assert [one.clique for one in first] == [clique for clique, _ in expected.prices]
    assert [one.rho_measure for one in first] == pytest.approx(
        [price for _, price in expected.prices]
    )
    # The rest, in one and a half rounds for each attribute.
    round_ = made.rounds[len(first)]
    rest = 50.0 - counted - expected.paid
    assert round_.rho_select + round_.rho_measure == pytest.approx(rest / 6)
    assert made.rho_spent <= 50.0


def test_a_structural_zero_stays_one_and_changes_no_price() -> None:
    attributes = {name: {"values": list(range(size))} for name, size in DOMAIN.sizes.items()}
    zero = Domain.from_dict({"attributes": attributes, "impossible": [{"a": [0], "c": [1]}]})
    made, plain = (
        uniform_run(one, Workload.all_k_way(one, 2), Neighbours("replace_one"), 50.0)
        for one in (zero, DOMAIN)
    )
    prices = [
        [one.rho_measure for one in run.rounds if one.rho_select == 0.0] for run in (made, plain)
    ]
    assert prices[0] == prices[1]
    model = refit(made, zero, Workload.all_k_way(zero, 2), None)
    assert model.marginal(("a", "c"))[0, 1] == 0.0


def with_constants(names: str) -> Domain:
    """Return the domain with further attributes of one value, which come first and last."""
    return Domain.from_sizes({names[0]: 1, **DOMAIN.sizes, **dict.fromkeys(names[1:], 1)})


@pytest.mark.parametrize("rho", [0.01, 50.0])
def test_an_attribute_of_one_value_costs_nothing(rho: float) -> None:
    """A run makes the draws of the workload without it."""
    domain, relation = with_constants("yz"), Neighbours("replace_one")
    pairs = Workload.all_k_way(DOMAIN, 2).cliques
    singles = [(name,) for name in DOMAIN.names]
    # Each single attribute is next to one of two, and both of one value are next to each other.
    plain = Workload.of(DOMAIN, [*pairs, *singles], [1.0] * len(pairs) + [2.0] * len(singles))

    made = uniform_run(domain, Workload.all_k_way(domain, 2), relation, rho)
    expected = uniform_run(DOMAIN, plain, relation, rho)

    assert [(call.step, call.rho) for call in made.calls] == [
        (call.step, call.rho) for call in expected.calls
    ]
    assert [one.clique for one in made.rounds] == [one.clique for one in expected.rounds]
    assert made.rho_spent > 0.9 * rho
    assert refit(made, domain, Workload.all_k_way(domain, 2), None).marginal(("y", "b")).ndim == 2


@pytest.mark.parametrize("relation", [Neighbours("replace_one"), Neighbours("add_remove")])
def test_a_workload_of_attributes_of_one_value_asks_for_nothing(relation: Neighbours) -> None:
    domain = with_constants("yz")
    workload = Workload.of(domain, [("y", "z"), ("y",)])

    made = uniform_run(domain, workload, relation, 1.0)

    assert [call.step for call in made.calls] == ([] if relation.records_public else ["records"])
    model = refit(made, domain, workload, None)
    assert model.marginal(("y", "z")).ravel() == pytest.approx([made.records])
    assert model.sample(7, np.random.default_rng(0)).records == 7


def test_an_attribute_that_more_of_the_workload_holds_gets_more() -> None:
    """As many values, but one is in every marginal."""
    target = Workload.of(DOMAIN, [("a", "b"), ("a", "c"), ("a", "d")])
    prices = dict(of(target, 1.0).prices)
    assert prices[("a",)] > 1.5 * prices[("c",)]


def test_the_sparse_mean_is_the_posterior_mean() -> None:
    """It is an integral over one fraction if there are two values."""
    for first, second, sigma in ((0.8, 0.25, 0.1), (0.3, 0.2, 0.3)):
        shape = WORTH / 2

        def density(part: float, first: float, second: float, sigma: float, shape: float) -> float:
            off = (part - first) ** 2 + (1 - part - second) ** 2
            return float((part * (1 - part)) ** (shape - 1) * np.exp(-off / (2 * sigma**2)))

        given = (first, second, sigma, shape)
        whole = scipy.integrate.quad(density, 0, 1, given)[0]
        mean = scipy.integrate.quad(lambda part, *g: part * density(part, *g), 0, 1, given)[0]
        found = sparse_mean(np.array([first, second]), sigma)
        assert found.sum() == pytest.approx(1.0)
        # The scale is taken where it is likeliest, not averaged.
        assert found[0] == pytest.approx(mean / whole, abs=0.05)


def test_the_sparse_mean_follows_what_has_little_noise_and_forgets_noise() -> None:
    truth = np.array([0.6, 0.4, *([0.0] * 98)])
    np.testing.assert_allclose(sparse_mean(truth, 1e-4), truth, atol=1e-3)
    noisy = truth + np.random.default_rng(0).normal(0, 0.05, 100)
    projected = np.maximum(noisy, 0) / np.maximum(noisy, 0).sum()
    assert np.abs(sparse_mean(noisy, 0.05) - truth).sum() < 0.5 * np.abs(projected - truth).sum()
    assert sparse_mean(np.array([3.0]), 1.0) == pytest.approx([1.0])


def test_the_prior_is_a_fact_of_the_specification_and_of_the_transcript() -> None:
    assert read_mechanism("tilt", public=False) == ("tilt", {"prior": "uniform"})
    assert read_mechanism("tilt", public=True) == ("tilt", {})
    assert read_mechanism({"name": "tilt", "prior": "public"}, public=False)[1]["prior"] == "public"
    rng = np.random.default_rng(1)
    private, public = (
        EncodedTable(DOMAIN, tuple(rng.integers(0, size, 300) for size in DOMAIN.shape))
        for _ in range(2)
    )
    workload = Workload.all_k_way(DOMAIN, 2)
    runs = [
        make_mechanism("tilt", prior="uniform").run(
            private, given, workload, Draws(SeededNoise(1), UnledgeredAccount(5.0))
        )
        for given in (None, public)
    ]
    # A public table that is at hand changes nothing, and neither does it for a verifier.
    assert runs[0].transcript.calls == runs[1].transcript.calls
    refitted = refit(runs[0].transcript, DOMAIN, workload, public)
    clique = workload.cliques[0]
    np.testing.assert_array_equal(refitted.marginal(clique), runs[0].model.marginal(clique))
    changed = replace(
        runs[0].transcript, parameters={**runs[0].transcript.parameters, "prior": "public"}
    )
    with pytest.raises(ReplayError):
        refit(changed, DOMAIN, workload, public)
