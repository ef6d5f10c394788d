"""Beliefs that follow their potentials, against propagation from scratch and brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jam_dagster.models.graphical import kernels
from jam_dagster.models.graphical.belief_propagation import Beliefs, calibrate
from jam_dagster.models.graphical.dense import (
    SMALL_CLIQUE,
    SMALLER,
    ascending,
    grouped,
    layout,
    spread,
    sum_to,
)
from jam_dagster.models.graphical.junction_tree import JunctionTree, cells_of, mask_of
from tests.examples import examples
from tests.models.graphical.test_junction_tree import structures


def brute_force(tree, potentials):
    """The joint distribution over all attributes."""
    everything = mask_of(range(len(tree.sizes)))
    logs = np.zeros(tree.sizes)
    for mask, table in potentials:
        logs = logs + spread(table, mask, everything)
    joint = np.exp(logs - logs.max())
    return joint / joint.sum(), everything


def flat(tables, factors, sizes):
    """Tables with ascending attributes, one after another in layout order."""
    parts = []
    for table, mask in zip(tables, factors, strict=True):
        axes = layout(mask, sizes)
        parts.append(table.transpose([sorted(axes).index(a) for a in axes]).ravel())
    return np.concatenate(parts)


@pytest.mark.parametrize("small", [4096, 4])
@given(structures(largest=6, widest=3), st.integers(0, 2**32 - 1), st.booleans())
@examples(60)
def test_beliefs_follow_every_change(small, structure, seed, forbid):
    sizes, cliques = structure
    factors = [mask for mask in dict.fromkeys(map(mask_of, cliques)) if mask]
    if not factors:
        return
    rng = np.random.default_rng(seed)
    tree = JunctionTree.build(sizes, factors)
    forbidden = []
    if forbid:
        impossible = rng.random(tree.shape(factors[0])) < 0.4
        impossible.ravel()[0] = False
        forbidden = [(factors[0], np.where(impossible, -np.inf, 0.0))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("jam_dagster.models.graphical.dense.SMALL_CLIQUE", small)
        beliefs = Beliefs(tree, calibrate(tree, forbidden), factors)
    theta = [np.zeros(tree.shape(mask)) for mask in factors]
    for scale in (1.0, 20.0, 0.1):
        change = [rng.normal(0, scale, table.shape) for table in theta]
        theta = [old + new for old, new in zip(theta, change, strict=True)]
        marginals = beliefs.update(flat(change, factors, sizes))
        potentials = [*zip(factors, theta, strict=True), *forbidden]
        joint, everything = brute_force(tree, potentials)
        for number, mask in enumerate(factors):
            part = beliefs.factor(marginals, number)
            expected = sum_to(joint, everything, mask)
            np.testing.assert_allclose(ascending(part.table, part.axes), expected, atol=1e-11)
        scratch = calibrate(tree, potentials)
        for ours, theirs in zip(beliefs.beliefs, scratch, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-11)


def test_thousands_of_steps_leave_the_beliefs_true_to_their_potentials():
    """Rounding does not pile up: each step sets separators right by what both sides say."""
    sizes, factors = (4, 5, 3, 6), [0b0011, 0b0110, 0b1100]
    tree = JunctionTree.build(sizes, factors)
    beliefs = Beliefs(tree, calibrate(tree, []), factors)
    rng = np.random.default_rng(0)
    theta = np.zeros(beliefs.cells[-1])
    for _ in range(3000):
        change = rng.normal(0, 0.1, theta.size)
        theta += change
        beliefs.update(change)
    potentials = [
        (mask, ascending(beliefs.factor(theta, i).table, beliefs.axes[i]))
        for i, mask in enumerate(factors)
    ]
    for ours, theirs in zip(beliefs.beliefs, calibrate(tree, potentials), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-11)


def test_compiled_and_numpy_beliefs_agree():
    if kernels.library() is None:
        pytest.skip("no kernels were compiled")
    sizes, factors = (7, 8, 9, 10), [0b0111, 0b1110, 0b0101, 0b0001]
    tree = JunctionTree.build(sizes, factors)
    change = np.random.default_rng(0).normal(size=sum(cells_of(m, sizes) for m in factors))
    compiled = Beliefs(tree, calibrate(tree, []), factors).update(change).copy()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAM_KERNELS", "numpy")
        kernels.library.cache_clear()
        plain = Beliefs(tree, calibrate(tree, []), factors).update(change)
    kernels.library.cache_clear()
    np.testing.assert_allclose(compiled, plain, rtol=1e-12)


def test_negligible_probabilities_are_handed_out_as_zero():
    tree = JunctionTree.build((2,), [1])
    beliefs = Beliefs(tree, calibrate(tree, []), [1])
    beliefs.update(np.array([-300.0, 0.0]))
    np.testing.assert_array_equal(beliefs.beliefs[0], [0, 1])
    # They are not lost: the potentials may rise again.
    np.testing.assert_allclose(beliefs.update(np.array([300.0, 0.0])), [0.5, 0.5])


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=7),
    st.lists(st.integers(1, 127), min_size=1, max_size=12),
)
@examples(100)
def test_groups_hold_every_mask_under_a_union_that_is_small(sizes, masks):
    clique = mask_of(range(len(sizes)))
    masks = [mask & clique or 1 for mask in masks]
    groups = grouped(masks, clique, sizes)
    assert sorted(number for _, members in groups for number in members) == list(range(len(masks)))
    for union, members in groups:
        assert all(masks[number] & ~union == 0 for number in members)
        largest = max(cells_of(masks[number], sizes) for number in members)
        small = max(cells_of(clique, sizes) // SMALLER, largest)
        assert cells_of(union, sizes) <= small or cells_of(clique, sizes) <= SMALL_CLIQUE


def test_potentials_of_thousands_do_not_underflow():
    """Fits drift to potentials of a thousand and more; plain products would vanish."""
    tree = JunctionTree.build((2, 2, 2), [0b011, 0b110])
    shift = np.array([[-1500.0, 1500.0], [1500.0, -1500.0]])
    beliefs = calibrate(tree, [(0b011, shift), (0b110, shift)])
    for belief in beliefs:
        np.testing.assert_allclose(belief, [[0, 0.5], [0.5, 0]], atol=1e-12)
