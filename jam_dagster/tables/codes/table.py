"""Tables of integer codes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from jam_dagster.common.deferred import pd
from jam_dagster.errors import InputError, OutsideDomainError
from jam_dagster.tables.codes.block_counts import (
    MANY,
    CountedTable,
    can_be_counted,
    can_be_kept,
    counted_marginals,
    filed,
)
from jam_dagster.tables.codes.marginals import (
    HELD_CELLS,
    Counts,
    MarginalCounter,
    counts_dtype,
)
from jam_dagster.tables.codes.row_hashes import RowsDigest
from jam_dagster.tables.domain.domain import Clique, Domain


@dataclass
class KeptCounts:
    """The counts of a table that were made last, for later calls."""

    held: CountedTable | None = None

    def marginals(
        self,
        domain: Domain,
        cliques: Sequence[Clique],
        chunks: Callable[[], Iterable[EncodedTable]],
        records: int,
    ) -> dict[Clique, Counts]:
        """Return marginals from what is held, or count the chunks of the table."""
        held = self.held
        if held is not None and held.holds(cliques):
            return held.marginals(cliques)
        if held is not None and held.cells > HELD_CELLS:
            # Counts that took long stay: only others are counted.
            other = [clique for clique in cliques if not held.holds([clique])]
            found = count_blocks(chunks(), domain, other, records=records).marginals(other)
            found |= held.marginals(clique for clique in cliques if clique not in found)
            return {clique: found[clique] for clique in cliques}
        counted = count_blocks(chunks(), domain, cliques, records=records)
        more = held is None or counted.cells > held.cells
        if more and can_be_kept(domain, counted.blocks):
            self.held = counted
        return counted.marginals(cliques)


@dataclass(frozen=True, eq=False)
class EncodedTable:
    """A table of integer codes over a domain; a `MarginalSource`.

    Parameters
    ----------
    domain
        The domain of the codes.
    columns
        One array of codes per attribute, each of shape (records,), kept in the smallest unsigned
        integer type and read-only.
    clipped
        For a public table as it was read, the share of the cells beyond the bounds of an attribute,
        if that is more than a fifth; see `jam_dagster.tables.sources.public.clipped_shares`.

    Raises
    ------
    InputError
        The columns do not fit the domain. No message holds a value.
    """

    domain: Domain
    columns: tuple[npt.NDArray[np.integer[Any]], ...]
    clipped: Mapping[str, float] = field(default_factory=dict, repr=False)
    _kept: KeptCounts = field(default_factory=KeptCounts, init=False, repr=False)

    def __post_init__(self) -> None:
        if len(self.columns) != len(self.domain.names):
            raise InputError(
                f"a table over {len(self.domain.names)} attributes needs as many columns, got"
                f" {len(self.columns)}"
            )
        columns = tuple(
            _smallest(np.asarray(column), size, name)
            for column, (name, size) in zip(self.columns, self.domain.sizes.items(), strict=True)
        )
        if len({len(column) for column in columns}) > 1:
            raise InputError("the columns of a table must be equally long")
        object.__setattr__(self, "columns", columns)

    def __repr__(self) -> str:
        # Without codes: errors and logs show this text, and the records may be private.
        return f"{type(self).__name__}({self.records} records, {len(self.columns)} attributes)"

    @property
    def records(self) -> int:
        """Number of records."""
        return len(self.columns[0])

    def column(self, name: str) -> npt.NDArray[np.integer[Any]]:
        """Return the codes of an attribute, shape (records,)."""
        return self.columns[self.domain.positions[self.domain.attribute(name).name]]

    def take(self, indices: npt.ArrayLike) -> EncodedTable:
        """Return the records at the indices (or where a mask is True), in their order."""
        chosen = np.asarray(indices)
        if chosen.dtype != bool:
            chosen = chosen.astype(np.intp)
        return EncodedTable(self.domain, tuple(column[chosen] for column in self.columns))

    def as_released(self) -> EncodedTable:
        """Return the records with missing values in place of unreadable ones."""
        columns = [
            column
            if one.unreadable_code is None
            else np.where(column == one.unreadable_code, one.missing_codes[-1], column)
            for one, column in zip(self.domain.attributes, self.columns, strict=True)
        ]
        changed = any(one is not own for one, own in zip(columns, self.columns, strict=True))
        return EncodedTable(self.domain, tuple(columns), self.clipped) if changed else self

    def to_frame(self) -> pd.DataFrame:
        """Return the codes as a DataFrame, columns in the order of the domain."""
        return pd.DataFrame(dict(zip(self.domain.names, self.columns, strict=True)))

    def contents(self) -> str:
        """Return a SHA-256 of the records in any order; it must be keyed before it is stored."""
        digest = RowsDigest()
        digest.add(self.columns)
        return digest.hexdigest()

    @classmethod
    def from_frame(cls, domain: Domain, frame: pd.DataFrame) -> EncodedTable:
        """Build a table from a DataFrame of codes; columns not in the domain are ignored.

        Raises
        ------
        InputError
            A column is missing, occurs twice or does not hold integers.
        OutsideDomainError
            A code is negative or too large for its attribute.
        """
        columns = []
        for name in domain.names:
            if name not in frame.columns:
                raise InputError(f"the table of codes has no column {name!r}: encode it again")
            column = frame[name]
            if not isinstance(column, pd.Series):
                raise InputError(f"the table of codes has column {name!r} twice: rename one")
            if not pd.api.types.is_integer_dtype(column.dtype) or column.isna().any():
                raise InputError(
                    f"column {name!r} of the table of codes does not hold integers: encode it again"
                )
            columns.append(column.to_numpy())
        return cls(domain, tuple(columns))

    def marginal(self, clique: Clique) -> Counts:
        """Count a marginal.

        Parameters
        ----------
        clique
            Names of attributes in the order of the domain; ``()`` counts the records.

        Returns
        -------
        int32 array of shape (size of each attribute of the clique); int64 for 2^31 records or more

        Raises
        ------
        InputError
            A name is unknown, the order is not the domain's, or there are too many cells.
        """
        return self.marginals([clique])[tuple(clique)]

    def marginals(self, cliques: Iterable[Clique]) -> dict[Clique, Counts]:
        """Count several marginals in one pass over the records (see `MarginalCounter`).

        For a million records or more, the counts are kept for later calls.

        Parameters
        ----------
        cliques
            Names of attributes in the order of the domain.

        Returns
        -------
        The counts by clique, in the given order.

        Raises
        ------
        InputError
            As `marginal`.
        """
        wanted = [tuple(clique) for clique in cliques]
        if self.records >= MANY and can_be_kept(self.domain, wanted):
            return self._kept.marginals(self.domain, wanted, lambda: [self], self.records)
        counter = MarginalCounter(self.domain, wanted, records=self.records)
        counter.add(self.columns)
        return counter.counts()


def _smallest(column: npt.NDArray[Any], size: int, name: str) -> npt.NDArray[np.integer[Any]]:
    if column.ndim != 1 or column.dtype.kind not in "ui":
        raise InputError(f"the codes of attribute {name!r} must be a one-dimensional integer array")
    if len(column) and (column.min() < 0 or column.max() >= size):
        raise OutsideDomainError(
            f"the codes of attribute {name!r} must be in 0 to {size - 1}: check that"
            " the table was encoded with this domain"
        )
    smallest = column.astype(np.min_scalar_type(size - 1), copy=False).view()
    smallest.flags.writeable = False
    return smallest


def count_blocks(
    tables: Iterable[EncodedTable],
    domain: Domain,
    cliques: Iterable[Clique],
    *,
    records: int | None = None,
) -> CountedTable:
    """Count at most `records` records that come in chunks, in one pass; none is kept."""
    counted = [(), *counted_marginals(domain, cliques)]
    counter = MarginalCounter(domain, counted, records=records)
    for table in tables:
        counter.add(table.columns)
    counts = counter.counts()
    found = int(counts.pop(()))
    dtype = counts_dtype(found)
    held = {one: block.astype(dtype, copy=False) for one, block in counts.items()}
    del counter, counts
    return CountedTable(domain, found, filed(held))


def counts_or_codes(
    tables: Iterable[EncodedTable],
    domain: Domain,
    cliques: Sequence[Clique],
    *,
    records: int,
) -> CountedTable | EncodedTable:
    """Count chunks as `count_blocks` does; keep their codes if no pass can, or nothing is named."""
    if cliques and can_be_counted(domain, cliques):
        return count_blocks(tables, domain, cliques, records=records)
    return joined(tables, domain)


def joined(
    tables: Iterable[EncodedTable], domain: Domain, *, records: int | None = None
) -> EncodedTable:
    """Return the batches of a table as one; memory is its codes, and those of a column once more.

    An InputError says if there are more or fewer than `records`.
    """
    columns: list[list[npt.NDArray[Any]]] = [[] for _ in domain.names]
    for table in tables:
        for parts, codes in zip(columns, table.columns, strict=True):
            parts.append(codes)
    whole = []
    while columns:
        # The parts of a column are let go before the next column is joined.
        whole.append(np.concatenate(columns.pop(0)))
    if records not in (None, len(whole[0])):
        raise InputError(
            "the number of rows changed since the table was opened: run again while no process"
            " writes to it"
        )
    return EncodedTable(domain, tuple(whole))


def digest_of(tables: Mapping[str, EncodedTable]) -> str:
    """Return a SHA-256 of public tables by name, which detects a changed public table."""
    digest = hashlib.sha256()
    for name, table in tables.items():
        if name:
            digest.update(f"{name} {table.records} {table.domain.names}\n".encode())
        for column in table.columns:
            digest.update(np.ascontiguousarray(column, dtype="<u4").tobytes())
    return digest.hexdigest()
