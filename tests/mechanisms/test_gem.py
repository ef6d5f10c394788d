"""GEM, GEM^Pub and RAP^softmax as runs: what they choose, spend, train on and give."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from jam_dagster.errors import DomainError, InputError, SpecificationError
from jam_dagster.mechanisms import make_mechanism, refit
from jam_dagster.models.measurement import Measurement
from jam_dagster.models.mixture.model import ProductMixture
from jam_dagster.models.mixture.training import MixtureTrainer, public_cliques
from jam_dagster.privacy import Draws, SeededNoise, UnledgeredAccount
from jam_dagster.tables import Domain, EncodedTable, PublicTables, Workload
from tests.mechanisms.conftest import scripted_run
from tests.tiers import by_jax

pytestmark = by_jax

SMALL: dict[str, Any] = {"rounds": 3, "components": 6, "iterations": 5}
NETWORK: dict[str, Any] = {**SMALL, "width": 4}
PUB: dict[str, Any] = {**NETWORK, "pretraining_iterations": 6, "pretraining_degree": 2}
ALL = {"gem": NETWORK, "gem_pub": PUB, "rap_softmax": SMALL}

every_mixture = pytest.mark.parametrize("name", ALL)


def run(name: str, private, public, workload, choices, rho, store=None, **settings):
    mechanism = make_mechanism(name, **ALL[name] | settings)
    return scripted_run(mechanism, private, workload, choices, rho, public=public, store=store)[:2]


@pytest.mark.slow
@every_mixture
def test_rounds_share_what_is_left(name: str, private, public, workload) -> None:
    result, noise = run(name, private, public, workload, [3, 0, 5], 0.9)
    assert [one["rho"] for one in noise.measurements] == pytest.approx([0.24] * 3)
    assert [one["rho"] for one in noise.selections] == pytest.approx([0.06] * 3)
    assert {one["sensitivity"] for one in noise.selections} == {2.0}
    assert [one.clique for one in result.transcript.rounds] == [("a", "b"), ("a",), ("b", "c")]
    assert result.transcript.ended == "all rounds"
    assert result.model.records == private.records
    assert result.model.cliques == (("a", "b"), ("a",), ("b", "c"))


@pytest.mark.slow
def test_marginals_are_scored_by_error_above_noise(private, public, workload) -> None:
    _, noise = run("rap_softmax", private, public, workload, [3], 0.25, rounds=1)
    start = make_mechanism("rap_softmax", **SMALL).trainer(private.domain, None)
    mixture = ProductMixture(private.domain, private.records, start.tables())
    sigma = 1 / math.sqrt(0.8 * 0.25)
    for number, clique in enumerate(workload.downward_closure()):
        apart = np.abs(private.marginal(clique) - mixture.marginal(clique))
        wanted = apart.sum() - math.sqrt(2 / math.pi) * sigma * apart.size
        assert noise.selections[0]["scores"][number] == pytest.approx(wanted)


@pytest.mark.slow
def test_without_the_public_table_nothing_is_trained_again(
    domain, private, public, workload
) -> None:
    made, _ = run("gem_pub", private, public, workload, [3, 0, 5], 0.9)
    with pytest.raises(DomainError, match="needs a public table"):
        refit(made.transcript, domain, workload)
    with pytest.raises(DomainError, match="needs a public table"):
        run("gem_pub", private, None, workload, [], 0.9)


def test_a_transcript_of_other_settings_is_refused(domain, private, public, workload) -> None:
    made, _ = run("gem", private, public, workload, [3], 0.9, rounds=1)
    settings = dict(made.transcript.parameters)
    del settings["width"]
    object.__setattr__(made.transcript, "parameters", settings)
    with pytest.raises(InputError, match="record the width"):
        refit(made.transcript, domain, workload)


@pytest.mark.slow
def test_public_tables_that_lack_attributes_are_trained_on(
    domain, private, public, workload
) -> None:
    part = EncodedTable(domain.project(("a", "b")), public.columns[:2])
    tables = PublicTables(domain, {"whole": public, "part": part})
    assert public_cliques(tables, 2)["part"] == []
    assert public_cliques(PublicTables.of(domain, part), 3) == {"": [("a", "b")]}
    assert public_cliques(PublicTables.of(domain, public), 2)[""] == list(workload.cliques)
    # With no noise to learn from, what the part says is what the model says of it.
    settings = {"pretraining_iterations": 400, "pretraining_rate": 0.02, "threshold": 1e9}
    made, _ = run("gem_pub", private, part, workload, [0, 0, 0], 0.9, **settings)
    known = made.model.marginal(("a", "b")) / made.model.total
    np.testing.assert_allclose(known, public.marginal(("a", "b")) / public.records, atol=0.02)
    again = refit(made.transcript, domain, workload, part)
    np.testing.assert_array_equal(again.tables[2], made.model.tables[2])


def test_the_largest_public_marginals_are_left_out_where_there_are_too_many(
    domain, public, monkeypatch
) -> None:
    monkeypatch.setattr("jam_dagster.models.mixture.training.PUBLIC_CELLS", 10)
    assert public_cliques(PublicTables.of(domain, public), 2) == {"": [("a", "b"), ("a", "c")]}


def test_released_weights_are_averaged_over_the_second_half(
    private, public, workload, monkeypatch
) -> None:
    trained = []
    train = MixtureTrainer.train

    def listened(self, *args, **more):
        convergence = train(self, *args, **more)
        trained.append(np.asarray(self.weights["logits_bias"]))
        return convergence

    monkeypatch.setattr(MixtureTrainer, "train", listened)
    held = []
    tables = MixtureTrainer.tables

    def kept(self, weights=None):
        if weights is not None:
            held.append(np.asarray(weights["logits_bias"]))
        return tables(self, weights)

    monkeypatch.setattr(MixtureTrainer, "tables", kept)
    run("gem", private, public, workload, [3, 0, 5, 4], 90.0, rounds=4, averaging_beta=0.75)
    np.testing.assert_allclose(held[-1], 0.75 * trained[2] + 0.25 * trained[3], atol=1e-6)
    assert (trained[2] != trained[3]).any()


@pytest.mark.slow
def test_public_data_are_what_the_model_begins_with(private, workload) -> None:
    """With a budget too small to learn from, the released model is the public table's."""
    settings = {"pretraining_iterations": 600, "pretraining_rate": 0.01, "components": 40}
    draws = Draws(SeededNoise(1), UnledgeredAccount(1e-7))
    made = make_mechanism("gem_pub", **NETWORK | settings).run(private, private, workload, draws)
    assert {one.iterations for one in made.transcript.rounds} == {0}
    for clique in workload.cliques:
        apart = made.model.marginal(clique) - private.marginal(clique)
        assert np.abs(apart).sum() / private.records < 0.05


@every_mixture
def test_impossible_combinations_are_refused_before_a_draw(name: str) -> None:
    domain = Domain.from_dict(
        {
            "attributes": {"a": {"values": [0, 1]}, "b": {"values": [0, 1]}},
            "impossible": [{"a": [0], "b": [0]}],
        }
    )
    with pytest.raises(DomainError, match="such as jam_pgm or tilt"):
        make_mechanism(name).check(domain, Workload.all_k_way(domain, 2), 1.0)


@every_mixture
def test_a_mixture_that_no_memory_holds_is_refused(name: str, domain, workload) -> None:
    many = make_mechanism(name, **ALL[name] | {"components": 100_000})
    wide = Domain.from_sizes(dict.fromkeys(domain.names, 10_000))
    message = "of 100,000 products over .* lower components"
    with pytest.raises(SpecificationError, match=message):
        many.check(wide, workload, 1.0)
    with pytest.raises(SpecificationError, match=message):
        many.trainer(wide, None)


@pytest.mark.slow
def test_whole_marginals_are_chosen_by_their_worst_cell(private, public, workload) -> None:
    made, noise = run("gem", private, public, workload, [2, 0, 0], 0.9, score="max_cell")

    # Of the workload's marginals each is measured once at most.
    assert [one.clique for one in made.transcript.rounds] == [("b", "c"), ("a", "b"), ("a", "c")]
    assert [len(one["scores"]) for one in noise.selections] == [3, 2, 1]
    assert {one["sensitivity"] for one in noise.selections} == {1.0}
    start = make_mechanism("gem", **NETWORK).trainer(private.domain, None)
    mixture = ProductMixture(private.domain, private.records, start.tables())
    apart = [
        np.abs(private.marginal(clique) - mixture.marginal(clique)).max()
        for clique in workload.cliques
    ]
    assert noise.selections[0]["scores"] == pytest.approx(apart)
    assert made.transcript.parameters["score"] == "max_cell"
    again = refit(made.transcript, private.domain, workload)
    for clique in workload.cliques:
        np.testing.assert_array_equal(again.marginal(clique), made.model.marginal(clique))


def test_measured_shares_are_clipped_for_the_worst_cell() -> None:
    noisy = Measurement(("a",), "private", np.array([-30.0, 90.0, 60.0]), 9.0, 0)
    by_error, by_cell = (
        make_mechanism("gem", score=score).target(noisy, 100).values for score in ("l1", "max_cell")
    )
    assert by_error.min() < 0
    assert by_cell == pytest.approx(by_error.clip(0, 1))
