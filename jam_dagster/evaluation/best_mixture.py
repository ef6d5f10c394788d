"""Best mixture error: the least error of any weights on a public table's records.

Liu, Vietri, Steinke, Ullman, Wu 2021a, Section 4 and Appendix A. It bounds the quality of a
mechanism that weights public records, such as PMW^Pub, for any budget. Computing it reads the
private table, so it is restricted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from jam_dagster.errors import InputError, SpecificationError
from jam_dagster.models.weighted.model import EXACT_STATISTICS, WeightedTable
from jam_dagster.models.weighted.support import Support, public_records

if TYPE_CHECKING:
    from jam_dagster.tables import MarginalSource, Workload

_Vector = npt.NDArray[np.float64]

_LOOK_EVERY = 20
"""Steps between two checks of the gap, each of which takes as long as a step."""

LEAST_TOLERANCE = 1e-7
"""The least tolerance that floating-point sums support."""


@dataclass(frozen=True, eq=False)
class BestMixture:
    """The best weights of public records, and their error; restricted.

    `error` is a fraction of the records, `least` a lower bound for that of any weights. The weights
    are exact results of private data: the model is marked as restricted, also when it is stored,
    and so are records sampled from it. Logs may contain a `repr`, so it shows none of this.
    """

    error: float
    least: float
    model: WeightedTable

    def __repr__(self) -> str:
        return f"BestMixture(restricted: {EXACT_STATISTICS})"


def best_mixture(
    private: MarginalSource,
    public: MarginalSource,
    workload: Workload,
    *,
    tolerance: float = 1e-3,
    records: int | None = None,
) -> BestMixture:
    """Find the best weights for the records of a public table, exactly; the result is restricted.

    The error is that of Definition 2.8, the weighted mean over marginals of
    ``||q(D) - q(A)||_1 / n``.

    Parameters
    ----------
    private, public
        The tables, over one domain.
    workload
        The marginals and their weights.
    tolerance
        Largest distance of the result above the least error, a fraction of the records. The search
        ends when a lower bound proves this distance.
    records
        Measured n, if the true number is private.

    Raises
    ------
    SpecificationError
        If the tolerance is below 1e-7, or `records` is below 1.
    DomainError
        If the tables are not over one domain, or there are no public records to weigh.
    InputError
        If the private table is empty and `records` is not given.

    Notes
    -----
    A linear program, solved as a saddle point ``min_w max_u <u, A w - d>`` by the primal-dual
    hybrid gradient method with restarts (Chambolle and Pock 2011; Applegate et al. 2021). It always
    terminates: the gap of its averages falls with the number of steps.
    """
    if not LEAST_TOLERANCE <= tolerance < 2:
        raise SpecificationError(
            f"The tolerance must be at least {LEAST_TOLERANCE:g} and below 2, got {tolerance!r}."
        )
    table = public_records(private.domain, public)
    if records is None and private.records < 1:
        raise InputError("The private table is empty; it needs at least one record.")
    if records is not None and records < 1:
        raise SpecificationError(f"The number of records must be at least 1, got {records!r}.")
    total = private.records if records is None else records
    support, _ = Support.of_records(table)
    program = _Program.of(private, support, workload, total)
    weights, error, least = program.solve(tolerance)
    with np.errstate(divide="ignore"):
        logs = np.log(weights)
    model = WeightedTable(support, float(total), logs, workload.cliques, restricted=True)
    return BestMixture(error, least, model)


class _Program:
    """``min_w max_u <u, A w - d>``: w weights records, u has a number for each occupied cell.

    Cells without public records contribute a constant.
    """

    def __init__(
        self,
        places: npt.NDArray[np.intp],
        wanted: _Vector,
        caps: _Vector,
        outside: float,
    ) -> None:
        self.places = places
        self.wanted = wanted
        self.caps = caps
        self.outside = outside
        self.size = places.shape[1]
        # The rows of one marginal count disjoint records, so its norm is that of its fullest cell.
        counts = np.bincount(places.ravel(), minlength=len(wanted))
        fullest = [counts[row.min() : row.max() + 1].max() for row in places]
        self.norm = math.sqrt(float(sum(fullest)))

    @classmethod
    def of(
        cls, private: MarginalSource, support: Support, workload: Workload, total: int
    ) -> _Program:
        """Build the program of a workload."""
        places = np.empty((len(workload.cliques), support.size), dtype=np.intp)
        wanted, caps, held, outside = [], [], 0, []
        share = np.array(workload.weights) / sum(workload.weights)
        for row, clique in enumerate(workload.cliques):
            counts = private.marginal(clique).ravel() / total
            occupied, inverse = np.unique(support.codes(clique), return_inverse=True)
            places[row] = held + inverse
            wanted.append(counts[occupied])
            caps.append(np.full(len(occupied), share[row]))
            held += len(occupied)
            outside.append(np.delete(counts, occupied).sum() * share[row])
        return cls(places, np.concatenate(wanted), np.concatenate(caps), math.fsum(outside))

    def answers(self, weights: _Vector) -> _Vector:
        """Return ``A w``."""
        every = np.broadcast_to(weights, self.places.shape).ravel()
        summed = np.bincount(self.places.ravel(), weights=every, minlength=len(self.wanted))
        return summed.astype(np.float64, copy=False)

    def pulls(self, prices: _Vector) -> _Vector:
        """Return ``A^T u``."""
        pulled: _Vector = prices[self.places].sum(axis=0)
        return pulled

    def error(self, weights: _Vector) -> float:
        """Return the error of weights."""
        apart = np.abs(self.answers(weights) - self.wanted)
        return float(self.caps @ apart) + self.outside

    def bound(self, prices: _Vector) -> float:
        """Return the lower bound on the error of any weights, from these prices."""
        return float(self.pulls(prices).min() - prices @ self.wanted) + self.outside

    def allowed(self, prices: _Vector) -> _Vector:
        """Return the nearest feasible prices."""
        return np.clip(prices, -self.caps, self.caps)

    def solve(self, tolerance: float) -> tuple[_Vector, float, float]:
        """Return weights, their error, and a lower bound that is within `tolerance` of it."""
        weights = np.full(self.size, 1.0 / self.size)
        prices = np.zeros(len(self.wanted))
        best, error, least = weights, self.error(weights), self.bound(prices)
        balance = 1.0
        start, start_gap = (weights, prices), math.inf
        sums, steps = (np.zeros_like(weights), np.zeros_like(prices)), 0
        while error - least > tolerance:
            ahead = on_simplex(weights - self.pulls(prices) / (self.norm * balance))
            reached = self.answers(2.0 * ahead - weights) - self.wanted
            prices = self.allowed(prices + reached * (balance / self.norm))
            weights = ahead
            sums = (sums[0] + weights, sums[1] + prices)
            steps += 1
            if steps % _LOOK_EVERY:
                continue
            pairs = [(weights, prices), (sums[0] / steps, sums[1] / steps)]
            found = [(self.error(one), self.bound(other)) for one, other in pairs]
            for (one, _), (height, depth) in zip(pairs, found, strict=True):
                if height < error:
                    best, error = one, height
                least = max(least, depth)
            gaps = [height - depth for height, depth in found]
            closer = int(np.argmin(gaps))
            if gaps[closer] < 0.5 * start_gap or steps >= 100 * _LOOK_EVERY:
                weights, prices = pairs[closer]
                balance = _rebalanced(balance, start, (weights, prices))
                start, start_gap = (weights, prices), gaps[closer]
                sums, steps = (np.zeros_like(weights), np.zeros_like(prices)), 0
        return best, error, least


def _rebalanced(
    balance: float, before: tuple[_Vector, _Vector], now: tuple[_Vector, _Vector]
) -> float:
    """Return the ratio of the two step sizes that balances the moves of both sides."""
    moved, repriced = (float(np.linalg.norm(b - a)) for a, b in zip(before, now, strict=True))
    if moved <= 1e-12 or repriced <= 1e-12:
        return balance
    return math.exp(0.5 * (math.log(repriced / moved) + math.log(balance)))


def on_simplex(vector: _Vector) -> _Vector:
    """Return the nearest non-negative vector that sums to one."""
    ordered = np.sort(vector)[::-1]
    excess = (np.cumsum(ordered) - 1.0) / np.arange(1, len(vector) + 1)
    last = np.flatnonzero(ordered > excess)[-1]
    projected: _Vector = np.maximum(vector - excess[last], 0.0)
    return projected
