"""Both readers of checked CSV lines give each cell the same text."""

from __future__ import annotations

import random
from io import BytesIO

import pytest

from jam_dagster.errors import PrivateValuesError
from jam_dagster.tables.sources.csv import MISSING
from jam_dagster.tables.sources.csv_cells import CsvCells
from jam_dagster.tables.sources.csv_records import CsvRecords, Form

MARKERS = ("", "NA", "?", "-9", "1e3", "2.50")
PIECES = [
    *('"', '""', ",", ",", ",", " ", "\t", "\n", "\n", "a", "NA", "?", "é", "-9", "-9.0", "1000"),
    *("2.5", "2.50", "\u2028", "'", "#", "\\", "\x1a", "\ufeff"),
]
"""Separators, quotes and blanks, and markers of missing values with texts like them."""


def checked(text: bytes, fields: int, *, blanks: bool) -> bytes | None:
    """Return the lines that a private file may have, None if it is refused."""
    header = ",".join(f"c{place}" for place in range(fields)).encode()
    try:
        records = CsvRecords(BytesIO(header + b"\n" + text), "a file", "utf-8", Form(",", blanks))
        return b"".join(records.blocks())
    except PrivateValuesError:
        return None


@pytest.mark.parametrize("blanks", [True, False], ids=["skips blanks", "keeps blanks"])
def test_two_readers_read_the_same_cells(blanks: bool) -> None:
    rng, plain, quoted = random.Random(3), 0, 0
    for _ in range(1_000):
        fields = rng.choice([2, 2, 3])
        lines = (
            ",".join(
                "".join(rng.choices(PIECES, k=rng.choice([0, 1, 1, 2, 3]))) for _ in range(fields)
            )
            for _ in range(rng.choice([1, 1, 2]))
        )
        text = checked("\n".join(lines).encode(), fields, blanks=blanks)
        if text is None:
            continue
        text = b"\n" + text
        cells = CsvCells(",", blanks, MARKERS, fields)
        by_arrow = cells._plain(text)
        if by_arrow is None or not by_arrow.strip():
            continue
        places = [*range(fields)]
        found = [one.to_pylist() for one in cells.by_arrow(by_arrow, places)]
        assert found == [one.to_pylist() for one in cells.by_pandas(text, places)], text
        plain += 1
        quoted += b'"' in by_arrow
    assert plain > 80
    assert quoted > 8


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        (b"1, a\n", ["a"]),
        (b'1,  "a, b"\n', ["a, b"]),
        (b' 1,"x"\n', ["x"]),
        (b"1,a\rb\n", ["a\rb"]),
        (b"\n \n1,a\n\t\n", ["a"]),
        (b" \n\n", []),
        (b"", []),
        ('1,x\n\ufeff"2",y\n'.encode(), ["x", "y"]),
        ('\ufeff1,"x"\n'.encode(), ["x"]),
        (b"1,NA\n1,na\n", [None, "na"]),
    ],
)
def test_lines_of_every_kind(text: bytes, cells: list[str | None]) -> None:
    found = CsvCells(",", True, MISSING, 2).read(text, {"b": 1})
    assert found.schema.names == ["b"]
    assert found.column(0).to_pylist() == cells


def test_a_file_of_one_column_has_blank_records() -> None:
    found = CsvCells(",", True, ("NA",), 1).read(b"1\n\nNA\n  \n", {"a": 0})
    assert found.column(0).to_pylist() == ["1", None, None, None]


def test_blanks_that_separate_cells_are_cells() -> None:
    found = CsvCells("\t", True, MISSING, 3).read(b"\t\t1\na\t b\t\n", {"a": 0, "b": 1, "c": 2})
    assert found.to_pydict() == {"a": [None, "a"], "b": [None, "b"], "c": ["1", None]}


def test_blanks_that_begin_a_line_are_read_wherever_a_buffer_ends() -> None:
    lines = b"\t" * 40 + b"p,u\n"
    found = CsvCells(",", True, MISSING, 2).read(lines * 30_000, {"a": 0}).column(0)
    assert found.unique().to_pylist() == ["\t" * 40 + "p"]


def test_many_short_lines() -> None:
    for line in (b"\tp,u\n", b"p,u\n"):
        assert len(CsvCells(",", True, MISSING, 2).read(line * 300_000, {"a": 0})) == 300_000


@pytest.mark.parametrize(
    ("lines", "cells"),
    [(b"\r\n", []), (b"\r\n1,2\n", ["1"]), (b"1,2\n \r\n\n\r\n3,4\n", ["1", "3"])],
)
def test_a_line_of_a_return_is_blank_wherever_it_is(lines: bytes, cells: list[str]) -> None:
    assert CsvCells(",", True, MISSING, 2).read(lines, {"a": 0}).column(0).to_pylist() == cells


def test_cells_that_blanks_separate() -> None:
    for lines in (b" 1 2\n", b' 1 2\n1  "2"\n'):
        found = CsvCells(" ", True, MISSING, 2).read(lines, {"a": 0, "b": 1})
        assert found.slice(0, 1).to_pydict() == {"a": ["1"], "b": ["2"]}


@pytest.mark.parametrize("other", [b"", b" 1,2,x\n", b"1,a\rb,x\n"])
def test_bytes_that_are_no_text_are_refused_in_any_column(other: bytes) -> None:
    with pytest.raises(UnicodeDecodeError):
        CsvCells(",", True, MISSING, 3).read(b"1,2,\xff\n" + other, {"a": 0})
