"""A pool begins a few runs at a time, and none that would end too late."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from jam_dagster.trials.pool import Pool
from jam_dagster.trials.results import Row
from jam_dagster.trials.runs import Run

RUNS = [Run("s", "aim", epsilon=epsilon, seed=0) for epsilon in (1.0, 2.0, 3.0, 4.0)]


class Begun:
    """A run that ends once it was asked for as often as its epsilon says."""

    def __init__(self, run: Run, log: list[str]) -> None:
        self.run, self.log, self.seconds, self.asked = run, log, 0.5, 0
        log.append(f"begin {run.epsilon:g}")

    def over(self) -> bool:
        self.asked += 1
        return self.asked >= (self.run.epsilon or 0)

    def row(self) -> Row:
        return {"epsilon": self.run.epsilon}

    def end(self) -> None:
        self.log.append(f"end {self.run.epsilon:g}")


class Estimates:
    """A run takes as many seconds as its epsilon says, which is known once one has ended."""

    known = False

    def note(self, row: Row) -> None:
        self.known = True

    def expected(self, run: Run) -> tuple[float, bool]:
        return run.epsilon or 0.0, self.known


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr("jam_dagster.trials.pool._LOOK_SECONDS", 0)
    return []


def begin(log: list[str]) -> Callable[[Run], Any]:
    return lambda run: Begun(run, log)


def make(log: list[str]) -> Callable[[Run], Any]:
    """Return what makes each row at once."""
    return lambda run: Begun(run, log).row()


def test_runs_begin_as_others_end(log: list[str]) -> None:
    with closing(Pool(begin(log), Estimates(), jobs=2).outcomes(RUNS)) as outcomes:
        first, *rest = outcomes
    assert (first.run, first.row, first.number, first.of) == (RUNS[0], {"epsilon": 1.0}, 1, 4)
    # At two a time: two whole runs, and half a second less of the one that has begun.
    assert first.left == (2.0 - 0.5 + 3.0 + 4.0) / 2
    assert [one.number for one in rest] == [2, 3, 4]
    assert rest[-1].left == 0
    assert log == ["begin 1", "begin 2", "begin 3", "begin 4"]


def test_no_run_begins_that_would_end_too_late(log: list[str]) -> None:
    pool = Pool(make(log), Estimates(), deadline_s=3.5)
    made = [one.run for one in pool.outcomes(RUNS)]
    # Little time passes here, so each would end in time but for its own seconds.
    assert made == RUNS[:3]
    assert pool.late == RUNS[3:]
    # The first one shows how long others take.
    assert [one.run for one in Pool(begin(log), Estimates(), deadline_s=0).outcomes(RUNS)] == RUNS[
        :1
    ]


def test_who_stops_ends_what_is_under_way(log: list[str]) -> None:
    with closing(Pool(begin(log), Estimates(), jobs=3).outcomes(RUNS)) as outcomes:
        next(outcomes)
    assert log[3:] == ["end 2", "end 3"]
