"""What a draft notes of a column, and texts in formats of their own."""

import re
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from jam_dagster.errors import (
    DomainError,
)
from jam_dagster.tables import (
    Domain,
    Order,
    decode,
    draft_table,
    encode,
)
from jam_dagster.tables.domain.binned import BinnedAttribute
from jam_dagster.tables.domain.column_notes import CLIPPED_DATES, SHIFT_ADVICE
from tests.tables.drafting.test_draft import draft
from tests.tiers import slow


def test_a_name_that_a_spreadsheet_runs_is_noted_at_once():
    drafted = draft_table(pd.DataFrame({"=x": [1, 2], "@a": 0, "-": ["x", "y"]}))
    assert list(drafted.notes) == ["=x", "@a"]
    assert "\n  @a: a spreadsheet would run its name as a formula" in drafted.remark


def test_a_separator_that_nobody_declared_is_noted():
    said = '\'|\' separates its columns, the table is {"csv": "people.csv", "separator": "|"}'
    note = draft_table(pd.DataFrame({"a|b": ["1|2", "3|4"] * 30})).notes["a|b"]
    assert note == f"if {said}"
    with pytest.raises(DomainError, match=re.escape(said)):
        draft_table(pd.DataFrame({"a|b": [f"{one}|x" for one in range(200)]}))
    assert draft_table(pd.DataFrame({"a|b": ["1|2", "3|4"] * 30, "c": [1, 2] * 30})).notes == {}


def test_a_header_that_is_a_record_is_noted():
    records = pd.DataFrame({"79": [18, 79] * 30, "male": ["male", "female"] * 30, "3.5": 1.5})
    note = draft_table(records).notes["79"]
    assert note.startswith("the table seems to lack its header, for 2 of its 3 names are values")
    # Years as names, and a column of its own name's values, are no record.
    years = pd.DataFrame({"2019": [1, 2] * 30, "2020": [2020, 3] * 30})
    assert draft_table(years).notes == {}


def test_line_breaks_in_cells_are_noted():
    texts = [f"{number}\n{number}" for number in range(200)]
    drafted = draft_table(pd.DataFrame({"a": [1, 2] * 100, "b": texts}))
    assert "which no private CSV file may: write it as Parquet" in drafted.notes["b"]


def test_values_that_differ_in_case_or_blanks_are_noted():
    note = "'Bonn ' and 'bonn' are two values: make them one in the source if they are"
    assert draft_table(pd.DataFrame({"a": ["bonn", "Bonn ", "Köln"]})).notes == {"a": note}
    assert draft_table(pd.DataFrame({"a": ["Yes", "No", "no way"]})).notes == {}


def money(number: float) -> str:
    return f"{'-' * (number < 0)}${abs(number):,.2f}"


RNG = np.random.default_rng(0)


ROWS = 150


AMOUNTS = RNG.normal(900, 800, ROWS).round(2).tolist()


PLACES = RNG.integers(0, 500, ROWS).tolist()


SECONDS = RNG.integers(0, 90_000, ROWS).tolist()


MOMENTS = pd.Series(
    pd.Timestamp("2013-06-01") + pd.to_timedelta(RNG.integers(0, 40_000, ROWS), "m")
)


SUMMER = MOMENTS.dt.tz_localize("Europe/Berlin")


WRITTEN = {
    "0": [str(one) for one in PLACES],
    "$#,##0.00": [money(one) for one in AMOUNTS],
    "#.##0,00 EUR": [
        f"{one:,.2f} EUR".translate(str.maketrans(",.", ".,")) for one in map(abs, AMOUNTS)
    ],
    "0%": [f"{one}%" for one in PLACES],
    "0.#%": [f"{one / 2:g}%" for one in PLACES],
    "0,00": [f"{one:.2f}".replace(".", ",") for one in AMOUNTS],
    "h:mm:ss": [f"{one // 3600}:{one // 60 % 60:02}:{one % 60:02}" for one in SECONDS],
    "1h 20m": [f"{one // 60}h {one % 60}m" if one > 59 else f"{one}m" for one in PLACES],
    "d days hh:mm:ss": [str(pd.Timedelta(one, "s")) for one in SECONDS],
    "ISO 8601": [f"PT{one // 60 + 1}M" for one in SECONDS],
    **{
        form: MOMENTS.dt.strftime(form).tolist()
        for form in (
            *("%d-%m-%Y", "%d.%m.%Y", "%m/%d/%Y", "%-d/%-m/%Y", "%Y%m%d", "%I:%M %p"),
            *("%d.%m.%y", "%m/%d/%y", "%d-%b-%Y", "%d-%b-%y", "%b %d, %Y", "%-d %B %Y", "%d%b%Y"),
            *("%a, %d %b %Y %H:%M:%S", "%A, %d %B %Y", "%H%M"),
            *("%-m/%-d/%Y %-I:%M:%S %p", "%Y-%m-%dT%H:%M:%SZ"),
        )
    },
    "%Y-%m-%d %H:%M:%S%:z": [one.isoformat(sep=" ") for one in SUMMER],
}


# One of each way to write a number, a length, a time of day and a date.
QUICK = (
    *("0", "$#,##0.00", "#.##0,00 EUR", "0%", "h:mm:ss", "1h 20m", "ISO 8601"),
    *("%d.%m.%y", "%d-%b-%Y", "%I:%M %p", "%Y-%m-%d %H:%M:%S%:z"),
)


@pytest.mark.parametrize("form", [*QUICK, *slow(*(one for one in WRITTEN if one not in QUICK))])
def test_texts_are_read_and_written_in_their_format(form):
    texts = [*WRITTEN[form][:-1], "n.a."]
    table = pd.DataFrame({"a": pd.Series(texts, dtype="str"), "b": ["x", "y"] * (ROWS // 2)})
    drafted = draft_table(table)
    attribute = drafted.domain.attribute("a")
    assert isinstance(attribute, BinnedAttribute)
    assert attribute.format == (None if form == "0" else form)
    unread = f"1 of {ROWS} public cells are released as missing, such as 'n.a.'"
    assert drafted.notes["a"].startswith(unread)
    assert ("times of day have" in drafted.notes["a"]) == (form == "h:mm:ss")
    assert unread in drafted.remark
    domain = drafted.domain
    assert Domain.from_dict(domain.to_dict()) == domain
    encoded = encode(table, domain, private=False)
    assert (encoded.columns[0] == attribute.unreadable_code).tolist() == [False] * (ROWS - 1) + [
        True
    ]
    # One bin a value, and no other value: the texts come back.
    again = decode(encoded, np.random.default_rng(0))
    assert np.array_equal(encode(again, domain).columns[0], encoded.as_released().columns[0])
    shape = re.compile(r"[^\d:]")
    if form not in ("ISO 8601", "1h 20m"):
        marks = {"".join(shape.findall(str(one))) for one in again["a"].dropna()}
        assert marks <= {"".join(shape.findall(one)) for one in texts}
    # Where everything has to be known, such a column stays one of texts.
    strict = draft_table(table, other=None).domain.attributes
    assert not any(one.binned for one in strict)


def test_decimals_that_floats_do_not_hold_are_noted():
    many = pd.Series([10**18 * one + Decimal(one) / 100 for one in range(300)], dtype=object)
    few = pd.Series([Decimal(one) / 100 for one in range(300)], dtype=object)
    notes = draft_table(pd.DataFrame({"a": many, "b": few})).notes
    assert notes == {"a": "numbers of so many digits come out as floats, rounded"}


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["2024-03-01T10:15:00+05:45", "2024-03-02T11:00:00+05:45"], "the same instant in UTC"),
        (["2024-03-01T10:15:00Z", "2024-03-02T11:00:00Z"], ""),
        (["5:34 am", "8:55 pm"], "am and pm come out as AM and PM"),
        (["5:34 AM", "8:55 PM"], ""),
        (["Q1 2024", "Q3 2023"], "weeks: later ones than the public table's are missing"),
        (["Mar-2024", "Apr 2024", "May '25", "2024 June"], "looks like months, quarters"),
        (["Mar, 2024", "2024-W07", "W52 2023", "2024W10"], "looks like months, quarters"),
        (["2024-W54", "2024-W53"], ""),
        (["202403", "202412"], "are clipped"),
        (["202403", "202413"], ""),
        (["1710000000", "1720000000"], "looks like seconds since 1970"),
        (["1710000000000", "1720000000000"], "looks like milliseconds since 1970"),
        (["202403.0", "202412.0"], "are clipped"),
        (["PT90M", "PT5M"], "cells such as 'PT90M' come out as 'PT1H30M'"),
        (["01/13/2024", "2/14/2024"], "cells such as '2/14/2024' come out as '02/14/2024'"),
        (["$1,200", "$1300", "$90"], "cells such as '$1300' come out as '$1,300'"),
        (["85:10", "12:05"], "read as hours and minutes"),
        (["March", "April"], ""),
        (["Market 12", "Decile10"], ""),
    ],
)
def test_what_comes_out_otherwise_is_noted(texts, said):
    column = pd.Series(texts * 50, dtype="str")
    if all(re.fullmatch(r"[\d.]+", one) for one in texts):
        column = column.astype(float if "." in texts[0] else int)
    note = draft_table(pd.DataFrame({"a": column})).notes.get("a", "")
    assert said in note
    assert bool(said) == bool(note.removesuffix(CLIPPED_DATES + SHIFT_ADVICE))


def test_days_and_months_that_cannot_be_told_apart_are_told_by_other_columns_or_a_short_time():
    days = [f"{day:02}/06/2013" for day in range(1, 13)] * 9
    late = [f"{day:02}/07/2013" for day in range(1, 28)] * 4
    alone = draft_table(pd.DataFrame({"a": days}))
    assert alone.domain.attribute("a").format == "%d/%m/%Y"
    assert alone.notes["a"] == (
        f"dates are read as %d/%m/%Y, and %m/%d/%Y reads them too: see which is right;"
        f" {CLIPPED_DATES}{SHIFT_ADVICE}"
    )
    months = [f"0{month}/01/2013" for month in range(1, 10)] * 12
    american = [f"07/{day:02}/2013" for day in range(1, 28)] * 4
    assert draft(months).format == "%d/%m/%Y"
    beside = draft_table(pd.DataFrame({"a": months, "b": american}))
    assert beside.domain.attribute("a").format == "%m/%d/%Y"
    assert draft_table(pd.DataFrame({"a": days, "b": late})).domain.names == ("a", "b")


@pytest.mark.slow
def test_offsets_have_the_zone_that_gives_them():
    year = pd.Series(pd.date_range("2013-01-01", "2013-12-31", periods=400, tz="UTC"))
    texts = [one.floor("h").isoformat() for one in year.dt.tz_convert("Europe/Berlin")]
    attribute = draft(texts)
    assert (attribute.zone, attribute.format) == ("Europe/Berlin", "%Y-%m-%dT%H:%M:%S%:z")
    summer = WRITTEN["%Y-%m-%d %H:%M:%S%:z"]
    assert draft(summer).zone == "Etc/GMT-2"
    # One row in winter, whichever of many texts are looked at.
    assert draft([*summer, "2013-01-01 08:00:00+01:00"]).zone == "Europe/Berlin"


def test_lengths_of_time_shorter_than_a_bin_come_out():
    rows = 3000
    start = pd.Timestamp("2024-01-01") + pd.to_timedelta(RNG.integers(0, 180 * 24, rows), "h")
    length = RNG.integers(1, 41, rows)
    table = pd.DataFrame({"start": start, "end": start + pd.to_timedelta(length, "h")})
    domain = draft_table(table).domain
    (order,) = (one for one in domain.repairs if isinstance(one, Order))
    assert (order.apart[0][0], order.apart[-1][1]) == (1, 40)
    made = decode(encode(table, domain), RNG)
    between = (made["end"] - made["start"]) / pd.Timedelta("1h")
    # Without it about 50. Half a bin's length is within six standard errors many times over.
    assert between.mean() == pytest.approx(length.mean(), abs=1.5)
    assert (between.min(), between.max()) == (1, 40)
    table["end"] = start + pd.to_timedelta(RNG.integers(1, 2000, rows), "h")
    assert not any(getattr(one, "apart", ()) for one in draft_table(table).domain.repairs)


def test_fractions_of_a_second_are_noted():
    seconds = pd.Timestamp("2024-01-01") + pd.to_timedelta(RNG.integers(0, 10**8, 300), "ms")
    texts = seconds.strftime("%Y-%m-%d %H:%M:%S.%f").str[:-3]
    drafted = draft_table(
        pd.DataFrame({"a": texts, "b": seconds, "c": ["x", "y", "z"] * 100}), infer=False
    )
    assert drafted.domain.attribute("a").format == "%Y-%m-%d %H:%M:%S.%3f"
    assert drafted.notes == dict.fromkeys(
        "ab", f"fractions of a second come out as 0; {CLIPPED_DATES}{SHIFT_ADVICE}"
    )
    table = decode(encode(pd.DataFrame({"a": texts}), drafted.domain.project(["a"])), RNG)
    assert table["a"].str.fullmatch(r"2024-01-0[12] \d\d:\d\d:\d\d\.000").all()
