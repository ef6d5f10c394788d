"""Tables that are read a chunk of rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pandas as pd


class ChunkedTable(Protocol):
    """A table of raw values in chunks; `jam_dagster.tables.ParquetSource` is one."""

    def rows(self, *, private: bool) -> int:
        """Return the number of rows."""

    def chunks(self, columns: Sequence[str], *, private: bool) -> Iterator[pd.DataFrame]:
        """Yield the rows in their order, with some of their columns."""

    def describe(self) -> str:
        """Return where the table comes from, in words, without credentials."""
