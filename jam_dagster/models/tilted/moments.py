"""Moments: a tilt of a model to the correlations of its own public records.

A network of few parents an attribute loses relations that the public records of a tilted model
still hold. Let s be scores of an ordered attribute's values, their ranks and their numbers,
with mean 0 and variance 1 under the model, and f = s_a s_b / sd the moments of all pairs. Over
a pool of the model's rows, theta and one potential u for each value minimize

    log mean exp(theta . f + u) - theta . t - u . q + r ||theta||^2 / 2 + `LEVEL` ||u||^2 / 2

within bounds. q are the pool's shares of each value, which stay. t are the moments of the records
as they were before any measurement: a potential that mends what the network lacks is too much for
records that have it. The strength r is that of the empirical Bayes estimate, one for all moments:
1 / (mean of squared standard errors - 1), of pairs that are within no measured clique. If that mean
is hardly above one, all differences may be chance, and nothing is tilted.

Pairs within a measured clique show whether the records are right. Nothing is tilted if the moments
of these are not alike in model and records, or if a model that was measured has none. If fewer than
`PROOF` of all pairs are, moments are moved by what is beyond `DOUBT` standard errors alone.

The model alone decides all of it, so it costs nothing. A solution is an array of whole numbers. Its
verification minimizes nothing: it evaluates one gradient.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
import numpy.typing as npt

from jam_dagster.models.tilted.descent import minimize
from jam_dagster.models.tilted.model import TiltedModel
from jam_dagster.models.tilted.prior import LARGEST_SHARE
from jam_dagster.tables import Attribute, Clique, Domain, EncodedTable
from jam_dagster.tables.domain.order import TWO, codes_in_order, numbers_in_order

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]

POOL = 60_000
"""Rows of the model over which moments are taken."""

BLOCK = 8_192
"""Rows of which scores are held at a time."""

LARGEST_SCORE = 3.0
"""A score counts as so much at most: rows that the pool has not seen are no further away."""

LARGEST_THETA = 1.0
LARGEST_LEVEL = 3.0
"""The bounds of theta, and of the potentials of single values."""

LEVEL = 1e-4
"""The strength by which potentials of single values are held, since one a column is free."""

PROOF = 1 / 8
"""The least part of pairs that must be measured to show that the records are right."""

DOUBT = 2.0
"""Standard errors that a moment of the records may be off, if fewer are, without moving a model."""

LEAST_EXCESS = 0.5
"""By how much the mean squared standard error of moments must be above one. Moments depend on each
other, so it is often above one by chance."""

LEAST_ALIKE = 0.8
"""The least cosine between the moments of measured pairs in the model and in the records. It is
hardly below 0.9 if the public table is right, and seldom above 0.5 if it is wrong."""

LEFT = 2.0
"""The power with which records are worth less where TILT had to leave them."""

SLACK = 0.1
"""By how much the margin, the largest gradient over `REACHED` and the part that stays effective
may be worse where a solution is verified: another machine's pool may be of other rows."""

UNIT = 1e-9
"""The unit of a solution's whole numbers: where theta is held most, rounding keeps the gradient."""

REACHED = 0.02
"""The largest gradient of a solution; five times the sampling error of a moment of the pool."""

LEAST_EFFECTIVE = 0.5
"""The least part of the pool that a solution leaves effective."""

WEAKENED = tuple(10.0**power for power in range(8))
"""How much more strongly theta is held if a solution is out of bounds, or would leave less."""

EVALUATIONS = 100
"""Most evaluations of a solution."""

TRIED = 5
"""Evaluations after which a search ends that leaves too little of the pool: few get it back."""

SETTLED = 1e-6
"""A solution ends when a step lowers the objective by no more than this."""


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of ordered attributes, and their pairs.

    `columns` are the position of an attribute in its domain and the score of each of its codes.
    `pairs` are those of columns whose moments count: two ranks, two numbers, shape ``(pairs, 2)``.
    """

    columns: tuple[tuple[int, Floats], ...]
    pairs: npt.NDArray[np.intp]

    @classmethod
    def of(cls, domain: Domain, shares: list[Floats]) -> Self:
        """Return the scores under the shares of each attribute's values."""
        columns, kinds = [], []
        for position, (attribute, share) in enumerate(zip(domain.attributes, shares, strict=True)):
            for kind, scores in _scores_of(attribute, share):
                columns.append((position, scores))
                kinds.append(kind)
        pairs = [
            (one, other)
            for one, other in itertools.combinations(range(len(columns)), 2)
            if columns[one][0] != columns[other][0]
            and len({kinds[one], kinds[other]} - {"either"}) <= 1
        ]
        return cls(tuple(columns), np.array(pairs, dtype=np.intp).reshape(-1, 2))

    def within(self, domain: Domain, cliques: Sequence[Clique]) -> npt.NDArray[np.bool_]:
        """Return which pairs are of attributes of one of some cliques, shape ``(pairs,)``."""
        known = {
            pair
            for clique in cliques
            for pair in itertools.combinations(sorted(domain.positions[one] for one in clique), 2)
        }
        columns = [position for position, _ in self.columns]
        return np.array(
            [(columns[one], columns[other]) in known for one, other in self.pairs], dtype=np.bool_
        )

    def of_rows(self, table: EncodedTable, start: int, end: int) -> Floats:
        """Return the scores of some rows, shape ``(end - start, columns)``."""
        made = np.empty((end - start, len(self.columns)))
        for at, (position, scores) in enumerate(self.columns):
            made[:, at] = scores[table.columns[position][start:end]]
        return made

    def moments(self, table: EncodedTable, weights: Floats) -> Floats:
        """Return the weighted sums of products of the pairs, shape ``(pairs,)``."""
        summed = np.zeros((len(self.columns),) * 2)
        for start, end in _blocks(table.records):
            rows = self.of_rows(table, start, end)
            summed += _products(rows, weights[start:end])
        return self._of_pairs(summed)

    def _of_pairs(self, summed: Floats) -> Floats:
        made: Floats = summed[self.pairs[:, 0], self.pairs[:, 1]]
        return made


def _scores_of(attribute: Attribute, share: Floats) -> Iterator[tuple[str, Floats]]:
    """Yield ranks, and numbers unless there are two values only, which are in either."""
    order = codes_in_order(attribute)
    if order is None or not share[order].sum() > 0:
        return
    weights = share[order] / share[order].sum()
    two = np.count_nonzero(weights) <= TWO
    kinds = {"either" if two else "rank": np.cumsum(weights) - weights / 2}
    if not two:
        kinds["number"] = numbers_in_order(attribute, order)
    for kind, values in kinds.items():
        centred = values - weights @ values
        spread = float(np.sqrt(weights @ centred**2))
        if spread > 0:
            # A missing value has the mean.
            scores = np.zeros(attribute.size)
            scores[order] = np.clip(centred / spread, -LARGEST_SCORE, LARGEST_SCORE)
            yield kind, scores


def _products(rows: Floats, weights: Floats) -> Floats:
    """Return the weighted sums of products of columns, by one matrix alone: half the time."""
    rooted = rows * np.sqrt(weights)[:, None]
    made: Floats = rooted.T @ rooted
    return made


def _point(found: Whole) -> Floats:
    """Return theta and the potentials of a solution."""
    made: Floats = UNIT * found[1:].astype(np.float64)
    return made


def _blocks(records: int) -> Iterator[tuple[int, int]]:
    for start in range(0, records, BLOCK):
        yield start, min(start + BLOCK, records)


class _TooFarError(Exception):
    """A search is at a point that leaves too little of the pool."""

    def __init__(self, point: Floats) -> None:
        super().__init__()
        self.point = point


class Moments:
    """The moments of a model, and what tilts it to them.

    Parameters
    ----------
    model
        The model, whose public records are tilted as its network is.
    seed
        The seed of the pool.

    Attributes
    ----------
    trusted
        How many records the public ones are worth: ``1 / sum w^2``, times the power `LEFT` of how
        far TILT had to leave them, the odds of their share to those before any measurement.
    excess
        By how much the mean squared standard error of moments is above one; r is its inverse.
    margin
        By how much that is above `LEAST_EXCESS`, or, if that is less, the likeness of measured
        pairs above `LEAST_ALIKE`. Nothing is tilted unless it is above 0.
    """

    def __init__(self, model: TiltedModel, seed: int) -> None:
        self.domain, self.seed = model.domain, seed
        self.trusted, self.excess, self.margin = 0.0, -1.0, -1.0
        singles = [(name,) for name in self.domain.names]
        answers = model.marginals(singles)
        shares = [answers[single] / model.total for single in singles]
        self.scores = Scores.of(self.domain, shares)
        sizes = self.domain.shape
        self._starts = np.concatenate([[0], np.cumsum(sizes)])
        self.size = len(self.scores.pairs) + int(self._starts[-1])
        if model.rows is None or not model.share or not len(self.scores.pairs):
            return
        weights = model.rows.probabilities
        odds = model.share / (1.0 - model.share) if model.share < 1.0 else np.inf
        trust = min(1.0, odds * (1.0 - LARGEST_SHARE) / LARGEST_SHARE) ** LEFT
        self.trusted = trust / float(np.square(weights).sum())
        measured = self.scores.within(self.domain, model.cliques)
        unproved = model.cliques and measured.all() == measured.any()
        # Records that are worth less than one say nothing.
        if self.trusted < 1.0 or unproved:
            return
        self.pool = model.sample(POOL, np.random.default_rng(seed))
        even = np.full(POOL, 1.0 / POOL)
        self._shares = self._singles(even)
        means, squares = self.scores.moments(self.pool, even), self._squares()
        # A moment without spread in the pool is no larger for that.
        self._spread = np.sqrt(np.maximum(squares - means**2, 1e-4))
        before = model.before or model.rows
        recorded = self.scores.moments(before.support.table, before.probabilities)
        apart = (recorded - means) / self._spread
        # The network alone is further away than the whole model.
        of_records = max(1.0 - model.share, LARGEST_SHARE) / np.sqrt(self.trusted)
        error = float(np.hypot(of_records, POOL**-0.5))
        self.excess = float(np.square(apart[~measured] / error).mean()) - 1.0
        self.margin = self.excess - LEAST_EXCESS
        if model.cliques:
            ours, theirs = (one[measured] / self._spread[measured] for one in (means, recorded))
            lengths = float(np.linalg.norm(ours) * np.linalg.norm(theirs))
            alike = float(ours @ theirs) / max(lengths, np.finfo(float).tiny)
            self.margin = min(self.margin, alike - LEAST_ALIKE)
        doubt = DOUBT * error if measured.mean() < PROOF else 0.0
        moved = np.sign(apart) * np.maximum(np.abs(apart) - doubt, 0.0)
        self.targets = means / self._spread + moved

    def solve(self) -> Whole:
        """Return the power of `WEAKENED`, theta and the potentials, in units."""
        for power in range(len(WEAKENED) if self.margin > 0.0 else 0):
            found = np.concatenate([[power], self._minimized(WEAKENED[power])]).astype(np.int64)
            if not self._fault(found, slack=0.0):
                return found
        return np.zeros(1 + self.size, dtype=np.int64)

    def fault(self, found: Whole) -> str:
        """Return the fault of a solution; empty if it has none."""
        return self._fault(found, SLACK)

    def _fault(self, found: Whole, slack: float) -> str:
        if found.shape != (1 + self.size,) or found.dtype != np.int64:
            return "has another size than its model's moments"
        if self.margin <= -slack:
            return "tilts a model that nothing should" if found.any() else ""
        if not found.any() and self.margin <= slack:
            return ""
        if not 0 <= found[0] < len(WEAKENED):
            return "is held by no strength"
        point = _point(found)
        bounds = self._bounds
        if (np.abs(point) > bounds).any():
            return "is out of its bounds"
        _, gradient, effective = self._objective(point, WEAKENED[int(found[0])])
        if not np.abs(gradient).max() <= REACHED * (1.0 + slack):
            return "does not reach the moments"
        little = effective < LEAST_EFFECTIVE - slack
        return "leaves too little of the model's rows" if little else ""

    def log_weights(self, found: Whole, table: EncodedTable) -> Floats:
        """Return the logarithms of the weights that a solution gives rows, shape ``(rows,)``."""
        made = np.zeros(table.records)
        if found.any():
            point = _point(found)
            for start, end, _, logs in self._logs(point, table):
                made[start:end] = logs
        return made

    @cached_property
    def _bounds(self) -> Floats:
        pairs = len(self.scores.pairs)
        made: Floats = np.repeat([LARGEST_THETA, LARGEST_LEVEL], [pairs, self.size - pairs])
        return made

    def _minimized(self, weakened: float) -> Floats:
        """Return the point, in units, at which the gradient vanishes; it may be too far."""
        # All coordinates have the same curvature where the search begins.
        of_theta = np.full(len(self.scores.pairs), 1.0 + self._ridge(weakened))
        of_levels = self._shares * (1.0 - self._shares) + LEVEL
        scale = 1.0 / np.sqrt(np.concatenate([of_theta, of_levels]))

        evaluated = itertools.count(1)

        def objective(point: Floats) -> tuple[float, Floats]:
            value, gradient, effective = self._objective(scale * point, weakened)
            if next(evaluated) >= TRIED and effective < LEAST_EFFECTIVE:
                raise _TooFarError(scale * point)
            return value, scale * gradient

        start = np.zeros(self.size)
        try:
            found, _ = minimize(objective, start, evaluations=EVALUATIONS, tolerance=SETTLED)
            found = scale * found
        except _TooFarError as error:
            found = error.point
        limits = 1.0 + self._bounds
        rounded: Floats = np.rint(np.clip(found, -limits, limits) / UNIT)
        return rounded

    def _ridge(self, weakened: float) -> float:
        """Return how strongly theta is held."""
        return weakened / max(self.excess, LEAST_EXCESS)

    def _objective(self, point: Floats, weakened: float) -> tuple[float, Floats, float]:
        """Return the value, its gradient, and the part of the pool that stays effective."""
        pairs, columns = len(self.scores.pairs), len(self.scores.columns)
        theta, levels = point[:pairs], point[pairs:]
        products, singles = np.zeros((columns, columns)), np.zeros(int(self._starts[-1]))
        top, total, squares = -np.inf, 0.0, 0.0
        for start, end, rows, logs in self._logs(point, self.pool):
            if (most := float(logs.max())) > top:
                # All weights so far are in units of the largest.
                smaller = np.exp(top - most)
                products, singles = products * smaller, singles * smaller
                top, total, squares = most, total * smaller, squares * smaller**2
            weights = np.exp(logs - top)
            total, squares = total + weights.sum(), squares + np.square(weights).sum()
            products += _products(rows, weights)
            singles += self._singles(weights, start, end)
        moments = self.scores._of_pairs(products) / total / self._spread
        ridge = self._ridge(weakened)
        value = top + np.log(total / POOL) - theta @ self.targets - levels @ self._shares
        value += 0.5 * ridge * float(theta @ theta) + 0.5 * LEVEL * float(levels @ levels)
        of_theta = moments - self.targets + ridge * theta
        of_levels = singles / total - self._shares + LEVEL * levels
        gradient = np.concatenate([of_theta, of_levels])
        return float(value), gradient, float(total**2 / squares / POOL)

    def _logs(
        self, point: Floats, table: EncodedTable
    ) -> Iterator[tuple[int, int, Floats, Floats]]:
        """Yield the scores and logarithms of weights of each block of rows."""
        pairs, columns = self.scores.pairs, len(self.scores.columns)
        form = np.zeros((columns, columns))
        form[pairs[:, 0], pairs[:, 1]] = point[: len(pairs)] / self._spread
        levels = point[len(pairs) :]
        for start, end in _blocks(table.records):
            rows = self.scores.of_rows(table, start, end)
            logs = ((rows @ form) * rows).sum(axis=1)
            for column, first in zip(table.columns, self._starts, strict=False):
                logs += levels[first + column[start:end].astype(np.intp)]
            yield start, end, rows, logs

    def _singles(self, weights: Floats, start: int = 0, end: int | None = None) -> Floats:
        """Return the weighted sums of each value of the pool's rows."""
        sums = [
            np.bincount(column[start:end], weights=weights, minlength=size)
            for column, size in zip(self.pool.columns, self.domain.shape, strict=True)
        ]
        return np.concatenate(sums)

    def _squares(self) -> Floats:
        columns = len(self.scores.columns)
        summed = np.zeros((columns, columns))
        for start, end in _blocks(POOL):
            squares = np.square(self.scores.of_rows(self.pool, start, end))
            summed += squares.T @ squares
        return self.scores._of_pairs(summed) / POOL
