"""Tail bounds of draws, from which error bounds are composed.

All of them hold for the discrete and the continuous Gaussian: both are subgaussian,
``E exp(t z) <= exp(t^2 sigma^2 / 2)`` for every t (Canonne, Kamath and Steinke 2020, for the
discrete one), and so are sums of independent ones. Every `failure` is the probability that a bound
is exceeded.
"""

from __future__ import annotations

import math

import numpy as np

_TILTS = np.geomspace(0.02, 20.0, 400)
"""The tried exponents of `summed_noise`; each gives a valid bound."""


def aligned_noise(cells: int, sigma: float, failure: float) -> float:
    """Bound the excess of the true marginal's distance from an answer over the noisy one's.

    Theorem 4 of the AIM paper rests on it, with ``failure = exp(-lambda_1^2 / 2)``. With
    ``s = sign(x - a)``, ``||x - a||_1 = s (x - a) = s (y - a) - s z <= ||y - a||_1 - s z``, and
    ``s z`` is subgaussian of variance ``n sigma^2``: s does not depend on z.
    """
    return sigma * math.sqrt(2 * cells * math.log(1 / failure))


def chosen_score(candidates: int, sensitivity: float, epsilon: float, failure: float) -> float:
    """Bound the distance of the exponential mechanism's chosen score below the best score.

    It chooses with a probability proportional to ``exp(epsilon s / (2 sensitivity))``: a candidate
    that lies g below the best has at most ``exp(-epsilon g / (2 sensitivity))``, and there are at
    most so many candidates.
    """
    return 2 * sensitivity / epsilon * (math.log(candidates) + math.log(1 / failure))


def summed_noise(cells: int, precision: float, most: float, failure: float) -> float:
    """Bound the L1 norm of the noise of a marginal that averages several measurements.

    Let ``W = sum_i z_i / sigma_i^2`` be the noise before it is divided by V. What is measured next,
    and how exactly, depends on earlier noise, so V does, and W / V is no Gaussian given V. For
    a fixed t, however, and every vector s of n signs, ``exp(t s W - t^2 n V / 2)`` is a
    supermartingale over the rounds, as what a round adds to V is known before its noise. So is the
    mean over all s, which is ``prod_c cosh(t W_c) exp(-t^2 n V / 2)``. It starts at 1, and thus
    exceeds ``1 / failure`` at the end with at most that probability (Markov). Else, as log cosh is
    convex and even (Jensen)::

        n log cosh(t ||W||_1 / n) <= sum_c log cosh(t W_c) <= t^2 n V / 2 + log(1 / failure)
        ||W||_1 / V <= n / (t V) arccosh(exp(t^2 V / 2 + log(1 / failure) / n))

    The best t depends on V. There is one for each halving of V below the largest that the budget
    buys; the j-th, counted from 0, may fail with ``failure / ((j + 1) (j + 2))``, which add up to
    `failure`, so that all hold at once. The paper takes the average for a Gaussian.
    """
    halvings = max(0, math.floor(math.log2(most / precision)))
    surprise = (math.log(1 / failure) + math.log((halvings + 1) * (halvings + 2))) / cells
    # The best t for the middle of the interval in which V lies; t itself must not depend on V.
    middle = most * 2.0 ** -(halvings + 0.5)
    exponents = _arccosh_exp(_TILTS**2 / 2 + surprise) / _TILTS
    tilt = float(_TILTS[np.argmin(exponents)])
    t = tilt / math.sqrt(middle)
    exponent = float(_arccosh_exp(np.array(t * t * precision / 2 + surprise)))
    return cells / (t * precision) * exponent


def _arccosh_exp(x: np.ndarray) -> np.ndarray:
    """Return ``arccosh(exp(x))``, also where the exponential is too large."""
    found: np.ndarray = x + np.log1p(np.sqrt(-np.expm1(-2 * x)))
    return found
