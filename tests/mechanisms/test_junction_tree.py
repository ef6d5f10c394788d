"""The junction tree against brute force and against mbi."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from jam_dagster.mechanisms.answers import Calibrated
from jam_dagster.mechanisms.belief_propagation import calibrate
from jam_dagster.mechanisms.dense import spread, sum_to
from jam_dagster.mechanisms.junction_tree import (
    JunctionTree,
    bits,
    mask_of,
    maximal,
    model_size_mb,
)
from jam_dagster.mechanisms.private_pgm import load_mbi


@st.composite
def structures(draw, largest=7, widest=5):
    """Sizes of up to `largest` attributes and cliques over them."""
    sizes = tuple(draw(st.lists(st.integers(1, widest), min_size=2, max_size=largest)))
    clique = st.sets(st.integers(0, len(sizes) - 1), min_size=1, max_size=3)
    cliques = draw(st.lists(clique.map(lambda c: tuple(sorted(c))), max_size=8))
    return sizes, cliques


@given(structures(largest=9, widest=7))
@settings(max_examples=150, deadline=None)
def test_size_equals_mbi(structure):
    mbi = load_mbi()

    sizes, cliques = structure
    theirs = mbi.junction_tree.hypothetical_model_size(
        mbi.Domain(range(len(sizes)), sizes), cliques
    )
    ours = model_size_mb(sizes, [mask_of(clique) for clique in cliques])
    assert ours == theirs


@given(structures())
@settings(max_examples=100, deadline=None)
def test_running_intersection(structure):
    sizes, cliques = structure
    tree = JunctionTree.build(sizes, [mask_of(clique) for clique in cliques])
    assert len(tree.edges) == len(tree.masks) - 1
    assert mask_of(range(len(sizes))) == mask_of(p for mask in tree.masks for p in bits(mask))
    assert all(any(mask_of(c) & mask == mask_of(c) for mask in tree.masks) for c in cliques)
    for position in range(len(sizes)):
        holders = {i for i, mask in enumerate(tree.masks) if mask >> position & 1}
        joined = sum(parent in holders and child in holders for parent, child in tree.edges)
        assert joined == len(holders) - 1


@given(structures(largest=6, widest=3), st.integers(0, 2**32 - 1), st.booleans())
@settings(max_examples=100, deadline=None)
def test_every_marginal_equals_brute_force(structure, seed, forbid):
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
    for wanted in range(1, everything + 1):
        np.testing.assert_allclose(
            calibrated.marginal(wanted), sum_to(joint, everything, wanted), atol=1e-12
        )


def maximal_cliques(cliques):
    return [tuple(bits(mask)) for mask in maximal(mask_of(c) for c in cliques)]


def test_potentials_of_thousands_do_not_underflow():
    """Fits drift to potentials of a thousand and more; plain products would vanish."""
    tree = JunctionTree.build((2, 2, 2), [0b011, 0b110])
    shift = np.array([[-1500.0, 1500.0], [1500.0, -1500.0]])
    beliefs = calibrate(tree, [(0b011, shift), (0b110, shift)])
    for belief in beliefs:
        np.testing.assert_allclose(belief, [[0, 0.5], [0.5, 0]], atol=1e-12)
