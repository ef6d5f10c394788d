"""Workloads: the weighted marginals that a synthetic table should get right."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

from jam_dagster.errors import InputError
from jam_dagster.tables.codes.purpose import pairs_of
from jam_dagster.tables.domain.children import SLOTS
from jam_dagster.tables.domain.domain import Children, Clique, Domain

MOST_MARGINALS = 5_000_000
"""The most marginals of a workload of one degree: its closure has some times as many."""

MOST_SUBSETS = 2**28
"""The most subsets of marginals that a downward closure is made of."""


@dataclass(frozen=True)
class Workload:
    """Marginals with weights.

    Parameters
    ----------
    cliques
        The marginals: tuples of attribute names in the order of the domain, none twice.
    weights
        A positive number for each.
    attributes
        The names of the domain in order, which sorts the cliques; by default the names in order of
        their first occurrence in `cliques`.
    purpose
        The pairs of attributes that the named analyses need; none without a purpose.
    related
        The marginals that nobody asked for, of pairs that are related (`Domain.related`).

    Raises
    ------
    InputError
        No cliques, an empty one, one twice, or weights that do not fit.
    """

    cliques: tuple[Clique, ...]
    weights: tuple[float, ...]
    attributes: Clique = ()
    purpose: tuple[Clique, ...] = ()
    related: tuple[Clique, ...] = ()

    def __post_init__(self) -> None:
        cliques = tuple(tuple(clique) for clique in self.cliques)
        weights = tuple(float(weight) for weight in self.weights)
        seen = dict.fromkeys(name for clique in cliques for name in clique)
        object.__setattr__(self, "cliques", cliques)
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "attributes", tuple(self.attributes) or tuple(seen))
        if not cliques or not all(cliques):
            raise InputError("a workload needs at least one marginal, of at least one attribute")
        if len(weights) != len(cliques):
            raise InputError(
                f"a workload of {len(cliques)} marginals needs as many weights, got {len(weights)}"
            )
        if not all(math.isfinite(weight) and weight > 0 for weight in weights):
            raise InputError("the weights of a workload must be positive and finite")
        positions = {name: position for position, name in enumerate(self.attributes)}
        for clique in cliques:
            indices = [positions.get(name, -1) for name in clique]
            if -1 in indices or indices != sorted(set(indices)):
                raise InputError(
                    f"marginal {clique} is not in the order of the attributes: use Workload.of"
                )
        if len(set(cliques)) < len(cliques):
            raise InputError("a workload holds a marginal twice: add up their weights instead")

    def __repr__(self) -> str:
        return f"Workload({len(self.cliques)} marginals of {len(self.attributes)} attributes)"

    def _repr_html_(self) -> str:
        from jam_dagster.common.notebook import card

        alike = len(set(self.weights)) == 1
        degrees = sorted({len(clique) for clique in self.cliques})
        facts = {
            "marginals": len(self.cliques),
            "attributes": ", ".join(self.attributes),
            "ways": " and ".join(map(str, degrees)),
            "weights": "all alike" if alike else "",
        }
        weighed = zip(self.cliques, self.weights, strict=True)
        rows = ((" x ".join(clique), weight) for clique, weight in weighed)
        return card("Workload", facts, columns=("marginal", "weight"), rows=rows)

    @classmethod
    def all_k_way(cls, domain: Domain, k: int) -> Workload:
        """Return all marginals of `k` attributes with equal weights.

        If a row has two children (`domain.children`), no marginal is of both, and the pairs of each
        of their attributes are added.

        Raises
        ------
        InputError
            `k` is not between 1 and the number of attributes, or makes too many marginals.
        """
        if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= len(domain.names):
            raise InputError(
                f"the degree of a workload must be an integer from 1 to {len(domain.names)}"
                f" (the number of attributes), got {k!r}"
            )
        number = math.comb(len(domain.names), k)
        if number > MOST_MARGINALS:
            raise InputError(
                f"the workload of degree {k} has {number:,} marginals, more than the"
                f" {MOST_MARGINALS:,} that are kept: lower the degree, or list marginals"
            )
        cliques = tuple(combinations(domain.names, k))
        if domain.children is not None:
            cliques = _without_both(cliques, domain.children)
        return cls(cliques, (1.0,) * len(cliques), domain.names)

    @classmethod
    def of(
        cls,
        domain: Domain,
        cliques: Iterable[Iterable[str]],
        weights: Sequence[float] | None = None,
    ) -> Workload:
        """Return a workload of the marginals listed, in any order of their attributes.

        Raises
        ------
        InputError
            A name is not in the domain, or a marginal occurs twice.
        """
        listed = [(clique,) if isinstance(clique, str) else tuple(clique) for clique in cliques]
        canonical = tuple(domain.canonical(clique) for clique in listed)
        for given, clique in zip(listed, canonical, strict=True):
            if len(clique) < len(given):
                raise InputError(f"marginal {given} names an attribute twice: remove one")
        chosen = (1.0,) * len(canonical) if weights is None else tuple(weights)
        return cls(canonical, chosen, domain.names)

    @classmethod
    def specified(cls, domain: Domain, given: Mapping[str, Any]) -> Workload:
        """Return the workload of a specification: of one ``degree``, or ``cliques`` listed.

        A degree is that of the default, which is no more than there are attributes. The domain's
        related pairs are added, if no marginal holds them. A ``purpose`` weighs the marginals that
        hold one of its pairs: together as much as all others.

        Raises
        ------
        InputError
            If the specification does not fit the domain.
        """
        if given.get("degree") is not None:
            degree, most = given["degree"], len(domain.names)
            made = cls.all_k_way(domain, min(degree, most) if isinstance(degree, int) else degree)
        else:
            made = cls.of(domain, given.get("cliques") or (), given.get("weights"))
        made, purpose = made._with_related(domain.related or ()), given.get("purpose")
        return made._serving(pairs_of(domain, purpose)) if purpose else made

    def lacks(self, pairs: Iterable[Clique]) -> tuple[Clique, ...]:
        """Return those of some pairs that no marginal holds."""
        held = {pair for clique in self.cliques for pair in combinations(clique, 2)}
        return tuple(pair for pair in pairs if pair not in held)

    def _with_related(self, pairs: tuple[Clique, ...]) -> Workload:
        """Return the workload with the pairs that it lacks, which weigh as the mean marginal."""
        more = self.lacks(pairs)
        if not more:
            return self
        weight = math.fsum(self.weights) / len(self.weights)
        cliques, weights = self.cliques + more, self.weights + (weight,) * len(more)
        return Workload(cliques, weights, self.attributes, related=more)

    def _serving(self, pairs: tuple[Clique, ...]) -> Workload:
        """Return the workload in which the marginals of some pairs have half of the weight.

        Pairs of no marginal are marginals of their own. If those of the pairs have half of the
        weight already, the weights stay.
        """
        wanted = set(pairs)
        served = [not wanted.isdisjoint(combinations(clique, 2)) for clique in self.cliques]
        more = self.lacks(pairs)
        cliques, weights = self.cliques + more, self.weights + (1.0,) * len(more)
        served += [True] * len(more)
        ours = sum(one for one, serves in zip(weights, served, strict=True) if serves)
        factor = max(1.0, (sum(weights) - ours) / ours)
        weighed = [
            factor * one if serves else one for one, serves in zip(weights, served, strict=True)
        ]
        return Workload(cliques, tuple(weighed), self.attributes, pairs, self.related)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the marginals and their weights, in hexadecimal.

        It is the same in every process and for any order of the marginals.
        """
        content = sorted(zip(self.cliques, self.weights, strict=True))
        text = json.dumps(content, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def downward_closure(self) -> tuple[Clique, ...]:
        """Return every non-empty subset of every marginal, by length and order of the domain.

        Raises
        ------
        InputError
            The marginals have too many subsets.
        """
        subsets = sum(2 ** len(clique) for clique in self.cliques)
        if subsets > MOST_SUBSETS:
            raise InputError(
                f"the marginals of the workload have {subsets:,} subsets, more than the"
                f" {MOST_SUBSETS:,} that are listed: give marginals of fewer attributes"
            )
        closure = {
            subset
            for clique in self.cliques
            for length in range(1, len(clique) + 1)
            for subset in combinations(clique, length)
        }
        positions = {name: position for position, name in enumerate(self.attributes)}
        return tuple(sorted(closure, key=lambda one: (len(one), [positions[name] for name in one])))

    def __len__(self) -> int:
        return len(self.cliques)


def _without_both(cliques: Iterable[Clique], children: Children) -> tuple[Clique, ...]:
    """Return the marginals of one child at most, and the pairs of each attribute of two."""
    first, second = (children.link.slot(slot, children.domain.names) for slot in SLOTS)
    alone = [one for one in cliques if not {*first} & {*one} or not {*second} & {*one}]
    pairs = zip(first, second, strict=True) if len(alone[0]) > 1 else ()
    return (*alone, *pairs)
