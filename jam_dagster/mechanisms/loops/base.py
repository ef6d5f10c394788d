"""The base of a mechanism's run: counts, draws, rounds, transcript."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from jam_dagster.errors import DomainError, LostDrawError, ReleaseClosedError, SpecificationError
from jam_dagster.mechanisms.base import Described, MechanismResult, OnRound
from jam_dagster.mechanisms.loops.scores import l1_distance, representable
from jam_dagster.mechanisms.loops.transcript import Round, Transcript, subject_of
from jam_dagster.models.base import Model
from jam_dagster.models.graphical.estimator import Convergence
from jam_dagster.models.graphical.model import possible_sizes
from jam_dagster.models.measurement import LARGEST_MARGINAL_CELLS, Measurement, Origin
from jam_dagster.privacy.accounting import gaussian_sigma
from jam_dagster.tables import Clique, Domain, MarginalSource, Workload, marginal_blocks

if TYPE_CHECKING:
    from jam_dagster.privacy.draws import Draws
    from jam_dagster.privacy.noise.calls import SelectionKind

SMALLEST_RHO = 1e-12
"""The least rho of a draw: below it the noise hides everything, and ledger units matter."""

LARGEST_QUERIES = 2**24
"""The most cells to choose from one by one: exact noise takes 100 bytes for each."""

HELD_CELLS = 2**29
"""Two gibibytes of counts: with more, private marginals are counted again in every round."""


def check_countable(
    domain: Domain,
    cliques: Iterable[Clique],
    *,
    prefix: str = "The workload's marginal",
    remedy: str = "Lower the workload's degree, or give the attributes fewer values.",
) -> None:
    """Raise SpecificationError if a marginal is too large to be counted.

    Parameters
    ----------
    domain
        Domain of the marginals.
    cliques
        The marginals that a run may have to count.
    prefix, remedy
        Parts of the error: the words before the marginal's name, and the remedy.
    """
    sizes = {q: domain.size(q) for q in cliques}
    largest = max(sizes, key=sizes.__getitem__)
    if sizes[largest] > LARGEST_MARGINAL_CELLS:
        raise SpecificationError(
            f"{prefix} {' x '.join(largest)} has {sizes[largest]:,} cells; at most "
            f"{LARGEST_MARGINAL_CELLS:,} can be counted. {remedy}"
        )


def check_queries(domain: Domain, workload: Workload) -> None:
    """Raise SpecificationError if a workload has too many cells to be chosen from one by one."""
    cells = sum(domain.size(clique) for clique in workload.cliques)
    if cells > LARGEST_QUERIES:
        raise SpecificationError(
            f"The workload has {cells:,} cells, more than the {LARGEST_QUERIES:,} that can be "
            "chosen from one by one. Set queries to marginal, lower the workload's degree, or "
            "give the attributes fewer values."
        )


def check_share(rho: float, rounds: int, *, remedy: str = "lower rounds") -> None:
    """Raise SpecificationError if `rho` is too little for `rounds` draws."""
    if rho / rounds < SMALLEST_RHO:
        raise SpecificationError(
            f"A budget of rho = {rho:.3g} leaves {rounds} draws {rho / rounds:.3g} each, less "
            f"than the minimum of {SMALLEST_RHO:.0e}. Raise epsilon, or {remedy}."
        )


def public_of(mechanism: Described, public: MarginalSource | None) -> MarginalSource:
    """Return the public table of a mechanism that needs one, or raise DomainError."""
    if public is None:
        raise DomainError(
            f"{mechanism.name} needs a public table: give one, or choose a mechanism that needs "
            "none, such as aim."
        )
    return public


def attributes_of(workload: Workload) -> Clique:
    """Return the attributes that a workload names, in the order of the domain."""
    named = {name for clique in workload.cliques for name in clique}
    return tuple(name for name in workload.attributes if name in named)


def in_rounds(
    rounds: int, one_round: Callable[[int], Round | str], on_round: OnRound | None
) -> str:
    """Run the rounds; return why the run ended.

    Parameters
    ----------
    rounds
        Number of rounds.
    one_round
        Runs the round of an index, or returns why the run ends there.
    on_round
        Called after every round.
    """
    for index in range(rounds):
        outcome = one_round(index)
        if isinstance(outcome, str):
            return outcome
        if on_round is not None:
            on_round(outcome)
    return "all rounds"


def step_of(index: int, action: str, attempt: int = 1) -> str:
    """Return the name under which a draw of a round is charged and stored."""
    suffix = "" if attempt == 1 else f"-{attempt}"
    return f"round-{index + 1:03d}/{action}{suffix}"


@dataclass(frozen=True)
class Choice:
    """A choice and its price.

    Attributes
    ----------
    index
        Index of the chosen score.
    rho_select, rho_measure
        The price of the choice, and the budget of its measurement.
    """

    index: int
    rho_select: float
    rho_measure: float


class MechanismRun(ABC):
    """The state of a run: private counts and the rounds so far; subclasses have the model.

    Parameters
    ----------
    mechanism
        The mechanism of the run.
    private
        The table to protect.
    closure
        The candidates.
    draws
        Charges, draws and stores.

    Raises
    ------
    DomainError
        If the table is empty and the number of records is public.
    """

    def __init__(
        self,
        mechanism: Described,
        private: MarginalSource,
        closure: Sequence[Clique],
        draws: Draws,
    ) -> None:
        # If the number of records is private, emptiness is private, too.
        if draws.neighbours.records_public and private.records < 1:
            raise DomainError("The private table is empty; it needs at least one record.")
        self.described = mechanism
        self.domain: Domain = private.domain
        self.records = draws.records(private.records)
        self.closure = list(closure)
        self.draws = draws
        self.private = private
        self.seconds = dict.fromkeys(("count", "filter", "answer", "select", "measure", "fit"), 0.0)
        # Noise in impossible cells does not reach the model.
        self.cells = possible_sizes(self.domain, self.closure)
        self.number = {q: number for number, q in enumerate(self.closure)}
        self.counts: Mapping[Clique, np.ndarray] | None = None
        if sum(self.domain.size(q) for q in self.closure) <= HELD_CELLS:
            with self.stage("count"):
                self.counts = private.marginals(self.closure)
        self.measured: list[Clique] = []
        self.rounds: list[Round] = []

    @property
    @abstractmethod
    def model(self) -> Model:
        """The model of all measurements so far."""

    @abstractmethod
    def fit(self, measurement: Measurement) -> Convergence:
        """Fit the model to a further measurement."""

    @property
    def released(self) -> Model:
        """The model that the run returns."""
        return self.model

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Record the duration of a stage of the run."""
        started = time.monotonic()
        yield
        self.seconds[name] += time.monotonic() - started

    def errors(self, numbers: Sequence[int]) -> np.ndarray:
        """Return ``||q(D) - q(model)||_1`` of candidates, in counts, shape ``(m,)``."""
        errors = np.empty(len(self.closure))
        with self.stage("answer"):
            for clique, counts, answer in self.answered([self.closure[n] for n in numbers]):
                errors[self.number[clique]] = l1_distance(counts, answer)
        return errors[list(numbers)]

    def answered(
        self, cliques: Sequence[Clique]
    ) -> Iterator[tuple[Clique, np.ndarray, np.ndarray]]:
        """Yield each marginal with private counts and the model's answer, in bounded memory."""
        for block in self.blocks(cliques):
            for answers in marginal_blocks(self.model, block):
                for clique, answer in answers.items():
                    yield clique, block[clique], answer

    def blocks(self, cliques: Sequence[Clique]) -> Iterator[Mapping[Clique, np.ndarray]]:
        """Yield the private marginals, all at once if they are in memory, else block by block."""
        if self.counts is not None:
            yield (
                self.counts
                if len(cliques) == len(self.counts)
                else {clique: self.counts[clique] for clique in cliques}
            )
        else:
            yield from marginal_blocks(self.private, cliques)

    def evenly(self, rounds_left: int, alpha: float) -> Callable[[], tuple[float, float] | None]:
        """Return the `split` of a round with an equal share of the remaining budget.

        Parameters
        ----------
        rounds_left
            This round and those to come.
        alpha
            The share for the measurement.
        """

        def split() -> tuple[float, float] | None:
            share = self.draws.remaining / rounds_left
            if share < SMALLEST_RHO:
                return None
            rho_select = (1 - alpha) * share
            return rho_select, share - rho_select

        return split

    def choose(
        self,
        index: int,
        split: Callable[[], tuple[float, float] | None],
        score: Callable[[float], np.ndarray],
        sensitivity: float,
        *,
        named: Callable[[int], str],
        kind: SelectionKind = "exponential mechanism",
    ) -> Choice | str:
        """Choose a candidate in one draw; a lost draw is repeated with a new charge.

        Parameters
        ----------
        index
            The round.
        split
            Returns the current budgets of selecting and measuring; None if nothing is left.
        score
            Returns the scores, given the sigma of a marginal's measurement in counts.
        sensitivity
            Sensitivity of a score, in counts.
        named
            Returns the `subject_of` the candidate at an index.
        kind
            The selection mechanism.

        Returns
        -------
        Choice or str
            The choice; or why the run ends here.

        Raises
        ------
        ReleaseClosedError
            If the account was closed before the first measurement; a later closure ends the run.
        """
        for attempt in count(1):
            rho = split()
            if rho is None:
                return "budget exhausted"
            selecting, measuring = rho
            sigma = gaussian_sigma(self.draws.neighbours.marginal_l2, measuring)
            scores = representable(score(sigma), sensitivity)
            try:
                with self.stage("select"):
                    chosen = self.draws.select(
                        step_of(index, "select", attempt),
                        scores,
                        rho=selecting,
                        sensitivity=sensitivity,
                        kind=kind,
                        named=named,
                    )
            except LostDrawError:
                # The lost draw counts as spent; this round starts again with the rest.
                continue
            except ReleaseClosedError:
                if not self.measured:
                    raise
                # An operator closed the release; its paid rounds are still a release.
                return "closed"
            return Choice(chosen, selecting, measuring)
        raise AssertionError("unreachable")

    def measure(
        self, index: int, clique: Clique, rho: float, cell: int | None = None
    ) -> Measurement | None:
        """Measure a private marginal, or one cell of it; None for a lost draw.

        Raises
        ------
        ReleaseClosedError
            If the account was closed.
        """
        counts = self.private.marginal(clique) if self.counts is None else self.counts[clique]
        # The charge of the selection was rounded up: the last round may be a unit short.
        rho = min(rho, self.draws.remaining)
        step, subject = step_of(index, "measure"), subject_of(clique, cell=cell)
        try:
            with self.stage("measure"):
                if cell is None:
                    noisy, sigma = self.draws.measure(step, counts, rho=rho, subject=subject)
                else:
                    noisy, sigma = self.draws.measure_cell(
                        step, counts.ravel()[cell], rho=rho, subject=subject
                    )
        except LostDrawError:
            # The draw was charged and lost: the round ends without a measurement.
            return None
        return Measurement(clique, "private", noisy, sigma, index, cell)

    def complete(
        self,
        started: float,
        index: int,
        clique: Clique,
        *,
        candidates: int,
        rho_select: float = 0.0,
        rho_measure: float,
        size_limit_mb: float | None = None,
        cell: int | None = None,
    ) -> Round | str:
        """Measure a private marginal, refit and keep the round; or return why the run ends here.

        See `finish` for the parameters, and `measure` for `cell`.

        Raises
        ------
        ReleaseClosedError
            If the account was closed before the first measurement; a later closure ends the run.
        """
        try:
            measurement = self.measure(index, clique, rho_measure, cell)
        except ReleaseClosedError:
            if not self.measured:
                raise
            return "closed"
        return self.finish(
            started,
            index,
            clique,
            measurement,
            candidates=candidates,
            rho_select=rho_select,
            rho_measure=rho_measure,
            size_limit_mb=size_limit_mb,
        )

    def finish(
        self,
        started: float,
        index: int,
        clique: Clique,
        measurement: Measurement | None,
        *,
        source: Origin = "private",
        candidates: int,
        rho_select: float,
        rho_measure: float,
        size_limit_mb: float | None = None,
        table: str = "",
    ) -> Round:
        """Fit the model to a measurement, and keep the round.

        Parameters
        ----------
        started
            When the round began, on the monotonic clock.
        index, clique, source, candidates, rho_select, rho_measure, size_limit_mb, table
            See `Round`.
        measurement
            The measurement; None if it was lost.
        """
        convergence = Convergence(0, math.nan)
        if measurement is not None:
            self.measured.append(clique)
            with self.stage("fit"):
                convergence = self.fit(measurement)
        done = Round(
            index=index,
            clique=clique,
            source=source,
            candidates=candidates,
            rho_select=rho_select,
            rho_measure=rho_measure,
            rho_spent=self.draws.spent,
            sigma=0.0 if measurement is None else measurement.sigma,
            size_limit_mb=size_limit_mb,
            model_mb=self.model.size_mb,
            l1_residual=self._residual(measurement),
            iterations=convergence.iterations,
            loss=convergence.loss,
            seconds=time.monotonic() - started,
            measurement=measurement,
            table=table,
        )
        self.rounds.append(done)
        return done

    def _residual(self, measurement: Measurement | None) -> float:
        if measurement is None:
            return math.nan
        fitted = self.model.marginal(measurement.clique)
        if measurement.cell is not None:
            fitted = fitted.ravel()[[measurement.cell]]
        return l1_distance(fitted, measurement.values) / self.records

    def result(self, ended: str, workload: Workload) -> MechanismResult:
        """Return the result of the run with its transcript."""
        transcript = Transcript(
            mechanism=self.described.name,
            parameters=self.described.parameters(),
            domain_digest=self.domain.digest,
            records=self.records,
            rho_budget=self.draws.total,
            rho_spent=self.draws.spent,
            rounds=tuple(self.rounds),
            ended=ended,
            neighbours=self.draws.neighbours,
            calls=self.draws.calls,
            workload_digest=workload.digest,
            noise=self.draws.noise_name,
            releasable=self.draws.releasable,
        )
        return MechanismResult(self.released, transcript, seconds=self.seconds)
