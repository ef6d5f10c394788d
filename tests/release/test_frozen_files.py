"""The files of two folders of releases are what they were, and a repeat writes the same bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jam_dagster.privacy import Ledger
from tests.cli_bench import run_cli, write_tables
from tests.frozen_files import contents, frozen, listing
from tests.release.test_children import two_tables

pytestmark = pytest.mark.slow

# Each of its rounds measures, whatever noise says.
SMALL = ("--mechanism", "mst", "--setting", "iterations=20", "--degree", "2")
PEOPLE = ("--ledger", "ledger.db", "--dataset", "people", "--out", "out")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def made_twice(case: str, *arguments: Any) -> None:
    """Compare what a command writes with what is frozen, and a repeat with the first time."""
    first = run_cli("synthesize", *arguments, *PEOPLE)
    assert first.exit_code == 0, first.output
    for folder in ("out", "ledger.db-private"):
        found = listing(Path(folder))
        assert found == frozen(f"{case}: {folder}", found)
    before = contents(Path("out"))
    again = run_cli("synthesize", *arguments, *PEOPLE)
    assert again.exit_code == 0, again.output
    after = contents(Path("out"))
    assert after.keys() == before.keys()
    assert {name for name in before if before[name] != after[name]} == set()


def test_one_table_with_exact_errors_and_rows_of_persons(home: Path) -> None:
    write_tables()
    tables = ("--private", "priv.csv", "--public", "pub.csv", "--domain", "domain.json")
    Path("priv.csv").write_text(
        "\n".join(
            f"{line},{'who' if not n else n // 2}"
            for n, line in enumerate(Path("priv.csv").read_text().splitlines())
        )
    )
    Ledger("ledger.db")
    limits = ("--privacy-unit", "who", "--max-rows", "2", "--neighbours", "add_remove")
    made_twice(
        "one table",
        *tables,
        "--epsilon",
        "0.5",
        *limits,
        *SMALL,
        *("--evaluation-mode", "exact"),
    )


def test_two_tables_with_noisy_errors(home: Path) -> None:
    for name, seed in (("private", 1), ("public", 2)):
        for table, frame in zip(("households", "persons"), two_tables(600, seed), strict=True):
            frame.to_csv(f"{name}_{table}.csv", index=False)
    Ledger("ledger.db").grant("people", epsilon=9.0, delta=1e-8)
    persons = '{"persons": {"private": "private_persons.csv", "public": "public_persons.csv",'
    persons += ' "key": "household", "max": 3}}'
    tables = ("--private", "private_households.csv", "--public", "public_households.csv")
    made_twice(
        "two tables", *tables, "--children", persons, "--epsilon", "2", "--degree", "2", *SMALL
    )
