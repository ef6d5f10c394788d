"""Rows from a calibrated junction tree, with the least possible rounding error."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jam_dagster.mechanisms.junction_tree import JunctionTree, bits


def sample_codes(
    tree: JunctionTree,
    beliefs: Sequence[np.ndarray],
    rows: int,
    rng: np.random.Generator,
) -> list[np.ndarray]:
    """Sample whole rows clique by clique, from the root of the tree outward.

    Parameters
    ----------
    tree
        The junction tree.
    beliefs
        Probabilities of each clique, attributes ascending.
    rows
        Number of rows.
    rng
        Random generator.

    Returns
    -------
    list of ndarray
        One int64 array of `rows` codes an attribute, in order of position.

    Notes
    -----
    Rows that agree on a separator form a group. The m rows of a group divide the clique's
    conditional probabilities, laid out cell after cell, into m even strata and take one random
    point of each (stratified sampling), so the count of every run of cells, be it one cell or all
    cells with one value of the first attribute, is within two of its expectation. The points are
    independent: one common offset (systematic sampling) would give all rows one value of an
    attribute whose cells recur with the period of the strata.
    """
    columns: list[np.ndarray | None] = [None] * len(tree.sizes)
    visits = [(0, 0)] + [(child, tree.masks[parent]) for parent, child in tree.edges]
    for clique, parent_mask in visits:
        mask = tree.masks[clique]
        known = list(bits(mask & parent_mask))
        fresh = list(bits(mask & ~parent_mask))
        if not fresh:
            continue
        ascending = list(bits(mask))
        table = beliefs[clique].transpose([ascending.index(p) for p in known + fresh])
        given = [column for p in known if (column := columns[p]) is not None]
        group = np.zeros(rows, dtype=np.int64)
        if known:
            group = np.ravel_multi_index(given, [tree.sizes[p] for p in known])
        shape = [tree.sizes[p] for p in fresh]
        cell = _stratified(table.reshape(-1, int(np.prod(shape))), group, rng)
        for p, codes in zip(fresh, np.unravel_index(cell, shape), strict=True):
            columns[p] = codes
    shuffled = rng.permutation(rows)
    return [column[shuffled] for column in columns if column is not None]


def _stratified(table: np.ndarray, group: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Choose a cell of ``table[group]`` for every row by stratified sampling within groups."""
    rows = group.size
    present, member, counts = np.unique(group, return_inverse=True, return_counts=True)
    cumulative = np.cumsum(table[present], axis=1)
    # Dividing by the last sum makes the last possible cell end at exactly one.
    cumulative /= cumulative[:, -1:]
    cumulative += np.arange(present.size)[:, None]

    # Rank of each row within its group, in random order.
    order = rng.permutation(rows)
    order = order[np.argsort(member[order], kind="stable")]
    starts = np.cumsum(counts) - counts
    rank = np.empty(rows, dtype=np.int64)
    rank[order] = np.arange(rows) - np.repeat(starts, counts)

    place = member + (rank + rng.random(rows)) / counts[member]
    # Rounding must not carry the last row of a group into the next one.
    place = np.minimum(place, np.nextafter(member + 1.0, 0.0))
    chosen = np.searchsorted(cumulative.ravel(), place, side="right")
    cell: np.ndarray = chosen - member * table.shape[1]
    return cell
