"""What mechanisms that weigh records share: choices, hostile noise, refit."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest

from jam_dagster.errors import DomainError, SpecificationError
from jam_dagster.mechanisms import context as run_module
from jam_dagster.mechanisms import make_mechanism, refit
from jam_dagster.models.weighted.model import WeightedTable
from jam_dagster.privacy import Draws, SeededNoise, UnledgeredAccount
from jam_dagster.tables import Domain, EncodedTable, ImpossibleCombination, Workload
from tests.mechanisms.conftest import histogram_run as run
from tests.mechanisms.conftest import table

WEIGHING = ("pmw_pub", "mwem", "pep", "pep_pub")


def test_marginals_are_chosen_by_their_error_above_the_noise(private, public):
    _, noise = run("pmw_pub", private, public, [0], degree=2, rho=2.0)
    scores = noise.selections[0]["scores"]
    assert len(scores) == 6
    # rho is 1 for the measurement, so sigma is 1; the public (a, b) is off in four of six cells.
    counts, public_counts = private.marginal(("a", "b")), public.marginal(("a", "b")) * 3
    wanted = np.abs(counts - public_counts).sum() - math.sqrt(2 / math.pi) * 6
    assert scores[3] == pytest.approx(wanted, rel=1e-12)
    assert noise.selections[0]["sensitivity"] == 2.0


def test_marginals_come_again_when_all_have_come(private, public):
    made, noise = run("pmw_pub", private, public, [0, 0, 0, 2, 1])
    assert [one.clique for one in made.transcript.rounds] == [
        ("a",),
        ("b",),
        ("c",),
        ("c",),
        ("b",),
    ]
    assert [len(one["scores"]) for one in noise.selections] == [3, 2, 1, 3, 2]


def test_what_no_weights_can_change_is_no_candidate(domain, private):
    fixed = table(domain, [(0, 0, 0), (0, 1, 0), (0, 1, 0)])
    _, noise = run("pmw_pub", private, fixed, [0], degree=2)
    # Of a, b, c, ab, ac, bc the support is constant in a, c and ac.
    assert [len(one["scores"]) for one in noise.selections] == [3]
    single = table(domain, [(0, 0, 0)] * 3)
    made, noise = run("pmw_pub", private, single, [0])
    assert not noise.selections
    assert made.transcript.ended == "no candidate fits"
    assert made.model.marginal(("a",)).tolist() == [12, 0]


def test_a_budget_is_spent_in_equal_parts(private, public):
    _, noise = run("pmw_pub", private, public, [0] * 4, rho=0.8, alpha=0.75)
    assert [one["rho"] for one in noise.selections] == pytest.approx([0.05] * 4)
    assert [one["rho"] for one in noise.measurements] == pytest.approx([0.15] * 4)


@pytest.mark.parametrize("name", WEIGHING)
def test_impossible_records_have_no_weight(domain, private, name):
    holes = Domain(domain.attributes, (ImpossibleCombination(("a", "c"), ((1,), (0,))),))
    rows = EncodedTable(holes, private.columns)
    draws = Draws(SeededNoise(0), UnledgeredAccount(0.01))
    made = make_mechanism(name).run(rows, rows, Workload.all_k_way(holes, 2), draws)
    assert made.model.marginal(("a", "c"))[1, 0] == 0
    sampled = made.model.sample(1_000, np.random.default_rng(0))
    assert sampled.marginal(("a", "c"))[1, 0] == 0


def test_no_noise_is_expected_where_nobody_can_be(domain, private):
    never = ImpossibleCombination(("a", "b"), ((1,), (1,)))
    rows = EncodedTable(Domain(domain.attributes, (never,)), private.columns)
    _, noise = run("mwem", rows, None, [0], degree=2, rho=2.0)
    # rho is 1 for the measurement, so sigma is 1. Ten records are possible, two in each of the five
    # cells of a and b: 12 / 5 in each are expected, where there are 6 2 0 / 1 3.
    error = 3.6 + 0.4 + 2.4 + 1.4 + 0.6
    wanted = error - math.sqrt(2 / math.pi) * 5
    assert noise.selections[0]["scores"][3] == pytest.approx(wanted, rel=1e-12)


def test_public_records_are_needed_and_asked_for(domain, private, public):
    made, _ = run("pmw_pub", private, public, [0])
    with pytest.raises(DomainError, match="needs a public table"):
        refit(made.transcript, domain, Workload.all_k_way(domain, 1))
    with pytest.raises(DomainError, match="pmw_pub needs a public table"):
        run("pmw_pub", private, None, [0])
    other = Domain.from_sizes({"a": 2, "b": 3, "c": 3})
    with pytest.raises(DomainError, match="different domains"):
        run("pmw_pub", private, EncodedTable(other, public.columns), [0])


def test_answers_are_held_a_block_at_a_time(private, public, monkeypatch):
    blocks = run_module.marginal_blocks
    monkeypatch.setattr(run_module, "marginal_blocks", partial(blocks, cells=12))
    marginals = WeightedTable.marginals
    held = []

    def listened(self, cliques):
        answers = marginals(self, cliques)
        held.append(sum(answer.size for answer in answers.values()))
        return answers

    monkeypatch.setattr(WeightedTable, "marginals", listened)
    _, noise = run("pmw_pub", private, public, [0, 0], degree=2)
    assert 0 < max(held) <= 6
    monkeypatch.undo()
    _, whole = run("pmw_pub", private, public, [0, 0], degree=2)
    for one, other in zip(noise.selections, whole.selections, strict=True):
        np.testing.assert_array_equal(one["scores"], other["scores"])


def test_mwem_refuses_a_domain_that_is_too_large(private):
    wide = Domain.from_sizes(dict.fromkeys("abcdefgh", 10))
    workload = Workload.all_k_way(wide, 2)
    with pytest.raises(SpecificationError, match=r"1e\+08 cells.*pmw_pub"):
        make_mechanism("mwem").check(wide, workload, 1.0)
    make_mechanism("pmw_pub").check(wide, workload, 1.0)
