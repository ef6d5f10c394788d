import numpy as np
import pandas as pd
import pytest

from jam_dagster.errors import DomainError
from jam_dagster.evaluation.expectations.checked_table import CheckedTable
from jam_dagster.tables import Domain, EncodedTable, decode, encode
from jam_dagster.tables.codes.repair import repaired


def decoded(attributes, orders, columns, seed=0):
    domain = Domain.from_dict({"attributes": attributes, "repairs": orders})
    codes = EncodedTable(domain, tuple(np.asarray(one) for one in columns))
    return decode(codes, np.random.default_rng(seed))


def test_numbers_of_one_bin_are_those_of_the_order_alone():
    """Pairs in the order are as likely as without it: no heap at equality."""
    wide = {name: {"edges": [0, 100], "integer": True} for name in "ab"}
    table = decoded(wide, ["a <= b"], [np.zeros(4000, int)] * 2)
    assert (table["a"] <= table["b"]).all()
    assert table["a"].mean() == pytest.approx(100 / 3, abs=2)
    assert table["b"].mean() == pytest.approx(200 / 3, abs=2)


APART = {"order": "a <= b", "apart": [[2, 2, 1], [5, 6, 3]]}


def test_a_number_lies_so_far_above_another_one_as_is_said():
    grid = {name: {"edges": [0, 10, 20, 30], "integer": True} for name in "ab"}
    bins = np.repeat([0, 1], 2000)
    table = decoded(grid, [APART], [np.zeros(4000, int), bins])
    between, first = table["b"] - table["a"], np.asarray(bins == 0)
    assert set(between) == {2, 5, 6}
    # Of pairs in one bin: 8 places for 2, 5 for 5 and 4 for 6, with weights 1, 1.5 and 1.5.
    shares = between[first].value_counts(normalize=True)
    # Six standard errors of 2,000.
    assert shares[2] == pytest.approx(8 / 21.5, abs=0.065)
    assert shares[6] == pytest.approx(6 / 21.5, abs=0.065)
    assert (table["b"][~first] >= 10).all()


def test_what_bins_keep_further_apart_is_drawn_as_without():
    grid = {name: {"edges": [0, 10, 20, 30], "integer": True, "nullable": True} for name in "ab"}
    table = decoded(grid, [APART], [[0, 0, 3, 2], [2, 3, 0, 0]])
    assert 20 <= table["b"][0] < 30
    assert table["b"].isna().tolist() == [False, True, False, False]
    # Out of order as their bins are.
    assert table["a"][3] >= 20


def test_a_time_that_lies_so_far_above_another_one_is_one_that_occurs():
    """Closed at full hours of the day, and on no Sunday."""
    shared = {"unit": "minute", "every": "week", "bounds": ["2024-01-01 00:00", "2024-01-14 23:59"]}
    days = [[day * 1440, day * 1440 + 1439, 1] for day in range(6)]
    hours = [[hour * 60, hour * 60, 1] for hour in range(8, 18)]
    attributes = {"a": shared, "b": shared | {"within": days, "of_day": hours}}
    apart = [{"order": "a < b", "apart": [[1, 2880, 1]]}]
    table = decoded(attributes, apart, [np.zeros(500, int), np.repeat([0, 1], 250)])
    assert (table["b"].dt.minute == 0).all()
    assert table["b"].dt.hour.between(8, 17).all()
    assert (table["b"].dt.dayofweek < 6).all()
    # What falls into a night moves by up to seven and a half hours.
    near = (table["b"] - table["a"]) <= pd.Timedelta("56h")
    assert near[:250].all()
    # A week later only from the last days of the first one.
    assert near[250:].all()


def test_a_chain_of_orders_is_kept_across_grids_and_missing_values():
    attributes = {
        "a": {"edges": [0, 10], "integer": True},
        "b": {"edges": [0, 10], "decimals": 2, "nullable": True},
        "c": {"edges": [0, 10], "dtype": "float32"},
    }
    middle = np.arange(600) % 3 == 0
    table = decoded(
        attributes, ["b < c", "a < b"], [np.zeros(600, int), middle.astype(int), np.zeros(600, int)]
    )
    known = table[~middle]
    assert (known["a"] < known["b"]).all()
    assert (known["b"] < known["c"]).all()
    assert table["b"].isna().sum() == middle.sum()


def test_what_chance_hardly_reaches_is_put_at_the_ends():
    attributes = {
        "a": {"edges": [0, 9, 1000], "integer": True, "within": [[0, 1], [999, 1e9]]},
        "b": {"edges": [0, 10], "integer": True, "nullable": True},
        "c": {"edges": [0, 10.5], "integer": True},
    }
    # Only 9 and 9 to 10 keep it, of a bin whose numbers are nearly all 999.
    table = decoded(attributes, ["a <= b", "b <= c"], [[1, 1], [0, 1], [0, 0]])
    assert table.loc[0].tolist() == [9, 9, 10]
    assert table["b"].isna().tolist() == [False, True]


def test_a_cell_that_no_numbers_keep_in_order_stays_as_it_is():
    attributes = {"a": {"edges": [0, 10, 20]}, "b": {"edges": [0, 10, 20]}}
    table = decoded(attributes, ["a <= b"], [[1, 0], [0, 0]])
    assert table["a"][0] >= 10 > table["b"][0]
    assert table["a"][1] <= table["b"][1]


def test_a_timestamp_has_the_hour_that_an_order_left():
    attributes = {
        "at": {
            "bounds": ["2024-03-01", "2024-03-02"],
            "unit": "hour",
            "every": "day",
            "hour_from": "opens",
        },
        "opens": {"edges": [0, 12, 23], "integer": True},
        "shuts": {"edges": [0, 12, 23], "integer": True},
    }
    zeros = np.zeros(200, int)
    table = decoded(attributes, ["opens <= shuts"], [zeros, zeros, zeros])
    assert (table["opens"] <= table["shuts"]).all()
    assert (pd.to_datetime(table["at"]).dt.hour == table["opens"]).all()


DUE = {"order": "a <= b", "apart": [[15, 15, 1], [30, 30, 2], [60, 60, 1]], "only": True}
WEEKS = {"unit": "day", "every": "week", "bounds": ["2024-01-01", "2024-06-30"]}


def test_dates_are_apart_by_no_other_number_of_days():
    rng = np.random.default_rng(0)
    domain = Domain.from_dict({"attributes": {"a": WEEKS, "b": WEEKS}, "repairs": [DUE]})
    assert Domain.from_dict(domain.to_dict()) == domain
    assert domain.repairs[0].describe(domain) == "b is 15, 30 or 60 days after a"
    codes = EncodedTable(domain, (rng.integers(0, 15, 4000), rng.integers(0, 26, 4000)))
    table = decode(repaired(codes, rng), rng)
    days = (table["b"] - table["a"]).dt.days
    assert set(days) == {15, 30, 60}
    assert days.value_counts(normalize=True)[30] > 0.25
    assert encode(table, domain, private=False).records == 4000
    wrong = table.assign(b=table["b"] + pd.Timedelta("1D"))
    assert CheckedTable(wrong, domain, 4000, None, None).broken(domain.rules[0]).all()


def test_a_number_of_days_is_kept_among_other_orders():
    rng = np.random.default_rng(0)
    attributes = {name: WEEKS | {"nullable": True} for name in "abc"}
    domain = Domain.from_dict({"attributes": attributes, "repairs": [DUE, "a <= c"]})
    start = rng.integers(0, 15, 2000)
    codes = (start, start + 4, np.minimum(start + rng.integers(0, 3, 2000), 26))
    table = decode(repaired(EncodedTable(domain, codes), rng), rng).dropna()
    assert (table["a"] <= table["c"]).all()
    assert (table["b"] - table["a"]).dt.days.isin([15, 30]).mean() > 0.995


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ({"order": "a <= b", "only": True}, "needs 'apart'"),
        ({"order": "a <= c", "apart": [[1, 1, 1]], "only": True}, "whole numbers"),
    ],
)
def test_only_is_of_whole_numbers_that_are_listed(order, message):
    grid = {name: {"edges": [0, 9], "integer": True} for name in "ab"} | {"c": {"edges": [0, 9]}}
    with pytest.raises(DomainError, match=message):
        Domain.from_dict({"attributes": grid, "repairs": [order]})
    with pytest.raises(DomainError, match="which is for 'repairs'"):
        Domain.from_dict({"attributes": grid, "constraints": [order]})
