"""Two transactions a draw, the charge and the digest, each of which sees what others did."""

from __future__ import annotations

import sqlite3
from typing import Any

import numpy as np
import pytest

from jam_dagster.errors import LostDrawError, ReleaseClosedError
from jam_dagster.privacy import Draws, ExactNoise, Kind, Ledger, MemoryStore, ReleaseId

COUNTS = np.array([3, 1])


class Unused(ExactNoise):
    """Noise that nothing may be drawn with."""

    def gaussian_counts(self, *given: Any) -> Any:
        raise AssertionError("drawn")


def draws(ledger: Ledger, release_id: ReleaseId, noise: ExactNoise | None = None) -> Draws:
    release = ledger.open_release(release_id, {"mechanism": 0.01})
    made = Draws(noise or ExactNoise(), release.account("mechanism"), MemoryStore())
    # As a run does before its first round.
    assert made.remaining > 0
    return made


def test_a_private_round_takes_four_connections(
    ledger: Ledger, release_id: ReleaseId, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, opened, connect = draws(ledger, release_id), [], sqlite3.connect
    monkeypatch.setattr(
        sqlite3,
        "connect",
        lambda *args, **options: opened.append(args) or connect(*args, **options),
    )
    rho = made.remaining / 2
    made.select("select", lambda: np.array([0.0, 1.0]), size=2, rho=rho, sensitivity=4.0)
    made.measure("measure", lambda: COUNTS, size=COUNTS.size, rho=min(rho, made.remaining))
    assert len(opened) == 4


def test_a_draw_that_another_process_has_charged_meanwhile_is_lost_and_not_drawn(
    ledger: Ledger, release_id: ReleaseId
) -> None:
    made = draws(ledger, release_id, Unused())
    release = Ledger(ledger.place).reservation(release_id)
    assert release is not None
    release.account("mechanism").charge("s", 0.001)
    with pytest.raises(LostDrawError, match="s was charged"):
        made.measure("s", lambda: COUNTS, size=COUNTS.size, rho=0.002)
    assert made.spent == pytest.approx(0.001)
    assert [event.kind for event in ledger.events()].count(Kind.CHARGED) == 1


def test_a_share_that_an_officer_has_closed_meanwhile_pays_for_nothing(
    ledger: Ledger, release_id: ReleaseId
) -> None:
    made = draws(ledger, release_id, Unused())
    release = Ledger(ledger.place).reservation(release_id)
    assert release is not None
    release.close("withdrawn")
    with pytest.raises(ReleaseClosedError):
        made.measure("s", lambda: COUNTS, size=COUNTS.size, rho=0.002)
