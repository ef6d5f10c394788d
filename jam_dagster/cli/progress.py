"""Progress of a synthesis: a bar with the time left on a terminal, a line a round elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from jam_dagster.common.shown_text import clock, one_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console
    from rich.progress import Progress as Bar

    from jam_dagster.mechanisms import Round
    from jam_dagster.release.engine import Progress
    from jam_dagster.trials.pool import Outcome

ROUNDS_TO_ESTIMATE_FROM = 5
"""A line through fewer says more about one slow round than about how cost grows."""


def seconds_left(taken: Sequence[float], rounds: int) -> float | None:
    """Estimate how long the rounds that are still to come will take.

    The model grows from round to round and its cost with it, so the mean of the rounds done would
    promise too much: on the JAM paper's tables half of what it takes. The estimate follows the
    straight line that fits them best, which is right on average; where the line falls, it follows
    their mean. The coming measurements decide how the model grows, so in the first half an estimate
    may well be off by a factor of four.
    """
    done = len(taken)
    if done >= rounds:
        return 0.0
    if done < ROUNDS_TO_ESTIMATE_FROM:
        return None
    middle, mean = (done - 1) / 2, sum(taken) / done
    spread = sum((index - middle) ** 2 for index in range(done))
    trend = sum((index - middle) * seconds for index, seconds in enumerate(taken)) / spread
    # The rounds to come are done, ..., rounds - 1; their mean index is halfway.
    ahead = (done + rounds - 1) / 2 - middle
    return (rounds - done) * (mean + max(trend, 0.0) * ahead)


def outcome_line(one: Outcome) -> str:
    """Return what came of a run of a benchmark or a plan."""
    from jam_dagster.trials.results import error_of

    row = one.row
    if row["status"] == "failed":
        result = f"FAILED: {row['message']}"
    else:
        result = f"error {error_of(row):.4f}, {row['seconds']:.1f} s"
    return f"{one.number}/{one.of} {one.run}: {result}; about {clock(one.left)} left"


@contextmanager
def progress(console: Console) -> Iterator[Progress]:
    """Show a synthesis as it goes."""
    from jam_dagster.release.engine import Progress, rows_line

    rounds: int | None = None

    def say(line: str) -> None:
        console.print(line, soft_wrap=True)

    def start(mechanism: str, expected: int | None) -> None:
        nonlocal rounds
        rounds = expected
        say(mechanism)

    if not console.is_terminal:
        many = False

        def say_rows(made: int, rows: int) -> None:
            nonlocal many
            many = True
            say(rows_line(made, rows))

        yield Progress(
            # Each later stage takes a while if rows are many.
            on_stage=lambda stage: say(stage) if many else None,
            on_start=start,
            on_round=lambda outcome: say(outcome.line(rounds)),
            on_rows=say_rows,
            notify=say,
        )
        return

    with progress_bar(console) as bar:
        task = bar.add_task("read", total=None, chosen="", due=None)
        taken: list[float] = []

        def show_start(mechanism: str, expected: int | None) -> None:
            start(mechanism, expected)
            bar.update(task, total=expected)

        def show_stage(stage: str) -> None:
            # The estimate is of the rounds: it ends with them.
            bar.update(task, description=stage, due=None)

        def show_round(outcome: Round) -> None:
            taken.append(outcome.seconds)
            left = None if rounds is None else seconds_left(taken, rounds)
            bar.update(
                task,
                completed=outcome.index + 1,
                chosen=one_line(f"{' x '.join(outcome.clique)} from {outcome.origin}"),
                due=time.monotonic() + left if left else None,
            )

        def show_rows(made: int, rows: int) -> None:
            bar.update(task, completed=made, total=rows, chosen="rows")

        yield Progress(
            show_stage,
            show_start,
            show_round,
            show_rows,
            notify=say,
        )


@contextmanager
def progress_of_trials(
    trials: int, console: Console
) -> Iterator[
    tuple[
        Callable[[str], None],
        Callable[[int | None], None],
        Callable[[int, Round], None],
        Callable[[Outcome], None],
    ]
]:
    """Show a plan as it goes."""
    if not console.is_terminal:

        def say(outcome: Outcome) -> None:
            console.print(outcome_line(outcome), soft_wrap=True)

        yield (lambda stage: None), (lambda rounds: None), (lambda number, outcome: None), say
        return

    with progress_bar(console) as bar:
        task = bar.add_task("read", total=None, chosen="", due=None)
        # If rounds are not known before, trials are counted.
        each, counted = 1, False

        def show_stage(stage: str) -> None:
            bar.update(task, description=stage)

        def show_start(rounds: int | None) -> None:
            nonlocal each, counted
            each, counted = rounds or 1, bool(rounds)
            bar.update(task, total=trials * each)

        def show_round(number: int, outcome: Round) -> None:
            chosen = one_line(f"{' x '.join(outcome.clique)} from {outcome.origin}")
            done = number * each + (outcome.index + 1 if counted else 0)
            bar.update(task, completed=done, chosen=chosen)

        def show_trial(outcome: Outcome) -> None:
            due = time.monotonic() + outcome.left if outcome.left else None
            bar.update(task, completed=outcome.number * each, due=due)

        yield show_stage, show_start, show_round, show_trial


def progress_bar(console: Console) -> Bar:
    """Return a bar; its tasks have the fields `chosen` and `due`."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeElapsedColumn,
    )
    from rich.text import Text

    class TimeLeftColumn(ProgressColumn):
        """Counts down to the end that was last estimated; says nothing before there is one."""

        def render(self, task: Task) -> Text:
            due: float | None = task.fields["due"]
            if due is None:
                return Text("")
            return Text(f"about {clock(max(due - time.monotonic(), 0.0))} left")

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeLeftColumn(),
        TextColumn("{task.fields[chosen]}", markup=False),
    )
    return Progress(*columns, console=console, transient=True)
