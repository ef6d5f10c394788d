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
from jam_dagster.privacy import Budget, Kind, Ledger, ReleaseId
from jam_dagster.privacy.ledger.approval import ALL_PARTITIONS
from jam_dagster.privacy.ledger.journal import user
from jam_dagster.privacy.ledger.release_id import id_fields
from tests.privacy.conftest import audit_finds
from tests.tiers import slow, slow_rows

SHARES = Budget(0.3, 1e-9).shares(evaluation=0.05)
DIGEST = "3f" * 32
RELEASE_ID = ReleaseId("people", "yearly", DIGEST)


@pytest.fixture
def url(each_url):
    return each_url


@pytest.fixture
def ledger(url) -> Ledger:
    ledger = Ledger(url)
    ledger.grant("people", epsilon=1.0, delta=1e-9, approval="required")
    return ledger


def waits(ledger: Ledger, release_id: ReleaseId, shares=SHARES) -> str:
    """Assert that a release is refused and nothing is written; return what is said."""
    before = ledger.events()
    with pytest.raises(NotApprovedError) as refused:
        ledger.check(release_id, shares)
    with pytest.raises(NotApprovedError):
        ledger.open_release(release_id, shares)
    assert ledger.events() == before
    return str(refused.value)


def test_an_unapproved_release_is_refused_with_the_command_that_approves_it(ledger):
    said = waits(ledger, RELEASE_ID)
    assert "rho" in said
    assert f"the specification {DIGEST}" in said
    words = shlex.split(said.partition("approves it by: ")[2])
    given = dict(zip(words[3::2], words[4::2], strict=True))
    assert words[:3] == ["jam-dagster", "ledger", "approve"]
    assert given["--ledger"] == ledger.location
    assert given["--specification"] == DIGEST
    # The epsilon of the command is enough for the release, and not for much more.
    ledger.approve(RELEASE_ID, epsilon=float(given["--epsilon"]), reason="as asked")
    ledger.check(RELEASE_ID, SHARES)
    waits(ledger, RELEASE_ID, {**SHARES, "more": 1e-4})
    ledger.open_release(RELEASE_ID, SHARES)
    ledger.verify()


@pytest.mark.parametrize("epsilon", [*slow(1e-4), 0.0123456789, *slow(0.3, 0.999999)])
def test_the_epsilon_of_the_command_is_enough(ledger, epsilon):
    shares = Budget(epsilon, 1e-9).shares(evaluation=0.05)
    words = shlex.split(waits(ledger, RELEASE_ID, shares).partition("approves it by: ")[2])
    limit = float(words[words.index("--epsilon") + 1])
    assert limit == pytest.approx(epsilon, rel=1e-3)
    ledger.approve(RELEASE_ID, epsilon=limit)
    ledger.open_release(RELEASE_ID, shares)


def test_a_name_cannot_put_a_command_into_the_line_that_the_officer_copies(ledger):
    release_id = replace(
        RELEASE_ID, release="yearly; rm -rf ~ #", partition="$(id)", edition="`id`"
    )
    words = shlex.split(waits(ledger, release_id).partition("approves it by: ")[2])
    assert words[words.index("--release") + 1] == release_id.release
    assert words[words.index("--partition") + 1] == release_id.partition
    assert words[words.index("--edition") + 1] == release_id.edition


@pytest.mark.parametrize(
    "other",
    [
        {"specification": "51" * 32},
        *slow({"partition": "p"}, {"edition": "2"}, {"release": "monthly"}),
    ],
)
def test_an_approval_is_of_exactly_one_release(ledger, other):
    ledger.approve(RELEASE_ID)
    waits(ledger, replace(RELEASE_ID, **other))
    ledger.open_release(RELEASE_ID, SHARES)


def test_an_approval_of_all_partitions(ledger):
    ledger.approve(replace(RELEASE_ID, partition=ALL_PARTITIONS))
    ledger.open_release(replace(RELEASE_ID, partition="2026-01"), SHARES)
    ledger.open_release(replace(RELEASE_ID, partition="2026-02"), SHARES)
    waits(ledger, replace(RELEASE_ID, partition="2026-03", specification="51" * 32))
    ledger.withdraw_approval(replace(RELEASE_ID, partition=ALL_PARTITIONS), reason="enough")
    waits(ledger, replace(RELEASE_ID, partition="2026-03"))
    # One that is approved by itself stays so.
    ledger.approve(replace(RELEASE_ID, partition="2026-03"))
    ledger.check(replace(RELEASE_ID, partition="2026-03"), SHARES)
    ledger.verify()


def test_what_is_reserved_goes_on(ledger):
    ledger.grant("people", epsilon=1.0, delta=1e-9, approval="none")
    release = ledger.open_release(RELEASE_ID, SHARES)
    release.account("mechanism").charge("round-000/select", 1e-4)
    ledger.grant("people", epsilon=1.0, delta=1e-9, approval="required")
    ledger.check(RELEASE_ID, SHARES)
    ledger.open_release(RELEASE_ID, SHARES).account("mechanism").charge("round-000/measure", 1e-4)
    release.close()
    ledger.open_release(RELEASE_ID, SHARES)
    ledger.verify()


def test_a_release_that_gave_its_reservation_back_waits_again_unless_it_is_approved(ledger):
    ledger.approve(RELEASE_ID)
    ledger.open_release(RELEASE_ID, SHARES).close("not today")
    ledger.check(RELEASE_ID, SHARES)
    ledger.withdraw_approval(RELEASE_ID, reason="changed our mind")
    waits(ledger, RELEASE_ID)
    ledger.approve(RELEASE_ID)
    ledger.open_release(RELEASE_ID, SHARES)
    ledger.verify()


def test_a_limit_bounds_what_is_reserved(ledger):
    ledger.approve(RELEASE_ID, epsilon=0.2)
    assert "asks for more than was approved" in waits(ledger, RELEASE_ID)
    ledger.approve(RELEASE_ID, epsilon=0.31)
    ledger.open_release(RELEASE_ID, SHARES)
    ledger.verify()


def test_what_does_not_fit_is_refused_before_anybody_is_asked(ledger):
    with pytest.raises(BudgetExceededError):
        ledger.check(RELEASE_ID, {"mechanism": 10.0})


def test_an_approval_is_withdrawn_before_the_reservation_only(ledger):
    with pytest.raises(BudgetError, match="nothing to withdraw"):
        ledger.withdraw_approval(RELEASE_ID)
    ledger.approve(RELEASE_ID)
    ledger.withdraw_approval(RELEASE_ID, reason="a mistake")
    waits(ledger, RELEASE_ID)
    with pytest.raises(BudgetError, match="nothing to withdraw"):
        ledger.withdraw_approval(RELEASE_ID)
    ledger.approve(RELEASE_ID)
    ledger.open_release(RELEASE_ID, SHARES)
    with pytest.raises(BudgetError, match="ledger close"):
        ledger.withdraw_approval(RELEASE_ID)
    kinds = [event.kind for event in ledger.events() if event.kind == Kind.APPROVAL_WITHDRAWN]
    assert len(kinds) == 1
    ledger.verify()


def test_approving_twice_writes_once(ledger):
    first = ledger.approve(RELEASE_ID, epsilon=0.3, reason="x")
    assert ledger.approve(RELEASE_ID, epsilon=0.3, reason="y") == first
    assert (first.kind, first.by, first.reason) == (Kind.APPROVED, user(), "x")
    ledger.approve(RELEASE_ID)
    assert [event.kind.value for event in ledger.events()] == ["granted", "approved", "approved"]
    ledger.verify()


def test_what_is_approved_and_not_reserved_yet(ledger):
    every = replace(RELEASE_ID, partition=ALL_PARTITIONS)
    for release_id in (RELEASE_ID, every, replace(RELEASE_ID, edition="2")):
        ledger.approve(release_id)
    assert [one.release_id for one in ledger.approved("people")] == [
        RELEASE_ID,
        every,
        replace(RELEASE_ID, edition="2"),
    ]
    ledger.open_release(RELEASE_ID, SHARES)
    assert [one.release_id for one in ledger.approved("people")] == [
        every,
        replace(RELEASE_ID, edition="2"),
    ]


def test_a_grant_says_whether_releases_wait(ledger):
    before = ledger.events()
    assert ledger.balance("people").approval == "required"
    ledger.grant("people", epsilon=1.0, delta=1e-9, approval="required")
    assert ledger.events() == before
    # What a grant does not say stays.
    assert ledger.grant("people", epsilon=1.5, delta=1e-9).approval == "required"
    assert ledger.grant("people", epsilon=1.0, delta=1e-9, approval="none").approval == ""
    ledger.open_release(RELEASE_ID, SHARES)
    with pytest.raises(BudgetError, match="--approval required"):
        ledger.approve(replace(RELEASE_ID, edition="2"))
    with pytest.raises(SpecificationError, match="one of none, required, got 'perhaps'"):
        ledger.grant("people", epsilon=1.0, delta=1e-9, approval="perhaps")
    ledger.verify()


RESERVATION = {
    **id_fields(RELEASE_ID),
    "share": "mechanism",
    "units": int(1e15 * sum(SHARES.values())),
}


@pytest.mark.parametrize(
    ("forged", "fault"),
    [
        ([(Kind.RESERVED, RESERVATION)], "is not approved"),
        (
            [(Kind.APPROVED, {**id_fields(RELEASE_ID), "units": 5}), (Kind.RESERVED, RESERVATION)],
            "asks for more than was approved",
        ),
        *slow_rows(
            ([(Kind.APPROVED, {"dataset": "people"})], "names no release"),
            (
                [
                    (Kind.GRANTED, {"dataset": "firms", "units": 10**12}),
                    (Kind.APPROVED, id_fields(replace(RELEASE_ID, dataset="firms"))),
                ],
                "needs no approval",
            ),
            ([(Kind.APPROVAL_WITHDRAWN, id_fields(RELEASE_ID))], "that was not given"),
            (
                [
                    (Kind.APPROVED, id_fields(RELEASE_ID)),
                    (Kind.RESERVED, RESERVATION),
                    (Kind.APPROVAL_WITHDRAWN, id_fields(RELEASE_ID)),
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
