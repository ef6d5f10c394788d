"""The bytes of the journal are those that were frozen, whatever keeps its state."""

from __future__ import annotations

from pathlib import Path

import pytest

from jam_dagster.privacy import Budget, Ledger, ReleaseId
from tests.budgets import PUBLIC_N
from tests.privacy.conftest import Clock

HEAD = "8fe8ca97775e7f6836df56be78704611ed2d00fd81b7ca14a2540271bfdace97"
"""The hash of the last entry, which seals all before it."""


def journalled(ledger: Ledger, clock: Clock) -> None:
    """Write entries of every kind, in an order that a year may have."""
    ledger.grant("people", epsilon=3.0, delta=1e-9, policy=PUBLIC_N, reason="policy")
    release_id = ReleaseId("people", "yearly", "d1gest")
    wrong = ReleaseId("people", "yearly", "typo")
    ledger.open_release(wrong, {"mechanism": 0.002}, run_id="run")
    release = ledger.open_release(
        release_id, Budget(0.5, 1e-9).shares(evaluation=0.05), run_id="run"
    )
    mechanism, evaluation = release.account("mechanism"), release.account("evaluation")
    mechanism.publish_records(5_000)
    for number in range(40):
        clock.set(2026, 1, 1, 12, number)
        mechanism.charge(f"round-{number:03d}/measure", 1e-5)
        if number % 3:
            mechanism.confirm(f"round-{number:03d}/measure", f"{number:02x}" * 32)
    mechanism.close("mechanism ended")
    evaluation.charge("means", 1e-4)
    evaluation.confirm("means", "ee" * 32)
    release.close("done")
    ledger.ran(release_id, "ab" * 32, run_id="run")
    ledger.certify(release_id, "cd" * 32, run_id="run")
    ledger.withdraw(release_id, "cd" * 32, reason="the table was another")
    ledger.grant("people", epsilon=4.0, delta=1e-9, approval="required", reason="more")
    second = ReleaseId("people", "yearly", "d1gest", edition="2")
    ledger.approve(second, epsilon=1.0, reason="seen")
    ledger.open_release(second, {"mechanism": 0.001}).account("mechanism").charge("a", 0.0005)


def test_the_head_is_the_one_that_was_frozen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jam_dagster.privacy.ledger.journal.getpass.getuser", lambda: "somebody")
    clock = Clock(2026, 1, 1)
    ledger = Ledger(tmp_path / "ledger.db", clock=clock)
    journalled(ledger, clock)
    assert ledger.verify().head == HEAD
