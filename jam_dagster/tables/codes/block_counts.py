"""Tables of which only counts are held: those of some marginals, counted in one pass."""

from __future__ import annotations

import hashlib
import json
import mmap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from tempfile import TemporaryFile

import numpy as np

from jam_dagster.common.operating_system import all_memory
from jam_dagster.errors import InputError
from jam_dagster.tables.codes.marginals import (
    HELD_CELLS,
    Counts,
    axes_of,
    counts_dtype,
)
from jam_dagster.tables.domain.domain import Clique, Domain

MANY = 1_000_000
"""Records that take longer to count than their counts take to be summed."""

# An engine that counts in one pass holds all of them: 4 GiB, 4 bytes each.
_MOST_CELLS = 1 << 30

KEPT_CELLS = 1 << 30
"""Four gibibytes of counts, which a table keeps for later calls if half of memory holds them."""

_FILED_CELLS = 1 << 27
"""Counts of more than half a gibibyte wait in a file, so that those of two tables fit in memory."""


@dataclass(frozen=True, eq=False)
class CountedTable:
    """A `MarginalSource` of counts: any marginal within a block is summed from the block's.

    `blocks` are the counts of `counted_marginals`, each of the shape of its attributes. They are as
    sensitive as the rows.
    """

    domain: Domain
    records: int = field(repr=False)
    blocks: Mapping[Clique, Counts] = field(repr=False)

    def marginal(self, clique: Clique) -> Counts:
        """Sum a marginal; see `marginals`."""
        return self.marginals([clique])[tuple(clique)]

    def marginals(self, cliques: Iterable[Clique]) -> dict[Clique, Counts]:
        """Sum each marginal from the smallest block that holds it; an InputError if none does."""
        return {tuple(clique): self._summed(tuple(clique)) for clique in cliques}

    def contents(self) -> str:
        """Return a SHA-256 of all counts; it must be keyed before it is stored."""
        digest = hashlib.sha256(f"{self.records}\n".encode())
        for block in sorted(self.blocks):
            digest.update(json.dumps(block).encode())
            digest.update(np.ascontiguousarray(self.blocks[block], dtype="<i8").data)
        return digest.hexdigest()

    @cached_property
    def cells(self) -> int:
        """The number of counts that are held."""
        return sum(counts.size for counts in self.blocks.values())

    def holds(self, cliques: Iterable[Clique]) -> bool:
        """Return whether some block holds each marginal."""
        return all(clique in self.blocks or self._blocks_with(clique) for clique in cliques)

    def check(self, cliques: Iterable[Clique]) -> None:
        """Raise the error of `marginals` if no block holds one of them."""
        for clique in cliques:
            self._block_of(clique)

    def _summed(self, clique: Clique) -> Counts:
        if not clique:
            return np.array(self.records, counts_dtype(self.records))
        block = self._block_of(clique)
        others = tuple(axis for axis, name in enumerate(block) if name not in clique)
        counts = self.blocks[block]
        if not others and self.cells > HELD_CELLS:
            # So many have no room for a copy.
            counts = counts.view()
            counts.flags.writeable = False
            return counts
        summed: Counts = np.asarray(counts.sum(axis=others, dtype=counts.dtype))
        return summed

    def _block_of(self, clique: Clique) -> Clique:
        axes_of(self.domain, clique)
        if clique in self.blocks:
            return clique
        found = self._blocks_with(clique)
        if not found:
            raise InputError(
                f"the marginal of {', '.join(clique)} was not counted: add it to the workload, or"
                " give a source that keeps rows, such as Parquet"
            )
        return self._order[min(found)]

    def _blocks_with(self, clique: Clique) -> set[int]:
        held = [self._with[name] for name in clique]
        return set.intersection(*held) if held else set(self._order)

    @cached_property
    def _order(self) -> dict[int, Clique]:
        return dict(enumerate(sorted(self.blocks, key=lambda one: self.blocks[one].size)))

    @cached_property
    def _with(self) -> dict[str, set[int]]:
        held: dict[str, set[int]] = {name: set() for name in self.domain.names}
        for index, block in self._order.items():
            for name in block:
                held[name].add(index)
        return held


def filed(blocks: dict[Clique, Counts]) -> dict[Clique, Counts]:
    """Return counts, read-only and mapped from a file if they are many.

    The file has no name, and no process opens it: it ends with the last array, and is gone if the
    process is killed. It is stored in ``TMPDIR``. If there is no room, the counts stay in memory.
    """
    if sum(counts.size for counts in blocks.values()) <= _FILED_CELLS:
        return blocks
    places: dict[Clique, int] = {}
    try:
        with TemporaryFile() as file:
            for clique, counts in blocks.items():
                places[clique] = file.tell()
                file.write(np.ascontiguousarray(counts).data)
            file.flush()
            held = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError:
        return blocks
    return {
        clique: np.frombuffer(held, counts.dtype, counts.size, places[clique]).reshape(counts.shape)
        for clique, counts in blocks.items()
    }


def counted_marginals(domain: Domain, cliques: Iterable[Clique]) -> list[Clique]:
    """Return the marginals that are counted for others: those that are no margin of another one.

    They follow from the domain and the marginals alone. More cells than one pass can count are an
    `InputError`.
    """
    wanted = sorted(dict.fromkeys(map(tuple, cliques)), key=lambda one: (-len(one), one))
    whole = _whole(wanted)
    cells = sum(domain.size(clique) for clique in whole)
    if cells > _MOST_CELLS:
        raise InputError(
            f"the marginals that the release may ask for have {cells:,} cells, more than the"
            f" {_MOST_CELLS:,} that are counted in one pass: give a workload of fewer attributes,"
            " fewer bins, or a source that keeps rows, such as Parquet"
        )
    return whole


def can_be_counted(domain: Domain, cliques: Iterable[Clique]) -> bool:
    """Return whether one pass can count some marginals."""
    return sum(domain.size(one) for one in _whole(sorted(cliques, key=len)[::-1])) <= _MOST_CELLS


def can_be_kept(domain: Domain, cliques: Iterable[Clique]) -> bool:
    """Return whether a table keeps the counts of some marginals."""
    return sum(map(domain.size, cliques)) <= min(KEPT_CELLS, all_memory() // 8)


def counts_bytes(domain: Domain, cliques: Iterable[Clique], records: int) -> int:
    """Return the memory of the counts that two tables of so many records keep, in bytes.

    Those that wait in a file are in memory while they are made, one table's after the other's.
    """
    counted = _whole(sorted(cliques, key=len, reverse=True))
    if records < MANY or not can_be_kept(domain, counted):
        return 0
    cells = sum(map(domain.size, counted))
    return counts_dtype(records)().itemsize * cells * (1 if cells > _FILED_CELLS else 2)


def _whole(wanted: Sequence[Clique]) -> list[Clique]:
    """Return the marginals that are no margin of another one, the longest first."""
    held: set[Clique] = set()
    kept = []
    for clique in wanted:
        if clique not in held:
            kept.append(clique)
            held.update(
                part for length in range(len(clique)) for part in combinations(clique, length)
            )
    return kept
