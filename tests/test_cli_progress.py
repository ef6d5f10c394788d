"""What the command line shows while it works."""

from __future__ import annotations

import io
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from jam_dagster.cli.progress import (
    ROUNDS_TO_ESTIMATE_FROM,
    progress,
    progress_of_trials,
    seconds_left,
)
from jam_dagster.common.shown_text import clock
from jam_dagster.mechanisms import Round
from jam_dagster.trials import Run
from jam_dagster.trials.pool import Outcome

ROUNDS = 10


def a_round(index: int, seconds: float) -> Round:
    return Round(
        index=index,
        clique=("age", "job"),
        source="public",
        candidates=5,
        rho_select=0.1,
        rho_measure=0.0,
        rho_spent=0.1,
        sigma=0.0,
        size_limit_mb=1.0,
        model_mb=0.5,
        l1_residual=0.0,
        iterations=15,
        loss=0.0,
        seconds=seconds,
        measurement=None,
    )


def shown(done: int, *, terminal: bool, rounds: int | None = ROUNDS) -> str:
    """Return what is on the screen after some rounds, in the midst of the run."""
    # A terminal without colours, wide enough for a whole line.
    screen = io.StringIO()
    console = Console(
        file=screen, force_terminal=terminal, color_system=None, width=200, markup=False
    )
    with progress(console) as shows:
        shows.on_start("AIM", rounds)
        shows.on_stage("mechanism")
        for index in range(done):
            shows.on_round(a_round(index, 60.0 * (index + 1)))
    return screen.getvalue()


def test_rounds_that_grow_dearer_are_expected_to_go_on_so() -> None:
    growing = [1.0, 2.0, 3.0, 4.0, 5.0]

    # The mean of the rounds done would promise 15.
    assert seconds_left(growing, ROUNDS) == pytest.approx(6 + 7 + 8 + 9 + 10)


def test_nothing_is_promised_before_there_is_a_trend() -> None:
    assert seconds_left([], ROUNDS) is None
    assert seconds_left([1.0] * (ROUNDS_TO_ESTIMATE_FROM - 1), ROUNDS) is None
    assert seconds_left([1.0] * ROUNDS_TO_ESTIMATE_FROM, ROUNDS) == pytest.approx(5)
    # Of a run that ends before, the end is known.
    assert seconds_left([1.0], 1) == 0


@given(
    st.lists(st.floats(0, 1e4), min_size=ROUNDS_TO_ESTIMATE_FROM, max_size=30), st.integers(1, 30)
)
def test_the_estimate_is_at_least_the_mean_of_the_rounds_done(
    taken: list[float], more: int
) -> None:
    left = seconds_left(taken, len(taken) + more)

    assert left is not None
    assert math.isfinite(left)
    assert left >= more * sum(taken) / len(taken) - 1e-6


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00"), (0.4, "0:01"), (42, "0:42"), (725.2, "12:06"), (3723, "1:02:03")],
)
def test_durations_are_written_as_clocks(seconds: float, text: str) -> None:
    assert clock(seconds) == text


def test_a_terminal_shows_the_time_left() -> None:
    screen = shown(5, terminal=True)

    assert "5/10" in screen
    assert "age x job from public" in screen
    # Rounds of six to ten minutes are to come; the screen may be drawn a moment later.
    assert "about 40:00 left" in screen or "about 39:59 left" in screen


def test_a_file_gets_a_line_a_round() -> None:
    lines = shown(4, terminal=False).splitlines()

    rounds = [f"round {n}/10" for n in range(1, 5)]
    assert [line.split(":")[0] for line in lines] == ["AIM", *rounds]
    # Of a mechanism whose rounds the data decide.
    assert shown(1, terminal=False, rounds=None).startswith("AIM\nround 1: ")


@pytest.mark.parametrize("terminal", [True, False])
def test_rows_of_a_large_table_are_told_as_they_are_made(terminal: bool) -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=terminal, color_system=None, width=200)
    with progress(console) as shows:
        shows.on_stage("sample")
        shows.on_rows(1_500_000, 2_000_000)
        shows.on_stage("checks")

    output = screen.getvalue()
    if terminal:
        assert "checks" in output
        assert "1500000/2000000" in output
    else:
        assert output == "rows: 1,500,000 of 2,000,000\nchecks\n"


def a_trial(left: float) -> Outcome:
    run = Run("halves", "jam_pgm", epsilon=1.0, seed=0)
    row = {"status": "done", "searched_error_mean": 0.25, "seconds": 2.0}
    return Outcome(run, row, 1, 2, left)


@pytest.mark.parametrize("terminal", [True, False])
def test_trials_are_one_bar_on_a_terminal_and_a_line_each_elsewhere(terminal: bool) -> None:
    screen = io.StringIO()
    console = Console(
        file=screen, force_terminal=terminal, color_system=None, width=200, markup=False
    )
    with progress_of_trials(2, console) as (on_stage, on_start, on_round, on_trial):
        on_start(ROUNDS)
        on_stage("epsilon 1")
        on_round(0, a_round(2, 1.0))
        on_trial(a_trial(9.0))
        on_round(1, a_round(4, 1.0))

    output = screen.getvalue()
    if terminal:
        assert "epsilon 1" in output
        # A whole trial and five rounds of the next.
        assert f"{ROUNDS + 5}/{2 * ROUNDS}" in output
        assert "left" in output
    else:
        line = "1/2 halves, JAM-PGM, epsilon 1, seed 0: error 0.2500, 2.0 s; about 0:09 left\n"
        assert output == line
