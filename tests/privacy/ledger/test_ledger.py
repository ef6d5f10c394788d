"""The ledger: budgets, reservations, refusals, and what a reader may rely on."""

from __future__ import annotations

import math
import pickle
import re
import shlex

import pytest

from jam_dagster.errors import BudgetError, BudgetExceededError, SpecificationError
from jam_dagster.privacy import Budget, Kind, Ledger, ReleaseId, epsilon_from_rho
from jam_dagster.privacy.ledger.commands import (
    acknowledge_command,
    close_command,
    grant_command,
    rebind_command,
)
from jam_dagster.privacy.ledger.journal import append, user
from tests.tiers import slow

SHARES = Budget(0.5, 1e-9).shares(evaluation=0.05)


@pytest.fixture
def url(each_url):
    return each_url


def kinds(ledger: Ledger) -> list[str]:
    return [event.kind.value for event in ledger.events()]


def test_a_release_from_grant_to_close(ledger, release_id):
    before = ledger.balance("people")
    assert (before.epsilon, before.delta, before.granted) == (
        1.0,
        1e-9,
        pytest.approx(0.0149730577, rel=1e-8),
    )
    release = ledger.open_release(release_id, SHARES, run_id="run-1")
    reserved = ledger.balance("people").reserved
    assert reserved == pytest.approx(Budget(0.5, 1e-9).rho, rel=1e-12)
    release.account("mechanism").charge("round-000/select", 0.001)
    release.account("evaluation").charge("evaluation/means", 0.0001)
    release.account("evaluation").close()
    release.account("mechanism").close("all rounds")
    after = ledger.balance("people")
    assert after.reserved == 0.0
    assert after.spent == pytest.approx(0.0011, rel=1e-9)
    assert after.granted_units == after.spent_units + after.remaining_units
    assert kinds(ledger) == [
        *("granted", "reserved", "reserved", "charged", "charged"),
        *("returned", "closed", "returned", "closed"),
    ]
    charge = ledger.events("people")[3]
    assert (charge.step, charge.share, charge.run_id, charge.by) == (
        "round-000/select",
        "mechanism",
        "run-1",
        user(),
    )
    assert charge.release_id == release_id
    assert charge.rho == pytest.approx(0.001)


def test_the_same_key_reserves_once(ledger, release_id):
    first = ledger.open_release(release_id, SHARES)
    first.account("mechanism").charge("a", 0.001)
    again = ledger.open_release(release_id, SHARES)
    assert again.account("mechanism").charged("a") == pytest.approx(0.001)
    assert kinds(ledger).count("reserved") == 2  # its two shares
    found = ledger.reservation(release_id)
    assert found is not None
    assert found.shares == again.shares == first.shares
    # The shares that a release shows open it again too.
    ledger.open_release(release_id, found.shares)
    ledger.check(release_id, found.shares)
    assert kinds(ledger).count("reserved") == 2


@pytest.mark.parametrize("rho", [1e-15, *slow(0.1, 7.7), 20.3, *slow(512.6)])
def test_shares_of_any_size_open_their_release_again(ledger, rho):
    ledger.grant("firms", epsilon=2_000.0, delta=1e-9)
    release_id = ReleaseId("firms", "large", "x")
    for _ in range(3):
        ledger.open_release(release_id, {"mechanism": rho})
        found = ledger.reservation(release_id)
        assert found is not None
        ledger.open_release(release_id, found.shares)
    account = found.account("mechanism")
    account.charge("all", account.reserved or 1e-15)
    assert account.remaining < 1e-12
    assert account.spent <= account.reserved


@pytest.mark.parametrize(
    "change", [{"partition": "2026-11"}, *slow({"edition": "2"}, {"specification": "other"})]
)
def test_another_key_is_another_release(ledger, release_id, change):
    account = ledger.open_release(release_id, {"mechanism": 0.001}).account("mechanism")
    account.charge("a", 0.0005)
    other = ReleaseId(**{**vars(release_id), **change})
    ledger.open_release(other, {"mechanism": 0.002})
    balance = ledger.balance("people")
    assert balance.reserved + balance.spent == pytest.approx(0.003, abs=1e-14)
    assert [release.release_id for release in ledger.reservations()] == [release_id, other]
    assert other.digest != release_id.digest


def test_the_whole_budget_fits_exactly(ledger, release_id):
    ledger.open_release(release_id, Budget(1.0, 1e-9).shares(evaluation=0.05))
    assert ledger.balance("people").remaining_units == 0


def test_a_release_that_does_not_fit(ledger, release_id):
    ledger.open_release(ReleaseId("people", "first", "x"), {"mechanism": 0.01})
    written = len(ledger.events())
    asked = Budget(1.0, 1e-9).shares(evaluation=0.05)
    for attempt in (ledger.check, ledger.open_release):
        with pytest.raises(BudgetExceededError) as refusal:
            attempt(release_id, asked)
        message = str(refusal.value)
        assert "release 'yearly'" in message
        assert "asks for rho 0.0149731 (epsilon 1 at delta 1e-09)" in message
        left = epsilon_from_rho(ledger.balance("people").remaining, 1e-9)
        assert f"only rho 0.00497306 (epsilon {left:.4g} at delta 1e-09) is left" in message
        assert f"rho 0.01 (epsilon {1 - left:.4g}) too little" in message
        assert "jam-dagster ledger grant" in message
    assert len(ledger.events()) == written


def test_check_says_yes_and_writes_nothing(ledger, release_id):
    ledger.check(release_id, SHARES)
    assert kinds(ledger) == ["granted"]


def test_a_release_closes_with_its_last_share(ledger, release_id):
    release = ledger.open_release(release_id, SHARES)
    release.account("mechanism").charge("a", 0.001)
    release.account("mechanism").close()
    assert not release.closed
    assert release.close("operator") == pytest.approx(SHARES["evaluation"], rel=1e-9)
    assert release.closed
    assert release.close() == 0.0
    assert ledger.open_release(release_id, SHARES).closed
    assert ledger.events()[-1].reason == "operator"


def test_the_same_release_with_other_shares_is_a_mistake(ledger, release_id):
    ledger.open_release(release_id, {"mechanism": 0.001})
    for shares in ({"mechanism": 0.002}, {"mechanism": 0.001, "evaluation": 0.001}):
        with pytest.raises(SpecificationError, match=r"opened with shares mechanism = 0\.001, not"):
            ledger.open_release(release_id, shares)
        with pytest.raises(SpecificationError, match="new edition"):
            ledger.check(release_id, shares)


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ({}, "at least one share"),
        ({"mechanism": 0.0}, "rho of share 'mechanism' must be in .* got 0.0"),
        ({"mechanism": -0.1}, "got -0.1"),
        ({"mechanism": float("nan")}, "got nan"),
        ({"mechanism": 1e-16}, "at least 1e-15, got 1e-16"),
        ({"": 0.1}, "share must not be blank"),
    ],
)
def test_shares_are_positive_amounts(ledger, release_id, shares, message):
    with pytest.raises(SpecificationError, match=message):
        ledger.open_release(release_id, shares)
    assert kinds(ledger) == ["granted"]


def test_an_unknown_share(ledger, release_id):
    release = ledger.open_release(release_id, SHARES)
    with pytest.raises(SpecificationError, match=r"no share 'other'.*'evaluation', 'mechanism'"):
        release.account("other")


def test_a_dataset_without_a_budget(ledger):
    release_id = ReleaseId("strangers", "yearly", "x")
    command = f"ledger grant --ledger {re.escape(shlex.quote(ledger.location))} --dataset strangers"
    for attempt in (
        lambda: ledger.balance("strangers"),
        lambda: ledger.check(release_id, SHARES),
        lambda: ledger.open_release(release_id, SHARES),
    ):
        with pytest.raises(BudgetError, match=command):
            attempt()


def test_a_grant_is_raised_and_lowered_by_events(ledger, release_id):
    ledger.grant("people", epsilon=2.0, delta=1e-9, reason="new policy")
    ledger.grant("people", epsilon=1.5, delta=1e-10)
    grants = [event for event in ledger.events() if event.kind == Kind.GRANTED]
    assert [(event.epsilon, event.delta) for event in grants] == [
        (1.0, 1e-9),
        (2.0, 1e-9),
        (1.5, 1e-10),
    ]
    assert (grants[1].by, grants[1].reason, grants[1].release_id) == (user(), "new policy", None)
    assert ledger.balance("people").granted == pytest.approx(Budget(1.5, 1e-10).rho, rel=1e-9)


def test_the_same_grant_twice_is_one(ledger):
    balance = ledger.grant("people", epsilon=1, delta=1e-9)
    assert balance == ledger.balance("people")
    assert kinds(ledger) == ["granted"]


def test_a_grant_is_never_lowered_below_what_is_used(ledger, release_id):
    release = ledger.open_release(release_id, {"mechanism": 0.01})
    release.account("mechanism").charge("a", 0.001)
    with pytest.raises(BudgetError, match=r"cannot be lowered .* spent and .* reserved"):
        ledger.grant("people", epsilon=0.1, delta=1e-9)
    assert ledger.balance("people").epsilon == 1.0
    release.close()
    assert ledger.grant("people", epsilon=0.5, delta=1e-9).epsilon == 0.5


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0, 1e-9), (-1, 1e-9), (1, 0), (1, 1), (float("nan"), 1e-9)]
)
def test_a_grant_is_a_budget(path, epsilon, delta):
    with pytest.raises(SpecificationError, match="must be"):
        Ledger(path).grant("people", epsilon=epsilon, delta=delta)
    assert not path.exists()


@pytest.mark.parametrize("name", ["", "  ", "two\nlines", "x" * 201, 7])
def test_names_can_be_written_and_read(path, name):
    with pytest.raises(SpecificationError, match="protected dataset must"):
        Ledger(path).grant(name, epsilon=1, delta=1e-9)
    with pytest.raises(SpecificationError, match="protected dataset must"):
        ReleaseId(name, "release", "x")


def test_a_failed_transaction_leaves_nothing(ledger):
    def grant_and_fail():
        with ledger._backend.writing() as connection:
            append(connection, Kind.GRANTED, "ghost", units=1, epsilon=1.0, delta=1e-9)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        grant_and_fail()
    assert ledger.datasets() == ("people",)


def test_datasets_are_apart(ledger, release_id):
    ledger.grant("others", epsilon=3.0, delta=1e-6)
    ledger.open_release(release_id, {"mechanism": 0.01})
    assert ledger.datasets() == ("others", "people")
    assert ledger.balance("others").reserved == 0.0
    assert [event.kind.value for event in ledger.events("others")] == ["granted"]


def test_balances_in_epsilon(ledger, release_id):
    ledger.open_release(release_id, {"mechanism": Budget(0.1, 1e-9).rho}).account(
        "mechanism"
    ).charge("a", 0.0001)
    balance = ledger.balance("people")
    assert balance.epsilon_of(balance.granted) == pytest.approx(1.0)
    assert balance.epsilon_of(balance.spent) == pytest.approx(epsilon_from_rho(0.0001, 1e-9))


@pytest.mark.parametrize(("left", "nothing"), [(2e-15, True), (1e-9, False)])
def test_what_rounding_left_is_no_epsilon(ledger, release_id, left, nothing):
    shares = Budget(1.0, 1e-9).shares(evaluation=0.0)
    account = ledger.open_release(release_id, shares).account("mechanism")
    account.charge("a", account.remaining - left)
    account.close()
    balance = ledger.balance("people")
    assert balance.remaining_units > 0
    assert (balance.remaining_epsilon == 0) is nothing


def test_the_smallest_charge_is_not_lost(ledger, release_id):
    account = ledger.open_release(release_id, {"mechanism": 0.001}).account("mechanism")
    for step in range(3):
        account.charge(f"step {step}", math.nextafter(0.0, 1.0))
    assert ledger.balance("people").spent_units == 3


def test_objects_travel_to_other_processes(ledger, release_id):
    release = ledger.open_release(release_id, SHARES)
    ledger.balance("people")
    copies = pickle.loads(pickle.dumps((ledger, release, release.account("mechanism"))))
    copies[2].charge("a", 0.001)
    assert release.account("mechanism").charged("a") == pytest.approx(0.001)
    assert copies[0].balance("people") == ledger.balance("people")
    assert (copies[1].release_id, copies[1].shares) == (release_id, release.shares)


def test_a_name_that_cannot_be_written_is_refused_where_it_is_asked_for(ledger):
    """A shell gives bytes that are no UTF-8 as half characters, which no database takes."""
    for attempt in (ledger.balance, ledger.events, ledger.reservations):
        with pytest.raises(SpecificationError, match="printable"):
            attempt("people\udcff")


def test_a_user_whose_name_cannot_be_written_has_none(ledger, monkeypatch):
    monkeypatch.setenv("LOGNAME", "officer\udcff")
    ledger.grant("others", epsilon=1.0, delta=1e-9)
    assert ledger.events("others")[0].by == ""
    ledger.verify()


def test_commands_in_errors_are_quoted_for_a_shell(tmp_path):
    """Names come from a configuration, and the officer copies the line."""
    name = "people'; touch x #"
    release_id = ReleaseId(name, name, "x", partition=name, edition=name)
    location = str(tmp_path / "a ledger.db")
    ledger = ["--ledger", location, "--dataset", name]
    of_release = ["--release", name, "--partition", name, "--edition", name]
    for command, said in (
        (grant_command(location, name), [*ledger, "--epsilon", "EPSILON", "--delta", "DELTA"]),
        (close_command(location, release_id), [*ledger, *of_release, "--reason", "REASON"]),
        (
            rebind_command(location, name, name),
            [*ledger, "--partition", name, "--reason", "REASON"],
        ),
        (acknowledge_command(location, name), [*ledger, "--reason", "REASON"]),
    ):
        assert shlex.split(command)[3:] == said
