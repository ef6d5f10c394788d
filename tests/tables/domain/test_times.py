from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from typing import get_args

import numpy as np
import pandas as pd
import pytest

from jam_dagster.errors import DomainError, JamError
from jam_dagster.tables import Domain, EncodedTable, decode, draft_table, encode
from jam_dagster.tables.domain.clock import clock_of
from jam_dagster.tables.domain.moment_texts import moment_in, text_at
from jam_dagster.tables.domain.text_dtype import text_dtype
from jam_dagster.tables.domain.times import TimeAttribute
from jam_dagster.tables.domain.units import DATE, DURATION, TIME, Unit

NEW_YORK = "America/New_York"


def declared(**entry):
    return Domain.from_dict({"attributes": {"a": entry}}).attribute("a")


def codes(attribute, *values):
    column = pd.Series([*values], dtype=object)
    return encode(pd.DataFrame({"a": column}), Domain((attribute,))).columns[0].tolist()


MARCH = {"bounds": ["2024-03-01", "2024-03-31"], "nullable": True, "unreadable": "missing"}


def test_a_date_is_read_alike_from_every_type():
    attribute = declared(**MARCH, unit="day", format="%d.%m.%Y", outside="clip")
    assert attribute.bins == 31
    spelled = ["09.03.2024", "2024-03-09", "2024-03-09T23:59:59", date(2024, 3, 9)]
    typed = [
        datetime(2024, 3, 9, 5),
        np.datetime64("2024-03-09T05"),
        pd.Timestamp(2024, 3, 9),
    ]
    assert codes(attribute, *spelled, *typed) == [8] * 7
    column = pd.Series(pd.to_datetime(["2024-03-09"]))
    for dtype in ("datetime64[ns]", "datetime64[s]", DATE):
        assert codes(attribute, *column.astype(dtype)) == [8]
        table = pd.DataFrame({"a": column.astype(dtype)})
        assert encode(table, Domain((attribute,))).columns[0].tolist() == [8]
    assert codes(attribute, "1999-01-01", "9999-12-31", date(1, 1, 1)) == [0, 30, 0]
    unreadable = [
        "x",
        "",
        "2024",
        7,
        2.5,
        True,
        b"2024-03-09",
        timedelta(1),
        time(1),
        pd.NaT,
        "NaT",
    ]
    assert codes(attribute, *unreadable) == [31] * len(unreadable)


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/Los_Angeles"])
def test_the_ends_of_the_calendar_are_clipped_in_every_zone(zone):
    entry = {"unit": "day", "bounds": ["2024-01-01", "2024-01-02"], "zone": zone}
    (attribute,) = Domain.from_dict({"attributes": {"a": entry | {"outside": "clip"}}}).attributes
    ends = [one.replace(tzinfo=UTC) for one in (datetime.min, datetime.max)]
    assert codes(attribute, *ends) == [0, attribute.bins - 1]


def test_a_day_is_that_of_the_zone_and_an_hour_follows_the_other():
    day = declared(**MARCH, unit="day", zone=NEW_YORK)
    instants = [datetime(2024, 3, 9, 4, tzinfo=UTC), "2024-03-09T05:00:00Z", "2024-03-09"]
    assert codes(day, *instants) == [7, 8, 8]
    hour = declared(**MARCH, unit="hour", zone=NEW_YORK, every="day")
    # Summer time begins on March 10.
    widths = np.diff(hour.edges)
    assert widths[9] == 23
    assert sorted(set(widths[:-1])) == [23, 24]
    assert hour.bounds_text == ("2024-03-01 00:00", "2024-03-31 23:00")
    assert codes(hour, "2024-03-10T04:59Z", "2024-03-10T05:00Z", "2024-04-01T03:59Z") == [8, 9, 30]
    autumn = declared(bounds=["2024-11-03", "2024-11-03"], unit="hour", zone=NEW_YORK)
    assert autumn.bins == 25
    assert autumn.labels[1:3] == ("2024-11-03 01:00", "2024-11-03 01:00-05:00")
    domain = Domain((autumn,))
    instant = pd.DataFrame({"a": [datetime(2024, 11, 3, 6, tzinfo=UTC)]})
    table = decode(encode(instant, domain), np.random.default_rng(0))
    assert str(table["a"][0]) == "2024-11-03 01:00:00-05:00"
    assert Domain.from_dict(domain.to_dict()) == domain


@pytest.mark.parametrize(
    "entry",
    [
        {"bounds": ["1950-06-21", "1950-06-24"], "unit": "day"},
        {"bounds": ["1950-06-21", "1959-06-24"], "unit": "day", "every": "year"},
        {"edges": ["1950-06-21 08:00", "1950-06-22 01:00", "1950-06-24 08:00"], "unit": "hour"},
        {"bounds": [-5, -2], "unit": "minute", "dtype": DURATION},
    ],
)
def test_bounds_below_zero_are_written_as_they_were_declared(entry):
    attribute = declared(**entry)
    domain = Domain((attribute,))
    written = domain.to_dict()["attributes"]["a"]
    key = "edges" if "edges" in entry else "bounds"
    assert written[key] == entry[key]
    assert Domain.from_dict(domain.to_dict()) == domain


def test_bins_of_hours_leave_out_the_hour_that_clocks_skip():
    bounds = {"bounds": ["2024-03-31 00:00", "2024-03-31 05:59"]}
    entry = {"unit": "minute", "every": "hour", "zone": "Europe/Berlin", "within": [[0, 9, 1]]}
    hours = declared(**bounds, **entry)
    assert np.diff(hours.edges[:-1]).tolist() == [60] * 4
    domain = Domain((hours,))
    decoded = decode(EncodedTable(domain, (np.arange(5),)), np.random.default_rng(0))["a"]
    assert decoded.dt.hour.tolist() == [0, 1, 3, 4, 5]
    assert encode(decoded.to_frame(), domain).columns[0].tolist() == [*range(5)]


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"unit": "day", "dtype": DATE}, date(2024, 3, 1)),
        ({"unit": "day"}, datetime(2024, 3, 1)),
        ({"unit": "day", "format": "%d.%m.%y"}, "01.03.24"),
        ({"unit": "week"}, datetime(2024, 2, 26)),
        ({"unit": "quarter"}, datetime(2024, 1, 1)),
        ({"unit": "year", "format": "%Y"}, "2024"),
        (
            {"unit": "hour", "zone": NEW_YORK, "dtype": "datetime64[s, UTC]"},
            datetime(2024, 3, 1, 5, tzinfo=UTC),
        ),
        (
            {"unit": "hour", "zone": NEW_YORK, "format": "%Y-%m-%d %H:%M%:z"},
            "2024-03-01 00:00-05:00",
        ),
        ({"unit": "minute", "zone": NEW_YORK, "format": "%Y%m%dT%H%MZ"}, "20240301T0500Z"),
        ({"unit": "hour", "bounds": ["08:00", "19:00"], "dtype": TIME}, time(8)),
        ({"unit": "second", "bounds": ["08:00", "08:00"], "format": "%H:%M:%S"}, "08:00:00"),
        ({"unit": "hour", "bounds": [5, 40], "dtype": DURATION}, timedelta(hours=5)),
        ({"unit": "month", "edges": ["2024-03", "2024-06", "2025"]}, datetime(2024, 3, 1)),
        ({"unit": "day", "bins": 2}, datetime(2024, 3, 1)),
        ({"unit": "day", "every": "month", "within": [[0, 5], [40, 1]]}, datetime(2024, 3, 1)),
        ({"unit": "hour", "every": "week", "of_day": [[7, 9, 5], [12, 1]]}, datetime(2024, 3, 1)),
        (
            {"unit": "hour", "every": "year", "of_day": [[0, 1]], "bounds": ["9999", "9999"]},
            datetime(9999, 1, 1),
        ),
    ],
)
def test_a_kind_decodes_to_its_dtype_and_is_written_as_it_was_declared(entry, expected):
    bounds = {} if "edges" in entry else {"bounds": ["2024-03-01", "2024-03-01"]}
    if entry.get("bins"):
        bounds = {"bounds": ["2024-03-01", "2024-03-31"]}
    domain = Domain((declared(**bounds | entry | {"nullable": True}),))
    attribute = domain.attributes[0]
    assert Domain.from_dict(domain.to_dict()) == domain
    assert attribute.clock.values_of(attribute.edges[:1]) == [expected]
    table = decode(encode(pd.DataFrame({"a": [expected, None]}), domain), np.random.default_rng(0))
    assert str(table["a"].dtype) == attribute.dtype
    assert table["a"].isna().tolist() == [False, True]
    column = pd.concat([table] * 2)["a"].reset_index(drop=True)
    for again in (column, column.astype(object)):
        encoded = encode(pd.DataFrame({"a": again}), domain).columns[0]
        assert encoded.tolist() == [0, attribute.null_code] * 2


@pytest.mark.parametrize(
    ("unit", "zone", "dates"),
    [
        ("day", None, ["1901-02-03", "1969-12-31", "1969-12-31"]),
        # Clocks of Kolkata were 5:53:28 before those of Greenwich.
        ("minute", "Asia/Kolkata", ["1900-01-01 00:00", "1900-01-02 10:01", "1950-05-05 07:00"]),
        ("day", "UTC", ["0007-02-03", "0907-12-31", "2000-01-01"]),
    ],
)
def test_dates_long_ago_are_written_as_they_are(unit, zone, dates):
    written = "%d.%m.%Y" if unit == "day" else None
    edges = [pd.Timestamp(one, tz=zone) for one in dates]
    clock = clock_of("a", unit, zone, written)
    counts = sorted({clock.count_of(one) for one in edges})
    options = {"unit": unit, "zone": zone, "format": written}
    domain = Domain((TimeAttribute("a", (*counts, counts[-1] + 0.5), **options),))
    assert Domain.from_dict(domain.to_dict()) == domain
    texts = clock.values_of(counts)
    assert [clock.count_of(one) for one in texts] == counts


def test_numbers_are_dates_where_the_format_has_no_marks():
    attribute = declared(**MARCH, unit="day", format="%Y%m%d")
    assert codes(attribute, 20240302, "20240302", 20240302.0, 2024030) == [1, 1, 1, 31]
    numbers = pd.DataFrame({"a": [20240302]})
    assert encode(numbers, Domain((attribute,))).columns[0].tolist() == [1]
    with pytest.raises(DomainError, match="is of dates or times, but the table's column has dtype"):
        encode(numbers, Domain((declared(**MARCH, unit="day"),)))


def test_times_and_durations_are_read_from_what_databases_give():
    at = declared(bounds=["08:00", "19:00"], unit="hour", dtype=TIME, outside="clip")
    spelled = ["09:30", time(9, 59), timedelta(hours=9.5)]
    assert codes(at, *spelled, "23:59") == [1, 1, 1, 11]
    lasting = declared(bounds=[0, 48], unit="hour", dtype=DURATION)
    spelled = [timedelta(1, 7200), "1 day, 2:00:00", "1 days 02:00:00", "26:00:00", "PT26H"]
    assert codes(lasting, *spelled) == [26] * 5
    assert codes(lasting, "10:30", time(10, 30)) == [10, 10]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"unit": "fortnight"}, "unit must be one of year"),
        ({"unit": "day", "zone": "Mars/Phobos"}, "zone 'Mars/Phobos' is unknown"),
        ({"unit": "day", "zone": "../etc/passwd"}, "is unknown"),
        ({"unit": "hour", "zone": NEW_YORK, "format": "%Y %H"}, "values without one"),
        ({"unit": "day", "dtype": "int64"}, "cannot be decoded to dtype 'int64'"),
        ({"unit": "day", "dtype": "datetime64[us, Nowhere]"}, "cannot be decoded"),
        ({"unit": "day", "dtype": "datetime64[us, UTC]"}, "declare `zone`"),
        ({"unit": "day", "dtype": "str"}, "needs a format"),
        ({"unit": "day", "dtype": TIME, "bounds": ["08:00", "09:00"]}, "hours, minutes or seconds"),
        ({"unit": "month", "dtype": DURATION, "bounds": [0, 1]}, "no number of months"),
        ({"unit": "day", "bounds": ["01.03.2024", "2024-03-05"]}, "written as 2024-03-01|2013-07"),
        ({"unit": "day", "bounds": ["08:00", "09:00"]}, f"times of day {TIME}".replace("[", r"\[")),
        ({"unit": "day", "bounds": ["2024-03-01"]}, "two units"),
        ({"unit": "day", "bounds": ["2024-03-05", "2024-03-01"]}, "bins must be an integer"),
        (
            {"unit": "year", "bounds": ["0001", "9999"], "dtype": "datetime64[ns]"},
            "outside the years",
        ),
        ({"unit": "second", "bounds": ["1000", "9999"]}, "bins must be an integer"),
        ({"unit": "second", "every": "minute", "bounds": ["1000", "9999"]}, "too many bins"),
        ({"unit": "week", "every": "month"}, "a unit of whole weeks"),
        ({"unit": "day", "every": "hour"}, "a unit of whole days"),
        ({"unit": "day", "every": "week", "bins": 3}, "every is for bounds without bins"),
        ({"unit": "day", "integer": True}, "integer"),
        ({"unit": "minute", "every": "day", "of_day": [[0, 1]]}, "with `every` a week or longer"),
        ({"unit": "hour", "every": "week", "of_day": [[0, 24, 1]]}, "counted from 0 to 23"),
        (
            {"unit": "hour", "every": "year", "of_day": [[0, 1]], "bounds": ["1000", "1999"]},
            "too many days",
        ),
    ],
)
def test_declarations_that_are_refused(entry, message):
    with pytest.raises(JamError, match=message):
        declared(**{"bounds": ["2024-03-01", "2024-03-31"]} | entry)


def test_impossible_combinations_name_dates():
    content = {
        "attributes": {
            "a": MARCH | {"unit": "day"},
            "b": {"values": ["x", "y"]},
        },
        "impossible": [{"a": {"from": "2024-03-10", "below": "2024-03-20"}, "b": "x"}],
    }
    domain = Domain.from_dict(content)
    assert domain.impossible[0].codes == (tuple(range(9, 19)), (0,))
    assert Domain.from_dict(domain.to_dict()) == domain
    assert "2024-03-10" in domain.impossible[0].describe(domain)


def test_a_time_of_day_is_that_of_the_clocks_on_the_days_when_they_change():
    entry = {"bounds": ["2024-03-01", "2024-12-01"], "unit": "minute", "every": "week"}
    attribute = declared(**entry, zone=NEW_YORK, of_day=[[150, 1], [480, 3]])
    domain = Domain((attribute,))
    codes = np.arange(attribute.bins).repeat(300)
    encoded = EncodedTable(domain, (codes,))
    decoded = decode(encoded, np.random.default_rng(0))
    assert np.array_equal(encode(decoded, domain).columns[0], codes)
    times = decoded["a"].dt.strftime("%H:%M")
    # On March 10 no clock shows half past two.
    assert set(times[decoded["a"].dt.strftime("%m-%d") == "03-10"]) == {"03:30", "08:00"}
    assert set(times[decoded["a"].dt.strftime("%m-%d") != "03-10"]) == {"02:30", "08:00"}


def test_digests_of_times_have_not_moved():
    entry = {"bounds": ["2024-03-01", "2024-03-31"], "unit": "hour", "zone": NEW_YORK}
    digests = [
        Domain((declared(**entry | more),)).digest[:16]
        for more in ({}, {"every": "day"}, {"every": "day", "format": "%Y-%m-%d %H:%MZ"})
    ]
    assert digests == ["258385fd99baf9d2", "fd344c4fe6d0ed34", "c110c6d8d4c7d7d2"]


def flights() -> pd.DataFrame:
    """Return times in UTC, with their parts in New York: rush hours, and none at night."""
    rng = np.random.default_rng(0)
    days = pd.to_datetime("2013-06-01") + pd.to_timedelta(rng.integers(0, 30, 3000), unit="D")
    hour = rng.choice([6, 7, 8, 17, 20, 23], 3000)
    local = (days + pd.to_timedelta(hour, unit="h")).tz_localize("America/New_York")
    return pd.DataFrame(
        {
            "month": local.month,
            "day": local.day,
            "hour": hour,
            "late": np.where(hour > 16, "yes", "no"),
            "at": local.tz_convert("UTC").strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
    )


def test_a_timestamp_has_the_hour_of_its_row() -> None:
    made = draft_table(flights(), infer=True).domain
    at = made.attribute("at")
    assert isinstance(at, TimeAttribute)
    assert (at.zone, at.every, at.hour_from) == ("America/New_York", "day", "hour")
    assert [one.name for one in made.derived] == ["month", "day", "late"]
    content = made.to_dict()
    assert Domain.from_dict(content).digest == made.digest
    # Another month takes one line.
    content["attributes"]["at"]["bounds"] = ["2013-07-01", "2013-07-31"]
    july = Domain.from_dict(content)
    rng = np.random.default_rng(1)
    codes = EncodedTable(july, tuple(rng.integers(0, size, 2000) for size in july.shape))
    table = decode(codes, rng)
    known = table.dropna(subset=["at", "hour"])
    local = pd.to_datetime(known["at"]).dt.tz_convert("America/New_York")
    assert (local.dt.hour == known["hour"]).all()
    assert (local.dt.month == 7).all()
    assert (known["month"] == 7).all()
    assert (local.dt.day == known["day"]).all()


@pytest.mark.slow
def test_a_timestamp_of_a_year_has_the_hour_of_its_row() -> None:
    rng = np.random.default_rng(0)
    days = pd.to_datetime("2013-01-01") + pd.to_timedelta(rng.integers(0, 365, 2000), unit="D")
    hour, quarter = rng.integers(6, 23, 2000), rng.integers(0, 4, 2000)
    local = days + pd.to_timedelta(hour * 60 + quarter * 15, unit="min")
    table = pd.DataFrame({"at": local.tz_localize("Europe/Berlin"), "hour": hour})
    table["late"] = np.where(table["hour"] > 16, "yes", "no")
    domain = draft_table(table, infer=True).domain
    at = domain.attribute("at")
    assert (at.unit, at.every, at.hour_from) == ("minute", "week", "hour")
    encoded = encode(table, domain, private=False)
    made = decode(encoded, rng)
    assert (made["at"].dt.hour == made["hour"]).all()
    assert set(made["at"].dt.minute) == {0, 15, 30, 45}
    assert ((made["at"].dt.hour > 16) == (made["late"] == "yes")).all()
    assert np.array_equal(encode(made, domain).column("at"), encoded.column("at"))


def test_an_hour_comes_from_an_attribute_that_is_there() -> None:
    made = draft_table(flights()).domain
    alone = made.project(["at"]).attribute("at")
    assert isinstance(alone, TimeAttribute)
    assert alone.hour_from is None
    content = made.to_dict()
    content["attributes"]["at"]["hour_from"] = "minute"
    with pytest.raises(DomainError, match="'at' has its hour from an attribute that the domain"):
        Domain.from_dict(content)
    content["attributes"]["at"] = {"bounds": ["2013-07-01", "2013-07-31"], "unit": "day"}
    content["attributes"]["at"]["hour_from"] = "hour"
    with pytest.raises(DomainError, match="hour_from is for `unit: hour` or a shorter"):
        Domain.from_dict(content)


@pytest.mark.parametrize(
    "written",
    ["%Y-%m-%d" + "%A" * 40, "%Y%Y", "%Y-%m-%d" + "x" * 100, "%Y\0-%m-%d", "%Y-Q%q"],
)
def test_a_format_that_is_not_read_again_is_refused(written: str) -> None:
    with pytest.raises(DomainError, match="format"):
        TimeAttribute("d", (0.0, 300.0), unit="day", format=written)


def test_the_hour_of_a_timestamp_is_another_attributes() -> None:
    with pytest.raises(DomainError, match="names another attribute"):
        TimeAttribute("d", (0.0, 48.0), unit="hour", every="day", hour_from="d")


@pytest.mark.parametrize(
    "form",
    [
        *("%Y-%m-%d %H:%M:%S", "%d.%m.%y", "%Y%m%d", "%H%M", "%Y-%m", "%-d/%-m/%Y", "%Y-%m-%dT%HZ"),
        *("%d-%b-%Y", "%Y %Y", "%d.%m.", "%%Y"),
    ],
)
def test_texts_are_read_as_strptime_reads_them(form: str) -> None:
    def read(by: Callable[[str, str], datetime], text: str) -> datetime | str:
        try:
            return by(text, form if by is moment_in else form.replace("%-", "%"))
        except Exception as error:
            return type(error).__name__

    moments = (datetime(1968 + 7 * one, 1 + one % 12, 1 + one, one, 2 * one) for one in range(24))
    for text in {text_at(one, form) for one in moments}:
        changed = [
            text.replace(digit, other) for digit in "0129" for other in ("9", "", " ", "\u0663")
        ]
        for one in (text, f"{text}\n", f" {text}", *changed):
            assert read(moment_in, one) == read(datetime.strptime, one)


MOMENTS = (
    *("0001-01-01", "0001-01-03", "1582-10-10 12:30", "1883-11-18 17:00:01", "1969-12-31 23:59:59"),
    *("1970-01-01", "1969-12-29", "2024-02-29 23:59:59.999999", "2024-03-10 07:30", "9999-12-28"),
    *("9999-12-31 23:59:59", "2262-04-11"),
)


@pytest.mark.parametrize(
    "dtype", ["datetime64[us]", "datetime64[ns, UTC]", "datetime64[s, Asia/Tokyo]"]
)
@pytest.mark.parametrize("unit", get_args(Unit))
@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York"])
def test_timestamps_of_a_column_are_counted_as_each_of_them(
    dtype: str, unit: Unit, zone: str | None
) -> None:
    clock = clock_of("seen", unit, zone, dtype=None if zone is None else f"datetime64[us, {zone}]")
    moments = [one for one in MOMENTS if "[ns" not in dtype or "1700" < one[:4] < "2262"]
    for cells in (moments, moments[2:-3], [], [None, moments[2]]):
        column = pd.Series(pd.to_datetime(cells, format="ISO8601").astype("datetime64[us]"))
        column = column.dt.tz_localize("UTC") if "," in dtype else column
        column = column.astype(dtype)
        found = TimeAttribute("seen", (0, 9), unit=unit, zone=zone, clip=True, dtype=clock.dtype)
        np.testing.assert_array_equal(
            found.read_numbers(column), [clock.count_of(one) for one in column.astype(object)]
        )


def test_plain_timestamps_are_counted_at_once() -> None:
    column = pd.Series(pd.to_datetime(["2024-03-10 07:30", None]))
    assert clock_of("seen", "day").counts_of(column) is not None
    assert (
        clock_of("seen", "hour", "Asia/Tokyo").counts_of(column.dt.tz_localize("UTC")) is not None
    )
    assert clock_of("seen", "day", "Asia/Tokyo").counts_of(column.dt.tz_localize("UTC")) is None
    assert clock_of("seen", "day").counts_of(column.astype(str)) is None


ODD = (
    *("", " 2024-01-02 03:04:05", "2024-02-30 00:00:00", "2024-1-2", "0000-01-01", "x", "20240102"),
    *("2024-01-02 24:00:00", "2024-01-02 23:60:00", "2024-01-02 23:59:60", "2024-13-01"),
    *("2024-01-02 03:04:05.5", "2024-01-02 03:04:05+02:00", "2024-01-02T3:04", "02.01.2024"),
    *("2024-01-02\n", "\uff12024-01-02", "9999-12-31 23:59:59", "0001-01-01 00:00:00"),
    *("2100-02-29", "2000-02-29", "2024-01-02 03:04:05.123", "1969-12-31T23:59:59.999999"),
    *("2024-01-02 03:04:05.12", "2024-01-02 03:04:05.1234567", "2024-01-02.123"),
)


@pytest.mark.parametrize("written", [None, "%Y-%m-%d %H:%M:%S", "%d.%m.%Y", "%Y%m%d", "%Y-%m"])
@pytest.mark.parametrize("unit", ["second", "week", "quarter"])
def test_many_texts_are_counted_as_each_of_them(written: str | None, unit: Unit) -> None:
    rng = np.random.default_rng(2)
    seconds = rng.integers(-(2**35), 2**36, 700)
    moments = [datetime(1970, 1, 1) + timedelta(seconds=int(one)) for one in seconds]
    forms = [written or "%Y-%m-%d %H:%M:%S", "%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"]
    texts = [text_at(one, forms[place % 3]) for place, one in enumerate(moments)]
    column = pd.Series([*texts, *ODD, None], dtype=text_dtype())
    attribute = TimeAttribute("seen", (0, 9), unit=unit, format=written, clip=True)
    found = attribute.read_numbers(column)
    expected = [attribute.clock.count_of(text) for text in column]
    np.testing.assert_array_equal(found, expected)
    at_once = attribute.clock.counts_of(column)
    assert at_once is not None
    assert np.isfinite(at_once).sum() > 200
