"""The dialect of a public CSV file is found from its lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jam_dagster.errors import SourceError
from jam_dagster.tables import CsvSource, ParquetSource
from jam_dagster.tables.sources.sniffing import (
    dialect_remark,
    drafted_source,
    header_fault,
    marks_remark,
    sniffed,
)

ROWS = "cost;bmi;town\n1.234,50;24,8;Köln\n12,25;25,0;Bonn\n"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (ROWS.encode("cp1252"), {"separator": ";", "encoding": "cp1252", "decimal": ","}),
        (ROWS.encode("utf-16"), {"separator": ";", "encoding": "utf-16", "decimal": ","}),
        (ROWS.encode("utf-8-sig"), {"separator": ";", "decimal": ","}),
        (b"a\tb\n1,5\tx\n", {"separator": "\t", "decimal": ","}),
        (b"a|b\n1.5|x\n", {"separator": "|"}),
        # Commas of thousands, and a header and fields with commas.
        (b"a;b\n1,234;x\n999;y\n", {"separator": ";"}),
        (b"a, x;b\nm, n;1\no, p;2\n", {"separator": ";"}),
        # Points and commas: each column has a format of its own.
        (b"a;b\n1,5;2.5\n", {"separator": ";"}),
        (b'a,b\n"1;2",x\n"3;4",y\n', {}),
        (b"a,b\n1.5,x\n", {}),
        (b"a\n1\n", {}),
        (b'a,b\n"open,x\n', {}),
        # A dash of Windows, in a byte that cp1252 lacks beside it.
        (b"a,b\n\x96\x81,x\n", {"encoding": "latin-1"}),
    ],
)
def test_dialects(tmp_path: Path, content: bytes, expected: dict[str, str]) -> None:
    path = tmp_path / "survey.csv"
    path.write_bytes(content)
    found, said = sniffed(CsvSource(str(path)))
    assert found == CsvSource(str(path), **expected)
    assert bool(said) == bool(expected)
    for name, value in expected.items():
        assert f"{name} {value!r}" in said


def test_words_that_are_read_as_missing_are_said(tmp_path: Path) -> None:
    path = tmp_path / "survey.csv"
    path.write_text("land;born;fee;none\nNA;NA;NA;NA\nDE;1990-01-01;-5;NA\n?;NA;2;NA\nZA;;;\n")
    config = {"csv": str(path), "separator": ";", "missing": [""]}
    assert marks_remark(CsvSource(str(path), separator=";")) == (
        f"Cells of CSV file {path} are read as missing in 'land' (50%, written ? and NA): to keep"
        f" them as values, give {json.dumps(config)}, and `missing` of the private table too."
    )
    assert marks_remark(CsvSource(str(path), separator=";", missing=("", "NA"))) == ""
    assert marks_remark(ParquetSource("survey.parquet")) == ""


def test_an_encoding_is_found_wherever_its_first_letter_is(tmp_path: Path) -> None:
    path = tmp_path / "survey.csv"
    path.write_bytes(b"a,b\n" + b"1,x\n" * 600_000 + "2,ö\n".encode("cp1252"))
    assert sniffed(CsvSource(str(path)))[0] == CsvSource(str(path), encoding="cp1252")


def test_what_is_stated_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("survey.csv").write_bytes(ROWS.encode("cp1252"))
    source, said = drafted_source('{"csv": "survey.csv", "decimal": ".", "encoding": "latin-1"}')
    assert source == CsvSource("survey.csv", ";", "latin-1")
    assert said == (
        "CSV file survey.csv is read with separator ';', as its lines show: "
        '{"csv": "survey.csv", "separator": ";", "encoding": "latin-1"}.'
    )


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (ROWS.encode("utf-8"), "has its columns with the separator ';'"),
        ("cost,bmi,town\n".encode("utf-8-sig"), ""),
        (b"cost,bmi\n", "has no column 'town'"),
        (b"1,2,3\n", "has no column 'cost', 'bmi', 'town'"),
        (b"cost,bmi,town,K\xf6ln\n", "is no text in the encoding utf-8"),
        (b"", "has no column 'cost', 'bmi', 'town'"),
    ],
)
def test_a_header_is_compared_with_the_domain(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "survey.csv"
    path.write_bytes(content)
    found = header_fault(CsvSource(str(path)), ("cost", "bmi", "town"))
    assert found.startswith(says)
    assert bool(found) == bool(says)


def test_a_file_that_is_not_here_or_not_plain_has_no_header() -> None:
    for path in ("none.csv", "s3://b/none.csv", "none.csv.gz", "${HOME}/none.csv"):
        assert header_fault(CsvSource(path), ("a",)) == ""
    assert header_fault(ParquetSource("none.parquet"), ("a",)) == ""


def test_a_private_file_may_be_written_as_the_public_one_is() -> None:
    public = CsvSource("survey.csv", ";", "cp1252", ",")
    said = dialect_remark(CsvSource("people.csv"), public)
    assert "with separator ';' and encoding 'cp1252' and decimal ','" in said
    assert '{"csv": "people.csv", "separator": ";", "encoding": "cp1252", "decimal": ","}' in said
    assert dialect_remark(CsvSource("people.csv", ";"), public) == ""
    assert dialect_remark(CsvSource("people.csv"), CsvSource("survey.csv")) == ""
    assert dialect_remark(ParquetSource("people.parquet"), public) == ""


def test_other_sources_are_left_alone_and_a_missing_file_is_named() -> None:
    assert sniffed(ParquetSource("none.parquet")) == (ParquetSource("none.parquet"), "")
    with pytest.raises(SourceError, match=r"none\.csv: there is no such file"):
        sniffed(CsvSource("none.csv"))
