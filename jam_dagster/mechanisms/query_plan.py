"""How large the tables on the way to a marginal will be, known before any is computed."""

from __future__ import annotations

from collections.abc import Sequence

from jam_dagster.mechanisms.junction_tree import JunctionTree, cells_of

Branch = tuple[int, int]
"""A neighbouring clique, and the attributes wanted that lie beyond it."""


def largest_table(tree: JunctionTree, wanted: int) -> int:
    """Return the cells of the largest table that the marginal over a mask takes to compute.

    Parameters
    ----------
    tree
        The junction tree.
    wanted
        Mask of the attributes.

    Returns
    -------
    int
        Cells, the answer's own at least. The cliques themselves do not count: they are there.

    Notes
    -----
    The walk is that of `Calibrated.marginal`, over masks alone: the same root, the same order of
    branches, so that the tables are the same.
    """
    if any(clique & wanted == wanted for clique in tree.masks):
        return cells_of(wanted, tree.sizes)
    return _Walk(tree).marginal(wanted)


class _Walk:
    """Walks a junction tree as `Calibrated` does and returns the cells of the largest table."""

    def __init__(self, tree: JunctionTree) -> None:
        self.tree = tree

    def marginal(self, wanted: int) -> int:
        def spread_over(root: int) -> tuple[int, int]:
            branches = self._branches(root, -1, wanted)
            here = self._needed(root, branches, wanted)
            return max(part.bit_count() for _, part in branches), self._cells(here)

        root = min(range(len(self.tree.masks)), key=spread_over)
        branches = self._branches(root, -1, wanted)
        return self._gathered(self._needed(root, branches, wanted), root, branches, wanted)

    def _cells(self, mask: int) -> int:
        return cells_of(mask, self.tree.sizes)

    def _branches(self, clique: int, came_from: int, wanted: int) -> list[Branch]:
        outside = wanted & ~self.tree.masks[clique]
        return [
            (neighbour, part)
            for neighbour in self.tree.neighbours[clique]
            if neighbour != came_from and (part := outside & self.tree.beyond[clique, neighbour])
        ]

    def _needed(self, clique: int, branches: Sequence[Branch], wanted: int) -> int:
        here = wanted & self.tree.masks[clique]
        for neighbour, _ in branches:
            here |= self.tree.masks[clique] & self.tree.masks[neighbour]
        return here

    def _conditional(self, source: int, clique: int, part: int) -> int:
        separator = self.tree.masks[source] & self.tree.masks[clique]
        branches = self._branches(clique, source, part)
        here = separator | self._needed(clique, branches, part)
        return self._gathered(here, clique, branches, separator | part)

    def _gathered(self, here: int, clique: int, branches: Sequence[Branch], wanted: int) -> int:
        largest = self._cells(here)
        left = [(self.tree.masks[clique] & self.tree.masks[n], n, part) for n, part in branches]

        def kept_after(branch: tuple[int, int, int]) -> int:
            kept = wanted
            for other in left:
                if other is not branch:
                    kept |= other[0]
            return here & kept

        while left:
            branch = min(left, key=lambda b: self._cells(kept_after(b) | b[2]))
            _, neighbour, part = branch
            largest = max(largest, self._conditional(clique, neighbour, part))
            here = kept_after(branch) | part
            largest = max(largest, self._cells(here))
            left.remove(branch)
        return largest
