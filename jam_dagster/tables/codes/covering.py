"""Blocks of attributes that hold marginals: one count of a block is that of all within it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np

Axes = tuple[int, ...]
"""Indices of attributes in the domain, increasing."""

MOST_MERGED = 4
"""Attributes of a marginal that shares a block: a block has too many subsets of more."""

MOST_AXES = 24
"""Attributes of a block, as in counting.c."""


def covering(
    shape: Sequence[int], marginals: Iterable[Axes], cells: int
) -> dict[Axes, tuple[Axes, ...]]:
    """Return few blocks of attributes, each with the marginals that are summed from it.

    A greedy cover: a block begins as the first marginal that no block holds, and takes the
    attribute that adds most of the others for its values, as long as it has few cells.

    Parameters
    ----------
    shape
        Number of values of each attribute.
    marginals
        Different ones, which decide by their order where blocks begin.
    cells
        The most cells of a block of several marginals.
    """
    left = dict.fromkeys(marginals)
    alone = [one for one in left if len(one) > MOST_MERGED]
    for one in alone:
        del left[one]
    most = max(map(len, left), default=0)
    # The attributes that make a marginal that is left of some others.
    completed: dict[Axes, np.ndarray] = {}
    for one in left:
        for place, axis in enumerate(one):
            others = one[:place] + one[place + 1 :]
            if others not in completed:
                completed[others] = np.zeros(len(shape), np.int32)
            completed[others][axis] = 1
    sizes = np.array(shape)
    values = np.log(1 + sizes)
    blocks: dict[Axes, tuple[Axes, ...]] = {}
    while left:
        block = next(iter(left))
        size = int(np.prod(sizes[list(block)]))
        brought = np.zeros(len(shape), np.int32)
        for length in range(most):
            for part in combinations(block, length):
                if part in completed:
                    brought += completed[part]
        while len(block) < MOST_AXES:
            worth = brought / values
            worth[list(block)] = 0
            worth[sizes * size > cells] = 0
            found = int(worth.argmax())
            if not worth[found]:
                break
            for length in range(most - 1):
                for part in combinations(block, length):
                    longer = tuple(sorted((*part, found)))
                    if longer in completed:
                        brought += completed[longer]
            block = tuple(sorted((*block, found)))
            size *= int(sizes[found])
        within = [
            part
            for length in range(most + 1)
            for part in combinations(block, length)
            if part in left
        ]
        blocks[block] = tuple(within)
        for one in within:
            del left[one]
            for place, axis in enumerate(one):
                completed[one[:place] + one[place + 1 :]][axis] = 0
    return blocks | {one: (one,) for one in alone}
