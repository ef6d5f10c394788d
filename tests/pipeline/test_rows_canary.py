"""A telling number of private rows is looked for in everything that many people can read."""

import json
from pathlib import Path

import pytest

from tests.numbers_of_rows import KEPT, READ, files_telling_rows, telling
from tests.pipeline.conftest import people, write_tables
from tests.pipeline.test_leak_canary import run
from tests.tiers import gate


def plant(home: Path, *, fatal: bool = False) -> None:
    write_tables(home)
    table = telling(people(5_000, seed=3))
    # The number that is looked for is the one that the mechanism has before it.
    assert table["who"].value_counts().clip(upper=2).sum() == KEPT
    if fatal:
        table.loc[70_000, "sex"] = "neither"
    table.to_csv(home / "private.csv", index=False)


def assert_told_nowhere(home: Path) -> None:
    assert files_telling_rows(home / "dagster") == []
    assert files_telling_rows(home / "releases") == []
    assert [path for path in files_telling_rows(home) if path.suffix == ".sqlite"] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", ["persons who come and go", *gate("persons", "persons, in research")]
)
def test_success_does_not_tell_how_many_rows_there_are(tmp_path: Path, case: str) -> None:
    # Exact noise meets the number itself in one run of eighty, and says so rightly: try anew.
    for attempt in range(5):
        home = tmp_path / str(attempt)
        home.mkdir()
        plant(home)
        done = run(home, case)
        assert done.returncode == 0, done.stderr[-3000:]
        (transcript,) = home.rglob("jam_pgm.run/transcript/transcript.json")
        if json.loads(transcript.read_text())["records"] not in (KEPT, READ):
            break
    assert_told_nowhere(home)


@pytest.mark.gate
@pytest.mark.parametrize("case", ["persons who come and go", "persons", "persons, in research"])
def test_snapshots_do_not_tell_how_many_rows_there_are(tmp_path: Path, case: str) -> None:
    """Of a table of the project, the second drawn on the first."""
    for attempt in range(5):
        home = tmp_path / str(attempt)
        home.mkdir()
        plant(home)
        for snapshot in ("first", "second"):
            done = run(home, f"snapshots of {case}", partition=snapshot)
            assert done.returncode == 0, done.stderr[-3000:]
        found = [
            json.loads(path.read_text())["records"]
            for path in home.rglob("jam_pgm/*.run/transcript/transcript.json")
        ]
        assert len(found) == 2
        if not {KEPT, READ} & {*found}:
            break
    assert_told_nowhere(home)


@pytest.mark.gate
def test_failure_does_not_tell_how_many_rows_there_are(tmp_path: Path) -> None:
    plant(tmp_path, fatal=True)
    done = run(tmp_path, "persons")
    assert done.returncode != 0
    assert "The private table does not fit" in done.stderr
    assert_told_nowhere(tmp_path)
