"""Scores, the tractability filter, and the sensitivity that the selection relies on."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from jam_dagster.mechanisms.scores import candidate_scores, l1_distance
from jam_dagster.privacy.sensitivity import JAM_SCORE


def test_scores_by_hand():
    scores = candidate_scores(
        current_error=np.array([10.0, 4.0]),
        public_error=np.array([3.0, 6.0]),
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
@settings(max_examples=500, deadline=None)
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
