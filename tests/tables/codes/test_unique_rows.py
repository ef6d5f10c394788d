"""Rows that differ: a player once a year, a station once an hour."""

import numpy as np
import pandas as pd
import pytest

from jam_dagster.errors import DomainError
from jam_dagster.evaluation.expectations.checked_table import CheckedTable
from jam_dagster.tables import Domain, EncodedTable, decode, draft_table, encode
from jam_dagster.tables.codes.repair import repaired
from jam_dagster.tables.domain.unique import Unique

ROWS = 2000


def released(domain, codes, seed=0):
    rng = np.random.default_rng(seed)
    return decode(repaired(EncodedTable(domain, codes), rng), rng)


def repeats(table, names):
    return int(table[list(names)].dropna().duplicated().sum())


@pytest.fixture
def seasons():
    """Return seasons of which a player has one a year, and their teams."""
    rng = np.random.default_rng(0)
    player, year = np.divmod(rng.permutation(150 * 20)[:ROWS], 20)
    return pd.DataFrame({"player": player, "year": year + 1990, "team": rng.integers(0, 8, ROWS)})


def test_a_draft_finds_that_a_player_has_one_season_a_year(seasons):
    draft = draft_table(seasons)
    assert draft.domain.unique == (Unique(("player", "year")),)
    assert "no two rows have the same player and year  # 6" in draft.remark
    assert Domain.from_dict(draft.domain.to_dict()) == draft.domain
    again = seasons.copy()
    again.loc[8] = again.loc[9]
    assert not draft_table(again).domain.unique
    assert not draft_table(seasons[:900]).domain.unique
    rng = np.random.default_rng(1)
    apart = pd.DataFrame({name: rng.permutation(column) for name, column in seasons.items()})
    assert not draft_table(apart).domain.unique


def test_synthetic_rows_differ_and_few_codes_change(seasons):
    domain = draft_table(seasons).domain
    codes = encode(seasons, domain, private=False).columns
    rng = np.random.default_rng(1)
    mixed = tuple(rng.permutation(one) for one in codes)
    without = decode(EncodedTable(Domain(domain.attributes), mixed), rng)
    assert repeats(without, ["player", "year"]) > 300
    table = released(domain, mixed)
    assert repeats(table, ["player", "year"]) == 0
    (rule,) = [one for one in domain.rules if isinstance(one, Unique)]
    assert not CheckedTable(table, domain, ROWS, None, None).broken(rule).any()
    wrong = CheckedTable(seasons.assign(year=1990), domain, ROWS, None, None)
    assert wrong.broken(rule).sum() > 1000
    after = encode(table, domain, private=False).columns
    assert sum((one != other).mean() for one, other in zip(mixed, after, strict=True)) < 0.1


def test_an_hour_of_a_station_that_another_column_has():
    rng = np.random.default_rng(0)
    hours = pd.date_range("2024-01-01", periods=24 * 60, freq="h", tz="UTC")
    table = pd.DataFrame([(one, at) for one in "abc" for at in hours], columns=["station", "at"])
    table = table.sample(3000, random_state=0, ignore_index=True)
    table["hour"] = table["at"].dt.hour
    table["rain"] = rng.integers(0, 5, 3000)
    domain = draft_table(table).domain
    assert Unique(("station", "at")) in domain.unique
    assert domain.attribute("at").hour_from == "hour"
    codes = encode(table, domain, private=False).columns
    made = released(domain, tuple(rng.permutation(one) for one in codes))
    # Midnight of the first day, which begins at one, is moved there.
    assert repeats(made[made["at"] >= "2024-01-02"], ["station", "at"]) == 0
    assert (made["at"].dt.hour == made["hour"])[made["at"] >= "2024-01-02"].all()


def test_rows_for_which_there_is_no_room_stay():
    attributes = {"a": {"values": list("xy"), "nullable": True}, "b": {"values": list("123")}}
    domain = Domain.from_dict({"attributes": attributes, "repairs": [{"unique": ["a", "b"]}]})
    table = released(domain, (np.array([0] * 5 + [1] * 2 + [2] * 3), np.zeros(10, int)))
    assert table["a"].isna().sum() == 3
    assert repeats(table, "ab") == 2
    assert table.loc[table["a"] == "y", "b"].nunique() == 2


@pytest.mark.parametrize(
    ("key", "unique", "message"),
    [
        ("repairs", ["a"], "two or three"),
        ("repairs", ["a", "a"], "each once"),
        ("constraints", ["a", "b"], "which is for 'repairs'"),
    ],
)
def test_what_is_refused(key, unique, message):
    attributes = {name: {"values": [1, 2]} for name in "ab"}
    with pytest.raises(DomainError, match=message):
        Domain.from_dict({"attributes": attributes, key: [{"unique": unique}]})


def test_numbers_are_drawn_again_of_the_attribute_whose_bins_have_most():
    # Days have more bins, of one number each.
    attributes = {
        "person": {"bounds": [0, 9999], "integer": True, "bins": 4, "nullable": True},
        "day": {"bounds": [0, 39], "integer": True, "bins": 40},
    }
    rules = [{"unique": ["person", "day"]}]
    domain = Domain.from_dict({"attributes": attributes, "repairs": rules})
    rng = np.random.default_rng(0)
    codes = tuple(rng.integers(0, size, 20_000) for size in domain.shape)
    assert repeats(decode(EncodedTable(domain, codes), rng), ["person", "day"]) == 0
    plain = EncodedTable(Domain.from_dict({"attributes": attributes}), codes)
    assert repeats(decode(plain, rng), ["person", "day"]) > 100
