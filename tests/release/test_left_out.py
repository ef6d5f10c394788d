"""Private columns that a release leaves out are named, and no value of them is."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

import jam_dagster as jam
from jam_dagster.release.left_out import left_out_remark
from jam_dagster.tables import (
    CsvSource,
    Domain,
    DuckDbSource,
    FrameSource,
    ParquetSource,
    PrivacyUnit,
    Source,
    SqlSource,
)

DOMAIN = Domain.from_dict({"attributes": {"sex": {"values": ["f", "m"]}}})
TABLE = pd.DataFrame({"sex": ["f", "m"] * 50, "income": 4711, "pers\non": range(100)})
REMARK = (
    "The release leaves out columns of the private table that the domain does not have: income,"
    " pers\\non. To keep one, add it to the public table, or declare it in the domain."
)


UNNAMED = (
    "Columns of the private table without a name, such as an index that pandas stored, are left out"
    " (1): to keep them, name them in both tables."
)


def sources(folder: Path) -> list[Source]:
    csv, parquet, database = (folder / f"private.{kind}" for kind in ("csv", "parquet", "duckdb"))
    TABLE.to_csv(csv, index=False)
    TABLE.to_parquet(parquet, index=False)
    with closing(sqlite3.connect(folder / "private.sqlite")) as tables:
        TABLE.to_sql("people", tables, index=False)
    with duckdb.connect(str(database)) as connection:
        connection.register("given", TABLE)
        connection.execute("create table people as select * from given")
    return [
        *(FrameSource(one, "people") for one in (TABLE, pa.Table.from_pandas(TABLE))),
        ParquetSource(str(parquet)),
        DuckDbSource(str(database), query="from people"),
        CsvSource(str(csv)),
        SqlSource(f"sqlite:///{folder / 'private.sqlite'}", query="select * from people;"),
    ]


def test_every_source_that_knows_its_columns_names_those_that_are_left_out(tmp_path: Path) -> None:
    for source in sources(tmp_path):
        assert left_out_remark(source, DOMAIN, None) == REMARK


def test_what_is_in_the_domain_or_names_the_person_is_not_left_out() -> None:
    unit = PrivacyUnit("pers\non", 1)
    source = FrameSource(TABLE, "people")
    remark = left_out_remark(source, DOMAIN, unit)
    assert "income." in remark
    assert "pers" not in remark
    assert left_out_remark(FrameSource(TABLE[["sex"]], "people"), DOMAIN, None) == ""
    assert left_out_remark(source, replace(DOMAIN, identified_from="private"), None) == ""


def test_a_column_that_looks_like_a_name_is_read_as_it_and_not_left_out() -> None:
    table = TABLE[["sex"]].rename(columns={"sex": " SEX"})
    assert left_out_remark(FrameSource(table, "people"), DOMAIN, None) == ""
    both = FrameSource(table.assign(sex="f"), "people")
    assert "does not have:  SEX. To keep" in left_out_remark(both, DOMAIN, None)


def test_the_index_of_a_table_and_nameless_columns_are_named_too() -> None:
    table = TABLE[["sex"]].assign(**{"": 1}).set_index(pd.RangeIndex(100, name="row"))
    remark = left_out_remark(FrameSource(table, "people"), DOMAIN, None)
    assert ": row. To keep one" in remark
    assert remark.endswith(UNNAMED)


def test_an_index_that_pandas_stored_without_a_name_is_said_to_be_one(tmp_path: Path) -> None:
    table = TABLE[["sex"]].set_axis([f"p{row}" for row in range(100)])
    table.to_parquet(tmp_path / "private.parquet")
    assert (
        left_out_remark(ParquetSource(str(tmp_path / "private.parquet")), DOMAIN, None) == UNNAMED
    )


def test_many_columns_are_cut_short() -> None:
    wide = TABLE[["sex"]].assign(**{f"c{place}": 0 for place in range(40)})
    remark = left_out_remark(FrameSource(wide, "people"), DOMAIN, None)
    assert "c9 and 30 more" in remark


def test_a_record_of_a_file_without_a_header_is_not_taken_for_names(tmp_path: Path) -> None:
    path = tmp_path / "private.csv"
    path.write_text("0,1,4711\n1,0,4711\n")
    domain = Domain.from_sizes({"0": 2, "1": 2})
    assert left_out_remark(CsvSource(str(path)), domain, None) == ""


def test_names_that_rows_may_decide_are_not_asked_for() -> None:
    pivot = SqlSource("duckdb:///people.duckdb", query="pivot people on town using count(*)")
    assert pivot.names() == []


@pytest.mark.parametrize(
    "source", [SqlSource("sqlite:///gone.db", query="select 1"), CsvSource("gone.csv")]
)
def test_a_source_that_does_not_know_its_columns_costs_no_release(source: Source) -> None:
    assert left_out_remark(source, DOMAIN, None) == ""


def test_a_release_says_what_it_leaves_out() -> None:
    public = TABLE[["sex"]]
    made = jam.synthesize(
        TABLE, public, domain=DOMAIN, epsilon=30.0, degree=1, mechanism="independent", noise="numpy"
    )
    assert REMARK in made.messages
    assert "4711" not in "".join(made.messages)
    # Before the draws, and once.
    large = [one for one in made.messages if "epsilon = 30 is large" in one]
    assert len(large) == 1
    assert made.messages.index(large[0]) < made.messages.index(REMARK)


def test_a_release_warns_of_large_settings_and_of_an_empty_public_column() -> None:
    domain = Domain.from_dict(
        {
            "attributes": {
                "sex": {"values": ["f", "m"]},
                "income": {"bounds": [0, 9000], "bins": 2, "outside": "clip", "nullable": True},
            }
        }
    )
    given = {"domain": domain, "degree": 1, "mechanism": "independent", "noise": "numpy"}
    public = TABLE[["sex"]].assign(income=float("nan"))
    made = jam.synthesize(TABLE, public, epsilon=21.0, delta=0.01, **given)  # type: ignore[arg-type]
    for part in (
        "income: each cell of the public table is missing or infinite",
        "epsilon = 21 is large",
        "delta = 0.01 is not below 1 / n",
    ):
        assert len([one for one in made.messages if part in one]) == 1
    few = jam.synthesize(
        TABLE,
        public.assign(income=4711),
        epsilon=20.0,
        delta=0.001,
        **given,  # type: ignore[arg-type]
    )
    assert [one for one in few.messages if one.startswith("Warning")] == []
