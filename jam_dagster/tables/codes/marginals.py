"""Marginals: the protocol of their sources, their counting, and iteration over many of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from jam_dagster.errors import InputError
from jam_dagster.tables.domain.domain import Clique, Domain

Counts = npt.NDArray[np.signedinteger[Any]]
Columns = Sequence[npt.NDArray[np.integer[Any]]]

# Indices of attributes in the domain, increasing.
_Axes = tuple[int, ...]

# Rows counted at a time: the codes of that many fit the second-level cache.
_BLOCK_ROWS = 1 << 16
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


@dataclass(frozen=True)
class PackedCounts:
    """The counts of a `MarginalCounter` over some records, for another of the same marginals."""

    records: int
    cells: npt.NDArray[np.unsignedinteger[Any]]


class MarginalCounter:
    """Counts marginals of records that come in chunks.

    Cliques are visited in lexicographic order, so the joint code of a and b is computed once for
    all triples that begin with ``(a, b)``. A marginal that is a margin of another one is summed
    from it. Memory is the counts and a few arrays of the length of a block of rows, whatever the
    length of a chunk.

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
        self._used = sorted({axis for axes in self._counted for axis in axes})
        self._flat = {axes: np.zeros(cells[axes], self._dtype) for axes in self._counted}
        self._seen = 0

    def add(self, columns: Columns) -> None:
        """Count more records."""
        rows = len(columns[0])
        self._widen(rows)
        ones = np.ones(min(rows, _BLOCK_ROWS), self._dtype)
        for start in range(0, rows, _BLOCK_ROWS):
            block = {
                axis: columns[axis][start : start + _BLOCK_ROWS].astype(np.intp)
                for axis in self._used
            }
            for axes, codes in _joint_codes(self._counted, block, self._shape):
                # With an array of ones of the same type, add.at is as quick as bincount, which
                # allocates all cells for every block.
                np.add.at(self._flat[axes], codes, ones[: len(codes)])
        self._seen += rows

    def _widen(self, rows: int) -> None:
        """Make room for more records than were announced, if none were."""
        dtype = counts_dtype(self._seen + rows)
        if not self._known and dtype is not self._dtype:
            self._dtype = dtype
            self._flat = {axes: flat.astype(dtype) for axes, flat in self._flat.items()}

    def packed(self) -> PackedCounts:
        """Return the counts of all added records, and begin anew."""
        most = max((int(flat.max()) for flat in self._flat.values()), default=0)
        cells = np.concatenate(
            [flat.astype(np.min_scalar_type(most)) for flat in self._flat.values()]
        )
        for flat in self._flat.values():
            flat[:] = 0
        seen, self._seen = self._seen, 0
        return PackedCounts(seen, cells)

    def add_packed(self, packed: PackedCounts) -> None:
        """Add what a counter of the same marginals and as many records counted."""
        start = 0
        self._widen(packed.records)
        for flat in self._flat.values():
            flat += packed.cells[start : start + flat.size]
            start += flat.size
        self._seen += packed.records

    def counts(self) -> dict[Clique, Counts]:
        """Return the counts of all added records, by clique in the given order.

        The arrays are not copies: `add` continues to count in them.
        """
        known: dict[_Axes, Counts] = {(): np.array(self._seen, self._dtype)}
        for axes, flat in self._flat.items():
            known[axes] = flat.reshape([self._shape[axis] for axis in axes])
        # The longest first: a marginal may be summed from one that is itself summed.
        for axes in sorted(self._whole, key=len, reverse=True):
            whole = self._whole[axes]
            axis = next(i for i, one in enumerate(whole) if one not in axes)
            known[axes] = known[whole].sum(axis=axis, dtype=self._dtype)
        return {clique: known[axes] for clique, axes in self._axes.items()}


def _summed_from(cells: dict[_Axes, int], records: int) -> dict[_Axes, _Axes]:
    """Return the marginal of one attribute more that a marginal is summed from."""
    whole: dict[_Axes, _Axes] = {}
    for axes in cells:
        # Summing a cell costs about as much as counting a record.
        if cells[axes] > records:
            continue
        for part in combinations(axes, len(axes) - 1):
            if part in cells and (part not in whole or cells[axes] < cells[whole[part]]):
                whole[part] = axes
    return whole


def _joint_codes(
    ordered: Sequence[_Axes], columns: dict[int, npt.NDArray[np.intp]], shape: tuple[int, ...]
) -> Iterator[tuple[_Axes, npt.NDArray[np.intp]]]:
    """Yield each clique with the joint code of its columns, reusing the codes of its prefix.

    The next iteration overwrites the array.
    """
    prefix: _Axes = ()
    codes: list[npt.NDArray[np.intp]] = []
    buffers: list[npt.NDArray[np.intp]] = []
    for axes in ordered:
        common = 0
        while common < min(len(prefix), len(axes) - 1) and prefix[common] == axes[common]:
            common += 1
        del codes[common:]
        for depth in range(common, len(axes)):
            column = columns[axes[depth]]
            if depth == 0:
                codes.append(column)
                continue
            if len(buffers) < depth:
                buffers.append(np.empty_like(column))
            joint = buffers[depth - 1]
            np.multiply(codes[-1], shape[axes[depth]], out=joint)
            joint += column
            codes.append(joint)
        prefix = axes
        yield axes, codes[-1]


def counts_dtype(records: int) -> type[np.signedinteger[Any]]:
    """Return the smallest type that holds every count of so many records."""
    return np.int32 if records <= np.iinfo(np.int32).max else np.int64


def axes_of(domain: Domain, clique: Clique) -> _Axes:
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
