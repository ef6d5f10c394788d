"""Conversions match the published values, are tight, and round toward safety."""

import doctest
import math
import tracemalloc
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from jam_dagster.errors import SpecificationError
from jam_dagster.privacy import accounting
from jam_dagster.privacy.accounting import (
    MAX_RHO,
    UNITS_PER_RHO,
    Budget,
    advantage_from_rho,
    describe_certainty,
    describe_factor,
    describe_rho,
    epsilon_from_advantage,
    epsilon_from_rho,
    exponential_epsilon,
    gaussian_sigma,
    rho_from_epsilon,
    rho_reserving,
    rho_within,
    units_down,
    units_up,
)
from tests.tiers import slow

epsilons = st.floats(1e-3, 100.0)
deltas = st.floats(1e-15, 0.1)
rhos = st.floats(1e-9, 100.0)
units = st.integers(1, int(MAX_RHO) * UNITS_PER_RHO)


@pytest.mark.parametrize(
    ("epsilon", "rho"),
    [
        (0.03, "1.73634791e-05"),
        (0.1, "0.000177138447"),
        (0.31, "0.0015731729"),
        (1, "0.0149730577"),
        (3.16, "0.132915353"),
        (10, "1.0907857"),
    ],
)
def test_published_values_to_all_digits(epsilon, rho):
    assert f"{rho_from_epsilon(epsilon, 1e-9):.9g}" == rho


def epsilon_at_order(rho, delta, order):
    """Canonne, Kamath and Steinke 2020, Proposition 12, as printed there."""
    return order * rho + math.log(1 / (order * delta)) / (order - 1) + math.log1p(-1 / order)


@given(rho=rhos, delta=deltas)
def test_epsilon_is_the_least_over_all_orders(rho, delta):
    grid = 1 + np.exp(np.linspace(-6, 16, 4000))
    least = max(0.0, min(epsilon_at_order(rho, delta, order) for order in grid))
    found = epsilon_from_rho(rho, delta)
    assert found <= least * (1 + 1e-9) + 1e-9
    assert found >= least * (1 - 1e-4) - 1e-7  # the grid is that fine


def least_epsilon(rho: float, delta: float) -> Decimal:
    """The tight epsilon to 40 digits, by ternary search over ln(order - 1)."""
    with localcontext(prec=60):
        exact_rho, log_delta = Decimal(rho), Decimal(delta).ln()

        def epsilon(u: Decimal) -> Decimal:
            excess = u.exp()
            order = 1 + excess
            return order * exact_rho + (-log_delta - order * order.ln()) / excess + u

        low, high = Decimal(-10), Decimal(30)
        for _ in range(200):
            a, b = (2 * low + high) / 3, (low + 2 * high) / 3
            low, high = (low, b) if epsilon(a) < epsilon(b) else (a, high)
        return epsilon(low)


@pytest.mark.parametrize("epsilon", [*slow(0.03, 0.31), 1.0, *slow(3.16, 10.0)])
def test_rounding_is_on_the_safe_side_in_the_last_bit(epsilon):
    rho = rho_from_epsilon(epsilon, 1e-9)
    assert least_epsilon(rho, 1e-9) <= Decimal(epsilon) < least_epsilon(rho * (1 + 1e-15), 1e-9)
    epsilon = epsilon_from_rho(rho, 1e-9)
    assert Decimal(epsilon * (1 - 1e-15)) < least_epsilon(rho, 1e-9) <= Decimal(epsilon)


@given(epsilon=epsilons, delta=deltas)
def test_conversions_are_inverse_and_round_toward_safety(epsilon, delta):
    rho = rho_from_epsilon(epsilon, delta)
    assert epsilon_from_rho(rho, delta) == pytest.approx(epsilon, rel=1e-12)
    assert rho_from_epsilon(epsilon_from_rho(rho, delta), delta) >= rho * (1 - 1e-12)


@given(rho=rhos)
def test_the_gaussian_mechanism_gives_no_attacker_more(rho):
    """The total variation of N(0, 1) and N(m, 1) is erf(m / sqrt 8), and they differ by rho."""
    exact = math.erf(math.sqrt(2 * rho) / math.sqrt(8))
    bound = advantage_from_rho(rho)
    assert exact <= bound <= 1
    assert bound <= min(math.sqrt(rho / 2), math.sqrt(-math.expm1(-rho))) * (1 + 1e-11)


@given(epsilon=epsilons)
def test_randomized_response_gives_no_attacker_more(epsilon):
    """Its answer is true with odds exp(epsilon); its divergence, at most rho, is this."""
    advantage = math.tanh(epsilon / 2)
    assert advantage_from_rho(epsilon * advantage) >= advantage


@given(advantage=st.floats(1e-3, 0.999), delta=st.floats(1e-15, 1e-6))
def test_a_budget_by_risk_keeps_it(advantage, delta):
    epsilon = epsilon_from_advantage(advantage, delta)
    found = advantage_from_rho(rho_from_epsilon(epsilon, delta))
    assert advantage * (1 - 1e-9) <= found <= advantage


@pytest.mark.parametrize("advantage", [0, 1, -0.1, math.nan, 1e-12, True, "0.1"])
def test_no_budget_has_such_a_risk(advantage):
    with pytest.raises(SpecificationError, match="advantage"):
        epsilon_from_advantage(advantage, 1e-9)


@given(epsilon=epsilons, delta=deltas)
def test_the_gaussian_mechanism_of_that_rho_keeps_the_promise(epsilon, delta):
    """Its exact delta is known (Balle and Wang 2018, Theorem 8)."""
    sigma = gaussian_sigma(1.0, rho_from_epsilon(epsilon, delta))
    a, b = 1 / (2 * sigma), epsilon * sigma
    exact = special.ndtr(a - b) - math.exp(epsilon + special.log_ndtr(-a - b))
    assert exact <= delta * (1 + 1e-9)


@given(a=epsilons, b=epsilons, delta=deltas)
def test_more_epsilon_is_more_rho(a, b, delta):
    low, high = sorted((a, b))
    assert rho_from_epsilon(low, delta) <= rho_from_epsilon(high, delta)


def test_nothing_spent_is_epsilon_zero():
    assert epsilon_from_rho(0.0, 1e-9) == 0.0
    assert epsilon_from_rho(1e-9, 0.5) == 0.0  # epsilon never gets negative


@given(rho=st.floats(0.0, MAX_RHO))
def test_charges_round_up_and_budgets_down(rho):
    exact = Fraction(rho) * UNITS_PER_RHO
    assert units_down(rho) <= exact <= units_up(rho)
    assert units_up(rho) - units_down(rho) <= 1


def test_the_smallest_float_costs_a_unit():
    smallest = math.nextafter(0.0, 1.0)
    assert units_up(smallest) == 1
    assert units_down(smallest) == 0


def test_a_small_epsilon_is_converted_in_little_memory():
    tracemalloc.start()
    try:
        Budget(0.01, 1e-9)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 100_000


@given(amount=units)
def test_rho_within_is_the_largest_charge_that_fits(amount):
    rho = rho_within(amount)
    assert units_up(rho) <= amount
    assert Fraction(math.nextafter(rho, math.inf)) * UNITS_PER_RHO > amount


@given(rho=st.floats(1e-15, MAX_RHO))
def test_a_charge_shown_as_a_float_is_never_understated(rho):
    assert rho_within(units_up(rho)) >= rho


@given(amount=st.integers(1, 7 * UNITS_PER_RHO))
def test_rho_reserving_loses_nothing(amount):
    assert units_down(rho_reserving(amount)) == amount


@given(amount=units)
def test_rho_reserving_never_reserves_more(amount):
    assert units_down(rho_reserving(amount)) <= amount


@given(parts=st.lists(st.floats(1e-15, 1.0), min_size=1, max_size=50))
def test_rounded_charges_cover_the_exact_sum(parts):
    charged = sum(units_up(part) for part in parts)
    assert charged >= sum(Fraction(part) for part in parts) * UNITS_PER_RHO


@given(epsilon=epsilons, fraction=st.floats(0.0, 0.99))
def test_shares_add_up_to_the_budget_and_no_more(epsilon, fraction):
    budget = Budget(epsilon, 1e-9)
    shares = budget.shares(evaluation=fraction)
    total = sum(units_down(rho) for rho in shares.values())
    assert total <= units_down(budget.rho)
    assert total == pytest.approx(units_down(budget.rho), rel=1e-15, abs=1)
    assert ("evaluation" in shares) == (math.floor(units_down(budget.rho) * fraction) > 0)


def test_budget_is_hashable_and_comparable():
    assert len({Budget(1.0, 1e-9), Budget(1.0, 1e-9), Budget(2.0, 1e-9)}) == 2


def test_mechanism_constants():
    assert exponential_epsilon(0.125) == 1.0
    assert gaussian_sigma(math.sqrt(2), 0.01) == pytest.approx(10.0)  # sigma^2 = 1 / rho


def test_numpy_scalars_are_numbers():
    assert rho_from_epsilon(np.float64(1.0), np.float64(1e-9)) == rho_from_epsilon(1.0, 1e-9)
    assert units_up(np.float32(0.5)) == UNITS_PER_RHO // 2


@pytest.mark.parametrize("epsilon", [0, -1.0, math.nan, math.inf, True, "1", None])
def test_epsilon_out_of_range(epsilon):
    with pytest.raises(SpecificationError, match=r"epsilon must be .* got"):
        Budget(epsilon, 1e-9)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-9, math.nan, "tiny"])
def test_delta_out_of_range(delta):
    with pytest.raises(SpecificationError, match=r"delta must be .* got"):
        Budget(1.0, delta)


def test_budgets_too_small_and_too_large_to_keep():
    with pytest.raises(SpecificationError, match="raise epsilon"):
        Budget(1e-9, 1e-12)
    with pytest.raises(SpecificationError, match="lower epsilon"):
        Budget(1e6, 1e-9)


@pytest.mark.parametrize("rho", [-1.0, math.nan, math.inf, 9001.0])
def test_amounts_out_of_range(rho):
    for function in (units_up, units_down):
        with pytest.raises(SpecificationError, match="rho must be in"):
            function(rho)


@pytest.mark.parametrize("share", [-0.1, 1.0, math.nan])
def test_evaluation_share_out_of_range(share):
    with pytest.raises(SpecificationError, match="evaluation's share"):
        Budget(1.0, 1e-9).shares(evaluation=share)


def test_describe_rho():
    text = describe_rho(rho_from_epsilon(1.0, 1e-9), 1e-9)
    assert text == "rho 0.0149731 (epsilon 1 at delta 1e-09)"


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-9, 1e-5])
def test_how_sure_somebody_becomes_of_one_gaussian_measurement(epsilon, delta):
    rho = Budget(epsilon, delta).rho
    sure = float(describe_certainty(Budget(epsilon, delta)).rstrip("%")) / 100

    def surer(than):
        """The chance to be surer; the logarithm of the ratio is normal."""
        return special.ndtr((rho - math.log(than / (1 - than))) / math.sqrt(2 * rho))

    assert surer(sure) < delta
    # Epsilon alone would promise too much.
    assert surer(1 / (1 + math.exp(-epsilon))) > delta


def test_the_examples_are_true():
    done = doctest.testmod(accounting, optionflags=doctest.ELLIPSIS)
    assert done.attempted > 0
    assert done.failed == 0


def test_a_factor_that_protects_nobody_says_so() -> None:
    assert describe_factor(0.1) == "1.11 times as likely"
    assert describe_factor(20.0) == "4.85e+08 times as likely"
    assert describe_factor(1000.0) == "e^1000 times as likely (which is no protection)"
