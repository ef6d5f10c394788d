"""A graphical model within a run: candidates, errors, fits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from jam_dagster.mechanisms.context import Selection
from jam_dagster.mechanisms.loops.scores import error_scores
from jam_dagster.models.graphical.answers import Calibrated
from jam_dagster.models.graphical.fit import make_estimator
from jam_dagster.models.graphical.junction_tree import mask_of
from jam_dagster.models.graphical.kernels import distance, one_thread
from jam_dagster.models.graphical.model import FittedModel, possible_sizes
from jam_dagster.models.graphical.routes import NearRoutes
from jam_dagster.models.graphical.tractability import TractabilityFilter
from jam_dagster.models.measurement import Measurement
from jam_dagster.tables import Clique

if TYPE_CHECKING:
    from jam_dagster.mechanisms.context import Context
    from jam_dagster.mechanisms.loops.graphical import GraphicalMechanism


class GraphicalFit:
    """The model of a run's measurements, over the attributes of its candidates.

    Parameters
    ----------
    ctx
        The run.
    mechanism
        Has the settings of the fits.
    candidates
        The marginals that the run may measure.
    """

    def __init__(
        self, ctx: Context, mechanism: GraphicalMechanism, candidates: Sequence[Clique]
    ) -> None:
        self._ctx, self.candidates = ctx, list(candidates)
        ctx.hold(self.candidates)
        ctx.model = lambda: self.current
        # Noise in impossible cells does not reach the model.
        sizes = possible_sizes(ctx.domain, self.candidates)
        self._cells = dict(zip(self.candidates, sizes, strict=True))
        masks = (mask_of(ctx.domain.positions[name] for name in q) for q in self.candidates)
        self._mask_of = dict(zip(self.candidates, masks, strict=True))
        self._clique_of = {mask: clique for clique, mask in self._mask_of.items()}
        self._filter = TractabilityFilter(ctx.domain, self.candidates)
        self._measured: list[Clique] = []
        self._routes: NearRoutes | None = None
        self._estimator = make_estimator(
            mechanism.estimator,
            ctx.domain,
            ctx.records,
            iterations=mechanism.iterations,
            tolerance=mechanism.tolerance,
            weighting=mechanism.weighting,
        )

    @property
    def current(self) -> FittedModel:
        """The model of all measurements so far."""
        return self._estimator.model

    @property
    def model(self) -> FittedModel:
        """The model to release: beliefs are propagated from its potentials alone."""
        return self.current.recalibrated()

    def tractable(self, limit_mb: float) -> list[Clique]:
        """Return the candidates that keep the model within `limit_mb` megabytes."""
        with self._ctx.stage("filter"):
            numbers = self._filter.fitting(self._measured, limit_mb)
        self._ctx.round.size_limit_mb, self._ctx.round.candidates = limit_mb, len(numbers)
        return [self.candidates[number] for number in numbers]

    def cells(self, cliques: Sequence[Clique]) -> np.ndarray:
        """Return the number of possible cells of candidates, shape ``(m,)``."""
        return np.array([self._cells[clique] for clique in cliques])

    def errors(self, cliques: Sequence[Clique]) -> np.ndarray:
        """Return ``||q(D) - q(model)||_1`` of candidates, in counts, shape ``(m,)``."""
        errors: dict[Clique, float] = {}
        model, total = self.current, self._ctx.records
        if self._routes is None or self._routes.tree != model.tree:
            self._routes = NearRoutes(model.tree)
        calibrated = Calibrated(model.tree, model.calibrated.beliefs, self._routes)
        with self._ctx.stage("answer"), one_thread():
            for block in self._ctx.counts(cliques):
                wanted = [self._mask_of[clique] for clique in block]
                for mask, answer in calibrated.marginals(wanted, together=True):
                    clique = self._clique_of[mask]
                    errors[clique] = distance(block[clique], answer, total)
        return np.array([errors[clique] for clique in cliques])

    def select(
        self,
        candidates: Sequence[Clique],
        *,
        rho: float,
        penalty: float = 0.0,
        weights: Sequence[float] | None = None,
    ) -> Clique | None:
        """Choose a marginal by its weighted error, less a penalty for each of its cells.

        Parameters
        ----------
        candidates
            Some of the run's candidates.
        rho
            What the choice may cost.
        penalty
            p, in counts.
        weights
            w, one a candidate; ones unless given.

        Returns
        -------
        The marginal, by the exponential mechanism with
        ``q_r(D) = w_r (||M_r(D) - M_r(model)||_1 - p n_r)``; None as for `Context.select`.
        """
        if self._ctx.has_ended():
            return None
        weighed = np.ones(len(candidates)) if weights is None else np.array(weights)
        cells = self.cells(candidates)
        if self._ctx.on_selection is not None:
            penalties = penalty * cells
            self._ctx.on_selection(Selection(candidates, weighed, penalties, self.current))
        return self._ctx.select(
            candidates,
            lambda: error_scores(self.errors(candidates), cells, penalty, weighed),
            rho=rho,
            sensitivity=self._ctx.neighbours.error_score(float(weighed.max())),
        )

    def add(self, measurement: Measurement | None) -> None:
        """Refit the model with a further measurement, unless it was lost."""
        if measurement is None:
            return
        self._measured.append(measurement.clique)
        self._ctx.fit(self._estimator, measurement)
