"""Selections of values take delta, which the ledger keeps as it keeps rho."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from jam_dagster.errors import (
    BudgetError,
    BudgetExceededError,
    LedgerIntegrityError,
    SpecificationError,
)
from jam_dagster.privacy import Budget, Ledger, Policy, ReleaseId, epsilon_from_rho
from jam_dagster.privacy.accounting import UNITS_PER_DELTA, delta_left, delta_units_up
from jam_dagster.privacy.shares import DOMAIN

SHARES = Budget(0.3, 1e-9).shares(domain=0.1)
DELTA = 2e-10


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger(tmp_path / "ledger.db")
    made.grant("people", epsilon=3.0, delta=1e-9, selections=5e-10)
    return made


def release(name: str, partition: str = "") -> ReleaseId:
    return ReleaseId("people", name, "3f9a", partition)


def selecting(ledger: Ledger, name: str, delta: float = DELTA, partition: str = ""):
    return ledger.open_release(release(name, partition), SHARES, selections={DOMAIN: delta})


def test_rho_has_what_selections_leave_of_delta() -> None:
    half = Budget(1.0, 1e-9, 5e-10)
    assert half.converts_at <= 5e-10
    assert half.rho == Budget(1.0, half.converts_at).rho < Budget(1.0, 1e-9).rho
    assert epsilon_from_rho(half.rho, half.converts_at) <= 1.0
    with pytest.raises(SpecificationError, match="take all of delta"):
        Budget(1.0, 1e-9, 1e-9)
    with pytest.raises(SpecificationError, match="0 or more"):
        Budget(1.0, 1e-9, -1e-12)
    # Amounts are exact: what is left and what is taken never exceed the whole.
    for units in (1, 7, 10**8 + 1, 999_999_999):
        assert delta_units_up(delta_left(1e-9, units)) + units <= delta_units_up(1e-9)
    assert delta_units_up(1e-18) == 1


def test_a_grant_says_how_much_selections_may_have(ledger: Ledger) -> None:
    balance = ledger.balance("people")
    assert balance.granted_selections == UNITS_PER_DELTA // 2 // 10**9
    assert (balance.granted_delta, balance.delta) == (1e-9, Budget(3.0, 1e-9, 5e-10).converts_at)
    # It stays until it is granted otherwise.
    ledger.grant("people", epsilon=4.0, delta=1e-9)
    assert ledger.balance("people").granted_selections == balance.granted_selections
    ledger.grant("people", epsilon=4.0, delta=1e-9, selections=0.0)
    assert ledger.balance("people").granted_selections == 0
    assert ledger.balance("people").granted > balance.granted
    assert ledger.verify().events == 3


def test_selections_of_releases_add_up(ledger: Ledger) -> None:
    selecting(ledger, "first").account(DOMAIN).charge("domain-1/1", 1e-6)
    again = selecting(ledger, "first")
    assert again.spent > 0
    second = selecting(ledger, "second")
    before = ledger.events()
    with pytest.raises(BudgetExceededError, match=r"5e-10, of which 4e-10 is taken.*--selection"):
        selecting(ledger, "third")
    with pytest.raises(BudgetExceededError, match="takes 2e-10"):
        ledger.check(release("third"), SHARES, selections={DOMAIN: DELTA})
    assert ledger.events() == before
    # A reservation that ends without a charge gives its delta back, and one that was charged none.
    second.close()
    third = selecting(ledger, "third")
    third.account(DOMAIN).charge("domain-1/1", 1e-6)
    third.close()
    ledger.open_release(release("fourth"), SHARES)
    assert ledger.balance("people").used_selections == 2 * delta_units_up(DELTA)
    with pytest.raises(BudgetError, match="grant them at least so much"):
        ledger.grant("people", epsilon=3.0, delta=1e-9, selections=1e-10)
    with pytest.raises(SpecificationError, match="another delta"):
        selecting(ledger, "first", 1e-10)
    ledger.verify()


def test_a_dataset_gives_selections_nothing_by_default(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.grant("people", epsilon=3.0, delta=1e-9)
    with pytest.raises(BudgetExceededError, match="gives selections none") as refused:
        selecting(ledger, "first")
    assert "--selection-delta 2e-10" in str(refused.value)


def test_disjoint_partitions_compose_in_parallel(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    policy = Policy(partitions="disjoint", ground="membership public and fixed")
    ledger.grant("people", epsilon=3.0, delta=1e-9, policy=policy, selections=3e-10)
    for partition in ("2026-01", "2026-02", "2026-03"):
        selecting(ledger, "monthly", partition=partition)
    assert ledger.balance("people").used_selections == delta_units_up(DELTA)
    with pytest.raises(BudgetExceededError, match="takes 2e-10"):
        selecting(ledger, "whole")
    ledger.verify()


def test_a_reservation_beyond_the_grant_is_noticed(ledger: Ledger) -> None:
    """A role that may write reservations could write one that no opening planned."""
    made = selecting(ledger, "first")
    forged = sa.text("UPDATE events SET selections = 900000000 WHERE kind = 'reserved'")
    engine = sa.create_engine(f"sqlite:///{ledger.location}")
    with engine.begin() as connection:
        connection.execute(sa.text("DROP TRIGGER events_no_update"))
        connection.execute(forged)
    with pytest.raises(LedgerIntegrityError):
        ledger.verify()
    with pytest.raises(LedgerIntegrityError):
        made.account(DOMAIN).charge("domain-1/1", 1e-6)
