"""Any marginal of a calibrated junction tree, alone or by the thousand."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from jam_dagster.models.graphical.dense import ascending, layout, sum_to, sums_onto
from jam_dagster.models.graphical.junction_tree import JunctionTree, bits, cells_of
from jam_dagster.models.graphical.kernels import Axes, Operand, Table, contract
from jam_dagster.models.graphical.routes import Route, Routes, Step

End = tuple[int, Step, Route]
"""A mask, the last step of its route, and the route to what that step multiplies with."""

Factor = tuple[Step, Route]
"""A step, and the route to the conditional that it multiplies with."""

Where = Mapping[int, range]
"""Some values of some attributes."""

NOWHERE: Where = MappingProxyType({})

PART_CELLS = 2**20
"""Cells of a table on the way to an answer; of a larger one, so many are made at a time."""

SHARED_CELLS = 2**27
"""A gibibyte of tables that several answers share at a time."""


class Calibrated:
    """Answers marginal queries from a calibrated junction tree.

    `beliefs` are the cliques' probabilities, attributes ascending, summing to one.

    A marginal inside a clique is a sum. One that spans cliques begins with a sum and is multiplied
    with conditionals P(attributes | separator), which are kept: all three-way marginals of a model
    share a few hundred of them. All sums of a clique are known in advance, so they take one pass
    over the clique.
    """

    def __init__(
        self, tree: JunctionTree, beliefs: Sequence[np.ndarray], routes: Routes | None = None
    ) -> None:
        self.tree = tree
        self.beliefs = tuple(beliefs)
        self.routes = Routes(tree) if routes is None else routes
        self._sums: dict[tuple[int, ...], Operand] = {}
        self._conditionals: dict[tuple[int, ...], Operand] = {}

    def marginal(self, mask: int) -> np.ndarray:
        """Return the probabilities of the marginal over `mask`, attributes ascending."""
        (answer,) = (table for _, table in self.marginals([mask]))
        return answer

    def marginals(
        self, masks: Iterable[int], *, held_cells: int | None = None, together: bool = False
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Yield each mask with its marginal, attributes ascending, in an order of its own.

        A marginal inside another requested one is summed from it. Only tables that several answers
        share are held, at most `held_cells` (`SHARED_CELLS` if not given), so a caller that drops
        each answer never holds them all. Answers gathered `together` take less time, and differ by
        rounding.
        """
        wanted = list(dict.fromkeys(masks))
        inside = _inside(wanted, self.tree.sizes)
        derived: dict[int, list[int]] = {mask: [] for mask in wanted if mask not in inside}
        for mask, larger in inside.items():
            derived[larger].append(mask)
        for batch, keys in self._batches(derived, held_cells or SHARED_CELLS):
            self._sum_all(keys)
            for mask, gathered in self._gather_all(batch) if together else self._gather_each(batch):
                answer = ascending(gathered.table, gathered.axes)
                yield mask, answer
                for one in derived[mask]:
                    yield one, sum_to(answer, mask, one)

    def _batches(
        self, masks: Iterable[int], most: int
    ) -> Iterator[tuple[list[int], set[tuple[int, ...]]]]:
        """Divide the masks so that the shared tables of each part, which follow, stay in bounds."""
        batch: list[int] = []
        known: set[tuple[int, ...]] = set()
        held = 0
        for mask in masks:
            tables = self.routes.tables(mask)
            # Large conditionals are made a part at a time, and not kept.
            kept = {
                key: cells for key, cells in tables.items() if len(key) == 2 or cells <= PART_CELLS
            }
            more = sum(cells for key, cells in kept.items() if key not in known)
            if batch and held + more > most:
                yield batch, known
                self.forget()
                batch, known, held = [], set(), 0
                more = sum(kept.values())
            batch.append(mask)
            # With |= all that is known would be copied.
            known.update(tables)
            held += more
        if batch:
            yield batch, known

    def forget(self) -> None:
        """Drop the intermediate tables, which may exceed the model's memory."""
        self._sums.clear()
        self._conditionals.clear()

    def _sum_all(self, keys: Iterable[tuple[int, ...]]) -> None:
        """Sum the cliques onto all required tables, in one pass over each."""
        wanted: dict[int, set[int]] = {}
        for key in keys:
            if len(key) == 2 and key not in self._sums:
                wanted.setdefault(key[0], set()).add(key[1])
        for clique, masks in sorted(wanted.items()):
            whole = _as_laid_out(self.beliefs[clique], self.tree.masks[clique], self.tree.sizes)
            for mask, table in sums_onto(
                whole, self.tree.masks[clique], sorted(masks), self.tree.sizes
            ):
                self._sums[clique, mask] = table

    def _gather_each(self, masks: Iterable[int]) -> Iterator[tuple[int, Operand]]:
        for mask in masks:
            yield mask, self._gather(self.routes.route(mask))

    def _gather_all(self, masks: Iterable[int]) -> Iterator[tuple[int, Operand]]:
        """Yield each mask with its table; routes with one beginning take one product."""
        alike: dict[tuple[int, int, tuple[Step, ...], int, int], list[End]] = {}
        for mask in masks:
            route = self.routes.route(mask)
            if not route.steps:
                yield mask, self._sums[route.clique, route.here]
                continue
            if self._largest(route) > PART_CELLS:
                yield mask, self._gather(route)
                continue
            *_, (step, passage) = self.routes.passages(route)
            key = (route.clique, route.here, route.steps[:-1], step.separator, step.keep)
            alike.setdefault(key, []).append((mask, step, passage))
        for (clique, here, steps, _, keep), ends in alike.items():
            table = self._gather(Route(clique, here, steps))
            kept = tuple(axis for axis in table.axes if keep >> axis & 1)
            cells = math.prod(table.table.shape[table.axes.index(axis)] for axis in kept)
            for some in _parted(ends, [cells * self.routes.cells(end[1].part) for end in ends]):
                found = (self._conditional(one, passage) for _, one, passage in some)
                products = _products(table, kept, found)
                yield from zip((mask for mask, *_ in some), products, strict=True)

    def _largest(self, route: Route) -> int:
        """Return the cells of the largest table on the way to an answer."""
        masks = [step.keep | step.part for step in route.steps[:-1]]
        masks += [step.separator | step.part for step in route.steps]
        return max(map(self.routes.cells, masks), default=0)

    def _gather(self, route: Route, where: Where = NOWHERE) -> Operand:
        """Multiply a clique's table with the conditionals of a route, for some values alone."""
        table = _part(self._sums[route.clique, route.here], where)
        factors = [*self.routes.passages(route)]
        while factors:
            table, factors = self._multiplied(table, factors, where)
        return table

    def _multiplied(
        self, table: Operand, factors: list[Factor], where: Where
    ) -> tuple[Operand, list[Factor]]:
        """Multiply a table with the first of some conditionals; return it and those that are left.

        If the product or the conditional is large, both are made a part at a time: for some values
        of an attribute, and with those that follow until it is summed out.
        """
        step, passage = factors[0]
        product, given = step.keep | step.part, step.separator | step.part
        cells = max(self._cells(product, where), self._cells(given, where))
        sizes = dict(zip(table.axes, table.table.shape, strict=True))
        axis = -1
        if cells > PART_CELLS:
            # The largest table of the whole way should become small, then the next one.
            steps = [one for one, _ in factors]
            large = {
                mask for one in steps for mask in (one.keep | one.part, one.separator | one.part)
            }
            axis = min(
                table.axes,
                key=lambda one: sorted(
                    (
                        self._cells(mask, where) / (sizes[one] if mask >> one & 1 else 1)
                        for mask in large
                    ),
                    reverse=True,
                ),
                default=-1,
            )
        if sizes.get(axis, 1) == 1:
            return _product(table, step, self._conditional(step, passage, where)), factors[1:]
        lost = (n for n, (one, _) in enumerate(factors) if not one.keep >> axis & 1)
        last = next(lost, len(factors) - 1)
        first, size = where.get(axis, range(sizes[axis])).start, sizes[axis]
        most = max(1, size * PART_CELLS // cells)
        whole = table
        for start in range(0, size, most):
            values = range(start, min(start + most, size))
            inside = {**where, axis: range(first + values.start, first + values.stop)}
            part = _part(table, {axis: values})
            left = factors[: last + 1]
            while left:
                part, left = self._multiplied(part, left, inside)
            if axis in part.axes:
                place = part.axes.index(axis)
                if not start:
                    shape = list(part.table.shape)
                    shape[place] = size
                    whole = Operand(np.empty(shape), part.axes)
                whole.table[(slice(None),) * place + (slice(start, start + most),)] = part.table
            elif not start:
                whole = part
            else:
                whole.table[...] += part.table
        return whole, factors[last + 1 :]

    def _cells(self, mask: int, where: Where) -> int:
        """Return the cells of a table, for some values of attributes alone."""
        cells = self.routes.cells(mask)
        for axis, values in where.items():
            if mask >> axis & 1:
                cells = cells // self.tree.sizes[axis] * len(values)
        return cells

    def _conditional(self, step: Step, passage: Route, where: Where = NOWHERE) -> Operand:
        """Return P(part | separator); axes: the separator's, then the part's.

        It is kept, but for a large one of which some values are asked for.
        """
        separator, clique, part = step.separator, step.clique, step.part
        key = (separator, clique, part)
        mask = separator | part
        inside = {axis: values for axis, values in where.items() if mask >> axis & 1}
        if key in self._conditionals:
            return _part(self._conditionals[key], inside)
        if inside and self.routes.cells(mask) <= PART_CELLS:
            return _part(self._conditional(step, passage), inside)
        joint = self._gather(passage, inside)
        evidence = _part(self._sums[clique, separator], inside)
        axes = (*evidence.axes, *(axis for axis in joint.axes if not separator >> axis & 1))
        table = joint.table.transpose([joint.axes.index(axis) for axis in axes])
        below = evidence.table.reshape(evidence.table.shape + (1,) * part.bit_count())
        shares = np.divide(table, below, out=np.zeros(table.shape), where=below > 0)
        found = Operand(shares, axes)
        if not inside:
            self._conditionals[key] = found
        return found


def _product(table: Operand, step: Step, conditional: Operand) -> Operand:
    """Multiply a table with the conditional of a step."""
    keep = tuple(axis for axis in table.axes if step.keep >> axis & 1)
    return contract(table, conditional, keep, conditional.axes[step.separator.bit_count() :])


def _part(operand: Operand, where: Where) -> Operand:
    """Return the part of a table with some values of its attributes."""
    inside = {axis: values for axis, values in where.items() if axis in operand.axes}
    if not inside:
        return operand
    place = tuple(
        slice(inside[axis].start, inside[axis].stop) if axis in inside else slice(None)
        for axis in operand.axes
    )
    return Operand(np.ascontiguousarray(operand.table[place]), operand.axes)


_TOGETHER = 2**17
"""Cells of products that are made together: a mebibyte, which the second-level cache holds."""


def _parted(ends: Sequence[End], cells: Sequence[int]) -> Iterator[Sequence[End]]:
    """Yield the ends in parts, of which none but a single one makes too many cells."""
    start, held = 0, 0
    for index, more in enumerate(cells):
        if index > start and held + more > _TOGETHER:
            yield ends[start:index]
            start, held = index, 0
        held += more
    yield ends[start:]


def _products(table: Operand, keep: Axes, conditionals: Iterable[Operand]) -> Iterator[Operand]:
    """Multiply a table with each of some conditionals on one separator, as if they were one."""
    given = list(conditionals)
    depth = sum(axis in table.axes for axis in given[0].axes)
    columns = [math.prod(one.table.shape[depth:]) for one in given]
    flat = [
        one.table.reshape(*one.table.shape[:depth], width)
        for one, width in zip(given, columns, strict=True)
    ]
    whole = Operand(np.concatenate(flat, axis=-1), (*given[0].axes[:depth], _ALL))
    product = contract(table, whole, keep, (_ALL,)).table
    for one, width, end in zip(given, columns, np.cumsum(columns).tolist(), strict=True):
        shape = (*product.shape[:-1], *one.table.shape[depth:])
        part = product[..., end - width : end].reshape(shape)
        yield Operand(part, (*keep, *one.axes[depth:]))


_ALL = -1
"""The axis of all fresh cells of several conditionals, which is no attribute's."""


def _as_laid_out(belief: np.ndarray, mask: int, sizes: Sequence[int]) -> Operand:
    """Return a belief as a contiguous table in `layout` order; beliefs of a fit need no copy."""
    axes = layout(mask, sizes)
    order = [sorted(axes).index(axis) for axis in axes]
    table: Table = np.ascontiguousarray(belief.transpose(order), dtype=np.float64)
    return Operand(table, axes)


def _inside(masks: Sequence[int], sizes: Sequence[int]) -> dict[int, int]:
    """Return the largest containing mask, for masks inside one with an attribute more."""
    known = set(masks)
    larger: dict[int, int] = {}
    keys: dict[int, tuple[int, int]] = {}
    for mask in masks:
        within = [mask ^ 1 << i for i in bits(mask)]
        if within := [one for one in within if one in known]:
            key = (cells_of(mask, sizes), mask)
            for one in within:
                if one not in larger or key < keys[one]:
                    larger[one], keys[one] = mask, key

    def top(mask: int) -> int:
        while mask in larger:
            mask = larger[mask]
        return mask

    return {mask: top(mask) for mask in masks if mask in larger}
