"""A private CSV file is read line by line: no record changes how another one is read."""

from __future__ import annotations

import random
import re
from io import BytesIO
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jam_dagster.errors import JamError, PrivateValuesError, SourceError, SpecificationError
from jam_dagster.tables import CsvSource, PrivacyUnit, source_from_config
from jam_dagster.tables.domain.text_dtype import text_dtype
from jam_dagster.tables.sources import csv, csv_records
from jam_dagster.tables.sources.csv_records import CsvRecords, Form
from tests.examples import examples


def read(path: Path, content: bytes, **options: Any) -> pd.DataFrame:
    path.write_bytes(content)
    return CsvSource(str(path), **options).read(private=True)


def rows_of(table: pd.DataFrame) -> list[tuple[Any, ...]]:
    return list(table.astype(object).where(table.notna(), None).itertuples(index=False, name=None))


def test_a_stray_quote_swallows_no_rows(tmp_path: Path) -> None:
    lines = [f"{number},x\n" for number in range(1000)]
    lines[100], lines[900] = '100,"x\n', '900,x"\n'
    with pytest.raises(PrivateValuesError) as caught:
        read(tmp_path / "people.csv", "".join(["a,b\n", *lines]).encode())
    shown = str(caught.value).replace(str(tmp_path), "")
    assert not any(character.isdigit() for character in shown)


REFUSED = {
    "a break in a quoted field": b'1,"x\ny"\n',
    "a quote left open": b'1,"x\n',
    "a quote left open by the last line": b'1,2\n1,"x',
    "a doubled quote left open": b'1,"x""\n',
    "a doubled quote that a later line would close": b'1,"x""\n3,"y"\n',
    "too many fields": b"1,2,3\n",
    "too few fields": b"1\n",
    "too few fields at the end": b"1,2\n1",
    "a separator within a quote within a field": b'1,x"2,3"\n',
    "a field after a closed quote": b'1,"x"y"2,3"\n',
}


@pytest.mark.parametrize("line", REFUSED.values(), ids=list(REFUSED))
@pytest.mark.parametrize("before", [b"", b'"5","6"\n7,8\n'], ids=["alone", "among others"])
def test_lines_that_are_no_record(tmp_path: Path, line: bytes, before: bytes) -> None:
    path = tmp_path / "people.csv"
    with pytest.raises(PrivateValuesError) as caught:
        read(path, b"a,b\n" + before + line)
    with pytest.raises(PrivateValuesError) as other:
        read(path, b"a,b\n1\n")
    # Neither which line nor what is wrong with it.
    assert str(caught.value) == str(other.value)


READ = {
    "a quote within a field": (b'5" pipe,O"Brien\n', ('5" pipe', 'O"Brien')),
    "a doubled quote": (b'"a ""b"" c","""x"""\n', ('a "b" c', '"x"')),
    "an empty quoted field": (b'"","a"\n', (None, "a")),
    "a separator in quotes": (b'"a,b",c\n', ("a,b", "c")),
    "blanks before a quote": (b'1,   "a,b"\n', ("1", "a,b")),
    "many blanks before a quote": (b"1," + b" " * 40 + b'"a,b"\n', ("1", "a,b")),
    "text after a closing quote": (b'"a"b,c\n', ("ab", "c")),
    "an empty record": (b",\n", (None, None)),
    "a NUL": (b"1,a\0b\n", ("1", "a\0b")),
    "a line separator of Unicode": ("1,a\u2028b\x85c\n".encode(), ("1", "a\u2028b\x85c")),
    "a byte order mark within": ("1,\ufeffa\n".encode(), ("1", "\ufeffa")),
}


@pytest.mark.parametrize(("line", "record"), READ.values(), ids=list(READ))
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["lf", "crlf", "cr"])
def test_lines_that_are_a_record(
    tmp_path: Path, line: bytes, record: tuple[Any, ...], end: bytes
) -> None:
    if b"\0" in line and csv_records.cuts_at_nul():
        pytest.skip("this pandas cuts a text at a NUL: the test below holds")
    content = b"\xef\xbb\xbfa,b\n3,4\n" + line + b"\n \t\n" + line + b'"5","6"'
    table = read(tmp_path / "people.csv", content.replace(b"\n", end))
    assert rows_of(table) == [("3", "4"), record, record, ("5", "6")]
    assert list(table.columns) == ["a", "b"]


RETURNS = {
    "in a cell": (b"a\rb,c\n", ("a\rb", "c")),
    "in quotes": (b'"a\rb",c\n', ("a\rb", "c")),
    "before a separator": (b"a\r,c\n", ("a\r", "c")),
    "at the beginning": (b"\ra,c\n", ("\ra", "c")),
    "twice before the end": (b"a,c\r\r\n", ("a", "c\r")),
    "at the end": (b"a,c\r\n", ("a", "c")),
}


@pytest.mark.parametrize("end", [b"\n", b"\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize(("line", "record"), RETURNS.values(), ids=list(RETURNS))
def test_a_return_belongs_to_its_cell_in_all_paths(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    line: bytes,
    record: tuple[Any, ...],
    end: bytes,
) -> None:
    """A release that shows the number of records would count two for one, and refuse none."""
    content = b"\n  \na,b\n1,2\n".replace(b"\n", end) + line + b"3,4" + end
    for size in (1, 5, 1 << 20):
        monkeypatch.setattr(csv_records, "BLOCK_BYTES", size)
        assert rows_of(read(tmp_path / "people.csv", content)) == [("1", "2"), record, ("3", "4")]
    source = CsvSource(str(tmp_path / "people.csv"))
    assert source.count_records(None) == 3
    assert source.count_records(PrivacyUnit("a", 1)) == 3
    assert source.count_records(PrivacyUnit("b", 1)) == 3


def test_a_file_whose_header_ends_with_a_return_has_line_feeds_in_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = b"a,b\r1,2\rx\ny,3\r\n4,5\n\r6,7"
    for size in (1, 5, 1 << 20):
        monkeypatch.setattr(csv_records, "BLOCK_BYTES", size)
        found = rows_of(read(tmp_path / "people.csv", content))
        assert found == [("1", "2"), ("x\ry", "3"), ("4", "5\r"), ("6", "7")]
    assert CsvSource(str(tmp_path / "people.csv")).count_records(None) == 4


def test_a_nul_is_refused_where_pandas_cuts_a_text_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_records, "cuts_at_nul", lambda: True)
    monkeypatch.setattr(csv, "cuts_at_nul", lambda: True)
    path = tmp_path / "people.csv"
    assert rows_of(read(path, b"a,b\n1,ab\n")) == [("1", "ab")]
    assert len(CsvSource(str(path)).read(private=False)) == 1
    with pytest.raises(PrivateValuesError) as caught:
        read(path, b"a,b\n1,a\0b\n")
    with pytest.raises(PrivateValuesError) as other:
        read(path, b"a,b\n1\n")
    assert str(caught.value) == str(other.value)
    path.write_bytes(b"a,b\n1,a\0b\n")
    with pytest.raises(SourceError, match=r"holds a NUL.* pandas 3\.1"):
        CsvSource(str(path)).read(private=False)
    # These bytes hold no character NUL.
    path.write_text("a,b\n1,ab\n", encoding="utf-16")
    assert len(CsvSource(str(path), encoding="utf-16").read(private=False)) == 1


def test_what_is_read_is_what_was_read_before(tmp_path: Path) -> None:
    # Releases of files that were read before go on.
    frame = pd.DataFrame(
        {"n": range(4000), "t": ['a "q", b', "x", None, " y"] * 1000, "z": ["é", ""] * 2000}
    )
    path = tmp_path / "people.csv"
    for options in ({}, {"quoting": 1}, {"lineterminator": "\r\n"}, {"sep": "\t"}):
        frame.to_csv(path, index=False, **options)  # type: ignore[call-overload]
        separator = str(options.get("sep", ","))
        table = CsvSource(str(path), separator).read(private=True)
        before = pd.read_csv(
            path,
            sep=separator,
            dtype=text_dtype(),
            keep_default_na=False,
            na_values=list(CsvSource("").missing),
            skipinitialspace=True,
        )
        pd.testing.assert_frame_equal(table, before)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "utf-16", "cp1252", "gbk"])
def test_encodings(tmp_path: Path, encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = ("中", "文") if encoding == "gbk" else ("é", "ü")
    content = f'a,b\n1,"{first}, x"\n{second},2\n'.encode(encoding)
    for size in (3, 5, 1 << 20):
        monkeypatch.setattr(csv_records, "BLOCK_BYTES", size)
        table = read(tmp_path / "people.csv", content, encoding=encoding)
        assert rows_of(table) == [("1", f"{first}, x"), (second, "2")]


@pytest.mark.parametrize("encoding", ["utf-7", "iso2022_jp", "hz", "unicode_escape"])
def test_encodings_in_which_a_line_changes_the_next(tmp_path: Path, encoding: str) -> None:
    with pytest.raises(SourceError, match="one line changes the reading of others"):
        read(tmp_path / "people.csv", b"a,b\n1,2\n", encoding=encoding)


def test_a_character_cut_by_a_line_break_is_no_text(tmp_path: Path) -> None:
    for encoding, content in (("utf-8", b"a,b\n1,\xc3\n2,3\n"), ("gbk", b"a,b\n1,\x81\n2,3\n")):
        with pytest.raises(PrivateValuesError):
            read(tmp_path / "people.csv", content, encoding=encoding)


def test_other_separators(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    for separator, content in (
        (" ", b'a  b\n1 2\n3  "x  y"\n'),
        ("\t", b'a\tb\n1\t2\n3\t"x  y"\n'),
        ("|", b"a|b\n1|2\n3|x  y\n"),
    ):
        table = read(path, content, separator=separator)
        assert rows_of(table) == [("1", "2"), ("3", "x  y")]
    for separator, content in ((" ", b"a b\n1\n"), ("\t", b"a\tb\n1\n")):
        with pytest.raises(PrivateValuesError):
            read(path, content, separator=separator)
    for mark in ('"', "\n", "\r"):
        with pytest.raises(SpecificationError, match="but no quote or line break"):
            CsvSource("a.csv", separator=mark)
    with pytest.raises(SourceError, match="ASCII"):
        read(path, "a§b\n1§2\n".encode(), separator="§")


def test_what_is_no_longer_read_has_a_remedy(tmp_path: Path) -> None:
    remedy = re.escape("pandas.read_csv('FILE', dtype=str, keep_default_na=False)")
    with pytest.raises(SourceError, match=remedy):
        read(tmp_path / "people.csv", b'a,"b\nc"\n1,2\n')
    with pytest.raises(SourceError, match=rf"blanks.*{remedy}"):
        read(tmp_path / "people.csv", b"a b\n1 2\n", separator=r"\s+")
    assert len(CsvSource(str(tmp_path / "people.csv"), r"\s+").read(private=False)) == 1
    with pytest.raises(SpecificationError, match="multiline"):
        source_from_config({"csv": "a.csv", "multiline": True})


def test_a_public_file_is_read_as_before(tmp_path: Path) -> None:
    path = tmp_path / "public.csv"
    path.write_text('a,b\n1,"x\ny"\n2\n')
    assert len(CsvSource(str(path)).read(private=False)) == 2


def test_a_header_over_two_lines(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="some lines are not records"):
        read(tmp_path / "people.csv", b'a,"b\nc"\n1,2\n')


def test_one_number_with_a_point_tells_no_column(tmp_path: Path) -> None:
    for content in (b"a;b\n1.5;2\n1,5;3\n", b"a;b\n2;1.5\n3;\n", b"a;b\n1.5;2\n2.5;3\n"):
        with pytest.raises(PrivateValuesError):
            read(tmp_path / "people.csv", content, separator=";", decimal=",")


MARKS = [
    '"',
    '""',
    ",",
    ",",
    ";",
    " ",
    "  ",
    "\t",
    "\n",
    "\r",
    "\r\n",
    "\0",
    "\ufeff",
    "a",
    "1",
    "é",
]
texts = st.lists(st.sampled_from(MARKS), max_size=9).map("".join)
forms = st.sampled_from(
    [
        {},
        {"skipinitialspace": False},
        {"separator": ";"},
        {"separator": "\t"},
        {"separator": " "},
        {"separator": " ", "skipinitialspace": False},
    ]
)


@pytest.mark.slow
@examples(600)
@given(st.lists(texts, max_size=6), forms)
@example(['"a\n', 'b"'], {})
def test_each_line_is_read_as_if_it_stood_alone(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], form: dict[str, Any]
) -> None:
    path = tmp_path_factory.getbasetemp() / "alone.csv"
    separator = form.get("separator", ",")
    header = separator.join("abc")

    def rows(content: list[str]) -> list[tuple[Any, ...]]:
        return rows_of(read(path, "\n".join([header, *content]).encode(), **form))

    try:
        whole = rows(lines)
    except JamError:
        # One of them is no record, and is none by itself either.
        pieces = "\n".join(lines).replace("\r\n", "\n").split("\n")
        assert any(alone(rows, piece) is None for piece in pieces)
        return
    each = [alone(rows, line) for line in lines]
    assert None not in each
    assert whole == [row for one in each if one is not None for row in one]


def alone(rows: Any, line: str) -> list[tuple[Any, ...]] | None:
    try:
        return list(rows([line]))
    except JamError:
        return None


lines_of_bytes = st.one_of(
    st.lists(st.sampled_from([*map(str.encode, MARKS), b"\xff", b"\xc3"]), max_size=8).map(
        b"".join
    ),
    st.binary(max_size=8),
).map(lambda line: line.replace(b"\n", b"").replace(b"\r", b""))


@pytest.mark.slow
@examples(400)
@given(
    st.lists(st.one_of(st.just(b"1,2"), lines_of_bytes), min_size=1, max_size=6),
    st.integers(0, 5),
    st.one_of(st.none(), lines_of_bytes),
    st.sampled_from(["utf-8", "latin-1", "gbk", "utf-8-sig"]),
    st.integers(1, 40),
)
@example([b"1,2", b'3,"4', b'5,6"'], 1, b"3,4", "utf-8", 40)
@example([b"1,2", b"3,\x81", b"5,6"], 1, b"3,4", "gbk", 40)
def test_one_record_changes_no_other(
    tmp_path_factory: pytest.TempPathFactory,
    records: list[bytes],
    place: int,
    new: bytes | None,
    encoding: str,
    block: int,
) -> None:
    """Change, remove or (the other way round) add one record, of any bytes within a line."""
    path = tmp_path_factory.getbasetemp() / "one.csv"
    place %= len(records)
    rest = [*records[:place], *records[place + 1 :]]
    changed = rest if new is None else [*records[:place], new, *records[place + 1 :]]

    def rows(content: list[bytes]) -> list[tuple[Any, ...]]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(csv_records, "BLOCK_BYTES", block)
            return rows_of(read(path, b"\n".join([b"a,b", *content, b""]), encoding=encoding))

    try:
        before, after, others = rows(records), rows(changed), rows(rest)
    except JamError:
        return
    for found in (before, after):
        assert len(found) - len(others) in (0, 1)
        at = next((i for i in range(len(others) + 1) if others[:i] + found[i:][1:] == others), None)
        assert found == others or at is not None
        if found != others and at is not None:
            assert [*found[:at], *found[at + 1 :]] == others


@pytest.mark.parametrize("separator", [",", "\t", " "], ids=["comma", "tab", "blank"])
def test_lines_without_quotes_are_counted_as_the_pattern_has_them(separator: str) -> None:
    rng, form = random.Random(5), Form(separator)
    accepted = 0
    for _ in range(3_000):
        fields = rng.choice([2, 3])
        header = separator.join("abc"[:fields]).encode()
        text = "".join(rng.choices([separator, separator, "x", " ", "\t", "\r", "\n"], k=8)) + "\n"
        records = CsvRecords(BytesIO(header + b"\n"), "a file", "utf-8", form)
        block = text.encode()
        wanted = form.lines_of(fields).fullmatch(block) is not None
        assert records._are_records(block) == wanted, block
        accepted += wanted
    assert accepted > 100
