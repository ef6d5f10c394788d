"""The closest marginal: its conditions of optimality, and what it tends to."""

from __future__ import annotations

import numpy as np
import pytest

from jam_dagster.models.tilted.closest import closest_marginal


@pytest.mark.parametrize("ridge", [1e-9, 1e-4, 0.1, 10.0])
@pytest.mark.parametrize("cells", [1, 3, 500])
def test_its_conditions_hold(ridge: float, cells: int) -> None:
    """log(p / m) + (p - y) / s is one constant: so large where s is small that p - y counts."""
    rng = np.random.default_rng(cells)
    base = rng.normal(0, 3, cells)
    target = rng.dirichlet(np.full(cells, 0.2)) + rng.normal(0, 0.05, cells)
    found = closest_marginal(base, target, ridge)
    assert found.sum() == pytest.approx(1.0, abs=1e-12)
    held = found > 1e-200
    constant = ridge * (np.log(found[held]) - base[held]) + found[held] - target[held]
    np.testing.assert_allclose(constant, constant[0], atol=1e-8 + 1e-7 * ridge)


def test_little_noise_gives_the_projection_onto_the_simplex() -> None:
    """What is less than zero by noise is taken from all others alike."""
    found = closest_marginal(np.zeros(4), np.array([0.9, 0.2, 0.0, -0.3]), 1e-9)
    np.testing.assert_allclose(found, [0.85, 0.15, 0.0, 0.0], atol=1e-6)


def test_much_noise_leaves_the_model() -> None:
    base = np.log([0.5, 0.3, 0.2])
    np.testing.assert_allclose(
        closest_marginal(base + 5.0, np.array([0.0, 1.0, 0.0]), 1e9), np.exp(base)
    )


def test_impossible_cells_stay_empty() -> None:
    found = closest_marginal(np.array([-np.inf, 0.0, 0.0]), np.array([9.0, 0.0, 0.0]), 1e-6)
    np.testing.assert_allclose(found, [0.0, 0.5, 0.5])
