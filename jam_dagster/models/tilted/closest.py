"""The marginal that one clique's potentials alone bring about."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

LEVELS = 100
"""Most steps to the constant by which the marginal sums to one."""

CELL_STEPS = 6
"""Steps to each cell's value for a given constant."""

CLOSE = 1e-10
"""How far from one the sum of the marginal may end."""


def closest_marginal(log_base: Floats, target: Floats, ridge: float) -> Floats:
    """Return the distribution p that minimizes ``KL(p || m) + ||p - y||_2^2 / (2 s)``.

    ``log(p / m) + (p - y) / s`` is the same constant in all cells. So u = p / s solves
    ``u + log u = z``, with z known but for the constant. Newton's method finds log u, and around it
    the constant: the sum is convex in it, and the first one is too large for no cell.
    """
    held = np.flatnonzero(np.isfinite(log_base))
    reach = target[held] / ridge + log_base[held]
    level = float(reach.max()) - 1.0 / ridge
    for _ in range(LEVELS):
        z = reach - level - math.log(ridge)
        logs = np.where(z > 1.0, np.log(np.maximum(z, 1.0)), z)
        for _ in range(CELL_STEPS):
            u = np.exp(logs)
            logs -= (u + logs - z) / (1.0 + u)
        u = np.exp(logs)
        over = ridge * float(u.sum()) - 1.0
        if abs(over) <= CLOSE:
            break
        level += over / (ridge * float((u / (1.0 + u)).sum()))
    found = np.zeros(target.shape)
    found[held] = u / u.sum()
    return found
