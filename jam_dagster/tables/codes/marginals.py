"""Marginals: the protocol of their sources, their counting, and iteration over many of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from jam_dagster.errors import InputError
from jam_dagster.tables.codes.counting import Blocks, add_counts
from jam_dagster.tables.codes.covering import Axes, covering
from jam_dagster.tables.domain.domain import Clique, Domain

Counts = npt.NDArray[np.signedinteger[Any]]
Columns = Sequence[npt.NDArray[np.integer[Any]]]

# Cells of a block of several marginals: its counts stay in the second-level cache.
_BLOCK_CELLS = 1 << 16
# Records by cell of a block, so that summing marginals from it takes far less than counting it.
_ROWS_A_CELL = 16
# The least cells of a block that is worth looking for: with fewer records, each marginal is one.
_LEAST_CELLS = 1 << 10
# Bytes of codes that wait to be counted together.
_MOST_WAITING = 1 << 27
_MOST_ROWS = 2**31 - 1
# A larger marginal takes more than half a gibibyte.
_MAX_CELLS = 1 << 27

HELD_CELLS = 1 << 25
"""Cells that `marginal_blocks` holds by default: 128 MiB of counts."""


@runtime_checkable
class MarginalSource(Protocol):
    """A source of marginals: a table in memory, a file, a database, a model."""

    @property
    def domain(self) -> Domain:
        """The domain of the records."""
        ...

    @property
    def records(self) -> int:
        """Number of records."""
        ...

    def marginal(self, clique: Clique) -> npt.NDArray[Any]:
        """Return the counts of a clique, an array of the shape of its sizes."""
        ...

    def marginals(self, cliques: Iterable[Clique]) -> dict[Clique, npt.NDArray[Any]]:
        """Return the counts of several cliques by clique, in the given order."""
        ...


@dataclass(frozen=True)
class RecordsOnly:
    """A private table of which nothing is known but its number of records.

    Whether its records are in the domain is not known.
    """

    domain: Domain
    records: int = field(repr=False)

    def marginal(self, clique: Clique) -> npt.NDArray[Any]:
        """Raise: no value was looked at."""
        raise TypeError("only the number of records of this table is known")

    def marginals(self, cliques: Iterable[Clique]) -> dict[Clique, npt.NDArray[Any]]:
        """Raise if a marginal is asked for."""
        return {clique: self.marginal(clique) for clique in cliques}


def marginal_blocks(
    source: MarginalSource, cliques: Iterable[Clique], *, cells: int = HELD_CELLS
) -> Iterator[dict[Clique, npt.NDArray[Any]]]:
    """Answer many marginals, a block at a time, in bounded memory.

    Each block is one call of ``source.marginals``; for a table in a file, one pass over it.
    Blocks follow the order of the domain, which groups cliques with a common prefix:
    `MarginalCounter` computes a prefix once.

    Parameters
    ----------
    source
        The source of the marginals.
    cliques
        Names of attributes in the order of the domain, in any order among themselves.
    cells
        The most cells that are held at a time, 4 or 8 bytes each. A block has at most half of
        them (or one marginal), because a loop holds one block while the next is counted.

    Yields
    ------
    dict
        The answers of a block by clique; every clique is in one block.

    Raises
    ------
    InputError
        A clique names an attribute that the domain lacks, or the source refuses it.
    """
    domain = source.domain
    sizes = {tuple(clique): domain.size(clique) for clique in cliques}
    block: list[Clique] = []
    held = 0
    for clique in sorted(sizes, key=lambda one: [domain.positions[name] for name in one]):
        if block and held + sizes[clique] > cells // 2:
            yield source.marginals(block)
            block, held = [], 0
        block.append(clique)
        held += sizes[clique]
    if block:
        yield source.marginals(block)


class MarginalCounter:
    """Counts marginals of records that come in chunks.

    Blocks of attributes that hold several marginals are counted, and the marginals summed from them
    (see `covering`): more records have larger blocks. Chunks wait until they are so many. A
    marginal that is a margin of another one is summed from it at the end. Memory is the counts, and
    at most 128 MiB of codes that wait, whatever the number of chunks.

    A clique names attributes in the order of the domain; ``()`` counts the records. Up to 2^31 - 1
    `records`, counts take four bytes instead of eight. If the number is not known (None), they take
    eight once so many were added.
    """

    def __init__(self, domain: Domain, cliques: Iterable[Clique], *, records: int | None) -> None:
        self._shape = domain.shape
        self._dtype = counts_dtype(records or 0)
        self._known = records is not None
        most = np.iinfo(np.int64).max if records is None else records
        self._axes = {
            tuple(clique): axes_of(domain, tuple(clique)) for clique in dict.fromkeys(cliques)
        }
        cells = {axes: _cells(domain, clique) for clique, axes in self._axes.items() if axes}
        self._whole = _summed_from(cells, most)
        self._counted = sorted(axes for axes in cells if axes not in self._whole)
        self._types = {
            axis: np.min_scalar_type(self._shape[axis] - 1)
            for axis in sorted({axis for axes in self._counted for axis in axes})
        }
        self._flat = {axes: np.zeros(cells[axes], self._dtype) for axes in self._counted}
        self._seen = 0
        self._waiting: list[dict[int, npt.NDArray[np.unsignedinteger[Any]]]] = []
        self._wait_rows = 0
        row_bytes = sum(one.itemsize for one in self._types.values())
        self._most_waiting = min(
            2 * _ROWS_A_CELL * _BLOCK_CELLS, _MOST_WAITING // max(1, row_bytes), _MOST_ROWS // 2
        )
        self._blocks: dict[int, Blocks] = {}

    def add(self, columns: Columns) -> None:
        """Count more records; their codes may be looked at later, and must stay as they are."""
        rows = len(columns[0])
        for start in range(0, rows, _MOST_ROWS // 2):
            part = slice(start, start + _MOST_ROWS // 2)
            self._waiting.append(
                {
                    axis: columns[axis][part].astype(of, copy=False)
                    for axis, of in self._types.items()
                }
            )
            self._wait_rows += len(columns[0][part])
            if self._wait_rows >= self._most_waiting:
                self._count()

    def _count(self) -> None:
        """Count what waits."""
        rows, self._wait_rows = self._wait_rows, 0
        waiting, self._waiting = self._waiting, []
        if not rows:
            return
        self._widen(rows)
        columns = {
            axis: waiting[0][axis]
            if len(waiting) == 1
            else np.concatenate([one.pop(axis) for one in waiting])
            for axis in self._types
        }
        add_counts(columns, self._shape, self._blocks_for(rows), self._flat)
        self._seen += rows

    def _blocks_for(self, rows: int) -> Blocks:
        """Return the blocks that are counted of so many records."""
        cells = min(_BLOCK_CELLS, rows // _ROWS_A_CELL)
        # Few sizes, so that a block is looked for once.
        cells = 1 << max(0, cells.bit_length() - 1) if cells >= _LEAST_CELLS else 0
        if cells not in self._blocks:
            self._blocks[cells] = (
                covering(self._shape, self._counted, cells)
                if cells
                else {axes: (axes,) for axes in self._counted}
            )
        return self._blocks[cells]

    def _widen(self, rows: int) -> None:
        """Make room for more records than were announced, if none were."""
        dtype = counts_dtype(self._seen + rows)
        if not self._known and dtype is not self._dtype:
            self._dtype = dtype
            self._flat = {axes: flat.astype(dtype) for axes, flat in self._flat.items()}

    def counts(self) -> dict[Clique, Counts]:
        """Return the counts of all added records, by clique in the given order.

        The arrays are not copies: later counts are made in them.
        """
        self._count()
        known: dict[Axes, Counts] = {(): np.array(self._seen, self._dtype)}
        for axes, flat in self._flat.items():
            known[axes] = flat.reshape([self._shape[axis] for axis in axes])
        # The longest first: a marginal may be summed from one that is itself summed.
        for axes in sorted(self._whole, key=len, reverse=True):
            whole = self._whole[axes]
            axis = next(i for i, one in enumerate(whole) if one not in axes)
            known[axes] = known[whole].sum(axis=axis, dtype=self._dtype)
        return {clique: known[axes] for clique, axes in self._axes.items()}


def _summed_from(cells: dict[Axes, int], records: int) -> dict[Axes, Axes]:
    """Return the marginal of one attribute more that a marginal is summed from."""
    whole: dict[Axes, Axes] = {}
    for axes in cells:
        # Summing a cell costs about as much as counting a record.
        if cells[axes] > records:
            continue
        for part in combinations(axes, len(axes) - 1):
            if part in cells and (part not in whole or cells[axes] < cells[whole[part]]):
                whole[part] = axes
    return whole


def counts_dtype(records: int) -> type[np.signedinteger[Any]]:
    """Return the smallest type that holds every count of so many records."""
    return np.int32 if records <= np.iinfo(np.int32).max else np.int64


def axes_of(domain: Domain, clique: Clique) -> Axes:
    """Return the axes of attributes, or raise InputError if they are not in their order."""
    if domain.canonical(clique) != clique:
        raise InputError(
            f"marginal {clique} is not in the order of the domain: use {domain.canonical(clique)}"
        )
    return tuple(domain.positions[name] for name in clique)


def _cells(domain: Domain, clique: Clique) -> int:
    cells = domain.size(clique)
    if cells > _MAX_CELLS:
        raise InputError(
            f"the marginal of {', '.join(clique)} has {cells:,} cells, more than {_MAX_CELLS:,}:"
            " use fewer attributes, or fewer bins"
        )
    return cells
