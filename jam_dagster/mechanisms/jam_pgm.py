"""JAM-PGM: joint adaptive measurements of private and public marginals.

Fuentes, Mullins, McKenna, Miklau, Sheldon: "Joint Selection: Adaptively Incorporating Public
Information for Private Synthetic Data", AISTATS 2024, Algorithm 2.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from jam_dagster.errors import ReleaseClosedError
from jam_dagster.mechanisms.base import (
    LineStyle,
    MechanismResult,
    OnRound,
    OrdinaryMechanism,
)
from jam_dagster.mechanisms.loops.base import (
    check_countable,
    check_share,
    in_rounds,
    public_of,
)
from jam_dagster.mechanisms.loops.graphical import (
    GraphicalRun,
    alpha_setting,
    check_first_candidates,
    estimator_setting,
    iterations_setting,
    refit_graphical,
    size_limit_setting,
    tolerance_setting,
)
from jam_dagster.mechanisms.loops.scores import candidate_scores, l1_distance
from jam_dagster.mechanisms.loops.settings import check_settings, setting
from jam_dagster.mechanisms.loops.transcript import MOST_ROUNDS, Round, Transcript, subject_of
from jam_dagster.models.graphical.model import FittedModel
from jam_dagster.models.measurement import Measurement, Origin
from jam_dagster.tables import (
    Clique,
    Domain,
    MarginalSource,
    PublicTables,
    Workload,
    marginal_blocks,
)

if TYPE_CHECKING:
    from jam_dagster.privacy import Neighbours
    from jam_dagster.privacy.draws import Draws


@dataclass(frozen=True)
class JamPgm(OrdinaryMechanism):
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
        The fit of the model: ``accelerated``, ``mirror_descent`` or ``mbi``, see
        `jam_dagster.models.graphical.mirror_descent.make_estimator`.
    iterations
        Most steps of a fit.
    tolerance
        Trades error for time: a fit of the accelerated estimator ends when its loss falls by less
        than this share over 15 steps. The others take all `iterations`.

    Raises
    ------
    SpecificationError
        If a setting is out of range.
    """

    rounds: int = setting(30, "T, the number of rounds", minimum=1, maximum=MOST_ROUNDS)
    alpha: float = alpha_setting(0.8)
    size_limit_mb: float = size_limit_setting()
    estimator: str = estimator_setting()
    iterations: int = iterations_setting()
    tolerance: float = tolerance_setting()

    name: ClassVar[str] = "jam_pgm"
    title: ClassVar[str] = "JAM-PGM"
    summary: ClassVar[str] = (
        "each measurement is private (noisy, paid) or public (biased, free), whichever "
        "promises less error"
    )
    rank: ClassVar[int] = 10
    page: ClassVar[str] = "jam_pgm.md"
    line_style: ClassVar[LineStyle] = LineStyle("#0072b2", "circle")
    uses_public: ClassVar[bool] = True
    samples: ClassVar[bool] = True
    chooses_source: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_settings(self)

    def parameters(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        return asdict(self)

    def expected_rounds(self, domain: Domain, workload: Workload) -> int:
        """Return T."""
        return self.rounds

    def check_budget(self, rho: float) -> None:
        """Raise SpecificationError if `rho` is too little for a round."""
        check_share(rho, self.rounds)

    def check(self, domain: Domain, workload: Workload, rho: float) -> None:
        """Raise if the mechanism cannot start, before anything is reserved or counted.

        Raises
        ------
        SpecificationError
            If `rho` is too little for a round, or a marginal of the workload is too large to be
            counted.
        EmptyCandidateSetError
            If no marginal of the workload's downward closure fits the first round's size limit.
        """
        self.check_budget(rho)
        check_countable(domain, workload.cliques)
        closure = workload.downward_closure()
        check_first_candidates(domain, closure, self.size_limit_mb, self.rounds)

    def run(
        self,
        private: MarginalSource,
        public: MarginalSource | None,
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
            A related table over the same domain, or over a projection of it if it lacks
            attributes, or `PublicTables`; rows are not protected. Each candidate occurs once for
            every public table that has its attributes.
        workload
            The marginals that matter; candidates are their downward closure.
        draws
            Charges, draws and stores. Stored outcomes are reused without a charge, so an
            interrupted run resumes.
        on_round
            Called after every round.

        Returns
        -------
        MechanismResult
            The model with n records, and the transcript.

        Raises
        ------
        DomainError
            If there is no public table, the tables' domains differ, or a table is empty.
        EmptyCandidateSetError
            If no marginal fits the size limit in the first round; nothing is charged then.
        BudgetExceededError
            If the account holds less than `draws` states.
        ReleaseClosedError
            If the account was closed before the first measurement; a later closure ends the run.
        """
        tables = PublicTables.of(private.domain, public_of(self, public))
        self.check(private.domain, workload, draws.total)
        run = _Run(self, private, tables, workload.downward_closure(), draws)
        return run.result(in_rounds(self.rounds, run.round, on_round), workload)

    @classmethod
    def sensitivities(
        cls, transcript: Transcript, domain: Domain, workload: Workload, neighbours: Neighbours
    ) -> Iterable[float]:
        """Return the required sensitivity of each selection: the score's, in every round."""
        return repeat(neighbours.jam_score)

    @classmethod
    def refit(
        cls, transcript: Transcript, domain: Domain, public: MarginalSource | None = None
    ) -> FittedModel:
        """Rebuild the model of a transcript; see `jam_dagster.mechanisms.refit`."""
        return refit_graphical(transcript, domain)


@dataclass(frozen=True)
class Candidate:
    """A marginal that a round may measure, and the table that it may measure it on.

    Parameters
    ----------
    clique
        The marginal.
    table
        The number of a public table; None: the private table.
    """

    clique: Clique
    table: int | None = None

    @property
    def source(self) -> Origin:
        """Whether the measurement is private (noisy, charged) or public (biased, free)."""
        return "private" if self.table is None else "public"


class _Run(GraphicalRun):
    """The run of JAM-PGM, with the public tables and their distance from the private one."""

    def __init__(
        self,
        mechanism: JamPgm,
        private: MarginalSource,
        public: PublicTables,
        closure: Sequence[Clique],
        draws: Draws,
    ) -> None:
        super().__init__(mechanism, private, closure, draws)
        self.mechanism = mechanism
        self.tables = list(public.tables.items())
        self.public_error = np.full((len(self.tables), len(self.closure)), np.nan)
        with self.stage("count"):
            for (name, table), error in zip(self.tables, self.public_error, strict=True):
                answered = [clique for clique in self.closure if name in public.answering(clique)]
                scale = self.records / table.records
                for others in marginal_blocks(table, answered):
                    held = self.counts or private.marginals(others)
                    for clique, values in others.items():
                        error[self.number[clique]] = l1_distance(held[clique], values * scale)

    def size_limit_mb(self, index: int) -> float:
        """Return this round's size limit, in proportion to the spent budget.

        In the first round, before any charge, it is an even share of the limit.
        """
        whole = self.mechanism.size_limit_mb
        if index == 0:
            return whole / self.mechanism.rounds
        return whole * self.draws.spent / self.draws.total

    def candidates(self, fitting: Sequence[int]) -> list[Candidate]:
        """Return the fitting marginals times the tables that have their attributes.

        Those of the private table come first, then those of each public table, in the order of
        `candidate_scores`.
        """
        private = [Candidate(self.closure[number]) for number in fitting]
        public = [
            Candidate(self.closure[number], table)
            for table, errors in enumerate(self.public_error)
            for number in fitting
            if not np.isnan(errors[number])
        ]
        return private + public

    def round(self, index: int) -> Round | str:
        """Take one round of Algorithm 2, or return why the run ends here.

        The lines are the paper's, in its order: candidates, budget, scores, selection, measurement,
        estimation.
        """
        started = time.monotonic()
        limit = self.size_limit_mb(index)
        fitting = self.fitting(limit)
        if not fitting:
            return "no candidate fits"
        candidates = self.candidates(fitting)

        budget = self.evenly(self.mechanism.rounds - index, self.mechanism.alpha)

        current_error = self.errors(fitting)
        public_error = self.public_error[:, fitting]

        def scores(sigma: float) -> np.ndarray:
            return candidate_scores(current_error, public_error, self.cells[fitting], sigma)

        choice = self.choose(
            index,
            budget,
            scores,
            self.draws.neighbours.jam_score,
            named=lambda place: self.subject(candidates[place]),
        )
        if isinstance(choice, str):
            return choice
        chosen = candidates[choice.index]

        measurement: Measurement | None
        if chosen.table is None:
            try:
                measurement = self.measure(index, chosen.clique, choice.rho_measure)
            except ReleaseClosedError:
                if not self.measured:
                    raise
                return "closed"
        else:
            measurement = self.look_up(index, chosen)

        return self.finish(
            started,
            index,
            chosen.clique,
            measurement,
            source=chosen.source,
            candidates=len(fitting),
            rho_select=choice.rho_select,
            rho_measure=choice.rho_measure if chosen.table is None else 0.0,
            size_limit_mb=limit,
            table=self.name_of(chosen),
        )

    def look_up(self, index: int, candidate: Candidate) -> Measurement:
        """Return a public marginal, scaled to the number of private records: biased, and free."""
        _, table = self.tables[candidate.table or 0]
        values = table.marginal(candidate.clique) * (self.records / table.records)
        return Measurement(candidate.clique, "public", values, 0.0, index)

    def name_of(self, candidate: Candidate) -> str:
        """Return the name of a candidate's public table; empty of the private one."""
        return "" if candidate.table is None else self.tables[candidate.table][0]

    def subject(self, candidate: Candidate) -> str:
        """Return what the digest of a selection says was chosen."""
        if candidate.table is None:
            return subject_of(candidate.clique)
        return subject_of(candidate.clique, "public", self.name_of(candidate))
