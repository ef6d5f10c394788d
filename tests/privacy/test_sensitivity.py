"""The claimed sensitivities are reached by search over neighbours, and never passed."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jam_dagster.errors import SpecificationError
from jam_dagster.privacy.sensitivity import (
    JAM_SCORE,
    MARGINAL_L1,
    MARGINAL_L2,
    REPLACE_ONE,
    Neighbours,
)
from tests.privacy.neighbours import largest_change, marginal, neighbours

SIZES = (3, 2, 4)
CLIQUES = [c for k in (1, 2, 3) for c in itertools.combinations(range(3), k)]
RECORDS = 12


def random_counts(rng, attributes, total=RECORDS):
    """Counts of a model or of a scaled public table: any non-negative vector of that total."""
    shape = [SIZES[i] for i in attributes]
    return total * rng.dirichlet(np.full(math.prod(shape), 10 ** rng.uniform(-2, 0))).reshape(shape)


def test_neighbours_differ_in_at_most_one_row():
    rng = np.random.default_rng(0)
    changed = [
        int(np.any(a != b, axis=1).sum())
        for a, b in neighbours(SIZES, records=RECORDS, pairs=200, rng=rng)
    ]
    assert set(changed) == {0, 1}


@pytest.mark.parametrize("attributes", CLIQUES)
def test_marginal(attributes):
    def draw(rng):
        return lambda rows: marginal(rows, SIZES, attributes)

    assert largest_change(draw, SIZES, norm="l1", pairs=500) == MARGINAL_L1
    assert largest_change(draw, SIZES, norm="l2", pairs=500) == pytest.approx(MARGINAL_L2)


def test_the_float_for_the_root_of_two_is_not_below_it():
    assert Fraction(MARGINAL_L2) ** 2 >= 2


def jam_scores(source):
    """The JAM score of every clique for one source, with model and public table held fixed."""

    def draw(rng):
        model = {c: random_counts(rng, c) for c in CLIQUES}
        public = {c: random_counts(rng, c) for c in CLIQUES}
        noise = {c: rng.uniform(0, 10) for c in CLIQUES}

        def scores(rows):
            out = []
            for c in CLIQUES:
                counts = marginal(rows, SIZES, c)
                current = np.abs(counts - model[c]).sum()
                predicted = noise[c] if source == "private" else np.abs(counts - public[c]).sum()
                out.append(current - predicted)
            return np.array(out)

        return scores

    return draw


def test_jam_score_of_private_candidates_moves_by_two():
    assert largest_change(jam_scores("private"), SIZES) == pytest.approx(2.0, abs=1e-9)


def test_jam_score_of_public_candidates_moves_by_four_and_no_more():
    assert largest_change(jam_scores("public"), SIZES) == pytest.approx(JAM_SCORE, abs=1e-9)


def mean_workload_errors(tables):
    def draw(rng):
        weights = rng.dirichlet(np.ones(len(CLIQUES)))
        # The same table twice: the errors then move together, as far as they can.
        others = [{c: random_counts(rng, c) for c in CLIQUES}] * tables

        def errors(rows):
            return np.array(
                [
                    sum(
                        w * np.abs(marginal(rows, SIZES, c) - other[c]).sum() / RECORDS
                        for w, c in zip(weights, CLIQUES, strict=True)
                    )
                    for other in others
                ]
            )

        return errors

    return draw


def test_mean_error():
    found = largest_change(mean_workload_errors(1), SIZES)
    assert 0.9 * REPLACE_ONE.mean_error(RECORDS) < found <= REPLACE_ONE.mean_error(RECORDS) + 1e-12


def test_two_mean_errors_together():
    found = largest_change(mean_workload_errors(2), SIZES, norm="l2")
    claimed = REPLACE_ONE.mean_errors_l2(RECORDS, 2)
    assert claimed == pytest.approx(2 * math.sqrt(2) / RECORDS)
    assert 0.9 * claimed < found <= claimed + 1e-12


@pytest.mark.parametrize("records", [0, -3])
def test_mean_error_needs_records(records):
    with pytest.raises(SpecificationError, match=f"records must be positive, got {records}"):
        REPLACE_ONE.mean_error(records)


def test_mean_errors_need_a_mean():
    with pytest.raises(SpecificationError, match="means must be positive, got 0"):
        REPLACE_ONE.mean_errors_l2(10, 0)


@pytest.mark.parametrize(
    ("neighbours", "l1", "l2", "score", "rows"),
    [
        (REPLACE_ONE, 2, math.sqrt(2), 4, 0),
        (Neighbours("add_remove"), 1, 1, 2, 1),
        (Neighbours("replace_one", 3), 6, 3 * math.sqrt(2), 12, 3),
        (Neighbours("add_remove", 3), 3, 3, 6, 3),
    ],
)
def test_neighbours_scale_every_sensitivity(neighbours, l1, l2, score, rows):
    assert neighbours.marginal_l1 == l1
    assert neighbours.marginal_l2 == pytest.approx(l2, rel=1e-15)
    assert neighbours.jam_score == score
    assert neighbours.records == rows
    assert neighbours.records_public == (rows == 0)
    assert neighbours.mean_error(100) == l1 / 100


@given(st.integers(1, 10**6))
def test_the_l2_sensitivity_of_k_rows_is_never_below_the_real_one(k):
    assert Fraction(Neighbours("replace_one", k).marginal_l2) ** 2 >= 2 * k**2


@pytest.mark.parametrize(
    ("relation", "rows", "said"),
    [
        ("bounded", 1, "neighbours"),
        ("add_remove", 0, "max_rows"),
        ("replace_one", True, "max_rows"),
    ],
)
def test_neighbours_refuse_what_they_do_not_know(relation, rows, said):
    with pytest.raises(SpecificationError, match=said):
        Neighbours(relation, rows)
