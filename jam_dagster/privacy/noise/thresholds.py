"""Thresholds of selections of values, and what they are worth: tails of the discrete Gaussian."""

from __future__ import annotations

import math

_FAR = 40.0
"""Standard deviations from zero beyond which the noise has no weight that a float can hold."""


def tail(sigma: float, least: int) -> float:
    """Return the probability that discrete Gaussian noise is at least a whole number.

    ``P(x)`` is proportional to ``exp(-x^2 / (2 sigma^2))``. Terms are summed until they no longer
    count; the sum of all is bounded from below by ``sigma sqrt(2 pi)``, which it never is less than
    (Poisson's summation), so the result is an upper bound.

    Parameters
    ----------
    sigma : float
        Scale of the noise.
    least : int
        1 or more.
    """
    if sigma <= 0.0:
        return 0.0
    last = math.ceil(_FAR * sigma) + least
    terms = (math.exp(-((x / sigma) ** 2) / 2.0) for x in range(least, min(last, least + 10**7)))
    whole = max(1.0, sigma * math.sqrt(2.0 * math.pi))
    return min(1.0, math.fsum(terms) / whole * (1.0 + 1e-12))


def selection_delta(sigma: float, threshold: int, values: int, rows: int) -> float:
    """Return the probability with which a value of one person alone is published, at most.

    Such a value has a count of at most `rows`, and one person has at most `values` of them.

    Parameters
    ----------
    sigma : float
        Scale of the noise in counts.
    threshold : int
        The least noisy count that is published.
    values, rows : int
        As in `Noise.select_values`.
    """
    if threshold <= rows:
        return 1.0
    return min(1.0, values * tail(sigma, threshold - rows))


def least_threshold(sigma: float, delta: float, values: int, rows: int) -> int:
    """Return the least threshold with a `selection_delta` of at most delta."""
    low, high = rows, rows + 1
    while selection_delta(sigma, high, values, rows) > delta:
        low, high = high, rows + 2 * (high - rows)
    while high - low > 1:
        middle = (low + high) // 2
        if selection_delta(sigma, middle, values, rows) > delta:
            low = middle
        else:
            high = middle
    return high
