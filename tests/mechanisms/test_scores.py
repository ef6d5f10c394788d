"""Scores, the tractability filter, and the sensitivity that the selection relies on."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jam_dagster.mechanisms.scores import candidate_scores, l1_distance, tractable
from jam_dagster.privacy.sensitivity import JAM_SCORE
from jam_dagster.tables import Domain
from jam_dagster.tables.domain import ImpossibleCombination


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


@pytest.fixture
def wide():
    return Domain.from_sizes({"a": 10, "b": 20, "c": 30, "d": 2})


MB = 8 / 2**20


def test_limit_counts_the_whole_junction_tree(wide):
    candidates = [("a",), ("a", "b"), ("b", "c"), ("a", "b", "c")]
    # Alone, (a, b) makes a model of 200 + 30 + 2 cells, (b, c) one of 600 + 10 + 2.
    assert tractable(wide, candidates, [], 232 * MB) == [0, 1]
    assert tractable(wide, candidates, [], 612 * MB) == [0, 1, 2]
    assert tractable(wide, candidates, [], 61 * MB) == []
    # Beside (a, b), (b, c) makes 200 + 600 + 2.
    assert tractable(wide, candidates, [("a", "b")], 801 * MB) == [0, 1]
    assert tractable(wide, candidates, [("a", "b")], 802 * MB) == [0, 1, 2]


def test_what_lies_inside_a_clique_of_the_model_is_always_tractable(wide):
    candidates = [("a",), ("a", "b"), ("a", "c"), ("a", "d")]
    assert tractable(wide, candidates, [("a", "b", "c")], 0.0) == [0, 1, 2]


def test_impossible_combinations_count_toward_the_size(wide):
    fixed = ImpossibleCombination(("b", "c"), ((0,), (0,)))
    constrained = Domain(wide.attributes, impossible=(fixed,))
    # (a, d) beside the fixed zeros over (b, c): 600 + 20 cells.
    assert tractable(constrained, [("a", "d")], [], 619 * MB) == []
    assert tractable(constrained, [("a", "d")], [], 620 * MB) == [0]
