"""The privacy unit: the persons of a private table, and the limit on each person's rows.

Sensitivities for k rows a person hold only if no person has more, so ingestion keeps at most k rows
of each person. A secret key chooses the rows, person by person: the ticket of a row is a keyed hash
of the person and of the row's index among the person's own rows, and the rows with the k smallest
tickets stay. For a fixed key, the kept rows of one person therefore depend on no other person's
rows: neighbouring tables stay neighbours, with at most k rows between them. The same key keeps the
same rows of the same table, so an interrupted release resumes with its original rows. A database
that counts in place has no order of rows; see `jam_dagster.tables.codes.ibis_codes`.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from jam_dagster.common.redaction import private_values
from jam_dagster.errors import DomainError, InputError, SpecificationError
from jam_dagster.tables.domain.columns import each_value
from jam_dagster.tables.domain.values import text_of

if TYPE_CHECKING:
    import pandas as pd

    from jam_dagster.tables.domain.domain import Domain

LARGEST_LIMIT = 1_000_000
"""The largest value of `max_rows`."""

KEY_BYTES = 32
"""Length of the key that chooses the rows to keep."""


@dataclass(frozen=True)
class PrivacyUnit:
    """The privacy unit of a release: a person, identified by a column of the private table.

    Parameters
    ----------
    column
        The column that identifies a person. Two rows belong to one person if its values have the
        same text (see `text_of`), such as the numbers 7 and 7.0. A private CSV file is read as
        texts, which must be written alike: ``"7"`` and ``"7.0"`` are two persons.
    max_rows
        k, the number of rows kept for each person.

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
                f"max_rows must be at most {LARGEST_LIMIT:,}: the noise scale grows with max_rows;"
                " values this large make the release useless."
            )

    def check(self, domain: Domain) -> None:
        """Raise unless the column is no attribute of a release's domain.

        Raises
        ------
        DomainError
            If it is: a released table must not identify the persons of its rows.
        """
        if self.column in domain.names:
            raise DomainError(
                f"column {self.column!r} identifies a person, so it cannot be an attribute of the"
                " domain: remove it from the domain (and from the public table, if the domain is"
                " drafted from it). Nothing was charged."
            )

    def limit(self, table: pd.DataFrame, key: bytes) -> pd.DataFrame:
        """Return a private table with at most k rows a person, and without the column.

        Parameters
        ----------
        table
            One row a record.
        key
            Chooses the rows to keep; secret, or derived from the seed in research.

        Returns
        -------
        DataFrame
            The rows that stay, in their order, indexed from 0.

        Raises
        ------
        InputError
            If the column is missing or occurs twice.
        PrivateValuesError
            If the column has missing values, or values without a text.
        """
        kept = self.kept([table], key)
        with private_values():
            return table.loc[kept, table.columns != self.column].reset_index(drop=True)

    def kept(self, chunks: Iterable[pd.DataFrame], key: bytes) -> npt.NDArray[np.bool_]:
        """Return which rows of a private table `limit` keeps, shape (rows,), or raise as it does.

        Chunks have the rows, with the unit's column; a number a row is held.
        """
        # The persons, numbered in order of appearance.
        people: dict[str, int] = {}
        persons = [np.empty(0, np.int64)]
        for chunk in chunks:
            self._check_column(chunk)
            with private_values():
                persons.append(self._persons_in(chunk, people))
        with private_values():
            return _kept(np.concatenate(persons), list(people), self.max_rows, key)

    def _check_column(self, table: pd.DataFrame) -> None:
        found = list(table.columns).count(self.column)
        if found != 1:
            trouble = "no column" if not found else "more than one column"
            raise InputError(
                f"The private table has {trouble} {self.column!r} to identify a person: check"
                " the privacy unit's column and the source. Nothing was charged."
            )

    def _persons_in(self, table: pd.DataFrame, people: dict[str, int]) -> npt.NDArray[np.int64]:
        """Return the person of each row, shape (rows,)."""

        def number(value: object) -> int:
            return people.setdefault(text_of(value), len(people))

        numbers = each_value(table[self.column], number, -1, np.int64)
        if (numbers < 0).any():
            raise InputError(
                f"column {self.column!r} identifies a person and has missing values: filter those"
                " rows out, or fill in the identifier"
            )
        return numbers

    def count(self, chunks: Iterable[pd.DataFrame]) -> int:
        """Return how many rows of a private table `limit` keeps, by the unit's column alone.

        A row of nobody, whose identifier is missing or has no text, does not count. `limit` refuses
        a table with such a row, which a step that is not charged must not reveal.

        Parameters
        ----------
        chunks
            The rows, with the unit's column.

        Raises
        ------
        InputError
            If the column is missing or occurs twice.
        """
        rows = Counter[str | None]()
        for chunk in chunks:
            self._check_column(chunk)
            with private_values():
                rows.update(each_value(chunk[self.column], _text_or_none, None).tolist())
        del rows[None]
        return sum(min(number, self.max_rows) for number in rows.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the unit as plain values."""
        return {"column": self.column, "max_rows": self.max_rows}


def _text_or_none(value: object) -> str | None:
    try:
        return text_of(value)
    except Exception:  # A value in memory may be of any type.
        return None


def _kept(
    persons: npt.NDArray[np.int64], texts: list[str], most: int, key: bytes
) -> npt.NDArray[np.bool_]:
    """Return a mask of the rows to keep, given the person of each row and each person's text."""
    rows = np.bincount(persons, minlength=len(texts))
    kept = rows[persons] <= most
    # Only persons with more than k rows need tickets.
    order = np.argsort(persons, kind="stable")
    order = order[~kept[order]]
    begin = 0
    for person in np.flatnonzero(rows > most):
        end = begin + rows[person]
        drawn = tickets(texts[person], int(rows[person]), key)
        kept[order[begin + np.argsort(drawn, kind="stable")[:most]]] = True
        begin = end
    return kept


def tickets(person: str, rows: int, key: bytes) -> npt.NDArray[np.uint64]:
    """Return a keyed hash of the person and of each index among the person's rows."""
    by_person = hashlib.blake2b(key=key, digest_size=8, person=b"jam row limit")
    by_person.update(person.encode("utf-8", "surrogatepass"))
    digests = bytearray()
    for index in range(rows):
        ticket = by_person.copy()
        # The index has a fixed length and comes last, so that no person's text can imitate it.
        ticket.update(index.to_bytes(8, "little"))
        digests += ticket.digest()
    return np.frombuffer(bytes(digests), np.dtype("<u8")).astype(np.uint64)


def secret_key() -> bytes:
    """Return a new key from the system's secure generator."""
    return secrets.token_bytes(KEY_BYTES)


def seeded_key(seed: int) -> bytes:
    """Return the key for research, a function of the seed."""
    return hashlib.blake2b(
        str(seed).encode(), digest_size=KEY_BYTES, person=b"jam row seed"
    ).digest()
