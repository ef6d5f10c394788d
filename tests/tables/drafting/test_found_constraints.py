import numpy as np
import pandas as pd
import pytest

from jam_dagster.tables import (
    Combinations,
    Domain,
    EncodedTable,
    NotNull,
    Order,
    decode,
    draft_table,
    encode,
)
from jam_dagster.tables.codes.repair import repaired

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


def moments(low, high, seed, unit="s", zone=None):
    start = pd.Timestamp("2024-01-01", tz=zone)
    return pd.Series(start + pd.to_timedelta(uniform(low, high, seed), unit))


def coarse_tables():
    """Tables of which each keeps one order in a coarser unit, and none in a finer one."""
    at, days = moments(0, 90 * 86400, 0), pd.to_timedelta(uniform(0, 9, 1), "D")
    zoned = moments(0, 90 * 86400, 0, zone="Europe/Berlin")
    local = zoned.dt.tz_localize(None).dt.normalize()
    months = pd.Series(
        pd.to_datetime([f"{2000 + m // 12}-{m % 12 + 1}" for m in uniform(0, 99, 0)])
    )
    amount = uniform(0, 100_000, 0) / 100
    return {
        "date(at) <= due": {"at": at, "due": at.dt.normalize() + days},
        "opened <= date(at)": {"opened": at.dt.normalize() - days, "at": at},
        "date(zoned) <= due": {"zoned": zoned, "due": local + days},
        "day <= date(zoned)": {"day": local - days, "zoned": zoned},
        "year(born) <= year_": {"born": months, "year_": months.dt.year + uniform(0, 5, 1)},
        "since <= year(at)": {"since": months.dt.year - uniform(0, 5, 1), "at": months},
        "floor(amount) <= most": {"amount": amount, "most": amount.astype(int) + uniform(0, 99, 1)},
    }


@pytest.mark.parametrize("rule", coarse_tables())
def test_an_order_in_the_coarser_unit_is_found_and_kept(rule):
    table = pd.DataFrame(coarse_tables()[rule])
    domain = draft_table(table).domain
    (order,) = (one for one in domain.repairs if isinstance(one, Order))
    assert order.text == rule
    assert Domain.from_dict(domain.to_dict()).digest == domain.digest
    # Codes that have nothing to do with each other.
    codes = encode(table, domain, private=False)
    mixed = [np.random.default_rng(at).permutation(one) for at, one in enumerate(codes.columns)]
    made = decode(
        repaired(EncodedTable(domain, tuple(mixed)), np.random.default_rng(0)),
        np.random.default_rng(0),
    )
    read = {
        "date": lambda one: one.dt.tz_localize(None).dt.normalize(),
        "year": lambda one: one.dt.year,
        "floor": np.floor,
        "": lambda one: one,
    }
    low, high = (
        read[function](made[name])
        for function, name in zip(order.functions, order.attributes, strict=True)
    )
    assert (low <= high).all()


def test_a_chain_through_a_date_is_kept():
    at = moments(0, 90 * 86400, 0)
    due = at.dt.normalize() + pd.to_timedelta(uniform(0, 9, 1), "D")
    paid = due + pd.to_timedelta(uniform(0, 5 * 86400, 2), "s")
    domain = draft_table(pd.DataFrame({"at": at, "due": due, "paid": paid})).domain
    texts = {one.text for one in domain.repairs if isinstance(one, Order)}
    assert {"date(at) <= due", "due <= date(paid)"} <= texts
    codes = tuple(uniform(0, one.bins, at) for at, one in enumerate(domain.attributes))
    records = repaired(EncodedTable(domain, codes), np.random.default_rng(0))
    made = decode(records, np.random.default_rng(0))
    assert (made["at"].dt.normalize() <= made["due"]).all()
    assert (made["due"] <= made["paid"].dt.normalize()).all()


@pytest.mark.parametrize("coarse", [False, True])
def test_a_frequent_date_far_from_all_others_is_exempt_from_an_order(coarse):
    start = moments(0, 900 * 86400, 0) if coarse else moments(0, 900, 0, "D")
    end = start.dt.normalize() + pd.to_timedelta(uniform(0, 200, 1), "D")
    end[::5] = pd.Timestamp("1900-01-01")
    table = pd.DataFrame({"start": start, "end": end})
    domain = draft_table(table).domain
    (order,) = (one for one in domain.repairs if isinstance(one, Order))
    text = "date(start) <= end" if coarse else "start <= end"
    assert order.describe(domain) == f"{text}, unless one is 1900-01-01"
    assert Domain.from_dict(domain.to_dict()).repairs == domain.repairs
    codes = encode(table, domain, private=False)
    mixed = [np.random.default_rng(at).permutation(one) for at, one in enumerate(codes.columns)]
    records = repaired(EncodedTable(domain, tuple(mixed)), np.random.default_rng(0))
    made = decode(records, np.random.default_rng(0))
    ever = made["end"] == pd.Timestamp("1900-01-01")
    assert 0.15 < ever.mean() < 0.4
    assert (made["start"].dt.normalize() <= made["end"])[~ever].all()
    # A rare one is a fault of its own.
    table.loc[table.index[5::5], "end"] = start[5::5].dt.normalize()
    assert rules(table, Order) == []


def test_a_date_that_means_for_ever_at_the_end_needs_no_exemption():
    start = moments(0, 900, 0, "D")
    end = start + pd.to_timedelta(uniform(0, 200, 1), "D")
    end[::5] = pd.Timestamp("9999-12-31")
    (order,) = rules({"start": start, "end": end}, Order)
    assert (order.text, order.exempt) == ("start <= end", ())
