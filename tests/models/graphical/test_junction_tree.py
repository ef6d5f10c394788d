"""The junction tree against brute force and against mbi."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jam_dagster.errors import InputError
from jam_dagster.models.graphical.junction_tree import (
    BYTES_PER_CELL,
    MEGABYTE,
    JunctionTree,
    bits,
    mask_of,
)
from jam_dagster.models.graphical.mbi_bridge import load_mbi
from tests.examples import examples
from tests.tiers import by_jax


@st.composite
def structures(draw, largest=7, widest=5):
    """Sizes of up to `largest` attributes and cliques over them."""
    sizes = tuple(draw(st.lists(st.integers(1, widest), min_size=2, max_size=largest)))
    clique = st.sets(st.integers(0, len(sizes) - 1), min_size=1, max_size=3)
    cliques = draw(st.lists(clique.map(lambda c: tuple(sorted(c))), max_size=8))
    return sizes, cliques


@pytest.mark.slow
@given(structures(largest=9, widest=7))
@examples(60)
@by_jax
def test_size_equals_mbi(structure):
    mbi = load_mbi()

    sizes, cliques = structure
    theirs = mbi.junction_tree.hypothetical_model_size(
        mbi.Domain(range(len(sizes)), sizes), cliques
    )
    tree = JunctionTree.build(sizes, [mask_of(clique) for clique in cliques])
    assert tree.cells * BYTES_PER_CELL / MEGABYTE == theirs


@given(structures())
@examples(50)
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


def test_a_tree_that_no_memory_holds_is_not_built() -> None:
    """Every pair of ten attributes: one table of all of them."""
    pairs = [mask_of((a, b)) for b in range(10) for a in range(b)]
    assert JunctionTree.build((7,) * 10, pairs).cells == 7**10
    with pytest.raises(InputError, match="a junction tree of more than 536,870,912 cells"):
        JunctionTree.build((8,) * 10, pairs)
