"""Two releases at once, of two datasets with the same people, and one cap on both of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from jam_dagster.privacy import Kind, Ledger, epsilon_from_rho
from tests.torture.campaign import Tormented, bring_to_its_end
from tests.torture.execution import execute, execute_both, reached_by
from tests.torture.judge import State, ViolationError, judge
from tests.torture.points import Target
from tests.torture.victims import ExactRelease

NAME = "everybody"
ONE, BOTH = 1.5, 2.001
"""The cap in prices of one release: the second is refused, or both fit."""


@dataclass(frozen=True)
class Pair:
    """Two releases, each of a dataset of its own, which belong to one population."""

    releases: tuple[ExactRelease, ExactRelease]

    @classmethod
    def made(cls, home: Path, url: str) -> Pair:
        first, second = (
            ExactRelease(home=home / f"{home.name}-{name}", ledger_url=url) for name in "ab"
        )
        return cls((first, second))

    @property
    def ledger(self) -> Ledger:
        return self.releases[0].ledger

    @property
    def name(self) -> str:
        return f"{NAME} of {self.releases[0].home.parent.name}"

    def prepare(self, cap: float) -> None:
        for release in self.releases:
            release.prepare()
        self.grant(cap)
        for release in self.releases:
            self.ledger.join(release.dataset, self.name)

    def grant(self, cap: float) -> None:
        """Grant the population so many prices of a release."""
        asked = self.releases[0].budget
        epsilon = epsilon_from_rho(cap * asked.rho, asked.delta)
        self.ledger.grant_population(self.name, epsilon=epsilon, delta=asked.delta)

    def judge(self) -> None:
        """Raise unless the population's journal and the tallies agree, by sums of our own."""
        datasets = {release.dataset for release in self.releases}
        cap = used = charged = 0
        for event in self.ledger.events():
            if event.kind == Kind.POPULATION and event.step == self.name:
                cap = event.units
            if event.dataset in datasets:
                used += event.units * {Kind.RESERVED: 1, Kind.RETURNED: -1}.get(event.kind, 0)
                charged += event.units * (event.kind == Kind.CHARGED)
            if used > cap:
                raise ViolationError(f"event {event.seq}: {used} units are used of {cap}")
        drawn = sum(
            line.units
            for release in self.releases
            for line in release.tally.lines()
            if line.what == "drawn"
        )
        shared = self.ledger.balance(self.releases[0].dataset).population
        if shared is None or shared.spent_units != charged:
            raise ViolationError(f"the population was charged otherwise than its {charged} units")
        if drawn > charged:
            raise ViolationError(f"{drawn} units were drawn, and the population paid {charged}")


def torture_population(
    home: Path, kills: int, seed: int, url: Callable[[], str | None] = lambda: None
) -> Tormented:
    """Kill one of two releases at a time, or both, until enough runs have died."""
    rng, tormented, number = np.random.default_rng(seed), Tormented(), 0
    place = url() or str(home / "ledger.db")
    rehearsal = ExactRelease(home=home / "rehearsal")
    rehearsal.prepare()
    seconds, reached = execute(rehearsal).seconds, reached_by(rehearsal)
    while tormented.kills.total() < kills:
        number += 1
        pair = Pair.made(home / f"{number:04d}", place)
        pair.prepare(float(rng.choice([ONE, BOTH])))
        states = [State.of(release) for release in pair.releases]
        for _ in range(int(rng.integers(1, 4))):
            targets: list[Target | None] = [_target(rng, reached) for _ in pair.releases]
            if tormented.kills.total() == kills - 1:
                targets[1] = None
            later = float(rng.uniform(0, seconds))
            endings = execute_both(pair.releases, targets, second_after_seconds=later)
            tormented.runs += 2
            tormented.kills.update(
                target.point
                for target, one in zip(targets, endings, strict=True)
                if target is not None and one.killed
            )
            states = _judged(pair, states, tormented)
            if tormented.kills.total() >= kills:
                break
        # The officer lets the one that waits have its part, too.
        pair.grant(BOTH)
        states = [
            bring_to_its_end(release, state)
            for release, state in zip(pair.releases, states, strict=True)
        ]
        _judged(pair, states, tormented)
        tormented.runs += 4
        tormented.releases += 2
    return tormented


def _target(rng: np.random.Generator, reached: dict[str, int]) -> Target:
    point = str(rng.choice(sorted(reached)))
    return Target(point, int(rng.integers(1, reached[point] + 1)))


def _judged(pair: Pair, states: Sequence[State], tormented: Tormented) -> list[State]:
    now = []
    for release, before in zip(pair.releases, states, strict=True):
        state, margin = judge(release, before)
        tormented.margin = max(tormented.margin, margin)
        now.append(state)
    pair.judge()
    return now
