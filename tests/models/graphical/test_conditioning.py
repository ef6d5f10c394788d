"""Conditioned junction trees against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jam_dagster.models.graphical.belief_propagation import calibrate
from jam_dagster.models.graphical.conditioning import condition_beliefs
from jam_dagster.models.graphical.dense import spread, sum_to
from jam_dagster.models.graphical.junction_tree import JunctionTree, mask_of
from tests.examples import examples


@st.composite
def evidence_cases(draw):
    """Sizes, cliques, allowed values of some attributes, and a seed for potentials."""
    sizes = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=6)))
    clique = st.sets(st.integers(0, len(sizes) - 1), min_size=1, max_size=3)
    cliques = draw(st.lists(clique.map(mask_of), max_size=6))
    evidence = {}
    for position in draw(st.sets(st.integers(0, len(sizes) - 1))):
        size = sizes[position]
        allowed = draw(st.lists(st.booleans(), min_size=size, max_size=size))
        evidence[position] = np.array(allowed)
    return sizes, cliques, evidence, draw(st.integers(0, 2**32 - 1))


@given(evidence_cases(), st.booleans())
@examples(60)
def test_conditioned_beliefs_equal_brute_force(case, forbid):
    sizes, cliques, evidence, seed = case
    rng = np.random.default_rng(seed)
    tree = JunctionTree.build(sizes, cliques)
    potentials = [(mask, rng.normal(0, 4, tree.shape(mask))) for mask in cliques]
    if forbid and potentials and potentials[0][1].size > 1:
        potentials[0][1].flat[0] = -np.inf
    everything = mask_of(range(len(sizes)))
    joint = np.zeros(sizes)
    for mask, potential in potentials:
        joint = joint + spread(potential, mask, everything)
    if np.isneginf(joint).all():
        return
    joint = np.exp(joint - joint.max())
    joint /= joint.sum()
    for position, allowed in evidence.items():
        joint = joint * spread(allowed, 1 << position, everything)

    probability, beliefs = condition_beliefs(tree, calibrate(tree, potentials), evidence)
    assert probability == pytest.approx(joint.sum(), rel=1e-9)
    if not probability:
        assert beliefs == ()
        return
    for mask, belief in zip(tree.masks, beliefs, strict=True):
        expected = sum_to(joint, everything, mask) / joint.sum()
        np.testing.assert_allclose(belief, expected, atol=1e-12)


def test_beliefs_are_left_as_they_were():
    tree = JunctionTree.build((2, 2, 2), [0b011, 0b110])
    beliefs = calibrate(tree, [(0b011, np.arange(4.0).reshape(2, 2))])
    before = [belief.copy() for belief in beliefs]
    condition_beliefs(tree, beliefs, {0: np.array([True, False])})
    for old, new in zip(before, beliefs, strict=True):
        np.testing.assert_array_equal(old, new)


def test_rare_evidence_on_many_attributes_does_not_underflow():
    """Its probability is below the smallest float; what is given it is not."""
    count = 50
    tree = JunctionTree.build((2,) * count, [0b11 << i for i in range(count - 1)])
    rare = [(1 << i, np.array([0.0, -20.0])) for i in range(count)]
    last = [(0b11 << count - 2, np.array([[0.0, 0.0], [0.0, 1.0]]))]
    evidence = {i: np.array([False, True]) for i in range(count - 1)}
    probability, beliefs = condition_beliefs(tree, calibrate(tree, rare + last), evidence)
    assert 0 <= probability < 1e-300
    home = next(i for i, mask in enumerate(tree.masks) if mask >> count - 1 & 1)
    shares = sum_to(beliefs[home], tree.masks[home], 1 << count - 1)
    np.testing.assert_allclose(shares, np.array([1, np.exp(-19)]) / (1 + np.exp(-19)), rtol=1e-9)
