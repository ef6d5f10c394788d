"""Withdrawals in the journal: what the ledger refuses to write, and what the audit finds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jam_dagster.errors import BudgetError, SpecificationError
from jam_dagster.privacy import Kind, Ledger, ReleaseKey
from jam_dagster.privacy.ledger.journal import withdrawal_of
from jam_dagster.privacy.ledger.key import key_fields
from tests.privacy.conftest import audit_finds

DIGEST = "ab" * 32


@pytest.fixture
def url(each_url):
    return each_url


@pytest.fixture
def ended(ledger: Ledger, key: ReleaseKey) -> Ledger:
    release = ledger.open_release(key, {"mechanism": 0.001})
    release.account("mechanism").charge("round-000/select", 1e-4)
    release.close()
    return ledger


def test_a_certificate_is_withdrawn_once(ended, key):
    assert withdrawal_of(ended.events(), key) is None
    first = ended.withdraw(key, DIGEST, reason="wrong")
    assert ended.withdraw(key, DIGEST, reason="again") == first
    second = ended.withdraw(key, "cd" * 32, reason="made again by another version")
    assert withdrawal_of(ended.events(), key) == second
    assert withdrawal_of(ended.events(), replace(key, edition="2")) is None
    balance = ended.balance("people")
    assert balance.spent == pytest.approx(1e-4)
    ended.verify()


def test_what_is_no_certificate_of_this_ledger(ended, key):
    with pytest.raises(BudgetError, match="name the ledger that was charged"):
        ended.withdraw(replace(key, specification="other"), DIGEST)
    for digest in ("", "ab", "AB" * 32, "zz" * 32):
        with pytest.raises(SpecificationError, match="64 hexadecimal digits"):
            ended.withdraw(key, digest)


@pytest.mark.parametrize(
    ("changes", "times", "fault"),
    [
        ({"release": "other"}, 1, "about a release that was never reserved"),
        ({"digest": ""}, 1, "names no digest of a certificate"),
        ({}, 2, "withdraws the same digest again"),
    ],
)
def test_the_audit_knows_the_rules(ended, key, changes, times, fault):
    event = {"kind": Kind.WITHDRAWN, **key_fields(key), "digest": DIGEST, **changes}
    audit_finds(ended, fault, *[event] * times)
