"""Names of estimators of the graphical model, their weighting of measurements, and convergence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from jam_dagster.errors import SpecificationError
from jam_dagster.models.measurement import Measurement

EstimatorName = Literal["accelerated", "mbi"]

Weighting = Literal["alike", "noise"]
"""The weighting of measurements in a fit: equal, or by one over the variance of their noise."""

WINDOW = 15
"""Number of steps over which the tolerance requires an improvement."""


@dataclass(frozen=True)
class Convergence:
    """The convergence of a fit.

    `loss` is ``sum_i ||mu_i - y_i||_2^2 / (2 n^2)`` of the model that was kept.
    """

    iterations: int
    loss: float


def weight_of(measurement: Measurement, sigma: float) -> float:
    """Return the weight of a measurement by its noise: ``(sigma / its own)^2``."""
    if measurement.sigma <= 0:
        raise SpecificationError(
            f"A fit that weights measurements by their noise received one without noise, of "
            f"{' x '.join(measurement.clique)}: use equal weights."
        )
    return (sigma / measurement.sigma) ** 2
