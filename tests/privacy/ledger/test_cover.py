"""A reservation that no opening planned pays for no draw beyond what its grant covers."""

from __future__ import annotations

from typing import Any

import pytest

from jam_dagster.errors import LedgerIntegrityError
from jam_dagster.privacy import Kind, Ledger, Policy, ReleaseId
from jam_dagster.privacy.ledger.journal import append
from jam_dagster.privacy.ledger.release_id import id_fields

SHARE = {"mechanism": 0.001}


def reserve_by_hand(
    ledger: Ledger, release_id: ReleaseId, share: str = "mechanism", **said: Any
) -> None:
    """Append a reservation with a seal that fits, as a role that may insert can."""
    with ledger._backend.writing() as connection:
        append(connection, Kind.RESERVED, **id_fields(release_id), share=share, **said)


def assert_pays_nothing(ledger: Ledger, release_id: ReleaseId, why: str) -> None:
    release = ledger.reservation(release_id)
    assert release is not None
    before = ledger.events()
    with pytest.raises(LedgerIntegrityError, match=f"{why}: jam-dagster did not write it"):
        release.account("mechanism").charge("a", 1e-4)
    assert ledger.events() == before


def test_more_than_the_grant_pays_for_nothing(either: Ledger, release_id: ReleaseId) -> None:
    left = either.balance("people").remaining_units
    reserve_by_hand(either, release_id, units=left + 1)
    assert_pays_nothing(either, release_id, "is of more than the grant had left")
    with pytest.raises(LedgerIntegrityError, match="is of more than the grant had left"):
        either.verify()


def test_what_others_hold_is_not_there_to_be_reserved(
    ledger: Ledger, release_id: ReleaseId
) -> None:
    other = ReleaseId("people", "other", "x")
    account = ledger.open_release(other, SHARE).account("mechanism")
    reserve_by_hand(ledger, release_id, units=ledger.balance("people").granted_units)
    assert_pays_nothing(ledger, release_id, "is of more than the grant had left")
    # What was reserved before goes on.
    account.charge("a", 1e-4)


def test_a_second_share_makes_the_first_no_richer(ledger: Ledger, release_id: ReleaseId) -> None:
    account = ledger.open_release(release_id, SHARE).account("mechanism")
    account.charge("a", 1e-4)
    reserve_by_hand(ledger, release_id, "evaluation", units=ledger.balance("people").granted_units)
    with pytest.raises(LedgerIntegrityError, match="is of more than the grant had left"):
        account.charge("b", 1e-4)


def test_another_period_pays_for_nothing(ledger: Ledger, release_id: ReleaseId) -> None:
    ledger.grant("people", epsilon=1.0, delta=1e-9, policy=Policy("month"))
    reserve_by_hand(ledger, release_id, units=10**12, counts_in="1999-01")
    assert_pays_nothing(ledger, release_id, "counts in another period than its own")


def test_other_neighbours_pay_for_nothing(ledger: Ledger, release_id: ReleaseId) -> None:
    ledger.open_release(ReleaseId("people", "other", "x"), SHARE)
    reserve_by_hand(ledger, release_id, units=10**12, protects="add_remove 1")
    assert_pays_nothing(ledger, release_id, ".*protects different neighbours.*")
    with pytest.raises(LedgerIntegrityError, match=r"event 3 .* do not add up"):
        ledger.verify()


def test_what_is_not_approved_pays_for_nothing(ledger: Ledger, release_id: ReleaseId) -> None:
    ledger.grant("people", epsilon=1.0, delta=1e-9, approval="required")
    reserve_by_hand(ledger, release_id, units=10**12)
    assert_pays_nothing(ledger, release_id, "is not approved")
    # An approval that comes later is of another reservation.
    ledger.approve(release_id)
    assert_pays_nothing(ledger, release_id, "is not approved")


def test_what_was_granted_nothing_pays_for_nothing(ledger: Ledger) -> None:
    release_id = ReleaseId("firms", "yearly", "x")
    reserve_by_hand(ledger, release_id, units=10**12)
    assert_pays_nothing(ledger, release_id, "is of a dataset that was granted nothing")


def test_an_approval_that_shrinks_later_leaves_what_was_reserved(
    ledger: Ledger, release_id: ReleaseId
) -> None:
    ledger.grant("people", epsilon=1.0, delta=1e-9, approval="required")
    ledger.approve(release_id)
    account = ledger.open_release(release_id, SHARE).account("mechanism")
    ledger.approve(release_id, epsilon=1e-4)
    account.charge("a", 1e-4)
    ledger.verify()
