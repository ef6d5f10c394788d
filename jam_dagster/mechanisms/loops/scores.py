"""The selection scores of mechanisms."""

from __future__ import annotations

import numpy as np

from jam_dagster.models.measurement import MEAN_ABSOLUTE_NORMAL

LOWEST = 2.0**29
"""The most sensitivities that a score may lie below zero."""


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


def candidate_scores(
    current_error: np.ndarray, public_error: np.ndarray, cells: np.ndarray, sigma: float
) -> np.ndarray:
    """Score every marginal on private and on public data: JAM-PGM, Algorithm 2, lines 7, 8.

    Replacing one record moves each L1 error by at most 2, so a score by at most 4, however many
    public tables there are
    (`jam_dagster.privacy.sensitivity.JAM_SCORE`; `Neighbours.jam_score` for other neighbours).
    """
    private = current_error - MEAN_ABSOLUTE_NORMAL * sigma * cells
    public = current_error - public_error
    return np.concatenate([private, public[~np.isnan(public)]])


def error_scores(
    errors: np.ndarray, cells: np.ndarray, penalty: float, weights: np.ndarray
) -> np.ndarray:
    """Score every marginal by ``w_r (||M_r(D) - M_r(model)||_1 - p n_r)``, n_r its cells.

    AIM, Algorithm 2, line 12, has ``p = sqrt(2/pi) sigma``: the expected error of a measurement.
    A score of weight w moves by w times the L1 sensitivity of a marginal
    (`Neighbours.error_score`).
    """
    scores: np.ndarray = weights * (errors - penalty * cells)
    return scores
