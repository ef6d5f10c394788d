"""Any marginal of a calibrated junction tree, alone or by the thousand."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from jam_dagster.mechanisms.dense import spread, sum_to, sums_onto
from jam_dagster.mechanisms.junction_tree import JunctionTree, bits, cells_of


class Calibrated:
    """Answers marginal queries from a calibrated junction tree.

    Parameters
    ----------
    tree
        The junction tree.
    beliefs
        Its cliques' probabilities, attributes ascending, summing to one.

    Notes
    -----
    A marginal inside a clique is a sum. One that spans cliques is gathered at the clique that
    splits its attributes best, through conditionals P(attributes | separator) that are kept: all
    three-way marginals of a model share a few hundred of them. What is summed from a clique is
    known before, so all of it takes one pass over the clique.
    """

    def __init__(self, tree: JunctionTree, beliefs: Sequence[np.ndarray]) -> None:
        self.tree = tree
        self.beliefs = tuple(beliefs)
        self._sums: dict[tuple[int, int], np.ndarray] = {}
        self._conditionals: dict[tuple[int, int, int], np.ndarray] = {}

    def marginal(self, mask: int) -> np.ndarray:
        """Return the probabilities of the marginal over `mask`, attributes ascending."""
        (answer,) = (table for _, table in self.marginals([mask]))
        return answer

    def marginals(self, masks: Iterable[int]) -> Iterator[tuple[int, np.ndarray]]:
        """Yield each mask with its marginal, in an order of its own.

        A marginal that lies inside another one asked for is summed from it. Only what several
        answers share is held, so that a reader who drops each answer never holds them all.
        """
        wanted = list(dict.fromkeys(masks))
        inside = _inside(wanted, self.tree.sizes)
        computed = [mask for mask in wanted if mask not in inside]
        derived: dict[int, list[int]] = {mask: [] for mask in computed}
        for mask, larger in inside.items():
            derived[larger].append(mask)
        self._sum_all(key for mask in computed for key in self.tree.sums_needed(mask))
        for mask in computed:
            answer = self._answer(mask)
            yield mask, answer
            for smaller in derived[mask]:
                yield smaller, sum_to(answer, mask, smaller)

    def _answer(self, mask: int) -> np.ndarray:
        root, branches, here = self.tree.route(mask)
        table = self._sum(root, here)
        return self._gather(table, here, root, branches, mask) if branches else table

    def forget(self) -> None:
        """Drop the intermediate tables, whose memory may exceed the model's."""
        self._sums.clear()
        self._conditionals.clear()

    def _sum_all(self, keys: Iterable[tuple[int, int]]) -> None:
        """Sum the cliques onto all that will be needed of them, in one pass over each."""
        wanted: dict[int, set[int]] = {}
        for clique, kept in keys:
            if (clique, kept) not in self._sums:
                wanted.setdefault(clique, set()).add(kept)
        for clique, masks in sorted(wanted.items()):
            for mask, table in sums_onto(
                self.beliefs[clique], self.tree.masks[clique], sorted(masks), self.tree.sizes
            ):
                self._sums[clique, mask] = table

    def _sum(self, clique: int, kept: int) -> np.ndarray:
        key = (clique, kept)
        if key not in self._sums:
            self._sums[key] = sum_to(self.beliefs[clique], self.tree.masks[clique], kept)
        return self._sums[key]

    def _conditional(self, source: int, clique: int, part: int) -> np.ndarray:
        """Return P(part | separator) beyond the edge; axes: the separator's, then the part's."""
        key = (source, clique, part)
        if key in self._conditionals:
            return self._conditionals[key]
        separator, branches, here = self.tree.passage(source, clique, part)
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


def _inside(masks: Sequence[int], sizes: Sequence[int]) -> dict[int, int]:
    """Return for masks that lie inside one with an attribute more the largest that they lie in."""
    known = set(masks)
    most = max(mask.bit_count() for mask in masks)
    everything = 0
    for mask in masks:
        everything |= mask
    larger: dict[int, int] = {}
    for mask in masks:
        if mask.bit_count() < most:
            above = [mask | 1 << i for i in bits(everything & ~mask) if mask | 1 << i in known]
            if above:
                larger[mask] = min(above, key=lambda one: (cells_of(one, sizes), one))

    def top(mask: int) -> int:
        while mask in larger:
            mask = larger[mask]
        return mask

    return {mask: top(mask) for mask in larger}


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
