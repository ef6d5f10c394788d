"""Clique beliefs that stay calibrated while potentials change.

Mirror descent changes the log potentials a little hundreds of times. Propagating from scratch
would need logarithms of every cell (the exponential of a potential of a thousand overflows);
here the beliefs of the last step are multiplied by the exponential of the change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jam_dagster.models.graphical.dense import ascending, grouped, layout, spread
from jam_dagster.models.graphical.junction_tree import JunctionTree, bits, cells_of
from jam_dagster.models.graphical.kernels import Mode, Operand, Operation, Program, Table

_Item = tuple[int, Operand, Operand]
"""The attributes of a factor, its table of change, and its table of sums."""


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


NEGLIGIBLE = 1e-100
"""Probabilities below this are returned as zero."""


class Beliefs:
    """The cliques' tables of a junction tree, and the marginals of some factors in them.

    `factors` are masks, each inside a clique, on which potentials change. `marginals` has their
    marginals in float64 one after another, each flattened in `layout` order and summing to one;
    `cells` has the start of each, and the end of the last.
    """

    def __init__(
        self, tree: JunctionTree, beliefs: Sequence[np.ndarray], factors: Sequence[int]
    ) -> None:
        self.tree = tree
        self.factors = tuple(factors)
        sizes = tree.sizes
        self.axes = [layout(mask, sizes) for mask in self.factors]
        lengths = [cells_of(mask, sizes) for mask in self.factors]
        self.cells = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        self.marginals = np.empty(self.cells[-1])
        self._change = np.empty(self.cells[-1])
        self._clique_axes = [layout(mask, sizes) for mask in tree.masks]
        # Copies: the model of the beliefs stays unchanged.
        self._tables = [
            np.array(belief.transpose([sorted(axes).index(a) for a in axes]), order="C")
            for belief, axes in zip(beliefs, self._clique_axes, strict=True)
        ]
        self._plan()
        self.update(np.zeros(self.cells[-1]))

    def factor(self, flat: Table, number: int) -> Operand:
        """Return the part of a flat array that belongs to a factor, as a table."""
        axes = self.axes[number]
        part = flat[self.cells[number] : self.cells[number + 1]]
        return Operand(part.reshape([self.tree.sizes[a] for a in axes]), axes)

    @property
    def beliefs(self) -> tuple[np.ndarray, ...]:
        """For each clique its probabilities, attributes ascending, summing to one."""
        probabilities = []
        for table, axes in zip(self._tables, self._clique_axes, strict=True):
            share = table / self._total
            # Products of a few of these must not underflow: arithmetic on denormals is slow.
            share[share < NEGLIGIBLE] = 0.0
            probabilities.append(ascending(share, axes))
        return tuple(probabilities)

    @property
    def growth(self) -> float:
        """The factor by which the last change multiplied the sum over all cells."""
        return float(self._total)

    def update(self, change: Table) -> Table:
        """Add `change` to the log potentials of all factors, and return the new marginals."""
        np.exp(change, out=self._change)
        self._program.run({self._root_operation: 1.0 / float(self._total)})
        self.marginals /= self._total
        return self.marginals

    def _empty(self, mask: int) -> Operand:
        axes = layout(mask, self.tree.sizes)
        return Operand(np.ones([self.tree.sizes[a] for a in axes]), axes)

    def _at_home(self) -> list[list[_Item]]:
        """Return for each clique the factors that its table takes in: the smallest does."""
        homes: list[list[_Item]] = [[] for _ in self.tree.masks]
        for number, mask in enumerate(self.factors):
            inside = [i for i, clique in enumerate(self.tree.masks) if clique & mask == mask]
            change, sums = (self.factor(part, number) for part in (self._change, self.marginals))
            homes[min(inside, key=lambda i: self._tables[i].size)].append((mask, change, sums))
        return homes

    def _grouped(self, clique: int, items: list[_Item]) -> list[_Group]:
        """Return what a clique takes in, in groups that are multiplied before its table is."""
        masks, whole = [mask for mask, _, _ in items], self.tree.masks[clique]
        gathered = []
        for union, members in grouped(masks, whole, self.tree.sizes):
            changes = tuple(items[i][1] for i in members)
            sums = tuple(items[i][2] for i in members)
            if len(members) == 1:
                gathered.append(_Group(changes[0], sums[0], (), ()))
            else:
                gathered.append(_Group(self._empty(union), self._empty(union), changes, sums))
        return gathered

    def _plan(self) -> None:
        """Plan the operations of `update`: up to the largest clique, and down again."""
        tree = self.tree
        root = max(range(len(tree.masks)), key=lambda i: (self._tables[i].size, -i))
        order, parent = [root], {root: -1}
        for clique in order:
            for neighbour in tree.neighbours[clique]:
                if neighbour != parent[clique]:
                    parent[neighbour] = clique
                    order.append(neighbour)
        above = {c: tree.masks[c] & tree.masks[parent[c]] for c in order if c != root}
        # For each separator: its marginal in the child (at the last step), the sum of the child's
        # table after the change, its ratio to the last step's, and the ratio that comes back.
        grown, up, down = ({c: self._empty(above[c]) for c in above} for _ in range(3))
        settled = {c: self._empty(above[c]) for c in above}
        self._total = np.ones(())
        total = Operand(self._total, ())
        operations: list[Operation] = []
        groups = [
            self._grouped(
                clique,
                items + [(above[c], up[c], settled[c]) for c in order if parent[c] == clique],
            )
            for clique, items in enumerate(self._at_home())
        ]
        table = [Operand(t, axes) for t, axes in zip(self._tables, self._clique_axes, strict=True)]
        for clique in reversed(order):
            operations += [
                Operation(Mode.ASSIGN, group.change, group.changes)
                for group in groups[clique]
                if group.changes
            ]
            changes = tuple(group.change for group in groups[clique])
            if clique == root:
                self._root_operation = len(operations)
                sums = tuple(group.sum for group in groups[clique])
                operations.append(Operation(Mode.SCALE, table[clique], changes, (*sums, total)))
            else:
                operations.append(Operation(Mode.SCALE, table[clique], changes, (grown[clique],)))
                operations.append(
                    Operation(Mode.RATIO, up[clique], (grown[clique], settled[clique]))
                )
        for clique in order:
            if clique != root:
                operations.append(
                    Operation(Mode.RATIO, down[clique], (settled[clique], grown[clique]))
                )
                sums = tuple(group.sum for group in groups[clique])
                operations.append(Operation(Mode.SCALE, table[clique], (down[clique],), sums))
            operations += [
                Operation(Mode.READ, group.sum, (), group.sums)
                for group in groups[clique]
                if group.sums
            ]
        self._program = Program(operations)
        for c in above:
            lost = [i for i, a in enumerate(self._clique_axes[c]) if not above[c] >> a & 1]
            settled[c].table[...] = self._tables[c].sum(axis=tuple(lost))


@dataclass(frozen=True)
class _Group:
    """Factors of a clique that share one table.

    `change` multiplies the clique, which is summed onto `sum`. `changes` and `sums` are the
    factors' own tables; empty if the group is one factor.
    """

    change: Operand
    sum: Operand
    changes: tuple[Operand, ...]
    sums: tuple[Operand, ...]
