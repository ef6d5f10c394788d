"""The selection scores of mechanisms."""

from __future__ import annotations

import numpy as np

LOWEST = 2.0**29
"""The most sensitivities that a score may be below zero."""


def representable(scores: np.ndarray, sensitivity: float) -> np.ndarray:
    """Return scores, with a lower limit that keeps their float rounding below the sensitivity.

    The expected error of a measurement grows with the noise and the cells. At 2^45 floats are a
    hundredth apart, and neighbours' rounded scores may differ by more than their sensitivity.
    Clipping at a common lower limit does not increase differences, and scores above it are exact to
    a part in 2^22 of the sensitivity. A candidate so far below the others is never chosen in
    practice.
    """
    raised: np.ndarray = np.maximum(scores, lowest_score(sensitivity))
    return raised


def lowest_score(sensitivity: float) -> float:
    """Return the least of `representable` scores."""
    return -LOWEST * sensitivity


def l1_distance(a: np.ndarray, b: np.ndarray) -> float:
    """Return ``||a - b||_1`` over all cells, whatever the number of axes."""
    return float(np.abs(a - b).sum())


def error_scores(
    errors: np.ndarray, cells: np.ndarray, penalty: float, weights: np.ndarray
) -> np.ndarray:
    """Score every marginal by ``w_r (||M_r(D) - M_r(model)||_1 - p n_r)``, n_r its cells.

    AIM has ``p = sqrt(2/pi) sigma``: the expected error of a measurement.
    A score of weight w moves by w times the L1 sensitivity of a marginal
    (`Neighbours.error_score`).
    """
    scores: np.ndarray = weights * (errors - penalty * cells)
    return scores
