"""Exact noise: the one module that wraps OpenDP.

OpenDP samples with integer arithmetic from a cryptographically secure generator. With
floating-point noise, an output can be possible for one table and impossible for its neighbour; with
OpenDP it cannot. Importing this module is cheap; constructing an `ExactNoise` imports OpenDP, so a
failure to load appears before any charge.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from jam_dagster.errors import SpecificationError
from jam_dagster.privacy.accounting import check_rho, exponential_epsilon, gaussian_sigma
from jam_dagster.privacy.noise.base import (
    check_counts,
    check_selection,
    check_sensitivity,
    check_values,
)
from jam_dagster.privacy.noise.thresholds import least_threshold

Number = TypeVar("Number", np.int64, np.float64)

CHUNK_CELLS = 65_536
"""Cells handed to OpenDP at a time: it takes Python lists, about 100 bytes a cell."""

ROUNDING_SLACK = 2.0**-20
"""Relative slack on the sensitivity of statistics that were computed in floating point.

Scores and mean errors are sums of up to millions of float64 terms. Their rounding errors can move
neighbours apart by slightly more than the sensitivity in real arithmetic. For tables of up to ten
million records these errors are below a millionth of the sensitivity, which the slack covers. The
slack makes the noise a millionth wider.
"""


@dataclass(frozen=True)
class ExactNoise:
    """Noise from OpenDP: exact, secure and without a seed.

    Each draw computes its cost with OpenDP's own privacy map and widens the noise until the cost is
    within the charge. It takes about 11 microseconds a cell of a marginal.
    """

    def __post_init__(self) -> None:
        _measurements()

    @property
    def name(self) -> str:
        """The backend's name."""
        return "exact"

    @property
    def releasable(self) -> bool:
        """True."""
        return True

    @property
    def repeatable(self) -> bool:
        """False: each draw is new, and a second one needs a second charge."""
        return False

    def gaussian_counts(
        self, counts: NDArray[np.int64], l2_sensitivity: float, rho: float, step: str
    ) -> tuple[NDArray[np.int64], float]:
        """Add discrete Gaussian noise to a marginal; see `Noise.gaussian_counts`."""
        counts = check_counts(counts)
        distance = check_sensitivity(l2_sensitivity)
        measurement, sigma = _calibrated(
            _integer_gaussian, gaussian_sigma(distance, rho), distance, rho
        )
        return _in_chunks(measurement, counts.ravel()).reshape(counts.shape), sigma

    def gaussian_values(
        self, values: NDArray[np.float64], l2_sensitivity: float, rho: float, step: str
    ) -> tuple[NDArray[np.float64], float]:
        """Add Gaussian noise to real statistics; see `Noise.gaussian_values`."""
        values = check_values(values, name="values")
        distance = check_sensitivity(l2_sensitivity) * (1.0 + ROUNDING_SLACK)
        measurement, sigma = _calibrated(
            _real_gaussian, gaussian_sigma(distance, rho), distance, rho
        )
        return _in_chunks(measurement, values), sigma

    def select_values(
        self,
        counts: NDArray[np.int64],
        l2_sensitivity: float,
        rho: float,
        delta: float,
        values: int,
        rows: int,
        step: str,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], float, int]:
        """Publish values whose noisy count reaches a threshold; see `Noise.select_values`.

        OpenDP gives the values in an order of its own; they are sorted.
        """
        check_selection(delta, values, rows)
        distance = check_sensitivity(l2_sensitivity)
        moved = values, distance, float(rows)
        sigma = gaussian_sigma(distance, rho)
        made = None
        for step_up in (0.0, *(2.0**-power for power in range(52, 10, -1))):
            scale = sigma * (1.0 + step_up)
            threshold = least_threshold(scale, delta, values, rows)
            made = _thresholding(scale, threshold)
            # The map rounds upward, and bounds the tail of the noise more loosely.
            while made.map(moved)[1] > delta:
                threshold += 1
                made = _thresholding(scale, threshold)
            if made.map(moved)[0] <= rho:
                break
        else:
            raise SpecificationError(f"OpenDP has no noise scale for rho {rho!r}")
        table = {index: int(count) for index, count in enumerate(counts.tolist())}
        published = sorted(made(table).items()) if table else []
        chosen, noisy = (np.array([pair[at] for pair in published], np.int64) for at in (0, 1))
        return chosen, noisy, scale, threshold

    def select(self, scores: NDArray[np.float64], rho: float, sensitivity: float, step: str) -> int:
        """Choose by the exponential mechanism; see `Noise.select`.

        OpenDP's noisy max under zCDP adds Gumbel noise, which is the exponential mechanism.
        """
        scores = check_values(scores, name="scores")
        distance = check_sensitivity(sensitivity) * (1.0 + ROUNDING_SLACK)
        measurement, _ = _calibrated(
            _noisy_max, 2.0 * distance / exponential_epsilon(rho), distance, rho
        )
        return int(measurement(scores.tolist()))


def _calibrated(
    make: Callable[[float], Any], scale: float, distance: float, rho: float
) -> tuple[Any, float]:
    """Return the measurement with the least scale that costs at most `rho`, and the scale.

    The privacy map rounds upward, so the scale from the formula may cost an ulp too much.
    """
    check_rho(rho)
    step = 2.0**-52
    while step < 1e-3:
        measurement = make(scale)
        if measurement.map(distance) <= rho:
            return measurement, scale
        scale *= 1.0 + step
        step *= 2.0
    raise SpecificationError(f"OpenDP has no noise scale for rho {rho!r}")


def _in_chunks(measurement: Any, vector: NDArray[Number]) -> NDArray[Number]:
    """Return a vector with noise, drawn a chunk at a time.

    Noise is independent from value to value, so the chunks together are the mechanism that the
    privacy map was checked for.
    """
    noisy = np.empty_like(vector)
    for start in range(0, vector.size, CHUNK_CELLS):
        chunk = slice(start, start + CHUNK_CELLS)
        noisy[chunk] = measurement(vector[chunk].tolist())
    return noisy


@cache
def _measurements() -> Any:
    # OpenDP's prelude would import scikit-learn and what else its extras find: a second.
    from opendp import measurements, mod

    mod.enable_features("contrib")
    return measurements


def _integer_gaussian(scale: float) -> Any:
    return _measurements().make_gaussian(*_integer_space(), scale)


def _real_gaussian(scale: float) -> Any:
    return _measurements().make_gaussian(*_real_space(), scale)


def _noisy_max(scale: float) -> Any:
    from opendp.measures import zero_concentrated_divergence

    return _measurements().make_noisy_max(*_score_space(), zero_concentrated_divergence(), scale)


@cache
def _integer_space() -> tuple[Any, Any]:
    from opendp import domains, metrics

    # T=int would mean 32 bits.
    return domains.vector_domain(domains.atom_domain(T="i64")), metrics.l2_distance(T=float)


def _thresholding(scale: float, threshold: int) -> Any:
    return _measurements().make_gaussian_threshold(
        *_map_space(), scale, threshold, MO="Approximate<ZeroConcentratedDivergence>"
    )


@cache
def _map_space() -> tuple[Any, Any]:
    from opendp import domains, metrics

    counts = domains.map_domain(domains.atom_domain(T="i64"), domains.atom_domain(T="i64"))
    return counts, metrics.l02inf_distance(metrics.absolute_distance(T=float))


@cache
def _real_space() -> tuple[Any, Any]:
    from opendp import domains, metrics

    return _real_vectors(domains), metrics.l2_distance(T=float)


@cache
def _score_space() -> tuple[Any, Any]:
    from opendp import domains, metrics

    return _real_vectors(domains), metrics.linf_distance(T=float)


def _real_vectors(domains: Any) -> Any:
    return domains.vector_domain(domains.atom_domain(T=float, nan=False))
