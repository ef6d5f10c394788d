"""Blocks hold each marginal once and have few cells."""

from __future__ import annotations

from itertools import combinations
from math import log, prod

from hypothesis import given
from hypothesis import strategies as st

from jam_dagster.tables.codes.covering import MOST_AXES, covering

SHAPES = st.lists(st.integers(1, 9), min_size=1, max_size=7)


def all_axes(shape, most):
    return [axes for k in range(1, most + 1) for axes in combinations(range(len(shape)), k)]


@given(SHAPES, st.integers(1, 3000), st.data())
def test_each_marginal_is_in_one_block_of_few_cells(shape, cells, data):
    asked = data.draw(st.lists(st.sampled_from(all_axes(shape, 5)), unique=True))
    blocks = covering(shape, asked, cells)
    assert sorted(one for within in blocks.values() for one in within) == sorted(asked)
    for block, within in blocks.items():
        assert all(set(one) <= set(block) for one in within)
        assert list(block) == sorted(set(block))
        assert prod(shape[axis] for axis in block) <= cells or block in asked


@given(SHAPES, st.integers(1, 3000), st.integers(1, 3))
def test_a_block_takes_the_attribute_that_adds_most(shape, cells, length):
    """The cover is that of the definition, which counts what each attribute adds anew."""
    asked = list(combinations(range(len(shape)), min(length, len(shape))))
    found = covering(shape, asked, cells)
    left, expected = set(asked), []
    while left:
        block = next(one for one in asked if one in left)
        while len(block) < MOST_AXES:
            worth = {}
            for axis in set(range(len(shape))) - set(block):
                longer = set(block) | {axis}
                if prod(shape[one] for one in longer) <= cells:
                    new = sum(axis in one and set(one) <= longer for one in left)
                    worth[axis] = new / log(1 + shape[axis])
            best = max(worth.values(), default=0)
            if not best:
                break
            block = tuple(sorted((*block, min(one for one in worth if worth[one] == best))))
        expected.append(block)
        left = {one for one in left if not set(one) <= set(block)}
    assert list(found) == expected


def test_attributes_of_one_value_do_not_make_blocks_without_end():
    blocks = covering([1] * 60, combinations(range(60), 2), 1)
    assert max(map(len, blocks)) == MOST_AXES
