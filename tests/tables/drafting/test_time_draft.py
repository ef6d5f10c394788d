"""Drafts of dates and times."""

from datetime import time

import numpy as np
import pandas as pd
import pytest

from jam_dagster.tables import (
    Domain,
    EncodedTable,
    decode,
    draft_domain,
    encode,
)
from jam_dagster.tables.domain.text_dtype import text_dtype
from jam_dagster.tables.domain.units import DATE, TIME
from jam_dagster.tables.drafting.time_draft import draft_time
from tests.tables.drafting.test_draft import draft
from tests.tiers import slow_rows

DAYS = range(10, 30)


@pytest.mark.parametrize(
    ("column", "unit", "every", "dtype", "bounds"),
    [
        (pd.date_range("2013-06-01", periods=30), "day", None, "datetime64[us]", 30),
        (pd.date_range("2013-06-01", periods=90).date, "day", "week", DATE, 14),
        (pd.date_range("2001", periods=40, freq="MS"), "month", None, "datetime64[us]", 40),
        (
            pd.date_range("2013-06-01", "2013-07-01", freq="h", tz="America/New_York"),
            "hour",
            "day",
            "datetime64[us, America/New_York]",
            31,
        ),
        ([f"2013-06-{day}T{day % 2 + 8:02}:00:00Z" for day in DAYS], "hour", None, "str", 20),
        ([f"2013-06-{day}T09:00:00Z" for day in DAYS], "hour", "day", "str", 20),
        ([f"{day}.6.2013" for day in DAYS], "day", None, "str", 20),
        ([f"06/{day}/2013 10:30" for day in DAYS], "minute", "day", "str", 20),
        (["08:30", "17:45"], "minute", None, "str", 2),
        ([time(8 + one // 60, one % 60) for one in range(30, 150)], "minute", None, TIME, 3),
        (pd.to_timedelta([1, 2, 50], "h"), "hour", None, "timedelta64[us]", 3),
    ],
)
def test_dates_and_times_are_drafted_in_units(column, unit, every, dtype, bounds):
    column = pd.Series(column)
    if str(column.dtype).startswith(("datetime", "timedelta")):
        column = column.dt.as_unit("us")
    attribute = draft(column)
    assert (attribute.unit, attribute.every, attribute.dtype) == (unit, every, dtype)
    assert attribute.bins == bounds
    domain = Domain((attribute,))
    assert Domain.from_dict(domain.to_dict()) == domain
    public = encode(pd.DataFrame({"a": column}), domain, private=False)
    assert attribute.null_code not in public.columns[0]
    decoded = decode(public, np.random.default_rng(0))
    assert str(decoded["a"].dtype) == dtype
    assert np.array_equal(encode(decoded, domain).columns[0], public.columns[0])
    assert draft(column, bins=2).bins == 2


def of_a_draft(column, **edited):
    """Return a public column through its draft, and the draft's entry in a file."""
    table = pd.DataFrame({"a": column})
    content = draft_domain(table).to_dict()
    domain = Domain.from_dict(content)
    encoded = encode(table, domain, private=False)
    decoded = decode(encoded, np.random.default_rng(0))
    assert np.array_equal(encode(decoded, domain).columns[0], encoded.columns[0])
    return decoded["a"], content["attributes"]["a"]


def test_of_a_hundred_times_no_other_comes_out():
    rng = np.random.default_rng(0)
    days = pd.Timestamp("2013-01-01") + pd.to_timedelta(rng.integers(0, 365, 90), "D")
    for column in (days, days + pd.to_timedelta(rng.integers(0, 1440, 90), "min")):
        texts = column.repeat(5).strftime("%d.%m.%Y %H:%M")
        assert of_a_draft(texts)[0].isin(texts).all()
    times = pd.Series([f"{hour:02}:{hour * 7 % 60:02}" for hour in range(6, 22)] * 9)
    decoded, entry = of_a_draft(times)
    assert decoded.isin(times).all()
    assert (entry["edges"][0], entry["edges"][-1]) == ("06:42", "21:27")


@pytest.mark.parametrize(
    ("start", "zone", "every"),
    [
        ("2013-01-01", None, "week"),
        *slow_rows(("2013-01-01", "America/New_York", "week"), ("1994-01-01", None, "year")),
    ],
)
def test_times_of_day_stay_where_bins_are_longer_than_a_day(start, zone, every):
    rng = np.random.default_rng(0)
    days = pd.date_range(start, "2013-12-31")
    days = days[rng.integers(0, len(days), 1000)]
    column = days + pd.to_timedelta(rng.integers(36, 70, 1000) * 15, "min")
    column = column.tz_localize(zone) if zone else column
    decoded, entry = of_a_draft(column)
    assert (entry["unit"], entry["every"]) == ("minute", every)
    assert entry["of_day"][0][0] == 9 * 60
    assert set(decoded.dt.minute) == {0, 15, 30, 45}
    assert set(decoded.dt.hour) == set(range(9, 18))


def test_an_hour_has_its_own_minutes():
    rng = np.random.default_rng(0)
    minutes = rng.integers(0, 60, 4000)
    hours = rng.integers(7, 19, 4000)
    minutes[hours >= 12] = 0
    decoded, entry = of_a_draft([f"{h:02}:{m:02}" for h, m in zip(hours, minutes, strict=True)])
    assert entry["edges"][:3] == ["07:00", "08:00", "09:00"]
    assert decoded.max() == "18:00"
    assert (decoded[decoded >= "12:00"].str[3:] == "00").all()
    assert decoded.nunique() > 250


def test_a_drafted_day_has_the_hours_of_the_public_days():
    hours = [f"2013-06-{day:02} {hour:02}:00" for day in range(1, 29) for hour in (6, 6, 9)]
    domain = draft_domain(pd.DataFrame({"a": hours}))
    content = domain.to_dict()
    assert content["attributes"]["a"]["within"] == [[6, 56], [9, 28]]
    # One line makes another month of it.
    content["attributes"]["a"]["bounds"] = ["2013-07-01", "2013-07-31"]
    july = Domain.from_dict(content)
    codes = EncodedTable(july, (np.arange(31).repeat(50),))
    decoded = decode(codes, np.random.default_rng(0))["a"]
    assert set(decoded.str[:8]) == {"2013-07-"}
    assert set(decoded.str[11:]) == {"06:00", "09:00"}


@pytest.mark.parametrize(("digits", "end"), [("000", "Z"), ("001", ""), ("2", "+01:00")])
def test_texts_with_nanoseconds_are_timestamps(digits, end):
    moments = pd.date_range("2011-10-15 20:11:03", periods=200, freq="1001s")
    texts = [f"{one:%Y-%m-%dT%H:%M:%S.%f}{digits}{end}" for one in moments]
    attribute = draft(texts)
    assert (attribute.unit, attribute.dtype) == ("second", "str")
    domain = Domain((attribute,))
    table = pd.DataFrame({"a": pd.Series(texts, dtype="str")})
    codes = encode(table, domain, private=False)
    assert attribute.null_code not in codes.columns[0]
    decoded = decode(codes, np.random.default_rng(0))
    assert set(decoded["a"].str.len()) == {len(texts[0])}
    assert np.array_equal(encode(decoded, domain).columns[0], codes.columns[0])


@pytest.mark.parametrize("far", ["1900-01-01", "1970-01-01", "2099-01-01", "9999-12-31"])
@pytest.mark.parametrize("often", [1, 3, 25])
def test_a_date_far_from_all_others_stays_as_it_is(far: str, often: int) -> None:
    days = pd.date_range("2020-01-01", "2023-12-31").strftime("%Y-%m-%d").to_series()
    column = pd.concat([days, pd.Series([far] * often)], ignore_index=True)
    drafted = draft_time("when", column.astype(text_dtype()), None, False)
    assert drafted is not None
    table = encode(pd.DataFrame({"when": column}), Domain((drafted,)), private=False)
    values = decode(table, np.random.default_rng(0))["when"]
    beyond = values[(values < "2020") | (values > "2024")]
    assert beyond.tolist() == [far] * often


def test_birthdays_have_no_date_far_from_all_others() -> None:
    days = pd.date_range("1955-01-01", "2005-12-31", freq="7D").strftime("%Y-%m-%d").to_series()
    column = pd.concat([pd.Series(["1948-05-05"]), days], ignore_index=True)
    drafted = draft_time("born", column.astype(text_dtype()), None, False)
    assert drafted is not None
    assert drafted.every == "year"
