"""Training a mixture of products on measured marginals, by GEM's update (Algorithm 4).

GEM^Pub first trains on marginals of public tables.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jam_dagster.models.graphical.estimator import Convergence
from jam_dagster.models.graphical.kernels import one_thread
from jam_dagster.models.measurement import MEAN_ABSOLUTE_NORMAL, Measurement
from jam_dagster.models.mixture.adam_step import Weights, programs
from jam_dagster.models.mixture.answers import (
    expected,
    expected_cells,
    pulled_back,
    pulled_back_cells,
)
from jam_dagster.tables import Clique, Domain, PublicTables, Workload, marginal_blocks

_ROUNDING = 1e-10
"""Rounding error of single precision: no smaller error counts."""

_MOMENTS: Mapping[str, tuple[float, float]] = {
    "l1": (MEAN_ABSOLUTE_NORMAL, math.sqrt(1 - MEAN_ABSOLUTE_NORMAL**2)),
    "l2": (1.0, math.sqrt(2.0)),
}
"""Mean and standard deviation of |z| and of z^2, z standard normal."""

PUBLIC_CELLS = 2**25
"""128 MiB of fractions: of more public marginals than have so many cells, some are left out."""

BATCH = 16
"""Marginals a step."""

EPOCH = 50
"""Steps between two looks at the loss."""

SLOWEST = 1 / 8
"""Smallest part of the learning rate: training ends if a halving goes below it."""


@dataclass(frozen=True, eq=False)
class Target:
    """A marginal that the mixture is to answer.

    Values and sigma are fractions of the records.
    """

    clique: Clique
    values: np.ndarray
    sigma: float

    def explained(self, loss: str, deviations: float) -> float:
        """Return the error that noise alone explains: its mean and so many standard deviations.

        A marginal sums to 1, so its noise is free in all cells but one.
        """
        mean, deviation = _MOMENTS[loss]
        scale = self.sigma**2 if loss == "l2" else self.sigma
        free = self.values.size - 1
        return scale * (mean * free + deviations * deviation * math.sqrt(free))

    @classmethod
    def measured(cls, measurement: Measurement, records: int) -> Target:
        """Return what a measurement asks for.

        The noise in a marginal's sum is known, for the sum is: it is taken out of all cells alike.
        """
        values = measurement.values / records
        values = values + (1 - values.sum()) / values.size
        return cls(measurement.clique, values.astype(np.float32), measurement.sigma / records)


@dataclass(frozen=True, eq=False)
class CellTarget:
    """Single cells that the mixture is to answer, all of marginals of as many attributes.

    They are trained to the end, whatever their noise. `columns` are those of each cell's values
    among those of all attributes, shape ``(m, degree)``; `values` are fractions of the records,
    ``(m,)``.
    """

    columns: np.ndarray
    values: np.ndarray

    def explained(self, loss: str, deviations: float) -> float:
        """Return 0."""
        return 0.0


class MixtureTrainer:
    """Weights, the probabilities they stand for, and their training.

    The network runs in JAX; the marginals and the gradient by the probabilities are NumPy's, on one
    thread, so that shapes and numbers of threads do not matter. All is in single precision.
    """

    def __init__(self, domain: Domain, weights: Weights, loss: str) -> None:
        self.domain = domain
        self.loss = loss
        self.weights = weights
        self._programs = programs()
        ends = np.cumsum(domain.shape)
        self._spans = [
            slice(int(end) - size, int(end)) for end, size in zip(ends, domain.shape, strict=True)
        ]
        self._side_by_side = self.probabilities(weights)

    def probabilities(self, weights: Weights) -> np.ndarray:
        """Return the probabilities of all attributes side by side, shape ``(K, cells)``."""
        return np.asarray(self._programs.probabilities(weights, self.domain.shape))

    def tables(self, weights: Weights | None = None) -> tuple[np.ndarray, ...]:
        """Return each attribute's probabilities, float64, rows summing to 1."""
        joined = self._side_by_side if weights is None else self.probabilities(weights)
        parts = (joined[:, span].astype(np.float64) for span in self._spans)
        return tuple(part / part.sum(axis=1, keepdims=True) for part in parts)

    def average(self, held: Weights, keep: float) -> Weights:
        """Return ``keep held + (1 - keep) weights``, of the weights that training has come to."""
        averaged: Weights = self._programs.average(held, self.weights, np.float32(keep))
        return averaged

    def train(
        self,
        targets: Sequence[Target | CellTarget],
        *,
        iterations: int,
        learning_rate: float,
        threshold: float = 0.0,
    ) -> Convergence:
        """Lower the loss over targets by Adam, its rate falling to zero along a cosine."""
        state = self.begin()
        for done in range(iterations):
            loss, gradient = self.gradient(targets, threshold)
            if loss == 0.0:
                return Convergence(done, self.squares(targets) / 2)
            rate = learning_rate * (1 + math.cos(math.pi * done / iterations)) / 2
            state = self.step(state, gradient, rate)
        return Convergence(iterations, self.squares(targets) / 2)

    def begin(self) -> Any:
        """Return the state of Adam before its first step."""
        return self._programs.begin(self.weights)

    def step(self, state: Any, gradient: np.ndarray, rate: float) -> Any:
        """Move the weights by one step of Adam, given `gradient`; return Adam's state.

        A step after which single precision has no probabilities is not taken.
        """
        weights, moved, side_by_side = self._programs.advance(
            self.weights, state, gradient, np.float32(rate), self.domain.shape
        )
        probabilities = np.asarray(side_by_side)
        if not np.isfinite(probabilities).all():
            return state
        self.weights, self._side_by_side = weights, probabilities
        return moved

    def gradient(
        self, targets: Sequence[Target | CellTarget], threshold: float = 0.0
    ) -> tuple[float, np.ndarray]:
        """Return the loss over targets above the threshold, and its gradient."""
        total = 0.0
        gradient = np.zeros_like(self._side_by_side)
        with one_thread():
            for target in targets:
                error = self._error(target)
                size = float(np.vdot(error, error) if self.loss == "l2" else np.abs(error).sum())
                if size > max(target.explained(self.loss, threshold), _ROUNDING):
                    total += size
                    self._pull(target, 2 * error if self.loss == "l2" else np.sign(error), gradient)
        return total, gradient

    def squares(self, targets: Sequence[Target | CellTarget]) -> float:
        """Return the sum of squared errors of targets."""
        with one_thread(), np.errstate(over="ignore"):
            squares = float(sum(np.vdot(error, error) for error in map(self._error, targets)))
            if math.isfinite(squares):
                return squares
            # Single precision ends at 3e38, which the square of a count of 2^64 passes.
            errors = (self._error(target).astype(np.float64) for target in targets)
            return float(sum(np.vdot(error, error) for error in errors))

    def answer(self, clique: Clique) -> np.ndarray:
        """Return a marginal of the rows, as fractions in single precision."""
        return expected([self._side_by_side[:, span] for span in self._at(clique)])

    def _error(self, target: Target | CellTarget) -> np.ndarray:
        """Return answer less target, of the target's shape, single precision."""
        if isinstance(target, CellTarget):
            answer = expected_cells(self._side_by_side, target.columns)
        else:
            answer = self.answer(target.clique)
        error: np.ndarray = answer - target.values
        return error

    def _pull(
        self, target: Target | CellTarget, direction: np.ndarray, gradient: np.ndarray
    ) -> None:
        """Add what `direction`, the gradient by the answer, comes to by the probabilities."""
        if isinstance(target, CellTarget):
            gradient += pulled_back_cells(self._side_by_side, target.columns, direction)
            return
        spans = self._at(target.clique)
        parts = pulled_back([self._side_by_side[:, span] for span in spans], direction)
        for span, part in zip(spans, parts, strict=True):
            gradient[:, span] += part

    def _at(self, clique: Clique) -> list[slice]:
        return [self._spans[self.domain.positions[name]] for name in clique]


def public_cliques(public: PublicTables, degree: int) -> dict[str, list[Clique]]:
    """Return the marginals that are trained on: all of so many attributes that a table has.

    They follow from the domains, so that a transcript is enough to train again. If they have more
    than `PUBLIC_CELLS` cells, the largest are left out.
    """
    source: dict[Clique, str] = {}
    for name, table in public.tables.items():
        shared = public.domain.project(table.domain.names)
        for clique in Workload.all_k_way(shared, min(degree, len(shared.names))).cliques:
            source.setdefault(clique, name)
    kept: set[Clique] = set()
    held = 0
    for clique in sorted(source, key=public.domain.size):
        held += public.domain.size(clique)
        if held > PUBLIC_CELLS and kept:
            break
        kept.add(clique)
    return {
        name: [clique for clique, where in source.items() if where == name and clique in kept]
        for name in public.tables
    }


def pretrain(
    trainer: MixtureTrainer,
    public: PublicTables,
    *,
    degree: int,
    iterations: int,
    learning_rate: float,
    tolerance: float,
    seed: int,
) -> int:
    """Train on the marginals of public tables until that brings no more."""
    targets = []
    for name, cliques in public_cliques(public, degree).items():
        table = public.tables[name]
        for block in marginal_blocks(table, cliques):
            for clique, counts in block.items():
                targets.append(Target(clique, (counts / table.records).astype(np.float32), 0.0))
    rng = np.random.default_rng(seed)
    state, rate, best = trainer.begin(), learning_rate, np.inf
    for first in range(0, iterations, EPOCH):
        steps = min(EPOCH, iterations - first)
        lost = 0.0
        for _ in range(steps):
            drawn = rng.choice(len(targets), size=min(BATCH, len(targets)), replace=False)
            loss, gradient = trainer.gradient([targets[number] for number in drawn])
            state = trainer.step(state, gradient, rate)
            lost += loss / steps
        if lost > best * (1 - tolerance):
            rate /= 2
            if rate < learning_rate * SLOWEST:
                return first + steps
        best = min(best, lost)
    return iterations
