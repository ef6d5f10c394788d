"""How marginals are gathered from a junction tree, planned over masks before any table is made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from jam_dagster.mechanisms.junction_tree import JunctionTree, cells_of


@dataclass(frozen=True)
class Step:
    """One product on the way to a marginal.

    Attributes
    ----------
    clique, part
        Where the conditional P(part | separator) comes from.
    separator
        What it is conditioned on: attributes shared with the clique that it is multiplied into.
    keep
        Which of the attributes so far stay; the others are summed out.
    """

    clique: int
    part: int
    separator: int
    keep: int


@dataclass(frozen=True)
class Route:
    """A marginal's way: a clique's table over some attributes, and the steps that follow.

    Attributes
    ----------
    clique, here
        The clique, and the attributes of it that the table begins with.
    steps
        The products, in order. None for what lies inside the clique.
    """

    clique: int
    here: int
    steps: tuple[Step, ...]


class Routes:
    """The routes of a junction tree's marginals; each is planned once.

    Parameters
    ----------
    tree
        The junction tree.

    Notes
    -----
    A marginal that spans cliques is gathered at the clique that splits its attributes best. Where
    all that a far clique shares with the ones before it is in the gathering clique too, the ones
    before it have nothing to say about it: the far clique is asked instead, through a smaller
    separator.
    """

    def __init__(self, tree: JunctionTree) -> None:
        self.tree = tree
        self._routes: dict[int, Route] = {}
        self._passages: dict[tuple[int, int, int], Route] = {}
        self._cells: dict[int, int] = {}

    def route(self, mask: int) -> Route:
        """Return the route to the marginal over `mask`."""
        if mask not in self._routes:
            masks = self.tree.masks
            homes = [i for i, clique in enumerate(masks) if clique & mask == mask]
            if homes:
                home = min(homes, key=lambda i: self.cells(masks[i]))
                self._routes[mask] = Route(home, mask, ())
            else:
                root = min(range(len(masks)), key=lambda i: self._imbalance(i, mask))
                self._routes[mask] = self._planned(root, mask, mask & masks[root])
        return self._routes[mask]

    def passage(self, separator: int, clique: int, part: int) -> Route:
        """Return the route to P(separator, part) at a clique that holds the separator."""
        key = (separator, clique, part)
        if key not in self._passages:
            here = separator | part & self.tree.masks[clique]
            self._passages[key] = self._planned(clique, separator | part, here)
        return self._passages[key]

    def passages(self, route: Route) -> Iterator[tuple[Step, Route]]:
        """Yield each step of a route with the route to its conditional."""
        for step in route.steps:
            yield step, self.passage(step.separator, step.clique, step.part)

    def sums_needed(self, mask: int) -> Iterator[tuple[int, int]]:
        """Yield the cliques and attributes whose sums the marginal over `mask` is made of."""
        pending = [self.route(mask)]
        while pending:
            route = pending.pop()
            yield route.clique, route.here
            for step, passage in self.passages(route):
                yield step.clique, step.separator
                pending.append(passage)

    def largest_table(self, mask: int) -> int:
        """Return the cells of the largest table that the marginal over `mask` takes to compute.

        The answer's own at least. The cliques themselves do not count: they are there.
        """
        largest = self.cells(mask)
        pending = [self.route(mask)]
        while pending:
            route = pending.pop()
            largest = max(largest, self.cells(route.here))
            for step, passage in self.passages(route):
                largest = max(largest, self.cells(step.keep | step.part))
                pending.append(passage)
        return largest

    def cells(self, mask: int) -> int:
        """Return the number of cells of the marginal over a mask."""
        if mask not in self._cells:
            self._cells[mask] = cells_of(mask, self.tree.sizes)
        return self._cells[mask]

    def _imbalance(self, root: int, mask: int) -> tuple[int, int]:
        """Return the attributes in the largest branch, and the cells that gathering begins with."""
        branches = self._branches(root, root, mask & ~self.tree.masks[root])
        here = mask & self.tree.masks[root]
        for clique, _ in branches:
            here |= self.tree.masks[root] & self.tree.masks[clique]
        return max(part.bit_count() for _, part in branches), self.cells(here)

    def _planned(self, clique: int, wanted: int, here: int) -> Route:
        """Plan the gathering of `wanted` at a clique: small tables first."""
        masks = self.tree.masks
        left = [
            (beyond, part, masks[clique] & masks[beyond])
            for beyond, part in self._branches(clique, clique, wanted & ~masks[clique])
        ]
        for _, _, separator in left:
            here |= separator
        steps = []
        attributes = here
        while left:
            sizes = []
            for number, (_, part, _) in enumerate(left):
                keep = wanted
                for other, (_, _, separator) in enumerate(left):
                    if other != number:
                        keep |= separator
                keep &= attributes
                sizes.append((self.cells(keep | part), number, keep))
            _, number, keep = min(sizes)
            beyond, part, separator = left.pop(number)
            steps.append(Step(beyond, part, separator, keep))
            attributes = keep | part
        return Route(clique, here, tuple(steps))

    def _branches(self, clique: int, at: int, outside: int) -> list[tuple[int, int]]:
        """Return the cliques beyond `at` that give the attributes `outside` to `clique`.

        An attribute that `at` lacks is on one side of it, so the walk never turns back.
        """
        masks, beyond = self.tree.masks, self.tree.beyond
        branches = []
        for neighbour in self.tree.neighbours[at]:
            part = outside & beyond[at, neighbour]
            if rest := part & ~masks[neighbour]:
                for far, given in self._branches(clique, neighbour, rest):
                    if not masks[far] & masks[neighbour] & ~masks[clique]:
                        branches.append((far, given))
                        part &= ~given
            if part:
                branches.append((neighbour, part))
        return branches
