"""What becomes of a draw that was charged and never stored, one case at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from jam_dagster.privacy import Kind
from tests.torture.campaign import bring_to_its_end
from tests.torture.execution import execute
from tests.torture.judge import State, judge
from tests.torture.points import Target
from tests.torture.victims import ROUNDS, BoughtRelease, ExactRelease, SeededRelease, Victim

SURE = 2000.0
"""An epsilon at which private marginals are chosen: their scores are 14 persons or more above those
of public ones, ``exp(-14 * 24.9 / 8)``, which is less than 1e-18, for each of 42 candidates."""


def lose(victim: Victim, *steps: str) -> State:
    """Kill a release once for each step, after its draw and before its outcome is stored."""
    victim.prepare()
    state = State.of(victim)
    for step in steps:
        assert execute(victim, Target("draw: tallied", step=step)).killed, f"{step} was not drawn"
        state, _ = judge(victim, state)
    return bring_to_its_end(victim, state)


def lost(victim: Victim) -> list[str]:
    """The draws that the transcript calls lost."""
    return [call.step for call in victim.transcript().calls if call.lost]


def a_lost_selection_repeats_its_round(home: Path) -> None:
    """The first attempt stays charged; the second, and all that follows, share what is left."""
    victim = ExactRelease(home=home, epsilon=SURE)
    charges = lose(victim, "round-002/select", "round-002/select-2").charges()
    transcript = victim.transcript()
    assert lost(victim) == ["round-002/select", "round-002/select-2"]
    assert "round-002/select-3" in charges
    assert len(transcript.rounds) == ROUNDS
    assert all(one.measurement is not None for one in transcript.rounds)
    # Each attempt takes the same part of what the one before it left for three rounds.
    first, second, third = (charges[f"round-002/select{n}"] for n in ("", "-2", "-3"))
    part = (1 - victim.alpha) / (ROUNDS - 1)
    assert abs(second - first * (1 - part)) <= 1e-12 * first
    assert abs(third - second * (1 - part)) <= 1e-12 * first


def a_lost_measurement_closes_its_round(home: Path) -> None:
    victim = ExactRelease(home=home, epsilon=SURE)
    charges = lose(victim, "round-002/measure").charges()
    rounds = victim.transcript().rounds
    assert lost(victim) == ["round-002/measure"]
    assert [one.index for one in rounds if one.measurement is None] == [1]
    assert len(rounds) == ROUNDS
    assert "round-002/select-2" not in charges


def with_nothing_left_the_run_ends_with_what_is_stored(home: Path) -> None:
    """A selection takes all but a thousandth: a few that are lost leave nothing worth a draw."""
    victim = ExactRelease(home=home, rounds=2, alpha=0.001)
    victim.prepare()
    state, number = State.of(victim), 0
    while execute(victim, Target("draw: tallied", step=selection(number))).killed:
        state, _ = judge(victim, state)
        number += 1
    state, _ = judge(victim, state)
    transcript = victim.transcript()
    assert transcript.ended == "budget exhausted"
    assert len(transcript.rounds) == 1
    assert lost(victim) == [selection(n) for n in range(number)]
    left = state.by_share(Kind.RETURNED)["mechanism"]
    assert left / 1e15 < 1e-12, "more was left than a draw is worth"
    bring_to_its_end(victim, state)


def selection(number: int) -> str:
    return "round-002/select" + (f"-{number + 1}" if number else "")


def a_lost_evaluation_withholds_the_errors_only(home: Path) -> None:
    victim = ExactRelease(home=home)
    state = lose(victim, "evaluation/means")
    table, errors = victim.published
    assert table.exists()
    assert not errors.exists()
    assert "evaluation/means" in state.charges()


def an_evaluation_that_was_stored_and_not_journalled_is_lost(home: Path) -> None:
    victim = ExactRelease(home=home)
    victim.prepare()
    state = State.of(victim)
    assert execute(victim, Target("store: after", step="evaluation/means")).killed
    state, _ = judge(victim, state)
    assert "evaluation/means" in state.stored
    state = bring_to_its_end(victim, state)
    assert "evaluation/means" not in state.journalled()
    assert not victim.published[1].exists()


def a_seeded_run_repeats_what_it_lost(home: Path) -> None:
    """Killed at every one of its draws, it ends as if it never had been."""
    whole = SeededRelease(home=home / "whole")
    state = lose(whole)
    steps = [line.step for line in state.drawn()]
    killed = SeededRelease(home=home / "killed")
    after = lose(killed, *steps)
    assert after.charges() == state.charges()
    assert killed.results() == whole.results()
    assert [line.step for line in after.drawn()] == [step for step in steps for _ in range(2)]
    assert lost(killed) == []


def an_outcome_that_was_stored_and_not_journalled_is_lost(home: Path) -> None:
    """Killed between the two, anybody may have stored it: it is paid for, and not used."""
    victim = ExactRelease(home=home)
    victim.prepare()
    state = State.of(victim)
    step = "round-001/select"
    assert execute(victim, Target("store: after", step=step)).killed
    state, _ = judge(victim, state)
    assert step in state.stored
    state = bring_to_its_end(victim, state)
    assert step not in state.journalled()
    assert lost(victim) == [step]


SELECTION, COUNTS = "domain/1", ("domain-1/1", "domain-2/1")
"""The draws of a domain that is bought: of values, and of two levels of bins."""


def a_lost_selection_of_values_leaves_the_public_ones(home: Path) -> None:
    """Its rho and its delta stay charged, and nothing is selected again."""
    victim = BoughtRelease(home=home)
    charges = lose(victim, SELECTION).charges()
    assert victim.domain.attribute("town").listed == ("0", "other")
    assert SELECTION in victim.lost()
    assert SELECTION in charges
    assert victim.ledger.balance(victim.dataset).used_selections == 5 * 10**8


def lost_counts_of_bins_leave_those_of_other_levels(home: Path) -> None:
    victim = BoughtRelease(home=home)
    lose(victim, *COUNTS)
    assert {*COUNTS} <= victim.lost()
    assert len(victim.domain.attribute("town").listed) > 2


def a_purchase_that_was_charged_and_not_drawn_is_lost(home: Path) -> None:
    """Killed between the charge and the draw, or before what is stored is journalled."""
    points = {"draw: before": SELECTION, "draw: made": COUNTS[0], "store: after": COUNTS[1]}
    victim = BoughtRelease(home=home)
    victim.prepare()
    state = State.of(victim)
    for point, step in points.items():
        assert execute(victim, Target(point, step=step)).killed, point
        state, _ = judge(victim, state)
        assert step in state.charges()
    bring_to_its_end(victim, state)
    assert {*points.values()} <= victim.lost()


def a_domain_that_was_bought_is_bought_once(home: Path) -> None:
    """Killed before the model's first draw, the release draws nothing of its domain again."""
    victim = BoughtRelease(home=home)
    victim.prepare()
    state = State.of(victim)
    assert execute(victim, Target("stage mechanism")).killed
    state, _ = judge(victim, state)
    bought = {step for step in state.charges() if step.startswith("domain")}
    assert {SELECTION, *COUNTS} <= bought == {*state.charges()}
    state = bring_to_its_end(victim, state)
    assert {step for step in state.charges() if step.startswith("domain")} == bought
    assert victim.lost() == set()


CASES: tuple[Callable[[Path], None], ...] = (
    a_lost_selection_repeats_its_round,
    a_lost_measurement_closes_its_round,
    with_nothing_left_the_run_ends_with_what_is_stored,
    a_lost_evaluation_withholds_the_errors_only,
    an_evaluation_that_was_stored_and_not_journalled_is_lost,
    a_seeded_run_repeats_what_it_lost,
    an_outcome_that_was_stored_and_not_journalled_is_lost,
    a_lost_selection_of_values_leaves_the_public_ones,
    lost_counts_of_bins_leave_those_of_other_levels,
    a_purchase_that_was_charged_and_not_drawn_is_lost,
    a_domain_that_was_bought_is_bought_once,
)
