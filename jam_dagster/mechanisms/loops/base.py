"""The base of a mechanism's run: counts, draws, rounds, transcript."""

from __future__ import annotations

import math
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from jam_dagster.errors import DomainError, LostDrawError, ReleaseClosedError, SpecificationError
from jam_dagster.mechanisms.base import MechanismResult, OnRound, OrdinaryMechanism
from jam_dagster.mechanisms.context import (
    PRIVATE_CELLS,
    SMALLEST_RHO,
    Context,
    Inputs,
    Live,
    step_of,
)
from jam_dagster.mechanisms.loops.scores import l1_distance, representable
from jam_dagster.mechanisms.loops.settings import check_settings
from jam_dagster.mechanisms.loops.transcript import Round, Transcript, subject_of
from jam_dagster.models.base import Model
from jam_dagster.models.graphical.estimator import Convergence
from jam_dagster.models.graphical.model import possible_sizes
from jam_dagster.models.measurement import LARGEST_MARGINAL_CELLS, Measurement, Origin
from jam_dagster.privacy.accounting import gaussian_sigma
from jam_dagster.tables import Clique, Domain, MarginalSource, Workload, marginal_blocks
from jam_dagster.tables.codes.block_counts import CountedTable

if TYPE_CHECKING:
    from jam_dagster.privacy import Neighbours
    from jam_dagster.privacy.draws import Draws


def check_countable(
    domain: Domain,
    cliques: Iterable[Clique],
    *,
    prefix: str = "The workload's marginal",
    remedy: str = "Lower the workload's degree, or give the attributes fewer values.",
) -> None:
    """Raise SpecificationError if a marginal that a run may need is too large to be counted."""
    sizes = {q: domain.size(q) for q in cliques}
    largest = max(sizes, key=sizes.__getitem__)
    if sizes[largest] > LARGEST_MARGINAL_CELLS:
        raise SpecificationError(
            f"{prefix} {' x '.join(largest)} has {sizes[largest]:,} cells; at most "
            f"{LARGEST_MARGINAL_CELLS:,} can be counted. {remedy}"
        )


def check_share(rho: float, rounds: int, *, remedy: str = "lower rounds") -> None:
    """Raise SpecificationError if `rho` is too little for `rounds` draws."""
    if rho / rounds < SMALLEST_RHO:
        raise SpecificationError(
            f"A budget of rho = {rho:.3g} leaves {rounds} draws {rho / rounds:.3g} each, less "
            f"than the minimum of {SMALLEST_RHO:.0e}. Raise epsilon, or {remedy}."
        )


def public_of(mechanism: OrdinaryMechanism, public: MarginalSource | None) -> MarginalSource:
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


class RunEndedError(Exception):
    """No further round is made; the text says why."""


def affordable(rho: float, least: float = SMALLEST_RHO) -> float:
    """Return a price, or end the run where it is too little for a draw."""
    if rho < least:
        raise RunEndedError("budget exhausted")
    return rho


class IterativeMechanism(OrdinaryMechanism, ABC):
    """A mechanism whose run takes one measurement a round: the base of those of this package.

    A subclass is a frozen dataclass whose fields are its settings. It says how a run begins; the
    rounds are those of its `MechanismRun`.
    """

    def __post_init__(self) -> None:
        check_settings(self)

    @abstractmethod
    def expected_rounds(self, domain: Domain, workload: Workload) -> int | None:
        """Return the number of rounds; None if the run decides it."""

    @abstractmethod
    def check(self, domain: Domain, workload: Workload, rho: float) -> None:
        """Raise if the mechanism cannot start, before anything is reserved or counted."""

    def draw(self, ctx: Context) -> Model:
        """Make all draws of a run, and return its model; mechanisms of `begin` have none."""
        raise NotImplementedError

    def begin(self, given: Inputs) -> MechanismRun:
        """Return a run before its first round; mechanisms of `draw` have none."""
        raise NotImplementedError

    def run(
        self,
        private: MarginalSource,
        public: MarginalSource | None,
        workload: Workload,
        draws: Draws,
        *,
        on_round: OnRound | None = None,
    ) -> MechanismResult:
        """Spend what `draws` holds on a model of `private`; see `Mechanism.run`."""
        self.check(private.domain, workload, draws.total)
        if self.uses_public:
            public_of(self, public)
        given = Inputs(private, public, workload, draws)
        if type(self).draw is IterativeMechanism.draw:
            return self.begin(given).result(on_round)
        live = Live(self, given, on_round)
        return live.result(self.draw(live))

    @classmethod
    def sensitivities(
        cls, transcript: Transcript, domain: Domain, workload: Workload, neighbours: Neighbours
    ) -> Iterable[float]:
        """Return no sensitivity: without rounds that select there is none."""
        return ()


class MechanismRun(ABC):
    """The state of a run: private counts of its candidates, and the rounds; subclasses fit a model.

    `left` and `spent` are the rho when this round began, whatever its attempts cost. An empty table
    with a public number of records is a `DomainError`.
    """

    def __init__(
        self, mechanism: IterativeMechanism, given: Inputs, closure: Sequence[Clique]
    ) -> None:
        private, _, workload, draws = given
        # If the number of records is private, emptiness is private, too.
        if draws.neighbours.records_public and private.records < 1:
            raise DomainError("The private table is empty; it needs at least one record.")
        if isinstance(private, CountedTable):
            # Before any charge.
            private.check(closure)
        self.described = mechanism
        self.domain: Domain = private.domain
        self.workload = workload
        self.records = draws.records(private.records)
        self.closure = list(closure)
        self.draws = draws
        self.private = private
        self.seconds = dict.fromkeys(("count", "filter", "answer", "select", "measure", "fit"), 0.0)
        # Noise in impossible cells does not reach the model.
        self.cells = possible_sizes(self.domain, self.closure)
        self.number = {q: number for number, q in enumerate(self.closure)}
        self.counts: Mapping[Clique, np.ndarray] | None = None
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        # A count takes four bytes.
        held = min(PRIVATE_CELLS, memory // 16)
        if sum(self.domain.size(q) for q in self.closure) <= held:
            with self.stage("count"):
                self.counts = private.marginals(self.closure)
        self.measured: list[Clique] = []
        self.done: list[Round] = []
        self.ended = "all rounds"
        self.planned = mechanism.expected_rounds(self.domain, workload)
        self.index = self.attempt = 0
        self.started = self.left = self.spent = 0.0

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

    @abstractmethod
    def round(self, index: int) -> Round:
        """Make one round and return what `finish` does, or raise RunEndedError."""

    def rounds(self) -> Iterator[Round]:
        """Yield every round, until all are made or one cannot be.

        A round whose selection was lost begins again: the lost draw counts as spent, and the round
        pays with the rest. Where an operator closed the account, the rounds that were paid for are
        still a release, if there is a measurement.
        """
        for index in count() if self.planned is None else range(self.planned):
            self.index, self.attempt, self.started = index, 0, time.monotonic()
            self.left, self.spent = self.draws.remaining, self.draws.spent
            done = None
            try:
                while done is None:
                    self.attempt += 1
                    with suppress(LostDrawError):
                        done = self.round(index)
            except (RunEndedError, ReleaseClosedError) as why:
                closed = isinstance(why, ReleaseClosedError)
                if closed and not self.measured:
                    raise
                self.ended = "closed" if closed else str(why)
                return
            yield done

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

    def share(self) -> float:
        """Return an equal share of what is left, for this round and those to come."""
        rounds_left = (self.planned or 1) - self.index
        return affordable(self.draws.remaining / rounds_left)

    def sigma(self, rho: float) -> float:
        """Return the noise of a marginal's measurement at that price, in counts."""
        return gaussian_sigma(self.draws.neighbours.marginal_l2, rho)

    def select(
        self,
        scores: np.ndarray,
        rho: float,
        sensitivity: float,
        named: Callable[[int], str],
    ) -> int:
        """Choose by scores, in counts, of shape ``(m,)``, in one draw; return the place.

        `named` returns the `subject_of` the candidate at a place.
        """
        step = step_of(self.index, "select", self.attempt)
        scores = representable(scores, sensitivity)
        with self.stage("select"):
            return self.draws.select(step, scores, rho=rho, sensitivity=sensitivity, named=named)

    def select_private(
        self, numbers: Sequence[int], scores: np.ndarray, rho: float, sensitivity: float
    ) -> int:
        """Choose one of some private marginals by its score; return its number."""

        def named(place: int) -> str:
            return subject_of(self.closure[numbers[place]])

        return numbers[self.select(scores, rho, sensitivity, named)]

    def measure(self, clique: Clique, rho: float) -> Measurement | None:
        """Measure a private marginal; None for a lost draw."""
        counts = self.private.marginal(clique) if self.counts is None else self.counts[clique]
        # The charge of the selection was rounded up: the last round may be a unit short.
        rho = min(rho, self.draws.remaining)
        step, subject = step_of(self.index, "measure"), subject_of(clique)
        try:
            with self.stage("measure"):
                noisy, sigma = self.draws.measure(step, counts, rho=rho, subject=subject)
        except LostDrawError:
            # The draw was charged and lost: the round ends without a measurement.
            return None
        return Measurement(clique, "private", noisy, sigma, self.index)

    def finish(
        self,
        clique: Clique,
        measurement: Measurement | None,
        *,
        source: Origin = "private",
        candidates: int,
        rho_select: float = 0.0,
        rho_measure: float,
        size_limit_mb: float | None = None,
        table: str = "",
    ) -> Round:
        """Fit the model to a measurement, None if it was lost, and keep the `Round`."""
        convergence = Convergence(0, math.nan)
        if measurement is not None:
            self.measured.append(clique)
            with self.stage("fit"):
                convergence = self.fit(measurement)
        done = Round(
            index=self.index,
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
            seconds=time.monotonic() - self.started,
            measurement=measurement,
            table=table,
        )
        self.done.append(done)
        return done

    def _residual(self, measurement: Measurement | None) -> float:
        if measurement is None:
            return math.nan
        fitted = self.model.marginal(measurement.clique)
        return l1_distance(fitted, measurement.values) / self.records

    def result(self, on_round: OnRound | None = None) -> MechanismResult:
        """Make the rounds, and return the model with the transcript."""
        for done in self.rounds():
            if on_round is not None:
                on_round(done)
        transcript = Transcript(
            mechanism=self.described.name,
            parameters=self.described.parameters(),
            domain_digest=self.domain.digest,
            records=self.records,
            rho_budget=self.draws.total,
            rho_spent=self.draws.spent,
            rounds=tuple(self.done),
            ended=self.ended,
            neighbours=self.draws.neighbours,
            calls=self.draws.calls,
            workload_digest=self.workload.digest,
            noise=self.draws.noise_name,
            releasable=self.draws.releasable,
        )
        return MechanismResult(self.released, transcript, seconds=self.seconds)
