"""The dependence of all pairs of attributes, released together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from jam_dagster.mechanisms.loops.scores import l1_distance
from jam_dagster.tables import Clique

if TYPE_CHECKING:
    from jam_dagster.mechanisms.context import Context


def independence_error(counts: np.ndarray) -> float:
    """Return ``||n_ab - n_a n_b / n||_1`` of the marginal of two attributes, in counts.

    It moves by at most `Neighbours.independence_score`.
    """
    total = max(float(counts.sum()), 1.0)
    return l1_distance(counts, np.outer(counts.sum(axis=1), counts.sum(axis=0)) / total)


def released_dependence(ctx: Context, names: Sequence[str], rho: float) -> dict[Clique, float]:
    """Return `independence_error` of every pair with Gaussian noise, in one draw.

    Parameters
    ----------
    ctx
        The run.
    names
        The attributes.
    rho
        What all of them may cost together.

    Returns
    -------
    dict
        By pairs, in counts; zeros if the draw was lost.
    """
    pairs = list(combinations(names, 2))

    def errors() -> np.ndarray:
        found = {
            pair: independence_error(counts)
            for block in ctx.counts(pairs)
            for pair, counts in block.items()
        }
        return np.array([found[pair] for pair in pairs])

    if not pairs:
        return {}
    reach = ctx.neighbours.independence_score * math.sqrt(len(pairs))
    noisy = ctx.values("dependence", errors, size=len(pairs), rho=rho, sensitivity=reach)
    known = np.zeros(len(pairs)) if noisy is None else noisy
    return dict(zip(pairs, known.tolist(), strict=True))
