"""The dependence of all pairs of attributes, released together, and a graph of dependent pairs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from jam_dagster.mechanisms.loops.scores import l1_distance
from jam_dagster.models.graphical.junction_tree import bits, cells_of, mask_of, triangulate
from jam_dagster.models.graphical.tractability import TractabilityFilter
from jam_dagster.tables import Clique, Domain

if TYPE_CHECKING:
    from jam_dagster.mechanisms.context import Context


SIZE_PENALTY = 1e-8
"""Dependence that an edge must add for each further cell of the graph's cliques."""

Dependence = Mapping[frozenset[str], float]
"""R, by pairs of attributes: the total variation distance of a pair from independence."""


def independence_error(counts: np.ndarray) -> float:
    """Return ``||n_ab - n_a n_b / n||_1`` of the marginal of two attributes, in counts.

    It moves by at most `Neighbours.independence_score`.
    """
    total = max(float(counts.sum()), 1.0)
    return l1_distance(counts, np.outer(counts.sum(axis=1), counts.sum(axis=0)) / total)


def joint_dependence(counts: np.ndarray, axis: int) -> float:
    """Return `independence_error` of the attribute on an axis, and of all others as a joint one."""
    return independence_error(np.moveaxis(counts, axis, 0).reshape(counts.shape[axis], -1))


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


def graph_of(domain: Domain, dependence: Dependence, size_limit_mb: float) -> list[Clique]:
    """Return the maximal cliques of the graph that adds most dependence within a size limit.

    Each step adds the edge that most raises the sum of R over the edges, less `SIZE_PENALTY` for
    each cell of the cliques.
    """
    edges: list[Clique] = [domain.canonical(pair) for pair in dependence]
    tractable = TractabilityFilter(domain, edges)
    masks = [mask_of(domain.positions[name] for name in edge) for edge in edges]
    known = [dependence[frozenset(edge)] for edge in edges]
    # The most dependent ones first: no later one has a better score than its R.
    absent = sorted(range(len(edges)), key=lambda number: -known[number])
    chosen: list[int] = []

    def cliques(more: Sequence[int]) -> list[int]:
        return triangulate(domain.shape, [masks[number] for number in [*chosen, *more]])

    while True:
        fits = set(tractable.fitting([edges[number] for number in chosen], size_limit_mb))
        absent = [number for number in absent if number in fits]
        best, score = None, -math.inf
        for number in absent:
            if known[number] <= score:
                break
            cells = sum(cells_of(mask, domain.shape) for mask in cliques([number]))
            if known[number] - SIZE_PENALTY * cells > score:
                best, score = number, known[number] - SIZE_PENALTY * cells
        if best is None:
            return [tuple(domain.names[index] for index in bits(mask)) for mask in cliques([])]
        chosen.append(best)
        absent.remove(best)
