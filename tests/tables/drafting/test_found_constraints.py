import numpy as np
import pandas as pd

from jam_dagster.tables import Combinations, NotNull, Order, draft_table, encode

ROWS = 4000


def found(table, **options):
    return draft_table(pd.DataFrame(table), **options).domain.repairs


def rules(table, kind):
    return [one for one in found(table) if isinstance(one, kind)]


def uniform(low, high, seed, rows=ROWS):
    return np.random.default_rng(seed).integers(low, high, rows)


def test_an_order_is_found_where_chance_does_not_explain_it():
    start, stay = uniform(0, 1000, 0), uniform(1, 300, 1)
    table = {"start": start, "end": start + stay**2 % 311, "far": uniform(5000, 9000, 2)}
    assert rules(table, Order) == [Order("start", "end")]
    table["end"][7] = table["start"][7] - 1
    assert rules(table, Order) == []
    # Too few rows show nothing.
    few = {name: column[:500] for name, column in table.items() if name != "far"}
    assert rules(few, Order) == []


def test_few_distances_between_dates_are_all_that_there_are():
    start = pd.Timestamp("2024-01-01") + pd.to_timedelta(uniform(0, 300, 0), "D")
    days = np.array([15, 30, 60])[uniform(0, 3, 1)]
    table = pd.DataFrame({"issued": start, "due": start + pd.to_timedelta(days, "D")})
    (order,) = rules(table, Order)
    assert order.only
    assert [entry[:2] for entry in order.apart] == [(15, 15), (30, 30), (60, 60)]
    assert "due is 15, 30 or 60 days after issued  # 1," in draft_table(table).remark
    table.loc[7, "due"] += pd.Timedelta("2D")
    (order,) = rules(table, Order)
    assert not order.only


def test_an_order_of_timestamps_is_found_and_missing_ones_say_nothing():
    start = pd.Timestamp("2024-01-01") + pd.to_timedelta(uniform(0, 900, 0), "h")
    end = (start + pd.to_timedelta(uniform(0, 99, 1), "h")).to_series(index=range(ROWS))
    end[::50] = pd.NaT
    assert rules({"start": start, "end": end}, Order) == [Order("start", "end")]


def test_columns_that_equal_each_other_run_in_no_circle():
    one = uniform(0, 1000, 0).astype(float)
    table = pd.DataFrame({"a": one, "b": one, "c": one})
    for place, name in enumerate(table):
        table.loc[place::7, name] = np.nan
    assert len(rules(table, Order)) == 3


def test_combinations_are_found_that_unrelated_columns_would_have():
    state = uniform(0, 4, 0)
    city = state * 3 + uniform(0, 3, 1)
    table = pd.DataFrame({"state": state, "city": city, "sex": uniform(0, 2, 2)}).astype(str)
    table.loc[:2, "city"] = "20"  # A rare value has no row with most states, which tells nothing.
    domain = draft_table(table, infer=False).domain
    [combinations] = [one for one in domain.repairs if isinstance(one, Combinations)]
    assert combinations.attributes == ("state", "city")
    broken = combinations.broken(domain)
    assert broken.sum() == 4 * 12 - 12
    city_attribute = domain.attribute("city")
    for value in ("20", "other"):
        assert not broken[:, city_attribute.code_of(value)].any()
    assert not broken[domain.attribute("state").null_code].any()


def test_columns_without_a_missing_cell_are_found():
    table = pd.DataFrame({"a": uniform(0, 9, 0, 60), "b": ["x", None, "y"] * 20, "c": "x"})
    assert found(table) == (NotNull("a"),)
    assert found(table[["a"]], other=None) == (NotNull("a"),)


def test_what_was_found_changes_no_code_of_another_table():
    start = uniform(0, 1000, 0)
    draft = draft_table(pd.DataFrame({"start": start, "end": start + uniform(0, 99, 1)}))
    assert len(draft.domain.repairs) == 3
    assert draft.domain.constraints == ()
    other = pd.DataFrame({"start": [900, None, "?"], "end": [3, None, 4]})
    assert encode(other, draft.domain).records == 3
    assert draft.remark.endswith(
        "start <= end  # 1,807 public rows could have broken it\n  not missing: start, end"
    )
