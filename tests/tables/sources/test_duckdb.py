"""Queries by DuckDB: what is read, in how much memory, and the identity of a spelling."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

from jam_dagster.errors import InputError, PrivateValuesError, SourceError
from jam_dagster.tables import (
    CategoricalAttribute,
    Domain,
    DuckDbSource,
    NumericAttribute,
    PrivacyUnit,
    Workload,
    encode,
    source_from_config,
)
from jam_dagster.tables.sources import duckdb as duckdb_source
from jam_dagster.tables.sources.identity import is_one_file, query_text
from jam_dagster.tables.sources.public_apart import same_rows

DOMAIN = Domain(
    (
        CategoricalAttribute("sex", ("f", "m", "x"), other="x"),
        NumericAttribute("age", (0, 20, 40, 99), integer=True, clip=True, nullable=True),
        CategoricalAttribute("year", ("2024", "2025")),
    )
)
PEOPLE = pd.DataFrame(
    {
        "age": pd.array([3, None, 41, 120, 7, 20], "Int64"),
        "sex": ["f", "m", None, "?", "f", "m"],
        "name": [f"n{place}" for place in range(6)],
    }
).fillna({"sex": "x"})
ASKED = Workload.all_k_way(DOMAIN, 3).downward_closure()


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "made.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.register("rows", PEOPLE.assign(year="2024"))
        connection.execute("create table people as from rows")
        connection.execute("create table many as select i % 2 age, i v from range(300000) r(i)")
    return path


@pytest.fixture
def database(made_once: Path, tmp_path: Path) -> str:
    return str(shutil.copy(made_once, tmp_path / "it's.duckdb"))


def counts(source: Any, domain: Domain = DOMAIN) -> dict[Any, Any]:
    cliques = [one for one in ASKED if set(one) <= set(domain.names)]
    return source.counted(domain, None, None, cliques).marginals(cliques)


def test_a_query_on_a_database(database: str) -> None:
    source = DuckDbSource(database, "from people -- all of them")
    expected = encode(PEOPLE.assign(year="2024"), DOMAIN).marginals(ASKED)
    found = counts(source)
    assert all(np.array_equal(found[one], expected[one]) for one in ASKED)
    assert source.count_records(None) == 6


def test_an_empty_table(database: str) -> None:
    source = DuckDbSource(database, "from people where age > 1000")
    assert source.counted(DOMAIN, None, None, ASKED).records == 0
    with pytest.raises(InputError, match="no column 'sex'"):
        DuckDbSource(database, "from many").counted(DOMAIN, None, None, ASKED)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("from nowhere", "CatalogException"),
        ("from people; from people", "one SELECT"),
        ("create table more (a int)", "one SELECT"),
        ("select age, age from people", "two columns of the same name"),
    ],
)
def test_queries_that_are_refused(database: str, query: str, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        DuckDbSource(database, query).read(private=True)


def test_a_query_reads_its_file_alone(tmp_path: Path, database: str) -> None:
    PEOPLE.to_parquet(tmp_path / "part.parquet")
    with pytest.raises(SourceError, match="PermissionException"):
        DuckDbSource(database, f"from '{tmp_path}/part.parquet'").read(private=True)


def test_places_that_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no such file"):
        DuckDbSource(str(tmp_path / "a.duckdb"), "from people").read(private=True)


@pytest.mark.slow
def test_more_than_memory(database: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    spilled = tmp_path / "spilled"
    spilled.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(spilled))
    limited = duckdb_source.SETTINGS | {"memory_limit": "30MB", "threads": 1}
    monkeypatch.setattr(duckdb_source, "SETTINGS", limited)
    # 48 MB of groups.
    query = "select age, repeat(md5(v::text), 5) as long, count(*) from many group by all"
    rows = 0
    for chunk in DuckDbSource(database, query).batches(["age", "long"]):
        if not rows:
            (private,) = spilled.iterdir()
            assert private.stat().st_mode & 0o077 == 0
            assert sum(one.stat().st_size for one in private.iterdir()) > 1e6
        assert len(chunk) <= duckdb_source.READ_ROWS
        rows += len(chunk)
    assert rows == 300_000
    assert not list(spilled.iterdir())


def test_a_fault_of_a_value_leaves_no_folder(
    database: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    spilled = tmp_path / "spilled"
    spilled.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(spilled))
    ages = Domain((NumericAttribute("age", (0, 20), integer=True),))
    with pytest.raises(PrivateValuesError) as fault:
        DuckDbSource(database, "from people").counted(ages, None, None)
    # The error is held here, and its traceback holds what was not closed.
    assert fault.value.__traceback__ is not None
    assert not list(spilled.iterdir())


def test_rows_of_a_person_are_limited_in_any_order(tmp_path: Path) -> None:
    path, unit, secret = str(tmp_path / "visits.duckdb"), PrivacyUnit("who", 2), b"k" * 32
    with duckdb.connect(path) as made:
        made.execute(
            "create table visits as select i % 40 who, ['f', 'm', 'x'][1 + i * i % 3] sex,"
            " i % 50 age, 2024 + i % 2 as year from range(300) t(i)"
        )
    orders = ("i", "-i", "hash(i)")
    columns = "select who, sex, age, year from (select *, row_number() over () i from visits)"
    sources = [DuckDbSource(path, f"{columns} order by {order}") for order in orders]
    first, *others = (source.counted(DOMAIN, unit, secret, ASKED) for source in sources)
    assert first.records == sources[0].count_records(unit) == 80
    for found in others:
        for clique in ASKED:
            assert (found.marginal(clique) == first.marginal(clique)).all()
    with pytest.raises(InputError, match="no column 'name'"):
        sources[0].counted(DOMAIN, PrivacyUnit("name"), secret)


def test_identities(database: str) -> None:
    query = source_from_config({"duckdb": database, "query": "from  people;"})
    assert query.identity() == DuckDbSource(database, "from people").identity()
    assert query.identity() != DuckDbSource(database, "from many").identity()
    assert not is_one_file(query.identity())
    assert source_from_config(query.to_dict()) == query


def test_blanks_within_an_array_s_texts_tell_two_queries_apart() -> None:
    """One dialect's quoted name is another's array: a threshold could stand in its blanks."""
    for query in (
        "from people where age > len(['a]{}b[', ''][1])",
        "select * from people where age > length((array['a]{}b[',''])[1])",
    ):
        assert query_text(query.format(" ")) != query_text(query.format("  "))
    assert query_text("select [a  b]  from people") == "select [a  b] from people"


def test_the_private_table_is_no_public_one(database: str) -> None:
    os.link(database, f"{database}.again")
    assert same_rows(
        DuckDbSource(database, "from people"), DuckDbSource(f"{database}.again", "FROM people;")
    )
    assert not same_rows(DuckDbSource(database, "from people"), DuckDbSource(database, "from many"))
