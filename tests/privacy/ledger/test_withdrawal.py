"""Withdrawals in the journal: what the ledger refuses to write, and what the audit finds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jam_dagster.errors import BudgetError, SpecificationError
from jam_dagster.privacy import Kind, Ledger, ReleaseId
from jam_dagster.privacy.ledger.journal import withdrawal_of
from jam_dagster.privacy.ledger.release_id import id_fields
from tests.privacy.conftest import audit_finds

DIGEST = "ab" * 32


@pytest.fixture
def url(each_url):
    return each_url


@pytest.fixture
def ended(ledger: Ledger, release_id: ReleaseId) -> Ledger:
    release = ledger.open_release(release_id, {"mechanism": 0.001})
    release.account("mechanism").charge("round-000/select", 1e-4)
    release.close()
    return ledger


def test_a_certificate_is_withdrawn_once(ended, release_id):
    assert withdrawal_of(ended.events(), release_id) is None
    first = ended.withdraw(release_id, DIGEST, reason="wrong")
    assert ended.withdraw(release_id, DIGEST, reason="again") == first
    second = ended.withdraw(release_id, "cd" * 32, reason="made again by another version")
    assert withdrawal_of(ended.events(), release_id) == second
    assert withdrawal_of(ended.events(), replace(release_id, edition="2")) is None
    balance = ended.balance("people")
    assert balance.spent == pytest.approx(1e-4)
    ended.verify()


def test_what_is_no_certificate_of_this_ledger(ended, release_id):
    with pytest.raises(BudgetError, match="name the ledger that was charged"):
        ended.withdraw(replace(release_id, specification="other"), DIGEST)
    for digest in ("", "ab", "AB" * 32, "zz" * 32):
        with pytest.raises(SpecificationError, match="64 hexadecimal digits"):
            ended.withdraw(release_id, digest)


@pytest.mark.parametrize(
    ("changes", "times", "fault"),
    [
        ({"release": "other"}, 1, "about a release that was never reserved"),
        ({"digest": ""}, 1, "names no digest of a certificate"),
        ({}, 2, "withdraws the same digest again"),
    ],
)
def test_the_audit_knows_the_rules(ended, release_id, changes, times, fault):
    event = {"kind": Kind.WITHDRAWN, **id_fields(release_id), "digest": DIGEST, **changes}
    audit_finds(ended, fault, *[event] * times)
