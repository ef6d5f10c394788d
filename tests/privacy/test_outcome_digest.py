"""The digests of outcomes: what they cover, and when the ledger takes one."""

from __future__ import annotations

import numpy as np
import pytest

from jam_dagster.errors import LedgerIntegrityError, ReleaseClosedError
from jam_dagster.privacy import (
    Draws,
    ExactNoise,
    Kind,
    Ledger,
    MemoryStore,
    Neighbours,
    ReleaseId,
    SeededNoise,
    UnledgeredAccount,
)
from jam_dagster.privacy.ledger.reservation import LedgerAccount
from jam_dagster.privacy.outcome_store import choice_digest, values_digest

A, B = "a" * 64, "b" * 64


def stored(ledger: Ledger) -> list[tuple[str, str, str]]:
    events = (event for event in ledger.events() if event.kind == Kind.STORED)
    return [(event.share, event.step, event.digest) for event in events]


@pytest.fixture
def account(ledger: Ledger, release_id: ReleaseId) -> LedgerAccount:
    release = ledger.open_release(
        release_id, {"mechanism": 0.01, "evaluation": 0.001}, run_id="run"
    )
    return release.account("mechanism")


def test_an_outcome_is_journalled_once(ledger: Ledger, account: LedgerAccount) -> None:
    account.charge("s", 0.001)
    for _ in range(2):
        account.confirm("s", A)
    assert stored(ledger) == [("mechanism", "s", A)]
    with pytest.raises(LedgerIntegrityError, match=r"outcome of s of release .* changed"):
        account.confirm("s", B)
    account.close()
    account.confirm("s", A)
    with pytest.raises(LedgerIntegrityError, match="changed after it was drawn"):
        account.confirm("s", B)
    assert len(stored(ledger)) == 1
    # It moves nothing.
    assert account.spent == pytest.approx(0.001)
    assert ledger.balance("people").spent == pytest.approx(0.001)
    ledger.verify()


def test_an_outcome_of_what_was_never_charged(account: LedgerAccount) -> None:
    account.charge("s", 0.001)
    with pytest.raises(LedgerIntegrityError, match="never charged"):
        account.confirm("t", A)
    evaluation = account.reservation.account("evaluation")
    with pytest.raises(LedgerIntegrityError, match="never charged"):
        evaluation.confirm("s", A)


def test_what_was_closed_before_its_outcome_was_journalled_is_not_used(
    ledger: Ledger, account: LedgerAccount
) -> None:
    """Else who closes at the right moment could put anything in its place."""
    account.charge("s", 0.001)
    account.confirm("s", A)
    account.charge("t", 0.001)
    account.close("an operator")
    with pytest.raises(ReleaseClosedError, match="before the outcome of t was journalled"):
        account.confirm("t", B)
    assert stored(ledger) == [("mechanism", "s", A)]


def test_digests_of_all_kinds_of_draws(ledger: Ledger, account: LedgerAccount) -> None:
    draws = Draws(ExactNoise(), account, MemoryStore(), neighbours=Neighbours("add_remove"))
    records = draws.records(3)
    scores = np.array([0.0, 5.0, 9.0])
    (chosen,) = draws.select(
        "a", lambda: scores, size=scores.size, rho=1e-3, sensitivity=4.0, named=lambda i: f"c{i}"
    )
    values, sigma = draws.measure("c", lambda: np.array([[1, 2]]), size=2, rho=1e-3, subject="m")
    means, spread = draws.values("e", lambda: np.array([0.5]), size=1, sensitivity=0.1, rho=1e-3)
    measured = draws.calls[0]
    assert measured.scale is not None
    assert [digest for *_, digest in stored(ledger)] == [
        values_digest(np.array([records]), measured.scale, measured.rho),
        choice_digest(f"c{chosen}", 1e-3),
        values_digest(values, sigma, 1e-3, "m"),
        values_digest(means, spread, 1e-3),
    ]
    ledger.verify()


def test_a_digest_covers_values_shape_noise_price_and_subject() -> None:
    values = np.array([[1.0, 2.0]])
    digests = [
        values_digest(values, 1.0, 0.1, "x"),
        values_digest(values.T, 1.0, 0.1, "x"),
        values_digest(values[0], 1.0, 0.1, "x"),
        values_digest(values + 1e-12, 1.0, 0.1, "x"),
        values_digest(values, 2.0, 0.1, "x"),
        values_digest(values, 1.0, 0.2, "x"),
        values_digest(values, 1.0, 0.1, "y"),
        choice_digest("x", 0.1),
        choice_digest("y", 0.1),
        choice_digest("x", 0.2),
    ]
    assert len({*digests}) == len(digests)
    # Wherever the numbers lie in memory, and whatever they were before.
    assert values_digest(np.asfortranarray(np.ones((2, 3))), 1.0, 0.1) == values_digest(
        np.ones((2, 3), dtype=np.int64), 1.0, 0.1
    )


def test_research_journals_nothing() -> None:
    draws = Draws(SeededNoise(0), UnledgeredAccount(1.0))
    assert draws.measure("s", lambda: np.array([1]), size=1, rho=0.1)[0].shape == (1,)
