"""Pairs of attributes at about eight groups of values each, and associations within them.

A workload of many cells punishes a small table for its sparse cells. Pairs of coarse groups do so
less, and the mean of a product of two scores hardly at all: it says whether a relation is kept.
Groups and scores follow from released or public counts, so that a person is one bounded term.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from jam_dagster.evaluation.columns_and_pairs import columns_and_pairs
from jam_dagster.tables.codes.marginals import marginal_blocks
from jam_dagster.tables.codes.public import is_known
from jam_dagster.tables.domain.order import TWO, codes_in_order

if TYPE_CHECKING:
    from jam_dagster.evaluation.independent_table import IndependentTable
    from jam_dagster.tables.codes.marginals import MarginalSource
    from jam_dagster.tables.domain.attributes import Attribute
    from jam_dagster.tables.domain.domain import Clique, Domain

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.intp]
Counts = Mapping[tuple[str, ...], npt.NDArray[Any]]

GROUPS = 8
"""The most groups of an attribute's values; a missing and an absent one are groups of their own."""

RELATED = 0.1
"""The least L1 distance from independence of a relation that counts."""

_NO_SPREAD = 1e-12
_RAKINGS = 50
_SIZE = GROUPS + 2


class PairErrors(NamedTuple):
    """How far the pairs of a table are from those of another; None if the domain has no pair.

    `pairs` is the mean L1 distance of the pairs of groups, from 0 to 2. `association` is the mean
    distance of ``E s_a s_b``, the mean product of two ordered attributes' scores, from 0 to 2: two
    ranks, or a rank and a square. `correlation` is that of
    Spearman's rank correlations, which one record can move far: it is never released with noise.
    """

    pairs: float | None
    association: float | None
    correlation: float | None


@dataclass(frozen=True, eq=False)
class Groups:
    """The groups of an attribute's codes.

    `of_code` is the group of each code, shape ``(size,)``, and `shares` the basis's share of each
    group. `scores` are from -1 to 1, shape ``(groups, k)``: the ranks of ordered values and, for
    three groups or more, their squares; 0 for a missing value, and none without an order. `order`
    has the codes of ordered values in their order, None if they have none.
    """

    of_code: Codes
    shares: Floats
    scores: Floats
    order: Codes | None

    @classmethod
    def of(cls, attribute: Attribute, counts: npt.NDArray[np.number]) -> Groups:
        """Return groups of about as many records each.

        Parameters
        ----------
        attribute
            The attribute.
        counts
            The basis's records of each code, or ones; shape ``(size,)``.
        """
        absent = () if attribute.absent_code is None else (attribute.absent_code,)
        gaps = [list(some) for some in (attribute.missing_codes, absent) if some]
        codes = np.setdiff1d(np.arange(attribute.size), [*attribute.missing_codes, *absent])
        order = codes_in_order(attribute)
        codes = codes if order is None else order
        weights = counts[codes] / max(1, counts[codes].sum())
        group = np.arange(codes.size)
        if codes.size > GROUPS and order is not None:
            middle = np.cumsum(weights) - weights / 2
            group = np.minimum((GROUPS * middle).astype(np.intp), GROUPS - 1)
            group = np.unique(group, return_inverse=True)[1]
        elif codes.size > GROUPS:
            # The most frequent values alone, and the others together.
            group = np.full(codes.size, GROUPS - 1)
            group[np.argsort(-weights, kind="stable")[: GROUPS - 1]] = np.arange(GROUPS - 1)
        number = int(group.max(initial=-1)) + 1
        of_code = np.empty(attribute.size, np.intp)
        of_code[codes] = group
        for group_of_gap, some in enumerate(gaps, start=number):
            of_code[some] = group_of_gap
        shares = np.bincount(of_code, counts, minlength=number + len(gaps))
        mass = np.bincount(group, weights, minlength=number).astype(float)
        scores = np.empty((number, 0)) if order is None else _ranks(mass)
        missing = np.zeros((len(gaps), scores.shape[1]))
        return cls(of_code, shares / max(1, shares.sum()), np.vstack([scores, missing]), order)

    @cached_property
    def indicator(self) -> Floats:
        """Whether a code is in a group, 0 or 1, shape ``(10, size)``."""
        return np.eye(_SIZE)[:, self.of_code]


def _ranks(mass: Floats) -> Floats:
    """Return the ranks of groups in order, and if there are three or more their squares."""
    ranks = 2.0 * np.cumsum(mass) - mass - 1.0
    squares = ranks**2 - mass @ ranks**2
    kinds = [ranks, squares] if len(mass) > TWO else [ranks]
    return np.stack([one / (np.abs(one).max(initial=0.0) or 1.0) for one in kinds], axis=1)


@dataclass(frozen=True, eq=False)
class CoarsePairs:
    """All pairs of attributes, at their groups.

    `pairs` are the two-way marginals of a million cells at most.
    """

    pairs: tuple[Clique, ...]
    groups: dict[str, Groups]

    @classmethod
    def of(
        cls, domain: Domain, basis: MarginalSource | None, left_out: Collection[str] = ()
    ) -> CoarsePairs:
        """Return the pairs of a domain.

        Parameters
        ----------
        domain
            The domain.
        basis
            The table whose one-way marginals groups and scores follow from: a released or a public
            one. None: each value counts alike.
        left_out
            Columns that are left out.
        """
        names = [one.name for one in domain.attributes if one.column not in left_out]
        counted = {} if basis is None else basis.marginals([(name,) for name in names])
        groups = {
            name: Groups.of(
                domain.attribute(name), counted.get((name,), np.ones(domain.sizes[name]))
            )
            for name in names
        }
        wanted = (one for one in columns_and_pairs(domain) if len(one) == TWO)
        return cls(tuple(one for one in wanted if groups.keys() >= set(one)), groups)

    def measures(self, name: str) -> bool:
        """Return whether there is a pair of which an error of `PairErrors` is known."""
        ordered = {name for name, one in self.groups.items() if one.order is not None}
        return any(name == "pairs" or ordered >= set(pair) for pair in self.pairs)

    def apart(
        self,
        truth: MarginalSource,
        tables: Sequence[MarginalSource | IndependentTable],
        records: int | None = None,
        *,
        raked: bool = False,
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
        raked
            Whether the groups of each table are first raked to the shares of the basis, which keeps
            its odds ratios. The errors are then those of relations alone, and not of margins.

        Returns
        -------
        list of PairErrors
            Of each table.
        """
        found = np.zeros((len(tables), 3))
        associations = correlations = 0
        for counted in marginal_blocks(truth, self.pairs):
            n = truth.records if records is None else records
            pairs = tuple(counted)
            ours = self._coarse(pairs, counted, n)
            products = self._products(pairs, ours)
            ranks = self._correlations(pairs, counted)
            associations, correlations = associations + products.size, correlations + ranks.size
            for row, table in enumerate(tables):
                answers = table.marginals(pairs)
                theirs = self._coarse(pairs, answers, max(1, table.records))
                theirs = self._raked(pairs, theirs) if raked else theirs
                found[row] += (
                    np.abs(ours - theirs).sum(),
                    np.abs(products - self._products(pairs, theirs)).sum(),
                    np.abs(ranks - self._correlations(pairs, answers)).sum(),
                )
                del answers
        some = (len(self.pairs), associations, correlations)
        return [
            PairErrors(*(one / of if of else None for one, of in zip(row, some, strict=True)))
            for row in found.tolist()
        ]

    def lost(self, synthetic: MarginalSource, public: MarginalSource) -> list[str]:
        """Return the pairs that are related in a public table, and hardly in a synthetic one.

        A relation is lost if the synthetic one is below half of it, whether the pair was measured
        or not.

        Parameters
        ----------
        synthetic, public
            The tables.

        Returns
        -------
        list of str
            The names joined by " x ", the strongest relation first.
        """
        relations = self.related(public)
        lost: set[Clique] = set()
        for counted in marginal_blocks(synthetic, list(relations)):
            pairs = tuple(counted)
            ours = self._coarse(pairs, counted, max(1, synthetic.records))
            kept = np.abs(ours - _product(ours)).sum(axis=(1, 2))
            lost |= {
                pair for pair, one in zip(pairs, kept, strict=True) if one < relations[pair] / 2
            }
        return [" x ".join(pair) for pair in relations if pair in lost]

    def related(self, public: MarginalSource) -> dict[Clique, float]:
        """Return the pairs that are related in a public table, the strongest relation first.

        A relation is the L1 distance of a pair from the product of its margins, less what chance
        may make of the public records. It counts if it is above `RELATED`.
        """
        wanted = [pair for pair in self.pairs if is_known(public, pair)]
        found: dict[Clique, float] = {}
        for counted in marginal_blocks(public, wanted):
            pairs = tuple(counted)
            theirs = self._coarse(pairs, counted, max(1, public.records))
            product = _product(theirs)
            # The distance that chance alone makes of independent attributes: its mean, and two of
            # its deviations.
            variances = product / max(1, public.records)
            chance = np.sqrt(2.0 / np.pi * variances).sum(axis=(1, 2))
            chance += 2.0 * np.sqrt((1.0 - 2.0 / np.pi) * variances.sum(axis=(1, 2)))
            relation = np.abs(theirs - product).sum(axis=(1, 2)) - chance
            found |= {pairs[at]: float(relation[at]) for at in np.flatnonzero(relation > RELATED)}
        return dict(sorted(found.items(), key=lambda one: -one[1]))

    def _coarse(self, pairs: Sequence[Clique], counts: Counts, records: int) -> Floats:
        """Return the shares of the groups of each pair, shape ``(pairs, 10, 10)``."""
        made: Floats = np.empty((len(pairs), _SIZE, _SIZE))
        for row, (a, b) in enumerate(pairs):
            one, other = self.groups[a].indicator, self.groups[b].indicator
            made[row] = one @ counts[a, b] @ other.T
        made /= records
        return made

    def _raked(self, pairs: Sequence[Clique], shares: Floats) -> Floats:
        """Return tables with the margins of the basis, and the odds ratios of some shares."""
        margins = np.zeros((2, len(pairs), _SIZE))
        for row, pair in enumerate(pairs):
            for side, name in enumerate(pair):
                held = self.groups[name].shares
                margins[side, row, : len(held)] = held
        # A group without any record is independent, and no other cell is impossible.
        rows, columns = shares.sum(axis=2), shares.sum(axis=1)
        product = np.where(rows > 0, rows, 1.0)[:, :, None]
        product = product * np.where(columns > 0, columns, 1.0)[:, None, :]
        unknown = (rows == 0)[:, :, None] | (columns == 0)[:, None, :]
        made = np.where(unknown, product, shares + 1e-6 * product)
        for _ in range(_RAKINGS):
            made *= _ratio(margins[0], made.sum(axis=2))[:, :, None]
            made *= _ratio(margins[1], made.sum(axis=1))[:, None, :]
        return made

    def _products(self, pairs: Sequence[Clique], shares: Floats) -> Floats:
        """Return the mean products of two ranks, and of a rank and a square, of ordered pairs."""
        made: list[Floats] = [np.empty(0)]
        for (a, b), table in zip(pairs, shares, strict=True):
            one, other = self.groups[a].scores, self.groups[b].scores
            means = one.T @ table[: len(one), : len(other)] @ other
            # The mean of two squares says little.
            made.append(means.ravel()[: 3 if means.size > TWO + 1 else None])
        whole: Floats = np.concatenate(made).astype(float)
        return whole

    def _correlations(self, pairs: Sequence[Clique], counts: Counts) -> Floats:
        """Return the rank correlations of the pairs of ordered attributes."""
        made = []
        for a, b in pairs:
            one, other = self.groups[a].order, self.groups[b].order
            if one is not None and other is not None:
                made.append(rank_correlation(counts[a, b][np.ix_(one, other)]))
        return np.array(made)


def _product(shares: Floats) -> Floats:
    """Return the product of the margins of each table."""
    made: Floats = shares.sum(axis=2)[:, :, None] * shares.sum(axis=1)[:, None, :]
    return made


def _ratio(wanted: Floats, found: Floats) -> Floats:
    return np.divide(wanted, found, out=np.zeros_like(found), where=found > 0)


def rank_correlation(counts: npt.NDArray[Any]) -> float:
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
    if min(spread, wide) <= _NO_SPREAD:
        return 0.0
    return float(ours @ shares @ theirs) / float(np.sqrt(spread * wide))
