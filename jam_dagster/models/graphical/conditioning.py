"""Conditioning of a calibrated junction tree on values of some attributes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from jam_dagster.models.graphical.dense import spread, sum_to
from jam_dagster.models.graphical.junction_tree import JunctionTree


def condition_beliefs(
    tree: JunctionTree, beliefs: Sequence[np.ndarray], evidence: Mapping[int, np.ndarray]
) -> tuple[float, tuple[np.ndarray, ...]]:
    """Condition the cliques' probabilities on evidence about single attributes.

    Messages are conditional probabilities of the evidence below a separator, divided by the
    largest of them, so that rare evidence on many attributes does not underflow.
    """
    tables = []
    for mask, belief in zip(tree.masks, beliefs, strict=True):
        table = belief.astype(np.float64)
        for position, allowed in evidence.items():
            if mask >> position & 1:
                table *= spread(allowed, 1 << position, mask)
        tables.append(table)

    log_scale = 0.0
    for parent, child in reversed(tree.edges):
        separator = tree.masks[parent] & tree.masks[child]
        before = sum_to(beliefs[child], tree.masks[child], separator)
        message = _ratio(sum_to(tables[child], tree.masks[child], separator), before)
        largest = float(message.max())
        if largest == 0.0:
            return 0.0, ()
        log_scale += math.log(largest)
        tables[parent] *= spread(message / largest, separator, tree.masks[parent])
    left = float(tables[0].sum())
    if left == 0.0:
        return 0.0, ()

    tables[0] /= left
    for parent, child in tree.edges:
        separator = tree.masks[parent] & tree.masks[child]
        given = sum_to(tables[parent], tree.masks[parent], separator)
        own = sum_to(tables[child], tree.masks[child], separator)
        tables[child] *= spread(_ratio(given, own), separator, tree.masks[child])
    return min(1.0, math.exp(log_scale + math.log(left))), tuple(tables)


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Divide, with zero if the whole is zero."""
    ratio: np.ndarray = np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)
    return ratio
