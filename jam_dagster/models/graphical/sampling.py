"""Rows from a calibrated junction tree, with the least possible rounding error."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from jam_dagster.errors import InputError
from jam_dagster.models.graphical.junction_tree import JunctionTree, bits
from jam_dagster.models.graphical.kernels import library

if TYPE_CHECKING:
    from jam_dagster.models.base import Model
    from jam_dagster.tables import MarginalSource

# Cells that are summed up at a time: 8 MB, which the last cache holds.
_BLOCK_CELLS = 1 << 20

# Groups at most into which rows are sorted by counting them: 16 MB.
_MOST_GROUPS = 1 << 20


def sampling_distance(
    model: Model, table: MarginalSource, cliques: Iterable[Sequence[str]] | None = None
) -> tuple[float, float]:
    """Return mean and maximum of ``||sample - model||_1 / n`` over marginals of a sampled table.

    It is the error of rounding expectations to whole rows: 0 if they agree, at most 2. An
    unreadable value counts as a missing one, which rows have in its place. It is independent of the
    private data, given the model, and costs no budget.
    """
    if table.domain.digest != model.domain.digest:
        raise InputError("The table is over another domain than the model: sample it from it.")
    if cliques is None:
        cliques = model.cliques or [(name,) for name in model.domain.names]
    wanted = [model.domain.canonical(clique) for clique in cliques]
    if not wanted or not table.records or not model.total:
        raise InputError(
            "There is nothing to compare: give at least one clique, a table with rows and a model"
            " with a total above zero."
        )
    scale = table.records / model.total
    counts, expected = table.marginals(wanted), model.marginals(wanted)
    apart = (
        model.domain.as_released(clique, counts[clique] - expected[clique] * scale)
        for clique in wanted
    )
    errors = [float(np.abs(one).sum()) / table.records for one in apart]
    return sum(errors) / len(errors), max(errors)


def sample_codes(
    tree: JunctionTree,
    beliefs: Sequence[np.ndarray],
    rows: int,
    rng: np.random.Generator,
) -> list[np.ndarray]:
    """Sample whole rows clique by clique, from the root of the tree outward.

    Rows that agree on a separator form a group. The m rows of a group divide the clique's
    conditional probabilities, laid out cell after cell, into m even strata and take one random
    point of each (stratified sampling), so the count of every run of cells, be it one cell or all
    cells with one value of the first attribute, is within two of its expectation. The points are
    independent: one common offset (systematic sampling) would give all rows one value of an
    attribute with cells that recur with the period of the strata.

    Time is linear in the rows, times the number of cliques, and in the cells of the groups that
    occur. In addition to the codes, memory is about eight arrays of `rows` numbers and three of the
    cells of one group, or of 2^20 if that is more.
    """
    columns: dict[int, np.ndarray] = {}
    order: np.ndarray | None
    visits = [(0, 0)] + [(child, tree.masks[parent]) for parent, child in tree.edges]
    for clique, parent_mask in visits:
        mask = tree.masks[clique]
        known = list(bits(mask & parent_mask))
        fresh = list(bits(mask & ~parent_mask))
        if not fresh:
            continue
        ascending = list(bits(mask))
        table = beliefs[clique].transpose([ascending.index(p) for p in known + fresh])
        if columns:
            order, starts, present = _groups([columns[p] for p in known], table.shape, rows, rng)
        else:
            # No row has a value yet, so their order does not matter.
            order, starts, present = None, np.array([0, rows]), ()
        for p in fresh:
            columns[p] = np.empty(rows, dtype=np.min_scalar_type(tree.sizes[p] - 1))
        if len(fresh) == 1:
            _fill(columns[fresh[0]], table, len(known), present, starts, order, rng)
            continue
        cells = np.empty(rows, dtype=np.uint32)
        _fill(cells, table, len(known), present, starts, order, rng)
        shape = [tree.sizes[p] for p in fresh]
        for p, codes in zip(fresh, np.unravel_index(cells, shape), strict=True):
            columns[p][:] = codes
    shuffled = _permutation(rows, rng)
    return [columns.pop(p)[shuffled] for p in range(len(tree.sizes))]


def sample_given(
    given: Sequence[np.ndarray], table: np.ndarray, rows: int, rng: np.random.Generator
) -> np.ndarray:
    """Sample the last axis of a table for whole rows, whose places on the others are given.

    The strata are those of `sample_codes`. If nothing is given, rows are in random order.
    """
    codes = np.empty(rows, dtype=np.min_scalar_type(table.shape[-1] - 1))
    order, starts, present = _groups(given, table.shape, rows, rng)
    _fill(codes, table, len(given), present, starts, order, rng)
    return codes


def _groups(
    given: Sequence[np.ndarray], shape: Sequence[int], rows: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, ...]]:
    """Put rows that agree on the given columns together, in random order within each group.

    Returns the order of the rows, where each group starts in it and, last, the
    number of rows, and the codes of the groups, an array for each column.
    """
    order = _permutation(rows, rng)
    if not given:
        return order, np.array([0, rows]), ()
    sizes = shape[: len(given)]
    last = math.prod(sizes) - 1
    loaded = library()
    if loaded is not None and last < _MOST_GROUPS and order.dtype == np.int32:
        return _grouped(loaded, given, sizes, order)
    # In few bytes, since the next steps read it in the order of the permutation.
    group = np.ravel_multi_index(tuple(given), sizes).astype(np.min_scalar_type(last))[order]
    for shift in range(0, last.bit_length(), 16):
        # NumPy's stable sort of 16 bits is by radix, in linear time.
        step = np.argsort((group >> shift).astype(np.uint16), kind="stable")
        group, order = group[step], order[step]
    starts = np.flatnonzero(np.concatenate([[True], group[1:] != group[:-1], [True]]))
    return order, starts, np.unravel_index(group[starts[:-1]].astype(np.intp), sizes)


def _grouped(
    loaded: ctypes.CDLL, given: Sequence[np.ndarray], sizes: Sequence[int], order: np.ndarray
) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, ...]]:
    """Return what `_groups` does, by a sort that counts."""
    rows, groups = len(order), math.prod(sizes)
    group = np.zeros(rows, dtype=np.uint32)
    for codes, size in zip(given, sizes, strict=True):
        group *= np.uint32(size)
        group += codes.astype(np.uint32, copy=False)
    starts, space = np.empty(groups + 1, dtype=np.int64), np.empty(groups, dtype=np.int64)
    grouped = np.empty_like(order)
    arrays = (group, order, starts, space, grouped)
    loaded.jam_grouped(rows, groups, *(array.ctypes.data for array in arrays))
    present = np.flatnonzero(starts[1:] > starts[:-1])
    return grouped, np.append(starts[present], rows), np.unravel_index(present, sizes)


def _permutation(rows: int, rng: np.random.Generator) -> np.ndarray:
    """Return the row numbers in random order, as 32-bit integers if they fit."""
    return rng.permutation(np.arange(rows, dtype=np.int32 if rows < 2**31 else np.int64))


def _fill(
    codes: np.ndarray,
    table: np.ndarray,
    known: int,
    present: tuple[np.ndarray, ...],
    starts: np.ndarray,
    order: np.ndarray | None,
    rng: np.random.Generator,
) -> None:
    """Choose the cells of all rows by stratified sampling within groups.

    The first `known` axes of the table are those of the groups, `present` their codes. The `order`
    has the rows group by group; None: as they are.
    """
    loaded = library()
    fast = loaded is not None and (order is None or order.dtype == np.int32)
    width = math.prod(table.shape[known:])
    groups = len(starts) - 1
    block = max(1, _BLOCK_CELLS // width)
    for start in range(0, groups, block):
        stop = min(start + block, groups)
        chosen = table[tuple(one[start:stop] for one in present)].reshape(stop - start, width)
        rows_of = slice(int(starts[start]), int(starts[stop]))
        within = rng.random(rows_of.stop - rows_of.start)
        if loaded is not None and fast:
            chosen = np.ascontiguousarray(chosen, dtype=np.float64)
            space = np.empty(width)
            loaded.jam_stratified(
                *(stop - start, width, chosen.ctypes.data, starts[start:].ctypes.data),
                *(within.ctypes.data, None if order is None else order.ctypes.data),
                *(codes.ctypes.data, codes.itemsize, space.ctypes.data),
            )
            continue
        boundaries = np.cumsum(chosen, axis=1, dtype=np.float64)
        # Dividing by the last sum makes the last possible cell end at exactly one.
        boundaries /= boundaries[:, -1:].copy()
        boundaries += np.arange(stop - start)[:, None]
        boundaries = boundaries.ravel()

        counts = np.diff(starts[start : stop + 1])
        member = np.repeat(np.arange(stop - start), counts)
        place = np.arange(rows_of.start, rows_of.stop) - np.repeat(starts[start:stop], counts)
        place = member + (place + within) / np.repeat(counts, counts)
        # Rounding must not move the last row of a group into the next one.
        np.minimum(place, np.nextafter(member + 1.0, 0.0), out=place)
        # Places and boundaries both ascend: the shorter list is searched in the longer one.
        if len(boundaries) < len(place):
            below = np.searchsorted(place, boundaries, side="left")
            cell = np.repeat(np.arange(len(boundaries)), np.diff(below, prepend=0))
        else:
            cell = np.searchsorted(boundaries, place, side="right")
        codes[rows_of if order is None else order[rows_of]] = cell - member * width
