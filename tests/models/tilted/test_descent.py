"""Minimization: quadratics whose minimum is known."""

from __future__ import annotations

import numpy as np
import pytest

from jam_dagster.models.tilted.descent import Floats, minimize


def quadratic(curvature: Floats, centre: Floats, calls: list[Floats] | None = None):
    def function(point: Floats) -> tuple[float, Floats]:
        if calls is not None:
            calls.append(point.copy())
        apart = point - centre
        return 0.5 * float(apart @ (curvature @ apart)), curvature @ apart

    return function


def curved(size: int, seed: int) -> Floats:
    rng = np.random.default_rng(seed)
    turned, _ = np.linalg.qr(rng.normal(size=(size, size)))
    return turned @ np.diag(np.geomspace(0.05, 2, size)) @ turned.T


@pytest.mark.parametrize("size", [1, 5, 30])
def test_the_minimum_of_a_quadratic_is_found(size: int) -> None:
    centre = np.linspace(-1, 1, size)
    found, taken = minimize(
        quadratic(curved(size, 0), centre),
        np.zeros(size),
        evaluations=500,
        tolerance=0.0,
    )
    np.testing.assert_allclose(found, centre, atol=1e-5)
    assert taken <= 500


@pytest.mark.parametrize("steps", [1, 2, 3, 7, 40])
def test_it_ends_in_time_at_the_last_point_that_was_looked_at(steps: int) -> None:
    calls: list[Floats] = []
    function = quadratic(curved(20, 2), np.full(20, 3.0), calls)
    found, taken = minimize(function, np.zeros(20), evaluations=steps, tolerance=0.0)

    assert taken <= steps
    assert len(calls) <= steps + 1
    np.testing.assert_array_equal(calls[-1], found)
    assert function(found)[0] <= function(np.zeros(20))[0]


def test_a_start_that_is_a_minimum_but_for_rounding_ends_at_once() -> None:
    """No step from there lowers a function of such values."""
    low = quadratic(curved(20, 2), np.full(20, 3.0))
    start = np.full(20, 3.0) + 1e-8

    found, taken = minimize(
        lambda point: (low(point)[0] + 100.0, low(point)[1]),
        start,
        evaluations=500,
        tolerance=1e-4,
    )

    assert taken == 1
    np.testing.assert_array_equal(found, start)


def test_a_minimum_beyond_the_box_is_at_its_bound() -> None:
    target, curvature = np.array([5.0, -0.5, 0.25]), np.array([1.0, 4.0, 0.5])

    def function(point: np.ndarray) -> tuple[float, np.ndarray]:
        slope = curvature * (point - target)
        value = 0.5 * float(slope @ (point - target))
        slope[(np.abs(point) >= 1.0) & (point * slope < 0.0)] = 0.0
        return value, slope

    found, _ = minimize(
        function,
        np.zeros(3),
        evaluations=100,
        tolerance=1e-12,
        within=lambda point: np.clip(point, -1.0, 1.0),
    )
    np.testing.assert_allclose(found, [1.0, -0.5, 0.25], atol=1e-5)
