"""Releases that wait for approval: what is refused, what an approval covers, and who may resume."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest

from jam_dagster.errors import (
    BudgetError,
    BudgetExceededError,
    NotApprovedError,
    SpecificationError,
)
from jam_dagster.privacy import Budget, Kind, Ledger, ReleaseKey
from jam_dagster.privacy.ledger.approval import ALL_PARTITIONS
from jam_dagster.privacy.ledger.journal import user
from jam_dagster.privacy.ledger.key import key_fields
from tests.privacy.conftest import audit_finds
from tests.tiers import slow, slow_rows

SHARES = Budget(0.3, 1e-9).shares(evaluation=0.05)
DIGEST = "3f" * 32
KEY = ReleaseKey("people", "yearly", DIGEST)


@pytest.fixture
def url(each_url):
    return each_url


@pytest.fixture
def ledger(url) -> Ledger:
    ledger = Ledger(url)
    ledger.grant("people", epsilon=1.0, delta=1e-9, approval="required")
    return ledger


def waits(ledger: Ledger, key: ReleaseKey, shares=SHARES) -> str:
    """Assert that a release is refused and nothing is written; return what is said."""
    before = ledger.events()
    with pytest.raises(NotApprovedError) as refused:
        ledger.check(key, shares)
    with pytest.raises(NotApprovedError):
        ledger.open_release(key, shares)
    assert ledger.events() == before
    return str(refused.value)


def test_an_unapproved_release_is_refused_with_the_command_that_approves_it(ledger):
    said = waits(ledger, KEY)
    assert "rho" in said
    assert f"the specification {DIGEST}" in said
    words = shlex.split(said.partition("approves it by: ")[2])
    given = dict(zip(words[3::2], words[4::2], strict=True))
    assert words[:3] == ["jam-dagster", "ledger", "approve"]
    assert given["--ledger"] == ledger.location
    assert given["--specification"] == DIGEST
    # The epsilon of the command is enough for the release, and not for much more.
    ledger.approve(KEY, epsilon=float(given["--epsilon"]), reason="as asked")
    ledger.check(KEY, SHARES)
    waits(ledger, KEY, {**SHARES, "more": 1e-4})
    ledger.open_release(KEY, SHARES)
    ledger.verify()


@pytest.mark.parametrize("epsilon", [*slow(1e-4), 0.0123456789, *slow(0.3, 0.999999)])
def test_the_epsilon_of_the_command_is_enough(ledger, epsilon):
    shares = Budget(epsilon, 1e-9).shares(evaluation=0.05)
    words = shlex.split(waits(ledger, KEY, shares).partition("approves it by: ")[2])
    limit = float(words[words.index("--epsilon") + 1])
    assert limit == pytest.approx(epsilon, rel=1e-3)
    ledger.approve(KEY, epsilon=limit)
    ledger.open_release(KEY, shares)


def test_a_name_cannot_put_a_command_into_the_line_that_the_officer_copies(ledger):
    key = replace(KEY, release="yearly; rm -rf ~ #", partition="$(id)", edition="`id`")
    words = shlex.split(waits(ledger, key).partition("approves it by: ")[2])
    assert words[words.index("--release") + 1] == key.release
    assert words[words.index("--partition") + 1] == key.partition
    assert words[words.index("--edition") + 1] == key.edition


@pytest.mark.parametrize(
    "other",
    [
        {"specification": "51" * 32},
        *slow({"partition": "p"}, {"edition": "2"}, {"release": "monthly"}),
    ],
)
def test_an_approval_is_of_exactly_one_release(ledger, other):
    ledger.approve(KEY)
    waits(ledger, replace(KEY, **other))
    ledger.open_release(KEY, SHARES)


def test_an_approval_of_all_partitions(ledger):
    ledger.approve(replace(KEY, partition=ALL_PARTITIONS))
    ledger.open_release(replace(KEY, partition="2026-01"), SHARES)
    ledger.open_release(replace(KEY, partition="2026-02"), SHARES)
    waits(ledger, replace(KEY, partition="2026-03", specification="51" * 32))
    ledger.withdraw_approval(replace(KEY, partition=ALL_PARTITIONS), reason="enough")
    waits(ledger, replace(KEY, partition="2026-03"))
    # One that is approved by itself stays so.
    ledger.approve(replace(KEY, partition="2026-03"))
    ledger.check(replace(KEY, partition="2026-03"), SHARES)
    ledger.verify()


def test_what_is_reserved_goes_on(ledger):
    ledger.grant("people", epsilon=1.0, delta=1e-9, approval="none")
    release = ledger.open_release(KEY, SHARES)
    release.account("mechanism").charge("round-000/select", 1e-4)
    ledger.grant("people", epsilon=1.0, delta=1e-9, approval="required")
    ledger.check(KEY, SHARES)
    ledger.open_release(KEY, SHARES).account("mechanism").charge("round-000/measure", 1e-4)
    release.close()
    ledger.open_release(KEY, SHARES)
    ledger.verify()


def test_a_release_that_gave_its_reservation_back_waits_again_unless_it_is_approved(ledger):
    ledger.approve(KEY)
    ledger.open_release(KEY, SHARES).close("not today")
    ledger.check(KEY, SHARES)
    ledger.withdraw_approval(KEY, reason="changed our mind")
    waits(ledger, KEY)
    ledger.approve(KEY)
    ledger.open_release(KEY, SHARES)
    ledger.verify()


def test_a_limit_bounds_what_is_reserved(ledger):
    ledger.approve(KEY, epsilon=0.2)
    assert "asks for more than was approved" in waits(ledger, KEY)
    ledger.approve(KEY, epsilon=0.31)
    ledger.open_release(KEY, SHARES)
    ledger.verify()


def test_what_does_not_fit_is_refused_before_anybody_is_asked(ledger):
    with pytest.raises(BudgetExceededError):
        ledger.check(KEY, {"mechanism": 10.0})


def test_an_approval_is_withdrawn_before_the_reservation_only(ledger):
    with pytest.raises(BudgetError, match="nothing to withdraw"):
        ledger.withdraw_approval(KEY)
    ledger.approve(KEY)
    ledger.withdraw_approval(KEY, reason="a mistake")
    waits(ledger, KEY)
    with pytest.raises(BudgetError, match="nothing to withdraw"):
        ledger.withdraw_approval(KEY)
    ledger.approve(KEY)
    ledger.open_release(KEY, SHARES)
    with pytest.raises(BudgetError, match="ledger close"):
        ledger.withdraw_approval(KEY)
    kinds = [event.kind for event in ledger.events() if event.kind == Kind.APPROVAL_WITHDRAWN]
    assert len(kinds) == 1
    ledger.verify()


def test_approving_twice_writes_once(ledger):
    first = ledger.approve(KEY, epsilon=0.3, reason="x")
    assert ledger.approve(KEY, epsilon=0.3, reason="y") == first
    assert (first.kind, first.by, first.reason) == (Kind.APPROVED, user(), "x")
    ledger.approve(KEY)
    assert [event.kind.value for event in ledger.events()] == ["granted", "approved", "approved"]
    ledger.verify()


def test_what_is_approved_and_not_reserved_yet(ledger):
    every = replace(KEY, partition=ALL_PARTITIONS)
    for key in (KEY, every, replace(KEY, edition="2")):
        ledger.approve(key)
    assert [one.key for one in ledger.approved("people")] == [KEY, every, replace(KEY, edition="2")]
    ledger.open_release(KEY, SHARES)
    assert [one.key for one in ledger.approved("people")] == [every, replace(KEY, edition="2")]


def test_a_grant_says_whether_releases_wait(ledger):
    before = ledger.events()
    assert ledger.balance("people").approval == "required"
    ledger.grant("people", epsilon=1.0, delta=1e-9, approval="required")
    assert ledger.events() == before
    # What a grant does not say stays.
    assert ledger.grant("people", epsilon=1.5, delta=1e-9).approval == "required"
    assert ledger.grant("people", epsilon=1.0, delta=1e-9, approval="none").approval == ""
    ledger.open_release(KEY, SHARES)
    with pytest.raises(BudgetError, match="--approval required"):
        ledger.approve(replace(KEY, edition="2"))
    with pytest.raises(SpecificationError, match="one of none, required, got 'perhaps'"):
        ledger.grant("people", epsilon=1.0, delta=1e-9, approval="perhaps")
    ledger.verify()


RESERVATION = {
    **key_fields(KEY),
    "share": "mechanism",
    "units": int(1e15 * sum(SHARES.values())),
}


@pytest.mark.parametrize(
    ("forged", "fault"),
    [
        ([(Kind.RESERVED, RESERVATION)], "is not approved"),
        (
            [(Kind.APPROVED, {**key_fields(KEY), "units": 5}), (Kind.RESERVED, RESERVATION)],
            "asks for more than was approved",
        ),
        *slow_rows(
            ([(Kind.APPROVED, {"dataset": "people"})], "names no release"),
            (
                [
                    (Kind.GRANTED, {"dataset": "firms", "units": 10**12}),
                    (Kind.APPROVED, key_fields(replace(KEY, dataset="firms"))),
                ],
                "needs no approval",
            ),
            ([(Kind.APPROVAL_WITHDRAWN, key_fields(KEY))], "that was not given"),
            (
                [
                    (Kind.APPROVED, key_fields(KEY)),
                    (Kind.RESERVED, RESERVATION),
                    (Kind.APPROVAL_WITHDRAWN, key_fields(KEY)),
                ],
                "that had reserved",
            ),
            (
                [(Kind.GRANTED, {"dataset": "people", "units": 10**12, "approval": "maybe"})],
                "unknown approval 'maybe'",
            ),
        ),
    ],
)
def test_the_audit_knows_the_rules(ledger, forged, fault):
    audit_finds(ledger, fault, *({"kind": kind, **said} for kind, said in forged))
