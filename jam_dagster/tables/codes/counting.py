"""Counting of blocks of attributes, in C where it was compiled, else in NumPy."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from jam_dagster.common.compiled import compiled
from jam_dagster.tables.codes.covering import Axes

Column = npt.NDArray[np.integer[Any]]
Cells = npt.NDArray[np.signedinteger[Any]]
Blocks = Mapping[Axes, Sequence[Axes]]

VERSION = 3
"""Version of the interface between this module and counting.c."""

LIBRARY = Path(__file__).with_name("_counting.so")

# Rows counted at a time in NumPy: the codes of that many fit the second-level cache.
_BLOCK_ROWS = 1 << 16
# Codes read from which on a second thread is worth its start.
_LARGE = 1 << 20


@cache
def library() -> ctypes.CDLL | None:
    """Return the compiled loops; None without any, or if ``JAM_KERNELS=numpy`` is set."""
    loaded = compiled(LIBRARY, VERSION)
    if loaded is not None:
        pointer, number = ctypes.c_void_p, ctypes.c_int64
        loaded.jam_count.argtypes = [
            *(pointer, pointer, pointer, number),
            *(number, pointer, pointer, pointer, pointer, pointer),
            *(number, pointer, pointer),
        ]
        loaded.jam_count.restype = None
        for added in (loaded.jam_add_weights, loaded.jam_look_up):
            added.argtypes = [
                *(pointer, pointer, pointer, pointer),
                *(number, number, pointer, pointer),
            ]
            added.restype = None
    return loaded


def add_counts(
    columns: Mapping[int, Column],
    shape: Sequence[int],
    blocks: Blocks,
    counts: Mapping[Axes, Cells],
) -> None:
    """Add the numbers of records by their codes to marginals.

    Parameters
    ----------
    columns
        By attribute, codes in one, two or four bytes, shape (records,), contiguous.
    shape
        Number of values of each attribute.
    blocks
        Those that are counted, each with the marginals within it, which no other block has.
    counts
        Of each marginal, flat and contiguous, all in four or all in eight bytes.
    """
    if not blocks:
        return
    loaded = library()
    if loaded is None:
        _add_by_numpy(columns, shape, blocks, counts)
        return
    rows = len(next(iter(columns.values())))
    held = {axis: np.ascontiguousarray(column) for axis, column in columns.items()}
    pointers, widths = np.zeros(len(shape), np.uintp), np.zeros(len(shape), np.int64)
    for axis, column in held.items():
        pointers[axis], widths[axis] = column.ctypes.data, column.itemsize
    targets = [(block, one) for block, within in blocks.items() for one in within]
    kept = [sum(1 << block.index(axis) for axis in one) for block, one in targets]
    cells = [counts[one] for _, one in targets]
    arrays = [
        pointers,
        widths,
        np.array(shape, np.int64),
        np.array([0, *accumulate(map(len, blocks))], np.int64),
        np.array([axis for block in blocks for axis in block], np.int64),
        np.array([0, *accumulate(map(len, blocks.values()))], np.int64),
        np.array(kept, np.int64),
        np.array([one.ctypes.data for one in cells], np.uintp),
    ]
    given = [one.ctypes.data for one in arrays]
    spare = max(
        (prod(shape[axis] for axis in block) for block, of in blocks.items() if of != (block,)),
        default=1,
    )
    spares = [np.empty(spare, np.int32)]
    if rows * len(arrays[4]) >= _LARGE:
        spares.append(np.empty(spare, np.int32))
    loaded.jam_count(
        *given[:3],
        rows,
        len(blocks),
        *given[3:],
        cells[0].itemsize > np.dtype(np.int32).itemsize,
        spares[0].ctypes.data,
        spares[1].ctypes.data if len(spares) > 1 else None,
    )


class JoinedColumns:
    """The cells of records in some marginals, as compiled loops join them from columns of codes.

    Parameters
    ----------
    columns
        Of each marginal, the codes of its attributes in one, two or four bytes, shape (records,).
    sizes
        Of each marginal, the number of values of each attribute.

    Raises
    ------
    ValueError
        A column has another length.
    """

    def __init__(
        self, columns: Sequence[Sequence[Column]], sizes: Sequence[Sequence[int]], records: int
    ) -> None:
        flat = [np.ascontiguousarray(column) for marginal in columns for column in marginal]
        if {len(column) for column in flat} - {records}:
            raise ValueError("each record needs a code of each attribute")
        lengths = [size for marginal in sizes for size in marginal]
        starts = [0, *accumulate(map(len, columns))]
        self.records, self.cells = records, sum(map(prod, sizes))
        self._kept = flat
        self._given = (
            (ctypes.c_void_p * len(flat))(*(one.__array_interface__["data"][0] for one in flat)),
            (ctypes.c_int64 * len(flat))(*(one.itemsize for one in flat)),
            (ctypes.c_int64 * len(flat))(*lengths),
            (ctypes.c_int64 * len(starts))(*starts),
            len(columns),
            records,
        )

    def added(self, weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64] | None:
        """Return the sum of the weights of the records in each cell, one marginal after another.

        They are added in the order of the records, as `numpy.bincount` does. None if no loops were
        compiled.
        """
        cells = np.zeros(self.cells)
        return cells if self._run("jam_add_weights", weights, self.records, cells) else None

    def looked_up(self, cells: npt.NDArray[np.float64]) -> npt.NDArray[np.float64] | None:
        """Return for each record the sum of what is in its cells, one marginal after another.

        None if no loops were compiled.
        """
        sums = np.zeros(self.records)
        return sums if self._run("jam_look_up", cells, self.cells, sums) else None

    def _run(
        self,
        name: str,
        given: npt.NDArray[np.float64],
        length: int,
        found: npt.NDArray[np.float64],
    ) -> bool:
        if given.shape != (length,):
            raise ValueError(f"expected {length} numbers, got shape {given.shape}")
        loaded = library()
        if loaded is not None:
            held = np.ascontiguousarray(given, dtype=np.float64)
            getattr(loaded, name)(*self._given, held.ctypes.data, found.ctypes.data)
        return loaded is not None


def _add_by_numpy(
    columns: Mapping[int, Column],
    shape: Sequence[int],
    blocks: Blocks,
    counts: Mapping[Axes, Cells],
) -> None:
    rows = len(next(iter(columns.values())))
    for block, within in blocks.items():
        sizes = [shape[axis] for axis in block]
        whole = within[0] == block and len(within) == 1
        cells = counts[block] if whole else np.zeros(prod(sizes), np.int32)
        ones = np.ones(min(rows, _BLOCK_ROWS), cells.dtype)
        for codes in _joint_codes(block, columns, shape, rows):
            # With an array of ones of the same type, add.at is as quick as bincount, which
            # allocates all cells for every block of rows.
            np.add.at(cells, codes, ones[: len(codes)])
        if not whole:
            for one in within:
                lacks = tuple(place for place, axis in enumerate(block) if axis not in one)
                found = cells.reshape(sizes).sum(axis=lacks, dtype=counts[one].dtype)
                counts[one][...] += found.ravel()


def _joint_codes(
    block: Axes, columns: Mapping[int, Column], shape: Sequence[int], rows: int
) -> Iterator[npt.NDArray[np.intp]]:
    for start in range(0, rows, _BLOCK_ROWS):
        codes = np.zeros(min(_BLOCK_ROWS, rows - start), np.intp)
        for axis in block:
            codes *= shape[axis]
            codes += columns[axis][start : start + _BLOCK_ROWS]
        yield codes
