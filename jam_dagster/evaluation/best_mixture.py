"""Best mixture error: the least error of any weights on a public table's records.

Liu, Vietri, Steinke, Ullman, Wu 2021a, Section 4 and Appendix A. It bounds the quality of a
mechanism that weights public records, such as PMW^Pub, for any budget. Computing it reads the
private table, so it is either exact and restricted, or released with noise for a charge.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import numpy.typing as npt

from jam_dagster.errors import InputError, SpecificationError
from jam_dagster.models.weighted.model import EXACT_STATISTICS, WeightedTable
from jam_dagster.models.weighted.support import Support, public_records
from jam_dagster.privacy.ledger.key import canonical_digest
from jam_dagster.tables.codes.table import digest_of

if TYPE_CHECKING:
    from jam_dagster.privacy.draws import Draws
    from jam_dagster.tables import MarginalSource, Workload

ErrorMeasure = Literal["mean", "largest cell"]

_Vector = npt.NDArray[np.float64]

_LOOK_EVERY = 20
"""Steps between two checks of the gap, each of which takes as long as a step."""

LEAST_TOLERANCE = 1e-7
"""The least tolerance that floating-point sums support."""


@dataclass(frozen=True, eq=False)
class BestMixture:
    """The best weights of public records, and their error; restricted.

    Its `repr` shows none of it, since logs may contain the `repr`.

    Attributes
    ----------
    error
        Error of these weights, a fraction of the records.
    least
        Lower bound for the error of any weights, from the dual problem.
    model
        The weights, with the private table's number of records. They are exact results of private
        data, so the model is marked as restricted, also when it is stored. Records sampled from it
        are restricted, too.
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
    measure: ErrorMeasure = "mean",
    tolerance: float = 1e-3,
    records: int | None = None,
) -> BestMixture:
    """Find the best weights for the records of a public table, exactly; the result is restricted.

    Parameters
    ----------
    private, public
        The tables, over one domain.
    workload
        The marginals and their weights.
    measure
        ``mean``: the workload error of Definition 2.8, the weighted mean over marginals of
        ``||q(D) - q(A)||_1 / n``; ``largest cell``: the largest error of a single cell, as the
        paper's maximum over counting queries (weights have no part in it).
    tolerance
        Largest distance of the result above the least error, a fraction of the records. The search
        ends when a lower bound proves this distance.
    records
        Measured n, if the true number is private.

    Raises
    ------
    SpecificationError
        If the measure is unknown, the tolerance is below 1e-7, or `records` is below 1.
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
    if measure not in get_args(ErrorMeasure):
        raise SpecificationError(
            f"The measure must be {' or '.join(get_args(ErrorMeasure))}, got {measure!r}."
        )
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
    program = _Program.of(private, support, workload, total, measure)
    weights, error, least = program.solve(tolerance)
    with np.errstate(divide="ignore"):
        logs = np.log(weights)
    model = WeightedTable(support, float(total), logs, workload.cliques, restricted=True)
    return BestMixture(error, least, model)


def release_best_mixture(
    private: MarginalSource,
    public: MarginalSource,
    workload: Workload,
    draws: Draws,
    *,
    rho: float,
    measure: ErrorMeasure = "mean",
    tolerance: float | None = None,
    records: int | None = None,
) -> tuple[float, float]:
    """Release the best mixture error with noise, before paying for a mechanism that it bounds.

    The duration of the search depends on the private table: do not publish it.

    Parameters
    ----------
    private, public, workload, measure
        See `best_mixture`.
    tolerance
        See `best_mixture`. The search's gap changes the released number, so the tolerance is part
        of the sensitivity (see `Neighbours.best_mixture_error`). None means half of one person's
        change of the least error, which makes the noise 1.5 times as large as without a gap; a
        larger tolerance is faster and has more noise.
    draws
        The draws that pay, from a separate account: no certified release makes this draw. A
        repeated question is charged once; another public table, workload, measure or tolerance
        is another question.
    rho
        The price.
    records
        Measured n, if the number of private records is not public.

    Returns
    -------
    tuple of float
        The error with Gaussian noise, which can be below 0, and the noise's standard deviation:
        fractions of the records.

    Raises
    ------
    SpecificationError, DomainError, InputError
        As `best_mixture`, or if the number of records is private and not given.
    BudgetExceededError, LostDrawError
        As for `Draws.means`.
    """
    if draws.neighbours.records_public:
        records = None
    elif records is None:
        raise SpecificationError(
            "the number of private records is not public here: give the measured number from the "
            "release's transcript."
        )
    single = measure == "largest cell"
    if tolerance is None:
        total = private.records if records is None else records
        moved = draws.neighbours.best_mixture_error(max(1, total), 0.0, single=single)
        tolerance = max(LEAST_TOLERANCE, 0.5 * moved)
    found = best_mixture(
        private, public, workload, measure=measure, tolerance=tolerance, records=records
    )
    # A stored answer must belong to the same question. None of this is private.
    question = canonical_digest(
        {
            "domain": private.domain.digest,
            "public": digest_of({"": public_records(private.domain, public)}),
            "workload": workload.digest,
            "tolerance": tolerance,
            "records": found.model.records,
        }
    )
    noisy, sigma = draws.means(
        f"best-mixture/{measure.replace(' ', '-')}/{question[:16]}",
        np.array([found.error]),
        l2_sensitivity=draws.neighbours.best_mixture_error(
            found.model.records, tolerance, single=single
        ),
        rho=rho,
    )
    return float(noisy[0]), sigma


class _Program:
    """``min_w max_u <u, A w - d>``: w weights records, u has a number for each occupied cell.

    Cells without public records contribute a constant.
    """

    def __init__(
        self,
        places: npt.NDArray[np.intp],
        wanted: _Vector,
        caps: _Vector | None,
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
        cls,
        private: MarginalSource,
        support: Support,
        workload: Workload,
        total: int,
        measure: ErrorMeasure,
    ) -> _Program:
        """Build the program of a measure."""
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
            rest = np.delete(counts, occupied)
            outside.append(rest.sum() * share[row] if measure == "mean" else rest.max(initial=0.0))
        if measure == "mean":
            return cls(places, np.concatenate(wanted), np.concatenate(caps), math.fsum(outside))
        return cls(places, np.concatenate(wanted), None, float(max(outside)))

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
        if self.caps is None:
            return max(float(apart.max()), self.outside)
        return float(self.caps @ apart) + self.outside

    def bound(self, prices: _Vector) -> float:
        """Return the lower bound on the error of any weights, from these prices."""
        least = float(self.pulls(prices).min() - prices @ self.wanted)
        return max(least, self.outside) if self.caps is None else least + self.outside

    def allowed(self, prices: _Vector) -> _Vector:
        """Return the nearest feasible prices."""
        if self.caps is not None:
            return np.clip(prices, -self.caps, self.caps)
        if np.abs(prices).sum() <= 1.0:
            return prices
        signed: _Vector = np.sign(prices) * on_simplex(np.abs(prices))
        return signed

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
