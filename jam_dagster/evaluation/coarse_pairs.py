"""Pairs of attributes at about eight groups of values each, and associations of ordered attributes.

A workload of many cells punishes a small table for its sparse cells. Pairs of coarse groups do so
less, and the mean of a product of two scores says whether a relation is kept. Groups and scores
follow from the domain and the public table alone, so that a person is one bounded term of each.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from jam_dagster.evaluation.columns_and_pairs import columns_and_pairs
from jam_dagster.tables.codes.marginals import marginal_blocks
from jam_dagster.tables.codes.public import is_known
from jam_dagster.tables.domain.children import ChildAttribute

if TYPE_CHECKING:
    from jam_dagster.evaluation.independent_table import IndependentTable
    from jam_dagster.tables.codes.marginals import MarginalSource
    from jam_dagster.tables.domain.attributes import Attribute
    from jam_dagster.tables.domain.domain import Clique, Domain

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.intp]

GROUPS = 8
"""The most groups of an attribute's values; a missing and an absent one are groups of their own."""

RELATED = 0.1
"""The least L1 distance from independence of a relation that is named if it is lost."""

TWO = 2
"""Values of an attribute that are in an order, whatever they are."""


class PairErrors(NamedTuple):
    """How far the pairs of a table are from those of another one; None if the domain has no pair.

    `pairs` is the mean L1 distance of the pairs of groups, from 0 to 2. `association` is the mean
    distance of ``E f_a f_b``, the mean product of two scores, from 0 to 2. `correlation` is that of
    Spearman's rank correlations, which one record can move far: it is never released with noise.
    """

    pairs: float | None
    association: float | None
    correlation: float | None


@dataclass(frozen=True, eq=False)
class Groups:
    """The groups of an attribute's codes.

    `of_code` is the group of each code, shape ``(size,)``. `order` has the codes of values in their
    order, None if they have none; then `scores` is None, too, else from -1 to 1, shape
    ``(groups,)``, and 0 for a missing value.
    """

    of_code: Codes
    order: Codes | None
    scores: Floats | None

    @classmethod
    def of(cls, attribute: Attribute, counts: npt.NDArray[np.number]) -> Groups:
        """Return groups of about as many records each.

        Parameters
        ----------
        attribute
            The attribute.
        counts
            The public records of each code, or ones; shape ``(size,)``.
        """
        gaps = [one for one in (attribute.null_code, attribute.absent_code) if one is not None]
        codes = np.setdiff1d(np.arange(attribute.size), gaps)
        order = _order(attribute, codes)
        codes = codes if order is None else order
        shares = counts[codes] / max(1, counts[codes].sum())
        group = np.arange(codes.size)
        if codes.size > GROUPS and order is not None:
            middle = np.cumsum(shares) - shares / 2
            group = np.minimum((GROUPS * middle).astype(np.intp), GROUPS - 1)
            group = np.unique(group, return_inverse=True)[1]
        elif codes.size > GROUPS:
            # The most frequent values alone, and the others together.
            group = np.full(codes.size, GROUPS - 1)
            group[np.argsort(-shares, kind="stable")[: GROUPS - 1]] = np.arange(GROUPS - 1)
        number = int(group.max(initial=-1)) + 1
        of_code = np.empty(attribute.size, np.intp)
        of_code[codes] = group
        of_code[gaps] = np.arange(number, number + len(gaps))
        if order is None:
            return cls(of_code, None, None)
        mass = np.bincount(group, shares, minlength=number)
        ranks = 2.0 * np.cumsum(mass) - mass - 1.0
        scores = ranks / (np.abs(ranks).max(initial=0.0) or 1.0)
        return cls(of_code, order, np.concatenate([scores, np.zeros(len(gaps))]))

    @cached_property
    def indicator(self) -> Floats:
        """Whether a code is in a group, 0 or 1, shape ``(groups, size)``."""
        return np.eye(int(self.of_code.max()) + 1)[:, self.of_code]


def _order(attribute: Attribute, codes: Codes) -> Codes | None:
    """Return the codes of the values in their order; None if they have none."""
    one = attribute.child if isinstance(attribute, ChildAttribute) else attribute
    if one.binned or one.ordered or codes.size == TWO:
        return codes
    numbers = [value for value in one.listed if isinstance(value, int | float)]
    if not numbers or len(numbers) < codes.size:
        return None
    return codes[np.argsort(numbers, kind="stable")]


@dataclass(frozen=True, eq=False)
class CoarsePairs:
    """All pairs of attributes, at their groups.

    `pairs` are the two-way marginals of a million cells at most.
    """

    pairs: tuple[Clique, ...]
    groups: dict[str, Groups]

    @classmethod
    def of(
        cls, domain: Domain, public: MarginalSource | None, left_out: Collection[str] = ()
    ) -> CoarsePairs:
        """Return the pairs of a domain, with groups that follow from public data.

        Parameters
        ----------
        domain
            The domain.
        public
            The public tables; None: each value of an attribute counts alike.
        left_out
            Columns that are left out.
        """
        names = [one.name for one in domain.attributes if one.column not in left_out]
        counted = {} if public is None else public.marginals([(name,) for name in names])
        ones = {name: np.ones(domain.sizes[name]) for name in names}
        groups = {
            name: Groups.of(domain.attribute(name), counted.get((name,), ones[name]))
            for name in names
        }
        wanted = (one for one in columns_and_pairs(domain) if len(one) == TWO)
        return cls(tuple(one for one in wanted if groups.keys() >= set(one)), groups)

    @cached_property
    def associated(self) -> tuple[Clique, ...]:
        """The pairs of which both attributes are ordered."""
        ordered = {name for name, one in self.groups.items() if one.scores is not None}
        return tuple(pair for pair in self.pairs if ordered >= set(pair))

    def measures(self, name: str) -> bool:
        """Return whether there is a pair of which an error of `PairErrors` is measured."""
        return bool(self.pairs if name == "pairs" else self.associated)

    def apart(
        self,
        truth: MarginalSource,
        tables: Collection[MarginalSource | IndependentTable],
        records: int | None = None,
    ) -> list[PairErrors]:
        """Return how far each table is from the first one.

        Parameters
        ----------
        truth
            The table to compare with.
        tables
            Tables or models over the same domain, each of any number of records.
        records
            n, by which the counts of `truth` are divided; None: its own.

        Returns
        -------
        list of PairErrors
            Of each table.
        """
        found = np.zeros((len(tables), 3))
        for counted in marginal_blocks(truth, self.pairs):
            n = truth.records if records is None else records
            ours = {pair: self._measured(pair, counts / n) for pair, counts in counted.items()}
            for row, table in enumerate(tables):
                answers = table.marginals(counted)
                for pair, (coarse, association, correlation) in ours.items():
                    shares = answers[pair] / max(1, table.records)
                    theirs = self._measured(pair, shares)
                    found[row] += (
                        np.abs(coarse - theirs[0]).sum(),
                        abs(association - theirs[1]),
                        abs(correlation - theirs[2]),
                    )
                del answers
        some = np.array([len(self.pairs), len(self.associated), len(self.associated)])
        means = found / np.maximum(some, 1)
        return [
            PairErrors(*(value if any_ else None for value, any_ in zip(row, some, strict=True)))
            for row in means.tolist()
        ]

    def lost(
        self, synthetic: MarginalSource, public: MarginalSource, measured: Collection[Clique]
    ) -> list[str]:
        """Return the pairs that are related in a public table, and hardly in a synthetic one.

        A relation is the L1 distance of a pair from the product of its margins. It counts if it is
        `RELATED` beyond the chance of the public records, and is lost if the synthetic one is below
        half of it.

        Parameters
        ----------
        synthetic, public
            The tables.
        measured
            The cliques that were measured privately: their relations are as they were measured.

        Returns
        -------
        list of str
            The names joined by " x ", the strongest relation first.
        """
        wanted = [
            pair
            for pair in self.pairs
            if is_known(public, pair) and not any(set(pair) <= set(one) for one in measured)
        ]
        found = {}
        for counted in marginal_blocks(public, wanted):
            answers = synthetic.marginals(counted)
            for pair, counts in counted.items():
                coarse = self._coarse(pair, counts / public.records)
                product = np.outer(coarse.sum(axis=1), coarse.sum(axis=0))
                # The mean distance that chance alone makes of independent attributes.
                chance = float(np.sqrt(2.0 * product / (np.pi * public.records)).sum())
                relation = float(np.abs(coarse - product).sum()) - chance
                shares = self._coarse(pair, answers[pair] / max(1, synthetic.records))
                kept = np.abs(shares - np.outer(shares.sum(axis=1), shares.sum(axis=0))).sum()
                if relation > RELATED and kept < relation / 2:
                    found[" x ".join(pair)] = relation
        return sorted(found, key=found.__getitem__, reverse=True)

    def _coarse(self, pair: Clique, shares: Floats) -> Floats:
        a, b = (self.groups[name].indicator for name in pair)
        coarse: Floats = a @ shares @ b.T
        return coarse

    def _measured(self, pair: Clique, shares: Floats) -> tuple[Floats, float, float]:
        """Return the groups of a pair, shape ``(groups, groups)``, and two associations."""
        a, b = (self.groups[name] for name in pair)
        coarse = self._coarse(pair, shares)
        if a.scores is None or b.scores is None or a.order is None or b.order is None:
            return coarse, 0.0, 0.0
        return (
            coarse,
            float(a.scores @ coarse @ b.scores),
            rank_correlation(shares[np.ix_(a.order, b.order)]),
        )


def rank_correlation(counts: Floats) -> float:
    """Return Spearman's rank correlation of a two-way table of counts or shares in order.

    It is 0 where an attribute has one value only. Ties have the mean of their ranks.
    """
    total = counts.sum()
    if total <= 0:
        return 0.0
    shares = counts / total
    centred = []
    for margin in (shares.sum(axis=1), shares.sum(axis=0)):
        ranks = np.cumsum(margin) - margin / 2 - 0.5
        centred.append((ranks, float(margin @ ranks**2)))
    (ours, spread), (theirs, wide) = centred
    # Rounding errors alone are no spread.
    return (
        float(ours @ shares @ theirs) / (spread * wide) ** 0.5 if min(spread, wide) > 1e-12 else 0.0
    )
