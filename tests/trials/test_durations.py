"""What a run is expected to take: by rows like it, by the grid, or by its mechanism's pace."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jam_dagster.mechanisms import MECHANISMS
from jam_dagster.trials import Run, load_grid
from jam_dagster.trials.durations import Durations

FIVE, LARGE, ROUNDS = (
    Run("s", "aim", ((name, value),), epsilon=1.0, seed=0)
    for name, value in (("size_limit_mb", 5), ("size_limit_mb", 80), ("rounds", 20))
)


def row(run: Run, seconds: float, **columns: Any) -> dict[str, Any]:
    plain = {name: getattr(run, name) for name in ("mechanism", "split", "epsilon")}
    plain |= {"parameters": run.parameters_json(), "status": "done", "seconds": seconds}
    return plain | columns


def test_an_estimate_is_of_the_runs_nearest_to_it(tmp_path: Path) -> None:
    path = tmp_path / "grid.yaml"
    path.write_text(
        "splits: [s]\nepsilons: [1, 10]\nmechanisms:\n"
        "  - {mechanism: aim, settings: {size_limit_mb: [5, 80]}, seconds: 300}\n"
        "  - {mechanism: aim, settings: {rounds: 20}}\n"
    )
    about: dict[str, Any] = {"hint": load_grid(path).hint, "start_s": 2.0}
    rows = [row(FIVE, 4.0), row(replace(FIVE, epsilon=3.0), 6.0)]

    durations = Durations(lambda run: (100, 1000), rows, **about)

    assert durations.expected(replace(FIVE, seed=1)) == (6.0, True)
    # At another epsilon all count; of another size limit the grid knows more than they tell.
    assert durations.expected(replace(FIVE, epsilon=10.0)) == (7.0, True)
    assert durations.expected(LARGE) == (302.0, True)
    assert durations.expected(ROUNDS) == (7.0, True)
    assert not durations.expected(replace(ROUNDS, split="t"))[1]
    limited = Durations(lambda run: (100, 1000), rows, limit_s=100.0, **about)
    assert limited.expected(LARGE) == (100.0, True)
    durations.note(row(FIVE, 8.0))
    durations.note(row(FIVE, 900.0, status="failed"))
    assert durations.expected(FIVE) == (8.0, True)


def test_a_guess_is_the_pace_times_how_slow_others_were() -> None:
    durations = Durations(lambda run: (100, 30_000))
    plain = Run("s", "aim", epsilon=1.0, seed=0)
    # A second to begin with, and one for 30,000 rows.
    guess = 1 + MECHANISMS["aim"].pace + 1
    assert durations.expected(plain) == (pytest.approx(guess), False)
    twice = replace(plain, settings=(("rounds", 60),))
    assert durations.expected(twice)[0] == pytest.approx(guess + MECHANISMS["aim"].pace)
    # All stages count, and the parts of none.
    taken = json.dumps({"mechanism": 6.0, "mechanism.fit": 5.0, "search": 2 * guess - 6})
    other = Run("s", "mst", epsilon=1.0, seed=0)
    sized = {"marginals": 100, "records": 30_000, "seconds_by_stage": taken}
    slow = Durations(lambda run: (100, 30_000), [row(other, 6.0, **sized)])
    slowness = 2 * guess / (2 + MECHANISMS["mst"].pace)
    assert slow.expected(plain) == (pytest.approx(slowness * guess), False)
