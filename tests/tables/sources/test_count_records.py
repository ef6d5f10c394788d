"""Records are counted whatever their values are, by the privacy unit's column alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
import sqlalchemy

from jam_dagster.errors import InputError, PrivateValuesError, SourceError
from jam_dagster.tables import (
    CsvSource,
    DemoSource,
    FrameSource,
    ParquetSource,
    PrivacyUnit,
    Source,
    SqlSource,
)

TABLE = pd.DataFrame(
    {
        "person": ["p1", "p1", "p1", "p2", None, "p3", None],
        "age": ["31", "x", "", "7,5", "1e400", "12", "9"],
        "day": [pd.Timestamp("2026-01-31").date()] * 7,
    }
)
UNIT = PrivacyUnit("person", 2)


def csv(folder: Path) -> Source:
    TABLE.to_csv(folder / "people.csv", index=False)
    return CsvSource(str(folder / "people.csv"))


def parquet(folder: Path) -> Source:
    TABLE.to_parquet(folder / "people.parquet")
    return ParquetSource(str(folder / "people.parquet"))


def database(folder: Path) -> Source:
    url = f"sqlite:///{folder}/people.db"
    engine = sqlalchemy.create_engine(url)
    TABLE.to_sql("people", engine, index=False)
    with engine.begin() as connection:
        # SQLite holds bytes among texts, which its driver cannot decode.
        connection.exec_driver_sql("update people set age = cast(x'ff' as text) where age = 'x'")
    engine.dispose()
    return SqlSource(url, "select * from people -- all of them")


def pandas(folder: Path) -> Source:
    # Arrow holds no column of texts and numbers.
    return FrameSource(TABLE.assign(age=[1, "x", None, [2], object(), 3.5, b"9"]), "people")


def indexed(folder: Path) -> Source:
    return FrameSource(TABLE.set_index("person"), "people")


def arrow(folder: Path) -> Source:
    far = pa.array([2**62] * 7, pa.timestamp("s"))
    return FrameSource(pa.Table.from_pandas(TABLE).append_column("far", far), "people")


every_source = pytest.mark.parametrize(
    "made", [csv, parquet, database, pandas, indexed, arrow], ids=lambda made: made.__name__
)


@every_source
def test_rows_are_counted_without_a_look_at_values(
    tmp_path: Path, made: Callable[[Path], Source]
) -> None:
    source = made(tmp_path)
    assert source.count_records(None) == 7
    # Two of p1, one of p2, one of p3: the rows of nobody do not count.
    assert source.count_records(UNIT) == 4
    assert source.count_records(PrivacyUnit("person", 1)) == 3


@every_source
def test_a_column_that_is_missing_is_named(tmp_path: Path, made: Callable[[Path], Source]) -> None:
    with pytest.raises(InputError, match="no column 'who' to identify a person"):
        made(tmp_path).count_records(PrivacyUnit("who"))


@pytest.mark.parametrize("made", [csv, parquet, indexed], ids=lambda made: made.__name__)
def test_as_many_are_counted_as_are_read(tmp_path: Path, made: Callable[[Path], Source]) -> None:
    source = made(tmp_path)
    table = source.read(private=True)
    assert source.count_records(None) == len(table)
    known = table[table["person"].notna()]
    assert source.count_records(UNIT) == len(UNIT.limit(known, bytes(32)))


def test_a_simulated_table_is_counted() -> None:
    assert DemoSource(rows=31).count_records(None) == 31


FORMS: dict[str, tuple[bytes, dict[str, Any], int, int]] = {
    "another number of fields": (b"person,a\np1,1\np2\np3,1,2\n\np4,1\n", {}, 4, 4),
    "quotes": (b'person,a\np1,"1, 2"\np2,"2"x\np3,3"\n', {}, 3, 3),
    "bytes that are no text": (b"person,a\np1,\xff\n\xfe,2\n", {}, 2, 2),
    "a person that is missing": (b'person,a\n"NA",1\n,2\np1,3\n', {}, 3, 1),
    "returns": (b"person,a\rp1,1\r\rp2,2\r", {}, 2, 2),
    "another encoding": ("a;person\n1;ä\n2;ä\n".encode("utf-16"), {"encoding": "utf-16"}, 2, 1),
    "decimal commas": (b"a;person\n1.5;p1\n2,5;p2\n", {"separator": ";", "decimal": ","}, 2, 2),
}


@pytest.mark.parametrize(("content", "options", "rows", "people"), FORMS.values(), ids=list(FORMS))
def test_every_line_of_a_csv_file_is_a_record(
    tmp_path: Path, content: bytes, options: dict[str, Any], rows: int, people: int
) -> None:
    path = tmp_path / "people.csv"
    path.write_bytes(content)
    if options.get("encoding") == "utf-16":
        options = {**options, "separator": ";"}
    source = CsvSource(str(path), **options)
    assert source.count_records(None) == rows
    assert source.count_records(PrivacyUnit("person")) == people


@pytest.mark.parametrize(
    ("content", "options"),
    [
        (b'person,a\np1,1\np2,"x\ny"\np3,3\n', {}),
        (b'person,a\np1,"1\np2,2\np3,3\n', {}),
    ],
    ids=["closed later", "left open"],
)
def test_an_open_quote_is_refused_as_encoding_does(
    tmp_path: Path, content: bytes, options: dict[str, Any]
) -> None:
    """Its lines are one record or several: no count is that of the rows."""
    path = tmp_path / "people.csv"
    path.write_bytes(content)
    source = CsvSource(str(path), **options)
    for ask in (
        lambda: source.read(private=True),
        lambda: source.count_records(None),
        lambda: source.count_records(PrivacyUnit("person")),
    ):
        with pytest.raises(PrivateValuesError):
            ask()


@pytest.mark.parametrize("text", ["a\n1\n\n\n2\n\n", "a\r\n1\r\n \r\n\r\n\r\n2"])
def test_blank_lines_below_the_header_of_one_column_are_records(tmp_path: Path, text: str) -> None:
    path = tmp_path / "people.csv"
    path.write_bytes(text.encode())
    source = CsvSource(str(path))
    assert source.count_records(None) == len(source.read(private=True)) == 5


def test_faults_that_are_no_values_are_told(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    with pytest.raises(SourceError, match="no such file"):
        CsvSource(str(path)).count_records(None)
    path.write_text("")
    with pytest.raises(SourceError, match="is empty"):
        CsvSource(str(path)).count_records(None)
    url = f"sqlite:///{tmp_path}/people.db"
    sqlalchemy.create_engine(url).connect().close()
    with pytest.raises(PrivateValuesError):
        SqlSource(url, "select * from nothing").count_records(None)
