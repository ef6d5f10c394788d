"""Rows that keep what a model knows: a search that swaps sampled rows for other rows of the model.

Sampling rounds expectations to whole rows, which costs more than the model's own error where rows
are few. The search brings the marginals of a table closer to the model's. It sees the model and
nothing else, so it is post-processing and costs no budget. It counts its steps and works in whole
numbers, so it gives the same rows on every machine, compiled or not.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from jam_dagster.errors import InputError
from jam_dagster.models.base import answerable
from jam_dagster.models.graphical.kernels import library
from jam_dagster.tables import Clique, EncodedTable, Workload

if TYPE_CHECKING:
    from jam_dagster.models.base import Model

Rows = npt.NDArray[np.int32]
Numbers = npt.NDArray[np.int64]

_FINEST = 8
"""Most binary digits of a deviation behind the point."""

_FEWEST, _AT_ONCE = 16, 2**18
"""Fewest offers that NumPy judges at once, and most axes of their cells."""

_HEAVIEST = 2**12
"""The weight of the heaviest marginal."""

_LEAST_OFFERED = 4096
"""Fewest rows that the model samples at a time: few take as long as many."""


@dataclass(frozen=True)
class RowSearch:
    """How far a search goes.

    `lookups` limits the cells that are looked up, two for each row that is offered and each
    marginal; `offers` the model's rows offered for each row; `cells` the cells of all marginals
    together, beyond which the largest are left out.
    """

    MOST: ClassVar[Mapping[str, int]] = {"lookups": 10**9, "offers": 10**4, "cells": 2**26}
    """The largest values: who verifies a release repeats its search."""

    lookups: int = 150_000_000
    offers: int = 256
    cells: int = 2**23

    def __post_init__(self) -> None:
        for name, most in self.MOST.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
                raise InputError(
                    f"The search for rows needs a whole number of {name} from 1 to {most:,},"
                    f" got {value!r}."
                )

    def to_dict(self) -> dict[str, int]:
        """Return what `from_dict` takes, as JSON holds it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: object) -> RowSearch:
        """Return what `to_dict` described."""
        if not isinstance(content, Mapping) or set(content) != set(cls.MOST):
            raise InputError(f"The search for rows needs {', '.join(cls.MOST)}, got {content!r}.")
        return cls(**content)


@dataclass(frozen=True, eq=False)
class SearchedRows:
    """A table after its search.

    `before` and `after` are the mean weighted ``||table - model||_1 / n`` of the marginals that the
    search looked at.
    """

    table: EncodedTable
    before: float
    after: float
    swaps: int


def search_rows(
    model: Model,
    table: EncodedTable,
    workload: Workload,
    rng: np.random.Generator,
    search: RowSearch | None = None,
    *,
    compiled: bool | None = None,
) -> SearchedRows:
    """Swap rows of a table for other rows of the model, where that brings the workload closer.

    The search minimizes ``sum_t w_t ||M_t(table) - (n / total) M_t(model)||_1``. Each row of the
    table is offered a sampled row of the model in its place, which it takes where that brings the
    sum down; then again, from the first row on. Of a table with more rows than `RowSearch.lookups`
    allows, the first are searched; they are in random order.
    """
    search = search or RowSearch()
    if table.domain.digest != model.domain.digest or not table.records:
        raise InputError("The search for rows needs a table with rows, sampled from the model.")
    deviations = _Deviations.of(model, table, workload, search.cells, compiled)
    before, swaps = deviations.distance(), 0
    left = search.lookups // max(1, 2 * len(deviations.weights))
    rows = _matrix([column[:left] for column in table.columns])
    left = min(left, search.offers * table.records) if len(deviations.weights) else 0
    while left:
        offered = min(left, max(len(rows), _LEAST_OFFERED))
        swaps += deviations.swap(rows, _matrix(model.sample(offered, rng).columns))
        left -= offered
    columns = [
        np.concatenate([found.astype(column.dtype), column[len(rows) :]])
        for found, column in zip(rows.T, table.columns, strict=True)
    ]
    found = EncodedTable(table.domain, tuple(columns))
    return SearchedRows(found, before, deviations.distance(), swaps)


class _Counted(ctypes.Structure):
    _fields_ = [
        ("marginals", ctypes.c_int64),
        ("most", ctypes.c_int64),
        ("axes", ctypes.c_void_p),
        ("positions", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("offsets", ctypes.c_void_p),
        ("weights", ctypes.c_void_p),
    ]


@dataclass(eq=False)
class _Deviations:
    """By how much the counts of a table deviate from a model's, in whole units."""

    cells: npt.NDArray[np.int32]
    unit: int
    records: int
    axes: Numbers
    positions: Numbers
    strides: Numbers
    offsets: Numbers
    weights: Numbers
    compiled: bool | None = None
    _struct: _Counted = field(init=False, repr=False)

    def __post_init__(self) -> None:
        parts = (self.axes, self.positions, self.strides, self.offsets, self.weights)
        addresses = (part.ctypes.data for part in parts)
        self._struct = _Counted(len(self.weights), self.positions.shape[1], *addresses)

    @classmethod
    def of(
        cls,
        model: Model,
        table: EncodedTable,
        workload: Workload,
        most_cells: int,
        compiled: bool | None,
    ) -> _Deviations:
        domain = model.domain
        # A model of large cliques cannot compute every marginal that spans several.
        asked = answerable(model, workload.cliques)
        kept = _kept({clique: domain.size(clique) for clique in asked}, most_cells)
        answers, counts = dict(model.marginals(kept)), dict(table.marginals(kept))
        # The deviation of a cell is at most the number of rows, and fits into 32 bits.
        digits = max(0, min(_FINEST, 30 - table.records.bit_length()))
        scale = table.records / model.total
        most = max(map(len, kept), default=1)
        positions = np.zeros((len(kept), most), dtype=np.int64)
        strides = np.zeros((len(kept), most), dtype=np.int64)
        sizes = [domain.size(clique) for clique in kept]
        offsets = np.cumsum([0, *sizes], dtype=np.int64)
        cells = np.empty(offsets[-1], dtype=np.int32)
        for number, clique in enumerate(kept):
            shape = [domain.size((name,)) for name in clique]
            steps = np.cumprod([1, *shape[:0:-1]])[::-1]
            positions[number, : len(clique)] = [domain.positions[name] for name in clique]
            strides[number, : len(clique)] = steps
            # Popped, so that none is held next to its deviations.
            deviation = counts.pop(clique).astype(np.float64) - answers.pop(clique) * scale
            cells[offsets[number] : offsets[number + 1]] = np.rint(deviation * 2**digits).ravel()
        weights = dict(zip(workload.cliques, workload.weights, strict=True))
        heaviest = max(weights.values())
        return cls(
            cells,
            2**digits,
            table.records,
            np.array([len(clique) for clique in kept], dtype=np.int64),
            positions,
            strides,
            offsets[:-1].copy(),
            np.array(
                [max(1, round(_HEAVIEST * weights[clique] / heaviest)) for clique in kept],
                dtype=np.int64,
            ),
            compiled,
        )

    def total(self) -> int:
        """Return the weighted sum of all deviations."""
        starts = self.offsets.tolist()
        parts = zip(starts, [*starts[1:], len(self.cells)], self.weights.tolist(), strict=True)
        return sum(
            weight * int(np.abs(self.cells[start:stop].astype(np.int64)).sum())
            for start, stop, weight in parts
        )

    def distance(self) -> float:
        """Return the weighted mean of the marginals' distances, as shares of the rows."""
        whole = int(self.weights.sum()) * self.unit * self.records
        return self.total() / whole if whole else 0.0

    def swap(self, rows: Rows, others: Rows) -> int:
        """Offer others in place of rows, in turn; return the number taken."""
        loaded = None if self.compiled is False else library()
        if loaded is None:
            return self._swap_in_numpy(rows, others)
        taken: int = loaded.jam_swap_rows(
            *(ctypes.addressof(self._struct), self.cells.ctypes.data, self.unit),
            *(rows.ctypes.data, len(rows), others.ctypes.data, len(others), rows.shape[1]),
        )
        return taken

    def _swap_in_numpy(self, rows: Rows, others: Rows) -> int:
        """Judge many offers at once up to the first that is taken, which changes the others."""
        taken, at, block = 0, 0, _FEWEST
        most = max(_FEWEST, _AT_ONCE // max(1, self.positions.size))
        while at < len(others):
            offered = others[at : at + block]
            places = np.arange(at, at + len(offered)) % len(rows)
            left, entered = self._cells_of(rows[places]), self._cells_of(offered)
            both = _change(self.cells[left], -self.unit) + _change(self.cells[entered], self.unit)
            better = np.flatnonzero((self.weights * both * (left != entered)).sum(axis=1) < 0)
            if not len(better):
                at, block = at + len(offered), min(2 * block, most)
                continue
            first = int(better[0])
            self.cells[left[first]] -= self.unit
            self.cells[entered[first]] += self.unit
            rows[places[first]] = offered[first]
            taken, at, block = taken + 1, at + first + 1, max(_FEWEST, first)
        return taken

    def _cells_of(self, rows: Rows) -> Numbers:
        """Return the cell of each row in each marginal, shape (rows, marginals)."""
        cells: Numbers = (rows[:, self.positions] * self.strides).sum(axis=2) + self.offsets
        return cells


def _change(deviations: npt.NDArray[np.int32], step: int) -> Numbers:
    wide = deviations.astype(np.int64)
    changed: Numbers = np.abs(wide + step) - np.abs(wide)
    return changed


def _kept(sizes: dict[Clique, int], most_cells: int) -> list[Clique]:
    """Return the marginals that fit, the smallest first to be taken, in their order."""
    ascending = sorted(sizes, key=lambda clique: sizes[clique])
    sums = np.cumsum([sizes[clique] for clique in ascending])
    taken = set(ascending[: int((sums <= most_cells).sum())])
    return [clique for clique in sizes if clique in taken]


def _matrix(columns: list[npt.NDArray[np.integer]] | tuple[npt.NDArray[np.integer], ...]) -> Rows:
    return np.ascontiguousarray(np.stack([column.astype(np.int32) for column in columns], axis=1))
