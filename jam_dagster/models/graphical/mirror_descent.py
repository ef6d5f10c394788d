"""Fits of the graphical model to measurements: Private-PGM's problem, by mirror descent.

McKenna, Sheldon, Miklau 2019: "Graphical-model based estimation and inference for differential
privacy", Algorithm 1. The model of maximum entropy that minimizes

    L(mu) = sum_i ||mu_i - y_i||_2^2 / 2

has log potentials on the measured cliques only; mirror descent moves them against the gradient of
L in the marginals mu.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jam_dagster.models.graphical.answers import Calibrated
from jam_dagster.models.graphical.belief_propagation import Beliefs
from jam_dagster.models.graphical.dense import ascending
from jam_dagster.models.graphical.estimator import WINDOW, Convergence, Weighting, weight_of
from jam_dagster.models.graphical.junction_tree import JunctionTree, cells_of, mask_of, maximal
from jam_dagster.models.graphical.kernels import Table, one_thread
from jam_dagster.models.graphical.model import FittedModel
from jam_dagster.models.measurement import Measurement
from jam_dagster.tables import Domain

MEMORY = 10
"""A step may not rise above the largest loss of this many before it: Barzilai-Borwein steps are
short of monotone, and forcing them to be costs most of their speed."""

FLOOR = 1e-6
"""The least expected records of a cell after one step: practically zero, but close enough that
later steps of the fit can raise the cell again."""

RESIDUAL = 0.01
"""A fit ends when the L2 norm of all its residuals is this fraction of a record."""

LONGEST_STEP = 30.0
"""Largest change of a log potential in one step."""

LONGEST_STEPS = 300.0
"""Largest sum of the changes of all factors, so that their effect on a cell is reversible."""


class MirrorDescent:
    """Mirror descent on beliefs that stay calibrated from step to step and from fit to fit."""

    def __init__(
        self,
        domain: Domain,
        total: float,
        *,
        iterations: int,
        tolerance: float,
        weighting: Weighting = "alike",
    ) -> None:
        self.domain = domain
        self.total = float(total)
        self.iterations = iterations
        self.tolerance = tolerance
        self._position = {name: i for i, name in enumerate(domain.names)}
        self._impossible = [self._mask(clique) for clique in domain.impossible_masks()]
        self._weighting = weighting
        self._sigma = 0.0
        # For each measured clique, in the order of first measurement: the weight of all its
        # measurements, their weighted sum as fractions, and the weighted sum of their squares.
        self._measured: dict[int, tuple[float, Table, float]] = {}
        self._beliefs: Beliefs | None = None
        self._theta = np.empty(0)
        self._step_size = 0.0
        self._model = FittedModel.uniform(domain, total)

    @property
    def model(self) -> FittedModel:
        """The model of all measurements so far."""
        return self._model

    def _mask(self, clique: Sequence[str]) -> int:
        return mask_of(self._position[name] for name in clique)

    def add(self, measurement: Measurement) -> Convergence:
        """Add a measurement, with the weight that the estimator gives it, and refit."""
        with one_thread():
            return self._add(measurement)

    def _add(self, measurement: Measurement) -> Convergence:
        mask = self._mask(measurement.clique)
        fractions = np.asarray(measurement.values, dtype=np.float64) / self.total
        weight = 1.0
        if self._weighting == "noise":
            self._sigma = self._sigma or measurement.sigma
            weight = weight_of(measurement, self._sigma)
        before, summed, squares = self._measured.get(mask, (0.0, np.zeros(()), 0.0))
        self._measured[mask] = (
            before + weight,
            summed + weight * fractions,
            squares + weight * float(np.vdot(fractions, fractions)),
        )
        beliefs = self._on_tree(new_clique=before == 0.0)
        problem = self._problem(beliefs)
        shortest = 1.0 / self._smoothness()
        convergence, self._step_size = _barzilai_borwein(
            problem,
            self._theta,
            max(self._step_size, shortest),
            shortest=shortest,
            iterations=self.iterations,
            tolerance=self.tolerance,
            records=self.total,
        )
        self._model = self._fitted(beliefs)
        return convergence

    def _on_tree(self, *, new_clique: bool) -> Beliefs:
        """Return beliefs on a tree that holds every measured clique, those of the last model."""
        if not new_clique and self._beliefs is not None:
            return self._beliefs
        old = self._model.calibrated
        factors = list(self._measured)
        tree = JunctionTree.build(self.domain.shape, [*factors, *self._impossible])
        kept = dict(zip(old.tree.masks, old.beliefs, strict=True))
        # The last model's own marginals: the new clique's potential is still zero.
        tables = [kept[mask] if mask in kept else old.marginal(mask) for mask in tree.masks]
        old.forget()
        self._beliefs = Beliefs(tree, tables, factors)
        self._theta = np.concatenate(
            [self._theta, np.zeros(self._beliefs.cells[-1] - self._theta.size)]
        )
        return self._beliefs

    def _problem(self, beliefs: Beliefs) -> _Problem:
        targets, weights = np.empty_like(self._theta), np.empty_like(self._theta)
        constant = 0.0
        for number, (weight, summed, squares) in enumerate(self._measured.values()):
            target = beliefs.factor(targets, number)
            ascending(target.table, target.axes)[...] = summed / weight
            beliefs.factor(weights, number).table[...] = weight
            constant += (squares - float(np.vdot(summed, summed)) / weight) / 2
        return _Problem(beliefs, targets, weights, constant)

    def _smoothness(self) -> float:
        """Return the largest eigenvalue of the loss over tables of the maximal measured cliques.

        Each measurement of a marginal m inside a clique C adds |C| / |m| times its weight, at the
        uniform vector.
        """
        sizes = self.domain.shape
        largest = maximal(self._measured)
        sums = dict.fromkeys(largest, 0.0)
        for mask, (weight, _, _) in self._measured.items():
            homes = [clique for clique in largest if clique & mask == mask]
            home = min(homes, key=lambda clique: cells_of(clique, sizes))
            sums[home] += weight * cells_of(home, sizes) / cells_of(mask, sizes)
        return max(sums.values())

    def _fitted(self, beliefs: Beliefs) -> FittedModel:
        potentials = {}
        for number, axes in enumerate(beliefs.axes):
            clique = tuple(self.domain.names[position] for position in sorted(axes))
            table = beliefs.factor(self._theta, number).table
            potentials[clique] = ascending(table, axes).copy()
        last = self._model.calibrated
        routes = last.routes if last.tree == beliefs.tree else None
        calibrated = Calibrated(beliefs.tree, beliefs.beliefs, routes)
        return FittedModel.with_beliefs(self.domain, self.total, potentials, calibrated)


@dataclass(frozen=True, eq=False)
class _Problem:
    """The loss of marginals, in fractions of the records.

    `targets` and `weights` are the mean of each cell's measurements, and their weight. `constant`
    is the loss from differences between repeated measurements of a clique.
    """

    beliefs: Beliefs
    targets: Table
    weights: Table
    constant: float

    def loss(self, marginals: Table) -> float:
        residual = marginals - self.targets
        return float(np.dot(self.weights * residual, residual)) / 2 + self.constant

    def gradient(self, marginals: Table) -> Table:
        return self.weights * (marginals - self.targets)


def _barzilai_borwein(
    problem: _Problem,
    theta: Table,
    step_size: float,
    *,
    shortest: float,
    iterations: int,
    tolerance: float,
    records: float,
) -> tuple[Convergence, float]:
    """Descend with step sizes from the previous step's smoothness.

    The loss is smooth relative to the entropy: along the last step it behaved as if its smoothness
    were ``<d mu, d g> / <d theta, d mu>``, the quotient of the growth of loss and entropy. One
    over that is the next step's size (Barzilai and Borwein 1988, in the mirror map's geometry).
    """
    beliefs = problem.beliefs
    marginals = beliefs.marginals.copy()
    loss = best = problem.loss(marginals)
    best_theta = theta.copy()
    recent = deque([loss], maxlen=MEMORY)
    history = deque([loss], maxlen=WINDOW + 1)
    starts = beliefs.cells[:-1]
    lengths = np.diff(beliefs.cells)
    arrived = (RESIDUAL / records) ** 2 / 2
    floor = math.log(FLOOR / records)
    taken = 0
    while taken < iterations and best > arrived:
        direction = -problem.gradient(marginals)
        # Only differences between cells matter. Taken from the model's mean, they vanish where a
        # cell is as it should be, and a cell at zero that is below the mean is one.
        means = np.add.reduceat(marginals * direction, starts)
        direction -= np.repeat(means, lengths)
        with np.errstate(divide="ignore"):
            lowest = np.minimum(floor - np.log(marginals), 0.0)
        if not np.any(np.where(lowest < 0.0, direction, np.maximum(direction, 0.0))):
            break
        step_size = min(step_size, _longest(beliefs, direction))
        step = np.maximum(step_size * direction, lowest)
        trial = beliefs.update(step)
        taken += 1
        # A step of one over the smoothness never raises the loss, but for rounding.
        while (
            not (trial_loss := problem.loss(trial)) <= max(recent)
            and step_size > shortest
            and taken < iterations
        ):
            step_size *= 0.25
            trial = beliefs.update(-0.75 * step)
            step *= 0.25
            taken += 1
        theta += step
        moved = trial - marginals
        curvature = float(np.dot(problem.weights * moved, moved))
        growth = float(np.dot(step, moved))
        step_size = max(growth / curvature, shortest) if curvature > 0 else 2 * step_size
        marginals[:], loss = trial, trial_loss
        recent.append(loss)
        if loss < best:
            best = loss
            best_theta[:] = theta
        history.append(best)
        if len(history) > WINDOW and history[0] - best < tolerance * history[0]:
            break
    _move(beliefs, best_theta - theta)
    theta[:] = best_theta
    return Convergence(taken, best), step_size


def _longest(beliefs: Beliefs, direction: Table) -> float:
    """Return the longest step in a direction with a representable effect on each cell."""
    largest = np.maximum.reduceat(np.abs(direction), beliefs.cells[:-1])
    most, together = float(largest.max()), float(largest.sum())
    return min(LONGEST_STEP / most, LONGEST_STEPS / together) if most > 0.0 else math.inf


def _move(beliefs: Beliefs, change: Table) -> None:
    """Change the potentials by any amount, in steps that can be represented."""
    steps = max(1, math.ceil(1.0 / _longest(beliefs, change)))
    for _ in range(steps):
        beliefs.update(change / steps)
