"""Cells of the checked lines of a private CSV file, as texts.

Two readers know the same rules. Arrow reads plain lines several times as fast. pandas reads lines
that begin with a blank, that have a return or a NUL in a cell, or that have quotes and blanks after
separators. Both give each cell of lines that both can read the same text, so that no line
decides how another one is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from jam_dagster.common.deferred import pd
from jam_dagster.tables.domain.text_dtype import text_dtype

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class _AtOnce:
    """A file that is read at once: where pandas fills its buffer, blanks of a line can be lost."""

    content: bytes

    def read(self, size: int = -1) -> bytes:
        """Return the whole content, and nothing after it."""
        content, self.content = self.content, b""
        return content


@dataclass(frozen=True)
class CsvCells:
    """The reading of checked lines with `fields` cells each; a line ends in a line feed."""

    separator: str
    skipinitialspace: bool
    missing: tuple[str, ...]
    fields: int

    def read(self, lines: bytes, columns: Mapping[str, int]) -> pa.RecordBatch:
        """Return columns by their names and their places, a text or null each cell."""
        import pyarrow as pa

        places = [*columns.values()]
        # Readers take a byte order mark at the very beginning for none of the first cell.
        lines = b"\n" + lines
        # Neither reader decodes what it leaves out.
        lines.decode()
        if self.fields > 1 and b"\r" in lines:
            # A return of a blank line is no cell.
            lines = self._blank_lines.sub(b"\n", lines)
        plain = None if self.fields == 1 else self._plain(lines)
        if self.fields > 1 and not lines.strip(self._blanks + b"\n"):
            cells = [pa.array([], pa.string())] * len(places)
        elif plain is None:
            cells = self.by_pandas(lines, places)
        else:
            cells = self.by_arrow(plain, places)
        return pa.RecordBatch.from_arrays(cells, names=[*columns])

    @property
    def _blanks(self) -> bytes:
        """The characters that a line without a record may have."""
        return b" \t".replace(self.separator.encode(), b"")

    @cached_property
    def _blank_lines(self) -> re.Pattern[bytes]:
        return re.compile(rb"\n(?:[%b]*+\r?+\n)++" % self._blanks)

    @cached_property
    def _after_separators(self) -> re.Pattern[bytes]:
        return re.compile(rb"(?<=%b) +" % re.escape(self.separator.encode()))

    def _plain(self, lines: bytes) -> bytes | None:
        """Return lines that Arrow reads as pandas does; None if there may be no such lines."""
        if self.separator == " ":
            return None
        begins = [b"\n%c" % blank for blank in self._blanks]
        if any(one in lines for one in (b"\r", b"\0", *begins)):
            return None
        if not self.skipinitialspace or self.separator.encode() + b" " not in lines:
            return lines
        # A blank after a separator may be within quotes.
        return None if b'"' in lines else self._after_separators.sub(b"", lines)

    def by_arrow(self, lines: bytes, places: Sequence[int]) -> list[pa.Array]:
        """Return columns by Arrow's reader, which skips the empty line that is the first."""
        import pyarrow as pa
        from pyarrow import csv

        names = [str(place) for place in range(self.fields)]
        found = csv.read_csv(
            pa.BufferReader(lines),
            csv.ReadOptions(use_threads=False, column_names=names, block_size=len(lines) + 1),
            csv.ParseOptions(delimiter=self.separator),
            csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                include_columns=[str(place) for place in places],
                null_values=[*self._markers],
                strings_can_be_null=True,
            ),
        )
        return [_one_array(column) for column in found.columns]

    def by_pandas(self, lines: bytes, places: Sequence[int]) -> list[pa.Array]:
        """Return columns by pandas' reader, without the empty line that is the first."""
        import pyarrow as pa

        one = self.fields == 1
        options: Any = {} if one else {"na_values": [*self._markers]}
        found = pd.read_csv(
            cast(Any, _AtOnce(lines)),
            sep=self.separator,
            skipinitialspace=self.skipinitialspace,
            keep_default_na=False,
            dtype=text_dtype(),
            header=None,
            names=range(self.fields),
            # By default pandas lets a return within a cell end a line.
            lineterminator="\n",
            # In a file of one column a blank line is a missing value.
            skip_blank_lines=not one,
            **options,
        )
        if one:
            found = found.iloc[1:].mask(found.isin([*self.missing, ""]))
        texts = (pa.array(found[place], pa.string(), from_pandas=True) for place in places)
        return [_one_array(column) for column in texts]

    @cached_property
    def _markers(self) -> tuple[str, ...]:
        """The markers of missing values; pandas takes other texts of a marker's number, too."""
        found = dict.fromkeys(self.missing)
        for text in self.missing:
            with suppress(ValueError, OverflowError):
                number = float(text)
                found[str(number)] = None
                if number == int(number):
                    found |= dict.fromkeys((f"{int(number)}.0", str(int(number))))
        return tuple(found)


def _one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    import pyarrow as pa

    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return pa.concat_arrays(chunks) if chunks else pa.array([], pa.string())
