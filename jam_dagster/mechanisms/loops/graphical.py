"""The base of mechanisms with a graphical model: the filter, the fits, the refit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, get_args

import numpy as np

from jam_dagster.errors import EmptyCandidateSetError, InputError
from jam_dagster.mechanisms.base import Described
from jam_dagster.mechanisms.loops.base import MechanismRun
from jam_dagster.mechanisms.loops.scores import l1_distance
from jam_dagster.mechanisms.loops.settings import MOST_ITERATIONS, setting
from jam_dagster.mechanisms.loops.transcript import Transcript
from jam_dagster.models.graphical.estimator import Convergence, Estimator, EstimatorName, Weighting
from jam_dagster.models.graphical.fit import make_estimator
from jam_dagster.models.graphical.junction_tree import (
    BYTES_PER_CELL,
    LARGEST_TREE_CELLS,
    MEGABYTE,
    mask_of,
)
from jam_dagster.models.graphical.kernels import one_thread
from jam_dagster.models.graphical.model import FittedModel
from jam_dagster.models.graphical.tractability import TractabilityFilter
from jam_dagster.models.measurement import Measurement
from jam_dagster.tables import Clique, Domain, MarginalSource

if TYPE_CHECKING:
    from jam_dagster.privacy.draws import Draws


class GraphicalMechanism(Described, Protocol):
    """A mechanism that fits a graphical model: the settings of the fits."""

    @property
    def estimator(self) -> str:
        """The estimator of the fit."""

    @property
    def iterations(self) -> int:
        """Most steps of a fit."""

    @property
    def tolerance(self) -> float:
        """The tolerance that ends a fit."""


def alpha_setting(default: float) -> float:
    """Return the setting of the share of a round's budget that measures."""
    share: float = setting(
        default, "share of a round's budget that measures, the rest selects", above=0, below=1
    )
    return share


def size_limit_setting(default: float = 80.0) -> float:
    """Return the setting of the largest model."""
    limit: float = setting(
        default,
        "largest junction tree of the model, in MB",
        above=0,
        maximum=LARGEST_TREE_CELLS * BYTES_PER_CELL // MEGABYTE,
    )
    return limit


def estimator_setting() -> str:
    """Return the setting of the estimator."""
    name: str = setting(
        "accelerated",
        "how the model is fitted: accelerated, mirror_descent (plain, to verify with) or mbi"
        " (Private-PGM's, slow)",
        choices=get_args(EstimatorName),
    )
    return name


def iterations_setting() -> int:
    """Return the setting of the most steps of a fit."""
    most: int = setting(1000, "most steps of a fit", minimum=1, maximum=MOST_ITERATIONS)
    return most


def tolerance_setting() -> float:
    """Return the setting of the tolerance that ends a fit."""
    tolerance: float = setting(
        0.1,
        "trades error for time: an accelerated fit ends when 15 steps lowered its loss by less"
        " than this share; 0 takes all iterations",
        minimum=0,
        below=1,
    )
    return tolerance


def check_first_candidates(
    domain: Domain, candidates: Sequence[Clique], size_limit_mb: float, rounds: int
) -> None:
    """Raise unless a candidate fits the model of the first round."""
    limit = size_limit_mb / rounds
    if not TractabilityFilter(domain, candidates).fitting([], limit):
        empty = FittedModel.uniform(domain, 1.0).size_mb
        raise EmptyCandidateSetError(
            f"No marginal of the workload fits the first round's model size limit of "
            f"{limit:.3g} MB (size_limit_mb / rounds); the empty model alone takes "
            f"{empty:.3g} MB. Raise size_limit_mb, lower rounds, or use fewer values an "
            "attribute."
        )


class GraphicalRun(MechanismRun):
    """The state of a run: private counts, the graphical model, and the rounds so far.

    Parameters
    ----------
    mechanism
        The mechanism of the run.
    private
        The table to protect.
    closure
        The candidates: the downward closure of the workload.
    draws
        Charges, draws and stores.
    weighting
        The weighting of measurements in the fits; see `make_estimator`.
    """

    def __init__(
        self,
        mechanism: GraphicalMechanism,
        private: MarginalSource,
        closure: Sequence[Clique],
        draws: Draws,
        *,
        weighting: Weighting = "alike",
    ) -> None:
        super().__init__(mechanism, private, closure, draws)
        masks = (mask_of(self.domain.positions[name] for name in q) for q in self.closure)
        self._clique_of = dict(zip(masks, self.closure, strict=True))
        self._mask_of = {q: mask for mask, q in self._clique_of.items()}
        self.filter = TractabilityFilter(self.domain, self.closure)
        self.estimator = make_estimator(
            mechanism.estimator,
            self.domain,
            self.records,
            iterations=mechanism.iterations,
            tolerance=mechanism.tolerance,
            weighting=weighting,
        )

    @property
    def model(self) -> FittedModel:
        """The model of all measurements so far."""
        return self.estimator.model

    def fit(self, measurement: Measurement) -> Convergence:
        """Refit the model with a further measurement."""
        return self.estimator.add(measurement)

    @property
    def released(self) -> FittedModel:
        """The model with beliefs propagated from its potentials alone."""
        return self.model.recalibrated()

    def fitting(self, limit: float) -> list[int]:
        """Return the numbers of the candidates that keep the model within `limit` megabytes."""
        with self.stage("filter"):
            return self.filter.fitting(self.measured, limit)

    def errors(self, numbers: Sequence[int]) -> np.ndarray:
        """Return ``||q(D) - q(model)||_1`` of candidates, in counts, shape ``(m,)``."""
        errors = np.empty(len(self.closure))
        calibrated, total = self.model.calibrated, self.records
        with self.stage("answer"), one_thread():
            for block in self.blocks([self.closure[number] for number in numbers]):
                for mask, answer in calibrated.marginals(self._mask_of[clique] for clique in block):
                    clique = self._clique_of[mask]
                    errors[self.number[clique]] = l1_distance(block[clique], answer * total)
            calibrated.forget()
        return errors[list(numbers)]


def estimator_of(transcript: Transcript, domain: Domain) -> Estimator:
    """Return the estimator that a transcript's model was fitted with, without measurements."""
    settings = transcript.parameters
    missing = [name for name in ("estimator", "iterations", "tolerance") if name not in settings]
    if missing:
        raise InputError(
            f"This transcript does not record the {missing[0]} of its model's fit: load the model "
            "that was stored beside it instead."
        )
    return make_estimator(
        settings["estimator"],
        domain,
        transcript.records,
        iterations=settings["iterations"],
        tolerance=settings["tolerance"],
        weighting=settings.get("weighting", "alike"),
    )


def refit_graphical(
    transcript: Transcript, domain: Domain, measurements: Sequence[Measurement] | None = None
) -> FittedModel:
    """Return the model of a transcript: the same fits in the same order."""
    estimator = estimator_of(transcript, domain)
    for measurement in transcript.measurements if measurements is None else measurements:
        estimator.add(measurement)
    return estimator.model.recalibrated()
