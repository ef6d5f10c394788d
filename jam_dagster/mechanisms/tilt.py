"""TILT: a public distribution, tilted by private measurements.

Public data are the base measure of the estimate and never a term of its loss: without a measurement
the model is the public prior, and one private measurement of a shifted attribute corrects what is
correlated with it. Without a public table the prior is uniform, and single attributes are measured
first; see `jam_dagster.mechanisms.loops.single_attributes`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from jam_dagster.errors import EmptyCandidateSetError
from jam_dagster.mechanisms.base import (
    Mechanism,
    PublicUse,
    attributes_of,
    check_countable,
    check_share,
    public_of,
)
from jam_dagster.mechanisms.context import SMALLEST_RHO, Context
from jam_dagster.mechanisms.loops.expected_gain import (
    Margins,
    expected_gain,
    margins_by_bits,
    strengths_of,
)
from jam_dagster.mechanisms.loops.graphical import size_limit_setting
from jam_dagster.mechanisms.loops.moments import corrected
from jam_dagster.mechanisms.loops.settings import MOST_ITERATIONS, setting
from jam_dagster.mechanisms.loops.single_attributes import ExpectedAttributes, SingleAttributes
from jam_dagster.mechanisms.loops.transcript import (
    NOTHING,
    NOTHING_HELPS,
    subject_of,
)
from jam_dagster.models.graphical.junction_tree import BYTES_PER_CELL, MEGABYTE, mask_of
from jam_dagster.models.graphical.tractability import TractabilityFilter
from jam_dagster.models.measurement import Measurement
from jam_dagster.models.tilted.corrected import CorrectedModel
from jam_dagster.models.tilted.fit import TiltFit
from jam_dagster.models.tilted.model import TiltedModel
from jam_dagster.models.tilted.prior import PublicPrior
from jam_dagster.privacy.accounting import exponential_epsilon, gaussian_sigma
from jam_dagster.tables import Clique, Domain, Workload

if TYPE_CHECKING:
    from jam_dagster.privacy import Neighbours

PUBLIC, UNIFORM = "public", "uniform"
"""The priors."""

SELECTING = 0.2
"""The share of a round's budget that selects."""

SHARES_AN_ATTRIBUTE = 8
"""The first round costs a part in eight of the budget, for each attribute."""

SIGNAL = 25_000.0
"""Parts are smaller where the records are more than so many deviations of an even round's noise: a
model is short of rounds there and not of budget, and a cheaper choice takes smaller marginals."""

SMALLER = 4.0
"""Most by which they are."""

EVEN = 4.0
"""Rounds grow to so many times the first share: two for each attribute spend the budget."""

ROUNDS = 1.5
"""Without a public table so many rounds for each attribute spend what single attributes leave. A
tree of pairs takes one; larger marginals, and loops, take the rest."""

ANNEALED = (4.0, 2.0)
"""How a round that taught nothing raises the price of the next: below the even share, and above."""

SINGLE = 0.3
"""The part of a round's budget that measures a single attribute, once shares are even."""

AGAIN = 30.0
"""A single attribute of which the model proved to stand for at most so many records is measured
again with what its round kept: where the model is wrong, all noise comes through."""

KNOWN = 3.0
"""A margin is settled once its noise is at most so many times that of a new measurement."""

SHRUNK = 0.5
"""The noise of a margin's cells grows with this power of the cells that it sums: the fit shrinks
what it sums, so by less than the root of their number."""

LOUDEST = 150.0
"""A marginal is no candidate where the noise of its cells adds up to more than so many times the
records: it would hide all that its margins hold, which smaller marginals have with less."""

SCORED, SCORED_CELLS = 8192, 2**25
"""The most candidates that a round looks at, and the most cells: of more, it looks at some."""

FILTERED = 1024
"""Candidates of which a round asks at first if they fit."""

Fitting = Callable[[Sequence[int]], list[int]]
"""Returns those of some candidates that fit, by their numbers, ascending."""

NEGLIGIBLE = 1e-9
"""The part of the budget that is not worth a round."""

LEAST = 0.01
"""The weight of choosing nothing, where that of all marginals of a degree is 1: an uninformative
choice should seldom end a run."""


@dataclass(frozen=True)
class Tilt(Mechanism):
    """The mechanism and its settings.

    Attributes
    ----------
    size_limit_mb
        Largest junction tree, in megabytes of 8 bytes a cell. It is released with the root of the
        budget spent.
    iterations
        Most evaluations of a fit.
    prior
        ``public``, what public tables teach, or ``uniform``, which needs none and reads none.

    Raises
    ------
    SpecificationError
        If a setting is out of range.

    Notes
    -----
    The spending of a round depends on the outcomes of earlier ones: the account is a filter, which
    adaptive spending needs. A round may choose that no further measurement helps; what is left then
    returns to the dataset. An attribute of one value counts the records, and is never measured.
    """

    size_limit_mb: float = size_limit_setting(40.0)
    iterations: int = setting(500, "most evaluations of a fit", minimum=1, maximum=MOST_ITERATIONS)
    prior: Literal["public", "uniform"] = setting(
        "public",
        "where the model begins: at the public table, or uniform, which is taken where the "
        "release has no public table",
        choices=(PUBLIC, UNIFORM),
    )

    name: ClassVar[str] = "tilt"
    title: ClassVar[str] = "TILT"
    summary: ClassVar[str] = (
        "tilts a network of the public table, or the uniform distribution, by private measurements"
    )
    rank: ClassVar[int] = 15
    page: ClassVar[str] = "tilt.md"
    compared: ClassVar[bool] = True
    pace: ClassVar[float] = 0.7
    takes_public: ClassVar[PublicUse] = "may"

    @property
    def uses_public(self) -> bool:
        """Whether the model begins at the public table."""
        return self.prior == PUBLIC

    @property
    def titled(self) -> str:
        """The title, which says if the model begins uniform."""
        return self.title if self.uses_public else f"{self.title} without public data"

    @classmethod
    def without_public(cls) -> dict[str, Any]:
        """Return the settings of a release that has no public table."""
        return {"prior": UNIFORM}

    def check(self, domain: Domain, workload: Workload, rho: float) -> None:
        """Raise if the mechanism cannot start, before anything is reserved or counted.

        Raises
        ------
        SpecificationError
            If `rho` is too little for the first rounds, or a marginal of the workload is too large
            to be counted.
        EmptyCandidateSetError
            If no marginal of the workload's downward closure fits the size limit.
        """
        check_countable(domain, workload.cliques)
        informative = _informative(domain, workload)
        if informative is None:
            return
        check_share(rho, _shares(informative), remedy="use fewer attributes")
        if not _Candidates(domain, informative, self.size_limit_mb).fitting:
            raise EmptyCandidateSetError(
                f"No marginal of the workload fits the model size limit of "
                f"{self.size_limit_mb:.3g} MB. Raise size_limit_mb, or use fewer values an "
                "attribute."
            )

    def draw(self, ctx: Context) -> TiltedModel | CorrectedModel:
        """Make rounds while they teach anything; see `_Run`.

        With the uniform prior, single attributes are measured before; see `SingleAttributes`.
        """
        workload = _informative(ctx.domain, ctx.workload)
        if self.prior == UNIFORM:
            prior = PublicPrior.uniform(ctx.domain)
        else:
            prior = PublicPrior.of(ctx.domain, public_of(self, ctx.public))
        if workload is None:
            fitted = TiltFit(prior, ctx.records, iterations=self.iterations)
            ctx.end(NOTHING_HELPS)
            return corrected(ctx, fitted.released)
        run = _Run(self, ctx, prior, workload)
        singles = run.singles
        for index in ctx.rounds(len(singles.prices) if singles.whole else None):
            if index < len(singles.prices):
                run.single(index)
            else:
                run.round()
        return corrected(ctx, run.fitted.released)


def _informative(domain: Domain, workload: Workload) -> Workload | None:
    """Return a workload without attributes of one value, whose counts are the number of records.

    Marginals that become alike are one, of all their weights. None if no marginal has an attribute
    of several values: there is nothing to learn.
    """
    if all(domain.sizes[name] > 1 for name in attributes_of(workload)):
        return workload
    weights: dict[Clique, float] = {}
    for clique, weight in zip(workload.cliques, workload.weights, strict=True):
        kept = tuple(name for name in clique if domain.sizes[name] > 1)
        if kept:
            weights[kept] = weights.get(kept, 0.0) + weight
    return Workload(tuple(weights), tuple(weights.values()), domain.names) if weights else None


def _shares(workload: Workload) -> int:
    """Return the number of parts that the budget is divided into."""
    return SHARES_AN_ATTRIBUTE * len(attributes_of(workload))


@dataclass(frozen=True)
class _Weights:
    """The candidates of a round, by their numbers, and the margins that count.

    `most` is the most attributes of a candidate: the choice among more would be as good as
    chance. `of` has N of the margins of each candidate, `heaviest` is the largest sum of them.
    Only candidates with some are `counting`, by their numbers among all.
    """

    most: int
    numbers: Sequence[int]
    of: Sequence[np.ndarray]
    heaviest: float
    counting: Sequence[bool]


class _Candidates:
    """The candidates of a run, and what is known of their margins; without any private data.

    All of it follows from the transcript, so that a verifier finds the same sensitivities.
    """

    def __init__(self, domain: Domain, workload: Workload, size_limit_mb: float) -> None:
        self.domain = domain
        self.closure = list(workload.downward_closure())
        self.margins = Margins(workload, self.closure)
        # Only these can be chosen, regardless of the rest of the model.
        self.fitting = TractabilityFilter(domain, self.closure).fitting([], size_limit_mb)
        degrees = [len(self.closure[number]) for number in self.fitting]
        self.levels = {degree: degrees.count(degree) for degree in sorted(set(degrees))}
        self.cells = [domain.size(clique) for clique in self.closure]
        self._precisions: dict[Clique, float] = {}

    def note(self, clique: Clique, sigma: float) -> None:
        """Take a measurement into account: it informs about every margin."""
        cells = self.domain.size(clique)
        for margin in margins_by_bits(clique)[1:]:
            summed = (cells / self.domain.size(margin)) ** SHRUNK
            known = self._precisions.get(margin, 0.0)
            self._precisions[margin] = known + 1.0 / (sigma**2 * summed)

    def weighed(self, rho_select: float, records: float, neighbours: Neighbours) -> _Weights:
        """Return what counts in a round, given the price of its selection."""
        price = float(f"{rho_select:.6g}")
        told = _told(price, records, neighbours)
        most = max(
            (
                degree
                for degree, count in self.levels.items()
                if told >= math.log(min(count, SCORED))
            ),
            default=min(self.levels),
        )
        sigma = gaussian_sigma(neighbours.marginal_l2, price * (1.0 - SELECTING) / SELECTING)
        settled = frozenset(
            margin
            for margin, precision in self._precisions.items()
            if precision * sigma**2 >= KNOWN**-2
        )
        numbers = [number for number in self.fitting if len(self.closure[number]) <= most]
        loud = LOUDEST * records / sigma
        # If all are too loud, all are left.
        numbers = [number for number in numbers if self.cells[number] <= loud] or numbers
        weights = self.margins.unsettled(settled)
        sums = self.margins.sums(weights)
        heaviest = float(sums[numbers].max())
        if heaviest == 0.0:
            # All is settled: then all counts again.
            weights = self.margins.weights
            sums = self.margins.sums(weights)
            heaviest = float(sums[numbers].max())
        return _Weights(most, numbers, weights, heaviest, (sums > 0.0).tolist())

    def some_of(
        self, numbers: Sequence[int], index: int, fitting: Fitting
    ) -> tuple[list[int], bool]:
        """Return those candidates that a round looks at, and if they are all that fit.

        All of `numbers` that are `fitting` if `numbers` are few. Otherwise a random part of each
        degree, by the number of the round alone, which no data decide: each round looks at others,
        and the best of many is seldom much better than the best of some. Which ones fit is asked
        only until they are enough.
        """
        cells = sum(self.cells[number] for number in numbers)
        if len(numbers) <= SCORED and cells <= SCORED_CELLS:
            return list(fitting(numbers)), True
        # Raw bits are the same in every version of NumPy.
        places = np.random.PCG64(index).random_raw(len(self.closure))
        held = np.array(numbers)
        held = held[np.argsort(places[held])]
        degrees = np.array([len(self.closure[number]) for number in held])
        kinds, often = np.unique(degrees, return_counts=True)
        kept: list[int] = []
        whole = True
        # A degree of few candidates leaves room to the others.
        for place, kind in enumerate(np.argsort(often, kind="stable")):
            of_degree = held[degrees == kinds[kind]].tolist()
            most = (SCORED - len(kept)) // (len(kinds) - place)
            found, every = self._first(of_degree, fitting, most, SCORED_CELLS // len(kinds))
            kept += found
            whole &= every
        return sorted(kept), whole

    def _first(
        self, numbers: Sequence[int], fitting: Fitting, most: int, most_cells: int
    ) -> tuple[list[int], bool]:
        """Return the first candidates that fit, at most so many, and if no other one fits."""
        found: list[int] = []
        cells, start, more = 0, 0, FILTERED
        while start < len(numbers):
            block = numbers[start : start + more]
            # If few fit, many are asked for at a time, which share their work.
            start, more = start + more, 2 * more
            fits = set(fitting(block))
            for number in (one for one in block if one in fits):
                cells += self.cells[number]
                if found and (len(found) == most or cells > most_cells):
                    return found, False
                found.append(number)
        return found, True


def _told(rho_select: float, records: float, neighbours: Neighbours) -> float:
    """Return by how much a gain of a quarter of the records raises the logarithm of a chance."""
    return exponential_epsilon(rho_select) * records / (4.0 * neighbours.marginal_l1)


def _least_select(candidates: int, records: float, neighbours: Neighbours) -> float:
    """Return the price of a selection that distinguishes so many candidates from chance."""
    return (4.0 * neighbours.marginal_l1 * math.log(candidates) / records) ** 2 / 8.0


NO_SINGLES = SingleAttributes((), whole=False)
"""With a public table no attribute is measured before the rounds."""


class _Run:
    """The run of TILT, with the price of its next round.

    The first price is a part in 8 d of the budget, for d attributes, down to a quarter of that as
    the signal is strong, or what it takes to choose among single attributes. It rises to the even
    share, at which 2 d rounds spend the budget, or up to 8 d: by four where a round taught nothing,
    or once pairs can be chosen; and doubles above it where a round taught nothing, or all that fits
    is settled. The rest is spent at once where it is less than two rounds.

    Once shares are even, a single attribute is measured with a part of its round, and the rest is
    kept; or it pays for a second measurement at once, where the first shows the model to be wrong.

    With the uniform prior, the rounds share what single attributes leave. All are at the even share
    from the first on, of which it holds 1.5 d, up to four times as many as the signal is strong.
    """

    def __init__(
        self, mechanism: Tilt, ctx: Context, prior: PublicPrior, workload: Workload
    ) -> None:
        candidates = _Candidates(ctx.domain, workload, mechanism.size_limit_mb)
        self.mechanism, self.ctx, self.candidates = mechanism, ctx, candidates
        self.closure = candidates.closure
        self.fitted = TiltFit(prior, ctx.records, iterations=mechanism.iterations)
        ctx.model = lambda: self.fitted.model
        # The model grows with the network's cliques and with what was measured.
        self.cliques = list(prior.potentials)
        self.filter = TractabilityFilter(prior.network_domain, self.closure)
        # The model only grows, so few others are ever candidates: the largest ones never fit.
        size = self.fitted.cells * BYTES_PER_CELL / MEGABYTE
        possible = self.filter.fitting(self.cliques, max(mechanism.size_limit_mb, size))
        ctx.hold([self.closure[number] for number in possible])
        masks = [mask_of(ctx.domain.positions[name] for name in q) for q in self.closure]
        self._mask_of = dict(zip(self.closure, masks, strict=True))
        self._clique_of = {mask: clique for clique, mask in self._mask_of.items()}
        self.budget = ctx.remaining
        self.again: tuple[Clique, float] | None = None
        self.singles = NO_SINGLES
        if mechanism.prior == UNIFORM:
            self.singles = SingleAttributes.of(
                ctx.domain,
                workload,
                records=ctx.records,
                sigma=ctx.sigma(1.0),
                rho=self.budget,
            )
            self._set_prices(round(ROUNDS * len(attributes_of(workload))), 1.0)
        else:
            self._set_prices(_shares(workload), EVEN)

    def _set_prices(self, shares: int, even: float) -> None:
        """Set the first price, one of so many `shares`, and the even one, so many times as much."""
        ctx, paid = self.ctx, len(self.singles.prices)
        # If single attributes spend all, no round follows, and its price does not matter.
        rest = self.budget if self.singles.whole else self.budget - self.singles.paid
        first = rest / shares
        signal = ctx.records / ctx.sigma((1.0 - SELECTING) * even * first)
        first /= min(max(signal / SIGNAL, 1.0), SMALLER)
        self.even = even * first
        self.rounds_paid = paid + max(round(rest / self.even), 1)
        singles = self.candidates.levels[min(self.candidates.levels)]
        select = _least_select(singles, ctx.records, ctx.neighbours)
        self.price = min(max(first, select / SELECTING), rest)

    def single(self, number: int) -> None:
        """Measure one of the single attributes that come first, and follow what is expected."""
        ctx, prices = self.ctx, self.singles.prices
        clique, price = prices[number]
        if self.singles.whole and number == len(prices) - 1:
            # Attributes without a price, and rounding, leave something.
            price = ctx.remaining
        measured = ctx.measure(clique, price, among=len(prices))
        ctx.fit(ExpectedAttributes(self.fitted), measured)
        self._note(measured)

    def add(self, measured: Measurement | None) -> None:
        """Refit the model to a further measurement, unless it was lost."""
        self.ctx.fit(self.fitted, measured)
        self._note(measured)

    def _note(self, measured: Measurement | None) -> None:
        """Take a measurement into account that the model was fitted to, unless it was lost."""
        if measured is not None:
            self.candidates.note(measured.clique, measured.sigma)
            self.cliques.append(measured.clique)

    def round(self) -> None:
        """Take one round.

        - the margins that count, and the candidates that keep the model tractable: of very many,
          a random part
        - select one by the exponential mechanism with its expected gain over the workload, all of
          a degree together counting alike, or in a last round that nothing more helps
        - measure it, a single attribute with a part of the price once shares are even
        - tilt the public prior to all measurements
        - price the next round by whether this one taught anything
        """
        ctx, neighbours = self.ctx, self.ctx.neighbours
        if self.again is not None:
            self._measure_again(*self.again)
            return
        # The gains and candidates are those of the round's first attempt, as a verifier finds it.
        whole = ctx.round.left
        while True:
            planned = self._next(whole)
            if ctx.has_ended():
                return
            counted = self.candidates.weighed(SELECTING * planned, ctx.records, neighbours)
            limit = self._size_limit_mb(planned)
            fitting, all_fit = self.candidates.some_of(
                [number for number in counted.numbers if counted.counting[number]],
                len(ctx.done),
                partial(self.fitting, limit),
            )
            if fitting:
                break
            if planned >= whole:
                ctx.end(NOTHING_HELPS)
                return
            # All that fits is settled at this price.
            self.price *= ANNEALED[1]
        levels: Mapping[int, int] = self.candidates.levels
        if not all_fit:
            levels = Counter(len(self.closure[number]) for number in fitting)

        share = self._next(ctx.remaining)
        if ctx.has_ended():
            return
        rho_select = SELECTING * share
        rho_measure = share - rho_select
        sensitivity = neighbours.gain_score(counted.heaviest)
        candidates: list[Clique | str] = [self.closure[number] for number in fitting]
        if planned >= whole:
            # An uninformative marginal at this price may be informative at a higher one.
            candidates.append(NOTHING)

        def scores() -> np.ndarray:
            # The exponential mechanism with a base measure: all of a degree together count alike,
            # and nothing counts as `LEAST` of them. It depends on no record.
            scale = 2.0 * sensitivity / exponential_epsilon(rho_select)
            chances = np.array([levels[len(self.closure[n])] for n in fitting])
            gains = self.gains(fitting, counted.of, ctx.sigma(rho_measure))
            nothing = [scale * math.log(LEAST)] * (len(candidates) - len(fitting))
            return np.append(gains - scale * np.log(chances), nothing)

        ctx.round.candidates, ctx.round.size_limit_mb = len(fitting), limit
        chosen = ctx.select(
            candidates,
            scores,
            rho=rho_select,
            sensitivity=sensitivity,
            named=lambda one: one if isinstance(one, str) else subject_of(one),
        )
        if isinstance(chosen, str):
            ctx.end(NOTHING_HELPS)
        if chosen is None or isinstance(chosen, str):
            return

        last = rho_select + rho_measure >= 0.5 * (ctx.remaining + rho_select)
        single = len(chosen) == 1 and self.price >= 0.99 * self.even and not last
        paid = SINGLE * rho_measure if single else rho_measure
        measured = ctx.measure(chosen, paid)
        self.add(measured)
        if measured is not None:
            self._set_price(counted.most)
            if single and ctx.decide(self.fitted.strength <= AGAIN):
                self.again = chosen, rho_measure - paid

    def _measure_again(self, clique: Clique, rho: float) -> None:
        """Measure a single attribute with what the round before kept of its price."""
        self.again = None
        # The draw belongs to the round before.
        self.rounds_paid += 1
        self.ctx.round.size_limit_mb = self._size_limit_mb(rho)
        self.add(self.ctx.measure(clique, rho, among=1))

    def _next(self, left: float) -> float:
        """Return the rho of a round: all that is left if that is too little for two rounds."""
        self.ctx.affordable(left, max(SMALLEST_RHO, NEGLIGIBLE * self.budget))
        return left if left <= 2.0 * self.price else self.price

    def _set_price(self, most: int) -> None:
        """Set the price of the next round, after candidates of so many attributes."""
        below = self.price < 0.99 * self.even
        left = self.ctx.remaining / max(self.rounds_paid - len(self.ctx.done) - 1, 1)
        towards = max(left, self.even)
        if not self.ctx.decide(self.fitted.learnt):
            self.price *= ANNEALED[0] if below else ANNEALED[1]
            return
        if below and most > min(self.candidates.levels):
            self.price = min(4.0 * self.price, towards)
        if self.price > self.even:
            self.price = max(self.price, min(towards, 2.0 * self.even))

    def _size_limit_mb(self, rho: float) -> float:
        """Return the size limit of a round: by the root of the budget spent, or what there is.

        A model within half of the limit may always grow by half.
        """
        whole = self.mechanism.size_limit_mb
        spent = 1.0 - (self.ctx.round.left - rho) / self.budget
        size = self.fitted.cells * BYTES_PER_CELL / MEGABYTE
        return max(whole * math.sqrt(max(spent, 0.0)), 1.5 * size if size < whole / 2 else size)

    def fitting(self, limit: float, numbers: Sequence[int]) -> list[int]:
        """Return those candidates, by their numbers, whose model is within `limit`."""
        with self.ctx.stage("filter"):
            return self.filter.fitting(self.cliques, limit, numbers)

    def gains(
        self, numbers: Sequence[int], weights: Sequence[np.ndarray], sigma: float
    ) -> np.ndarray:
        """Return the expected gains of candidates, in counts, shape ``(m,)``."""
        gains: dict[int, float] = {}
        total, strengths = self.ctx.records, strengths_of(self.ctx.records)
        number_of = {self.closure[number]: number for number in numbers}
        with self.ctx.stage("answer"):
            for block in self.ctx.counts(list(number_of)):
                masks = [self._mask_of[clique] for clique in number_of if clique in block]
                for mask, answer in self.fitted.marginals(masks, together=True):
                    clique = self._clique_of[mask]
                    number = number_of[clique]
                    gains[number] = expected_gain(
                        answer,
                        block[clique],
                        weights[number],
                        sigma,
                        total,
                        strengths=strengths,
                    )
        return np.array([gains[number] for number in numbers])
