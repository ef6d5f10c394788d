"""Margins that measured cliques share, whose potentials change no model if they pass over.

Let a table over the attributes t be added to the potentials of one clique and subtracted from those
of another, both of which hold t. Their sum stays as it is, so in the dual of a fit only its part
``sum_i (s_i ||theta_i||^2 / 2 - theta_i . y_i)`` changes. Its curvature there is a ridge s_i, next
to that of probabilities elsewhere: a fit would take hundreds of steps. It is least at once. Let G_i
be the gradient ``s_i theta_i - y_i`` of clique i, summed onto t, and k_i the cells in each of its
sums. The best exchange makes all of them the same,

    G = (sum_i G_i / a_i) / (sum_i 1 / a_i),    a_i = s_i k_i,

and lowers the dual by ``sum_i (G_i - G)(G_i + G) / (2 a_i)``. Smaller sets of attributes come
first: an exchange over more of them leaves what is alike as it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from jam_dagster.models.graphical.belief_propagation import Beliefs
from jam_dagster.models.graphical.kernels import Table


@dataclass(frozen=True)
class _Part:
    """A margin of a clique: the axes of its table to sum, and a_i.

    `order` puts the axes that are left in ascending order, and `back` undoes it; `shape` is theirs
    in the table, with ones for those that are summed.
    """

    clique: int
    lost: tuple[int, ...]
    order: tuple[int, ...]
    back: tuple[int, ...]
    shape: tuple[int, ...]
    cells: int
    price: float


class SharedMargins:
    """The margins that measured cliques have in common.

    Parameters
    ----------
    beliefs
        With the measured cliques as factors.
    ridges
        s of every cell of all cliques, one after another; the same in all cells of a clique.
    """

    def __init__(self, beliefs: Beliefs, ridges: Table) -> None:
        self._beliefs = beliefs
        self._shared = [
            [_part(beliefs, ridges, number, mask) for number in holding]
            for mask, holding in _shared(beliefs.factors)
        ]
        self._wholes = [sum(1.0 / one.price for one in parts) for parts in self._shared]

    def agree(self, gradient: Table) -> float:
        """Make the margins of a gradient agree, in place, and return by how much the dual falls."""
        fallen = 0.0
        for parts, whole in zip(self._shared, self._wholes, strict=True):
            tables = [self._beliefs.factor(gradient, one.clique).table for one in parts]
            sums = [
                np.add.reduce(table, axis=one.lost).transpose(one.order)
                for table, one in zip(tables, parts, strict=True)
            ]
            common = sum(one / part.price for one, part in zip(sums, parts, strict=True)) / whole
            for table, one, part in zip(tables, sums, parts, strict=True):
                over = one - common
                fallen += float((over * (one + common)).sum()) / (2.0 * part.price)
                over /= part.cells
                table -= over.transpose(part.back).reshape(part.shape)
        return fallen


def _part(beliefs: Beliefs, ridges: Table, number: int, mask: int) -> _Part:
    axes = beliefs.axes[number]
    lost = tuple(place for place, axis in enumerate(axes) if not mask >> axis & 1)
    kept = [axis for axis in axes if mask >> axis & 1]
    cells = math.prod(beliefs.tree.sizes[axes[place]] for place in lost)
    ridge = float(ridges[beliefs.cells[number]])
    order = tuple(kept.index(axis) for axis in sorted(kept))
    back = tuple(sorted(kept).index(axis) for axis in kept)
    sizes = [1 if place in lost else beliefs.tree.sizes[axis] for place, axis in enumerate(axes)]
    return _Part(number, lost, order, back, tuple(sizes), cells, ridge * cells)


def _shared(factors: Sequence[int]) -> list[tuple[int, list[int]]]:
    """Return the intersections of factors, with the numbers of those that hold each, smaller first.

    If all that hold a set hold a larger one, an exchange over the set is one over the larger.
    """
    found = _intersections(factors, factors)
    while more := _intersections(found, factors) - found:
        found |= more
    return [
        (mask, holding)
        for mask in sorted(found, key=lambda mask: (mask.bit_count(), mask))
        if len(holding := [i for i, factor in enumerate(factors) if factor & mask == mask]) > 1
    ]


def _intersections(some: Iterable[int], factors: Sequence[int]) -> set[int]:
    return {one & factor for one in some for factor in factors if one & factor}
