"""Groups of values, the errors of their pairs, and relations that a table has lost."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from jam_dagster.evaluation.coarse_pairs import (
    GROUPS,
    RELATED,
    CoarsePairs,
    Groups,
    rank_correlation,
)
from jam_dagster.evaluation.independent_table import IndependentTable
from jam_dagster.tables import Domain, EncodedTable, NumericAttribute

MIXED = Domain.from_dict(
    {
        "attributes": {
            "income": {"bounds": [0, 100], "bins": 50, "nullable": True},
            "rooms": {"values": [3, 1, 2]},
            "sex": {"values": ["f", "m"]},
            "town": {"values": [f"t{i}" for i in range(20)]},
        }
    }
)


def groups(name: str, counts: list[int] | None = None) -> Groups:
    attribute = MIXED.attribute(name)
    return Groups.of(attribute, np.array(counts or [1] * attribute.size))


def test_unreadable_values_are_in_the_group_of_missing_ones() -> None:
    attribute = NumericAttribute("a", (0.0, 1.0, 2.0), nullable=True, unreadable="apart")
    found = Groups.of(attribute, np.array([3, 1, 4, 2]))
    assert found.of_code.tolist() == [0, 1, 2, 2]
    assert found.shares == pytest.approx([0.3, 0.1, 0.6])
    assert found.scores[2].tolist() == [0.0]


def related(records: int, seed: int, strength: float) -> EncodedTable:
    """Return two attributes of 12 values in an order, alike in a share of the records."""
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 12, (2, records))
    return EncodedTable(ORDERED, (a, np.where(rng.random(records) < strength, a, b)))


ORDERED = Domain.from_dict(
    {"attributes": {name: {"bounds": [0, 12], "bins": 12} for name in ("a", "b")}}
)


def test_an_ordered_attribute_has_about_eight_groups_of_as_many_records() -> None:
    # Half of the records have the first value, and the last bins none.
    counts = [40, *([1] * 40), *([0] * 9), 7]
    found = groups("income", counts)

    values = found.of_code[:-1]
    assert (np.diff(values) >= 0).all()
    assert values.max() < GROUPS
    held = np.bincount(found.of_code, counts)
    assert held[:-1].max() <= 40 + 2
    assert found.shares == pytest.approx(held / 87)
    assert found.of_code[-1] == values.max() + 1
    # Ranks rise to 1 at one end, squares fall and rise, and a missing value has no score.
    ranks, squares = found.scores.T
    assert (np.diff(ranks[:-1]) > 0).all()
    assert np.abs(found.scores).max(axis=0).tolist() == [1.0, 1.0]
    assert squares[:-1].argmin() not in (0, values.max())
    assert found.scores[-1].tolist() == [0.0, 0.0]


def test_an_order_is_that_of_the_values_and_two_values_have_one() -> None:
    rooms, sex, town = (groups(name) for name in ("rooms", "sex", "town"))

    assert rooms.order is not None
    assert rooms.order.tolist() == [1, 2, 0]
    assert sex.scores.tolist() == [[-1.0], [1.0]]
    assert town.scores.shape == (8, 0)


def test_the_most_frequent_values_are_groups_and_the_others_are_one() -> None:
    found = groups("town", [1] * 15 + [9] * 5)

    assert np.bincount(found.of_code).tolist() == [1] * 7 + [13]
    assert len(set(found.of_code[15:])) == 5


def test_an_attribute_without_records_has_groups_too() -> None:
    assert groups("sex", [0, 0]).of_code.tolist() == [0, 1]
    assert groups("income", [0] * 51).of_code[:-1].max() < GROUPS


def test_pairs_and_associations_are_compared_beside_a_hand_made_table() -> None:
    domain = Domain.from_sizes({"a": 2, "b": 2})
    frame = pd.DataFrame({"a": [0, 0, 1, 1], "b": [0, 0, 1, 1]})
    truth = EncodedTable.from_frame(domain, frame)
    turned = EncodedTable.from_frame(domain, frame.assign(b=1 - frame["b"]))
    pairs = CoarsePairs.of(domain, truth)
    same, other, flat = pairs.apart(truth, [truth, turned, IndependentTable.of(truth)])

    assert same == (0.0, 0.0, 0.0)
    # Each record is in another cell; the mean product and the correlation are -1 in place of 1.
    assert other == pytest.approx((2.0, 2.0, 2.0))
    assert flat == pytest.approx((1.0, 1.0, 1.0))


def test_raked_tables_are_compared_by_their_relations_alone() -> None:
    """A table of other margins and the same odds ratios is as far as chance alone takes it."""
    truth, rng = related(60_000, 0, 0.4), np.random.default_rng(1)
    other = truth.take(np.flatnonzero(rng.random(60_000) < 0.2 + 0.06 * truth.columns[0]))
    turned = EncodedTable(ORDERED, (other.columns[0], 11 - other.columns[1]))
    pairs = CoarsePairs.of(ORDERED, truth)
    plain = pairs.apart(truth, [other, turned])
    raked = pairs.apart(truth, [other, turned], raked=True)

    assert plain[0].pairs is not None
    assert plain[0].pairs > 0.25
    assert raked[0].pairs == pytest.approx(0.0, abs=0.03)
    assert raked[0].association == pytest.approx(0.0, abs=0.01)
    # A relation that is turned stays wrong.
    assert raked[1].pairs == pytest.approx(plain[1].pairs, rel=0.5)
    assert raked[1].association is not None
    assert raked[1].association > 0.1


def test_a_group_without_records_is_independent_when_it_is_raked() -> None:
    """A public table of one cell says nothing on a relation."""
    domain = Domain.from_sizes({"a": 2, "b": 2})
    truth = EncodedTable(domain, (np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])))
    one = EncodedTable(domain, (np.zeros(3, int), np.zeros(3, int)))
    (found,) = CoarsePairs.of(domain, truth).apart(truth, [one], raked=True)

    assert found[:2] == pytest.approx((0.0, 0.0), abs=1e-6)


def test_a_curve_is_an_association_of_squares() -> None:
    """A relation without a rank correlation, such as that of hours and temperatures."""
    rng = np.random.default_rng(0)
    hour = rng.integers(0, 12, 5000)
    curve = EncodedTable(ORDERED, (hour, np.abs(2 * hour - 11)))
    flat = EncodedTable(ORDERED, (hour, rng.permutation(curve.columns[1])))
    (found,) = CoarsePairs.of(ORDERED, curve).apart(curve, [flat], raked=True)

    assert found.correlation == pytest.approx(0.0, abs=0.05)
    assert found.association is not None
    assert found.association > 0.1


def test_a_measured_number_of_records_divides_the_counts() -> None:
    table = related(100, 0, 0.5)
    (found,) = CoarsePairs.of(ORDERED, table).apart(table, [table], records=200)

    assert found.pairs == pytest.approx(0.5)


def test_columns_are_left_out_and_a_domain_without_pairs_has_no_errors() -> None:
    table = related(50, 0, 0.5)
    pairs = CoarsePairs.of(ORDERED, table, left_out=["b"])

    assert pairs.pairs == ()
    assert pairs.apart(table, [table]) == [(None, None, None)]


def test_the_rank_correlation_is_spearmans() -> None:
    table = related(500, 1, 0.6)
    frame = pd.DataFrame(dict(zip("ab", table.columns, strict=True)))
    wanted = frame["a"].rank().corr(frame["b"].rank())

    assert rank_correlation(table.marginal(("a", "b"))) == pytest.approx(wanted, abs=1e-12)
    assert rank_correlation(np.array([[3.0, 4.0]])) == 0.0
    assert rank_correlation(np.zeros((2, 2))) == 0.0


def test_a_relation_is_lost_if_it_was_not_kept() -> None:
    public, kept, lost = related(3000, 0, 0.6), related(3000, 1, 0.5), related(3000, 2, 0.0)
    pairs = CoarsePairs.of(ORDERED, public)

    assert pairs.lost(lost, public) == ["a x b"]
    assert pairs.lost(kept, public) == []
    # There is nothing to lose.
    assert pairs.lost(kept, lost) == []


def test_chance_in_a_small_public_table_is_no_relation() -> None:
    """Twenty records of independent attributes are 1 from independence, all by chance."""
    found = [
        CoarsePairs.of(ORDERED, few).lost(related(3000, 1, 0.0), few)
        for few in (related(20, seed, 0.0) for seed in range(20))
    ]

    assert sum(map(len, found)) <= 3


def test_a_strong_relation_comes_before_a_weak_one() -> None:
    weak, strong = related(3000, 0, 0.3), related(3000, 0, 0.9)
    ((pair, found),) = CoarsePairs.of(ORDERED, strong).related(strong).items()
    assert pair == ("a", "b")
    assert found > CoarsePairs.of(ORDERED, weak).related(weak)[pair] > RELATED
