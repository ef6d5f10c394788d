"""Accounts, with a ledger and without: the same surface, the same refusals."""

import math

import numpy as np
import pytest

from jam_dagster.errors import (
    BudgetError,
    BudgetExceededError,
    PrivateValuesError,
    ReleaseClosedError,
    SpecificationError,
)
from jam_dagster.privacy import Account, Draws, Ledger, SeededNoise, UnledgeredAccount
from tests.tiers import gate

RHO = 0.005


def near(rho):
    """Return what equals `rho` but for the ledger's unit, 1e-15."""
    return pytest.approx(rho, rel=0, abs=2.1e-15)


@pytest.fixture(params=["unledgered", "sqlite", *gate("postgresql")])
def account(request, release_id) -> Account:
    if request.param == "unledgered":
        return UnledgeredAccount(RHO)
    if request.param == "sqlite":
        ledger = request.getfixturevalue("ledger")
    else:
        ledger = Ledger(request.getfixturevalue("postgres").create_database())
        ledger.grant("people", epsilon=1.0, delta=1e-9)
    return ledger.open_release(release_id, {"mechanism": RHO}).account("mechanism")


def test_a_charge_is_remembered(account):
    assert (account.share, account.reserved, account.spent) == ("mechanism", near(RHO), 0.0)
    assert account.charged("round-000/select") is None
    account.charge("round-000/select", 0.001)
    assert account.charged("round-000/select") == near(0.001)
    assert account.spent == near(0.001)
    assert account.remaining == near(0.004)


def test_all_that_remains_can_be_charged(account):
    for step in range(7):
        account.charge(f"{step}", account.remaining / 3)
    account.charge("last", account.remaining)
    assert account.remaining <= 1e-15
    assert account.spent <= account.reserved


def test_all_that_is_reserved_can_be_charged_at_once(account):
    account.charge("all", account.reserved)
    assert account.remaining <= 1e-15


def test_a_charge_beyond_the_share_is_refused(account):
    account.charge("a", 0.004)
    with pytest.raises(BudgetExceededError, match=r"'b' asks for rho 0.002.*rho 0.001 .*too lit"):
        account.charge("b", 0.002)
    assert account.spent == near(0.004)
    assert account.charged("b") is None


def test_a_charge_two_units_beyond_what_remains_is_refused(account):
    account.charge("a", 0.004)
    with pytest.raises(BudgetExceededError):
        account.charge("b", account.remaining + 2e-15)


def test_a_step_is_charged_once(account):
    account.charge("a", 0.001)
    with pytest.raises(BudgetError, match="already paid for step 'a'"):
        account.charge("a", 0.001)
    assert account.spent == near(0.001)


@pytest.mark.parametrize("rho", [0.0, -0.001, math.nan, math.inf, "much"])
def test_a_charge_is_a_positive_amount(account, rho):
    with pytest.raises(SpecificationError, match="rho must be"):
        account.charge("a", rho)
    assert account.spent == 0.0


def test_closing_returns_the_rest_once(account):
    account.charge("a", 0.001)
    assert not account.closed
    assert account.close("done") == near(0.004)
    assert account.closed
    assert account.close() == 0.0
    assert (account.spent, account.remaining) == (near(0.001), 0.0)
    with pytest.raises(ReleaseClosedError, match="cannot pay for step 'b'"):
        account.charge("b", 1e-6)


@pytest.mark.parametrize("rho", [0.0, -1.0, math.nan])
def test_an_unledgered_account_holds_a_positive_amount(rho):
    with pytest.raises(SpecificationError, match="rho must be"):
        UnledgeredAccount(rho)


@pytest.mark.parametrize(
    "draw",
    [
        lambda draws: draws.select(
            "a", lambda: np.array([1.0, np.nan]), size=2, rho=0.001, sensitivity=4.0
        ),
        lambda draws: draws.select("a", lambda: np.array([]), size=0, rho=0.001, sensitivity=4.0),
        lambda draws: draws.select("a", lambda: np.ones(2), size=2, rho=0.001, sensitivity=0.0),
        lambda draws: draws.measure("a", lambda: np.array([0.5]), size=1, rho=0.001),
        lambda draws: draws.values("a", lambda: np.ones(2), size=2, sensitivity=-1.0, rho=0.001),
        lambda draws: draws.measure("a", lambda: np.array([1]), size=1, rho=0.0),
        lambda draws: draws.measure("a", lambda: np.array([1]), size=1, rho=math.nan),
    ],
)
def test_what_cannot_be_drawn_is_not_charged(account, draw):
    with pytest.raises((SpecificationError, PrivateValuesError)):
        draw(Draws(SeededNoise(0), account))
    assert account.spent == 0.0
