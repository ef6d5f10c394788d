"""TILT and the public prior by hand: scores, prices, candidates, ends, refit."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest

from jam_dagster.errors import DomainError, EmptyCandidateSetError, SpecificationError
from jam_dagster.mechanisms import make_mechanism, refit
from jam_dagster.mechanisms import tilt as module
from jam_dagster.mechanisms.live import Live
from jam_dagster.mechanisms.loops.expected_gain import Margins, expected_gain
from jam_dagster.models.tilted.model import TiltedModel
from jam_dagster.models.tilted.prior import PublicPrior
from jam_dagster.privacy import (
    Draws,
    Neighbours,
    SeededNoise,
    UnledgeredAccount,
)
from jam_dagster.privacy.accounting import exponential_epsilon
from jam_dagster.tables import Domain, EncodedTable, PublicTables, Workload
from tests.mechanisms.conftest import ScriptedNoise
from tests.privacy.neighbours import RELATIONS
from tests.tiers import first_quick

DOMAIN = Domain.from_sizes({"a": 2, "b": 3, "c": 2, "d": 4})


def table(records: int, seed: int) -> EncodedTable:
    rng = np.random.default_rng(seed)
    return EncodedTable(DOMAIN, tuple(rng.integers(0, size, records) for size in DOMAIN.shape))


def run(noise, rho=1.0, *, public=None, degree=2, neighbours=None, store=None, **settings):
    draws = Draws(noise, UnledgeredAccount(rho), store, neighbours=neighbours or Neighbours())
    workload = Workload.all_k_way(DOMAIN, degree)
    mechanism = make_mechanism("tilt", **settings)
    return mechanism.run(table(300, 1), public or table(60, 2), workload, draws)


def test_the_first_score_is_the_gain_over_the_prior_less_a_base_measure():
    noise = ScriptedNoise([0] * 50)
    run(noise, 16.0)
    asked = noise.selections[0]
    assert asked["rho"] == pytest.approx(0.2 * 16 / 32)
    prior = PublicPrior.of(DOMAIN, table(60, 2)).model(300)
    workload = Workload.all_k_way(DOMAIN, 2)
    closure = workload.downward_closure()
    margins = Margins(workload, closure)
    heaviest = max(weights.sum() for weights in margins.weights)
    assert asked["sensitivity"] == pytest.approx(2 * heaviest)
    scale = 2 * asked["sensitivity"] / exponential_epsilon(asked["rho"])
    sigma = math.sqrt(1 / (4 * asked["rho"]))
    # Four single attributes and six pairs count alike.
    expected = [
        expected_gain(prior.marginal(q) / 300, table(300, 1).marginal(q), weights, sigma, 300)
        - scale * math.log(4 if len(q) == 1 else 6)
        for q, weights in zip(closure, margins.weights, strict=True)
    ]
    np.testing.assert_allclose(asked["scores"], expected, rtol=1e-9)
    # In the last round nothing has a hundredth of the weight of all pairs.
    last = noise.selections[-1]
    scale = 2 * last["sensitivity"] / exponential_epsilon(last["rho"])
    assert last["scores"][-1] == pytest.approx(scale * math.log(0.01))


def test_pairs_come_where_they_can_be_told_from_chance():
    """A gain of a quarter of 300 records is 37.5 e for pairs at the price of e^2 / 8."""
    for epsilon, candidates in ((math.log(6) / 37.5 * 0.99, 4), (math.log(6) / 37.5 * 1.01, 10)):
        noise = ScriptedNoise([0] * 50)
        run(noise, 32 * 5 * epsilon**2 / 8)
        assert len(noise.selections[0]["scores"]) == candidates


def test_a_price_falls_to_what_tells_single_attributes_apart():
    """Its selection costs (8 ln d / n)^2 / 8, even where a part of the budget would be less."""
    noise = ScriptedNoise([0] * 50)
    run(noise, 1e-2)
    assert noise.selections[0]["rho"] == pytest.approx((8 * math.log(4) / 300) ** 2 / 8)


def test_prices_grow_and_single_attributes_are_measured_for_less_then():
    noise = ScriptedNoise([0] * 50)
    made = run(noise, 32.0)
    prices = [one["rho"] / 0.2 for one in noise.selections]
    # Even prices are reached by a four, for pairs could be chosen.
    assert prices[:4] == pytest.approx([1.0, 4.0, 4.0, 4.0])
    # A fifth selects; three tenths of the rest measure a single attribute once prices are even.
    rounds = [one for one in made.transcript.rounds if one.rho_select]
    small = [len(one.clique) == 1 for one in rounds[1:-1]]
    parts = [one.rho_measure / one.rho_select for one in rounds]
    assert [parts[0], parts[-1]] == pytest.approx([4.0, 4.0])
    assert parts[1:-1] == pytest.approx([1.2 if one else 4.0 for one in small])
    assert {*small} == {True, False}
    assert made.transcript.rho_spent == pytest.approx(32.0)
    assert made.transcript.ended == "budget exhausted"


def test_a_single_attribute_that_the_model_had_wrong_is_measured_again():
    """What its round kept pays for it, without another selection."""
    private = EncodedTable(DOMAIN, tuple(np.zeros(300, int) for _ in DOMAIN.shape))
    noise = ScriptedNoise([0] * 50)
    draws = Draws(noise, UnledgeredAccount(32.0))
    workload = Workload.all_k_way(DOMAIN, 2)
    made = make_mechanism("tilt").run(private, table(60, 2), workload, draws)
    rounds = made.transcript.rounds[:5]
    assert [one.clique for one in rounds] == [("a",), ("b",), ("b",), ("c",), ("c",)]
    assert [one.rho_select for one in rounds] == pytest.approx([0.2, 0.8, 0.0, 0.8, 0.0])
    assert [one.rho_measure for one in rounds] == pytest.approx([0.8, 0.96, 2.24, 0.96, 2.24])


def test_prices_double_where_nothing_is_learnt():
    """The public table is the private one, and the script adds no noise."""
    noise = ScriptedNoise([0] * 50)
    run(noise, 32.0, public=table(300, 1))
    prices = [one["rho"] / 0.2 for one in noise.selections]
    assert prices[:3] == pytest.approx([1.0, 4.0, 8.0])


def test_prices_are_smaller_where_the_signal_is_strong(monkeypatch):
    """300 records are twice the signal that asks for more than the usual rounds."""
    even = math.sqrt(1 / (0.8 * 4.0))
    monkeypatch.setattr(module, "SIGNAL", 300 / even / 2)
    noise = ScriptedNoise([0] * 50)
    run(noise, 32.0)
    assert [one["rho"] / 0.2 for one in noise.selections[:3]] == pytest.approx([0.5, 2.0, 2.0])


def test_a_price_doubles_where_all_that_fits_is_settled():
    """Only single attributes fit for long, and each is soon known at the first price."""
    made = run(SeededNoise(1), 10.0, degree=3, size_limit_mb=1e-4)
    assert made.transcript.ended == "budget exhausted"
    assert made.transcript.rho_spent == pytest.approx(10.0)


def test_the_model_stays_within_its_limit():
    made = run(SeededNoise(0), 10.0, size_limit_mb=2e-4)
    prior = PublicPrior.of(DOMAIN, table(60, 2)).model(1.0)
    # Half as much again as the prior takes, which is there in any case.
    assert max(one.model_mb for one in made.transcript.rounds) < 1.5 * prior.size_mb
    with pytest.raises(EmptyCandidateSetError, match="Raise size_limit_mb"):
        run(SeededNoise(0), size_limit_mb=1e-6)


def rounds_of(result):
    return result.transcript.to_frame().drop(columns="seconds")


def test_what_can_never_be_chosen_is_not_held(monkeypatch):
    held: list[list[tuple[str, ...]]] = []
    monkeypatch.setattr(Live, "hold", lambda self, cliques: held.append(list(cliques)))
    counted = run(SeededNoise(0), 10.0, degree=3, size_limit_mb=1e-4)
    monkeypatch.undo()
    closure = Workload.all_k_way(DOMAIN, 3).downward_closure()
    assert 0 < len(held[0]) < len(closure)

    # What is not held is counted when it is asked for.
    for kept in (closure, held[0], closure[:3]):
        hold = Live.hold
        monkeypatch.setattr(Live, "hold", lambda self, _, hold=hold, kept=kept: hold(self, kept))
        made = run(SeededNoise(0), 10.0, degree=3, size_limit_mb=1e-4)
        monkeypatch.undo()
        pd.testing.assert_frame_equal(rounds_of(made), rounds_of(counted))
        assert made.transcript.calls == counted.transcript.calls


@pytest.mark.parametrize(
    ("neighbours", "cells"), list(zip(RELATIONS, (2, 1, 6, 3), strict=True)), ids=str
)
def test_a_sensitivity_is_computed_by_hand(neighbours, cells):
    """Among 3-way marginals of 4 attributes, abc weighs 4: itself, and 1 for each of its pairs."""
    noise = ScriptedNoise([0] * 50)
    run(noise, 50.0, degree=3, neighbours=neighbours)
    first = noise.selections[0]
    assert len(first["scores"]) == len(Workload.all_k_way(DOMAIN, 3).downward_closure())
    assert first["sensitivity"] == pytest.approx(4.0 * cells)


@pytest.mark.parametrize("kernels", ["compiled", "numpy"])
def test_the_first_choice_tells_what_it_is_charged_for_and_no_more(kernels, monkeypatch):
    """A record moves towards the prior in the unlikely attribute, and away from it in the other."""
    if kernels == "numpy":
        monkeypatch.setattr("jam_dagster.mechanisms.loops.expected_gain.library", lambda: None)
    domain = Domain.from_sizes({"a": 2, "b": 2})

    def of(*counts):
        cells = np.unravel_index(np.repeat(np.arange(4), counts), (2, 2))
        return EncodedTable(domain, cells)

    chances = []
    for counts in ((550, 250, 300, 100), (550, 249, 301, 100)):
        noise = ScriptedNoise([-1] * 9)
        draws = Draws(noise, UnledgeredAccount(80.0))
        workload = Workload.all_k_way(domain, 1)
        make_mechanism("tilt").run(of(*counts), of(1, 1, 1, 1), workload, draws)
        first = noise.selections[0]
        epsilon = exponential_epsilon(first["rho"])
        logits = epsilon * first["scores"] / (2 * first["sensitivity"])
        chances.append(logits[0] - np.logaddexp.reduce(logits))
    assert chances[0] - chances[1] == pytest.approx(epsilon, rel=1e-3)
    assert chances[0] - chances[1] <= epsilon * (1 + 1e-9)


def weighed_triples(seed: int) -> Workload:
    weights = 10.0 ** np.random.default_rng(seed).uniform(-1, 1, 4)
    return Workload.of(DOMAIN, itertools.combinations(DOMAIN.names, 3), weights.tolist())


@pytest.mark.parametrize("seed", first_quick([3, 4, 5]))
@pytest.mark.parametrize("neighbours", RELATIONS, ids=Neighbours.describe)
def test_sensitivities_fall_and_a_verifier_finds_the_same(neighbours, seed):
    workload = weighed_triples(seed)
    draws = Draws(SeededNoise(seed), UnledgeredAccount(30.0), neighbours=neighbours)
    mechanism = make_mechanism("tilt")
    transcript = mechanism.run(table(300, seed), table(60, 2), workload, draws).transcript
    drawn = [call.sensitivity for call in transcript.calls if "select" in call.step]
    assert len(drawn) > 3
    # What is settled no longer counts.
    assert len(set(drawn)) > 1
    refit(transcript, DOMAIN, workload, table(60, 2))


@pytest.mark.parametrize("seed", range(5))
def test_no_candidate_is_heavier_than_the_sensitivity_says(seed):
    rng = np.random.default_rng(seed)
    candidates = module._Candidates(DOMAIN, weighed_triples(seed), 40.0)
    for _ in range(20):
        weights = candidates.weighed(10.0 ** rng.uniform(-4, 0), 300, Neighbours())
        heaviest = max(
            float(weights.of[number].sum())
            for number in candidates.fitting
            if len(candidates.closure[number]) <= weights.most
        )
        assert 0.0 < heaviest == weights.heaviest
        clique = candidates.closure[rng.integers(len(candidates.closure))]
        candidates.note(clique, 10.0 ** rng.uniform(0, 2))


@pytest.mark.parametrize(
    ("records", "largest"), [(1_000, 600), (4_001, 60_000), (8_001, 120_000), (0.001, 120_000)]
)
def test_a_marginal_whose_noise_hides_all_is_no_candidate(records, largest):
    """Noise of 10 in each of its cells is more than 150 times the records; if in all, all stay."""
    domain = Domain.from_sizes({"a": 2, "b": 300, "c": 200})
    candidates = module._Candidates(domain, Workload.all_k_way(domain, 3), 40.0)

    found = candidates.weighed(0.0025, records, Neighbours())

    sizes = [domain.size(candidates.closure[number]) for number in found.numbers]
    assert max(sizes) == (largest if found.most == 3 else 300)
    assert found.heaviest == max(found.of[number].sum() for number in found.numbers)


def test_a_round_looks_at_some_of_very_many_candidates(monkeypatch):
    monkeypatch.setattr(module, "SCORED", 4)
    workload = Workload.all_k_way(DOMAIN, 3)
    draws = Draws(SeededNoise(1), UnledgeredAccount(30.0))
    transcript = make_mechanism("tilt").run(table(300, 1), table(60, 2), workload, draws).transcript
    looked_at = [one.candidates for one in transcript.rounds if one.rho_select]
    assert max(looked_at) <= 4
    # Which ones follows from the number of the round, so a verifier finds the same.
    assert len({one.clique for one in transcript.rounds}) > 4
    refit(transcript, DOMAIN, workload, table(60, 2))


def test_which_candidates_a_round_looks_at_depends_on_its_number_alone(monkeypatch):
    candidates = module._Candidates(DOMAIN, Workload.all_k_way(DOMAIN, 3), 40.0)
    every = list(range(len(candidates.closure)))
    degree_of = [len(one) for one in candidates.closure]

    def some_of(numbers, index, fits=frozenset(every)):
        return candidates.some_of(numbers, index, lambda asked: sorted(fits & {*asked}))

    assert some_of(every, 0) == (every, True)
    assert some_of(every, 0, {1, 2, 9}) == ([1, 2, 9], True)
    assert some_of(every, 0, set()) == ([], True)
    monkeypatch.setattr(module, "SCORED", 9)
    monkeypatch.setattr(module, "FILTERED", 2)
    found = [some_of(every, index) for index in range(40)]
    assert found == [some_of(every[::-1], index) for index in range(40)]
    # Three of each degree, whichever they are.
    assert [([degree_of[n] for n in one], whole) for one, whole in found] == [
        ([1, 1, 1, 2, 2, 2, 3, 3, 3], False)
    ] * 40
    assert {number for one, _ in found for number in one} == set(every)
    # What single attributes leave is for the others; and the part is one of those that fit.
    fits = {number for number in every if degree_of[number] > 1 or number == every[0]}
    for index in range(40):
        one, whole = some_of(every, index, fits)
        assert fits.issuperset(one)
        assert not whole
    assert some_of(every, 7, {1, 2, 9}) == ([1, 2, 9], True)
    monkeypatch.setattr(module, "SCORED", 10**6)
    # Pairs have 6 to 12 cells, and no more than a third of these.
    monkeypatch.setattr(module, "SCORED_CELLS", 3 * 13)
    for index in range(40):
        pairs = [n for n in some_of(every, index)[0] if degree_of[n] == 2]
        assert len(pairs) == 1 or sum(candidates.cells[n] for n in pairs) <= 13


def test_choosing_nothing_ends_the_run_and_leaves_the_rest():
    """Only a last round may choose it: what tells nothing may tell something at a higher price."""
    whole = ScriptedNoise([0] * 50)
    run(whole)
    rounds = len(whole.selections)
    noise = ScriptedNoise([0] * (rounds - 1) + [-1])
    transcript = run(noise).transcript
    assert transcript.ended == module.NOTHING_HELPS
    assert len([one for one in transcript.rounds if one.rho_select]) == rounds - 1
    paid = sum(one.rho_select + one.rho_measure for one in transcript.rounds)
    assert transcript.rho_spent == pytest.approx(paid + noise.selections[-1]["rho"])
    assert transcript.rho_spent < 0.95
    # The draw of nothing is a draw of the transcript.
    assert len([one for one in transcript.calls if "select" in one.step]) == rounds
    refit(transcript, DOMAIN, Workload.all_k_way(DOMAIN, 2), table(60, 2))


def test_nothing_has_a_score_that_no_record_moves():
    """A budget of one round may be left at once."""
    scores = []
    for seed in (1, 9):
        noise = ScriptedNoise([-1])
        draws = Draws(noise, UnledgeredAccount(1e-3))
        workload = Workload.all_k_way(DOMAIN, 2)
        make_mechanism("tilt").run(table(300, seed), table(60, 2), workload, draws)
        scores.append(noise.selections[0]["scores"])
    assert scores[0][-1] == scores[1][-1]
    assert not np.allclose(*scores)


def test_all_of_the_budget_is_spent_and_no_more():
    for seed in range(5):
        transcript = run(SeededNoise(seed), 3.0, degree=3).transcript
        assert transcript.rho_spent <= 3.0 * (1 + 1e-12)
        if transcript.ended == "budget exhausted":
            assert transcript.rho_spent > 3.0 * (1 - 1e-6)


def test_public_tables_may_lack_attributes():
    whole = table(60, 2)
    part = EncodedTable(DOMAIN.project(("a", "b")), whole.columns[:2])
    result = run(SeededNoise(6), public=PublicTables(DOMAIN, {"part": part}))
    assert isinstance(result.model, TiltedModel)
    assert result.model.rows is None


def test_errors_come_before_any_charge():
    account = UnledgeredAccount(1.0)
    draws = Draws(SeededNoise(0), account)
    workload = Workload.all_k_way(DOMAIN, 2)
    with pytest.raises(DomainError, match="needs a public table"):
        make_mechanism("tilt").run(table(30, 0), None, workload, draws)
    with pytest.raises(SpecificationError, match="Raise epsilon"):
        make_mechanism("tilt").check(DOMAIN, workload, 1e-13)
    with pytest.raises(SpecificationError, match="size_limit_mb"):
        make_mechanism("tilt", size_limit_mb=0)
    assert account.spent == 0


def test_a_good_prior_stays_and_a_bad_one_is_left():
    """At a large budget the model follows the private table, whatever the public one."""
    private = table(3000, 7)
    workload = Workload.all_k_way(DOMAIN, 2)
    rng = np.random.default_rng(8)
    skewed = EncodedTable(DOMAIN, tuple(rng.binomial(size - 1, 0.05, 60) for size in DOMAIN.shape))
    draws = Draws(SeededNoise(0), UnledgeredAccount(200.0))
    made = make_mechanism("tilt").run(private, skewed, workload, draws)
    off = [
        np.abs(made.model.marginal(q) - private.marginal(q)).sum() / 3000 for q in workload.cliques
    ]
    assert max(off) < 0.05
    draws = Draws(SeededNoise(0), UnledgeredAccount(1e-5))
    poor = make_mechanism("tilt").run(private, private, workload, draws).model
    prior = make_mechanism("public_prior").run(private, private, workload, draws).model
    for clique in workload.cliques:
        moved = np.abs(poor.marginal(clique) - prior.marginal(clique)).sum() / 3000
        assert moved < 0.05


def test_the_public_prior_spends_nothing_but_for_a_private_number():
    workload = Workload.all_k_way(DOMAIN, 2)
    for neighbours in RELATIONS:
        draws = Draws(SeededNoise(0), UnledgeredAccount(1.0), neighbours=neighbours)
        made = make_mechanism("public_prior").run(table(300, 1), table(60, 2), workload, draws)
        assert made.transcript.rounds == ()
        assert (made.transcript.rho_spent == 0) == neighbours.records_public
        assert {call.step.split("-")[0] for call in made.transcript.calls} <= {"records"}
    with pytest.raises(DomainError, match="needs a public table"):
        make_mechanism("public_prior").run(table(30, 0), None, workload, draws)
