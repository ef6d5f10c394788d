"""Kill releases, one after the other, until enough have died; judge after every kill."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tests.torture.execution import Ended, execute, execute_two, reached_by
from tests.torture.judge import State, ViolationError, judge, judge_end, judge_repetition
from tests.torture.points import Target
from tests.torture.victims import Victim

FROM_OUTSIDE = "at any time"
IN_A_ROW = 5
"""Most kills of one release."""

Maker = Callable[[Path], Victim]


@dataclass
class Tormented:
    """What a campaign did.

    Parameters
    ----------
    kills
        How many runs died, by the point at which they did.
    releases
        How many releases came to their end.
    runs
        How many runs that took.
    margin
        The most that a ledger charged beyond what was drawn, in units, by kind of victim.
    """

    kills: Counter[str] = field(default_factory=Counter)
    releases: int = 0
    runs: int = 0
    margin: int = 0

    def __iadd__(self, other: Tormented) -> Tormented:
        self.kills += other.kills
        self.releases += other.releases
        self.runs += other.runs
        self.margin = max(self.margin, other.margin)
        return self

    def line(self) -> str:
        """The campaign in a line."""
        points = ", ".join(f"{name} {number}" for name, number in sorted(self.kills.items()))
        return (
            f"{self.kills.total()} kills of {self.releases} releases in {self.runs} runs; "
            f"charged and not drawn at most {self.margin / 1e15:.3g} rho, "
            f"drawn and not charged 0 ({points})"
        )


class Campaign:
    """Kills of victims of one kind, at points and times that a seed chooses.

    Parameters
    ----------
    make
        Makes a victim in a folder.
    home
        Where the victims live.
    seed
        Of the points and times.
    between_files
        Whether runs die only when one file of a step is whole, and the next is not there.
    """

    def __init__(self, make: Maker, home: Path, seed: int, *, between_files: bool = False) -> None:
        self._between_files = between_files
        self._make = make
        self._home = home
        self._rng = np.random.default_rng(seed)
        self._number = 0
        self.tormented = Tormented()
        rehearsal = self._victim()
        self._seconds = execute(rehearsal).seconds
        self._reached = reached_by(rehearsal)
        state, _ = judge(rehearsal, State((), (), frozenset()))
        self.reference = judge_end(rehearsal, state)
        self._unvisited = self._shuffled()

    def torment(self, kills: int) -> Tormented:
        """Kill at least so many runs, and bring each release to its end."""
        while self.tormented.kills.total() < kills:
            self._one_release(kills)
        return self.tormented

    def _one_release(self, kills: int) -> None:
        victim = self._victim()
        state = State.of(victim)
        for attempt in range(int(self._rng.integers(1, IN_A_ROW + 1))):
            if self.tormented.kills.total() == kills:
                break
            point, ended = self._attack(victim, attempt)
            state = self._judge(victim, state)
            if not ended.killed:
                break
            self.tormented.kills[point] += 1
        state = bring_to_its_end(victim, state, self._judge, reference=self.reference)
        self.tormented.runs += 2
        self.tormented.releases += 1

    def _attack(self, victim: Victim, attempt: int) -> tuple[str, Ended]:
        self.tormented.runs += 1
        # A run that resumes reaches less: its stored draws take no time, and no points.
        if not self._between_files and self._rng.random() < 0.25:
            seconds = float(self._rng.uniform(0, 1.1 * self._seconds)) / (1 + attempt)
            return FROM_OUTSIDE, execute(victim, after_seconds=seconds)
        if not self._unvisited:
            self._unvisited = self._shuffled()
        point = self._unvisited.pop()
        most = max(1, self._reached[point] // (1 + attempt))
        target = Target(point, int(self._rng.integers(1, most + 1)))
        if self._rng.random() < 0.2:
            self.tormented.runs += 1
            later = float(self._rng.uniform(0, self._seconds))
            return point, execute_two(victim, target, rival_after_seconds=later)
        return point, execute(victim, target)

    def _shuffled(self) -> list[str]:
        """All points that a whole run reaches: each is visited before any is again."""
        points = sorted(
            one for one in self._reached if one.endswith("renamed") or not self._between_files
        )
        self._rng.shuffle(points)
        return points

    def _judge(self, victim: Victim, before: State) -> State:
        now, margin = judge(victim, before)
        self.tormented.margin = max(self.tormented.margin, margin)
        return now

    def _victim(self) -> Victim:
        self._number += 1
        victim = self._make(self._home / f"{self._number:04d}")
        victim.prepare()
        return victim


def bring_to_its_end(
    victim: Victim,
    state: State,
    judged: Callable[[Victim, State], State] = lambda victim, before: judge(victim, before)[0],
    *,
    reference: dict[str, str] | None = None,
    fault: Callable[[], None] | None = None,
) -> State:
    """Run a release until it has ended, once more, and judge both.

    Parameters
    ----------
    victim
        The release, which was killed any number of times.
    state
        Its state.
    judged
        Judges a run.
    reference
        What an uninterrupted run of the same release left; seeded noise must leave the same.
    fault
        Is planted in both runs.

    Returns
    -------
    State
        At the end.
    """
    execute(victim, fault=fault)
    state = judged(victim, state)
    results = judge_end(victim, state)
    if reference is not None and victim.repeatable:
        changed = sorted(n for n in results | reference if results.get(n) != reference.get(n))
        if changed:
            raise ViolationError(f"a run that was killed ended with another {', '.join(changed)}")
    execute(victim, fault=fault)
    judge_repetition(victim, state, results)
    return state
