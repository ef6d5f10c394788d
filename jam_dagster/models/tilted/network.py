"""A Bayesian network over a k-tree, learnt from the counts of public tables.

Each attribute has at most two parents, which are in one family of the network so far. A conditional
backs off from more parents to fewer, down to the uniform distribution:

    p(v | s_1..s_j) = (count(v, s_1..s_j) + a_j p(v | s_1..s_j-1)) / (count(s_1..s_j) + a_j)

From a parent of many values it backs off first to groups of neighbours, if records are likelier by
that: what is known of a value's neighbours keeps a trend that the distribution without the parent
would weaken.

Parents, their order and the strengths are those of the largest leave-one-out likelihood: that of
each record under the conditionals of all others.

The records of several tables are of as many populations. Which table it is is one more attribute,
and the last parent of each family that differs from table to table. A tilt of the attributes then
makes the population likelier that they are typical of.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from jam_dagster.tables import (
    CategoricalAttribute,
    Clique,
    Domain,
    PublicTables,
    marginal_blocks,
)

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.intp]
Level = tuple[Codes, ...]
"""A level of the back-off: the group of each value, for each parent that it knows."""

STRENGTHS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
"""The strengths of the back-off, in records."""

A_PARENT = 10.0
"""How much likelier, in nats, each parent must make a family, and so must a level of groups. The
best of hundreds of families is likelier by a few nats though nothing is related, which is much
where records are few."""

DIFFERENT = 30.0
"""How much likelier, in nats, a family that knows the table must be to depend on it. A further
level of back-off makes some likelier by half as much though their tables are alike."""

GROUPS = 10
"""Groups of a parent's values that the back-off knows, where there are twice as many values."""

LARGEST_FAMILY_CELLS = 200_000
"""Cells of the largest family of an attribute and its parents."""


@dataclass(frozen=True)
class Family:
    """An attribute with its parents.

    The last parent is the first that the back-off leaves out. `levels` are from no parent to the
    values of all, each with its strength. `likelihood` is the leave-one-out log likelihood over all
    public records.
    """

    child: str
    parents: Clique
    levels: tuple[Level, ...]
    strengths: tuple[float, ...]
    likelihood: float


@dataclass(frozen=True)
class _Fit:
    """The likeliest strengths of levels up to one, and the share of each cell with a record there.

    A share is the leave-one-out one of the cell's records, in the order of `numpy.nonzero`.
    """

    levels: tuple[Level, ...]
    strengths: tuple[float, ...]
    likelihood: float
    shares: Floats


def network_domain(domain: Domain, populations: int) -> Domain:
    """Return the attributes of the network: the domain's, and last which of several tables."""
    if populations < 2:
        return domain
    table = CategoricalAttribute(_table_of(domain), tuple(range(populations)))
    return Domain(
        (*domain.attributes, table),
        domain.impossible,
        domain.identified_from,
        constraints=domain.constraints,
    )


def _table_of(domain: Domain) -> str:
    """Return a name for the attribute that says the table: none of the domain's."""
    name = "table"
    while name in domain.positions:
        name += "_"
    return name


def learn_network(domain: Domain, public: PublicTables) -> dict[Clique, Floats]:
    """Learn the network of public tables.

    Greedy, in the manner of Chow and Liu: the pair of the largest gain in likelihood comes first,
    then the attribute and parents of the largest gain, less `A_PARENT` for each. Parents are a pair
    within a family so far, or a single attribute. Ties go to what comes first in the domain.
    """
    counts = _Counts(domain, public)
    names = [name for name in domain.names if public.answering((name,))]
    if not names:
        return {}
    alone = {name: _by_population(counts, name, ()) for name in names}
    singles = list(itertools.combinations(names, 2))
    counts.load(singles)
    chosen = [_root(counts, alone, singles)]
    placed = [chosen[0].child]
    # For each attribute still to be placed: its best family so far.
    best = {name: alone[name] for name in names if name not in placed}
    fresh: list[Clique] = [(placed[0],)]
    while best:
        counts.load(domain.canonical((name, *set_)) for name in best for set_ in fresh)
        for name in best:
            for parents in fresh:
                for order in itertools.permutations(parents):
                    if counts.has((name, *parents)):
                        found = _by_population(counts, name, order)
                        if _worth(found) > _worth(best[name]):
                            best[name] = found
        gains = {name: _worth(found) - _worth(alone[name]) for name, found in best.items()}
        name = max(gains, key=gains.__getitem__)
        family = best.pop(name)
        chosen.append(family)
        counts.forget()
        kept = [one for one in family.parents if one not in counts.populations]
        fresh = [(name,), *(domain.canonical((name, parent)) for parent in kept)]
    whole = network_domain(domain, len(public.tables))
    learnt = {
        whole.canonical((one.child, *one.parents)): _potential(whole, counts, one) for one in chosen
    }
    if any(set(counts.populations) & set(clique) for clique in learnt):
        records = np.array([float(table.records) for table in public.tables.values()])
        learnt[counts.populations] = np.log(records / records.sum())
    return learnt


class _Counts:
    """The counts of public tables, zero in those that lack an attribute.

    `populations` is the attribute that says the table, if there are several.
    """

    def __init__(self, domain: Domain, public: PublicTables) -> None:
        self._domain = domain
        self._public = public
        # The last axis is the table.
        self._held: dict[Clique, Floats] = {}
        self._groups: dict[str, list[Codes]] = {}
        self.fits: dict[tuple[str, Clique], _Fit] = {}
        self.populations: Clique = (_table_of(domain),) if len(public.tables) > 1 else ()

    def load(self, cliques: Iterable[Clique]) -> None:
        """Count marginals that can be counted, all in one pass over each table."""
        wanted = [c for c in dict.fromkeys(cliques) if c not in self._held and self.has(c)]
        tables = self._public.tables
        for clique in wanted:
            self._held[clique] = np.zeros((*(self._domain.sizes[q] for q in clique), len(tables)))
        for number, (name, table) in enumerate(tables.items()):
            here = [clique for clique in wanted if name in self._public.answering(clique)]
            for block in marginal_blocks(table, here):
                for clique, values in block.items():
                    self._held[clique][..., number] = values

    def has(self, clique: Clique) -> bool:
        """Return whether a table has the attributes, and the marginal is small enough."""
        small = self._domain.size(clique) * len(self._public.tables) <= LARGEST_FAMILY_CELLS
        return small and bool(self._public.answering(clique))

    def of(self, names: Clique) -> Floats:
        """Return the counts over attributes, in the order given."""
        asked = [name for name in names if name not in self.populations]
        canonical = self._domain.canonical(asked)
        if canonical not in self._held:
            self.load([canonical])
        held = self._held[canonical]
        if len(asked) == len(names):
            summed: Floats = held.sum(axis=-1)
            return summed.transpose([canonical.index(name) for name in names])
        order = (*canonical, *self.populations)
        return held.transpose([order.index(name) for name in names])

    def groups(self, name: str) -> list[Codes]:
        """Return the group of each value of a parent: of few groups first, of single values last.

        Groups are of neighbours, about as frequent. The values without a record are a group apart,
        of which nothing is known.
        """
        if name in self.populations:
            return [np.arange(len(self._public.tables))]
        if name not in self._groups:
            counts = self.of((name,))
            found = [np.arange(len(counts))]
            if len(counts) >= 2 * GROUPS:
                shares = counts / counts.sum()
                middles = np.cumsum(shares) - shares / 2
                groups = np.minimum((middles * GROUPS).astype(np.intp), GROUPS - 1)
                groups = np.where(counts > 0, groups, GROUPS)
                found.insert(0, np.unique(groups, return_inverse=True)[1])
            self._groups[name] = found
        return self._groups[name]

    def at(self, child: str, parents: Clique, level: Level) -> Floats:
        """Return the counts of a child's values in the groups of a level."""
        table = self.of((child, *parents[: len(level)]))
        for axis, groups in enumerate(level, start=1):
            number = int(groups.max()) + 1
            if number < len(groups):
                order = np.argsort(groups, kind="stable")
                starts = np.searchsorted(groups[order], np.arange(number))
                table = np.add.reduceat(table.take(order, axis=axis), starts, axis=axis)
        return table

    def forget(self) -> None:
        """Drop the counts of triples, which most rounds of the search need once."""
        self._held = {c: values for c, values in self._held.items() if len(c) <= 2}


def _root(counts: _Counts, alone: Mapping[str, Family], pairs: Iterable[Clique]) -> Family:
    """Return the first attribute: the one whose best pair gains the most."""
    best, root = 0.0, next(iter(alone.values()))
    for pair in pairs:
        if counts.has(pair):
            first, second = pair
            gain = _fitted(counts, second, (first,)).likelihood - alone[second].likelihood
            if gain > best:
                best, root = gain, alone[first]
    return root


def _worth(family: Family) -> float:
    return family.likelihood - A_PARENT * len(family.parents)


def _by_population(counts: _Counts, child: str, parents: Clique) -> Family:
    """Return a family, with the table as a parent where tables differ."""
    found = _fitted(counts, child, parents)
    if counts.populations:
        apart = _fitted(counts, child, (*parents, *counts.populations))
        if apart.likelihood > found.likelihood + DIFFERENT:
            return apart
    return found


def _fitted(counts: _Counts, child: str, parents: Clique) -> Family:
    """Return a family with the likeliest strengths, chosen level by level."""
    fit = _fit(counts, child, parents)
    return Family(child, parents, fit.levels, fit.strengths, fit.likelihood)


def _fit(counts: _Counts, child: str, parents: Clique) -> _Fit:
    """Return the fit of all levels up to the values of all parents.

    Families share what they have in common: the fits of one parent at most are kept.
    """
    if (child, parents) in counts.fits:
        return counts.fits[child, parents]
    if not parents:
        found = _next(counts, child, parents, (), None)
    else:
        before = _fit(counts, child, parents[:-1])
        known = tuple(counts.groups(parent)[-1] for parent in parents[:-1])
        *coarse, fine = ((*known, groups) for groups in counts.groups(parents[-1]))
        found = _next(counts, child, parents, fine, before)
        for level in coarse:
            between = _next(counts, child, parents, level, before)
            through = _next(counts, child, parents, fine, between)
            if through.likelihood > found.likelihood + A_PARENT:
                found = through
    if len(parents) <= 1:
        counts.fits[child, parents] = found
    return found


def _next(counts: _Counts, child: str, parents: Clique, level: Level, before: _Fit | None) -> _Fit:
    """Return the fit of one more level."""
    table = counts.at(child, parents, level)
    occupied = np.nonzero(table)
    values = table[occupied]
    if before is None:
        others = np.full(len(values), table.sum() - 1.0)
        below: Floats | float = 1.0 / table.shape[0]
    else:
        others = table.sum(axis=0)[occupied[1:]] - 1.0
        known = counts.at(child, parents, before.levels[-1])
        shares = np.zeros(known.shape)
        shares[np.nonzero(known)] = before.shares
        fewer = zip(_groups_before(level, before.levels[-1]), occupied[1:], strict=False)
        below = shares[(occupied[0], *(groups[here] for groups, here in fewer))]
    best = -np.inf
    for strength in STRENGTHS:
        share = (values - 1.0 + strength * below) / (others + strength)
        found = float(values @ np.log(share))
        if found > best:
            best, kept, chosen = found, share, strength
    levels, strengths = ((), ()) if before is None else (before.levels, before.strengths)
    return _Fit((*levels, level), (*strengths, chosen), best, kept)


def _groups_before(level: Level, before: Level) -> list[Codes]:
    """Return in which group of the level before each group is, for each parent of that level."""
    known = zip(level, before, strict=False)
    return [fewer[np.unique(groups, return_index=True)[1]] for groups, fewer in known]


def _potential(domain: Domain, counts: _Counts, family: Family) -> Floats:
    """Return the logarithm of a family's conditional, its attributes in domain order."""
    child, parents = family.child, family.parents
    share: Floats = np.full(domain.sizes[child], 1.0 / domain.sizes[child])
    before: Level = ()
    for level, strength in zip(family.levels, family.strengths, strict=True):
        table = counts.at(child, parents, level)
        for axis, groups in enumerate(_groups_before(level, before), start=1):
            share = share.take(groups, axis=axis)
        below = share[..., None] if len(level) > len(before) else share
        share = (table + strength * below) / (table.sum(axis=0) + strength)
        before = level
    names = (child, *parents)
    order = [names.index(name) for name in domain.canonical(names)]
    logs: Floats = np.log(share).transpose(order).copy()
    return logs
