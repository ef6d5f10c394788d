"""JAM-PGM: joint adaptive measurements of private and public marginals.

Fuentes, Mullins, McKenna, Miklau, Sheldon: "Joint Selection: Adaptively Incorporating Public
Information for Private Synthetic Data", AISTATS 2024, Algorithm 2.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from jam_dagster.errors import (
    DomainError,
    EmptyCandidateSetError,
    LostDrawError,
    ReleaseClosedError,
    SpecificationError,
)
from jam_dagster.mechanisms.estimation import (
    Convergence,
    check_estimator,
    make_estimator,
)
from jam_dagster.mechanisms.junction_tree import mask_of
from jam_dagster.mechanisms.kernels import one_thread
from jam_dagster.mechanisms.model import FittedModel
from jam_dagster.mechanisms.protocol import MechanismResult, OnRound
from jam_dagster.mechanisms.scores import candidate_scores, l1_distance
from jam_dagster.mechanisms.tractability import TractabilityFilter
from jam_dagster.mechanisms.transcript import Measurement, Origin, Round, Transcript
from jam_dagster.privacy.accounting import gaussian_sigma
from jam_dagster.tables import Clique, Domain, MarginalSource, Workload, marginal_blocks

if TYPE_CHECKING:
    from jam_dagster.privacy.draws import Draws

SMALLEST_RHO = 1e-12
"""Below this a round is not worth its noise, and the ledger's units would be felt."""

LARGEST_MARGINAL_CELLS = 2**27
"""A gibibyte of counts: no table counts, and no model answers, a larger marginal."""

HELD_CELLS = 2**29
"""Two gibibytes of counts: private marginals of more cells are counted anew in every round."""


@dataclass(frozen=True)
class JamPgm:
    """The mechanism and its settings; the defaults are the paper's.

    Attributes
    ----------
    rounds
        T, the number of marginals that are selected.
    alpha
        Share of a round's budget that goes to measuring; the rest selects. In (0, 1).
    size_limit_mb
        Largest junction tree, in megabytes of 8 bytes a cell. It is released in proportion to the
        budget spent.
    estimator
        How the model is fitted: ``accelerated``, ``mirror_descent`` or ``mbi``, see
        `jam_dagster.mechanisms.estimation.make_estimator`.
    iterations
        Most steps of a fit.
    tolerance
        Trades error for time: a fit of the accelerated estimator ends when its loss fell by less
        than this share over 15 steps. The others take all `iterations`.

    Raises
    ------
    SpecificationError
        If a setting is out of range.
    """

    rounds: int = 30
    alpha: float = 0.8
    size_limit_mb: float = 80.0
    estimator: str = "accelerated"
    iterations: int = 1000
    tolerance: float = 0.1

    name: ClassVar[str] = "jam_pgm"

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise SpecificationError(f"rounds must be at least 1, got {self.rounds}.")
        if not 0 < self.alpha < 1:
            raise SpecificationError(
                f"alpha must lie strictly between 0 and 1, got {self.alpha}: both selecting and "
                "measuring need a share of the budget."
            )
        if not (self.size_limit_mb > 0 and math.isfinite(self.size_limit_mb)):
            raise SpecificationError(
                f"size_limit_mb must be positive and finite, got {self.size_limit_mb}."
            )
        check_estimator(self.estimator, self.iterations, self.tolerance)

    def parameters(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        return asdict(self)

    def check_budget(self, rho: float) -> None:
        """Raise SpecificationError if `rho` leaves nothing worth its noise to a round."""
        if rho / self.rounds < SMALLEST_RHO:
            raise SpecificationError(
                f"A budget of rho = {rho:.3g} leaves {self.rounds} rounds {rho / self.rounds:.3g} "
                f"each, less than the {SMALLEST_RHO:.0e} that is worth its noise. Raise epsilon, "
                "or lower rounds."
            )

    def check(self, domain: Domain, workload: Workload, rho: float) -> None:
        """Raise if the mechanism cannot start, before anything is reserved or counted.

        Raises
        ------
        SpecificationError
            If `rho` leaves nothing worth its noise to a round, or a marginal of the workload is
            too large to be counted.
        EmptyCandidateSetError
            If no marginal of the workload's downward closure fits the first round's size limit.
        """
        self.check_budget(rho)
        sizes = {q: domain.size(q) for q in workload.downward_closure()}
        largest = max(sizes, key=sizes.__getitem__)
        if sizes[largest] > LARGEST_MARGINAL_CELLS:
            raise SpecificationError(
                f"The workload's marginal {' x '.join(largest)} has {sizes[largest]:,} cells; at "
                f"most {LARGEST_MARGINAL_CELLS:,} can be counted. Lower the workload's degree, or "
                "give the attributes fewer values."
            )
        limit = self.size_limit_mb / self.rounds
        if not TractabilityFilter(domain, list(sizes)).fitting([], limit):
            empty = FittedModel.uniform(domain, 1.0).size_mb
            raise EmptyCandidateSetError(
                f"No marginal of the workload fits the first round's model size limit of "
                f"{limit:.3g} MB (size_limit_mb / rounds); the empty model alone takes "
                f"{empty:.3g} MB. Raise size_limit_mb, lower rounds, or use fewer values an "
                "attribute."
            )

    def run(
        self,
        private: MarginalSource,
        public: MarginalSource,
        workload: Workload,
        draws: Draws,
        *,
        on_round: OnRound | None = None,
    ) -> MechanismResult:
        """Spend what `draws` holds on a model of `private` that serves `workload`.

        Parameters
        ----------
        private
            The table to protect.
        public
            A related table over the same domain; its rows are not protected.
        workload
            The marginals that matter; candidates are their downward closure.
        draws
            Charges, draws and stores. Outcomes that it already holds are used again, free, so a
            run that stopped goes on where it was.
        on_round
            Called after every round.

        Returns
        -------
        MechanismResult
            The model with n records, and the transcript.

        Raises
        ------
        DomainError
            If the tables' domains differ, or a table is empty.
        EmptyCandidateSetError
            If no marginal fits the size limit in the first round; nothing is charged then.
        BudgetExceededError
            If the account does not hold what `draws` says it holds.
        ReleaseClosedError
            If the account was closed before anything was measured; later that ends the run.
        """
        _check_tables(private, public)
        self.check(private.domain, workload, draws.total)
        run = _Run(self, private, public, workload.downward_closure(), draws)
        ended = "all rounds"
        for index in range(self.rounds):
            outcome = run.round(index)
            if isinstance(outcome, str):
                ended = outcome
                break
            if on_round is not None:
                on_round(outcome)
        return run.result(ended)


def _check_tables(private: MarginalSource, public: MarginalSource) -> None:
    if private.domain.digest != public.domain.digest:
        raise DomainError(
            "The private and the public table are encoded over different domains; encode both "
            "over one domain."
        )
    for table, name in ((private, "private"), (public, "public")):
        if table.records < 1:
            raise DomainError(f"The {name} table is empty; it needs at least one record.")


class _Run:
    """The state of one run: model, measurements, and the errors that scores are made of."""

    def __init__(
        self,
        mechanism: JamPgm,
        private: MarginalSource,
        public: MarginalSource,
        closure: Sequence[Clique],
        draws: Draws,
    ) -> None:
        self.mechanism = mechanism
        self.domain: Domain = private.domain
        self.records = draws.records(private.records)
        self.closure = list(closure)
        self.draws = draws
        self.scale = self.records / public.records
        self.private = private
        self.public = public
        self.seconds = dict.fromkeys(("count", "filter", "answer", "select", "measure", "fit"), 0.0)
        cells = {q: self.domain.size(q) for q in self.closure}
        self.cells = np.array(list(cells.values()), dtype=np.float64)
        self.masks = {mask_of(self.domain.positions[name] for name in q): q for q in self.closure}
        self.number = {q: number for number, q in enumerate(self.closure)}
        self.counts: dict[Clique, np.ndarray] | None = None
        self.public_error = np.empty(len(self.closure))
        with self._stage("count"):
            if sum(cells.values()) <= HELD_CELLS:
                self.counts = private.marginals(self.closure)
            for others in marginal_blocks(public, self.closure):
                held = self.counts or private.marginals(others)
                for clique, values in others.items():
                    self.public_error[self.number[clique]] = l1_distance(
                        held[clique], values * self.scale
                    )
        self.filter = TractabilityFilter(self.domain, self.closure)
        self.estimator = make_estimator(
            mechanism.estimator,
            self.domain,
            self.records,
            iterations=mechanism.iterations,
            tolerance=mechanism.tolerance,
        )
        self.measured: list[Clique] = []
        self.rounds: list[Round] = []

    def size_limit_mb(self, index: int) -> float:
        """Return this round's limit: the share of the whole that the budget spent has earned.

        In the first round nothing is spent, and the limit is that of an even share.
        """
        whole = self.mechanism.size_limit_mb
        if index == 0:
            return whole / self.mechanism.rounds
        return whole * self.draws.spent / self.draws.total

    def round(self, index: int) -> Round | str:
        """Select, measure and refit once; or say why the run ends here."""
        started = time.monotonic()
        limit = self.size_limit_mb(index)
        with self._stage("filter"):
            fitting = self.filter.fitting(self.measured, limit)
        if not fitting:
            return "no candidate fits"
        with self._stage("answer"), one_thread():
            current_error = self._current_errors(fitting)
        attempt = 0
        while True:
            attempt += 1
            share = self.draws.remaining / (self.mechanism.rounds - index)
            if share < SMALLEST_RHO:
                return "budget exhausted"
            rho_select = (1 - self.mechanism.alpha) * share
            rho_measure = share - rho_select
            scores = candidate_scores(
                current_error,
                self.public_error[fitting],
                self.cells[fitting],
                gaussian_sigma(self.draws.neighbours.marginal_l2, rho_measure),
            )
            try:
                with self._stage("select"):
                    chosen = self.draws.select(
                        _step(index, "select", attempt),
                        scores,
                        rho=rho_select,
                        sensitivity=self.draws.neighbours.jam_score,
                    )
                break
            except LostDrawError:
                # The lost selection counts as spent; this round starts again with what is left.
                continue
            except ReleaseClosedError:
                if not self.measured:
                    raise
                # An operator ended the release; what it had paid for by then is one.
                return "closed"
        source: Origin = "private" if chosen < len(fitting) else "public"
        clique = self.closure[fitting[chosen % len(fitting)]]
        try:
            with self._stage("measure"):
                measurement = self._measure(index, clique, source, rho_measure)
        except ReleaseClosedError:
            if not self.measured:
                raise
            return "closed"
        convergence = Convergence(0, math.nan)
        if measurement is not None:
            self.measured.append(clique)
            with self._stage("fit"):
                convergence = self.estimator.add(measurement)
        done = Round(
            index=index,
            clique=clique,
            source=source,
            candidates=len(fitting),
            rho_select=rho_select,
            rho_measure=rho_measure if source == "private" else 0.0,
            rho_spent=self.draws.spent,
            sigma=0.0 if measurement is None else measurement.sigma,
            size_limit_mb=limit,
            model_mb=self.estimator.model.size_mb,
            l1_residual=self._residual(measurement),
            iterations=convergence.iterations,
            loss=convergence.loss,
            seconds=time.monotonic() - started,
            measurement=measurement,
        )
        self.rounds.append(done)
        return done

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        started = time.monotonic()
        yield
        self.seconds[name] += time.monotonic() - started

    def _private_counts(self, cliques: Sequence[Clique]) -> Iterator[Mapping[Clique, np.ndarray]]:
        """Yield the private marginals, all at once where they are held, else block by block."""
        if self.counts is not None:
            yield (
                self.counts
                if len(cliques) == len(self.counts)
                else {clique: self.counts[clique] for clique in cliques}
            )
        else:
            yield from marginal_blocks(self.private, cliques)

    def _current_errors(self, fitting: Sequence[int]) -> np.ndarray:
        errors = np.empty(len(self.closure))
        calibrated, total = self.estimator.model.calibrated, self.records
        masks = {q: mask for mask, q in self.masks.items()}
        for block in self._private_counts([self.closure[number] for number in fitting]):
            for mask, answer in calibrated.marginals(masks[clique] for clique in block):
                clique = self.masks[mask]
                errors[self.number[clique]] = l1_distance(block[clique], answer * total)
        calibrated.forget()
        return errors[fitting]

    def _count(self, clique: Clique) -> np.ndarray:
        return self.private.marginal(clique) if self.counts is None else self.counts[clique]

    def _measure(
        self, index: int, clique: Clique, source: Origin, rho: float
    ) -> Measurement | None:
        if source == "public":
            values = self.public.marginal(clique) * self.scale
            return Measurement(clique, "public", values, 0.0, index)
        try:
            noisy, sigma = self.draws.measure(
                _step(index, "measure", 1),
                self._count(clique),
                # The charge for the selection was rounded up: the last round may be a unit short.
                rho=min(rho, self.draws.remaining),
            )
        except LostDrawError:
            # Charged and gone: the round closes without a measurement.
            return None
        return Measurement(clique, "private", noisy, sigma, index)

    def _residual(self, measurement: Measurement | None) -> float:
        if measurement is None:
            return math.nan
        fitted = self.estimator.model.marginal(measurement.clique)
        return l1_distance(fitted, measurement.values) / self.records

    def result(self, ended: str) -> MechanismResult:
        transcript = Transcript(
            mechanism=self.mechanism.name,
            parameters=self.mechanism.parameters(),
            domain_digest=self.domain.digest,
            records=self.records,
            rho_budget=self.draws.total,
            rho_spent=self.draws.spent,
            rounds=tuple(self.rounds),
            ended=ended,
            neighbours=self.draws.neighbours,
            calls=self.draws.calls,
            noise=self.draws.noise_name,
            releasable=self.draws.releasable,
        )
        return MechanismResult(
            self.estimator.model.recalibrated(), transcript, seconds=self.seconds
        )


def _step(index: int, action: str, attempt: int) -> str:
    """Return the name under which a draw is charged and stored."""
    suffix = "" if attempt == 1 else f"-{attempt}"
    return f"round-{index + 1:03d}/{action}{suffix}"
