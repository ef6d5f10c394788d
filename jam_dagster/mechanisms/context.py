"""The steps of a mechanism in a run: draws, and computations on their outcomes and on public data.

A mechanism is written once, as a function of a `Context`. `Live` makes the draws and hands out
those that are stored; `jam_dagster.mechanisms.replay.Replay` has no private table, compares every
draw with a transcript, and hands out what it records. So the same code runs, resumes, is verified
and is refitted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np

from jam_dagster.mechanisms.loops.making import Making, Stages
from jam_dagster.mechanisms.loops.scores import l1_distance
from jam_dagster.mechanisms.loops.transcript import Round, subject_of
from jam_dagster.models.graphical.estimator import Convergence
from jam_dagster.models.measurement import Measurement
from jam_dagster.privacy.accounting import gaussian_sigma
from jam_dagster.privacy.noise.calls import COUNTS, INTEGERS, SELECTION, DrawKind, NoiseCall
from jam_dagster.tables import (
    Clique,
    Domain,
    MarginalSource,
    PublicTables,
    Workload,
    marginal_blocks,
)

if TYPE_CHECKING:
    from jam_dagster.models.base import Model
    from jam_dagster.privacy import Neighbours

SMALLEST_RHO = 1e-12
"""The least rho of a draw: below it the noise hides everything, and ledger units matter."""

Choice = TypeVar("Choice")
OnRound = Callable[[Round], None]
IndexOf = Callable[[str], int | None]


class Fit(Protocol):
    """A model that is fitted to a further measurement, from where the last fit ended."""

    def add(self, measurement: Measurement) -> Convergence | None:
        """Add a measurement, and refit."""
        ...


class Programs(Protocol):
    """Searches for records whose answers depend on the solver, each a row of what they find."""

    @property
    def slack(self) -> float:
        """Most by which a record may be worth less than another solver's."""
        ...

    def solve(self) -> np.ndarray:
        """Return records, shape ``(programs, attributes)``."""
        ...

    def worth(self, records: np.ndarray) -> np.ndarray:
        """Return how good records are, the higher, the better, shape ``(programs,)``."""
        ...


class Problem(Protocol):
    """A problem of outcomes alone, whose solution depends on the processor."""

    def solve(self) -> np.ndarray:
        """Return a solution, int64."""
        ...

    def fault(self, found: np.ndarray) -> str:
        """Return the fault of a solution, without solving; empty if it has none."""
        ...


class Selection(NamedTuple):
    """The basis of a choice of marginals: scores ``w_r (||q_r(D) - q_r(model)||_1 - p_r)``.

    Weights and penalties have shape ``(m,)``; penalties are in counts.
    """

    cliques: Sequence[Clique]
    weights: np.ndarray
    penalties: np.ndarray
    model: Model


class Context(ABC):
    """The draws of a run, in their order, and the rounds that they make.

    Parameters
    ----------
    domain, workload, public
        The inputs of the run apart from the private table.
    neighbours
        The neighbouring relation that the run protects.
    total
        The rho of the run.

    Attributes
    ----------
    done, decisions, noisy, solutions
        The rounds, the decisions, the noisy values and the records of solvers so far.
    on_round, on_selection
        Called after each round, and before each choice by the error of a graphical model; a lost
        choice is followed by another of the round.
    ended
        Why the run ended before its last round; empty while it continues. No draw is made then:
        each returns None, as a lost one does.
    """

    def __init__(
        self,
        domain: Domain,
        workload: Workload,
        public: MarginalSource | None,
        neighbours: Neighbours,
        total: float,
    ) -> None:
        self.domain, self.workload, self.public = domain, workload, public
        self.neighbours, self.total = neighbours, total
        self.ended = ""
        self.done: list[Round] = []
        self.decisions: list[bool] = []
        self.noisy: dict[str, np.ndarray] = {}
        self.solutions: dict[str, np.ndarray] = {}
        self.model: Callable[[], Model] | None = None
        self.on_round: OnRound | None = None
        self.on_selection: Callable[[Selection], None] | None = None
        self.stages = Stages("count", "filter", "answer", "select", "measure", "fit")
        self.stage = self.stages.stage
        self.making: Making | None = None

    @cached_property
    def records(self) -> int:
        """n, exact where it is public; else the first draw of the run measures it."""
        return self._count_records()

    @property
    def round(self) -> Making:
        """The round that the run is at."""
        if self.making is None:
            raise AssertionError("draws are made in rounds")
        return self.making

    @property
    @abstractmethod
    def spent(self) -> float:
        """The rho of all draws so far, lost ones included."""

    @property
    @abstractmethod
    def remaining(self) -> float:
        """The rho left for further draws, rounded so that charging all of it always fits."""

    @abstractmethod
    def counts(self, cliques: Sequence[Clique]) -> Iterator[Mapping[Clique, np.ndarray]]:
        """Yield private marginals, block by block; only the input of a draw may be made of them."""

    @abstractmethod
    def hold(self, cliques: Sequence[Clique]) -> None:
        """State the private marginals that draws may ask for, before the first of them."""

    @abstractmethod
    def _count_records(self) -> int:
        """Return the number of private records."""

    @abstractmethod
    def _select(
        self,
        call: NoiseCall,
        scores: Callable[[], np.ndarray],
        named: Callable[[int], str],
        index_of: IndexOf | None,
        distinct: bool,
    ) -> list[int] | None:
        """Return the chosen indices; None for a lost draw or an ended run."""

    @abstractmethod
    def _solve(self, step: str, programs: Programs) -> np.ndarray:
        """Return the records that a solver found."""

    @abstractmethod
    def _settle(self, step: str, problem: Problem) -> np.ndarray:
        """Return the solution of a problem."""

    @abstractmethod
    def _measure(self, call: NoiseCall, clique: Clique) -> tuple[np.ndarray, float] | None:
        """Return noisy counts and sigma; None for a lost draw or an ended run."""

    @abstractmethod
    def _values(
        self, call: NoiseCall, compute: Callable[[], np.ndarray]
    ) -> tuple[np.ndarray, float] | None:
        """Return noisy values and sigma; None for a lost draw or an ended run."""

    def rounds(self, most: int | None = None, *, again: bool = True) -> Iterator[int]:
        """Yield the number of each round, from 0, until all are made or the run ends.

        A round ends with its measurement, be it lost. One whose choice was lost begins `again`: the
        lost draw stays spent, and the round pays with the rest. If rounds measure nothing, it does
        not.
        """
        _ = self.records
        for index in count() if most is None else range(most):
            self.making = making = Making(index, self.remaining, self.spent)
            while making.clique is None and not self.has_ended():
                before = sum(making.draws.values())
                yield index
                if not self.has_ended() and sum(making.draws.values()) == before:
                    raise AssertionError(f"round {index + 1} made no draw")
                if not again:
                    break
            self.close_round()
            if self.has_ended():
                return

    def has_ended(self) -> bool:
        """Whether the run makes no further draw."""
        return bool(self.ended)

    def end(self, why: str) -> None:
        """End the run: it makes no further draw."""
        self.ended = self.ended or why

    def share(self, parts: float) -> float:
        """Return an equal share of what is left, or end the run if it is too little for a draw."""
        return self.affordable(self.remaining / parts)

    def affordable(self, rho: float, least: float = SMALLEST_RHO) -> float:
        """Return a price, or end the run if it is too little for a draw."""
        if rho < least:
            self.end("budget exhausted")
        return rho

    def sigma(self, rho: float) -> float:
        """Return the noise of a marginal's measurement at that price, in counts."""
        return gaussian_sigma(self.neighbours.marginal_l2, rho)

    def answered(
        self, model: Model, cliques: Sequence[Clique]
    ) -> Iterator[tuple[Clique, np.ndarray, np.ndarray]]:
        """Yield each marginal with private counts and a model's answer, in bounded memory."""
        with self.stage("answer"):
            for block in self.counts(cliques):
                for answers in marginal_blocks(model, block):
                    for clique, answer in answers.items():
                        yield clique, block[clique], answer

    def errors(self, model: Model, cliques: Sequence[Clique]) -> np.ndarray:
        """Return ``||q(D) - q(model)||_1`` of marginals, in counts, shape ``(m,)``."""
        errors = {
            clique: l1_distance(counts, answer)
            for clique, counts, answer in self.answered(model, cliques)
        }
        return np.array([errors[clique] for clique in cliques])

    def select(
        self,
        candidates: Sequence[Choice],
        scores: Callable[[], np.ndarray],
        *,
        rho: float,
        sensitivity: float,
        named: Callable[[Any], str] = subject_of,
    ) -> Choice | None:
        """Choose one of some candidates by the exponential mechanism.

        Parameters
        ----------
        candidates
            What can be chosen: marginals, unless `named` names others.
        scores
            Returns the scores, shape ``(m,)``, the higher, the likelier. It alone may look at
            private data.
        rho
            What the choice may cost.
        sensitivity
            How far one person moves any score.
        named
            Returns the name of a candidate, which the ledger's digest covers.

        Returns
        -------
        The candidate; None for a lost draw or an ended run.
        """
        chosen = self.select_many(
            *(candidates, scores),
            choices=1,
            rho=rho,
            sensitivity=sensitivity,
            named=named,
        )
        return chosen[0] if chosen else None

    def select_many(
        self,
        candidates: Sequence[Choice],
        scores: Callable[[], np.ndarray],
        *,
        choices: int,
        rho: float,
        sensitivity: float,
        named: Callable[[Any], str] = subject_of,
        index_of: IndexOf | None = None,
        distinct: bool = False,
    ) -> list[Choice]:
        """Choose several candidates from the same scores in one draw.

        They are independent, and may be the same; if they are to be `distinct`, each is chosen
        among those that are left. Each costs an equal part of `rho`; there are none for a lost draw
        or an ended run. If candidates are many, `index_of` returns the index of a name among them,
        or None, so that a replay looks for no name.
        """
        if self.has_ended():
            return []
        self.round.rho_select = rho
        self.round.candidates = self.round.candidates or len(candidates)
        step, size = self.round.step("select"), len(candidates)
        call = NoiseCall(step, SELECTION, rho, sensitivity, None, size, choices=choices)
        indices = self._select(call, scores, lambda at: named(candidates[at]), index_of, distinct)
        return [candidates[index] for index in indices or []]

    def solve(self, name: str, programs: Programs) -> np.ndarray | None:
        """Return the records that a solver finds from outcomes, and record them in the transcript.

        Another version of the solver may find others, so a resumed run and a replay take those that
        were found; see `Replay`.

        Returns
        -------
        Records, shape ``(programs, attributes)``; None once the run has ended.
        """
        if self.has_ended():
            return None
        step = self.round.step(name)
        with self.stage("fit"):
            self.solutions[step] = self._solve(step, programs)
        return self.solutions[step]

    def settle(self, step: str, problem: Problem) -> np.ndarray:
        """Return the solution of a problem that follows from outcomes, and record it.

        A resumed run and a replay take the one that was found, if it has no fault. It belongs to no
        round, and costs nothing.
        """
        with self.stage("fit"):
            self.solutions[step] = self._settle(step, problem)
        return self.solutions[step]

    def values(
        self,
        name: str,
        compute: Callable[[], np.ndarray],
        *,
        size: int,
        rho: float,
        sensitivity: float,
        integers: bool = False,
    ) -> np.ndarray | None:
        """Release statistics with Gaussian noise.

        Parameters
        ----------
        name
            What they are: the draw's name, and within a round the second part of it.
        compute
            Returns them, shape ``(size,)``. It alone may look at private data.
        size
            How many there are.
        rho
            What all of them may cost together.
        sensitivity
            How far one person moves them, in L2.
        integers
            Whether they are whole numbers, of dtype int64. Their noise is discrete, and takes a
            fifth of the time.

        Returns
        -------
        The noisy values; None for a lost draw or an ended run.
        """
        _ = self.records
        if self.has_ended():
            return None
        step = name if self.making is None else self.making.step(name)
        rho = min(rho, self.remaining)
        kind: DrawKind = INTEGERS if integers else "Gaussian"
        call = NoiseCall(step, kind, rho, sensitivity, None, size, subject=name)
        drawn = self._values(call, compute)
        if drawn is None:
            return None
        self.noisy[step] = drawn[0]
        return drawn[0]

    def measure(self, clique: Clique, rho: float, *, among: int = 0) -> Measurement | None:
        """Measure a private marginal with discrete Gaussian noise, which ends the round.

        Parameters
        ----------
        clique
            Its attributes.
        rho
            What it may cost. The charge of the choice was rounded up, so the last measurement may
            get a unit less.
        among
            The number of candidates, where no choice was made.

        Returns
        -------
        The measurement; None for a lost draw or an ended run.
        """
        if self.has_ended():
            return None
        making = self.round
        step = making.step("measure")
        call = NoiseCall(
            *(step, COUNTS, min(rho, self.remaining), self.neighbours.marginal_l2),
            *(None, self.domain.size(clique)),
            subject=subject_of(clique),
        )
        drawn = self._measure(call, clique)
        if self.has_ended():
            return None
        making.clique, making.rho_measure = clique, rho
        making.candidates = among or making.candidates
        if drawn is not None:
            making.measurement = Measurement(clique, "private", *drawn, making.index, step)
        return making.measurement

    def decide(self, holds: bool) -> bool:
        """Return whether something holds that depends on a fit, and record it.

        A fit differs in its last digits on another processor, so a resumed run and a replay follow
        what was decided.
        """
        self.decisions.append(bool(holds))
        return self.decisions[-1]

    def fit(self, fit: Fit, measured: Measurement | None) -> None:
        """Refit a model to a further measurement, unless it was lost."""
        if measured is not None:
            with self.stage("fit"):
                # A model that keeps its measurements has nothing to converge.
                self.round.convergence = fit.add(measured) or Convergence(0, 0.0)

    def take(self, clique: Clique, table: str) -> Measurement | None:
        """Take a marginal from a public table for free, scaled to n records; it ends the round.

        Returns
        -------
        The measurement; None once the run has ended.
        """
        if self.has_ended():
            return None
        making = self.round
        making.clique, making.source, making.table = clique, "public", table
        step = making.step("take")
        values = self._taken(step, clique, table)
        making.measurement = Measurement(clique, "public", values, 0.0, making.index, step)
        return making.measurement

    @cached_property
    def _tables(self) -> Mapping[str, MarginalSource]:
        if self.public is None:
            raise AssertionError("a mechanism that uses no public table asks for one")
        return PublicTables.of(self.domain, self.public).tables

    @property
    def tables(self) -> Mapping[str, Sequence[str]]:
        """The names of the public tables, each with its attributes."""
        return {name: table.domain.names for name, table in self._tables.items()}

    def public_counts(
        self, cliques: Sequence[Clique], name: str
    ) -> Iterator[Mapping[Clique, np.ndarray]]:
        """Yield marginals of a public table, scaled to n records, block by block."""
        table = self._tables[name]
        scale = self.records / table.records
        for block in marginal_blocks(table, cliques):
            yield {clique: values * scale for clique, values in block.items()}

    def public_errors(self, name: str, cliques: Sequence[Clique]) -> dict[Clique, float]:
        """Return ``||q(D) - q(D_pub) n / n_pub||_1`` of marginals for a public table, in counts."""
        return {
            clique: l1_distance(counts, block[clique])
            for block in self.public_counts(cliques, name)
            for held in self.counts(list(block))
            for clique, counts in held.items()
        }

    def _taken(self, step: str, clique: Clique, name: str) -> np.ndarray:
        """Return a marginal of a public table, scaled to n records."""
        (block,) = self.public_counts([clique], name)
        return block[clique]

    def close_round(self) -> None:
        """Keep the round that has just been made, if it was."""
        making, self.making = self.making, None
        if making is None or making.clique is None or self.model is None:
            return
        done = making.closed(making.clique, self.model(), self.spent, self.records)
        self.done.append(done)
        if self.on_round is not None:
            self.on_round(done)
