"""Runs that are killed, and faults that the killing must bring to light."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.postgres import running_server
from tests.torture.cases import CASES
from tests.torture.faults import FAULTS
from tests.torture.points import Points, Target
from tests.torture.tally import Tally, units_of

ROOT = Path(__file__).parents[2]


def torture(*arguments: str) -> str:
    """Run the command in a process that has no other threads, since it forks."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.torture", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def verdicts() -> dict[str, str]:
    answers: dict[str, str] = json.loads(torture("--faults"))
    return answers


@pytest.mark.gate
@pytest.mark.xdist_group("faults")
@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_noticed(name: str, verdicts: dict[str, str]) -> None:
    if FAULTS[name].verdict:
        assert FAULTS[name].verdict in verdicts[name]
    else:
        assert verdicts[name] == ""


@pytest.fixture(scope="module")
def failures() -> dict[str, str]:
    answers: dict[str, str] = json.loads(torture("--cases"))
    return answers


@pytest.mark.slow
@pytest.mark.xdist_group("lost draws")
@pytest.mark.parametrize("name", [case.__name__ for case in CASES])
def test_a_lost_draw(name: str, failures: dict[str, str]) -> None:
    assert not failures[name], failures[name]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "kills"),
    [
        ("SQLite", 8),
        pytest.param("PostgreSQL", 8, marks=pytest.mark.gate),
        pytest.param("Dagster", 2, marks=pytest.mark.gate),
        pytest.param("Files", 20, marks=pytest.mark.gate),
    ],
)
def test_kills_leave_the_ledger_above_the_truth(backend: str, kills: int) -> None:
    if backend == "PostgreSQL":
        with running_server():
            pass  # else the test is skipped, with the reason
    output = torture(f"--{backend.lower()}", str(kills), "--seed", "1")
    assert output.startswith(f"{backend}: {kills} kills")


def test_a_run_dies_at_the_chosen_time_only() -> None:
    points = Points(Target("draw", 2, step="b"))
    assert not points.due("draw", "b")
    assert not points.due("draw", "a")
    assert not points.due("store", "b")
    assert points.due("draw", "b")
    assert not points.due("draw", "b")
    assert points.reached == {"draw": 4, "store": 1}


def test_a_tally_keeps_what_was_added(tmp_path: Path) -> None:
    tally = Tally(tmp_path / "tally.jsonl")
    assert tally.lines() == []
    tally.add(what="drawn", step="s", units=units_of(0.1), digest="d")
    tally.add(what="stored", step="s")
    # 0.1 as a float is a little more than a tenth.
    assert [(line.what, line.units) for line in tally.lines()] == [
        ("drawn", 100_000_000_000_001),
        ("stored", 0),
    ]
