"""Scores, the tractability filter, and the sensitivity that the selection relies on."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jam_dagster.mechanisms import Aim
from jam_dagster.mechanisms.loops.scores import (
    LOWEST,
    error_scores,
    l1_distance,
    representable,
)
from jam_dagster.models.measurement import MEAN_ABSOLUTE_NORMAL
from jam_dagster.privacy import Draws, UnledgeredAccount
from jam_dagster.privacy.noise.exact import ROUNDING_SLACK
from jam_dagster.privacy.sensitivity import JAM_SCORE
from jam_dagster.tables import Domain, EncodedTable, Workload
from tests.examples import examples
from tests.mechanisms.conftest import ScriptedNoise
from tests.privacy.neighbours import candidate_scores


def test_scores_by_hand():
    scores = candidate_scores(
        current=np.array([10.0, 4.0]),
        public=np.array([3.0, 6.0]),
        cells=np.array([4.0, 2.0]),
        sigma=1.5,
    )
    noise = math.sqrt(2 / math.pi) * 1.5
    np.testing.assert_allclose(scores, [10 - 4 * noise, 4 - 2 * noise, 7, -2])


def test_l1_of_a_table_is_entrywise():
    """np.linalg.norm(x, 1) of a matrix is its largest column sum, another number."""
    assert l1_distance(np.ones((2, 3)), np.zeros((2, 3))) == 6


counts = st.lists(st.integers(0, 5), min_size=4, max_size=4)


def score_of(private: np.ndarray, model: np.ndarray, public: np.ndarray) -> np.ndarray:
    return candidate_scores(
        np.array([l1_distance(private, model)]),
        np.array([l1_distance(private, public)]),
        np.array([private.size]),
        1.0,
    )


@given(counts, counts, counts, st.integers(0, 3), st.integers(0, 3))
@examples(200)
def test_replacing_one_person_never_moves_a_score_by_more_than_its_sensitivity(
    private, model, public, leaves, joins
):
    before = np.array(private, dtype=float)
    before[leaves] += 1
    after = before.copy()
    after[leaves] -= 1
    after[joins] += 1
    # A model and a scaled public table hold fractions.
    others = np.array(model) * 0.7, np.array(public) * 1.3
    moved = np.abs(score_of(before, *others) - score_of(after, *others)).max()
    assert moved <= JAM_SCORE + 1e-9


@pytest.mark.slow
def test_a_search_over_neighbours_reaches_the_sensitivity():
    """A score that needs less than 4 would waste budget; one that claims 2 would leak."""
    rng = np.random.default_rng(0)
    largest = 0.0
    for _ in range(20_000):
        before = rng.integers(0, 4, 4).astype(float)
        leaves, joins = rng.integers(0, 4, 2)
        before[leaves] += 1
        after = before.copy()
        after[leaves] -= 1
        after[joins] += 1
        model, public = rng.integers(0, 4, (2, 4)).astype(float)
        moved = np.abs(score_of(before, model, public) - score_of(after, model, public)).max()
        largest = max(largest, moved)
    assert largest == JAM_SCORE == 4


def test_scores_far_below_zero_move_no_further_than_their_sensitivity():
    """Neighbours' errors are two apart; floats that hold 2^45 are a hundredth apart."""
    rng = np.random.default_rng(0)
    weights = np.full(20_000, 2.3)
    sensitivity = 2.0 * weights.max()
    errors = rng.uniform(0, 1e7, 20_000)
    largest = {}
    for raised in (False, True):
        moved = 0.0
        for cells in 2.0 ** np.arange(10, 46):
            one, other = (
                error_scores(e, np.full(20_000, cells), MEAN_ABSOLUTE_NORMAL, weights)
                for e in (errors, errors + 2.0)
            )
            if raised:
                one, other = representable(one, sensitivity), representable(other, sensitivity)
            moved = max(moved, float(np.abs(one - other).max()))
        largest[raised] = moved / sensitivity
    assert largest[False] > 1 + 1e-4
    assert 1 - 1e-9 < largest[True] <= 1 + ROUNDING_SLACK


def test_a_run_chooses_from_scores_that_floats_can_hold():
    domain = Domain.from_sizes({"a": 400, "b": 400, "c": 100})
    private = EncodedTable(domain, tuple(np.arange(50) for _ in range(3)))
    noise = ScriptedNoise([0] * 20)
    draws = Draws(noise, UnledgeredAccount(1e-9))
    workload = Workload.all_k_way(domain, 2)
    Aim(rounds=6, iterations=1).run(private, None, workload, draws)
    # Pairs weigh 4: a sensitivity of 8. Sigma is 80,000, and a x b has 160,000 cells.
    assert noise.selections[0]["scores"].min() == -8 * LOWEST
    assert noise.selections[0]["scores"].max() > -8 * LOWEST
