"""Figures of disclosure control: each is checked against the mechanism that attains it."""

import doctest
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from jam_dagster.errors import SpecificationError
from jam_dagster.privacy import Budget, advantage_from_rho, disclosure
from jam_dagster.privacy.disclosure import (
    BY_CHANCE,
    ERROR,
    detected_count,
    hidden_group,
    learnt_bits,
    singled_out,
    surest_guess,
    surest_link,
)

rhos = st.floats(1e-9, 9_000.0)
budgets = st.builds(Budget, st.floats(1e-2, 20.0), st.floats(1e-12, 1e-3))


def test_examples_in_docstrings_are_true():
    done = doctest.testmod(disclosure)
    assert done.attempted >= 6
    assert done.failed == 0


@given(st.floats(0.1, 1e4))
def test_a_detected_count_is_above_noise_and_a_smaller_one_is_not(sigma):
    threshold = stats.norm.isf(ERROR, scale=sigma)
    found = detected_count(sigma)
    assert stats.norm.sf(threshold, loc=found, scale=sigma) >= 1 - ERROR - 1e-9
    if found > 1:
        assert stats.norm.sf(threshold, loc=found - 1, scale=sigma) < 1 - ERROR


@given(rhos)
def test_a_hidden_group_is_the_largest_that_the_bound_hides(rho):
    size = hidden_group(rho)
    if size:
        assert advantage_from_rho(size**2 * rho) < 1 - 2 * ERROR
    if (size + 1) ** 2 * rho <= 9_000:
        assert advantage_from_rho((size + 1) ** 2 * rho) >= 1 - 2 * ERROR


@given(st.floats(1e-6, 1.0))
def test_the_gaussian_mechanism_hides_a_hidden_group(rho):
    # A group of k moves a sum by k, whose noise costs rho: k / sigma = k sqrt(2 rho).
    apart = hidden_group(rho) * math.sqrt(2 * rho)
    assert 2 * stats.norm.cdf(apart / 2) - 1 < 1 - 2 * ERROR


@pytest.mark.parametrize("rho", [0.001, 0.1, 1.0])
def test_one_bit_behind_gaussian_noise_teaches_no_more_than_the_bound(rho):
    # The mutual information of a fair bit and itself with noise, by numerical integration.
    apart = math.sqrt(2 * rho)
    either = stats.norm(0), stats.norm(apart)

    step = 0.001
    at = np.arange(-9.0, 11.0, step)
    mixed = 0.5 * (either[0].pdf(at) + either[1].pdf(at))
    entropy = -step * np.sum(mixed * np.log2(mixed))
    assert entropy - either[0].entropy() / math.log(2) <= learnt_bits(rho)


@given(budgets, st.floats(0.001, 0.999))
def test_a_guess_is_at_least_the_prior_and_two_people_tell_more(budget, prior):
    one = surest_guess(budget, prior)
    assert prior <= one <= surest_guess(budget, prior, people=2) <= 1.0
    # Epsilon alone promises less odds, but is about sets of outcomes.
    odds = prior / (1 - prior) * math.exp(budget.epsilon)
    assert one >= odds / (1 + odds) - 1e-9


@given(budgets, st.floats(0.001, 0.999))
def test_a_gaussian_outcome_makes_nobody_surer_but_with_delta(budget, prior):
    # The log likelihood ratio of shifted normals is normal: mean rho, variance 2 rho.
    rho, sure = budget.rho, surest_guess(budget, prior)
    if sure < 1.0:
        loss = math.log(sure / (1 - sure)) - math.log(prior / (1 - prior))
        assert stats.norm.sf(loss, rho, math.sqrt(2 * rho)) <= budget.delta


@pytest.mark.parametrize("prior", [0.0, 1.0, math.nan])
def test_a_prior_that_is_certain_is_refused(prior):
    with pytest.raises(SpecificationError, match="a prior is"):
        surest_guess(Budget(1.0, 1e-9), prior)


@given(rhos, st.floats(0.0, 1e-3))
def test_a_link_is_a_coin_s_with_the_advantage(rho, selections):
    assert 0.5 <= surest_link(rho, selections) <= 1.0
    assert surest_link(rho) == pytest.approx((1 + advantage_from_rho(rho)) / 2)


@given(budgets, st.integers(0, 10**9))
def test_singling_out_grows_with_people_and_budget(budget, people):
    found = singled_out(budget, people)
    assert BY_CHANCE <= found <= singled_out(budget, people + 10**6)
    assert found <= singled_out(Budget(2 * budget.epsilon, budget.delta), people)
    assert singled_out(Budget(1e3, 1e-9), people) == 1.0
