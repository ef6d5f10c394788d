"""Hashes of encoded rows, and of whole tables of them in any order."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

_ROWS = 1 << 16
"""Rows that are hashed at a time, so that their hashes stay in the cache."""


def contents_of(
    columns: Sequence[npt.NDArray[np.integer[Any]]], secret: bytes
) -> npt.NDArray[np.uint64]:
    """Return a keyed hash of the codes of each row, shape (rows, 2).

    It is a sum of secret multiples of the codes, so that codes of 16 bits that differ have one hash
    with a probability of 2^-96.
    """
    drawn = hashlib.shake_256(b"jam row codes\0" + secret).digest(16 * len(columns))
    multiples = np.frombuffer(drawn, "<u8").reshape(len(columns), 2).astype(np.uint64)
    first, second = content = np.zeros((2, len(columns[0])), np.uint64)
    for codes, (one, other) in zip(columns, multiples, strict=True):
        wide = codes.astype(np.uint64)
        first += wide * one
        second += wide * other
    return content.T


class RowsDigest:
    """A digest of rows that come in chunks: the same in any order, and in chunks of any size.

    It is a sum of hashes of the rows, for large tables have no room to be sorted. Tables that
    differ have one digest with a probability of about 2^-96, unless they were made for it.
    """

    def __init__(self) -> None:
        self._rows = 0
        self._sums = np.zeros(2, np.uint64)

    def add(self, columns: Sequence[npt.NDArray[np.integer[Any]]]) -> None:
        """Add rows, one array of codes per attribute."""
        rows = len(columns[0])
        self._rows += rows
        for start in range(0, rows, _ROWS):
            chunk = [codes[start : start + _ROWS] for codes in columns]
            hashes = contents_of(chunk, b"digest of a table").T
            # The hashes are sums of codes: without this, so would their sum be.
            for shift, multiple in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
                hashes ^= hashes >> np.uint64(shift)
                hashes *= np.uint64(multiple)
            hashes ^= hashes >> np.uint64(31)
            self._sums += hashes.sum(axis=1)

    def hexdigest(self) -> str:
        """Return a SHA-256 of all rows so far; it must be keyed before it is stored."""
        sums = self._sums.astype("<u8").tobytes()
        return hashlib.sha256(f"{self._rows}\n".encode() + sums).hexdigest()
