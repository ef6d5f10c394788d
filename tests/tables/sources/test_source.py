"""A database that counts is one class: what it says of itself is all that a release asks."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pandas as pd
import pytest

import jam_dagster as jam
from jam_dagster.errors import InputError, SpecificationError
from jam_dagster.release.engine import Engine
from jam_dagster.tables import Domain, FrameSource, PrivacyUnit, Source, encode
from jam_dagster.tables.codes.block_counts import CountedTable
from jam_dagster.tables.codes.ibis_codes import counted_groups, engine_blocks
from jam_dagster.tables.sources.base import source_of
from jam_dagster.tables.sources.public import public_of
from jam_dagster.tables.sources.source import ROWS, Limit

DOMAIN = Domain.from_dict(
    {"attributes": {"sex": {"values": ["f", "m"]}, "town": {"values": ["a", "b", "c"]}}}
)
PEOPLE = [("f", "a")] * 5 + [("m", "c")] * 4 + [("m", "b")]


@dataclass(frozen=True)
class SqliteCounts(Source):
    """A table of texts in a SQLite file, whose groups SQLite counts."""

    path: str
    count: str = "sqlite"
    calls: list[str] = field(default_factory=list)
    records_only = "sqlite"

    @property
    def counted_by(self) -> str:
        return self.count

    def counting_by(self, counted_by: str | None) -> SqliteCounts:
        return replace(self, count=counted_by or ROWS)

    def _asked(self, columns: Sequence[str], what: str, group: str = "") -> pd.DataFrame:
        names = [*columns, *([what] if what else [])]
        with sqlite3.connect(self.path) as connection:
            rows = connection.execute(f"select {', '.join(names)} from people {group}").fetchall()
        return pd.DataFrame(rows, columns=names, dtype=object)

    def read(self, *, private: bool) -> pd.DataFrame:
        if self.count == "sqlite":
            raise AssertionError("rows are not read")
        return self._asked(DOMAIN.names, "")

    def check_counting(
        self, domain: Domain, unit: PrivacyUnit | None, cliques: Iterable[tuple[str, ...]]
    ) -> None:
        self.calls.append("check_counting")

    def _counted(
        self, domain: Domain, limit: Limit | None, cliques: Sequence[tuple[str, ...]]
    ) -> Any:
        if self.counted_by == ROWS:
            return super()._counted(domain, limit, cliques)
        self.calls.append("counted")
        blocks = engine_blocks(domain, cliques)

        def groups() -> Any:
            for block in blocks:
                found = self._asked(block, "count(*)", f"group by {', '.join(block)}")
                codes = encode(found[list(block)], domain.project(block), private=True)
                sizes = [domain.sizes[name] for name in block]
                cells = np.ravel_multi_index([codes.column(one) for one in block], sizes)
                yield block, np.array([cells, found["count(*)"].to_numpy(int)])

        return counted_groups(groups(), domain, blocks)

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
        "evaluate": "private",
        "neighbours": "add_remove",
    }
    return jam.synthesize(source, None, **given | changes)


def stopped(*_: Any, **__: Any) -> NoReturn:
    raise KeyboardInterrupt


def test_a_second_database_counts_what_its_rows_hold(people: SqliteCounts) -> None:
    counted = people.counted(DOMAIN, None, None, [("sex", "town")])
    rows = replace(people, count=ROWS).counted(DOMAIN, None, None)
    assert isinstance(counted, CountedTable)
    for clique in ((), ("town",), ("sex", "town")):
        assert np.array_equal(counted.marginal(clique), rows.marginal(clique))
    with pytest.raises(SpecificationError, match="'sqlite' protects single records only"):
        people.counted(DOMAIN, PrivacyUnit("name", 2), b"key")


@pytest.mark.slow
def test_a_second_database_releases(people: SqliteCounts) -> None:
    assert release(people).certificate.counted_by == "sqlite"
    assert people.calls == ["check_counting", "counted"]


def test_it_goes_on_as_it_began_with_the_table_that_it_drew_on(
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
    assert release(replace(people, count=ROWS)).certificate.counted_by == "sqlite"


def test_a_table_is_no_source_whatever_its_columns_are_called() -> None:
    table = pd.DataFrame({"tables": ["a"], "identity": ["b"], "read": ["c"]})
    for given in (source_of(table, "people"), public_of(table)):
        assert isinstance(given, FrameSource)
        assert given.table is table
