"""The size of a query, told before it is computed, against the memory that it takes."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from jam_dagster.models.graphical.answers import Calibrated
from jam_dagster.models.graphical.belief_propagation import calibrate
from jam_dagster.models.graphical.junction_tree import JunctionTree, cells_of
from jam_dagster.models.graphical.routes import Routes

WIDE = (30, 30, 20, 20, 20)
# Three cliques over the two attributes of 30 values and one of 20 each: to join two of the last
# takes both of the first.
STAR = [0b00111, 0b01011, 0b10011]
CHAIN = [0b00011, 0b00110, 0b01100, 0b11000]


@pytest.mark.parametrize(
    ("sizes", "cliques", "wanted", "cells"),
    [
        (WIDE, STAR, 0b00111, 30 * 30 * 20),
        (WIDE, STAR, 0b00101, 30 * 20),
        (WIDE, STAR, 0b11100, 30 * 30 * 20 * 20),
        (WIDE, CHAIN, 0b10001, 30 * 30),
        ((9, 9, 9), [], 0b111, 9**3),
    ],
    ids=["whole clique", "in a clique", "through a separator", "chain", "independent"],
)
def test_largest_table_is_what_the_structure_says(sizes, cliques, wanted, cells):
    assert Routes(JunctionTree.build(sizes, cliques)).largest_table(wanted) == cells


@pytest.mark.parametrize(
    ("sizes", "cliques", "wanted"),
    [
        (WIDE, STAR, 0b11100),
        (WIDE, STAR, 0b11101),
        ((40, 50, 40, 50, 40), CHAIN, 0b10101),
        ((60, 60, 60), [], 0b111),
        ((3, 200, 200, 100, 3), CHAIN, 0b11001),
    ],
)
def test_memory_that_a_marginal_takes_is_foretold(sizes, cliques, wanted):
    tree = JunctionTree.build(sizes, cliques)
    rng = np.random.default_rng(0)
    potentials = [(mask, rng.normal(size=tree.shape(mask))) for mask in cliques]
    calibrated = Calibrated(tree, calibrate(tree, potentials))
    foretold = 8 * Routes(tree).largest_table(wanted)
    assert foretold >= 8 * cells_of(wanted, sizes)
    tracemalloc.start()
    calibrated.marginal(wanted)
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # Three tables of a product, the operands' transposes, and a few kilobytes of Python's own.
    assert foretold <= taken + 8192
    assert taken <= 5 * foretold + 65536
