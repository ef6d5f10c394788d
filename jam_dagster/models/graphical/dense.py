"""Dense tables over masks: their axes, sums of one onto many, products.

A table over a mask has an axis an attribute. In `ascending` order the axes follow the positions;
in `layout` order the largest attribute is last, for inner loops run along the last axis.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from jam_dagster.models.graphical.junction_tree import Positions, bits, cells_of
from jam_dagster.models.graphical.kernels import Mode, Operand, Operation, Program, Table

SMALL_CLIQUE = 4096
"""A clique of fewer cells fits the first cache: one table is between it and its factors."""

SMALLER = 4
"""A table between a clique and its factors has at least this many times fewer cells."""


def sum_to(table: np.ndarray, mask: int, kept: int) -> np.ndarray:
    """Sum a table over `mask` down to the attributes in `kept`."""
    axes = tuple(axis for axis, position in enumerate(bits(mask)) if not kept >> position & 1)
    summed: np.ndarray = table.sum(axis=axes) if axes else table
    return summed


def spread(table: np.ndarray, mask: int, onto: int) -> np.ndarray:
    """Reshape a table over `mask` so that it broadcasts against tables over `onto`."""
    shape = iter(table.shape)
    return table.reshape([next(shape) if mask >> position & 1 else 1 for position in bits(onto)])


def layout(mask: int, sizes: Sequence[int]) -> Positions:
    """Return the attributes of a mask, the largest last: inner loops run along the last axis."""
    return tuple(sorted(bits(mask), key=lambda position: (sizes[position], position)))


def ascending(table: Table, axes: Positions) -> Table:
    """Return a view of a table with its attributes in ascending order."""
    return table.transpose([axes.index(position) for position in sorted(axes)])


def grouped(masks: Sequence[int], clique: int, sizes: Sequence[int]) -> list[tuple[int, list[int]]]:
    """Group masks under unions that are much smaller than the clique that they are in.

    A clique is multiplied by, and summed onto, one table a group: six factors of a clique cost
    little more than two.
    """
    whole = cells_of(clique, sizes)
    if not masks:
        return []
    if whole <= SMALL_CLIQUE:
        return [(clique, list(range(len(masks))))]
    cells = [cells_of(mask, sizes) for mask in masks]
    groups: list[tuple[int, list[int]]] = []
    for number in sorted(range(len(masks)), key=lambda i: (-cells[i], masks[i])):
        mask = masks[number]
        unions = [(cells_of(union | mask, sizes), i) for i, (union, _) in enumerate(groups)]
        least, chosen = min(unions, default=(whole, -1))
        if chosen >= 0 and least <= max(whole // SMALLER, cells[groups[chosen][1][0]]):
            groups[chosen] = (groups[chosen][0] | mask, [*groups[chosen][1], number])
        else:
            groups.append((mask, [number]))
    return groups


def sums_onto(
    whole: Operand, mask: int, wanted: Sequence[int], sizes: Sequence[int]
) -> Iterator[tuple[int, Operand]]:
    """Sum a table over `mask` onto each of some masks inside it, in one pass over it."""

    def empty(one: int) -> Operand:
        axes = layout(one, sizes)
        return Operand(np.empty([sizes[axis] for axis in axes]), axes)

    sums = [empty(one) for one in wanted]
    groups = grouped(wanted, mask, sizes)
    if len(groups) == 1 and groups[0][0] == mask:
        operations = [Operation(Mode.READ, whole, (), tuple(sums))]
    else:
        between = [sums[g[0]] if len(g) == 1 else empty(union) for union, g in groups]
        operations = [Operation(Mode.READ, whole, (), tuple(between))]
        operations += [
            Operation(Mode.READ, one, (), tuple(sums[i] for i in group))
            for one, (_, group) in zip(between, groups, strict=True)
            if len(group) > 1
        ]
    Program(operations).run()
    yield from zip(wanted, sums, strict=True)
