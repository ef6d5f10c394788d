"""MST by hand: thirds of the budget, the tree and its scores."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from jam_dagster.errors import InputError, SpecificationError
from jam_dagster.mechanisms import Aim, Measurement, refit
from jam_dagster.mechanisms.independent import Independent
from jam_dagster.mechanisms.mst import Mst, RareValues
from jam_dagster.privacy import Draws, Neighbours, SeededNoise, UnledgeredAccount
from jam_dagster.tables import Domain, ImpossibleCombination, Workload
from jam_dagster.tables.codes.block_counts import CountedTable
from tests.mechanisms.conftest import ScriptedNoise, scripted_run

AB, AC, BC = 0, 1, 2


@pytest.fixture
def workload(domain):
    return Workload.all_k_way(domain, 3)


def run(private, workload, choices, rho, *, neighbours=None, **settings):
    mechanism = Mst(**{"iterations": 300, "tolerance": 0.0} | settings)
    return scripted_run(mechanism, private, workload, choices, rho, neighbours=neighbours)


def test_a_third_each_for_attributes_choices_and_pairs(private, workload):
    result, noise, account = run(private, workload, [2, 0], 0.9)
    assert [m["rho"] for m in noise.measurements] == pytest.approx([0.1] * 3 + [0.15] * 2)
    assert [s["rho"] for s in noise.selections] == pytest.approx([0.15] * 2)
    assert account.spent == pytest.approx(0.9)
    assert account.spent <= 0.9
    cliques = [("a",), ("b",), ("c",), ("b", "c"), ("a", "b")]
    assert [r.clique for r in result.transcript.rounds] == cliques
    assert Mst().expected_rounds(private.domain, workload) == 5


def test_scores_are_how_far_pairs_are_from_independence(private, workload):
    _, noise, _ = run(private, workload, [BC, 1], 9000.0)
    # a: 8 4, b: 7 2 3, c: 7 5. Counts less products over 12 (in twelfths): of ab
    # 16 8 24 / 16 8 24, of ac 16 16 / 16 16, of bc 35 35 / 14 14 / 21 21.
    assert noise.selections[0]["scores"] == pytest.approx([96 / 12, 64 / 12, 140 / 12], abs=0.02)
    # bc joins b and c; ab and ac are left, and the model of the attributes still judges them.
    assert noise.selections[1]["scores"].tolist() == noise.selections[0]["scores"][:2].tolist()


def test_an_edge_within_the_tree_is_no_candidate(private, workload):
    result, _, _ = run(private, workload, [AB, 0], 0.9)
    assert [r.clique for r in result.transcript.rounds[3:]] == [("a", "b"), ("a", "c")]
    assert [r.candidates for r in result.transcript.rounds] == [3, 3, 3, 3, 2]


def test_one_pair_is_not_chosen(domain, private):
    result, noise, account = run(private, Workload.of(domain, [("a", "c")]), [], 0.9)
    assert [m["rho"] for m in noise.measurements] == pytest.approx([0.15, 0.15, 0.6])
    assert account.spent == pytest.approx(0.9)
    assert result.transcript.rounds[-1].clique == ("a", "c")


def test_one_attribute_takes_it_all(domain, private):
    _, noise, account = run(private, Workload.of(domain, [("b",)]), [], 0.9)
    assert [m["rho"] for m in noise.measurements] == pytest.approx([0.9])
    assert account.spent <= 0.9


def measured(clique, values, sigma):
    return Measurement(clique, "private", np.array(values, dtype=float), sigma, 0)


def test_rare_values_are_taken_together(domain):
    rare = RareValues(domain)
    # Three sigma are six: the last two values of b, and neither of a.
    np.testing.assert_allclose(rare.merged(measured(("a",), [9, 8], 2)).values, [9, 8])
    np.testing.assert_allclose(rare.merged(measured(("b",), [11, 5, -1], 2)).values, [11, 2, 2])
    pair = rare.merged(measured(("a", "b"), [[6, 1, 4], [7, -3, 0]], 9))
    np.testing.assert_allclose(pair.values, [[6, 2.5, 2.5], [7, -1.5, -1.5]])
    # c was not measured, so its values stay apart.
    pair = rare.merged(measured(("b", "c"), [[6, 1], [7, 3], [1, 5]], 9))
    np.testing.assert_allclose(pair.values, [[6, 1], [4, 4], [4, 4]])
    counts, model = np.array([[6, 1, 4], [7, 3, 0]]), np.array([[5, 3, 3], [5, 3, 2]])
    assert rare.distance(("a", "b"), counts, model) == 1 + 1 + 2 + 2


def test_impossible_cells_have_no_part_in_a_mean():
    never = ImpossibleCombination(("a", "b"), ((0,), (2,)))
    domain = Domain(Domain.from_sizes({"a": 2, "b": 3}).attributes, (never,))
    rare = RareValues(domain)
    rare.merged(measured(("b",), [99, 1, 2], 2))
    pair = rare.merged(measured(("a", "b"), [[60, 6, -8], [39, 1, 2]], 2))
    np.testing.assert_allclose(pair.values, [[60, 6, -8], [39, 1.5, 1.5]])


@pytest.mark.parametrize("merge", [True, False])
def test_the_model_is_even_within_rare_values(domain, private, workload, merge):
    # Sigma is 2 / sqrt 3: values of at most 3 records are rare, if it is not for the noise.
    noise = ScriptedNoise([BC, 0])
    draws = Draws(noise, UnledgeredAccount(6.75))
    mechanism = Mst(iterations=300, tolerance=0.0, merge_rare=merge)
    model = mechanism.run(private, None, workload, draws).model
    b = model.marginal(("b",))
    assert (b[1] == pytest.approx(b[2], abs=1e-6)) == merge
    assert b.sum() == pytest.approx(12)
    # Of a and b: 6 2 0 / 1 0 3, merged 6 2 / 1 3, less products 8 4 x 7 2 3, merged 7 5, over 12.
    assert noise.selections[0]["scores"][AB] == pytest.approx((64 if merge else 96) / 12, abs=0.05)


@pytest.mark.parametrize("setting", ["merge_rare", "tolerance"])
def test_a_transcript_of_another_version_says_what_helps(domain, private, workload, setting):
    transcript = run(private, workload, [BC, 0], 0.9)[0].transcript
    parameters = {name: value for name, value in transcript.parameters.items() if name != setting}
    with pytest.raises(InputError, match=f"record the {setting} .* Load the model that was stored"):
        refit(replace(transcript, parameters=parameters), domain, workload)


def test_what_cannot_start_is_refused():
    domain = Domain.from_sizes({"a": 2**14, "b": 2**14})
    workload = Workload.all_k_way(domain, 1)
    # The workload has no such pair, and its degree cannot be lowered.
    said = r"MST measures pairs .* a x b has 268,435,456 cells; .* fewer values, or .* independent"
    with pytest.raises(SpecificationError, match=said) as refused:
        Mst().check(domain, workload, 1.0)
    assert "Lower" not in str(refused.value)
    Independent().check(domain, workload, 1.0)
    Aim().check(domain, workload, 1.0)
    with pytest.raises(SpecificationError, match=r"6 draws .* Raise epsilon, or use fewer attr"):
        Mst().check(domain, workload, 5e-12)


def test_pairs_that_are_too_many_to_hold_are_counted_when_asked_for(private, workload, monkeypatch):
    _, held, _ = run(private, workload, [BC, 1], 6.75)
    monkeypatch.setattr("jam_dagster.mechanisms.live.PRIVATE_CELLS", 0)
    _, counted, _ = run(private, workload, [BC, 1], 6.75)
    for one, other in zip(held.selections, counted.selections, strict=True):
        np.testing.assert_array_equal(one["scores"], other["scores"])
    for one, other in zip(held.measurements, counted.measurements, strict=True):
        np.testing.assert_array_equal(one["counts"], other["counts"])


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
@pytest.mark.parametrize("held", [0, 1000], ids=["asked for later", "held"])
def test_pairs_that_were_not_counted_are_refused_before_any_charge(
    private, workload, monkeypatch, held, relation
):
    monkeypatch.setattr("jam_dagster.mechanisms.live.PRIVATE_CELLS", held)
    blocks = private.marginals([("a", "b"), ("b", "c")])
    counted = CountedTable(private.domain, private.records, blocks)
    account = UnledgeredAccount(0.9)
    draws = Draws(SeededNoise(0), account, neighbours=Neighbours(relation))
    with pytest.raises(InputError, match="a, c was not counted"):
        Mst().run(counted, None, workload, draws)
    assert account.spent == 0
