"""Private-PGM: fit a graphical model to measurements. The one module that imports mbi (and jax)."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from jam_dagster.models.graphical.estimator import Convergence, Weighting, weight_of
from jam_dagster.models.graphical.model import FittedModel
from jam_dagster.models.measurement import Measurement
from jam_dagster.models.mixture.jax_runtime import load_jax
from jam_dagster.tables import Clique, Domain


def load_mbi() -> ModuleType:
    """Import mbi with jax in double precision, regardless of who imported jax first."""
    # Single precision makes the estimation stall for tables of more than 100,000 records.
    load_jax()
    return importlib.import_module("mbi")


class PrivatePgm:
    """Private-PGM's mirror descent, in its own package; see `make_estimator`.

    Iterations are rounded up to a multiple of 50. Impossible combinations are fixed zeros of the
    model.
    """

    def __init__(
        self, domain: Domain, total: float, *, iterations: int, weighting: Weighting = "alike"
    ) -> None:
        self.iterations = iterations
        self._weighting = weighting
        self._measurements: list[Measurement] = []
        self._model = FittedModel.uniform(domain, total)

    @property
    def model(self) -> FittedModel:
        """The model of all measurements so far."""
        return self._model

    def add(self, measurement: Measurement) -> Convergence:
        """Add a measurement, with the weight that the estimator gives it, and refit."""
        self._measurements.append(measurement)
        weights = None
        if self._weighting == "noise":
            sigma = self._measurements[0].sigma
            weights = [weight_of(one, sigma) for one in self._measurements]
        self._model = estimate(
            self._model.domain,
            self._measurements,
            self._model.total,
            iterations=self.iterations,
            warm_start=self._model,
            weights=weights,
        )
        squares = 0.0
        for number, measured in enumerate(self._measurements):
            residual = self._model.marginal(measured.clique) - measured.values
            weight = 1.0 if weights is None else weights[number]
            squares += weight * float(np.vdot(residual, residual))
        return Convergence(self.iterations, squares / (2 * self._model.total**2))


def estimate(
    domain: Domain,
    measurements: Sequence[Measurement],
    total: float,
    *,
    iterations: int,
    warm_start: FittedModel | None = None,
    weights: Sequence[float] | None = None,
) -> FittedModel:
    """Fit the maximum-entropy model with marginals closest to the measurements.

    mbi orders messages by sets of cliques. Attributes go to it as integers, as their hashes are the
    same in every process; with names the result would depend on the hash seed.
    """
    if not measurements:
        return FittedModel.uniform(domain, total)
    mbi = load_mbi()
    position = {name: i for i, name in enumerate(domain.names)}
    integer_domain = mbi.Domain(range(len(domain.shape)), domain.shape)

    def numbers(clique: Clique) -> tuple[int, ...]:
        return tuple(position[name] for name in clique)

    linear = [
        mbi.LinearMeasurement(
            np.asarray(m.values, dtype=np.float64).ravel(),
            numbers(m.clique),
            stddev=1.0 if weights is None else weights[number] ** -0.5,
        )
        for number, m in enumerate(measurements)
    ]
    constraints = [
        mbi.Constraint(integer_domain.project(numbers(clique)), invalid=np.argwhere(impossible))
        for clique, impossible in domain.impossible_masks().items()
    ]
    start = None
    if warm_start is not None and warm_start.potentials:
        tables = {
            numbers(clique): mbi.Factor(integer_domain.project(numbers(clique)), table)
            for clique, table in warm_start.potentials.items()
        }
        start = mbi.CliqueVector(integer_domain, list(tables), tables)
    fitted = mbi.estimation.MirrorDescent().estimate(
        integer_domain,
        linear,
        known_total=float(total),
        constraints=constraints,
        iters=iterations,
        warm_start=start,
    )
    potentials = {
        tuple(domain.names[i] for i in clique): np.array(fitted.potentials[clique].values)
        for clique in fitted.potentials.cliques
    }
    return FittedModel(domain, float(total), potentials)


def to_markov_random_field(model: FittedModel) -> Any:
    """Return a fitted model as Private-PGM's own."""
    mbi = load_mbi()
    potentials = {clique: np.asarray(table) for clique, table in model.potentials.items()}
    for clique, impossible in model.domain.impossible_masks().items():
        here = potentials.get(clique, np.zeros(impossible.shape))
        potentials[clique] = np.where(impossible, -np.inf, here)
    mentioned = {name for clique in potentials for name in clique}
    for name in model.domain.names:
        if name not in mentioned:
            potentials[name,] = np.zeros(model.domain.sizes[name])

    labels = [attribute.labels for attribute in model.domain.attributes]
    domain = mbi.Domain(model.domain.names, model.domain.shape, labels)

    def vector(tables: dict[Clique, np.ndarray]) -> Any:
        factors = {q: mbi.Factor(domain.project(q), table) for q, table in tables.items()}
        return mbi.CliqueVector(domain, list(factors), factors)

    constraints = [
        mbi.Constraint(domain.project(clique), invalid=np.argwhere(np.isneginf(table)))
        for clique, table in potentials.items()
        if np.isneginf(table).any()
    ]
    return mbi.MarkovRandomField(
        potentials=vector(potentials),
        marginals=vector(model.marginals(potentials)),
        total=model.total,
        constraints=tuple(constraints),
    )
