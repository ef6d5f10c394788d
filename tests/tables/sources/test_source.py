"""A database that counts is one class: what it says of itself is all that a release asks."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pandas as pd
import pytest

import jam_dagster as jam
from jam_dagster.errors import InputError, SpecificationError
from jam_dagster.privacy import Ledger
from jam_dagster.release.engine import Engine
from jam_dagster.tables import (
    CsvSource,
    Domain,
    FrameSource,
    ParquetSource,
    PrivacyUnit,
    Source,
    encode,
)
from jam_dagster.tables.codes.block_counts import CountedTable
from jam_dagster.tables.codes.table import count_blocks
from jam_dagster.tables.sources import parquet
from jam_dagster.tables.sources.base import source_of
from jam_dagster.tables.sources.public import public_of
from jam_dagster.tables.sources.source import Limit

DOMAIN = Domain.from_dict(
    {"attributes": {"sex": {"values": ["f", "m"]}, "town": {"values": ["a", "b", "c"]}}}
)
PEOPLE = [("f", "a")] * 5 + [("m", "c")] * 4 + [("m", "b")]


@dataclass(frozen=True)
class SqliteCounts(Source):
    """A table of texts in a SQLite file, of which counts are kept."""

    path: str
    calls: list[str] = field(default_factory=list)
    records_only = "sqlite"
    has_rows = False

    def read(self, *, private: bool) -> pd.DataFrame:
        with sqlite3.connect(self.path) as connection:
            rows = connection.execute("select sex, town from people").fetchall()
        return pd.DataFrame(rows, columns=["sex", "town"], dtype=object)

    def check(self, domain: Domain, unit: PrivacyUnit | None) -> None:
        self.calls.append("check")

    def _counted(
        self, domain: Domain, limit: Limit | None, cliques: Sequence[tuple[str, ...]]
    ) -> Any:
        self.calls.append("counted")
        return count_blocks([encode(self.read(private=True), domain)], domain, cliques)

    def describe(self) -> str:
        return "people in SQLite"

    def identity(self) -> str:
        return f'{{"sqlite": "{Path(self.path).resolve()}"}}'

    def to_dict(self) -> dict[str, Any]:
        return {"sqlite": self.path}


@pytest.fixture
def people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SqliteCounts:
    monkeypatch.chdir(tmp_path)
    source = SqliteCounts(str(tmp_path / "people.sqlite"))
    with sqlite3.connect(source.path) as connection:
        connection.execute("create table people (sex, town)")
        connection.executemany("insert into people values (?, ?)", PEOPLE)
    return source


def release(source: Source, **changes: Any) -> jam.FrameRelease:
    given: dict[str, Any] = {
        "domain": DOMAIN,
        "epsilon": 1.0,
        "degree": 2,
        "mechanism": "independent",
        "release": "people",
        "dataset": "people",
        "ledger": "ledger.db",
        "report": False,
        "checks": False,
        "evaluation_mode": "private",
        "neighbours": "add_remove",
    }
    return jam.synthesize(source, None, **given | changes)


def stopped(*_: Any, **__: Any) -> NoReturn:
    raise KeyboardInterrupt


def test_a_second_database_counts_what_its_rows_hold(people: SqliteCounts) -> None:
    counted = people.counted(DOMAIN, None, None, [("sex", "town")])
    rows = encode(people.read(private=True), DOMAIN)
    assert isinstance(counted, CountedTable)
    for clique in ((), ("town",), ("sex", "town")):
        assert np.array_equal(counted.marginal(clique), rows.marginal(clique))
    with pytest.raises(SpecificationError, match="'sqlite' protects single records only"):
        people.counted(DOMAIN, PrivacyUnit("name", 2), b"key")


@pytest.mark.slow
def test_a_second_database_releases(people: SqliteCounts) -> None:
    release(people)
    assert people.calls == ["check", "counted"]


def test_it_goes_on_with_the_table_that_it_drew_on(
    people: SqliteCounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Engine, "evaluate", stopped)
        with pytest.raises(KeyboardInterrupt):
            release(people)
    with sqlite3.connect(people.path) as connection:
        connection.execute("update people set town = 'b' where town = 'a'")
    with pytest.raises(InputError, match="another private table"):
        release(people)
    with sqlite3.connect(people.path) as connection:
        connection.execute("delete from people")
        connection.executemany("insert into people values (?, ?)", PEOPLE)
    release(people)


@pytest.mark.parametrize("form", ["csv", "parquet", "parquet left in its file", "folder"])
def test_a_file_is_the_same_table_as_long_as_it_has_the_same_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if form == "parquet left in its file":
        monkeypatch.setattr(parquet, "ENCODED_BYTES", 0)
    rows = pd.DataFrame(PEOPLE, columns=["sex", "town"])
    private: Source = CsvSource("people.csv") if form == "csv" else ParquetSource("people")

    def write(table: pd.DataFrame) -> None:
        if form == "csv":
            table.to_csv("people.csv", index=False)
        elif form == "folder":
            Path("people").mkdir(exist_ok=True)
            table[:4].to_parquet("people/0.parquet", index=False)
            table[4:].to_parquet("people/1.parquet", index=False)
        else:
            table.to_parquet("people", index=False)

    write(rows)
    with monkeypatch.context() as patched:
        patched.setattr(Engine, "evaluate", stopped)
        with pytest.raises(KeyboardInterrupt):
            release(private)
    write(rows.assign(town=[*rows["town"][1:], "a"]))
    with pytest.raises(InputError, match="another private table") as refused:
        release(private)
    assert "town" not in str(refused.value)
    # The refusal is an answer about private values: it counts.
    assert len(Ledger("ledger.db").open_attempts("people")) == 2
    write(rows[::-1])
    assert release(private).errors.synthetic is not None


def test_a_table_is_no_source_whatever_its_columns_are_called() -> None:
    table = pd.DataFrame({"tables": ["a"], "identity": ["b"], "read": ["c"]})
    for given in (source_of(table, "people"), public_of(table)):
        assert isinstance(given, FrameSource)
        assert given.table is table
