"""The scores by which mechanisms choose what to measure."""

from __future__ import annotations

import numpy as np

from jam_dagster.models.measurement import MEAN_ABSOLUTE_NORMAL

LOWEST = 2.0**29
"""Sensitivities below zero that a score may lie."""


def representable(scores: np.ndarray, sensitivity: float) -> np.ndarray:
    """Return scores, those raised that lie too low for floats to tell how far they move.

    What a measurement is expected to err by grows with the noise and the cells. Where that is 2^45,
    floats are a hundredth apart, and neighbours' weighted scores, rounded, may be further apart
    than their sensitivity. Raised to the same lowest number scores move
    no further than before, and those above it are exact to a part in 2^22 of the sensitivity.
    Nobody chooses a candidate so far below the others.
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
    """Score every marginal twice, on private data and on public: JAM-PGM, Algorithm 2, lines 7, 8.

    Parameters
    ----------
    current_error
        ``||q(D) - q(model)||_1`` in counts, shape ``(m,)``.
    public_error
        ``||q(D) - q(D_pub) n / n_pub||_1`` in counts, shape ``(m,)``; of several public tables,
        shape ``(k, m)``. NaN where a table lacks attributes of the marginal.
    cells
        n_tau, the number of cells of each marginal that can hold anybody, shape ``(m,)``.
    sigma
        Noise that a private measurement would carry this round, in counts.

    Returns
    -------
    ndarray
        The m private candidates, then those of the public table that it can measure (of each
        table in turn): shape ``(2 m,)`` where one has them all. Each is the error now less the
        error expected after the measurement, ``current - sqrt(2/pi) sigma n_tau`` and
        ``current - public``.

    Notes
    -----
    Replacing one record moves each L1 error by at most 2, so a score by at most 4, however many
    public tables there are
    (`jam_dagster.privacy.sensitivity.JAM_SCORE`; `Neighbours.jam_score` for other neighbours).
    """
    private = current_error - MEAN_ABSOLUTE_NORMAL * sigma * cells
    public = current_error - public_error
    return np.concatenate([private, public[~np.isnan(public)]])


def weighted_scores(
    current_error: np.ndarray, cells: np.ndarray, sigma: float, weights: np.ndarray
) -> np.ndarray:
    """Score every marginal by how much it would improve: AIM, Algorithm 2, line 12.

    Parameters
    ----------
    current_error
        ``||q(D) - q(model)||_1`` in counts, shape ``(m,)``.
    cells
        n_r, the number of cells of each marginal that can hold anybody, shape ``(m,)``.
    sigma
        Noise that a measurement would carry this round, in counts.
    weights
        w_r of each marginal, shape ``(m,)``.

    Returns
    -------
    ndarray
        Shape ``(m,)``: ``w_r (current - sqrt(2/pi) sigma n_r)``.

    Notes
    -----
    A score of weight w moves by w times the L1 sensitivity of a marginal
    (`Neighbours.error_score`).
    """
    scores: np.ndarray = weights * (current_error - MEAN_ABSOLUTE_NORMAL * sigma * cells)
    return scores


def penalized_scores(current_error: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Score every marginal by its error less its cells: MWEM+PGM, Algorithm 1 of the AIM paper.

    Parameters
    ----------
    current_error
        ``||q(D) - q(model)||_1`` in counts, shape ``(m,)``.
    cells
        n_r, the number of cells of each marginal that can hold anybody, shape ``(m,)``.

    Returns
    -------
    ndarray
        Shape ``(m,)``: ``current - n_r``.

    Notes
    -----
    A score moves by the L1 sensitivity of a marginal (`Neighbours.error_score`).
    """
    scores: np.ndarray = current_error - cells
    return scores
