"""How large the tables on the way to a marginal will be, known before any is computed."""

from __future__ import annotations

from collections.abc import Sequence

from jam_dagster.mechanisms.junction_tree import JunctionTree, cells_of


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
    The walk is that of `Calibrated`, over masks alone: the same root, the same order of branches,
    so that the tables are the same.
    """
    root, branches, here = tree.route(wanted)
    return _gathered(tree, here, root, branches, wanted)


def _gathered(
    tree: JunctionTree,
    here: int,
    clique: int,
    branches: Sequence[tuple[int, int]],
    wanted: int,
) -> int:
    """Return the cells of the largest table on the way from `here` to `wanted` at a clique."""
    largest = cells_of(here, tree.sizes)
    left = [(tree.masks[clique] & tree.masks[n], n, part) for n, part in branches]

    def joined(branch: tuple[int, int, int]) -> int:
        kept = wanted
        for other in left:
            if other is not branch:
                kept |= other[0]
        return here & kept | branch[2]

    while left:
        branch = min(left, key=lambda b: cells_of(joined(b), tree.sizes))
        separator, neighbour, part = branch
        _, beyond, below = tree.passage(clique, neighbour, part)
        conditional = _gathered(tree, below, neighbour, beyond, separator | part)
        here = joined(branch)
        largest = max(largest, conditional, cells_of(here, tree.sizes))
        left.remove(branch)
    return largest
