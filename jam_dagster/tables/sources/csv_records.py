"""Records of a private CSV file, each read from its own bytes alone.

An ordinary parser lets a quote at the beginning of a field join lines up to the next quote, so one
record can change the number of the others. Here a line is a record. Each line is checked by itself,
and the file is refused if a line leaves a quote open or has another number of fields than the
header. Each line is then parsed independently. The end of the header's line decides how lines end:
elsewhere a single return, or line feed, belongs to its cell.

One regular expression describes a record. It never backtracks, so that each byte of a block is
looked at once.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from typing import IO, TYPE_CHECKING

import numpy as np

from jam_dagster.common.deferred import pd
from jam_dagster.common.redaction import private_values
from jam_dagster.errors import SourceError
from jam_dagster.tables.domain.column_notes import AS_PARQUET

if TYPE_CHECKING:
    from codecs import IncrementalDecoder

BLOCK_BYTES = 1 << 20
"""Bytes that are read at a time."""

_HEADER_END = re.compile(rb"\s*+[^\r\n]++(\r\n|\r|\n)")
"""The end of the first line that is not blank. It is schema, which no record decides."""
_SWAPPED = bytes.maketrans(b"\r\n", b"\n\r")
_MARK = b"\xef\xbb\xbf"
# In these encodings, one line decides how the next ones are decoded.
_STATEFUL = re.compile(r"utf[-_]?7|iso2022|hz$|.*escape|punycode|idna")


@cache
def cuts_at_nul() -> bool:
    """Whether this pandas drops the rest of a field after a NUL, as those before 3.1 do.

    Such a file is refused: its values must not depend on the version of pandas.
    """
    return bool(pd.read_csv(BytesIO(b"a\nx\0y\n"), dtype=object)["a"].tolist() == ["x"])


def nul_fault(what: str) -> SourceError:
    """Return the error of a file that holds a NUL, which this pandas cannot read."""
    return SourceError(
        f"{what} holds a NUL, and pandas {pd.__version__} drops what follows it in a field: install"
        " pandas 3.1 or later, or remove the NUL"
    )


@dataclass(frozen=True)
class Form:
    """The separation of a record's fields, by one ASCII character."""

    separator: str
    skipinitialspace: bool = True

    def fields(self, line: bytes) -> int | None:
        """Return the number of fields of a single line, 0 for a blank one."""
        if re.fullmatch(self._blank, line):
            return 0
        before, field, between, after = map(re.compile, self._parts)
        count, found = 0, before.match(line)
        while found is not None and (found := field.match(line, found.end())):
            count += 1
            if after.fullmatch(line, found.end()):
                return count
            found = between.match(line, found.end())
        return None

    def lines_of(self, fields: int | None) -> re.Pattern[bytes]:
        """Return a pattern of lines with a number of fields, or any; blank lines are among them."""
        before, field, between, after = self._parts
        others = b"(?:%b%b)" % (between, field)
        others += b"*+" if fields is None else b"{%d}" % (fields - 1)
        record = b"(?!%b\n)%b" % (self._blank, before + field + others + after)
        # A file of one column has blank records.
        return re.compile(b"(?:(?:%b|%b)\n)*+" % (record, self._blank))

    @property
    def _blank(self) -> bytes:
        """The pattern of a line without a record; a return may remain of a line break."""
        blanks = b" \t".replace(self.separator.encode(), b"")
        return rb"[%b]*+\r?+" % blanks

    @property
    def _parts(self) -> tuple[bytes, bytes, bytes, bytes]:
        """Return the patterns before a line's fields, of a field, and between and after fields."""
        quoted = rb'"[^"\n]*+(?:""[^"\n]*+)*+"'
        separator = re.escape(self.separator.encode())
        blanks = b" *+" if self.skipinitialspace else b""
        # A quote after the closing one, or within an unquoted field, is an ordinary character.
        others = rb"[^%b\n]*+" % separator
        return b"", b'%b(?:%b%b|(?!")%b)' % (blanks, quoted, others, others), separator, b""


class CsvRecords:
    """A private CSV file as a stream of UTF-8, checked before a reader receives it.

    If `checked`, `header` is the first line that is not blank, without its line break. A header
    that is not a single record raises `SourceError`. A line that is not a record with as many
    fields, or may have ended a header, raises `PrivateValuesError`, on construction or while
    reading. If not `checked`, `header` is empty, and `lines` yields lines with any number of
    fields: one with an open quote raises `PrivateValuesError`, since it may be a part of a record,
    or hold several.
    """

    def __init__(
        self, file: IO[bytes], what: str, encoding: str, form: Form, *, checked: bool = True
    ) -> None:
        self._file, self._what, self._form = file, what, form
        self._decoder = _decoder(encoding, what, "strict" if checked else "replace")
        self._blocks = self._checked() if checked else self._whole_records()
        self.header, self._count = b"", 0
        self._end = b""
        self._lines = form.lines_of(1)
        self._first = next(self._blocks, b"")

    def read(self, size: int = -1) -> bytes:
        """Return the next whole records, whatever `size` is; empty at the end."""
        first, self._first = self._first, b""
        return first or next(self._blocks, b"")

    def blocks(self) -> Iterator[bytes]:
        """Yield the checked lines below the header, whole ones, some at a time."""
        begin = len(self.header) + 1
        for block in iter(self.read, b""):
            yield block[block.index(self.header) + begin :] if begin else block
            begin = 0

    def lines(self) -> Iterator[str]:
        """Yield the header and the records as texts; bytes that are no text are replaced.

        Blank lines are no records, except below the header of a file of one column.
        """
        blank = re.compile(self._form._blank)
        closed = self._form.lines_of(None)
        one_column = None
        for block in iter(self.read, b""):
            if not closed.fullmatch(block):
                with private_values():
                    raise self._fault()
            for line in _each_record(block):
                if blank.fullmatch(line):
                    if one_column:
                        yield ""
                    continue
                if one_column is None:
                    one_column = self._form.fields(line) == 1
                yield line.decode(errors="replace")

    def _checked(self) -> Iterator[bytes]:
        for block in self._whole_records():
            if not self._count:
                self._take_header(block)
            if self._count and not self._are_records(block):
                with private_values():
                    raise self._fault()
            if cuts_at_nul() and b"\0" in block:
                with private_values():
                    raise nul_fault(self._what)
            yield block

    def _are_records(self, block: bytes) -> bool:
        """Return whether all lines are blank, or records with as many fields as the header."""
        if self._count == 1 or self._form.separator == " " or b'"' in block:
            return self._lines.fullmatch(block) is not None
        # Without quotes each separator ends a field.
        bytes_of = np.frombuffer(block, np.uint8)
        ends = np.flatnonzero(bytes_of == ord("\n"))
        separators = np.flatnonzero(bytes_of == ord(self._form.separator))
        number = np.diff(np.searchsorted(separators, ends), prepend=0)
        blank = re.compile(self._form._blank)
        return all(
            blank.fullmatch(block, ends[line - 1] + 1 if line else 0, ends[line])
            for line in np.flatnonzero(number != self._count - 1).tolist()
        )

    def _take_header(self, block: bytes) -> None:
        """Set the number of fields of a record from the first line that is not blank."""
        for line in _each_record(block):
            count = self._form.fields(line)
            if count is None:
                raise self._fault()
            if count:
                self.header, self._count = line, count
                self._lines = self._form.lines_of(count)
                return

    def _fault(self) -> SourceError:
        return SourceError(
            f"{self._what}: some lines are not records with as many fields as the header: check"
            " that the separator is right, fields that hold the separator are quoted, and no field"
            f" holds a line break. Such a file is read as Parquet: {AS_PARQUET}"
        )

    def _whole_records(self) -> Iterator[bytes]:
        """Yield blocks that end where a record does, with one line feed between records."""
        rest, begun, wanted = b"", False, BLOCK_BYTES
        while True:
            read = self._file.read(wanted)
            data = self._decoded(read)
            if not begun and (rest or data):
                whole = rest + data
                if len(whole) < len(_MARK) and read:
                    rest = whole
                    continue
                rest, data, begun = b"", whole.removeprefix(_MARK), True
            data = rest + data
            if not self._end:
                self._end = _line_end(data, whole=not read)
            if not read:
                if data and not data.endswith(self._end):
                    data += self._end
                if data:
                    yield self._one_break(data)
                return
            cut = self._cut(data)
            # A record longer than a block is not searched again for each further block.
            wanted = BLOCK_BYTES if cut else max(BLOCK_BYTES, len(data))
            if cut:
                yield self._one_break(data[:cut])
            rest = data[cut:]

    def _decoded(self, read: bytes) -> bytes:
        if self._decoder is None:
            return read
        return self._decoder.decode(read, final=not read).encode()

    def _one_break(self, data: bytes) -> bytes:
        """Return records with a line feed between them; a return belongs to its cell."""
        if b"\r" not in data:
            return data
        whole = data.replace(b"\r\n", self._end)
        # A line feed within a cell becomes a return: no cell may hold what ends a line.
        return whole if self._end == b"\n" else whole.translate(_SWAPPED)

    def _cut(self, data: bytes) -> int:
        """Return the end of the last whole record in some data."""
        if self._end != b"\r":
            return data.rfind(b"\n") + 1 if self._end else 0
        # A return at the very end may be half of a line break.
        cut = data.rfind(b"\r", 0, max(0, len(data) - 1)) + 1
        return cut + (cut > 0 and data.startswith(b"\n", cut))


def _line_end(data: bytes, *, whole: bool) -> bytes:
    """Return how lines of a file end, by its first ones; empty if its header is still to come.

    A return before a line feed belongs to the end in any case.
    """
    found = _HEADER_END.match(data)
    if found is None:
        return b"\n" if whole else b""
    if found[1] == b"\r" and found.end() == len(data) and not whole:
        return b""
    return b"\r" if found[1] == b"\r" else b"\n"


def _each_record(block: bytes) -> Iterator[bytes]:
    yield from (found[1] for found in re.finditer(rb"([^\n]*+)\n", block))


def _decoder(encoding: str, what: str, errors: str) -> IncrementalDecoder | None:
    """Return the decoder of a file, None if it is UTF-8."""
    name = codecs.lookup(encoding).name
    if _STATEFUL.match(name):
        raise SourceError(
            f"{what}: in encoding {encoding} one line changes the reading of others: write the file"
            " in UTF-8"
        )
    # Codecs that do not decode to text are no encodings.
    "".encode(name)
    return None if name == "utf-8" else codecs.getincrementaldecoder(name)(errors)
