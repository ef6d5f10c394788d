"""JAM-PGM: joint adaptive measurements of private and public marginals.

Fuentes, Mullins, McKenna, Miklau, Sheldon: "Joint Selection: Adaptively Incorporating Public
Information for Private Synthetic Data", AISTATS 2024, Algorithm 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from jam_dagster.mechanisms.base import LineStyle
from jam_dagster.mechanisms.context import Inputs
from jam_dagster.mechanisms.loops.base import (
    RunEndedError,
    check_countable,
    check_share,
    public_of,
)
from jam_dagster.mechanisms.loops.graphical import (
    GraphicalMechanism,
    GraphicalRun,
    alpha_setting,
    check_first_candidates,
    size_limit_setting,
)
from jam_dagster.mechanisms.loops.scores import candidate_scores, l1_distance
from jam_dagster.mechanisms.loops.settings import setting
from jam_dagster.mechanisms.loops.transcript import MOST_ROUNDS, Round, Transcript, subject_of
from jam_dagster.models.measurement import Measurement, Origin
from jam_dagster.tables import (
    Clique,
    Domain,
    PublicTables,
    Workload,
    marginal_blocks,
)

if TYPE_CHECKING:
    from jam_dagster.privacy import Neighbours


@dataclass(frozen=True)
class JamPgm(GraphicalMechanism):
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
        The fit of the model: ``accelerated`` or ``mbi``, see
        `jam_dagster.models.graphical.fit.make_estimator`.
    iterations
        Most steps of a fit.
    tolerance
        Trades error for time: a fit of the accelerated estimator ends when its loss falls by less
        than this share over 15 steps. The other takes all `iterations`.

    Raises
    ------
    SpecificationError
        If a setting is out of range.
    """

    rounds: int = setting(30, "T, the number of rounds", minimum=1, maximum=MOST_ROUNDS)
    alpha: float = alpha_setting(0.8)
    size_limit_mb: float = size_limit_setting()

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
    chooses_source: ClassVar[bool] = True

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

    def begin(self, given: Inputs) -> _Run:
        """Return a run whose candidates are the workload's downward closure, for each table."""
        return _Run(self, given)

    @classmethod
    def sensitivities(
        cls, transcript: Transcript, domain: Domain, workload: Workload, neighbours: Neighbours
    ) -> Iterable[float]:
        """Return the required sensitivity of each selection: the score's, in every round."""
        return repeat(neighbours.jam_score)


@dataclass(frozen=True)
class Candidate:
    """A marginal and the number of the public table to measure it on; None: the private one."""

    clique: Clique
    table: int | None = None

    @property
    def source(self) -> Origin:
        """Whether the measurement is private (noisy, charged) or public (biased, free)."""
        return "private" if self.table is None else "public"


class _Run(GraphicalRun):
    """The run of JAM-PGM, with the public tables and their distance from the private one."""

    def __init__(self, mechanism: JamPgm, given: Inputs) -> None:
        public = PublicTables.of(given.domain, public_of(mechanism, given.public))
        super().__init__(mechanism, given, given.workload.downward_closure())
        self.mechanism = mechanism
        self.tables = list(public.tables.items())
        self.public_error = np.full((len(self.tables), len(self.closure)), np.nan)
        with self.stage("count"):
            for (name, table), error in zip(self.tables, self.public_error, strict=True):
                answered = [clique for clique in self.closure if name in public.answering(clique)]
                scale = self.records / table.records
                for others in marginal_blocks(table, answered):
                    held = self.counts or self.private.marginals(others)
                    for clique, values in others.items():
                        error[self.number[clique]] = l1_distance(held[clique], values * scale)

    def size_limit_mb(self, index: int) -> float:
        """Return this round's size limit, in proportion to the spent budget.

        In the first round, before any charge, it is an even share of the limit.
        """
        whole = self.mechanism.size_limit_mb
        if index == 0:
            return whole / self.mechanism.rounds
        return whole * self.spent / self.draws.total

    def candidate(self, fitting: Sequence[int], place: int) -> Candidate:
        """Return one of the fitting marginals times the tables that have their attributes.

        Those of the private table come first, then those of each public table, in the order of
        `candidate_scores`.
        """
        if place < len(fitting):
            return Candidate(self.closure[fitting[place]])
        tables, places = np.nonzero(~np.isnan(self.public_error[:, fitting]))
        place -= len(fitting)
        return Candidate(self.closure[fitting[places[place]]], int(tables[place]))

    def round(self, index: int) -> Round:
        """Take round t of Algorithm 2.

        - C_t: the candidates that keep the model tractable
        - rho_t = (rho - rho_used) / (T - t), of which 1 - alpha selects and alpha measures
        - sigma_t^2 = 1 / rho_measure
        - select tau_t, i_t from C_t by the exponential mechanism with Score(tau, i; sigma_t^2)
        - measure y_t on the private table, or take it from a public one, whose price is left over
        - estimate the model by Private-PGM
        """
        limit = self.size_limit_mb(index)
        fitting = self.fitting(limit)
        if not fitting:
            raise RunEndedError("no candidate fits")

        share = self.share()
        rho_select = (1 - self.mechanism.alpha) * share
        rho_measure = share - rho_select
        sigma = self.sigma(rho_measure)

        scores = candidate_scores(
            self.errors(fitting), self.public_error[:, fitting], self.cells[fitting], sigma
        )
        place = self.select(
            scores,
            rho_select,
            self.draws.neighbours.jam_score,
            lambda place: self.subject(self.candidate(fitting, place)),
        )
        chosen = self.candidate(fitting, place)

        if chosen.table is None:
            measurement = self.measure(chosen.clique, rho_measure)
        else:
            measurement, rho_measure = self.look_up(index, chosen), 0.0

        return self.finish(
            chosen.clique,
            measurement,
            source=chosen.source,
            candidates=len(fitting),
            rho_select=rho_select,
            rho_measure=rho_measure,
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
