"""A cell has one code, whichever source it comes from: one table of cases, run over each source.

The codes are written down, so a source that reads a cell in another way is found, and so is a
change of the encoding itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy import make_url

from jam_dagster.errors import PrivateValuesError
from jam_dagster.tables import (
    CsvSource,
    Domain,
    DuckDbSource,
    FrameSource,
    ParquetSource,
    Source,
    SqlSource,
)
from tests.postgres import PostgresServer

MISSING, REFUSED = "missing", "refused"


@dataclass(frozen=True)
class Cells:
    """Cells of one column: the attribute, the column's type, and each cell's text with its code.

    A cell is written as CSV files and SQL have it; None is NULL.
    """

    name: str
    entry: dict[str, Any]
    sql: str
    codes: tuple[tuple[str | None, int | str], ...]


NULLABLE = {"nullable": True}
DAY = {"bounds": ["2024-01-01", "2024-01-31"], "unit": "day"}

CASES = (
    Cells(
        "texts",
        {"values": ["a", "B", "50% or 'x'\\", "é", "rest"], "other": "rest", **NULLABLE},
        "varchar",
        (
            ("a", 0),
            ("B", 1),
            ("50% or 'x'\\", 2),
            ("é", 3),
            ("b", 1),
            (" a", 0),
            ("c", 4),
            (None, MISSING),
        ),
    ),
    Cells(
        "texts without other",
        {"values": ["a", "b"]},
        "varchar",
        (("a", 0), ("b", 1), ("c", REFUSED), (None, REFUSED)),
    ),
    Cells(
        "booleans",
        {"values": [True, False], **NULLABLE},
        "bool",
        (("true", 0), ("false", 1), (None, MISSING)),
    ),
    Cells(
        "booleans as words",
        {"values": ["yes", "no"]},
        "varchar",
        (("yes", 0), ("no", 1), ("YES", 0), ("t", 0), ("0.0", 1), ("maybe", REFUSED)),
    ),
    Cells(
        "whole numbers",
        {"values": [1, 2, 10]},
        "int8",
        (("1", 0), ("2", 1), ("10", 2), ("3", REFUSED)),
    ),
    Cells(
        "whole numbers and nulls",
        {"values": [1, 2], **NULLABLE},
        "int4",
        (("1", 0), ("2", 1), (None, MISSING)),
    ),
    Cells(
        "numbers as categories",
        {"values": [1, 1.5, "rest"], "other": "rest", **NULLABLE},
        "float8",
        (("1", 0), ("1.5", 1), ("2", 2), (None, MISSING)),
    ),
    Cells(
        "decimals as categories",
        {"values": [1, 1.5, "rest"], "other": "rest"},
        "numeric(10,2)",
        (("1.00", 0), ("1.50", 1), ("1.51", 2)),
    ),
    Cells(
        "single precision as categories",
        {"values": [0.1, 16777216, "rest"], "other": "rest"},
        "float4",
        (("0.1", 0), ("16777216", 1), ("0.2", 2)),
    ),
    Cells(
        "bins",
        {"edges": [0, 0.1, 10, 100], **NULLABLE},
        "float8",
        (
            ("0", 0),
            ("0.09999999999999999", 0),
            ("0.1", 1),
            ("10", 2),
            ("100", 2),
            (None, MISSING),
            ("101", REFUSED),
        ),
    ),
    Cells(
        "bins that clip",
        {"edges": [0, 1, 2], "outside": "clip"},
        "float8",
        (("-5", 0), ("0.5", 0), ("1", 1), ("1e300", 1), ("inf", 1), ("-inf", 0)),
    ),
    Cells(
        "bins of single precision",
        {"edges": [0, 0.1, 1]},
        "float4",
        # The nearest float4 is a little above 0.1.
        (("0.05", 0), ("0.1", 1), ("1", 1)),
    ),
    Cells(
        "bins of decimals",
        {"edges": [0, 0.1, 1]},
        "numeric(20,10)",
        (("0.0999999999", 0), ("0.1000000000", 1), ("1.0000000000", 1)),
    ),
    Cells(
        "bins of whole numbers",
        {"edges": [0, 10, 9007199254740992], "integer": True, **NULLABLE},
        "int8",
        (("9", 0), ("10", 1), ("9007199254740991", 1), (None, MISSING)),
    ),
    Cells(
        "numbers that are none",
        {"edges": [0, 1], **NULLABLE},
        "float8",
        (("nan", MISSING), ("0.5", 0), (None, MISSING)),
    ),
    Cells(
        "unreadable numbers",
        {"edges": [0, 1, 2], "unreadable": "missing", **NULLABLE},
        "varchar",
        (("0.5", 0), ("1,5", MISSING), ("many", MISSING), ("1e0", 1)),
    ),
    Cells(
        "unreadable numbers apart",
        {"edges": [0, 1, 2], "unreadable": "apart", **NULLABLE},
        "varchar",
        (("0.5", 0), ("1,5", 2), ("many", 2), ("1e0", 1), (None, MISSING)),
    ),
    Cells(
        "days",
        {**DAY, **NULLABLE},
        "date",
        (("2024-01-01", 0), ("2024-01-31", 30), (None, MISSING), ("2024-02-01", REFUSED)),
    ),
    Cells(
        "months of far dates",
        {"bounds": ["0001-01-01", "9999-12-31"], "unit": "year"},
        "date",
        (("0001-01-01", 0), ("1582-10-10", 1581), ("9999-12-31", 9998)),
    ),
    Cells(
        "hours",
        {"bounds": ["2024-01-01", "2024-01-02"], "unit": "hour"},
        "timestamp",
        (
            ("2024-01-01 00:00:00", 0),
            ("2024-01-01 23:59:59.999999", 23),
            ("2024-01-02 23:00:00", 47),
        ),
    ),
    Cells(
        "instants in a zone",
        {"bounds": ["2024-03-10", "2024-03-11"], "unit": "hour", "zone": "America/New_York"},
        "timestamptz",
        # A day of 23 hours.
        (
            ("2024-03-10 05:00:00+00", 0),
            ("2024-03-10 06:59:59+00", 1),
            ("2024-03-10 07:00:00+00", 2),
            ("2024-03-11 04:00:00+00", 23),
        ),
    ),
    Cells(
        "times of day",
        {"bounds": ["00:00", "23:59"], "unit": "hour", "dtype": "time64[us][pyarrow]", **NULLABLE},
        "time",
        (("00:00:00", 0), ("08:30:00", 8), ("23:59:59", 23), (None, MISSING)),
    ),
    Cells(
        "texts of dates",
        {**DAY, "format": "%d.%m.%Y", "unreadable": "missing", **NULLABLE},
        "varchar",
        (("01.01.2024", 0), ("31.01.2024", 30), ("2024-01-05", 4), ("31.02.2024", MISSING)),
    ),
    Cells(
        "identifiers",
        {"values": ["6b9f6a10-0000-4000-8000-000000000001", "rest"], "other": "rest"},
        "uuid",
        (("6b9f6a10-0000-4000-8000-000000000001", 0), ("6b9f6a10-0000-4000-8000-000000000002", 1)),
    ),
    Cells(
        "enumerations",
        {"values": ["low", "high"]},
        "level",
        (("low", 0), ("high", 1)),
    ),
)

CALENDAR = {"bounds": ["0001-01-01", "9999-12-31"], "unit": "year"}

# What other sources hold as text, or not at all.
POSTGRES_CASES = (
    Cells(
        "numerics of any size",
        {"edges": [0, 1, 2], "outside": "clip", **NULLABLE},
        "numeric",
        (
            ("1.000", 1),
            ("0.9999999999999999999999999", 1),
            ("0.999", 0),
            ("-Infinity", 0),
            ("Infinity", 1),
            ("NaN", MISSING),
            (f"1{400 * '0'}", 1),
            (f"0.{400 * '0'}1", 0),
            (None, MISSING),
        ),
    ),
    Cells(
        "numerics as categories",
        {"values": [1, 1.505, 9007199254740993, "rest"], "other": "rest"},
        "numeric",
        (("1.000", 0), ("1.505", 1), ("9007199254740993", 2), ("9007199254740992", 3)),
    ),
    Cells(
        "numerics of some digits",
        {"values": [1, 1.505, 999999999999999, "0.1"], "other": "0.1", **NULLABLE},
        "numeric(15)",
        (("1", 0), ("999999999999999", 2), ("-1", 3), ("NaN", MISSING), (None, MISSING)),
    ),
    Cells(
        "decimals of some digits",
        {"edges": [0, 0.1, 0.3, 1], **NULLABLE},
        "numeric(15, 14)",
        (
            ("0.09999999999999", 0),
            ("0.10000000000000", 1),
            ("0.29999999999999", 1),
            ("0.30000000000000", 2),
            ("NaN", MISSING),
        ),
    ),
    Cells(
        "floats that are none",
        {"edges": [0, 1], "outside": "clip", **NULLABLE},
        "float4",
        (("NaN", MISSING), ("Infinity", 0), ("-Infinity", 0), ("0.3", 0)),
    ),
    Cells(
        "lengths",
        {"bounds": [0, 100], "unit": "hour", "dtype": "timedelta64[us]"},
        "interval",
        (("01:30:00", 1), ("1 day 02:00:00.5", 26), ("36:00:00", 36), ("1 mon", REFUSED)),
    ),
    Cells(
        "lengths that are none",
        {"bounds": [0, 9], "unit": "hour", "dtype": "timedelta64[us]"}
        | {"unreadable": "missing", **NULLABLE},
        "interval",
        (("01:30:00", 1), ("1 year", MISSING), (None, MISSING)),
    ),
    Cells(
        "moments at the ends of the calendar",
        CALENDAR,
        "timestamp",
        (
            ("0001-01-01 00:00:00", 0),
            ("9999-12-31 23:59:59.999999", 9998),
            ("infinity", REFUSED),
            ("-infinity", REFUSED),
            ("0044-03-15 00:00:00 BC", REFUSED),
            ("10000-01-01 00:00:00", REFUSED),
        ),
    ),
    Cells(
        "moments beyond the calendar",
        {**CALENDAR, "unreadable": "missing", **NULLABLE},
        "timestamp",
        (("infinity", MISSING), ("0044-03-15 00:00:00 BC", MISSING), ("2024-01-01 00:00:00", 2023)),
    ),
    Cells(
        "days beyond the calendar",
        {**CALENDAR, "unreadable": "missing", **NULLABLE},
        "date",
        (("infinity", MISSING), ("0044-03-15 BC", MISSING), (None, MISSING), ("2024-01-01", 2023)),
    ),
    Cells(
        "instants at the ends of the calendar",
        {**CALENDAR, "zone": "UTC"},
        "timestamptz",
        (
            ("0001-01-01 00:00:00+00", 0),
            ("9999-12-31 23:59:59.999999+00", 9998),
            ("infinity", REFUSED),
            ("10000-01-01 00:00:00+00", REFUSED),
        ),
    ),
    Cells(
        "dates at the ends of the calendar",
        CALENDAR,
        "date",
        (
            ("0001-01-01", 0),
            ("9999-12-31", 9998),
            ("infinity", REFUSED),
            ("-infinity", REFUSED),
            ("0044-03-15 BC", REFUSED),
            ("10000-01-01", REFUSED),
        ),
    ),
    Cells(
        "the end of a day",
        {"bounds": ["00:00", "23:59"], "unit": "hour", "dtype": "time64[us][pyarrow]"},
        "time",
        (("23:59:59.999999", 23), ("08:30:00.5", 8), ("24:00:00", REFUSED)),
    ),
    Cells(
        "times of day in a zone",
        {"bounds": ["00:00", "23:59"], "unit": "hour", "dtype": "time64[us][pyarrow]"},
        "timetz",
        (("08:30:00+02", 8), ("23:59:59-11", 23)),
    ),
    Cells(
        "whole numbers of a domain",
        {"values": [1, 2, 7]},
        "positive",
        (("1", 0), ("7", 2), ("8", REFUSED)),
    ),
    Cells(
        "texts of a domain",
        {"values": ["low", "high"]},
        "named",
        (("low", 0), ("high", 1)),
    ),
    *(
        Cells(kind, {"values": [one, "rest"], "other": "rest"}, kind, ((one, 0), (other, 1)))
        for kind, one, other in (
            ("char(4)", "ab  ", "abc "),
            ("name", "ab", "abc"),
            ("money", "$1,234.50", "$1.00"),
            ("json", '{"a":  1}', "{}"),
            ("jsonb", '{"a": 1}', "{}"),
            ("inet", "10.0.0.1", "10.0.0.0/8"),
            ("cidr", "10.0.0.0/8", "10.0.0.0/16"),
            ("bit(3)", "101", "100"),
            ("oid", "4294967295", "1"),
            ("int4range", "[1,3)", "empty"),
            ("point", "(1,2)", "(1,3)"),
            ("xml", "<a/>", "<b/>"),
            ("tsvector", "'a' 'b'", "'a'"),
        )
    ),
)


def domain_of(cells: Cells, rows: int) -> Domain:
    """Return a domain of the rows' numbers and the cells."""
    attributes = {"row": {"values": [*range(rows)]}, "cell": cells.entry}
    return Domain.from_dict({"attributes": attributes})


def codes_of(source: Source, cells: Cells, texts: list[str | None]) -> list[int | str]:
    """Return the code of each cell in the order of its rows, by counts of row and cell."""
    domain = domain_of(cells, len(texts))
    counts = source.counted(domain, None, None, [("row", "cell")]).marginal(("row", "cell"))
    assert counts.sum(axis=1).tolist() == [1] * len(texts)
    codes = np.argmax(counts, axis=1).tolist()
    null = domain.attributes[1].null_code
    return [MISSING if code == null else code for code in codes]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _rows(cells: Cells, texts: list[str | None], kind: str) -> str:
    listed = (
        f"({row}, cast({'null' if text is None else _quoted(text)} as {kind}))"
        for row, text in enumerate(texts)
    )
    return (
        f"create table cells (row int, cell {kind}); insert into cells values {', '.join(listed)}"
    )


def _types(cells: Cells) -> str:
    """Return the statements that make the type of the cells."""
    listed = ", ".join(_quoted(str(text)) for text, _ in cells.codes)
    made = {
        "level": f"create type level as enum ({listed}); ",
        "positive": "create domain positive as int check (value > 0); ",
        "named": f"create type level as enum ({listed}); create domain named as level; ",
    }
    return made.get(cells.sql, "")


def as_arrow(folder: Path, cells: Cells, texts: list[str | None]) -> pa.Table:
    """Return the cells as DuckDB hands them out."""
    path = folder / "made.duckdb"
    path.unlink(missing_ok=True)
    with duckdb.connect(str(path)) as made:
        made.execute("set TimeZone = 'UTC'")
        made.execute(_types(cells) + _rows(cells, texts, cells.sql))
        return made.sql("select * from cells").to_arrow_table()


def in_duckdb(folder: Path, cells: Cells, texts: list[str | None]) -> Source:
    as_arrow(folder, cells, texts)
    return DuckDbSource(str(folder / "made.duckdb"), "select * from cells")


def in_parquet(folder: Path, cells: Cells, texts: list[str | None]) -> Source:
    pq.write_table(as_arrow(folder, cells, texts), folder / "cells.parquet")
    return ParquetSource(str(folder / "cells.parquet"))


def in_csv(folder: Path, cells: Cells, texts: list[str | None]) -> Source:
    quoted = ("" if one is None else '"' + one.replace('"', '""') + '"' for one in texts)
    lines = [f"{row},{text}\n" for row, text in enumerate(quoted)]
    (folder / "cells.csv").write_text("row,cell\n" + "".join(lines))
    return CsvSource(str(folder / "cells.csv"))


def in_pandas(folder: Path, cells: Cells, texts: list[str | None]) -> Source:
    return FrameSource(as_arrow(folder, cells, texts).to_pandas(), "cells")


def in_polars(folder: Path, cells: Cells, texts: list[str | None]) -> Source:
    polars = pytest.importorskip("polars")
    return FrameSource(polars.from_arrow(as_arrow(folder, cells, texts)), "cells")


SOURCES = {
    "duckdb": in_duckdb,
    "parquet": in_parquet,
    "csv": in_csv,
    "pandas": in_pandas,
    "polars": in_polars,
}


def check(make: Any, folder: Path, cells: Cells) -> None:
    """Compare the codes of all cells at once, and each refused cell by itself."""
    held = [(text, code) for text, code in cells.codes if code != REFUSED]
    texts = [text for text, _ in held]
    assert codes_of(make(folder, cells, texts), cells, texts) == [code for _, code in held]
    for text in (text for text, code in cells.codes if code == REFUSED):
        with pytest.raises(PrivateValuesError):
            codes_of(make(folder, cells, [text]), cells, [text])


def _cases() -> Iterator[Any]:
    for source in SOURCES:
        for cells in CASES:
            marks = [] if source == "pandas" else [pytest.mark.slow]
            yield pytest.param(source, cells, id=f"{source}-{cells.name}", marks=marks)


@pytest.mark.parametrize(("source", "cells"), [*_cases()])
def test_a_cell_has_one_code_in_every_source(source: str, cells: Cells, tmp_path: Path) -> None:
    check(SOURCES[source], tmp_path, cells)


@pytest.mark.slow
@pytest.mark.parametrize("cells", [*CASES, *POSTGRES_CASES], ids=lambda one: one.name)
def test_postgresql_gives_the_same_codes(
    cells: Cells, postgres: PostgresServer, tmp_path: Path
) -> None:
    url = postgres.create_database()
    name = str(make_url(url).database)

    def in_postgres(folder: Path, cells: Cells, texts: list[str | None]) -> Source:
        postgres.execute("drop schema public cascade; create schema public", name)
        postgres.execute(_types(cells) + _rows(cells, texts, cells.sql), name)
        return SqlSource(url, "select * from cells")

    check(in_postgres, Path(), cells)
    if cells in POSTGRES_CASES:
        check(in_csv, tmp_path, cells)
