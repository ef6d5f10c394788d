"""Two tables as one source: how each kind of source is read, and what an error may say."""

from __future__ import annotations

import sqlite3
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sqlalchemy import make_url

from jam_dagster.errors import InputError, PrivateValuesError, SpecificationError
from jam_dagster.tables import Domain, FrameSource, ParquetSource, Source, source_from_config
from jam_dagster.tables.codes.privacy_unit import PrivacyUnit
from jam_dagster.tables.domain.children import Link
from jam_dagster.tables.sources.with_children import WithChildren
from tests.postgres import PostgresServer

LINK = Link("persons", "id", 3)
PERSON = {"job": {"values": [0, 1]}, "sex": {"values": ["a", "b"], "nullable": True}}
DOMAIN = Domain.from_dict({"attributes": {"region": {"values": [0, 1]}}}).with_children(
    LINK, Domain.from_dict({"attributes": PERSON})
)
SECRET = bytes(range(32))
NO_FLOAT = 2**53
"""Larger numbers are no floats, which a column with a gap would become."""


def two_tables(number: int = 30) -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(3)
    ids = NO_FLOAT + np.arange(number)
    owners = np.repeat(ids, rng.integers(0, 6, number))
    persons = pd.DataFrame({"id": owners, "job": rng.integers(0, 2, len(owners))})
    persons["sex"] = rng.choice(["a", "b"], len(owners))
    return pd.DataFrame({"id": ids, "region": rng.integers(0, 2, number)}), persons


def stored(frame: pd.DataFrame, kind: str, name: str) -> Source:
    """Return a table as a source of a kind."""
    if kind == "frame":
        return FrameSource(frame, name)
    if kind == "sqlite":
        with sqlite3.connect("people.db") as connection:
            frame.to_sql(name, connection, index=False)
        return source_from_config({"sql": "sqlite:///people.db", "query": f"select * from {name}"})
    write = frame.to_parquet if kind == "parquet" else frame.to_csv
    write(f"{name}.{kind}", index=False)
    return source_from_config(f"{name}.{kind}")


def codes(roots: Source, children: Source, link: Link = LINK) -> list[list[int]]:
    counted = WithChildren(roots, children, link).counted(DOMAIN, PrivacyUnit(link.column), SECRET)
    return [column.tolist() for column in counted.columns]  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("roots", "children"),
    [("csv", "csv"), ("parquet", "parquet"), ("sqlite", "sqlite"), ("csv", "parquet")],
)
def test_every_source_gives_the_same_rows_whoever_is_a_person_of_nobody(
    roots: str, children: str
) -> None:
    """A person without a key, who makes the column one with a gap, changes no other row."""
    households, persons = two_tables()
    expected = codes(FrameSource(households, "h"), FrameSource(persons, "p"))
    strays = pd.DataFrame({"id": pd.array([None, -1], "Int64"), "job": [9, 9], "sex": ["x", "x"]})
    more = pd.concat([strays, persons.astype({"id": "Int64"})], ignore_index=True)
    assert codes(stored(households, roots, "h"), stored(more, children, "p")) == expected


@pytest.mark.slow
def test_two_tables_of_a_server_are_read_like_others(postgres: PostgresServer) -> None:
    """A whole number is the same key in a column of another type."""
    households, persons = (one.assign(id=one["id"] - NO_FLOAT) for one in two_tables())
    expected = codes(FrameSource(households, "h"), FrameSource(persons, "p"))
    url = postgres.create_database()
    database = str(make_url(url).database)
    for name, table, columns in (
        ("h", households, "id bigint, region int"),
        ("p", persons, "id numeric(9, 2), job int, sex text"),
    ):
        postgres.execute(f"create table {name} ({columns})", database)
        rows = ", ".join(map(str, table.to_dict("split")["data"])).replace("[", "(")
        postgres.execute(f"insert into {name} values {rows.replace(']', ')')}", database)
    postgres.execute("insert into p values (null, 9, 'x'), (-1, 9, 'x')", database)
    tables = (
        source_from_config({"sql": url, "query": f"select * from {one}"}) for one in ("h", "p")
    )
    assert codes(*tables) == expected


@pytest.mark.parametrize("kind", ["frame", "csv", "parquet", "sqlite"])
def test_a_table_of_nobody_is_read_like_any_other(kind: str) -> None:
    households, persons = two_tables()
    alone = codes(stored(households, kind, "h"), stored(persons.head(0), kind, "p"))
    assert alone[1] == [0] * len(households)
    nobody = codes(stored(households.head(0), kind, "h2"), stored(persons, kind, "p2"))
    assert nobody == [[]] * len(DOMAIN.names)


def test_a_person_outside_the_domain_is_refused_whether_drawn_or_not() -> None:
    """Chance decides who is drawn, and so must not decide whether a release ends."""
    households = pd.DataFrame({"id": range(40), "region": 0})
    persons = pd.DataFrame({"id": np.repeat(range(40), 8), "job": 0, "sex": "a"})
    for job in range(8):
        wrong = persons.assign(job=[9 if one == job else 0 for one in range(320)])
        with pytest.raises(PrivateValuesError) as refused:
            codes(FrameSource(households, "h"), FrameSource(wrong, "p"))
        assert str(refused.value) == str(PrivateValuesError())


def test_public_tables_say_what_is_wrong_with_their_keys() -> None:
    households, persons = two_tables(5)
    gap = households.astype({"id": "Int64"})
    gap.loc[2, "id"] = pd.NA
    padded = persons.assign(id="0" + persons["id"].astype(str))
    for roots, children, message in (
        (gap, persons, "column 'id' of the public root table has missing values"),
        (households, padded, "write the keys alike in both"),
    ):
        source = WithChildren(FrameSource(roots, "h"), FrameSource(children, "p"), LINK)
        with pytest.raises(InputError, match=message):
            source.read(private=False)
    assert codes(FrameSource(households, "h"), FrameSource(padded, "p"))[1] == [0] * 5


def test_the_contents_are_of_all_columns_of_the_domain() -> None:
    """A column of the root table may begin with the name of the other table."""
    households, persons = two_tables()
    households["persons_a_room"] = 1
    names = ["region", "persons_a_room", "persons", "persons.1.job", "persons.2.job", "id"]

    def contents(roots: pd.DataFrame, children: pd.DataFrame) -> str | None:
        return WithChildren(FrameSource(roots, "h"), FrameSource(children, "p"), LINK).contents(
            names
        )

    before = contents(households, persons)
    assert contents(households.copy(), persons.assign(sex="b")) == before
    assert contents(households.assign(persons_a_room=2), persons) != before
    assert contents(households, persons.assign(job=0)) != before
    # The codes show what a file has.
    mixed = WithChildren(FrameSource(households, "h"), ParquetSource("persons.parquet"), LINK)
    assert mixed.contents(names) is None


def test_what_is_counted_in_its_place_has_no_children() -> None:
    households, _ = two_tables()
    counted = source_from_config({"spark": "sc://host", "query": "select * from p"})
    with pytest.raises(SpecificationError, match="a query by 'sql', or a DataFrame"):
        WithChildren(FrameSource(households, "h"), counted, LINK)


def test_whole_numbers_of_a_numeric_column_are_those_of_an_integer_one() -> None:
    roots, persons = two_tables()
    plain = codes(FrameSource(roots, "roots"), FrameSource(persons, "persons"))
    roots["id"] = roots["id"].map(lambda number: Decimal(int(number)))
    mixed = codes(FrameSource(roots, "roots"), FrameSource(persons, "persons"))
    assert mixed == plain
    persons["id"] = persons["id"].map(lambda number: Decimal(f"{number}.00"))
    assert codes(FrameSource(roots, "roots"), FrameSource(persons, "persons")) == plain
