"""People who are in several datasets: one cap on what all of these reserve and spend."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from jam_dagster.errors import (
    AttemptsError,
    BudgetError,
    BudgetExceededError,
    LedgerIntegrityError,
    NotApprovedError,
    SpecificationError,
)
from jam_dagster.privacy import Budget, Kind, Ledger, Neighbours, Policy, ReleaseKey
from jam_dagster.privacy.accounting import rho_reserving
from jam_dagster.privacy.ledger.audit import verify_journal
from jam_dagster.privacy.ledger.journal import append, copy_rows
from jam_dagster.privacy.ledger.key import key_fields
from jam_dagster.privacy.ledger.policy import GROUNDS
from tests.privacy.conftest import Clock, audit_finds
from tests.tiers import slow_rows

RHO = Budget(1.0, 1e-9).rho
CENSUS = ReleaseKey("census", "yearly", "x")
SURVEY = ReleaseKey("survey", "yearly", "x")
ADD_REMOVE = Neighbours("add_remove")


def part(of: float) -> dict[str, float]:
    """The shares of a release that takes a part of the population's budget."""
    return {"mechanism": of * RHO}


@pytest.fixture
def clock() -> Clock:
    return Clock(2026, 11, 21)


@pytest.fixture
def ledger(each_url: str, clock: Clock) -> Ledger:
    """Two datasets, each of which may spend twice as much as the people of both."""
    ledger = Ledger(each_url, clock=clock)
    for dataset in ("census", "survey"):
        ledger.grant(dataset, epsilon=2.0, delta=1e-9)
    ledger.grant_population("residents", epsilon=1.0, delta=1e-9, reason="policy")
    return ledger


@pytest.fixture
def joined(ledger: Ledger) -> Ledger:
    for dataset in ("census", "survey"):
        ledger.join(dataset, "residents", reason="the same people")
    return ledger


def unchanged(ledger: Ledger, error: type[Exception], match: str, attempt: Any) -> None:
    """The attempt is refused, and nothing is written."""
    before = ledger.events()
    with pytest.raises(error, match=match):
        attempt()
    assert ledger.events() == before


def test_two_datasets_share_what_their_population_has(joined: Ledger) -> None:
    account = joined.open_release(CENSUS, part(0.6)).account("mechanism")
    account.charge("a", 0.4 * RHO)
    said = (
        "^release 'yearly', edition '1' asks for rho .* in the budget of population 'residents', to"
        " which dataset 'survey' belongs.* close an abandoned release.* --dataset census"
    )
    for attempt in (joined.check, joined.open_release):
        unchanged(joined, BudgetExceededError, said, lambda a=attempt: a(SURVEY, part(0.5)))
    # The dataset alone would have had room for it.
    balance = joined.balance("survey")
    assert balance.remaining == pytest.approx(0.4 * RHO)
    assert balance.own_remaining_units_in("") == balance.granted_units
    (residents,) = joined.populations()
    assert balance.population == residents
    assert (residents.spent, residents.reserved) == pytest.approx((0.4 * RHO, 0.2 * RHO))
    # What the first returns, the second may have.
    account.close()
    joined.open_release(SURVEY, part(0.5))
    assert joined.populations()[0].remaining == pytest.approx(0.1 * RHO)
    joined.verify()


def test_what_just_fits_is_reserved(joined: Ledger) -> None:
    joined.open_release(CENSUS, part(0.25))
    left = joined.balance("survey").remaining_units
    unchanged(
        joined,
        BudgetExceededError,
        "of population 'residents'",
        lambda: joined.open_release(SURVEY, {"mechanism": rho_reserving(left + 1)}),
    )
    joined.open_release(SURVEY, {"mechanism": rho_reserving(left)})
    assert joined.populations()[0].remaining_units == 0
    joined.verify()


def test_a_dataset_without_a_population_has_its_own_budget(ledger: Ledger) -> None:
    ledger.join("census", "residents")
    ledger.open_release(CENSUS, part(1.0))
    ledger.open_release(SURVEY, part(1.0))
    assert ledger.balance("survey").population is None
    assert ledger.populations()[0].uses.keys() == {"census"}
    ledger.verify()


def test_the_dataset_s_own_budget_holds_too(joined: Ledger) -> None:
    joined.grant_population("residents", epsilon=9.0, delta=1e-9)
    with pytest.raises(BudgetExceededError, match="in the budget of dataset 'census'"):
        joined.open_release(CENSUS, {"mechanism": 2 * Budget(2.0, 1e-9).rho})


def test_a_repeat_and_a_correction_take_nothing_twice(joined: Ledger) -> None:
    joined.open_release(CENSUS, part(0.9))
    for key in (CENSUS, replace(CENSUS, specification="y")):
        joined.open_release(key, part(0.9))
        assert joined.populations()[0].reserved == pytest.approx(0.9 * RHO)
    joined.verify()


# --- joining


def test_what_was_spent_before_counts_at_once(ledger: Ledger) -> None:
    ledger.open_release(CENSUS, part(0.7)).account("mechanism").charge("a", 0.5 * RHO)
    assert ledger.join("census", "residents").remaining == pytest.approx(0.3 * RHO)
    ledger.join("survey", "residents")
    with pytest.raises(BudgetExceededError, match="population 'residents'"):
        ledger.open_release(SURVEY, part(0.4))


def test_no_dataset_joins_with_more_than_is_left(ledger: Ledger) -> None:
    ledger.join("census", "residents")
    ledger.open_release(CENSUS, part(0.6))
    abandoned = ledger.open_release(SURVEY, part(0.5))
    unchanged(
        ledger,
        BudgetError,
        r"cannot join population 'residents'.*ledger population --ledger .* --population residents",
        lambda: ledger.join("survey", "residents"),
    )
    abandoned.close("a mistake")
    ledger.join("survey", "residents")
    ledger.verify()


def test_no_dataset_leaves_its_population(joined: Ledger) -> None:
    before = joined.events()
    joined.join("survey", "residents", reason="once more")
    assert joined.events() == before
    joined.grant_population("others", epsilon=5.0, delta=1e-9)
    unchanged(
        joined,
        BudgetError,
        "belongs to population 'residents', and no dataset leaves one",
        lambda: joined.join("survey", "others"),
    )


def test_both_need_a_budget(ledger: Ledger) -> None:
    for dataset, population, missing in (
        ("firms", "residents", "dataset 'firms' has no budget"),
        ("survey", "firms", "population 'firms' has no budget"),
    ):
        unchanged(ledger, BudgetError, missing, lambda d=dataset, p=population: ledger.join(d, p))
    with pytest.raises(SpecificationError, match="the population must not be blank"):
        ledger.join("survey", " ")


# --- grants


def test_a_population_s_budget_is_not_lowered_below_what_is_used(joined: Ledger) -> None:
    joined.open_release(CENSUS, part(0.3)).account("mechanism").charge("a", 0.2 * RHO)
    joined.open_release(SURVEY, part(0.3))
    before = joined.events()
    joined.grant_population("residents", epsilon=1.0, delta=1e-9)
    assert joined.events() == before
    unchanged(
        joined,
        BudgetError,
        "population 'residents' cannot be lowered",
        lambda: joined.grant_population("residents", epsilon=0.7, delta=1e-9),
    )
    assert joined.grant_population("residents", epsilon=0.9, delta=1e-9).epsilon == 0.9
    joined.verify()


def test_a_dataset_s_grant_does_not_count_less_of_its_population(
    joined: Ledger, clock: Clock
) -> None:
    """A budget that renews renews nothing of the people."""
    joined.grant("census", epsilon=2.0, delta=1e-9, policy=Policy("month"))
    joined.open_release(CENSUS, part(0.6)).account("mechanism").charge("a", 0.5 * RHO)
    clock.set(2026, 12, 1)
    assert joined.balance("census").own_remaining_units_in("") == pytest.approx(
        1e15 * Budget(2.0, 1e-9).rho
    )
    with pytest.raises(BudgetExceededError, match="population 'residents'"):
        joined.open_release(replace(CENSUS, edition="2"), part(0.5))
    joined.verify()


def test_disjoint_partitions_count_as_their_dataset_counts_them(joined: Ledger) -> None:
    disjoint = Policy(partitions="disjoint", ground=GROUNDS[1])
    joined.grant("census", epsilon=2.0, delta=1e-9, policy=disjoint)
    joined.open_release(SURVEY, part(0.3))
    for place in ("east", "west", "south"):
        joined.open_release(replace(CENSUS, partition=place), part(0.6))
    assert joined.populations()[0].reserved == pytest.approx(0.9 * RHO)
    with pytest.raises(BudgetExceededError, match="population 'residents'"):
        joined.open_release(replace(CENSUS, partition="north"), part(0.8))
    # As a sum they would be more than the people have.
    unchanged(
        joined,
        BudgetError,
        "more would be used of population 'residents' than it was granted",
        lambda: joined.grant("census", epsilon=9.0, delta=1e-9, policy=Policy()),
    )
    joined.verify()


def test_a_partition_of_another_dataset_is_another_slice(joined: Ledger) -> None:
    disjoint = Policy(partitions="disjoint", ground=GROUNDS[1])
    for dataset in ("census", "survey"):
        joined.grant(dataset, epsilon=2.0, delta=1e-9, policy=disjoint)
    joined.open_release(replace(CENSUS, partition="east"), part(0.6))
    for place in ("east", "west"):
        with pytest.raises(BudgetExceededError, match="population 'residents'"):
            joined.open_release(replace(SURVEY, partition=place), part(0.6))


def test_failed_attempts_count_for_each_dataset(joined: Ledger) -> None:
    """Their sum over a population is what the officer granted its datasets; joining adds none."""
    joined.grant("survey", epsilon=2.0, delta=1e-9, attempts=1)
    allowed = {CENSUS: 3, SURVEY: 1}
    for key, number in allowed.items():
        joined.open_release(key, part(0.1))
        for _ in range(number):
            with pytest.raises(ZeroDivisionError), joined.attempt(key):
                _ = 1 / 0
    for key in allowed:
        with pytest.raises(AttemptsError, match=f"dataset {key.dataset!r} stay closed"):
            joined.attempt(key).__enter__()
    joined.acknowledge("census", reason="a typo in the domain")
    with pytest.raises(AttemptsError), joined.attempt(SURVEY):
        raise AssertionError


# --- neighbours and approvals


def test_the_datasets_of_a_population_protect_one_relation(joined: Ledger) -> None:
    joined.open_release(CENSUS, part(0.1), neighbours=ADD_REMOVE)
    unchanged(
        joined,
        BudgetError,
        r"population 'residents' protects different neighbours \(add_remove and replace_one\)",
        lambda: joined.open_release(SURVEY, part(0.1)),
    )
    # A person may have more rows in one than in another.
    joined.open_release(SURVEY, part(0.1), neighbours=Neighbours("add_remove", 5))
    joined.verify()


def test_no_dataset_joins_with_another_relation(ledger: Ledger) -> None:
    ledger.join("census", "residents")
    ledger.open_release(CENSUS, part(0.1), neighbours=ADD_REMOVE)
    ledger.open_release(SURVEY, part(0.1))
    unchanged(
        ledger,
        BudgetError,
        "cannot join population 'residents': the population protects different neighbours",
        lambda: ledger.join("survey", "residents"),
    )


def test_an_approval_lifts_no_cap(joined: Ledger) -> None:
    joined.grant("survey", epsilon=2.0, delta=1e-9, approval="required")
    joined.open_release(CENSUS, part(0.6))
    with pytest.raises(NotApprovedError):
        joined.open_release(SURVEY, part(0.3))
    joined.approve(SURVEY, epsilon=2.0, reason="seen")
    with pytest.raises(BudgetExceededError, match="population 'residents'"):
        joined.open_release(SURVEY, part(0.5))
    joined.open_release(SURVEY, part(0.3))
    joined.verify()


def test_a_population_moves_with_its_ledger(joined: Ledger, tmp_path: Any) -> None:
    joined.open_release(CENSUS, part(0.6))
    before = joined.populations()
    joined.move(tmp_path / "moved.db")
    moved = Ledger(tmp_path / "moved.db")
    assert moved.populations() == before
    with pytest.raises(BudgetExceededError, match="population 'residents'"):
        moved.open_release(SURVEY, part(0.6))


# --- what somebody wrote by hand


def test_a_reservation_beyond_the_population_pays_for_nothing(joined: Ledger) -> None:
    joined.open_release(CENSUS, part(0.6))
    with joined._backend.writing() as connection:
        units = round(0.5e15 * RHO)
        append(connection, Kind.RESERVED, **key_fields(SURVEY), share="mechanism", units=units)
    release = joined.release(SURVEY)
    assert release is not None
    unchanged(
        joined,
        LedgerIntegrityError,
        "is of more than its dataset's population had left",
        lambda: release.account("mechanism").charge("a", 1e-4),
    )
    with pytest.raises(LedgerIntegrityError, match="its dataset's population had left"):
        joined.verify()


def test_a_reservation_of_another_relation_pays_for_nothing(joined: Ledger) -> None:
    joined.open_release(CENSUS, part(0.1), neighbours=ADD_REMOVE)
    with joined._backend.writing() as connection:
        append(connection, Kind.RESERVED, **key_fields(SURVEY), share="mechanism", units=10**9)
    release = joined.release(SURVEY)
    assert release is not None
    with pytest.raises(LedgerIntegrityError, match="is of a population that protects different"):
        release.account("mechanism").charge("a", 1e-9)
    with pytest.raises(LedgerIntegrityError, match="is of a population that protects different"):
        joined.verify()


POPULATION = {"kind": Kind.POPULATION, "dataset": "", "step": "residents"}
JOINED = {"kind": Kind.JOINED, "dataset": "census", "step": "residents"}


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ({**POPULATION, "units": 1}, "use more than it was granted"),
        *slow_rows(
            (
                {**POPULATION, "dataset": "census", "units": 10**15},
                "names a dataset or no population",
            ),
            ({**POPULATION, "step": "", "units": 10**15}, "names a dataset or no population"),
            (JOINED, "its dataset belongs to 'residents'"),
            ({**JOINED, "dataset": "firms"}, "dataset 'firms', which was granted nothing"),
            ({**JOINED, "step": "others"}, "joins a population that was granted nothing"),
            ({**JOINED, "units": 1}, "names more than a dataset"),
        ),
    ],
)
def test_the_audit_replays_the_rules(joined: Ledger, event: dict[str, Any], message: str) -> None:
    joined.open_release(CENSUS, part(0.5))
    audit_finds(joined, message, event)


def test_a_population_follows_from_the_journal(joined: Ledger) -> None:
    joined.open_release(CENSUS, part(0.5))
    journal, now = joined.events(), "2026-11-22T00:00:00+00:00"
    balances = {dataset: joined.balance(dataset) for dataset in joined.datasets()}
    verify_journal(journal, balances.get, "here", now)
    shared = balances["survey"].population
    assert shared is not None
    for other in (None, replace(shared, reserved_units=0), replace(shared, name="others")):
        balances["survey"] = replace(balances["survey"], population=other)
        with pytest.raises(LedgerIntegrityError, match="balance of dataset 'survey'"):
            verify_journal(journal, balances.get, "here", now)


def test_a_journal_without_its_population_is_refused(joined: Ledger, tmp_path: Any) -> None:
    """A reservation must not pass because a cap cannot be found."""
    other = Ledger(tmp_path / "other.db")
    other._backend.create()
    kept = [event for event in joined.events() if event.kind != Kind.POPULATION]
    with other._backend.writing() as connection:
        copy_rows(connection, kept, [])
    for attempt in (lambda: other.balance("census"), lambda: other.check(CENSUS, part(0.1))):
        with pytest.raises(LedgerIntegrityError, match="counts dataset 'census' in a population"):
            attempt()
