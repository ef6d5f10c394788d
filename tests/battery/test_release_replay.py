"""Record and replay of a whole release, from the file on.

The private table is changed in one record, in ways that files know: a missing value, a town nobody
lists, an infinite age. With the noise answering as before, every file that may leave must be equal
byte for byte, the domain and the number of rows with it.
"""

from __future__ import annotations

import datetime
import re
import sqlite3
import uuid
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from sqlalchemy import create_engine

from jam_dagster.certificates import Certificate
from jam_dagster.mechanisms import mechanism_class
from jam_dagster.mechanisms.configuration import synthesizing
from jam_dagster.mechanisms.loops.settings import settings_of
from jam_dagster.privacy import Kind, Ledger, SeededNoise
from jam_dagster.privacy.accounting import units_up
from jam_dagster.release import SynthesisRequest, synthesize
from jam_dagster.release.engine import Progress
from jam_dagster.tables import source_from_config
from tests.battery.listening import Call, Listening
from tests.budgets import PUBLIC_N
from tests.postgres import PostgresServer

pytestmark = pytest.mark.slow


class Exact(SeededNoise):
    """Seeded noise that passes for exact: a release has no other, and this one can be repeated."""

    name = "exact"  # type: ignore[assignment]
    releasable = True  # type: ignore[assignment]
    repeatable = False  # type: ignore[assignment]


class Stopped(datetime.datetime):
    """A clock that stands still: when something was charged or made is no private matter here."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> Stopped:
        return cls(2026, 11, 21, 12, 0, 0, tzinfo=tz)


CLOCKS = ("privacy.ledger.journal", "certificates.issue", "release.engine")


def people(rows: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 95, rows).astype(object)
    age[rng.random(rows) < 0.1] = None
    town = rng.choice(["Aix", "Bern", "Cork"], rows)
    income = np.where(rng.random(rows) < 0.3, 0.0, rng.gamma(2.0, 9_000.0, rows).round(2))
    return pd.DataFrame({"town": town, "age": age, "income": income})


def released(
    folder: Path,
    private: pd.DataFrame,
    noise: Listening,
    patch: pytest.MonkeyPatch,
    *,
    report: bool = False,
    source: str | dict[str, Any] = "private.csv",
    written: Callable[[pd.DataFrame], None] = lambda table: None,
    **changes: Any,
) -> dict[str, Any]:
    """Make a release of a private table and return all that it left, told and charged."""
    # Where the table lies, and the secret that its place is keyed by, are no part of it.
    place = folder.with_name("place")
    place.mkdir()
    patch.chdir(place)
    patch.setattr("jam_dagster.privacy.private_store.secrets", SimpleNamespace(token_bytes=bytes))
    private.to_csv("private.csv", index=False)
    # With the types of a full table, as a database writes one: they are not its rows'.
    typed = private.astype({"age": "float64", "income": "float64"})
    typed.to_parquet("private.parquet")
    written(typed)
    people(120, seed=2).to_csv("public.csv", index=False)
    for clock in CLOCKS:
        patch.setattr(f"jam_dagster.{clock}.datetime", Stopped)
    ledger = Ledger("ledger.db")
    ledger.grant("people", epsilon=2.0, delta=1e-9, policy=PUBLIC_N)
    patch.setattr("jam_dagster.release.funding.make_noise", lambda *_: noise)
    patch.setattr("jam_dagster.privacy.ledger.release_id.uuid4", lambda: uuid.UUID(int=1))
    notices: list[str] = []
    synthesize(
        SynthesisRequest.of(
            private=source_from_config(source),
            public=source_from_config("public.csv"),
            out=Path("out"),
            **{
                "epsilon": 1.0,
                "mechanism": "jam_pgm",
                "settings": {"rounds": 4, "iterations": 30},
                "degree": 2,
                "evaluation_mode": "private",
                "evaluation_share": 0.1,
                "ledger": "ledger.db",
                "dataset": "people",
                "checks": False,
                "report": report,
                **changes,
            },
        ),
        Progress(notify=notices.append),
    )
    files = {str(p): p.read_bytes() for p in sorted(Path("out").rglob("*")) if p.is_file()}
    charged = [
        (e.kind, e.share, e.step, e.units, e.specification, e.digest, e.hash)
        for e in ledger.events()
    ]
    # What is journalled or sealed by a plain digest is of what was drawn, or follows from it.
    digests = {kind for kind, *_, digest, _ in charged if digest}
    assert digests - {Kind.DERIVED} == {Kind.STORED, Kind.RAN, Kind.CERTIFIED}
    sealed = {file.path for file in Certificate.load(Path("out")).files.values()}
    assert "errors.json" in sealed
    assert ("report.html" in sealed) == report
    assert not any("restricted" in path or "draws" in path for path in sealed)
    # The mechanism's draws and the evaluation's: each is an entry, and the other way round. Choices
    # of one entry are drawn one by one, with a unit of rounding each.
    drawn: dict[str, list[int]] = {}
    for call in noise.calls:
        step = re.sub(r"(/select)/[0-9]+$", r"\1", call.step)
        drawn.setdefault(step, []).append(units_up(call.rho))
    paid = {step: units for kind, _, step, units, *_ in charged if kind == Kind.CHARGED}
    assert list(paid) == list(drawn)
    assert all(0 <= sum(drawn[step]) - paid[step] < len(drawn[step]) for step in paid)
    patch.chdir(folder.parent)
    place.rename(folder)
    return {**files, "ledger": charged, "notices": notices}


HOSTILE: dict[str, dict[str, Any]] = {
    "another person": {"town": "Cork", "age": 40, "income": 12_345.67},
    "missing values": {"age": None},
    "a town nobody lists": {"town": "Zug"},
    "numbers beyond the bounds": {"age": 10**6, "income": -1e300},
    "an infinite number": {"income": np.inf},
    "many decimals": {"income": 17.123456789012345, "age": 12.75},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_one_record_changes_nothing_that_is_released(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A report takes seconds, and looks at what the other files hold.
    report = name == "another person"
    private = people(200, seed=1)
    first = Listening(Exact(4))
    before = released(tmp_path / "a", private, first, monkeypatch, report=report)
    assert {
        "out/domain.yaml",
        "out/synthetic.csv",
        "out/errors.json",
        "out/certificate.json",
    } <= before.keys()

    other = private.astype(object)
    for column, value in HOSTILE[name].items():
        other.loc[7, column] = value
    second = Listening(Exact(4), answers=first.answered)
    after = released(tmp_path / "b", other, second, monkeypatch, report=report)

    assert after.keys() == before.keys()
    assert [file for file in before if before[file] != after[file]] == []
    assert_as_close_as_the_noise_is_made_for(first.calls, second.calls)


def assert_one_record_changes_nothing(
    folder: Path, patch: pytest.MonkeyPatch, **given: Any
) -> None:
    private = people(200, seed=1)
    other = private.astype(object)
    other.loc[7, ["town", "age", "income"]] = ["Zug", None, 1e300]
    if given.get("neighbours") == "add_remove":
        other = private.drop(index=7).reset_index(drop=True)
    first = Listening(Exact(4))
    before = released(folder / "a", private, first, patch, **given)
    second = Listening(Exact(4), answers=first.answered)
    after = released(folder / "b", other, second, patch, **given)
    assert after.keys() == before.keys()
    assert [file for file in before if before[file] != after[file]] == []
    assert_as_close_as_the_noise_is_made_for(first.calls, second.calls)


def in_sqlite(table: pd.DataFrame) -> None:
    with closing(sqlite3.connect("people.db")) as database:
        table.to_sql("people", database, index=False)


def in_duckdb(table: pd.DataFrame) -> None:
    with duckdb.connect("people.duckdb") as database:
        database.register("given", table)
        database.execute("create table people as select * from given")


QUERY = "select * from people"
WAYS: dict[str, tuple[Any, Callable[[pd.DataFrame], None]]] = {
    "parquet": ("private.parquet", lambda table: None),
    "sqlite": ({"sql": "sqlite:///people.db", "query": QUERY}, in_sqlite),
    "duckdb": ({"duckdb": "people.duckdb", "query": QUERY}, in_duckdb),
}


@pytest.mark.parametrize("way", WAYS)
def test_one_record_changes_nothing_by_any_way_in(
    tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, written = WAYS[way]
    assert_one_record_changes_nothing(
        tmp_path, monkeypatch, source=source, written=written, neighbours="add_remove"
    )


def test_one_record_changes_nothing_in_a_server(
    tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres.create_database()

    def written(table: pd.DataFrame) -> None:
        engine = create_engine(url)
        table.to_sql("people", engine, index=False, if_exists="replace")
        engine.dispose()

    assert_one_record_changes_nothing(
        *(tmp_path, monkeypatch),
        source={"sql": url, "query": QUERY},
        written=written,
        neighbours="add_remove",
    )


@pytest.mark.parametrize("mechanism", sorted({*synthesizing()} - {"jam_pgm"}))
def test_one_record_changes_nothing_by_any_mechanism(
    tmp_path: Path, mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = settings_of(mechanism_class(mechanism))
    small = {"rounds": 4, "iterations": 20, "components": 20, "pretraining_iterations": 20}
    settings = {name: value for name, value in small.items() if name in names}
    assert_one_record_changes_nothing(tmp_path, monkeypatch, mechanism=mechanism, settings=settings)


@pytest.mark.parametrize(
    ("source", "unit"),
    [("private.csv", False), ("private.parquet", False), ("private.csv", True)],
    ids=["csv", "parquet", "persons"],
)
def test_whether_there_is_anybody_changes_nothing_that_is_released(
    tmp_path: Path, source: str, unit: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = people(1, seed=3)
    changes: dict[str, Any] = {"neighbours": "add_remove"}
    if unit:
        one = one.assign(who="p1")
        changes = {"neighbours": "replace_one", "privacy_unit": "who", "max_rows": 2}
        monkeypatch.setattr("jam_dagster.release.place.new_secret", lambda: bytes(32))
    given: dict[str, Any] = {"report": False, "source": source, **changes}
    first = Listening(Exact(4))
    before = released(tmp_path / "a", one, first, monkeypatch, **given)
    second = Listening(Exact(4), answers=first.answered)
    after = released(tmp_path / "b", one.iloc[:0], second, monkeypatch, **given)

    assert after.keys() == before.keys()
    assert [file for file in before if before[file] != after[file]] == []
    assert_as_close_as_the_noise_is_made_for(first.calls, second.calls)


def assert_as_close_as_the_noise_is_made_for(first: list[Call], second: list[Call]) -> None:
    moved = 0.0
    for one, other in zip(first, second, strict=True):
        assert one.moved(other) <= one.reach * (1 + 1e-9)
        moved = max(moved, one.moved(other))
    # The record did reach the draws.
    assert moved > 0
