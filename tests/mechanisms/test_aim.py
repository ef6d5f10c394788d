"""AIM by hand: first measurements, weights, scores, annealing, the last round."""

from __future__ import annotations

import math

import numpy as np
import pytest

from jam_dagster.errors import SpecificationError
from jam_dagster.mechanisms import Aim, Replay
from jam_dagster.mechanisms.aim import weights_of
from jam_dagster.mechanisms.context import Selection
from jam_dagster.mechanisms.loops.graphical_fit import GraphicalFit
from jam_dagster.privacy import Draws, Neighbours, UnledgeredAccount
from jam_dagster.tables import Domain, EncodedTable, ImpossibleCombination, Workload
from tests.mechanisms.conftest import ScriptedNoise, scripted_run

# The closure: a, b, c, then the pairs ab, ac, bc.
AB, AC, BC = 3, 4, 5


def run(private, workload, choices, rho, store=None, neighbours=None, **settings):
    mechanism = Aim(**{"rounds": 6, "iterations": 200, "tolerance": 0.0} | settings)
    funds = {"public": private, "store": store, "neighbours": neighbours}
    return scripted_run(mechanism, private, workload, choices, rho, **funds)


def product(private):
    """Return the pair marginal of independent attributes a and b, in counts."""
    return np.outer(private.marginal(("a",)), private.marginal(("b",))) / private.records


def test_weights_count_shared_attributes(domain, workload):
    closure = workload.downward_closure()
    assert weights_of(workload, closure).tolist() == [2, 2, 2, 4, 4, 4]
    heavy = Workload.of(domain, [("a", "b"), ("c",)], weights=[1.0, 10.0])
    assert weights_of(heavy, heavy.downward_closure()).tolist() == [1, 1, 10, 2]


def test_where_nothing_is_learned_the_next_round_is_worth_more(private, workload):
    result, noise, account = run(private, workload, [AB, AC], 0.9)
    # A sixth is 0.15, of which 0.9 measure. Noise of 1 / sqrt(0.135) in six cells explains more
    # than the model moved, so the share is 0.6 now, and the 0.345 that are left are not two.
    assert [m["rho"] for m in noise.measurements] == pytest.approx([0.135] * 4 + [0.3105])
    assert [s["rho"] for s in noise.selections] == pytest.approx([0.015, 0.0345])
    assert [r.clique for r in result.transcript.rounds] == [
        ("a",),
        ("b",),
        ("c",),
        ("a", "b"),
        ("a", "c"),
    ]
    assert account.spent == pytest.approx(0.9)
    assert account.spent <= 0.9
    assert result.transcript.ended == "budget exhausted"


def test_annealing_halves_sigma_and_doubles_epsilon(private, workload):
    """Thirty shares of 0.1, of which the first four rounds take 0.37.

    The model is wrong about ab by 8 records, and sqrt(2 / pi) / sqrt(0.09) in each of six cells
    comes to 16: a round is worth 0.4 now. About bc it is wrong by 140 / 12 = 11.7, more than the 8
    of sqrt(2 / pi) / sqrt(0.36): so is the next. By then it knows ab: 1.6, of which the 1.83 that
    are left are not two.
    """
    result, noise, _ = run(private, workload, [AB, BC, AB, AC], 3.0, rounds=30)
    assert [s["rho"] for s in noise.selections] == pytest.approx([0.01, 0.04, 0.04, 0.183])
    assert [m["rho"] for m in noise.measurements[3:]] == pytest.approx([0.09, 0.36, 0.36, 1.647])
    # Under replace-one a charge is 1 / sigma^2.
    sigmas = [one.sigma for one in result.transcript.rounds]
    assert sigmas == pytest.approx([10 / 3] * 4 + [10 / 6] * 2 + [1 / math.sqrt(1.647)])
    scales = [call.scale for call in result.transcript.calls if call.step.endswith("/select")]
    assert scales == pytest.approx([math.sqrt(8 * rho) for rho in (0.01, 0.04, 0.04, 0.183)])
    assert scales[1] == pytest.approx(2 * scales[0])


@pytest.mark.parametrize(
    ("rounds", "alpha", "rest"),
    [
        # Shares of 12 / T; the first three measure alpha of theirs. What is left then is two
        # shares, no more: one round takes it all.
        (4, 2 / 3, [6.0]),
        # It is 2.3 shares of 3: one is a round, 1.3 the last.
        (4, 1.7 / 3, [3.0, 3.9]),
        # 3.5 of 2.4: two rounds, for after the first 2.5 are left, and 1.5 are the last.
        (5, 0.5, [2.4, 2.4, 3.6]),
    ],
)
def test_the_last_round_takes_what_is_not_enough_for_two(private, workload, rounds, alpha, rest):
    """Algorithm 4: ``rho - used <= 2 (1 / sigma^2 + epsilon^2 / 8)``, under replace-one."""
    settings = {"rounds": rounds, "alpha": alpha}
    result, noise, account = run(private, workload, [AB, BC, AC], 12.0, **settings)
    spent = [one.rho_select + one.rho_measure for one in result.transcript.rounds[3:]]
    assert spent == pytest.approx(rest)
    assert [s["rho"] for s in noise.selections] == pytest.approx([(1 - alpha) * r for r in rest])
    assert account.spent == pytest.approx(12.0)


def test_where_something_is_learned_rounds_stay_as_they_are(private, workload):
    moved = np.abs(private.marginal(("a", "b")) - product(private)).sum()
    assert moved > math.sqrt(2 / math.pi) / math.sqrt(135) * 6
    _, noise, _ = run(private, workload, [AB, AC, BC], 900.0)
    assert [m["rho"] for m in noise.measurements] == pytest.approx([135.0] * 5 + [175.5])
    assert [s["rho"] for s in noise.selections] == pytest.approx([15.0, 15.0, 19.5])


def test_scores_are_weighted_errors_above_their_noise(private, workload):
    _, noise, _ = run(private, workload, [AB, AC, BC], 900.0)
    sigma = 1 / math.sqrt(135)
    counts = private.marginal(("a", "b"))
    wanted = 4 * (np.abs(counts - product(private)).sum() - math.sqrt(2 / math.pi) * sigma * 6)
    first = noise.selections[0]
    assert first["scores"][AB] == pytest.approx(wanted, abs=0.05)
    # One-way marginals are known but for their noise, of which there is none here.
    assert first["scores"][0] == pytest.approx(-2 * math.sqrt(2 / math.pi) * sigma * 2, abs=0.05)


@pytest.mark.parametrize(("relation", "rows", "l1"), [("replace_one", 1, 2), ("add_remove", 3, 3)])
def test_sensitivity_is_that_of_the_heaviest_candidate(private, workload, relation, rows, l1):
    _, noise, _ = run(private, workload, [AB] * 9, 0.9, neighbours=Neighbours(relation, rows))
    assert {s["sensitivity"] for s in noise.selections} == {4.0 * l1}


def test_candidates_keep_the_model_small(private):
    domain = Domain.from_sizes({"a": 2, "b": 3, "c": 2})
    every = Workload.all_k_way(domain, 3)
    # Twelve cells are 96 bytes; what is in a measured clique is always there.
    result, _, _ = run(private, every, [-1] * 20, 0.9, size_limit_mb=90 / 2**20)
    assert {one.candidates for one in result.transcript.rounds[3:]} <= {3, 4, 5, 6}
    assert result.model.size_mb <= 90 / 2**20


def test_nothing_is_answered_once_the_budget_is_spent(private, workload, monkeypatch):
    asked = []
    errors = GraphicalFit.errors

    def counted(self, cliques):
        asked.append(len(cliques))
        return errors(self, cliques)

    monkeypatch.setattr(GraphicalFit, "errors", counted)
    result, noise, _ = run(private, workload, [AB, AC, BC], 900.0)
    assert len(asked) == len(noise.selections) == 3
    assert result.transcript.ended == "budget exhausted"


def test_where_every_first_measurement_was_lost_and_nothing_fits_it_ends(private, workload):
    account = UnledgeredAccount(0.9)
    for index in range(3):
        account.charge(f"round-{index + 1:03d}/measure", 0.135)
    draws = Draws(ScriptedNoise([]), account)
    # Seven cells, 56 bytes, are the least that a model takes.
    result = Aim(rounds=6, size_limit_mb=50 / 2**20).run(private, None, workload, draws)
    assert result.transcript.ended == "no candidate fits"
    assert [one.measurement for one in result.transcript.rounds] == [None] * 3
    assert account.spent == pytest.approx(3 * 0.135)
    assert result.model.marginal(("a",)).tolist() == pytest.approx([6, 6])


@pytest.mark.parametrize(
    ("settings", "rho", "named"),
    [
        ({"rounds": 3}, 1.0, "rounds must be more than the 3 attributes"),
        ({"rounds": 6}, 1e-12, "Raise epsilon"),
    ],
)
def test_what_cannot_start_is_refused(domain, workload, settings, rho, named):
    with pytest.raises(SpecificationError, match=named):
        Aim(**settings).check(domain, workload, rho)


def test_no_noise_is_expected_where_nobody_can_be(domain, private, workload):
    never = ImpossibleCombination(("a", "b"), ((1,), (1,)))
    tied = Domain(domain.attributes, (never,))
    made, noise, _ = run(EncodedTable(tied, private.columns), workload, [AB, AC, BC], 900.0)
    seen: list[Selection] = []
    again = Replay(made.transcript, tied, workload)
    again.on_selection = seen.append
    again.run()
    before = seen[0].model.marginal(("a", "b"))
    error = np.abs(private.marginal(("a", "b")) - before).sum()
    # Five of the six cells count.
    wanted = 4 * (error - math.sqrt(2 / math.pi) / math.sqrt(135) * 5)
    assert noise.selections[0]["scores"][AB] == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize(("rho", "rounds"), [(0.001, 4), (0.1, 6), (100.0, 48)])
def test_planned_rounds_measure_single_attributes_well_enough(rho, rounds):
    """Noise of 1 / sqrt(r) in three values is 0.2 of 100 records, in L1, for r = 0.0143."""
    domain = Domain.from_sizes({"a": 2, "b": 4, "c": 3})
    private = EncodedTable(domain, tuple(np.zeros(100, int) for _ in domain.shape))
    workload, planned = Workload.all_k_way(domain, 2), Aim(plan_rounds=True, iterations=5)
    _, noise, _ = scripted_run(planned, private, workload, [0] * 200, rho)
    assert noise.measurements[0]["rho"] == pytest.approx(0.9 * rho / rounds)
    # A paper's T is 16 for each attribute, and so is the most that is planned.
    assert planned.shares(domain) == 48


def test_rounds_are_planned_or_set():
    with pytest.raises(SpecificationError, match="set one of them"):
        Aim(plan_rounds=True, rounds=5)
