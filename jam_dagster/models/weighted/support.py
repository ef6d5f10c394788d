"""The records that a distribution may weigh, and their marginals under any weights."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from jam_dagster.errors import DomainError, SpecificationError
from jam_dagster.models.measurement import check_marginal
from jam_dagster.tables import Clique, Domain, EncodedTable, MarginalSource, PublicTables
from jam_dagster.tables.codes.counting import JoinedColumns

LARGEST_DOMAIN_CELLS = 2**22
"""Cells of a domain that a distribution over all of them may have: 32 MiB of weights."""

_HELD_BYTES = 2**28
"""Largest number of joint codes that are kept, because every round asks for the same marginals."""


class Support:
    """Distinct records over a domain, in lexicographic order.

    None may occur twice, or be in an impossible combination of the domain. `whole` says whether
    these are all possible records.
    """

    def __init__(self, table: EncodedTable, *, whole: bool = False) -> None:
        self.table = table
        self.whole = whole
        self._codes: dict[Clique, npt.NDArray[np.unsignedinteger[Any]]] = {}
        self._held = 0

    @classmethod
    def of_domain(cls, domain: Domain) -> Support:
        """Return all possible records of a domain."""
        check_enumerable(domain)
        cells = np.arange(domain.size())
        columns = np.unravel_index(cells, domain.shape)
        every = EncodedTable(domain, tuple(columns))
        return cls(every.take(_possible(every)), whole=True)

    @classmethod
    def of_records(cls, table: EncodedTable) -> tuple[Support, npt.NDArray[np.int64]]:
        """Return the distinct records of a table, and how often each of them occurs.

        Records that the domain declares impossible are left out.
        """
        held = table.take(_possible(table))
        if not held.records:
            raise DomainError(
                "Every record of the public table is in a combination that the domain declares "
                "impossible: check the domain, or give another public table."
            )
        # The last key is the first to be sorted by.
        order = np.lexsort(held.columns[::-1])
        changes = np.zeros(held.records, dtype=bool)
        changes[0] = True
        for column in held.columns:
            ordered = column[order]
            changes[1:] |= ordered[1:] != ordered[:-1]
        starts = np.flatnonzero(changes)
        return cls(held.take(order[starts])), np.diff(starts, append=held.records)

    @property
    def domain(self) -> Domain:
        """The attributes and their values."""
        return self.table.domain

    @property
    def size(self) -> int:
        """Number of distinct records."""
        return self.table.records

    def codes(self, names: Sequence[str]) -> npt.NDArray[np.unsignedinteger[Any]]:
        """Return the index of every record in a flattened marginal, shape ``(size,)``."""
        clique = tuple(names)
        held = self._codes.get(clique)
        if held is not None:
            return held
        joint = np.zeros(self.size, dtype=np.intp)
        for name in clique:
            joint *= self.domain.sizes[name]
            joint += self.table.column(name)
        codes = joint.astype(np.min_scalar_type(max(0, self.domain.size(clique) - 1)))
        if self._held + codes.nbytes <= _HELD_BYTES:
            self._codes[clique] = codes
            self._held += codes.nbytes
        return codes

    def marginal(self, names: Sequence[str], weights: npt.NDArray[np.float64]) -> np.ndarray:
        """Add up the weights of the records in each cell of a marginal."""
        check_marginal(self.domain, names)
        sizes = [self.domain.sizes[name] for name in names]
        return RecordCells(self, [tuple(names)]).added(weights).reshape(sizes)

    def marginals(
        self, cliques: Iterable[Clique], weights: npt.NDArray[np.float64]
    ) -> dict[Clique, np.ndarray]:
        """Return several marginals; see `marginal`."""
        return {tuple(clique): self.marginal(clique, weights) for clique in cliques}

    def occupied(self, clique: Clique) -> npt.NDArray[np.bool_]:
        """Return which cells of a marginal hold records, flattened."""
        found = np.zeros(self.domain.size(clique), dtype=bool)
        found[self.codes(clique)] = True
        return found


class RecordCells:
    """The cells of a support's records in some marginals, one marginal after another."""

    def __init__(self, support: Support, cliques: Sequence[Clique]) -> None:
        self._support, self._cliques = support, cliques
        sizes = support.domain.sizes
        self._joined = JoinedColumns(
            [[support.table.column(name) for name in clique] for clique in cliques],
            [[sizes[name] for name in clique] for clique in cliques],
            support.size,
        )

    def added(self, weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the sum of the weights of the records in each cell."""
        added = self._joined.added(weights)
        if added is None:
            added = np.zeros(self._joined.cells)
            for here, codes in self._codes():
                added[here] = np.bincount(codes, weights=weights, minlength=here.stop - here.start)
        return added

    def looked_up(self, cells: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return for each record the sum of what is in its cells, shape ``(size,)``."""
        sums = self._joined.looked_up(cells)
        if sums is None:
            sums = np.zeros(self._support.size)
            for here, codes in self._codes():
                sums += cells[here][codes]
        return sums

    def _codes(self) -> Iterator[tuple[slice, npt.NDArray[np.unsignedinteger[Any]]]]:
        """Yield where the cells of each marginal are, and which of them each record is in."""
        start = 0
        for clique in self._cliques:
            end = start + self._support.domain.size(clique)
            yield slice(start, end), self._support.codes(clique)
            start = end


def check_enumerable(domain: Domain) -> None:
    """Raise SpecificationError if a domain has too many cells for a weight on each of them."""
    if domain.size() > LARGEST_DOMAIN_CELLS:
        raise SpecificationError(
            f"The domain has {domain.cells_text} cells, more than the {LARGEST_DOMAIN_CELLS:,} on "
            "which a distribution over the full domain is kept. Give fewer attributes, or fewer "
            "values each; or choose a mechanism that keeps no table of the domain, such as tilt, "
            "or pmw_pub and pep_pub, which weigh public records."
        )


def public_records(domain: Domain, public: MarginalSource) -> EncodedTable:
    """Return the records of a public table, or raise DomainError where there are none to weigh."""
    tables = PublicTables.of(domain, public).tables
    (found, *others) = tables.values()
    if others or found.domain.digest != domain.digest:
        raise DomainError(
            "A mechanism that weighs public records takes one public table, with all attributes "
            "of the domain. Give such a table, or choose a mechanism that does without, such as "
            "jam_pgm."
        )
    if not isinstance(found, EncodedTable):
        raise DomainError(
            "A mechanism that weighs public records needs them in memory, and this public table "
            "is only counted in its file: give fewer of its rows, or choose jam_pgm."
        )
    return found


def _possible(table: EncodedTable) -> npt.NDArray[np.bool_]:
    """Return which records are in no impossible combination."""
    allowed = np.ones(table.records, dtype=bool)
    for clique, impossible in table.domain.impossible_masks().items():
        allowed &= ~impossible[tuple(table.column(name) for name in clique)]
    return allowed


def log_frequencies(counts: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the logarithms of frequencies, of counts that are all positive."""
    logs: npt.NDArray[np.float64] = np.log(counts) - math.log(float(counts.sum()))
    return logs
