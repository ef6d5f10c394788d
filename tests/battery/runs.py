"""Small seeded runs of mechanisms: whole ones, and those of which one draw was lost or refused.

A worker makes each of them once for all tests, which change none of what they find here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from jam_dagster.errors import ReleaseClosedError
from jam_dagster.mechanisms import MechanismResult, mechanism_class
from jam_dagster.privacy import Draws, MemoryStore, Neighbours, SeededNoise, UnledgeredAccount
from jam_dagster.tables import Workload
from tests.battery.mechanisms import CASES, Case
from tests.battery.test_replay import DOMAIN, pairs
from tests.tiers import slow

BY_NAME = {case.name: case for case in CASES}

some_or_every_draw = pytest.mark.parametrize(
    "every", [False, *slow(True)], ids=["some draws", "every draw"]
)


class Unrepeatable(SeededNoise):
    """Noise like the exact one: what was charged and not stored is gone."""

    repeatable = False


class StoppedError(Exception):
    """The process ends here."""


class Forgetful(MemoryStore):
    """Loses one outcome, counted from the first, as a crash between drawing and storing does."""

    def __init__(self, lost: int) -> None:
        super().__init__()
        self.left = lost

    def put(self, step: str, outcome: dict) -> None:
        # A decision is stored beside the outcomes, and costs nothing.
        if "rho" in outcome:
            self.left -= 1
            if self.left == -1:
                raise StoppedError
        super().put(step, outcome)


class Closing(UnledgeredAccount):
    """An account that an operator closes as a step is charged, or before it is confirmed."""

    def __init__(self, rho: float, *, charging: str = "", confirming: str = "") -> None:
        super().__init__(rho)
        self.charging, self.confirming = charging, confirming

    def charge(self, step: str, rho: float) -> None:
        if step == self.charging:
            self.close("by an operator")
        super().charge(step, rho)

    def confirm(self, step: str, digest: str) -> None:
        if step == self.confirming:
            self.close("by an operator")
            raise ReleaseClosedError("closed by an operator")
        super().confirm(step, digest)


def run(
    case: Case,
    relation: Neighbours,
    store: MemoryStore,
    account: UnledgeredAccount,
    noise: SeededNoise | None = None,
) -> MechanismResult:
    ((one, _, public),) = pairs(1, 5, relation)
    draws = Draws(noise or Unrepeatable(3), account, store, neighbours=relation)
    return case.make().run(one, public, Workload.all_k_way(DOMAIN, 2), draws)


def marginals(result: MechanismResult) -> list[np.ndarray]:
    """Return the workload's answers, or those that were measured where nothing else is answered."""
    fitted = mechanism_class(result.transcript.mechanism).samples
    cliques = Workload.all_k_way(DOMAIN, 2).cliques if fitted else result.model.cliques
    return list(result.model.marginals(cliques).values())


@dataclass(frozen=True, eq=False)
class Made:
    """A run, with its store and its account."""

    result: MechanismResult
    store: MemoryStore
    account: UnledgeredAccount

    @property
    def steps(self) -> list[str]:
        """The names of its draws."""
        return [call.step for call in self.result.transcript.calls]


def whole(case: Case, relation: Neighbours) -> Made:
    """Return a run that nothing stopped."""
    return _whole(case.name, relation)


def without_one(case: Case, relation: Neighbours) -> dict[str, Made]:
    """Return by the step of each draw a run that lost it, stopped and went on."""
    return _without_one(case.name, relation)


def closed(case: Case, relation: Neighbours) -> dict[str, Made | None]:
    """Return by step a run that was closed as it charged; None for one that came to no model."""
    return _closed(case.name, relation)


def _made(name: str, relation: Neighbours, store: MemoryStore, account: UnledgeredAccount) -> Made:
    return Made(run(BY_NAME[name], relation, store, account), store, account)


@cache
def _whole(name: str, relation: Neighbours) -> Made:
    return _made(name, relation, MemoryStore(), UnledgeredAccount(BY_NAME[name].rho))


@cache
def _without_one(name: str, relation: Neighbours) -> dict[str, Made]:
    found = {}
    for lost, step in enumerate(_whole(name, relation).steps):
        store, account = Forgetful(lost), UnledgeredAccount(BY_NAME[name].rho)
        with pytest.raises(StoppedError):
            _made(name, relation, store, account)
        found[step] = _made(name, relation, store, account)
    return found


@cache
def _closed(name: str, relation: Neighbours) -> dict[str, Made | None]:
    found: dict[str, Made | None] = {}
    for step in _whole(name, relation).steps:
        try:
            found[step] = _made(
                name, relation, MemoryStore(), Closing(BY_NAME[name].rho, charging=step)
            )
        except ReleaseClosedError:
            found[step] = None
    return found
