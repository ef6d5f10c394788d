"""The restore drill: what an older copy of a ledger refuses, and how the officer mends it."""

import shutil
from pathlib import Path

import pytest

from jam_dagster.certificates import Certificate
from jam_dagster.privacy import Budget, epsilon_from_rho
from jam_dagster.release import PrivacySpec
from tests.budgets import PUBLIC_N
from tests.pipeline.conftest import UP_TO_SYNTHETIC, Bench, failure

pytestmark = pytest.mark.slow

BUDGET = ["domain", "privacy_budget"]
SECOND = PrivacySpec(epsilon=2.0, edition="2")
THIRD = PrivacySpec(epsilon=2.0, edition="3")


def backed_up(bench: Bench) -> Path:
    """Make a release, take a backup, and make another release."""
    assert bench.run(UP_TO_SYNTHETIC).success
    backup = bench.home / "backup.sqlite"
    shutil.copy(bench.home / "ledger.sqlite", backup)
    certified = [*UP_TO_SYNTHETIC, "workload_error", "release_certificate"]
    second = bench.run(certified, privacy=SECOND)
    assert second.success, failure(second)
    return backup


def restore(bench: Bench, backup: Path) -> None:
    for name in ("ledger.sqlite-wal", "ledger.sqlite-shm"):
        (bench.home / name).unlink(missing_ok=True)
    shutil.copy(backup, bench.home / "ledger.sqlite")


def refuses_to_draw(bench: Bench) -> str:
    """Assert that nothing new is reserved; return where the forgotten draws lie."""
    before = bench.events()
    # A release that it has forgotten, and one that nobody has made yet.
    for privacy in (SECOND, THIRD):
        assert "that this ledger never charged" in failure(bench.run(BUDGET, privacy=privacy))
    message = failure(bench.run(BUDGET, privacy=THIRD))
    assert "lower the dataset's budget by what it spent" in message
    assert bench.events() == before
    return message.partition("never charged (")[2].partition(")")[0]


def test_an_older_copy_refuses_until_the_officer_has_taken_off_what_it_forgot(
    bench: Bench,
) -> None:
    backup = backed_up(bench)
    spent = bench.ledger.balance("people").spent
    restore(bench, backup)

    archive = refuses_to_draw(bench)

    # What was released before the backup is repeated for nothing, and its ledger is whole.
    assert bench.run(["domain", "privacy_budget", "private_records"]).success
    bench.ledger.verify()
    # The certificate of the forgotten release says what was spent.
    certificate = Certificate.load(bench.releases / "people" / "release_certificate")
    assert certificate.release_id.edition == "2"
    assert certificate.rho_spent + bench.ledger.balance("people").spent == pytest.approx(spent)
    left = Budget(5.0, 1e-9).rho - certificate.rho_spent
    lowered = epsilon_from_rho(left, 1e-9)
    bench.ledger.grant(
        "people",
        epsilon=lowered,
        delta=1e-9,
        policy=PUBLIC_N,
        reason="restored: less what edition 2 spent",
    )
    bench.budget = None
    shutil.move(archive, bench.home / "forgotten")
    third = bench.run(BUDGET, privacy=THIRD)
    assert third.success, failure(third)
    # What was lost stays lost: no more fits than before the ledger was.
    assert "asks for" in failure(bench.run(BUDGET, privacy=PrivacySpec(epsilon=3.9, edition="4")))
