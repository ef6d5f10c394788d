"""Junction trees over integer masks: their size and structure.

Attributes are positions 0..d-1 here, a clique is a sorted tuple of positions, and a set of
attributes is the integer with those bits set. Integers keep every order in this module independent
of the hash seed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from jam_dagster.errors import InputError

Positions = tuple[int, ...]

BYTES_PER_CELL = 8
MEGABYTE = 2**20

LARGEST_TREE_CELLS = 2**29
"""Cells of the largest junction tree that beliefs are kept on: four gibibytes of them."""


def bits(mask: int) -> Iterator[int]:
    """Yield the positions in a mask, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def mask_of(positions: Iterable[int]) -> int:
    """Return the mask of some positions."""
    mask = 0
    for position in positions:
        mask |= 1 << position
    return mask


def cells_of(mask: int, sizes: Sequence[int]) -> int:
    """Return the number of cells of the marginal over a mask."""
    return math.prod(sizes[position] for position in bits(mask))


def maximal(masks: Iterable[int]) -> list[int]:
    """Return the masks that are inside no other one, largest first, ties by value."""
    kept: list[int] = []
    for mask in sorted(set(masks), key=lambda m: (-m.bit_count(), m)):
        if not any(mask & other == mask for other in kept):
            kept.append(mask)
    return kept


def triangulate(sizes: Sequence[int], cliques: Iterable[int]) -> list[int]:
    """Return the maximal cliques of the triangulated graph of `cliques`.

    The elimination order is Private-PGM's (mbi ``make_junction_tree``): the attribute whose
    elimination makes the smallest table goes first, ties by position, except that a graph that is
    one tree needs no fill and its edges are its cliques. So sizes equal mbi's.
    """
    count = len(sizes)
    adjacent = [0] * count
    for clique in cliques:
        for position in bits(clique):
            adjacent[position] |= clique
    for position in range(count):
        adjacent[position] &= ~(1 << position)

    if _is_tree(adjacent):
        edges = [1 << a | 1 << b for a in range(count) for b in bits(adjacent[a]) if a < b]
        return maximal(edges)

    cost = [cells_of(adjacent[a] | 1 << a, sizes) for a in range(count)]
    left = list(range(count))
    eliminated: list[int] = []
    while left:
        chosen = min(left, key=cost.__getitem__)
        left.remove(chosen)
        bit, neighbours = 1 << chosen, adjacent[chosen]
        eliminated.append(neighbours | bit)
        for a in bits(neighbours):
            adjacent[a] = (adjacent[a] | neighbours) & ~(1 << a) & ~bit
            cost[a] = cells_of(adjacent[a] | 1 << a, sizes)
    return maximal(eliminated)


def _is_tree(adjacent: Sequence[int]) -> bool:
    """Return whether the graph is connected, has an edge, and has no cycle."""
    count = len(adjacent)
    edges = sum(mask.bit_count() for mask in adjacent) // 2
    if edges == 0 or edges != count - 1:
        return False
    reached, frontier = 1, 1
    while frontier:
        grown = 0
        for a in bits(frontier):
            grown |= adjacent[a]
        frontier = grown & ~reached
        reached |= frontier
    return reached.bit_count() == count


@dataclass(frozen=True)
class JunctionTree:
    """A tree of maximal cliques with the running intersection property.

    `edges` are pairs ``(parent, child)`` of clique numbers in preorder from clique 0. Parts of the
    model that share no attribute are joined by edges with an empty separator.
    """

    sizes: tuple[int, ...]
    masks: tuple[int, ...]
    edges: tuple[tuple[int, int], ...]

    @classmethod
    def build(cls, sizes: Sequence[int], cliques: Iterable[int]) -> JunctionTree:
        """Triangulate `cliques` and join the maximal cliques by a maximum spanning tree."""
        masks = sorted(triangulate(sizes, cliques), key=lambda m: tuple(bits(m)))
        cells = sum(cells_of(mask, sizes) for mask in masks)
        if cells > LARGEST_TREE_CELLS:
            raise InputError(
                f"The marginals of the model make a junction tree of more than "
                f"{LARGEST_TREE_CELLS:,} cells, the most that are kept: measure fewer or smaller "
                "ones."
            )
        links: dict[int, list[int]] = {i: [] for i in range(len(masks))}
        # Prim's algorithm on separator sizes gives the running intersection property.
        best = {i: (-(masks[0] & masks[i]).bit_count(), 0) for i in range(1, len(masks))}
        while best:
            child = min(best, key=lambda i: (best[i][0], i))
            links[best.pop(child)[1]].append(child)
            for i, (weight, _) in best.items():
                candidate = -(masks[child] & masks[i]).bit_count()
                if candidate < weight:
                    best[i] = (candidate, child)
        edges: list[tuple[int, int]] = []
        stack = [0]
        while stack:
            parent = stack.pop()
            edges.extend((parent, child) for child in links[parent])
            stack.extend(reversed(links[parent]))
        return cls(tuple(sizes), tuple(masks), tuple(edges))

    @cached_property
    def neighbours(self) -> tuple[tuple[int, ...], ...]:
        """The adjacent cliques of each clique."""
        around: list[list[int]] = [[] for _ in self.masks]
        for parent, child in self.edges:
            around[parent].append(child)
            around[child].append(parent)
        return tuple(tuple(sorted(numbers)) for numbers in around)

    def shape(self, mask: int) -> tuple[int, ...]:
        """Return the shape of the marginal over `mask`, attributes ascending."""
        return tuple(self.sizes[position] for position in bits(mask))

    @property
    def cells(self) -> int:
        """Number of cells of all cliques together."""
        return sum(cells_of(mask, self.sizes) for mask in self.masks)
