"""Construction of an estimator by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jam_dagster.models.graphical.estimator import Weighting
from jam_dagster.models.graphical.mirror_descent import MirrorDescent
from jam_dagster.tables import Domain

if TYPE_CHECKING:
    from jam_dagster.models.graphical.mbi_bridge import PrivatePgm


def make_estimator(
    name: str,
    domain: Domain,
    total: float,
    *,
    iterations: int,
    tolerance: float,
    weighting: Weighting = "alike",
) -> MirrorDescent | PrivatePgm:
    """Return the estimator of that name (`EstimatorName`), without measurements.

    It refits the model after every measurement, from the end of the last fit.
    """
    if name == "mbi":
        from jam_dagster.models.graphical.mbi_bridge import PrivatePgm

        return PrivatePgm(domain, total, iterations=iterations, weighting=weighting)
    return MirrorDescent(
        domain, total, iterations=iterations, tolerance=tolerance, weighting=weighting
    )
