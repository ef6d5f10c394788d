"""Entries pay for draws one to one: every way in which they may not is found by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from jam_dagster.certificates.charges import charge_faults
from jam_dagster.certificates.facts import Entry, PaidDraw
from jam_dagster.privacy import NoiseCall
from jam_dagster.privacy.accounting import units_up

SHARES = {"mechanism": 0.5}
DRAWS = [
    PaidDraw("mechanism", NoiseCall("round-001/select", "exponential mechanism", 0.1, 4.0, 0.9, 8)),
    PaidDraw("mechanism", NoiseCall("round-001/measure", "discrete Gaussian", 0.3, 1.5, 1.8, 6)),
]


def entry(number: int, kind: str, units: int, step: str = "") -> Entry:
    return Entry(number, kind, "opening", "mechanism", step, units, f"{number:064x}", "0" * 64)


ENTRIES = [
    entry(1, "reserved", units_up(0.5)),
    *(
        entry(number, "charged", units_up(draw.call.rho), draw.call.step)
        for number, draw in enumerate(DRAWS, start=2)
    ),
    entry(4, "returned", units_up(0.5) - units_up(0.1) - units_up(0.3)),
    entry(5, "closed", 0),
]


def test_what_is_paid_has_no_faults() -> None:
    assert list(charge_faults(DRAWS, ENTRIES, SHARES)) == []


Told = tuple[list[PaidDraw], list[Entry]]
WRONG: dict[str, Callable[[], Told]] = {
    "no ledger was charged": lambda: (DRAWS, []),
    # The draw is listed, and all that is charged adds up.
    "round-002/select of share mechanism was not charged": lambda: (
        [*DRAWS, replace(DRAWS[0], call=replace(DRAWS[0].call, step="round-002/select"))],
        ENTRIES,
    ),
    "charge for round-001/measure of share mechanism paid for no draw": lambda: (
        DRAWS[:1],
        ENTRIES,
    ),
    "was charged another amount than it cost": lambda: (
        [DRAWS[0], replace(DRAWS[1], call=replace(DRAWS[1].call, rho=0.4))],
        ENTRIES,
    ),
    "a draw is listed twice": lambda: ([*DRAWS, DRAWS[0]], ENTRIES),
    "was reserved 0 times": lambda: (DRAWS, ENTRIES[1:]),
    "was reserved another amount": lambda: (
        DRAWS,
        [entry(1, "reserved", units_up(0.9)), *ENTRIES[1:3]],
    ),
    "was charged more than it held": lambda: (
        [*DRAWS, replace(DRAWS[0], call=replace(DRAWS[0].call, step="more", rho=0.2))],
        [*ENTRIES[:3], entry(4, "charged", units_up(0.2), "more")],
    ),
    "closed with something unaccounted for": lambda: (DRAWS, [*ENTRIES[:3], ENTRIES[4]]),
    "returned and not closed": lambda: (DRAWS, ENTRIES[:4]),
    "an entry of an unknown kind": lambda: (DRAWS, [*ENTRIES, entry(6, "gift", 1)]),
}


@pytest.mark.parametrize("said", WRONG)
def test_what_is_wrong_is_said(said: str) -> None:
    draws, entries = WRONG[said]()
    found = list(charge_faults(draws, entries, SHARES))
    assert any(said in one for one in found), found


def test_another_share_is_noticed() -> None:
    (fault,) = charge_faults(DRAWS, ENTRIES, {**SHARES, "evaluation": 0.1})
    assert fault == "share evaluation was reserved 0 times"
    assert "share mechanism was reserved and not asked for" in list(
        charge_faults(DRAWS, ENTRIES, {})
    )
