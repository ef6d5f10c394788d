"""One table, whichever source it comes from, makes one release."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy import make_url

import jam_dagster as jam
from jam_dagster.tables import CsvSource, Domain, DuckDbSource, ParquetSource, SqlSource
from tests.postgres import PostgresServer

HOSTILE = {
    'a "quoted" name': ["x, y", 'say "no"', "=1+1", "50%", "ß\u2028", "' or 1=1 --", " blank", ""],
    "grün; select 1": ["1", "01", "1.0", "TRUE", "nan", "null", "NA", "-"],
}
DOMAIN = Domain.from_dict(
    {
        "attributes": {
            **{
                name: {"values": [*cells[:3], "rest"], "other": "rest", "nullable": True}
                for name, cells in HOSTILE.items()
            },
            "%s": {"edges": [0, 0.1, 10, 1000], "outside": "clip", "nullable": True},
            "born on": {
                "bounds": ["2000-01-01", "2024-12-31"],
                "unit": "day",
                "every": "month",
                "outside": "clip",
                "unreadable": "missing",
                "nullable": True,
            },
        }
    }
)


def people(rows: int = 400) -> pa.Table:
    """Return people with one row each; every third cell of the last columns is missing."""
    rng = np.random.default_rng(5)
    texts = {name: pa.array(rng.choice(cells, rows)) for name, cells in HOSTILE.items()}
    numbers = rng.choice([-1.0, 0.0, 0.1, 0.30000000000000004, 10.0, 1e300], rows)
    days = np.datetime64("1999-12-01") + rng.integers(0, 9500, rows)
    gaps = rng.random(rows) < 0.3
    return pa.table(
        {
            "person": np.arange(rows) // 3,
            **texts,
            "%s": pa.array(numbers, mask=gaps),
            "born on": pa.array(days.astype("datetime64[D]"), mask=gaps[::-1].copy()),
        }
    )


def in_csv(table: pa.Table, folder: Path) -> Any:
    # An empty text is no missing one.
    table.to_pandas().to_csv(folder / "people.csv", index=False, na_rep="\\N")
    return CsvSource(str(folder / "people.csv"), missing=("\\N",), skipinitialspace=False)


def in_parquet(table: pa.Table, folder: Path) -> Any:
    pq.write_table(table, folder / "people.parquet", row_group_size=70)
    return ParquetSource(str(folder / "people.parquet"))


def in_duckdb(table: pa.Table, folder: Path) -> Any:
    with duckdb.connect(str(folder / "people.duckdb")) as made:
        made.register("given", table)
        made.execute("create table people as from given")
    return DuckDbSource(str(folder / "people.duckdb"), "from people")


def in_polars(table: pa.Table, folder: Path) -> Any:
    return pytest.importorskip("polars").from_arrow(table)


SOURCES: dict[str, Callable[[pa.Table, Path], Any]] = {
    "csv": in_csv,
    "parquet": in_parquet,
    "duckdb": in_duckdb,
    "polars": in_polars,
    "arrow": lambda table, folder: table,
}


def released(private: Any, persons: bool) -> pd.DataFrame:
    """Return the synthetic table of seeded noise."""
    options: dict[str, Any] = {"domain": DOMAIN, "mechanism": "independent", "epsilon": 1.0}
    if persons:
        options |= {"privacy_unit": "person", "max_rows": 2}
    made = jam.synthesize(private, **options, noise="numpy", seed=3, checks=False).table
    return made if isinstance(made, pd.DataFrame) else made.to_pandas()


@pytest.fixture(scope="module", params=[False, True], ids=["records", "persons"])
def expected(request: pytest.FixtureRequest) -> tuple[bool, pd.DataFrame]:
    return request.param, released(people().to_pandas(), request.param)


@pytest.mark.slow
@pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES)
def test_a_hostile_table_makes_the_same_release(
    make: Callable[[pa.Table, Path], Any], expected: tuple[bool, pd.DataFrame], tmp_path: Path
) -> None:
    persons, wanted = expected
    found = released(make(people(), tmp_path), persons)
    pd.testing.assert_frame_equal(found, wanted, check_dtype=False)


@pytest.mark.slow
def test_a_hostile_table_of_a_server_makes_the_same_release(
    expected: tuple[bool, pd.DataFrame], postgres: PostgresServer
) -> None:
    persons, wanted = expected
    url = postgres.create_database()
    table = people()
    quoted = [f'"{name.replace(chr(34), 2 * chr(34))}"' for name in table.column_names]
    kinds = ["bigint", "text", "text", "float8", "date"]
    columns = ", ".join(map(" ".join, zip(quoted, kinds, strict=True)))
    rows = ", ".join(f"({', '.join(map(_literal, row.values()))})" for row in table.to_pylist())
    statement = f"create table people ({columns}); insert into people values {rows}"
    postgres.execute(statement, str(make_url(url).database))
    found = released(SqlSource(url, "select * from people"), persons)
    pd.testing.assert_frame_equal(found, wanted, check_dtype=False)


def _literal(cell: object) -> str:
    if cell is None:
        return "null"
    return "'" + str(cell).replace("'", "''") + "'"
