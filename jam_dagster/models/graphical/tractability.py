"""The tractable candidates of a model, kept from round to round.

A candidate inside a clique of the model costs nothing. Any other one fits if the junction tree of
the measured cliques, the declared impossible combinations and itself stays within the limit
(Algorithm 2, line 6). One triangulation for each candidate would suffice; this is much less work:

- The junction tree depends on the graph alone, and a candidate adds to it a clique on those of its
  attributes that are not adjacent to all its others. Candidates with the same such attributes
  share one triangulation; where there are none, the size is the model's.
- Elimination is independent in every connected component, so only components that the candidate
  joins are triangulated. Sizes stay valid until one of these components changes.
- Up to the first attribute that gains a neighbour, elimination is the same as without the
  candidate: no cost fell, and no raised cost is the smallest. It resumes there, from a stored
  state, for all candidates in parallel, or one after the other in kernels.c.
- It stops when the cliques so far exceed the limit; their size is kept as a lower bound.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from jam_dagster.models.graphical.junction_tree import (
    BYTES_PER_CELL,
    MEGABYTE,
    bits,
    cells_of,
    mask_of,
    maximal,
)
from jam_dagster.models.graphical.kernels import library
from jam_dagster.tables import Clique, Domain

Words = npt.NDArray[np.uint64]
"""Sets of attributes: the first axis holds the words of a set, the others number the sets."""

Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.intp]

WORD = 64
MOST_WORDS = 4
"""Most words of a set in kernels.c."""
PART = 12
"""Attributes per lookup of cells; a table of 2**PART floats fits fast memory."""
LARGEST_CELLS = 2**53 - 1
"""Numbers of cells up to this are exact as floats; a larger model (64 PiB) fits no limit."""
BLOCK_BYTES = 2**20
"""Memory for the states of parallel triangulations."""


class TractabilityFilter:
    """Finds the tractable candidates of a model.

    The state between calls depends on the last model only and takes a few bytes for each candidate
    and attribute.
    """

    def __init__(self, domain: Domain, candidates: Sequence[Clique]) -> None:
        self._position = domain.positions
        self._impossible = [self._mask(clique) for clique in domain.impossible_masks()]
        self._sets = _Sets(domain.shape)
        self._candidates = self._sets.words([self._mask(candidate) for candidate in candidates])
        # Each member of each candidate, as a pair.
        self._owner, self._member = np.nonzero(self._sets.unpack(self._candidates))
        self._within = np.zeros(len(candidates))
        self._exact = np.zeros(len(candidates), dtype=bool)
        attributes = range(len(domain.shape))
        self._move_to(_Graph.build([0] * len(attributes), self._sets), attributes)

    def fitting(
        self,
        measured: Iterable[Clique],
        limit_mb: float,
        among: Sequence[int] | None = None,
    ) -> list[int]:
        """Return the numbers of the tractable candidates, of all or of some, ascending."""
        model = maximal([*(self._mask(clique) for clique in measured), *self._impossible])
        adjacent = _adjacency(len(self._sets.sizes), model)
        pairs = zip(adjacent, self._graph.adjacent, strict=True)
        moved = [a for a, (now, before) in enumerate(pairs) if now != before]
        if moved:
            self._move_to(_Graph.build(adjacent, self._sets), moved)

        limit = min(limit_mb * MEGABYTE / BYTES_PER_CELL, LARGEST_CELLS)
        every = np.arange(len(self._gains)) if among is None else np.sort(among).astype(np.intp)
        open_ = ~self._exact[every] & (self._beside[every] + self._within[every] <= limit)
        self._grow(every[open_], limit)
        grown = self._beside[every] + self._within[every]
        size = np.where(self._gains[every], grown, self._graph.cells)
        fits = self._exact[every] & np.less_equal(size, limit)
        if self._graph.cells > limit:
            looked_at = self._candidates[:, every]
            for clique in self._sets.words(model).T:
                fits |= np.all(looked_at & ~clique[:, None] == 0, axis=0)
        numbers: list[int] = every[fits].tolist()
        return numbers

    def _mask(self, clique: Clique) -> int:
        return mask_of(self._position[name] for name in clique)

    def _move_to(self, graph: _Graph, moved: Sequence[int]) -> None:
        """Adopt the model's graph, and drop the sizes that depend on changed attributes."""
        self._graph = graph
        # The attributes of each candidate that gain a neighbour from it.
        apart = self._candidates[:, self._owner] & graph.apart[:, self._member]
        self._gaining = np.zeros((self._candidates.shape[1], len(graph.adjacent)), dtype=bool)
        self._gaining[self._owner, self._member] = np.any(apart, axis=0)
        self._gains = np.any(self._gaining, axis=1)
        self._joined = np.zeros((len(self._gaining), len(graph.component_cells)), dtype=bool)
        self._joined[self._owner, graph.component[self._member]] = True
        # Cells in the components that a candidate leaves as they are, and in those it joins; of
        # the latter at least so many, unless exact.
        self._beside = (~self._joined).astype(np.float64) @ graph.component_cells
        changed = np.any(self._joined[:, graph.component[moved]], axis=1)
        self._within[changed] = 0
        self._exact[changed] = False
        self._exact |= ~self._gains

    def _grow(self, numbers: Numbers, limit: float) -> None:
        """Update the sizes of some candidates, as far as the limit requires."""
        gaining = self._sets.pack(self._gaining[numbers])
        order = np.lexsort(gaining)
        fresh = np.ones(len(order), dtype=bool)
        fresh[1:] = (gaining[:, order[1:]] != gaining[:, order[:-1]]).any(axis=0)
        first = numbers[order[fresh]]
        within, exact = np.zeros(len(first)), np.zeros(len(first), dtype=bool)
        step = max(1, BLOCK_BYTES // self._sets.bit.nbytes)
        for start in range(0, len(first), step):
            block = first[start : start + step]
            within[start : start + step], exact[start : start + step] = self._graph.grown(
                self._gaining[block], self._joined[block], limit - self._beside[block]
            )
        which = np.cumsum(fresh) - 1
        self._within[numbers[order]], self._exact[numbers[order]] = within[which], exact[which]


class _Sets:
    """Sets of attributes as words, and the cells of their marginals."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = tuple(sizes)
        self.count = -(-len(self.sizes) // WORD)
        self.bit = self.words([1 << position for position in range(len(self.sizes))])
        # Cells of the attributes in each part of a set, by the part's index and value.
        self._tables: list[tuple[int, np.uint64, Floats]] = []
        values = np.arange(1 << PART)
        for start in range(0, len(self.sizes), WORD):
            for shift in range(0, min(WORD, len(self.sizes) - start), PART):
                table = np.ones(1 << PART)
                end = min(start + WORD, start + shift + PART)
                for index, size in enumerate(self.sizes[start + shift : end]):
                    table[values >> index & 1 == 1] *= size
                self._tables.append((start // WORD, np.uint64(shift), table))

    def words(self, masks: Sequence[int]) -> Words:
        """Return masks as words, shape ``(words, masks)``."""
        data = b"".join(mask.to_bytes(self.count * WORD // 8, "little") for mask in masks)
        rows = np.frombuffer(data, dtype="<u8").reshape(len(masks), self.count)
        return np.ascontiguousarray(rows.T, dtype=np.uint64)

    def pack(self, members: Flags) -> Words:
        """Return sets of marked members, shape ``(n, attributes)``, as words."""
        padded = np.zeros((len(members), self.count * WORD), dtype=bool)
        padded[:, : members.shape[1]] = members
        rows = np.packbits(padded, axis=1, bitorder="little").view("<u8")
        return np.ascontiguousarray(rows.T, dtype=np.uint64)

    def unpack(self, sets: Words) -> Flags:
        """Return which attributes sets hold, shape ``(n, attributes)``."""
        rows = np.ascontiguousarray(sets.T, dtype="<u8").view(np.uint8)
        return np.unpackbits(rows, axis=1, count=len(self.sizes), bitorder="little").view(np.bool_)

    def cells(self, sets: Words) -> Floats:
        """Return the cells of the marginals over sets, shape ``(words, n)``; exact below 2**53."""
        cells = np.ones(sets.shape[1])
        part = np.uint64((1 << PART) - 1)
        with np.errstate(over="ignore"):
            for word, shift, table in self._tables:
                cells *= table[(sets[word] >> shift & part).view(np.int64)]
        return cells


@dataclass(frozen=True)
class _Graph:
    """The model's graph, its components, and its elimination step by step.

    All masks are words of attributes. Numbers of cells are cut off where floats cease to be exact.
    `apart` has the attributes without an edge to each, shape ``(words, attributes)``. `tree_cells`
    has the cells of all edges if one edge more can make the graph one tree, which is not
    triangulated; else None. `step` says when each attribute is eliminated, `clique_cells` the cells
    of the clique that this makes, 0 if it is not maximal. `neighbours_at` and `cost_at`, shapes
    ``(words, steps, attributes)`` and ``(steps, attributes)``, have neighbours and cells of an
    attribute's clique before each step; of an eliminated attribute, what they were then, and
    infinity.
    """

    adjacent: list[int]
    cells: float
    apart: Words
    component: Numbers
    component_cells: Floats
    tree_cells: float | None
    step: Numbers
    clique_cells: Floats
    neighbours_at: Words
    cost_at: Floats
    sets: _Sets

    @classmethod
    def build(cls, adjacent: list[int], sets: _Sets) -> _Graph:
        """Eliminate all attributes, in the order of `junction_tree.triangulate`."""
        sizes, count = sets.sizes, len(adjacent)
        neighbours = list(adjacent)
        cost = [cells_of(adjacent[a] | 1 << a, sizes) for a in range(count)]
        step, clique_cells = np.zeros(count, dtype=np.intp), np.zeros(count)
        neighbours_at = np.repeat(sets.words(adjacent)[:, None, :], count, axis=1)
        cost_at = np.repeat([[float(_cut(cells)) for cells in cost]], count, axis=0)
        separators: set[int] = set()
        left = list(range(count))
        for now in range(count):
            chosen = min(left, key=cost.__getitem__)
            left.remove(chosen)
            bit, around = 1 << chosen, neighbours[chosen]
            step[chosen] = now
            # A clique that is not maximal is what an earlier elimination left of its own.
            if around | bit not in separators:
                clique_cells[chosen] = _cut(cost[chosen])
            separators.add(around)
            touched = list(bits(around))
            for a in touched:
                fill = around & ~neighbours[a] & ~(1 << a)
                neighbours[a] = (neighbours[a] | fill) & ~bit
                cost[a] = cost[a] // sizes[chosen] * cells_of(fill, sizes)
            later = slice(now + 1, None)
            cost_at[later, chosen] = np.inf
            if touched:
                cost_at[later, touched] = [_cut(cost[a]) for a in touched]
                words = sets.words([neighbours[a] for a in touched])
                neighbours_at[:, later, touched] = words[:, None, :]

        components = _components(adjacent)
        component = np.zeros(count, dtype=np.intp)
        for number, mask in enumerate(components):
            component[list(bits(mask))] = number
        edges = sum(mask.bit_count() for mask in adjacent) // 2
        tree_cells = None
        if len(components) == 2 and edges == count - 2:
            pairs = ((a, b) for a in range(count) for b in bits(adjacent[a]) if a < b)
            tree_cells = float(_cut(sum(sizes[a] * sizes[b] for a, b in pairs)))
        everything = (1 << count) - 1
        return cls(
            adjacent,
            float(clique_cells.sum()),
            sets.words([everything & ~(mask | 1 << a) for a, mask in enumerate(adjacent)]),
            component,
            np.bincount(component, clique_cells).astype(np.float64),
            tree_cells,
            step,
            clique_cells,
            neighbours_at,
            cost_at,
            sets,
        )

    def grown(self, gaining: Flags, joined: Flags, limit: Floats) -> tuple[Floats, Flags]:
        """Return the sizes of the graph's components with one more clique, for many cliques."""
        sets, loaded = self.sets, library()
        within, exact = np.zeros(len(gaining)), np.zeros(len(gaining), dtype=bool)
        if loaded is not None and sets.count <= MOST_WORDS:
            self._grown_in_c(loaded, gaining, joined, limit, within, exact)
        else:
            self._grown_in_numpy(gaining, joined, limit, within, exact)
        if self.tree_cells is not None:
            tree = joined.all(axis=1) & (gaining.sum(axis=1) == 2)
            within[tree] = self.tree_cells + sets.cells(sets.pack(gaining[tree]))
            exact[tree] = within[tree] <= LARGEST_CELLS
        return within, exact

    def _grown_in_c(
        self,
        loaded: ctypes.CDLL,
        gaining: Flags,
        joined: Flags,
        limit: Floats,
        within: Floats,
        exact: Flags,
    ) -> None:
        given = [
            np.array(self.sets.sizes, dtype=np.float64),
            *(self.component, self.step, self.clique_cells),
            *(self.neighbours_at, self.cost_at),
            *(gaining, joined, limit),
        ]
        held = [np.ascontiguousarray(one) for one in given]
        loaded.jam_grown(
            *(len(self.adjacent), self.sets.count, joined.shape[1]),
            *(one.ctypes.data for one in held),
            len(gaining),
            within.ctypes.data,
            exact.ctypes.data,
        )

    def _grown_in_numpy(
        self, gaining: Flags, joined: Flags, limit: Floats, within: Floats, exact: Flags
    ) -> None:
        sets, width = self.sets, len(self.adjacent)
        first = np.where(gaining, self.step, width).min(axis=1)
        concerned = joined.take(self.component, axis=1)
        before = concerned & (self.step < first[:, None])
        neighbours = self.neighbours_at.take(first, axis=1)
        cost = self.cost_at[first]
        cost[~concerned] = np.inf

        rows = np.arange(len(gaining))
        total = before.astype(np.float64) @ self.clique_cells
        left = sets.pack(concerned & ~before)
        clique = sets.pack(gaining)
        none = np.zeros_like(clique)
        self._connect(neighbours, cost, np.flatnonzero(gaining), clique, none)
        while len(rows):
            chosen = cost.argmin(axis=1)
            here = np.arange(len(rows)) * width + chosen
            bit = sets.bit[:, chosen]
            around = neighbours.reshape(sets.count, -1)[:, here]
            clique = around | bit
            # Only eliminated attributes can have the neighbours that make up this clique.
            known = (neighbours == clique[:, :, None]).all(axis=0).any(axis=1)
            total += np.where(known, 0, cost.ravel()[here])
            left &= ~bit
            # The rest inside this clique makes no other maximal one.
            over = ~(total <= limit)
            done = over | ((left & ~around) == 0).all(axis=0)
            if done.any():
                within[rows[done]], exact[rows[done]] = total[done], ~over[done]
                going = ~done
                rows, total, limit = rows[going], total[going], limit[going]
                cost, chosen = cost[going], chosen[going]
                neighbours, left, around, bit = (
                    words.compress(going, axis=1) for words in (neighbours, left, around, bit)
                )
            cost[np.arange(len(rows)), chosen] = np.inf
            self._connect(neighbours, cost, np.flatnonzero(sets.unpack(around)), around, bit)

    def _connect(
        self, neighbours: Words, cost: Floats, where: Numbers, clique: Words, gone: Words
    ) -> None:
        """Make the attributes at flat places ``(row, attribute)`` adjacent to their row's clique.

        In place; `gone` holds for each row the attribute that is eliminated.
        """
        rows = where // len(self.adjacent)
        bit = self.sets.bit[:, where - rows * len(self.adjacent)]
        flat = neighbours.reshape(self.sets.count, -1)
        grown = (flat[:, where] | clique[:, rows]) & ~(bit | gone[:, rows])
        flat[:, where] = grown
        cost.ravel()[where] = self.sets.cells(grown | bit)


def _cut(cells: int) -> int:
    """Return a number of cells that floats can hold; a larger one exceeds every limit."""
    return min(cells, LARGEST_CELLS + 1)


def _adjacency(count: int, cliques: Iterable[int]) -> list[int]:
    """Return the neighbours of each attribute, as masks."""
    adjacent = [0] * count
    for clique in cliques:
        for a in bits(clique):
            adjacent[a] |= clique & ~(1 << a)
    return adjacent


def _components(adjacent: Sequence[int]) -> list[int]:
    """Return the masks of the connected components, by first attribute."""
    components: list[int] = []
    seen = 0
    for start in range(len(adjacent)):
        if seen >> start & 1:
            continue
        component, frontier = 0, 1 << start
        while frontier:
            component |= frontier
            frontier = mask_of(b for a in bits(frontier) for b in bits(adjacent[a])) & ~component
        components.append(component)
        seen |= component
    return components
