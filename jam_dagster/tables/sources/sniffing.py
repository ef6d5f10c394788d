"""The dialect of a public CSV file, found from its own bytes.

It is a draft for a person to confirm, and nothing here ever opens a private file.
"""

from __future__ import annotations

import codecs
import csv
import json
import re
from collections.abc import Collection
from dataclasses import replace
from io import StringIO
from pathlib import Path

from jam_dagster.tables.domain.columns import alike_columns
from jam_dagster.tables.domain.values import exact_number
from jam_dagster.tables.sources.base import config_from_text, source_from_config, whole
from jam_dagster.tables.sources.csv import MISSING, CsvSource
from jam_dagster.tables.sources.csv_records import BLOCK_BYTES
from jam_dagster.tables.sources.identity import opened
from jam_dagster.tables.sources.reading import open_handle, reading
from jam_dagster.tables.sources.source import Source

SNIFFED = ("separator", "encoding", "decimal")
"""The options of a CSV source that are found."""

# The first one wins a tie: a header with another separator may also have commas.
_SEPARATORS = (";", "\t", "|", ",")
_ROWS = 1000
_NAMED = 5
_PLAIN = (".csv", ".tsv", ".txt")
_NUMBER = re.compile(r"[-+]?(?:\d+|\d{1,3}(?:\.\d{3})+)(?:,\d+)?", re.ASCII)
_THOUSANDS = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+", re.ASCII)


def sniffed(source: Source, given: Collection[str] = ()) -> tuple[Source, str]:
    """Return a public source with the options that its file shows, and a sentence on them, or "".

    Options that somebody has `given` stay. A source of another kind is returned as it is.
    """
    if not isinstance(source, CsvSource):
        return source, ""
    default = CsvSource("")
    stated = {name for name in SNIFFED if getattr(source, name) != getattr(default, name)}
    stated |= set(given)
    path = opened(source.path)
    found = source
    if "encoding" not in stated:
        encoding = reading(source.describe(), False, lambda: _encoding(path))
        found = replace(found, encoding=encoding)
    lines = reading(source.describe(), False, lambda: _sample(path, found.encoding))
    if "separator" not in stated:
        found = replace(found, separator=_separator(lines) or found.separator)
    if "decimal" not in stated and len(found.separator) == 1:
        rows = _rows(lines, found.separator)
        found = replace(found, decimal="," if _has_decimal_commas(rows, found) else found.decimal)
    changes = {
        name: getattr(found, name)
        for name in SNIFFED
        if getattr(found, name) != getattr(source, name)
    }
    if not changes:
        return source, ""
    words = " and ".join(f"{name} {value!r}" for name, value in changes.items())
    config = json.dumps(found.to_dict())
    return found, f"{source.describe()} is read with {words}, as its lines show: {config}."


def header_fault(source: Source, names: Collection[str]) -> str:
    """Return why the first line of a public CSV file does not name some columns, or "".

    Only that line is read, and of a plain file on this machine alone.
    """
    source, default = whole(source), CsvSource("")
    if not isinstance(source, CsvSource):
        return ""
    path = Path(source.path)
    if path.suffix not in _PLAIN or len(source.separator) > 1 or not path.is_file():
        return ""
    try:
        with path.open(encoding=source.encoding, newline="") as file:
            line = file.readline(BLOCK_BYTES).removeprefix("\ufeff")
    except (OSError, UnicodeError, LookupError):
        return f"is no text in the encoding {source.encoding}: set `encoding`, such as cp1252"

    def lacking(separator: str) -> list[str]:
        header = next(csv.reader([line], delimiter=separator, skipinitialspace=True), [])
        likenesses = alike_columns(header, list(names))
        return [one for one in names if likenesses.get(one, one) not in header]

    if not (missing := lacking(source.separator)):
        return ""
    for separator in _SEPARATORS:
        if source.separator == default.separator and not lacking(separator):
            return f"has its columns with the separator {separator!r}: set `separator`"
    more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
    return f"has no column {', '.join(map(repr, missing[:_NAMED]))}{more}"


def dialect_remark(private: Source, public: Source) -> str:
    """Return a sentence if a private CSV file has the default dialect and the public one has not.

    Both are as they were declared: no file is looked at.
    """
    private, public, default = whole(private), whole(public), CsvSource("")
    if not isinstance(private, CsvSource) or not isinstance(public, CsvSource):
        return ""
    own = {name: getattr(public, name) for name in SNIFFED}
    stated = {name: one for name, one in own.items() if one != getattr(default, name)}
    if not stated or any(getattr(private, name) != getattr(default, name) for name in SNIFFED):
        return ""
    words = " and ".join(f"{name} {value!r}" for name, value in stated.items())
    config = json.dumps(replace(private, **stated).to_dict())
    return (
        f"The public CSV file is read with {words}, and the private one with commas, points and"
        f" UTF-8. If both are written alike, the private one is {config}."
    )


def marks_remark(source: Source) -> str:
    """Return which words of a public CSV file are read as missing in columns of texts, or "".

    They may be values, such as ``NA`` for Namibia. The first lines are looked at, and nothing is
    said where somebody states the marks.
    """
    if not isinstance(source, CsvSource) or source.missing != MISSING or len(source.separator) > 1:
        return ""
    path = opened(source.path)
    lines = reading(source.describe(), False, lambda: _sample(path, source.encoding))
    header, *rows = _rows(lines, source.separator) or [[]]
    marks, found = {*MISSING} - {""}, []
    for name, column in zip(header, zip(*rows, strict=False), strict=False):
        words = [cell for cell in column if cell in marks]
        rest = {cell for cell in column if cell not in source.missing}
        # A number or a date is no value among words.
        if not words or not rest or any(cell.lstrip("-")[:1].isdigit() for cell in rest):
            continue
        shown = " and ".join(sorted({*words}))
        found.append(f"{name!r} ({len(words) / len(column):.0%}, written {shown})")
    if not found:
        return ""
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    config = json.dumps(replace(source, missing=("",)).to_dict())
    return (
        f"Cells of {source.describe()} are read as missing in {', '.join(found[:_NAMED])}{more}: to"
        f" keep them as values, give {config}, and `missing` of the private table too."
    )


def drafted_source(text: str) -> tuple[Source, str]:
    """Return the public source that an option names as `sniffed` does."""
    config = config_from_text(text)
    return sniffed(source_from_config(config), config if isinstance(config, dict) else ())


def _encoding(path: str) -> str:
    """Return the encoding of a file: UTF-8, UTF-16 by its mark, or the usual one of Windows."""
    utf_8, cp1252 = (codecs.getincrementaldecoder(name)() for name in ("utf-8", "cp1252"))
    possible = {"utf-8": utf_8, "cp1252": cp1252}
    with open_handle(path, "rb", compression="infer", is_text=False) as handle:
        begun = False
        while True:
            block: bytes = handle.handle.read(BLOCK_BYTES)
            if not begun and block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                return "utf-16"
            begun = True
            for name, decoder in list(possible.items()):
                try:
                    decoder.decode(block, not block)
                except UnicodeDecodeError:
                    del possible[name]
            if not block:
                return next(iter(possible), "latin-1")


def _sample(path: str, encoding: str) -> str:
    """Return the first whole lines of a file."""
    with open_handle(path, "r", encoding=encoding, compression="infer") as handle:
        text = str(handle.handle.read(BLOCK_BYTES)).removeprefix("\ufeff")
    return text if len(text) < BLOCK_BYTES else text[: text.rfind("\n") + 1]


def _rows(lines: str, separator: str) -> list[list[str]]:
    """Return the header and the first records; none if quotes do not match."""
    read = csv.reader(StringIO(lines), delimiter=separator, skipinitialspace=True)
    rows: list[list[str]] = []
    try:
        for row in read:
            if any(row):
                rows.append(row)
            if len(rows) > _ROWS:
                break
    except csv.Error:
        return []
    return rows


def _separator(lines: str) -> str | None:
    """Return the separator that splits all lines into as many fields, the most that any does."""
    widths: dict[str, int] = {}
    for separator in _SEPARATORS:
        rows = _rows(lines, separator)
        if len(rows) > 1 and {len(row) for row in rows} == {len(rows[0])} and len(rows[0]) > 1:
            widths[separator] = len(rows[0])
    return max(widths, key=widths.__getitem__, default=None)


def _has_decimal_commas(rows: list[list[str]], source: CsvSource) -> bool:
    """Return whether some column has decimal commas, and no cell is a number with a point."""
    found = False
    for column in zip(*rows[1:], strict=False):
        cells = [cell.strip() for cell in column if cell.strip() not in source.missing]
        # A source with decimal commas refuses such numbers; formats read each column by itself.
        if any("." in cell and exact_number(cell) is not None for cell in cells):
            return False
        with_comma = [cell for cell in cells if "," in cell]
        numbers = all(map(_NUMBER.fullmatch, cells))
        found = found or (numbers and not all(map(_THOUSANDS.fullmatch, with_comma)))
    return found
