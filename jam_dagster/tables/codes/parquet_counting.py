"""Marginals of a Parquet table that is not held in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from jam_dagster.errors import SourceError
from jam_dagster.tables.codes.block_counts import KeptCounts, count_blocks
from jam_dagster.tables.codes.encode import ChunkedTable, each_encoded, encode_chunks
from jam_dagster.tables.codes.marginals import HELD_CELLS, Counts, MarginalCounter
from jam_dagster.tables.codes.table import EncodedTable
from jam_dagster.tables.domain.domain import Clique, Domain

ENCODED_BYTES = 1 << 30
"""Bytes of codes above which a table is not held in memory (see `encode_parquet`)."""


@dataclass(frozen=True, eq=False)
class ParquetTable:
    """A `MarginalSource` that counts marginals from a private Parquet file or folder.

    Constructing it reads and encodes every record once, so that every fault of the table appears
    before any charge, and counts the announced marginals. A call of `marginals` is one
    more pass, unless the last counts suffice. Memory is the counts and one chunk of
    records, whatever the number of records.

    Parameters
    ----------
    domain
        What each column may hold.
    source
        The file or folder, whole or at most k rows a person of it; it must not change.
    cliques
        Marginals that will be asked for, counted at once where their counts can be held.

    Raises
    ------
    SourceError
        The table cannot be found or read.
    InputError, DomainError, OutsideDomainError, PrivateValuesError
        As for `encode`.
    """

    domain: Domain
    source: ChunkedTable
    cliques: tuple[Clique, ...] = ()
    records: int = field(init=False)
    _kept: KeptCounts = field(default_factory=KeptCounts, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.cliques and _can_be_held(self.domain, self.cliques):
            most = self.source.rows()
            held = count_blocks(self._chunks(), self.domain, self.cliques, records=most)
            self._kept.held, records = held, held.records
        else:
            records = sum(one.records for one in self._chunks())
        object.__setattr__(self, "records", records)

    def marginal(self, clique: Clique) -> Counts:
        """Count a marginal; see `EncodedTable.marginal`."""
        return self.marginals([clique])[tuple(clique)]

    def marginals(self, cliques: Iterable[Clique]) -> dict[Clique, Counts]:
        """Count several marginals in one pass; see `EncodedTable.marginals`.

        Raises
        ------
        InputError
            As for `EncodedTable.marginal`.
        SourceError
            The table can no longer be read, or its number of records has changed.
        """
        wanted = [tuple(clique) for clique in cliques]
        if _can_be_held(self.domain, wanted):
            return self._kept.marginals(self.domain, wanted, self._unchanged, self.records)
        counter = MarginalCounter(self.domain, wanted, records=self.records)
        for chunk in self._unchanged():
            counter.add(chunk.columns)
        return counter.counts()

    def _unchanged(self) -> Iterator[EncodedTable]:
        seen = 0
        for chunk in self._chunks():
            yield chunk
            seen += chunk.records
        if seen != self.records:
            raise SourceError(
                f"{self.source.describe()} changed while its marginals were counted: run again"
                " while no process writes to it"
            )

    def _chunks(self) -> Iterator[EncodedTable]:
        chunks = self.source.chunks(self.domain.names)
        return each_encoded(chunks, self.domain)


def _can_be_held(domain: Domain, cliques: Iterable[Clique]) -> bool:
    return sum(map(domain.size, cliques)) <= HELD_CELLS


def encode_parquet(
    source: ChunkedTable,
    domain: Domain,
    cliques: Iterable[Clique] = (),
    *,
    limit: int = ENCODED_BYTES,
) -> EncodedTable | ParquetTable:
    """Encode a private Parquet table chunk by chunk, or leave it in its file if it is too large.

    Parameters
    ----------
    source
        The file or folder, whole or at most k rows a person of it.
    domain
        As for `encode`.
    cliques
        As for `ParquetTable`.
    limit
        The most bytes of codes to hold in memory: an attribute of up to 256 values takes one a
        record, up to 65,536 two. By default 2^30, such as 71 million records of 15 attributes.

    Returns
    -------
    EncodedTable or ParquetTable
        A source of the table's marginals: from memory they take seconds, from a file as long as
        reading and encoding it takes.

    Raises
    ------
    SourceError, InputError, DomainError, OutsideDomainError, PrivateValuesError
        As for `ParquetTable`.
    """
    records = source.rows()
    record_bytes = sum(np.min_scalar_type(size - 1).itemsize for size in domain.shape)
    if records * record_bytes > limit:
        return ParquetTable(domain, source, tuple(cliques))
    chunks = source.chunks(domain.names)
    return encode_chunks(chunks, domain, records=records)
