"""A Bayesian network over a k-tree, learnt from the counts of public tables.

Each attribute has at most two parents, which lie in one family of the network so far. A conditional
backs off from more parents to fewer, down to the uniform distribution:

    p(v | s_1..s_j) = (count(v, s_1..s_j) + a_j p(v | s_1..s_j-1)) / (count(s_1..s_j) + a_j)

Parents, their order and the strengths a_j are those of the largest leave-one-out likelihood: that
of each record under the conditionals of all others.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from jam_dagster.tables import Clique, Domain, PublicTables, marginal_blocks

Floats = npt.NDArray[np.float64]

STRENGTHS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
"""The strengths of the back-off, in records."""

LARGEST_FAMILY_CELLS = 200_000
"""Cells of the largest family of an attribute and its parents."""


@dataclass(frozen=True)
class Family:
    """An attribute with its parents.

    Attributes
    ----------
    child, parents
        The attribute, and what its distribution depends on; the last parent is the first that the
        back-off leaves out.
    strengths
        a_0, a_1, ..., one more than there are parents.
    likelihood
        Leave-one-out log likelihood of the child, over all public records.
    """

    child: str
    parents: Clique
    strengths: tuple[float, ...]
    likelihood: float


def learn_network(domain: Domain, public: PublicTables) -> dict[Clique, Floats]:
    """Learn the network of public tables.

    Parameters
    ----------
    domain
        The attributes.
    public
        The tables, each with all attributes or some. The counts of all that have the attributes of
        a family are added up.

    Returns
    -------
    dict
        The logarithm of each conditional distribution, by the attributes of its family in domain
        order. Attributes that no table has are in no family: they are independent and uniform.

    Notes
    -----
    Greedy, in the manner of Chow and Liu: the pair of the largest gain in likelihood comes first,
    then the attribute and parents of the largest gain. Parents are a pair within a family so far,
    or a single attribute. Ties go to what comes first in the domain.
    """
    counts = _Counts(domain, public)
    names = [name for name in domain.names if public.answering((name,))]
    if not names:
        return {}
    alone = {name: _fitted(counts, name, ()) for name in names}
    singles = list(itertools.combinations(names, 2))
    counts.load(singles)
    chosen = [_root(counts, alone, singles)]
    placed = [chosen[0].child]
    # Of each attribute still to be placed: its best family so far.
    best = {name: alone[name] for name in names if name not in placed}
    fresh: list[Clique] = [(placed[0],)]
    while best:
        counts.load(domain.canonical((name, *set_)) for name in best for set_ in fresh)
        for name in best:
            for parents in fresh:
                for order in itertools.permutations(parents):
                    if counts.has((name, *parents)):
                        found = _fitted(counts, name, order)
                        if found.likelihood > best[name].likelihood:
                            best[name] = found
        gains = {name: found.likelihood - alone[name].likelihood for name, found in best.items()}
        name = max(gains, key=gains.__getitem__)
        family = best.pop(name)
        chosen.append(family)
        counts.forget()
        fresh = [(name,), *(domain.canonical((name, parent)) for parent in family.parents)]
    return {
        domain.canonical((one.child, *one.parents)): _potential(domain, counts, one)
        for one in chosen
    }


class _Counts:
    """The counts of public tables, each marginal summed over the tables that have it."""

    def __init__(self, domain: Domain, public: PublicTables) -> None:
        self._domain = domain
        self._public = public
        self._held: dict[Clique, Floats] = {}

    def load(self, cliques: Iterable[Clique]) -> None:
        """Count marginals that can be counted, all in one pass over each table."""
        wanted = [c for c in dict.fromkeys(cliques) if c not in self._held and self.has(c)]
        for name, table in self._public.tables.items():
            here = [clique for clique in wanted if name in self._public.answering(clique)]
            for block in marginal_blocks(table, here):
                for clique, values in block.items():
                    before = self._held.get(clique, np.zeros(()))
                    self._held[clique] = before + np.asarray(values, dtype=np.float64)

    def has(self, clique: Clique) -> bool:
        """Return whether a table has the attributes, and the marginal is small enough."""
        small = self._domain.size(clique) <= LARGEST_FAMILY_CELLS
        return small and bool(self._public.answering(clique))

    def of(self, clique: Clique) -> Floats:
        """Return the counts over attributes, in the order given."""
        canonical = self._domain.canonical(clique)
        if canonical not in self._held:
            self.load([canonical])
        return self._held[canonical].transpose([canonical.index(name) for name in clique])

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


def _fitted(counts: _Counts, child: str, parents: Clique) -> Family:
    """Return a family with the likeliest strengths, chosen level by level."""
    strengths: list[float] = []
    likelihood = -np.inf
    # The leave-one-out share of each record's cell, from one parent less.
    previous: Floats = np.empty(0)
    for level in range(len(parents) + 1):
        table = counts.of((child, *parents[:level]))
        occupied = np.nonzero(table)
        values = table[occupied]
        others = table.sum(axis=0)[occupied[1:]] - 1.0
        if level == 0:
            others = np.full(len(values), table.sum() - 1.0)
            below: Floats | float = 1.0 / table.shape[0]
        else:
            below = previous[occupied[:-1]]
        best = -np.inf
        for strength in STRENGTHS:
            share = (values - 1.0 + strength * below) / (others + strength)
            found = float(values @ np.log(share))
            if found > best:
                best, kept, chosen = found, share, strength
        strengths.append(chosen)
        likelihood = best
        previous = np.zeros(table.shape)
        previous[occupied] = kept
    return Family(child, parents, tuple(strengths), likelihood)


def _potential(domain: Domain, counts: _Counts, family: Family) -> Floats:
    """Return the logarithm of a family's conditional, its attributes in domain order."""
    share: Floats = np.full(domain.sizes[family.child], 1.0 / domain.sizes[family.child])
    for level, strength in enumerate(family.strengths):
        names = (family.child, *family.parents[:level])
        table = counts.of(names)
        below = share[..., None] if level else share
        share = (table + strength * below) / (table.sum(axis=0) + strength)
    names = (family.child, *family.parents)
    order = [names.index(name) for name in domain.canonical(names)]
    logs: Floats = np.log(share).transpose(order).copy()
    return logs
