"""Junction trees over integer masks: model size, structure, calibration, answers.

Attributes are positions 0..d-1 here, a clique is a sorted tuple of positions, and a set of
attributes is the integer whose bits are those positions. Integers keep every order in this module
independent of the hash seed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

Positions = tuple[int, ...]

BYTES_PER_CELL = 8
MEGABYTE = 2**20


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
    """Return the masks that lie inside no other one, largest first, ties by value."""
    kept: list[int] = []
    for mask in sorted(set(masks), key=lambda m: (-m.bit_count(), m)):
        if not any(mask & other == mask for other in kept):
            kept.append(mask)
    return kept


def triangulate(sizes: Sequence[int], cliques: Iterable[int]) -> list[int]:
    """Return the maximal cliques of the triangulated graph of `cliques`.

    Parameters
    ----------
    sizes
        Number of values of each attribute.
    cliques
        Masks; each makes its attributes adjacent to one another.

    Returns
    -------
    list of int
        Masks, largest first. Together they cover every attribute.

    Notes
    -----
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
    """Tell whether the graph is connected, has an edge, and has no cycle."""
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


def model_size_mb(sizes: Sequence[int], cliques: Iterable[int]) -> float:
    """Return the size of the junction tree of `cliques` in megabytes (8 bytes a cell)."""
    cells = sum(cells_of(mask, sizes) for mask in triangulate(sizes, cliques))
    return cells * BYTES_PER_CELL / MEGABYTE


@dataclass(frozen=True)
class JunctionTree:
    """A tree of maximal cliques with the running intersection property.

    Attributes
    ----------
    sizes
        Number of values of each attribute.
    masks
        The maximal cliques.
    edges
        Pairs ``(parent, child)`` of clique numbers in preorder from clique 0. Parts of the model
        that share no attribute are joined by edges with an empty separator.
    """

    sizes: tuple[int, ...]
    masks: tuple[int, ...]
    edges: tuple[tuple[int, int], ...]

    @classmethod
    def build(cls, sizes: Sequence[int], cliques: Iterable[int]) -> JunctionTree:
        """Triangulate `cliques` and join the maximal cliques by a maximum spanning tree."""
        masks = sorted(triangulate(sizes, cliques), key=lambda m: tuple(bits(m)))
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
        """For each clique the cliques that it is joined to."""
        around: list[list[int]] = [[] for _ in self.masks]
        for parent, child in self.edges:
            around[parent].append(child)
            around[child].append(parent)
        return tuple(tuple(sorted(numbers)) for numbers in around)

    @cached_property
    def beyond(self) -> dict[tuple[int, int], int]:
        """For each directed edge ``(u, v)`` the mask of all attributes on v's side."""
        children: dict[int, list[int]] = {i: [] for i in range(len(self.masks))}
        for parent, child in self.edges:
            children[parent].append(child)
        below = list(self.masks)
        for parent, child in reversed(self.edges):
            below[parent] |= below[child]
        masks: dict[tuple[int, int], int] = {}
        for parent, child in self.edges:
            masks[parent, child] = below[child]
            above = self.masks[parent]
            above_edge = next((edge for edge in self.edges if edge[1] == parent), None)
            if above_edge is not None:
                above |= masks[parent, above_edge[0]]
            for sibling in children[parent]:
                if sibling != child:
                    above |= below[sibling]
            masks[child, parent] = above
        return masks

    def shape(self, mask: int) -> tuple[int, ...]:
        """Return the shape of the marginal over `mask`, attributes ascending."""
        return tuple(self.sizes[position] for position in bits(mask))

    @property
    def cells(self) -> int:
        """Number of cells of all cliques together."""
        return sum(cells_of(mask, self.sizes) for mask in self.masks)


def sum_to(table: np.ndarray, mask: int, kept: int) -> np.ndarray:
    """Sum a table over `mask` down to the attributes in `kept`."""
    axes = tuple(axis for axis, position in enumerate(bits(mask)) if not kept >> position & 1)
    summed: np.ndarray = table.sum(axis=axes) if axes else table
    return summed


def spread(table: np.ndarray, mask: int, onto: int) -> np.ndarray:
    """Reshape a table over `mask` so that it broadcasts against tables over `onto`."""
    shape = iter(table.shape)
    return table.reshape([next(shape) if mask >> position & 1 else 1 for position in bits(onto)])


def _log_sum(table: np.ndarray, mask: int, kept: int) -> np.ndarray:
    """Sum in log space, keeping minus infinity where a whole slice is impossible."""
    axes = tuple(axis for axis, position in enumerate(bits(mask)) if not kept >> position & 1)
    if not axes:
        return table
    top = table.max(axis=axes, keepdims=True)
    top = np.where(np.isneginf(top), 0.0, top)
    with np.errstate(divide="ignore"):
        summed: np.ndarray = np.log(np.exp(table - top).sum(axis=axes)) + top.reshape(
            [n for axis, n in enumerate(top.shape) if axis not in axes]
        )
    return summed


def calibrate(
    tree: JunctionTree, potentials: Sequence[tuple[int, np.ndarray]]
) -> tuple[np.ndarray, ...]:
    """Compute the marginal distribution of every clique by belief propagation.

    Parameters
    ----------
    tree
        A junction tree in which every potential lies inside a clique.
    potentials
        Pairs of a mask and a log potential, attributes ascending; minus infinity forbids a cell.

    Returns
    -------
    tuple of ndarray
        For each clique its probabilities, attributes ascending, summing to one.

    Notes
    -----
    Messages are sums in log space. The downward message divides out the upward one; where that is
    zero the clique below is impossible whatever the quotient, so any finite value serves.
    """
    beliefs = [np.zeros(tree.shape(mask)) for mask in tree.masks]
    for mask, potential in potentials:
        home = min(
            (i for i, clique in enumerate(tree.masks) if clique & mask == mask),
            key=lambda i: beliefs[i].size,
        )
        beliefs[home] += spread(potential, mask, tree.masks[home])
    upward: dict[int, np.ndarray] = {}
    for parent, child in reversed(tree.edges):
        separator = tree.masks[parent] & tree.masks[child]
        upward[child] = _log_sum(beliefs[child], tree.masks[child], separator)
        beliefs[parent] += spread(upward[child], separator, tree.masks[parent])
    for parent, child in tree.edges:
        separator = tree.masks[parent] & tree.masks[child]
        total = _log_sum(beliefs[parent], tree.masks[parent], separator)
        message = total - np.where(np.isneginf(upward[child]), 0.0, upward[child])
        beliefs[child] += spread(message, separator, tree.masks[child])
    for belief in beliefs:
        np.exp(belief - belief.max(), out=belief)
        belief /= belief.sum()
    return tuple(beliefs)


class Calibrated:
    """Answers marginal queries from a calibrated junction tree.

    Parameters
    ----------
    tree
        The junction tree.
    beliefs
        Its cliques' probabilities, as `calibrate` returns them.

    Notes
    -----
    A marginal inside a clique is a sum. One that spans cliques is gathered at the clique that
    splits its attributes best, through conditionals P(attributes | separator) that are kept: all
    three-way marginals of a model share a few hundred of them.
    """

    def __init__(self, tree: JunctionTree, beliefs: Sequence[np.ndarray]) -> None:
        self.tree = tree
        self.beliefs = tuple(beliefs)
        self._sums: dict[tuple[int, int], np.ndarray] = {}
        self._conditionals: dict[tuple[int, int, int], np.ndarray] = {}

    def marginal(self, mask: int) -> np.ndarray:
        """Return the probabilities of the marginal over `mask`, attributes ascending."""
        homes = [i for i, clique in enumerate(self.tree.masks) if clique & mask == mask]
        if homes:
            home = min(homes, key=lambda i: self.beliefs[i].size)
            return sum_to(self.beliefs[home], self.tree.masks[home], mask)
        root = self._root(mask)
        branches = self._branches(root, -1, mask)
        here = self._needed(root, branches, mask)
        return self._gather(self._sum(root, here), here, root, branches, mask)

    def forget(self) -> None:
        """Drop the intermediate tables, whose memory may exceed the model's."""
        self._sums.clear()
        self._conditionals.clear()

    def _sum(self, clique: int, kept: int) -> np.ndarray:
        key = (clique, kept)
        if key not in self._sums:
            self._sums[key] = sum_to(self.beliefs[clique], self.tree.masks[clique], kept)
        return self._sums[key]

    def _root(self, mask: int) -> int:
        """Return the clique from which the largest branch holds the fewest attributes."""

        def spread_over(root: int) -> tuple[int, int]:
            branches = self._branches(root, -1, mask)
            here = self._needed(root, branches, mask)
            return max(part.bit_count() for _, part in branches), cells_of(here, self.tree.sizes)

        return min(range(len(self.tree.masks)), key=spread_over)

    def _branches(self, clique: int, came_from: int, mask: int) -> list[tuple[int, int]]:
        """Return the neighbours that lead to attributes of `mask` outside `clique`, with them."""
        outside = mask & ~self.tree.masks[clique]
        return [
            (neighbour, part)
            for neighbour in self.tree.neighbours[clique]
            if neighbour != came_from and (part := outside & self.tree.beyond[clique, neighbour])
        ]

    def _needed(self, clique: int, branches: Sequence[tuple[int, int]], mask: int) -> int:
        """Return the attributes of a clique that are asked for or lead to a branch."""
        here = mask & self.tree.masks[clique]
        for neighbour, _ in branches:
            here |= self.tree.masks[clique] & self.tree.masks[neighbour]
        return here

    def _conditional(self, source: int, clique: int, part: int) -> np.ndarray:
        """Return P(part | separator) beyond the edge; axes: the separator's, then the part's."""
        key = (source, clique, part)
        if key in self._conditionals:
            return self._conditionals[key]
        separator = self.tree.masks[source] & self.tree.masks[clique]
        branches = self._branches(clique, source, part)
        here = separator | self._needed(clique, branches, part)
        joint = self._sum(clique, here)
        evidence = spread(self._sum(clique, separator), separator, here)
        table = np.divide(joint, evidence, out=np.zeros_like(joint), where=evidence > 0)
        gathered = self._gather(table, here, clique, branches, separator | part)
        order = [*bits(separator), *bits(part)]
        ascending = list(bits(separator | part))
        self._conditionals[key] = gathered.transpose([ascending.index(p) for p in order])
        return self._conditionals[key]

    def _gather(
        self,
        table: np.ndarray,
        here: int,
        clique: int,
        branches: Sequence[tuple[int, int]],
        wanted: int,
    ) -> np.ndarray:
        """Multiply a table with its branches' conditionals and sum to the wanted attributes."""
        left = [(self.tree.masks[clique] & self.tree.masks[n], n, part) for n, part in branches]

        def kept_after(branch: tuple[int, int, int]) -> int:
            kept = wanted
            for other in left:
                if other is not branch:
                    kept |= other[0]
            return here & kept

        while left:
            branch = min(left, key=lambda b: cells_of(kept_after(b) | b[2], self.tree.sizes))
            separator, neighbour, part = branch
            keep = kept_after(branch)
            conditional = self._conditional(clique, neighbour, part)
            table = _join(table, here, conditional, separator, part, keep)
            here = keep | part
            left.remove(branch)
        return sum_to(table, here, wanted)


def _join(
    table: np.ndarray, here: int, conditional: np.ndarray, separator: int, part: int, keep: int
) -> np.ndarray:
    """Return ``sum table(here) * conditional(part | separator)`` over ``here`` less ``keep``.

    What is summed lies in the separator. The sum runs as one matrix product for each value of the
    separator's kept attributes; einsum would go cell by cell.
    """
    groups, rest, summed, fresh = (
        list(bits(mask)) for mask in (separator & keep, keep & ~separator, separator & ~keep, part)
    )
    size = dict(zip(bits(here), table.shape, strict=True))
    size |= dict(zip([*bits(separator), *fresh], conditional.shape, strict=True))

    def matrices(array: np.ndarray, axes: list[int], *parts: list[int]) -> np.ndarray:
        order = [axes.index(position) for positions in parts for position in positions]
        shape = [math.prod(size[position] for position in positions) for positions in parts]
        return array.transpose(order).reshape(shape)

    product = np.matmul(
        matrices(table, list(bits(here)), groups, rest, summed),
        matrices(conditional, [*bits(separator), *fresh], groups, summed, fresh),
    )
    order = [*groups, *rest, *fresh]
    joined = product.reshape([size[position] for position in order])
    ascending: np.ndarray = joined.transpose([order.index(p) for p in sorted(order)])
    return ascending
