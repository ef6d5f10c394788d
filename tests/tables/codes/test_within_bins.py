import numpy as np
import pandas as pd
import pytest

from jam_dagster.tables import Domain, EncodedTable, decode


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
