"""Faults that the torture must notice: each is planted in a victim's process and in no other."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jam_dagster.privacy import DirectoryStore, Draws, ExactNoise, SeededNoise, outcome_store
from jam_dagster.privacy.ledger.reservation import LedgerAccount
from jam_dagster.privacy.noise.calls import NoiseCall
from tests.torture.campaign import bring_to_its_end
from tests.torture.execution import RunFailedError, execute
from tests.torture.judge import State, ViolationError, judge
from tests.torture.points import Target
from tests.torture.victims import ExactRelease, SeededRelease, Victim


def _postpone_charges(until: type, method: str) -> None:
    """Charge only when another method is called."""
    charge, then = LedgerAccount.charge, getattr(until, method)
    pending: list[tuple[LedgerAccount, str, float]] = []

    def later(account: LedgerAccount, step: str, rho: float) -> None:
        pending.append((account, step, rho))

    def called(*args: Any, **kwargs: Any) -> Any:
        while pending:
            charge(*pending.pop(0))
        return then(*args, **kwargs)

    LedgerAccount.charge = later  # type: ignore[method-assign]
    setattr(until, method, called)


def draw_before_charge() -> None:
    _postpone_charges(DirectoryStore, "put")


def charge_in_memory() -> None:
    _postpone_charges(LedgerAccount, "close")


def charge_too_little() -> None:
    charge = LedgerAccount.charge
    LedgerAccount.charge = (  # type: ignore[method-assign]
        lambda account, step, rho: charge(account, step, rho * (1 - 1e-9))
    )


def forget_outcome() -> None:
    put = DirectoryStore.put

    def some(store: DirectoryStore, step: str, outcome: dict[str, Any]) -> None:
        if step != "round-002/select":
            put(store, step, outcome)

    DirectoryStore.put = some  # type: ignore[method-assign]


def write_in_place() -> None:
    def write(path: Path, content: bytes) -> None:
        with path.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    outcome_store.write_whole = write  # type: ignore[assignment]


def redraw_what_is_stored() -> None:
    recalled = Draws._recalled

    def redrawn(draws: Draws, call: NoiseCall) -> Any:
        stored = recalled(draws, call)
        return None if call.step == "evaluation/means" else stored

    Draws._recalled = redrawn  # type: ignore[method-assign]


def redraw_what_is_lost() -> None:
    ExactNoise.repeatable = True  # type: ignore[assignment,method-assign]


def repeat_otherwise() -> None:
    SeededNoise._generator = (  # type: ignore[method-assign]
        lambda noise, step: np.random.default_rng()
    )


def journal_no_outcomes() -> None:
    LedgerAccount.confirm = lambda account, step, digest: None  # type: ignore[method-assign]


def keep_the_rest() -> None:
    LedgerAccount.close = lambda account, reason="": 0.0  # type: ignore[method-assign]


@dataclass(frozen=True)
class Fault:
    """What is planted, if anything, where the run is killed, and what the judge must say."""

    plant: Callable[[], None] | None
    target: Target
    verdict: str
    victim: type[Victim] = ExactRelease


LOST = Target("draw: tallied", step="round-002/select")
LATER = Target("fit: before", 3)
LAST = Target("draw: tallied", step="evaluation/means")
ALMOST_OVER = Target("close: before", 2)

FAULTS = {
    "draw before charge": Fault(draw_before_charge, LOST, "drawn and never charged"),
    "charge in memory": Fault(charge_in_memory, LATER, "is stored and was never charged"),
    "charge too little": Fault(charge_too_little, LATER, "was charged"),
    "forgotten outcome": Fault(forget_outcome, LATER, "was stored and is gone"),
    "file written in place": Fault(
        write_in_place, Target("outcome: half written", 2), "cannot be read"
    ),
    "stored step drawn again": Fault(
        redraw_what_is_stored, ALMOST_OVER, "were stored and drawn again", SeededRelease
    ),
    "lost step drawn again": Fault(redraw_what_is_lost, LOST, "was drawn twice"),
    "repetition that differs": Fault(repeat_otherwise, LAST, "came out otherwise", SeededRelease),
    "outcomes not journalled": Fault(journal_no_outcomes, LATER, "the run failed"),
    "rest not returned": Fault(keep_the_rest, LATER, "still reserved"),
    # Where nothing is wrong, nothing is found.
    "none, a selection lost": Fault(None, LOST, ""),
    "none, killed while fitting": Fault(None, LATER, ""),
    "none, a seeded draw lost": Fault(None, LAST, "", SeededRelease),
    "none, killed while closing": Fault(None, ALMOST_OVER, "", SeededRelease),
}


def verdict(fault: Fault, home: Path) -> str:
    """Kill a run that has the fault, go on with it, and return what the judge says.

    Parameters
    ----------
    fault
        The fault.
    home
        A folder for the victim.

    Returns
    -------
    str
        Empty where everything was in order.
    """
    victim = fault.victim(home=home)
    victim.prepare()
    state = State.of(victim)
    try:
        if not execute(victim, fault.target, fault=fault.plant).killed:
            return "the run was not killed"
        state, _ = judge(victim, state)
        bring_to_its_end(victim, state, fault=fault.plant)
    except (ViolationError, RunFailedError) as error:
        return str(error)
    return ""
