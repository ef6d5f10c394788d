"""A synthetic table's CSV file is in the dialect of the public one."""

from __future__ import annotations

from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from jam_dagster.errors import SpecificationError
from jam_dagster.tables import CsvSource, Domain, ParquetSource, PublicSources, SplitSource
from jam_dagster.tables.sources.dialect import SAYS_SYNTHETIC, Dialect
from tests.tiers import slow

DOMAIN = Domain.from_dict(
    {
        "attributes": {
            "cost": {"edges": [0, 9999], "decimals": 2},
            "bmi": {"edges": [10, 50], "decimals": 1},
            "name": {"values": ["Zoë", "a;b", 'say "x"', "b c"], "nullable": True},
            "n": {"edges": [0, 9], "integer": True},
        }
    }
)
TABLE = pd.DataFrame(
    {
        "cost": [2497.5, 12.25, float("nan"), 3.0],
        "bmi": [24.8, 25.0, 30.1, 19.0],
        "name": ["Zoë", "a;b", None, 'say "x"'],
        "n": [1, 2, 3, 4],
    }
)


def written(dialect: Dialect, table: pd.DataFrame = TABLE, domain: Domain = DOMAIN) -> bytes:
    file = BytesIO()
    dialect.write(table, file, domain)
    return file.getvalue()


def test_the_default_dialect_is_that_of_pandas() -> None:
    assert written(Dialect()) == TABLE.to_csv(index=False, lineterminator="\n").encode()


def test_a_file_says_that_it_is_synthetic_if_asked_to() -> None:
    plain = written(Dialect()).decode().splitlines()
    column = written(Dialect(mark="column")).decode().splitlines()
    assert column == [f"{plain[0]},synthetic", *(f"{line},true" for line in plain[1:])]
    comment = written(Dialect(mark="comment")).decode().splitlines()
    assert comment == [f"# {SAYS_SYNTHETIC}", *plain]
    other = written(Dialect(";", "utf-16", ",", mark="comment")).decode("utf-16").splitlines()
    assert other[0] == f"# {SAYS_SYNTHETIC}"
    assert other[1:] == written(Dialect(";", decimal=",")).decode().splitlines()
    assert written(Dialect(";", mark="column")).decode().splitlines()[1].endswith(";true")
    assert Dialect(mark="column").changes == {"mark": "column"}
    with pytest.raises(SpecificationError, match="mark must be none, column, comment, got 'x'"):
        Dialect(mark="x")


def test_all_numbers_have_the_decimal_mark_and_their_decimals() -> None:
    assert written(Dialect(";", "cp1252", ",")).decode("cp1252") == (
        'cost;bmi;name;n\n2497,50;24,8;Zoë;1\n12,25;25,0;"a;b";2\n;30,1;;3\n'
        '3,00;19,0;"say ""x""";4\n'
    )


@pytest.mark.parametrize("separator", [",", ";", "\t", "|", " ", r"\s+"])
@pytest.mark.parametrize("encoding", ["utf-16", *slow("utf-8", "cp1252")])
@pytest.mark.parametrize("decimal", [".", ","])
def test_a_reader_of_the_public_file_reads_it(
    tmp_path: Path, separator: str, encoding: str, decimal: str
) -> None:
    path = tmp_path / "synthetic.csv"
    public = CsvSource(str(path), separator, encoding, decimal)
    path.write_bytes(written(Dialect.of(public)))

    pd.testing.assert_frame_equal(public.read(private=False), TABLE, check_dtype=False)


@pytest.mark.parametrize(
    ("column", "shown"),
    [
        (pd.Series([Decimal("1.50"), None]), ["1,50", ""]),
        (pd.Series([1.5, None], dtype="Float64"), ["1,5", ""]),
        (pd.Series([1.5, 0.25], dtype="category"), ["1,5", "0,25"]),
        (pd.Series([1e-7, 2.0]), ["1e-07", "2,0"]),
        (pd.Series([1, None], dtype="Int64"), ["1", ""]),
        (pd.Series([True, None], dtype="boolean"), ["True", ""]),
        (pd.Series(["1.5", "x"]), ["1.5", "x"]),
        (pd.Series(pd.to_datetime(["2024-01-05", None])), ["2024-01-05", ""]),
    ],
)
def test_columns_of_every_kind(column: pd.Series[Any], shown: list[str]) -> None:
    table = pd.DataFrame({"a": column, "b": ["x", "y"]})
    other = Domain.from_dict({"attributes": {"b": {"values": ["x", "y"]}}})
    lines = written(Dialect(";", decimal=","), table, other).decode().splitlines()
    assert [line.partition(";")[0] for line in lines[1:]] == shown


def test_what_the_encoding_lacks_is_written_in_utf_8() -> None:
    table = TABLE.assign(name="Łódź")
    assert "Łódź" in written(Dialect(encoding="latin-1"), table).decode("utf-8")


def test_a_derived_text_that_a_comma_makes_a_formula_is_missing() -> None:
    content = DOMAIN.to_dict() | {"derived": {"note": "'x'"}}
    table = TABLE.assign(note=["a,=1+1", "a, -b", "1,-5", "b"])
    text = written(Dialect(";"), table, Domain.from_dict(content)).decode()
    assert [line.rpartition(";")[2] for line in text.splitlines()] == [
        *("note", "", "a, -b", "1,-5", "b")
    ]


def test_the_dialect_is_that_of_the_public_table_or_the_first() -> None:
    german = CsvSource("a.csv", ";", "cp1252", ",")
    expected = Dialect(";", "cp1252", ",")
    split = SplitSource(german, "x", 1, 0.5, 0.1)
    named = PublicSources({"a": german, "b": CsvSource("b.csv")})
    for public in (german, split, named):
        assert Dialect.of(public) == expected
    for public in (None, ParquetSource("a.parquet"), CsvSource("b.csv")):
        assert Dialect.of(public) == Dialect()
        assert Dialect.of(public).changes is None
    assert Dialect.of(CsvSource("a.csv", " ", missing=())) == Dialect()


def test_a_dialect_that_no_reader_reads_is_refused() -> None:
    for wrong in ({"separator": ";;"}, {"decimal": ""}, {"encoding": "utf-9"}):
        with pytest.raises(SpecificationError, match=next(iter(wrong))):
            Dialect(**wrong)
