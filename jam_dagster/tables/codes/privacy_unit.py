"""Whose rows a private table holds, and how many of one person's stay in it.

Sensitivities for k rows a person hold only if nobody has more, so ingestion keeps at most k of
each person's. Which ones is drawn from a secret key, person by person: the ticket of a row is a
keyed hash of the person and of the row's place among the person's own rows, and the k smallest
tickets stay. For a fixed key, what is kept of one person therefore depends on no other person's
rows: neighbouring tables stay neighbours, with k rows at most between them. The same key keeps the
same rows of the same table again, so a release that stopped goes on with the rows that it began
with.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from jam_dagster.common.redaction import private_values
from jam_dagster.errors import DomainError, InputError, SourceError, SpecificationError
from jam_dagster.tables.domain.values import text_of
from jam_dagster.tables.sources.columns import each_value

if TYPE_CHECKING:
    import pandas as pd

    from jam_dagster.tables.codes.chunks import ChunkedTable
    from jam_dagster.tables.domain.domain import Domain

LARGEST_LIMIT = 1_000_000
"""The most rows of one person that can be asked for."""

KEY_BYTES = 32
"""Length of the key that decides which rows stay."""


@dataclass(frozen=True)
class PrivacyUnit:
    """Whom a release protects: a person, known by a column of the private table.

    Parameters
    ----------
    column
        The column that identifies a person. Two rows are of one person where its values are the
        same by their text (see `text_of`): the numbers 7 and 7.0 are. Texts, as which every value
        of a private CSV file is read, must be written alike: ``"7"`` and ``"7.0"`` are two persons.
    max_rows
        k, the most rows of one person that are kept.

    Raises
    ------
    SpecificationError
        If the column has no name, or `max_rows` is not a whole number from 1 to `LARGEST_LIMIT`.
    """

    column: str
    max_rows: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            raise SpecificationError(
                f"the privacy unit needs the name of the column that identifies a person, got"
                f" {self.column!r}."
            )
        whole = isinstance(self.max_rows, int) and not isinstance(self.max_rows, bool)
        if not whole or self.max_rows < 1:
            raise SpecificationError(
                f"max_rows must be a whole number of 1 or more, got {self.max_rows!r}."
            )
        if self.max_rows > LARGEST_LIMIT:
            raise SpecificationError(
                f"max_rows must be at most {LARGEST_LIMIT:,}: the noise grows with it, and hides"
                " everything long before."
            )

    def check(self, domain: Domain) -> None:
        """Raise unless the column is no attribute of a release's domain.

        Raises
        ------
        DomainError
            If it is: a released table must not say who its rows are about.
        """
        if self.column in domain.names:
            raise DomainError(
                f"column {self.column!r} identifies a person, so it cannot be an attribute of the"
                " domain too: take it out of the domain (and out of the public table, where the"
                " domain is drafted from it). Nothing was charged."
            )

    def limit(self, table: pd.DataFrame, key: bytes) -> pd.DataFrame:
        """Return a private table with at most k rows a person, and without the column.

        Parameters
        ----------
        table
            One row a record.
        key
            Decides which rows stay; secret, or the seed's in research.

        Returns
        -------
        DataFrame
            The rows that stay, in their order, indexed from 0.

        Raises
        ------
        InputError
            If the column is missing or occurs twice.
        PrivateValuesError
            If it has missing values, or values that have no text.
        """
        people = _People(self)
        people.check(table)
        with private_values():
            kept = people.kept([people.numbers_in(table)], key)
            return table.loc[kept, table.columns != self.column].reset_index(drop=True)

    def to_dict(self) -> dict[str, Any]:
        """Return the unit as plain values."""
        return {"column": self.column, "max_rows": self.max_rows}


class _People:
    """The persons of a table, numbered as they come."""

    def __init__(self, unit: PrivacyUnit) -> None:
        self._unit = unit
        self._numbers: dict[str, int] = {}

    def check(self, table: pd.DataFrame) -> None:
        """Raise unless the column that identifies a person is there, once."""
        column = self._unit.column
        found = list(table.columns).count(column)
        if found != 1:
            trouble = "no column" if not found else "more than one column"
            raise InputError(
                f"The private table has {trouble} {column!r}, which is to identify a person: check"
                " the privacy unit's column and the source. Nothing was charged."
            )

    def numbers_in(self, table: pd.DataFrame) -> npt.NDArray[np.int64]:
        """Return the person of each row, shape (rows,)."""
        column = self._unit.column
        numbers = each_value(table[column], self._number, -1, np.int64)
        if (numbers < 0).any():
            raise InputError(
                f"column {column!r} identifies a person and has missing values: filter those rows"
                " out, or fill in the identifier"
            )
        return numbers

    def _number(self, value: object) -> int:
        return self._numbers.setdefault(text_of(value), len(self._numbers))

    def kept(self, numbers: Sequence[npt.NDArray[np.int64]], key: bytes) -> npt.NDArray[np.bool_]:
        """Return which rows stay, shape (rows,), for the persons of the rows in their order."""
        persons = np.concatenate(numbers) if numbers else np.empty(0, np.int64)
        rows = np.bincount(persons, minlength=len(self._numbers))
        kept = rows[persons] <= self._unit.max_rows
        # Only who has more than k rows needs tickets.
        order = np.argsort(persons, kind="stable")
        order = order[~kept[order]]
        texts = list(self._numbers)
        tickets = np.empty(len(order), np.uint64)
        begin = 0
        for person in np.flatnonzero(rows > self._unit.max_rows):
            end = begin + rows[person]
            tickets[begin:end] = _tickets(texts[person], int(rows[person]), key)
            first = np.argsort(tickets[begin:end], kind="stable")[: self._unit.max_rows]
            kept[order[begin + first]] = True
            begin = end
        return kept


def _tickets(person: str, rows: int, key: bytes) -> npt.NDArray[np.uint64]:
    """Return a keyed hash of the person and of each place among the person's rows."""
    whose = hashlib.blake2b(key=key, digest_size=8, person=b"jam row limit")
    whose.update(person.encode("utf-8", "surrogatepass"))
    digests = bytearray()
    for place in range(rows):
        ticket = whose.copy()
        # Of fixed length and last, so that no text of a person can imitate it.
        ticket.update(place.to_bytes(8, "little"))
        digests += ticket.digest()
    return np.frombuffer(bytes(digests), np.dtype("<u8")).astype(np.uint64)


def secret_key() -> bytes:
    """Return a new key from the system's secure generator."""
    return secrets.token_bytes(KEY_BYTES)


def seeded_key(seed: int) -> bytes:
    """Return the key of research, always the same for a seed."""
    return hashlib.blake2b(
        str(seed).encode(), digest_size=KEY_BYTES, person=b"jam row seed"
    ).digest()


@dataclass(frozen=True, eq=False)
class LimitedParquet:
    """A Parquet file or folder of which at most k rows a person are read, in chunks.

    Making one reads the column that identifies a person; it holds a number a row while it does,
    and a byte a row afterwards.

    Parameters
    ----------
    source
        The file or folder; it must not change.
    unit
        Whose rows are limited to how many.
    kept
        Which rows stay, shape (rows,).
    """

    source: ChunkedTable
    unit: PrivacyUnit
    kept: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, source: ChunkedTable, unit: PrivacyUnit, key: bytes) -> LimitedParquet:
        """Choose the rows of a private file that stay; see `PrivacyUnit.limit`.

        Raises
        ------
        SourceError
            The table cannot be found or read.
        InputError
            As for `PrivacyUnit.limit`.
        """
        people = _People(unit)
        numbers = []
        for chunk in source.chunks([unit.column], private=True):
            people.check(chunk)
            with private_values():
                numbers.append(people.numbers_in(chunk))
        with private_values():
            return cls(source, unit, people.kept(numbers, key))

    def rows(self, *, private: bool) -> int:
        """Return the number of rows that stay."""
        return int(self.kept.sum())

    def chunks(self, columns: Sequence[str], *, private: bool) -> Iterator[pd.DataFrame]:
        """Read some columns of the rows that stay; see `ParquetSource.chunks`.

        Raises
        ------
        SourceError
            As for `ParquetSource.chunks`, and if the file has other rows than when they were
            chosen.
        """
        seen = 0
        for chunk in self.source.chunks(columns, private=private):
            kept = self.kept[seen : seen + len(chunk)]
            seen += len(chunk)
            if len(kept) == len(chunk):
                yield chunk.loc[kept]
        if seen != len(self.kept):
            raise SourceError(
                f"{self.describe()} changed while it was read: run again on a file that nobody"
                " writes to"
            )

    def describe(self) -> str:
        """Return the source, in words."""
        return self.source.describe()
