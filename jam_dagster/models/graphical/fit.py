"""Construction of an estimator by its name."""

from __future__ import annotations

from jam_dagster.models.graphical.estimator import (
    Estimator,
    Weighting,
    check_estimator,
)
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
    """Return the estimator of that name, without measurements.

    Parameters
    ----------
    name
        ``accelerated``: mirror descent with Barzilai-Borwein steps that ends by `tolerance`.
        ``mirror_descent``: Private-PGM's own line search, always `iterations` steps.
        ``mbi``: the same in Private-PGM's package, compiled again for every round.
    domain
        The attributes. Its impossible combinations are fixed zeros of the model.
    total
        n, the number of records.
    iterations
        Most steps of a fit.
    tolerance
        A fit ends when its best loss fell by less than this share over 15 steps, or when its
        residuals are a hundredth of a record.
    weighting
        ``alike``: the sum of all squared residuals is least. ``noise``: each is weighted by one
        over the variance of its noise, in units of the first measurement's.

    Raises
    ------
    SpecificationError
        If a setting is out of range.
    """
    check_estimator(name, iterations, tolerance)
    if name == "mbi":
        from jam_dagster.models.graphical.mbi_bridge import PrivatePgm

        return PrivatePgm(domain, total, iterations=iterations, weighting=weighting)
    return MirrorDescent(
        domain,
        total,
        iterations=iterations,
        tolerance=tolerance if name == "accelerated" else None,
        weighting=weighting,
    )
