"""The canonical CSV form of a published synthetic table, and its hash."""

from __future__ import annotations

import hashlib
from typing import IO, TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

_FORM: dict[str, Any] = {"index": False, "lineterminator": "\n", "encoding": "utf-8"}


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Write a table as the CSV that its certificate holds the SHA-256 of."""
    table.to_csv(path, **_FORM)


def table_csv(table: pd.DataFrame) -> bytes:
    """Return the content that `write_table` writes."""
    text: str = table.to_csv(**_FORM)
    return text.encode()


def table_digest(table: pd.DataFrame) -> str:
    """Return the SHA-256 of the content that `write_table` writes, in hexadecimal."""
    hashing = _Hashing()
    table.to_csv(cast(IO[bytes], hashing), mode="wb", **_FORM)
    return hashing.digest.hexdigest()


class _Hashing:
    """A binary file that keeps only the hash of its content."""

    mode = "wb"
    closed = False

    def __init__(self) -> None:
        self.digest = hashlib.sha256()

    def write(self, content: bytes) -> int:
        self.digest.update(content)
        return len(content)

    def flush(self) -> None: ...

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False
