"""Construction of an estimator by its name."""

from __future__ import annotations

from jam_dagster.models.graphical.estimator import Estimator, Weighting
from jam_dagster.models.graphical.mirror_descent import MirrorDescent
from jam_dagster.tables import Domain


def make_estimator(
    name: str,
    domain: Domain,
    total: float,
    *,
    iterations: int,
    tolerance: float,
    weighting: Weighting = "alike",
) -> Estimator:
    """Return the estimator of that name (`EstimatorName`), without measurements."""
    if name == "mbi":
        from jam_dagster.models.graphical.mbi_bridge import PrivatePgm

        return PrivatePgm(domain, total, iterations=iterations, weighting=weighting)
    return MirrorDescent(
        domain, total, iterations=iterations, tolerance=tolerance, weighting=weighting
    )
