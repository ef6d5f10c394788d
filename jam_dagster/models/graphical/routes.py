"""Plans for gathering marginals from a junction tree, made over masks before any table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from jam_dagster.models.graphical.junction_tree import JunctionTree, bits, cells_of

SHARED = 10
"""Approximate number of requested marginals that use the conditional of a single attribute."""


class Step(NamedTuple):
    """One product in the computation of a marginal.

    It multiplies with P(part | separator) of `clique`, and keeps the attributes `keep`; the others
    are summed out.
    """

    clique: int
    part: int
    separator: int
    keep: int


class Route(NamedTuple):
    """The route of a marginal: a clique's table over some attributes, and further steps.

    It begins with the attributes `here` of `clique`; a marginal inside the clique has no steps.
    """

    clique: int
    here: int
    steps: tuple[Step, ...]


class Routes:
    """The routes of a junction tree's marginals; each is planned once.

    A marginal that spans cliques is gathered at the clique with the least work. If the gathering
    clique contains all that a far clique shares with the ones between, the ones between are
    skipped, and the far clique is reached through a smaller separator.
    """

    def __init__(self, tree: JunctionTree) -> None:
        self.tree = tree
        self._routes: dict[int, Route] = {}
        self._passages: dict[tuple[int, int, int], Route] = {}
        self._tables: dict[int, dict[tuple[int, ...], int]] = {}
        self._givers: dict[int, dict[int, int]] = {}
        self._shares: dict[tuple[int, int, int], float] = {}
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
                routes = [
                    self._planned(clique, mask, mask & masks[clique], branches)
                    for clique, branches in self._meeting(mask)
                ]
                self._routes[mask] = min(routes, key=self._cost)
        return self._routes[mask]

    def _meeting(self, mask: int) -> Iterator[tuple[int, dict[int, int]]]:
        """Yield the cliques at which the attributes of a mask may meet, with their branches."""
        masks = self.tree.masks
        for clique in range(len(masks)):
            branches = self._branches(clique, mask)
            # A clique without any of the attributes is useful only between some of them.
            if mask & masks[clique] or sum(bool(masks[c] & masks[clique]) for c in branches) > 1:
                yield clique, branches

    def passage(self, separator: int, clique: int, part: int) -> Route:
        """Return the route to P(separator, part) at a clique that holds the separator."""
        key = (separator, clique, part)
        if key not in self._passages:
            here = separator | part & self.tree.masks[clique]
            branches = self._branches(clique, part)
            self._passages[key] = self._planned(clique, separator | part, here, branches)
        return self._passages[key]

    def passages(self, route: Route) -> Iterator[tuple[Step, Route]]:
        """Yield each step of a route with the route to its conditional."""
        for step in route.steps:
            yield step, self.passage(step.separator, step.clique, step.part)

    def tables(self, mask: int) -> dict[tuple[int, ...], int]:
        """Return the tables that the marginal over `mask` shares with others, and their cells.

        The key of a sum is the clique and its attributes, that of a conditional its passage.
        """
        if mask not in self._tables:
            self._tables[mask] = self._shared(self.route(mask))
        return self._tables[mask]

    def _shared(self, route: Route) -> dict[tuple[int, ...], int]:
        """Return the tables of a route; see `tables`."""
        shared: dict[tuple[int, ...], int] = {}
        pending = [route]
        while pending:
            route = pending.pop()
            shared[route.clique, route.here] = self.cells(route.here)
            for step, passage in self.passages(route):
                shared[step.clique, step.separator] = self.cells(step.separator)
                key = (step.separator, step.clique, step.part)
                shared[key] = self.cells(step.separator | step.part)
                pending.append(passage)
        return shared

    def largest_table(self, mask: int) -> int:
        """Return the cells of the largest table that the marginal over `mask` takes to compute.

        At least those of the answer. The cliques themselves do not count: they exist already.
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
        cells = self._cells.get(mask)
        if cells is None:
            cells = self._cells[mask] = cells_of(mask, self.tree.sizes)
        return cells

    def _cost(self, route: Route) -> float:
        """Return the number of products of a route, including those of its conditionals.

        A conditional of one attribute serves many marginals, so only a share of it counts.
        """
        cost = float(self._products(route))
        for step in route.steps:
            key = (step.separator, step.clique, step.part)
            if key not in self._shares:
                passage = self.passage(*key)
                divided = 2 * self.cells(step.separator | step.part)
                own = self._products(passage) + divided
                alone = step.part.bit_count() == 1
                deeper = self._cost(passage) - self._products(passage)
                self._shares[key] = own / (SHARED if alone else 1) + deeper
            cost += self._shares[key]
        return cost

    def _products(self, route: Route) -> int:
        """Return the number of products of a route's steps, given their conditionals."""
        products, here = 0, route.here
        for step in route.steps:
            products += self.cells(here) * self.cells(step.part)
            here = step.keep | step.part
        return products

    def _planned(self, clique: int, wanted: int, here: int, branches: dict[int, int]) -> Route:
        """Plan the gathering of `wanted` at a clique: small tables first."""
        masks = self.tree.masks
        left = [(beyond, part, masks[clique] & masks[beyond]) for beyond, part in branches.items()]
        for _, _, separator in left:
            here |= separator
        if len(left) == 1:
            beyond, part, separator = left[0]
            return Route(clique, here, (Step(beyond, part, separator, wanted & here),))
        steps = []
        attributes = here
        while left:
            choices = []
            for number, (_, part, _) in enumerate(left):
                keep = wanted
                for other in left[:number] + left[number + 1 :]:
                    keep |= other[2]
                keep &= attributes
                choices.append((self.cells(keep | part), number, keep))
            _, number, keep = min(choices)
            beyond, part, separator = left.pop(number)
            steps.append(Step(beyond, part, separator, keep))
            attributes = keep | part
        return Route(clique, here, tuple(steps))

    def _branches(self, clique: int, wanted: int) -> dict[int, int]:
        """Return the cliques that give the attributes that `clique` lacks, each with its part."""
        givers, branches = self._givers_of(clique), dict[int, int]()
        outside = wanted & ~self.tree.masks[clique]
        while outside:
            lowest = outside & -outside
            giver = givers[lowest]
            branches[giver] = branches.get(giver, 0) | lowest
            outside ^= lowest
        return branches

    def _givers_of(self, clique: int) -> dict[int, int]:
        """Return for the bit of each attribute that a clique lacks the clique that provides it."""
        if clique not in self._givers:
            self._givers[clique] = self._givers_to(clique)
        return self._givers[clique]

    def _givers_to(self, clique: int) -> dict[int, int]:
        masks, neighbours = self.tree.masks, self.tree.neighbours
        givers: dict[int, int] = {}
        known = masks[clique]
        # Outward from the clique, with the path back: the first match is the nearest one.
        paths: list[tuple[int, ...]] = [(clique, n) for n in neighbours[clique]]
        for path in paths:
            end = path[-1]
            giver = end
            for before in reversed(path[1:-1]):
                if masks[giver] & masks[before] & ~masks[clique]:
                    giver = before
            for position in bits(masks[end] & ~known):
                givers[1 << position] = giver
            known |= masks[end]
            paths += [(*path, beyond) for beyond in neighbours[end] if beyond != path[-2]]
        return givers


class NearRoutes(Routes):
    """Routes that are planned in less time, at few cliques each, and may cost a little more.

    Their answers differ from those of `Routes` by rounding, so nothing that is stored follows from
    them: scores do, of which the one that was chosen is stored by its name.
    """

    def __init__(self, tree: JunctionTree) -> None:
        super().__init__(tree)
        self._homes = [
            [number for number, clique in enumerate(tree.masks) if clique >> position & 1]
            for position in range(len(tree.sizes))
        ]
        self._connected = _connected(tree.masks)
        self._of_parts: dict[int, dict[tuple[int, ...], int]] = {}

    def route(self, mask: int) -> Route:
        """Return the route to the marginal over `mask`.

        That of attributes of several components of the graph is a product of theirs, the largest
        part first.
        """
        route = self._routes.get(mask)
        if route is None:
            first, *others = self._parts(mask)
            if not others:
                return super().route(mask)
            begun = self.route(first)
            steps = list(begun.steps)
            for part in others:
                steps.append(Step(self.route(part).clique, part, 0, first))
                first |= part
            route = self._routes[mask] = Route(begun.clique, begun.here, tuple(steps))
        return route

    def tables(self, mask: int) -> dict[tuple[int, ...], int]:
        """Return the tables that the marginal over `mask` shares with others, and their cells."""
        tables = self._tables.get(mask)
        if tables is None:
            first, *others = self._parts(mask)
            tables = super().tables(mask) if not others else dict(self.tables(first))
            for part in others:
                tables |= self._given(part)
            self._tables[mask] = tables
        return tables

    def _given(self, part: int) -> dict[tuple[int, ...], int]:
        """Return the tables of a part that is given whole, whatever it is multiplied with."""
        if part not in self._of_parts:
            clique = self.route(part).clique
            self._of_parts[part] = self._shared(Route(clique, 0, (Step(clique, part, 0, 0),)))
        return self._of_parts[part]

    def _parts(self, mask: int) -> list[int]:
        """Return the attributes of each component of the graph, the most of them first."""
        parts, left = [], mask
        while left:
            part = mask & self._connected[left & -left]
            parts.append(part)
            left ^= part
        if len(parts) > 1:
            parts.sort(key=int.bit_count, reverse=True)
        return parts

    def _meeting(self, mask: int) -> Iterator[tuple[int, dict[int, int]]]:
        """Yield the cliques from which each other one gives one attribute, near the attributes.

        From a clique with some of them the way continues to what gives several others, if anything
        does.
        """
        found: dict[int, dict[int, int]] = {}
        for position in bits(mask):
            for clique in self._homes[position]:
                while clique not in found:
                    found[clique] = self._branches(clique, mask)
                    several = (c for c, part in found[clique].items() if part & (part - 1))
                    clique = next(several, clique)
        masks, apart = self.tree.masks, dict[int, dict[int, int]]()
        for clique, branches in sorted(found.items()):
            if not any(part & (part - 1) for part in branches.values()):
                apart[clique] = branches
                if not any(masks[clique] & masks[giver] for giver in branches):
                    # A product of independent attributes costs the same wherever it is made.
                    return iter([(clique, branches)])
        return iter((apart or dict(sorted(found.items()))).items())


def _connected(masks: Iterable[int]) -> dict[int, int]:
    """Return for the bit of each attribute those that some way of cliques leads to."""
    apart: list[int] = []
    for mask in masks:
        met = [one for one in apart if one & mask]
        apart = [one for one in apart if not one & mask]
        for one in met:
            mask |= one
        apart.append(mask)
    return {1 << position: one for one in apart for position in bits(one)}
