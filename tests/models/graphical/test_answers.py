"""Answers from a calibrated junction tree, against brute force and against mbi."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jam_dagster.mechanisms import JamPgm
from jam_dagster.models.graphical import answers as module
from jam_dagster.models.graphical.answers import Calibrated
from jam_dagster.models.graphical.belief_propagation import calibrate
from jam_dagster.models.graphical.dense import spread, sum_to
from jam_dagster.models.graphical.junction_tree import JunctionTree, bits, mask_of, maximal
from jam_dagster.models.graphical.mbi_bridge import to_markov_random_field
from jam_dagster.models.graphical.routes import NearRoutes
from jam_dagster.privacy import Draws, SeededNoise, UnledgeredAccount
from jam_dagster.tables import Workload
from tests.examples import examples
from tests.models.graphical.test_junction_tree import structures


@given(structures(largest=6, widest=3), st.integers(0, 2**32 - 1), st.booleans())
@examples(40)
def test_every_marginal_equals_brute_force(structure, seed, forbid):
    check_every_marginal(structure, seed, forbid)


@pytest.mark.parametrize("cells", [1, 7, 30])
@pytest.mark.parametrize(
    "cliques",
    [
        # Three leaves meet in the middle: attributes of it are summed out, or stay to the end.
        [(0, 1, 2), (0, 3), (1, 4), (2, 5)],
        # A chain, in which conditionals are gathered from further ones.
        [(0, 1, 2), (1, 2, 3), (2, 3, 4), (3, 4, 5)],
        [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)],
    ],
)
def test_large_tables_are_made_a_part_at_a_time(monkeypatch, cliques, cells):
    monkeypatch.setattr(module, "PART_CELLS", cells)
    check_every_marginal(((2, 5, 4, 3, 2, 3), cliques), seed=1, forbid=False)


def test_no_table_stays_large_on_the_whole_way_to_an_answer(monkeypatch):
    made, real = [], module.contract

    def contract(*given, **more):
        made.append(real(*given, **more))
        return made[-1]

    monkeypatch.setattr(module, "contract", contract)
    monkeypatch.setattr(module, "PART_CELLS", 8)
    # An attribute that divides the first product may be summed out before the largest one.
    sizes = (5, 6, 3, 4, 6, 6)
    cliques = [(0, 1, 2), (1, 4), (2, 3, 5), (2, 4, 5)]
    rng = np.random.default_rng(0)
    potentials = [(mask_of(c), rng.normal(size=[sizes[p] for p in c])) for c in cliques]
    tree = JunctionTree.build(sizes, [mask for mask, _ in potentials])
    calibrated = Calibrated(tree, calibrate(tree, potentials))
    answers = dict(calibrated.marginals(map(mask_of, combinations(range(len(sizes)), 3))))
    assert len(answers) == 20
    assert max(one.table.size for one in made) <= 8


def check_every_marginal(structure, seed, forbid):
    sizes, cliques = structure
    rng = np.random.default_rng(seed)
    potentials = [
        (mask_of(c), rng.normal(0, 5, [sizes[p] for p in c])) for c in maximal_cliques(cliques)
    ]
    if forbid and potentials and potentials[0][1].size > 1:
        potentials[0][1].flat[0] = -np.inf
    everything = mask_of(range(len(sizes)))
    joint = np.zeros(sizes)
    for mask, potential in potentials:
        joint = joint + spread(potential, mask, everything)
    joint = np.exp(joint - joint.max())
    joint /= joint.sum()

    tree = JunctionTree.build(sizes, [mask for mask, _ in potentials])
    calibrated = Calibrated(tree, calibrate(tree, potentials))
    answers = dict(calibrated.marginals(range(1, everything + 1)))
    assert sorted(answers) == list(range(1, everything + 1))
    for wanted, answer in answers.items():
        expected = sum_to(joint, everything, wanted)
        np.testing.assert_allclose(answer, expected, atol=1e-12)
        np.testing.assert_allclose(calibrated.marginal(wanted), expected, atol=1e-12)
    # As a mechanism asks, of which none lies inside another.
    near = Calibrated(tree, calibrated.beliefs, NearRoutes(tree))
    for width in (2, 3, 4):
        masks = [mask_of(c) for c in combinations(range(len(sizes)), width)]
        together = dict(near.marginals(masks, together=True))
        assert sorted(together) == sorted(masks)
        for wanted, answer in together.items():
            np.testing.assert_allclose(answer, answers[wanted], atol=1e-12)


def maximal_cliques(cliques):
    return [tuple(bits(mask)) for mask in maximal(mask_of(c) for c in cliques)]


def test_marginals_inside_others_asked_for_are_summed_from_them(monkeypatch):
    tree = JunctionTree.build((2, 3, 4, 5), [0b0011, 0b0110, 0b1100])
    rng = np.random.default_rng(0)
    potentials = [(mask, rng.normal(size=tree.shape(mask))) for mask in tree.masks]
    calibrated = Calibrated(tree, calibrate(tree, potentials))
    gathered = []
    gather = Calibrated._gather
    monkeypatch.setattr(
        Calibrated,
        "_gather",
        lambda self, route, *where: gathered.append(route) or gather(self, route, *where),
    )
    masks = [mask_of(c) for n in (1, 2, 3) for c in combinations(range(4), n)]
    answers = dict(calibrated.marginals(masks))
    assert set(answers) == set(masks)
    whole = calibrated.marginal(0b1111)
    for mask, answer in answers.items():
        np.testing.assert_allclose(answer, sum_to(whole, 0b1111, mask), atol=1e-14)
    # Four answers of three attributes, and the conditionals on their ways.
    assert len([route for route in gathered if not route.steps]) < len(masks)


@pytest.mark.parametrize("held", [1, 40, 400])
def test_what_answers_share_is_held_within_bounds(held, monkeypatch):
    tree = JunctionTree.build((4, 3, 4, 3, 4), [0b00011, 0b00110, 0b01100, 0b11000])
    rng = np.random.default_rng(0)
    potentials = [(mask, rng.normal(size=tree.shape(mask))) for mask in tree.masks]
    beliefs = calibrate(tree, potentials)
    masks = [mask_of(c) for n in (2, 3) for c in combinations(range(5), n)]
    expected = dict(Calibrated(tree, beliefs).marginals(masks))
    monkeypatch.setattr("jam_dagster.models.graphical.answers.SHARED_CELLS", held)
    calibrated = Calibrated(tree, beliefs)
    largest, answers = 0, {}
    for mask, answer in calibrated.marginals(masks):
        shared = [*calibrated._sums.values(), *calibrated._conditionals.values()]
        largest = max(largest, sum(one.table.size for one in shared))
        answers[mask] = answer
    assert answers.keys() == expected.keys()
    for mask, answer in answers.items():
        np.testing.assert_allclose(answer, expected[mask], atol=1e-15)
    single = max(sum(calibrated.routes.tables(mask).values()) for mask in masks)
    assert largest <= max(held, single)


def test_forgetting_loses_nothing_but_time():
    tree = JunctionTree.build((2, 3, 4), [0b011, 0b110])
    potentials = [(0b011, np.arange(6.0).reshape(2, 3)), (0b110, np.ones((3, 4)))]
    calibrated = Calibrated(tree, calibrate(tree, potentials))
    before = calibrated.marginal(0b101)
    calibrated.forget()
    np.testing.assert_array_equal(calibrated.marginal(0b101), before)


@pytest.mark.gate
@pytest.mark.slow
def test_answers_of_a_real_run_equal_those_of_private_pgm(jam_data):
    from jam_dagster.trials.splits import SplitFiles

    split = SplitFiles("adult_pub025_01").load()
    draws = Draws(SeededNoise(0), UnledgeredAccount(1.0))
    model = (
        JamPgm(rounds=8)
        .run(split.private, split.public, Workload.all_k_way(split.domain, 3), draws)
        .model
    )
    theirs = to_markov_random_field(model)
    rng = np.random.default_rng(0)
    triples = list(combinations(split.domain.names, 3))
    chosen = [triples[i] for i in rng.choice(len(triples), 25, replace=False)]
    for clique in [*chosen, *model.cliques]:
        expected = np.asarray(theirs.project(clique).values)
        np.testing.assert_allclose(model.marginal(clique), expected, atol=1e-6)
