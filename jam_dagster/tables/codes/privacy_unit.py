"""The privacy unit: the persons of a private table, and the limit on each person's rows.

Sensitivities for k rows a person hold only if no person has more, so ingestion keeps at most k rows
of each person. A secret chooses the rows, person by person: each row has a ticket, a keyed hash
of the person and of the row (see `LimitedRows`), and the rows with the k smallest tickets stay. For
a fixed secret, the kept rows of one person therefore depend on no other person's
rows: neighbouring tables stay neighbours, with at most k rows between them. One secret keeps the
same rows of the same table, so an interrupted release resumes with its original rows.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from jam_dagster.common.deferred import pd
from jam_dagster.common.redaction import private_values
from jam_dagster.errors import DomainError, InputError, SpecificationError
from jam_dagster.tables.codes.encode import each_encoded
from jam_dagster.tables.codes.row_hashes import contents_of
from jam_dagster.tables.domain.columns import Batch, column_in, each_value, no_rows_of
from jam_dagster.tables.domain.values import text_of

if TYPE_CHECKING:
    from jam_dagster.tables.codes.table import EncodedTable
    from jam_dagster.tables.domain.domain import Domain

LARGEST_LIMIT = 1_000_000
"""The largest value of `max_rows`."""

SECRET_BYTES = 32
"""Length of the secret that chooses the rows to keep."""


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

    def limit(self, table: pd.DataFrame, secret: bytes) -> pd.DataFrame:
        """Return a private table with at most k rows a person, and without the column.

        The ticket of a row is that of its index among the person's rows.

        Parameters
        ----------
        table
            One row a record.
        secret
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
        persons = PersonNumbers(self)
        numbers = persons.of(table)
        with private_values():
            same = np.zeros((len(numbers), 2), np.uint64)
            kept = kept_rows(numbers, same, persons.texts, self.max_rows, secret)
            return table.loc[kept, table.columns != self.column].reset_index(drop=True)

    def check_column(self, table: pd.DataFrame) -> None:
        """Raise InputError unless a table has the unit's column, once."""
        found = list(table.columns).count(self.column)
        if found != 1:
            trouble = "no column" if not found else "more than one column"
            raise InputError(
                f"The private table has {trouble} {self.column!r} to identify a person: check"
                " the privacy unit's column and the source. Nothing was charged."
            )

    def count(self, batches: Iterable[Batch]) -> int:
        """Return how many rows of a private table `limit` keeps, by the unit's column alone.

        A row of nobody, whose identifier is missing or has no text, does not count. `limit` refuses
        a table with such a row, which a step that is not charged must not reveal.

        Parameters
        ----------
        batches
            The rows, with the unit's column.

        Raises
        ------
        InputError
            If the column is missing or occurs twice.
        """
        rows = Counter[str | None]()
        for batch in batches:
            persons = persons_in(batch, self)
            with private_values():
                rows.update(each_value(persons, _text_or_none, None).tolist())
        del rows[None]
        return sum(min(number, self.max_rows) for number in rows.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the unit as plain values."""
        return {"column": self.column, "max_rows": self.max_rows}


class PersonNumbers:
    """The persons of a private table that comes in batches, numbered in order of appearance.

    `text` says which values are one person.
    """

    def __init__(self, unit: PrivacyUnit, text: Callable[[object], str] = text_of) -> None:
        self._unit, self._text = unit, text
        self.people: dict[str, int] = {}

    @property
    def texts(self) -> list[str]:
        """The text of each person."""
        return list(self.people)

    def of(self, batch: Batch) -> npt.NDArray[np.int64]:
        """Return the number of each row's person, shape (rows,), or raise as `limit` does."""
        persons = persons_in(batch, self._unit)

        def number(value: object) -> int:
            return self.people.setdefault(self._text(value), len(self.people))

        with private_values():
            numbers = each_value(persons, number, -1, np.int64)
            if (numbers < 0).any():
                raise InputError(
                    f"column {self._unit.column!r} identifies a person and has missing values:"
                    " filter those rows out, or fill in the identifier"
                )
        return numbers


class LimitedRows:
    """The rows that stay of a private table that comes in batches: known once all are encoded.

    The ticket of a row is a keyed hash of its person, its codes, and its place among the person's
    rows of the same codes. No order of rows decides which codes stay: a database gives the same
    rows in another order each time.
    """

    def __init__(
        self, unit: PrivacyUnit, secret: bytes, text: Callable[[object], str] = text_of
    ) -> None:
        self._unit, self._secret = unit, secret
        self.persons = PersonNumbers(unit, text)
        self._numbers = [np.empty(0, np.int64)]
        self._contents = [np.empty((0, 2), np.uint64)]

    def encoded(self, batches: Iterable[Batch], domain: Domain) -> Iterator[EncodedTable]:
        """Yield all rows encoded, each batch by itself; 24 bytes a row are held."""
        for encoded in each_encoded(self._noted(batches), domain):
            self._contents.append(contents_of(encoded.columns, self._secret))
            yield encoded

    def _noted(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        for batch in batches:
            self._numbers.append(self.persons.of(batch))
            yield batch

    @property
    def numbers(self) -> npt.NDArray[np.int64]:
        """The person of each row, shape (rows,)."""
        return np.concatenate(self._numbers)

    def kept(self) -> npt.NDArray[np.bool_]:
        """Return which of all rows stay, shape (rows,)."""
        contents = np.concatenate(self._contents)
        with private_values():
            texts, most = self.persons.texts, self._unit.max_rows
            return kept_rows(self.numbers, contents, texts, most, self._secret)


def persons_in(batch: Batch, unit: PrivacyUnit) -> pd.Series[Any]:
    """Return a batch's column that identifies a person, or raise InputError."""
    unit.check_column(no_rows_of(batch))
    with private_values():
        return column_in(batch, unit.column)


def _text_or_none(value: object) -> str | None:
    try:
        return text_of(value)
    except Exception:  # A value in memory may be of any type.
        return None


def kept_rows(
    persons: npt.NDArray[np.int64],
    contents: npt.NDArray[np.uint64],
    texts: list[str],
    most: int,
    secret: bytes,
) -> npt.NDArray[np.bool_]:
    """Return a mask of the rows to keep, given each row's person and content, and the persons."""
    rows = np.bincount(persons, minlength=len(texts))
    kept = rows[persons] <= most
    # Only persons with more than k rows need tickets.
    order = np.flatnonzero(~kept)
    order = order[np.lexsort((contents[order, 1], contents[order, 0], persons[order]))]
    begin = 0
    for person in np.flatnonzero(rows > most):
        own = order[begin : begin + rows[person]]
        begin += len(own)
        drawn = tickets(texts[person], places(contents[own]), secret)
        kept[own[np.argsort(drawn, kind="stable")[:most]]] = True
    return kept


def places(contents: npt.NDArray[np.uint64]) -> Iterator[bytes]:
    """Yield each of sorted contents, and its place among the same ones, as bytes."""
    before, place = b"", 0
    for content in map(bytes, contents):
        place = place + 1 if content == before else 0
        before = content
        yield content + place.to_bytes(8, "little")


def tickets(person: str, rows: Iterable[bytes], secret: bytes) -> npt.NDArray[np.uint64]:
    """Return a keyed hash of the person and of each of the person's rows, texts of one length."""
    by_person = hashlib.blake2b(key=secret, digest_size=8, person=b"jam row limit")
    by_person.update(person.encode("utf-8", "surrogatepass"))
    digests = bytearray()
    for row in rows:
        ticket = by_person.copy()
        # A row comes last and has a fixed length, so that no person's text can imitate it.
        ticket.update(row)
        digests += ticket.digest()
    return np.frombuffer(bytes(digests), np.dtype("<u8")).astype(np.uint64)


def new_secret() -> bytes:
    """Return a new secret from the system's secure generator."""
    return secrets.token_bytes(SECRET_BYTES)


def seeded_secret(seed: int) -> bytes:
    """Return the secret for research, a function of the seed."""
    return hashlib.blake2b(
        str(seed).encode(), digest_size=SECRET_BYTES, person=b"jam row seed"
    ).digest()
