"""What a draft proposes of a public table, and what `infer` makes of it."""

from datetime import date
from typing import Any

import numpy as np
import pandas as pd
import pytest

from jam_dagster.common.yaml_text import parse_yaml, write_yaml
from jam_dagster.errors import DomainError
from jam_dagster.tables import Domain, DraftedDomain, decode, draft_table, encode
from jam_dagster.tables.domain.derived import with_derived
from jam_dagster.tables.domain.units import DATE
from jam_dagster.tables.drafting import determined as module
from jam_dagster.tables.drafting.determined import determined
from jam_dagster.tables.drafting.drafted_domain import _lines

ROWS = 250
RNG = np.random.default_rng(0)
HOUR, MINUTE = RNG.integers(5, 24, ROWS), RNG.integers(0, 60, ROWS)
FLIGHTS = pd.DataFrame(
    {
        "year": 2013,
        "sched dep": HOUR * 100 + MINUTE,
        "note": [f"flight {number} was late by {number * 7919 % 8011}" for number in range(ROWS)],
        "hour": HOUR,
        "minute": MINUTE,
        "price": RNG.integers(100, 9000, ROWS) / 100,
        "class": RNG.choice(["a", "b", "c"], ROWS),
    }
).assign(
    total=lambda it: (it.price + it["sched dep"]).round(2),
    number=np.arange(ROWS) + 1001,
)


def proposed(**columns: object) -> dict[str, object]:
    table = pd.DataFrame(columns)
    return determined(table, list(table))


def test_sums_differences_and_multiples() -> None:
    a, b = RNG.integers(0, 30, ROWS), RNG.integers(0, 20, ROWS)
    gaps = pd.Series(a, dtype="Int64").mask(b > 15)
    cents = RNG.integers(0, 9999, ROWS) / 100
    assert proposed(a=a, b=b, c=a - b) == {"c": "a - b"}
    assert proposed(a=a * 60 + 5, b=b, c=a) == {"a": "c * 60 + 5"}
    assert proposed(gaps=gaps, b=b, c=gaps + b) == {"c": "gaps + b"}
    assert proposed(gaps=gaps, b=b, c=(gaps + b).fillna(0)) == {}
    assert proposed(a=a, b=cents, c=(a * 100 - cents * 2).round(2)) == {
        "c": "round(a * 100 - b * 2, 2)"
    }
    almost = (a - b).copy()
    almost[7] += 1
    assert proposed(a=a, b=b, c=almost) == {}
    assert proposed(a=a[:20], b=b[:20], c=(a - b)[:20]) == {}


def test_a_price_its_tax_and_their_sum() -> None:
    net = (RNG.integers(99, 99_999, ROWS) / 100).round(2)
    tax = (net * 0.19).round(2)
    assert proposed(net=net, tax=tax, gross=(net + tax).round(2)) == {
        "tax": "round(net * 0.19, 2)",
        "gross": "round(net + tax, 2)",
    }
    # A share that is not the same in every row.
    tax[3] += 0.01
    assert proposed(net=net, tax=tax, gross=(net + tax).round(2)) == {
        "gross": "round(net + tax, 2)"
    }


def test_products() -> None:
    pieces = RNG.integers(1, 30, ROWS)
    price = RNG.integers(99, 9999, ROWS) / 100
    assert proposed(pieces=pieces, price=price, total=(pieces * price).round(2)) == {
        "total": "round(pieces * price, 2)"
    }
    assert proposed(a=pieces, b=RNG.permutation(pieces), c=pieces * 2 + 1) == {"c": "a * 2 + 1"}
    # A flag that is hardly ever set.
    rare = (np.arange(ROWS) % 150 == 0).astype(int)
    assert proposed(pieces=pieces, rare=rare, total=pieces * rare) == {}


@pytest.mark.parametrize(
    "dtype", ["datetime64[us]", "date32[day][pyarrow]", "timestamp[us][pyarrow]"]
)
def test_parts_of_a_date_of_any_dtype(dtype: str) -> None:
    days = pd.Series(pd.Timestamp("2020-01-01") + pd.to_timedelta(RNG.integers(0, 700, ROWS), "D"))
    found = proposed(born=days.astype(dtype), month=days.dt.month)
    assert found == {"month": "month(born)"}


def test_parts_of_a_date_in_the_zone_of_the_columns() -> None:
    for zone, start in (("America/New_York", "2013-03-01"), ("Asia/Kolkata", "2013-12-30")):
        moments = pd.Series(pd.date_range(start, periods=ROWS, freq="7h13min", tz="UTC"))
        local = moments.dt.tz_convert(zone)
        texts = moments.dt.strftime("%Y-%m-%dT%H:%M:%SZ")
        parts = {"yr": local.dt.year, "m": local.dt.month, "d": local.dt.day, "h": local.dt.hour}
        for times in (moments, texts):
            found = proposed(t=times, zero=0, **parts)
            # A constant that is not called a minute is none.
            year = {"yr": f'year(t, "{zone}")'} if start > "2013-12" else {"yr": 2013}
            assert found == year | {
                "zero": 0,
                "m": f'month(t, "{zone}")',
                "d": f'day(t, "{zone}")',
                "h": f'hour(t, "{zone}")',
            }
    days = pd.Series(pd.date_range("2013-06-01", periods=60, freq="7h")).astype("datetime64[s]")
    assert proposed(t=days, month=6, weekday=days.dt.day_of_week) == {
        "month": "month(t)",
        "weekday": "weekday(t)",
    }


def test_parts_of_a_date_as_its_attribute_writes_it() -> None:
    days = pd.Series(pd.Timestamp("2013-06-01") + pd.to_timedelta(RNG.integers(0, 30, ROWS), "D"))
    parts = {
        "month": 6,
        "quarter": 2,
        "week": days.dt.isocalendar().week,
        "yyyymm": 201306,
        "period": "2013-06",
        "q": "2013-Q2",
        "of_year": "Q2",
        "name": "June",
        "in_words": "Jun, 2013",
        "report": "Q2 2013",
        "dow": days.dt.strftime("%a"),
        "iso": days.dt.strftime("%Y-%m-%d"),
    }
    for written in ("%d.%m.%Y", "%Y/%m/%d", "%m/%d/%Y"):
        table = pd.DataFrame({"on": days.dt.strftime(written), **parts})
        assert determined(table, ["on", "iso"], {"on": written, "iso": "%Y-%m-%d"}) == {
            "month": "month(on)",
            "quarter": "quarter(on)",
            "week": "week(on)",
            "yyyymm": "year(on) * 100 + month(on)",
            "period": 'text(on, "%Y-%m")',
            "q": 'text(on, "%Y-Q%q")',
            "of_year": 'text(on, "Q%q")',
            "name": 'text(on, "%B")',
            "in_words": 'text(on, "%b, %Y")',
            "report": 'text(on, "Q%q %Y")',
            "dow": 'text(on, "%a")',
            "iso": 'text(on, "%Y-%m-%d")',
        }


def test_a_time_that_is_said_twice_is_modelled_once() -> None:
    minutes = pd.to_timedelta(RNG.integers(0, 30 * 1440, ROWS), "min")
    utc = pd.Series(pd.Timestamp("2013-06-01") + minutes).dt.tz_localize("UTC")
    local = utc.dt.tz_convert("America/New_York")
    table = pd.DataFrame(
        {
            "day": pd.Series(local.dt.date).astype(DATE),
            "at": utc.dt.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "local": local.dt.tz_localize(None),
            "shown": local.dt.strftime("%d.%m.%Y %H:%M"),
            "again": utc.dt.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "since": pd.Timestamp("2013-05-01 12:00", tz="UTC"),
            "from": pd.Series([date(2013, 5, 1)] * ROWS).astype(DATE),
        }
    )
    domain = draft_table(table, infer=True).domain
    zone = '"America/New_York"'
    assert {one.name: one.expression for one in domain.derived} == {
        "day": f"date(at, {zone})",
        "local": f"timestamp(at, {zone})",
        "shown": f'text(timestamp(at, {zone}), "%d.%m.%Y %H:%M")',
        "again": "at",
        "since": None,
        "from": None,
    }
    constants = draft_table(table).proposed
    assert constants == {
        "since": 'timestamp("2013-05-01T12:00:00")',
        "from": 'date("2013-05-01")',
    }
    content = domain.to_dict()
    for name, constant in constants.items():
        content["derived"][name]["expression"] = constant
    domain = Domain.from_dict(content)
    made = decode(encode(table, domain, private=False), np.random.default_rng(0))
    assert made.dtypes.to_dict() == table.dtypes.to_dict()
    assert (made["since"] == table["since"]).all()
    assert (made["from"] == date(2013, 5, 1)).all()
    assert (made["shown"].str[:5] == made["day"].map(lambda day: f"{day:%d.%m}")).all()


@pytest.mark.parametrize(
    ("values", "expression"),
    [
        (np.arange(ROWS) + 1001, "row() + 1000"),
        (np.arange(ROWS) * 1009, "row() * 1009 - 1009"),
        (np.arange(ROWS) * 10 + 10, "row() * 10"),
        (np.arange(ROWS) ** 2, "row()"),
        ([f"F{number:05}" for number in range(ROWS)], '"F" + text(row(), 5)'),
        ([f"id-{number}" for number in range(ROWS)], '"id-" + text(row())'),
        ([f"0000000{number % 10}-0000-4000-8000-{number:012}" for number in range(ROWS)], "uuid()"),
        ([f"{number} remarks" for number in range(ROWS)], None),
    ],
)
def test_keys_are_numbered_anew(values: object, expression: str | None) -> None:
    table = pd.DataFrame({"a": HOUR, "key": values})
    assert determined(table, ["a"]) == ({"key": expression} if expression else {})


def test_equal_texts_and_constants() -> None:
    texts = RNG.choice(["a", "b"], ROWS)
    assert proposed(**{"if": texts, "copy": texts, "of_year": 0.5, "yes": True, "x": 'a "b"'}) == {
        "copy": 'col("if")',
        "of_year": 0.5,
        "yes": True,
        "x": '"a \\"b\\""',
    }


def test_copies_and_roundings_of_numbers() -> None:
    exact, whole = RNG.random(ROWS), RNG.integers(0, 50, ROWS)
    assert proposed(cents=exact.round(2), exact=exact, again=exact, about=exact.round(0)) == {
        "cents": "round(again, 2)",
        "exact": "again",
        "about": "round(again)",
    }
    assert proposed(whole=whole, float=whole * 1.0) == {"whole": "float"}
    assert proposed(whole=whole, near=whole + 1e-7) == {"whole": "round(near)"}
    # What no expression tells apart is no copy.
    large = whole * 2**50
    assert proposed(large=large, other=large + 1) == {}


def test_a_label_stands_for_a_code() -> None:
    code = RNG.choice([3, 1, 7], ROWS)
    names = {3: "Bonn", 1: "Köln", 7: "Lyon"}
    table = pd.DataFrame({"code": code, "town": [names[one] for one in code], "size": code**2})
    table.loc[::9] = None
    other = "Bonn" if table["town"][5] == "Lyon" else "Lyon"
    table["near"] = table["town"].where(table.index != 5, other)
    draft = draft_table(table, infer=True)
    derived = {one.name: (one.expression, dict(one.values)) for one in draft.domain.derived}
    assert derived == {
        "code": ("town", {"Bonn": 3, "Köln": 1, "Lyon": 7}),
        "size": ("town", {"Bonn": 9, "Köln": 1, "Lyon": 49}),
    }
    assert draft.domain.names == ("town", "near")
    assert "\n  code: town by its values" in draft.remark
    domain = Domain.from_dict(parse_yaml(write_yaml(draft.domain.to_dict())))
    assert domain.digest == draft.domain.digest
    decoded = decode(encode(table, domain, private=False), np.random.default_rng(0))
    for name in ("code", "size"):
        assert decoded[name].tolist() == pytest.approx(table[name].tolist(), nan_ok=True)
    # Numbers among texts are no column that an expression reads.
    mixed = table[["code", "size"]].dropna().astype("int").astype(object).replace({3: "three"})
    mixed["again"] = mixed["code"]
    assert draft_table(mixed, infer=True).domain.derived == ()
    # In a file for a person they stand in one line.
    proposed = draft_table(table, infer=False).proposed
    (entry,) = [one for one in _lines(proposed) if one.startswith('"code"')]
    assert parse_yaml(entry)["code"]["values"] == {"Bonn": 3, "Köln": 1, "Lyon": 7}


def test_values_are_apart_that_chance_or_few_rows_pair() -> None:
    unique = RNG.permutation(ROWS)
    assert proposed(a=unique, b=(unique * 7919) % 8011) == {}
    assert proposed(a=list("xyz"), b=[5, 1, 9]) == {}


def made(draft: DraftedDomain) -> pd.DataFrame:
    """Return the public table through a draft and back."""
    return decode(encode(FLIGHTS, draft.domain, private=False), np.random.default_rng(0))


def test_a_draft_has_all_columns_and_proposes_the_rest(tmp_path) -> None:
    draft = draft_table(FLIGHTS, infer=False)
    table = made(draft)
    assert list(table) == list(FLIGHTS)
    assert table[["year", "note", "number"]].isna().all(axis=None)
    assert table.dtypes.astype(str)[["year", "note"]].tolist() == ["Int64", "str"]
    draft.save(tmp_path / "domain.yaml")
    text = (tmp_path / "domain.yaml").read_text()
    assert "\n# year: 2013\n# sched dep: hour * 100 + minute  # 236 public rows could" in text
    assert "\n# number: row() + 1000\n" in text
    hint = "if you write it below `derived`:\n  year: 2013\n  sched dep: hour * 100 + minute"
    assert hint in draft.hint
    assert Domain.load(tmp_path / "domain.yaml") == draft.domain
    assert list(made(draft_table(FLIGHTS, exclude=["note"], infer=False))) == list(
        FLIGHTS.drop(columns="note")
    )


def test_what_others_determine_is_derived_and_a_constant_proposed(tmp_path) -> None:
    draft = draft_table(FLIGHTS)
    table = made(draft)
    assert draft.domain.names == ("hour", "minute", "price", "class")
    assert list(table) == list(FLIGHTS)
    assert (table["sched dep"] == table.hour * 100 + table.minute).all()
    assert (table.total == (table.price + table["sched dep"]).round(2)).all()
    assert table.year.isna().all()
    assert draft.proposed == {"year": 2013}
    assert table.number.tolist() == FLIGHTS.number.tolist()
    assert [one.name for one in draft.left_out] == ["year", "note"]
    assert draft.headline.startswith("Empty in every synthetic row: year, note. To fill one, write")
    assert draft_table(FLIGHTS[["hour"]]).headline == ""
    assert "(--no-infer models them):\n  sched dep: hour * 100 + minute" in draft.remark
    draft.save(tmp_path / "domain.yaml")
    text = (tmp_path / "domain.yaml").read_text()
    assert "attributes:\n  # left out: year" in text
    assert "to be written below `derived`:\n# year: 2013\n" in text
    assert text.endswith(
        "# sched dep  # 236 public rows could have broken it\n"
        "# total  # 248 public rows could have broken it\n"
    )
    assert Domain.load(tmp_path / "domain.yaml") == draft.domain


@pytest.mark.slow
def test_columns_of_timestamps_take_as_long_each_as_they_are_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No text of a moment is written once more for each other column."""
    written = []
    real = module.date_text

    def counted(*given: Any) -> str:
        written.append(given)
        return real(*given)

    monkeypatch.setattr(module, "date_text", counted)
    rng, calls = np.random.default_rng(0), []
    for columns in (4, 8):
        written.clear()
        start = pd.Timestamp("2024-01-01")
        times = {
            f"t{at}": (start + pd.to_timedelta(rng.integers(0, 10**7, 60), "s")).strftime(
                "%Y-%m-%d %H:%M:%S"
            )
            for at in range(columns)
        }
        draft_table(pd.DataFrame(times))
        calls.append(len(written))
    assert calls[1] < 3 * calls[0]


def clocks(rows: int = 3000) -> pd.DataFrame:
    """Return times as 1730, delays past midnight, and arrivals of which some lack a delay."""
    rng = np.random.default_rng(4)
    planned = rng.integers(0, 1440, rows)
    delay = rng.integers(-20, 300, rows).astype(float)
    delay[rng.random(rows) < 0.1] = np.nan
    left = (planned + delay) % 1440

    def clock(minutes: np.ndarray) -> np.ndarray:
        return minutes // 60 * 100 + minutes % 60

    table = pd.DataFrame({"planned": clock(planned), "delay": delay, "left": clock(left)})
    return table.assign(left=table["left"].replace(0, 2400).astype("Int64"))


def test_a_time_is_so_many_minutes_after_another() -> None:
    table = clocks()
    draft = draft_table(table)
    (left,) = draft.domain.derived
    assert (left.name, left.expression) == (
        "left",
        "clock_time(clock_minutes(planned) + delay, 2400)",
    )
    made = decode(encode(table, draft.domain, private=False), RNG).dropna()
    late = made["left"] // 100 * 60 + made["left"] % 100
    late -= made["planned"] // 100 * 60 + made["planned"] % 100
    assert ((late - made["delay"]) % 1440 == 0).all()
    assert made["left"].between(1, 2400).all()


def test_the_end_of_what_took_so_long_is_derived() -> None:
    table = clocks().dropna()
    table = table.assign(left=table["left"].replace(2400, 0).astype("int64"))
    found = {one.name: one.expression for one in draft_table(table).domain.derived}
    assert found == {"left": "clock_time(clock_minutes(planned) + delay)"}


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ("clock_minutes(a)", [0, 5, 745, 1440, pd.NA, 979, pd.NA, pd.NA]),
        ("clock_time(a)", [0, 5, 2025, 1600, 2359, 259, pd.NA, 2]),
        ("clock_time(a, 2400)", [2400, 5, 2025, 1600, 2359, 259, pd.NA, 2]),
    ],
)
def test_what_clocks_make_of_numbers(expression: str, values: list[object]) -> None:
    table = pd.DataFrame({"a": [0, 5, 1225, 2400, -1, 1619, np.nan, 2.5]})
    attributes = {"a": {"edges": [-10, 3000], "nullable": True, "dtype": "float64"}}
    made = Domain.from_dict({"attributes": attributes, "derived": {"b": expression}})
    assert with_derived(table, made.plan, ["b"], RNG)["b"].tolist() == values


def test_a_clock_reads_numbers_alone() -> None:
    for expression in ('clock_minutes("17:30")', 'clock_time("1")', "clock_time(a, 24)"):
        with pytest.raises(DomainError, match="clock_"):
            Domain.from_dict({"attributes": {"a": {"edges": [0, 1]}}, "derived": {"b": expression}})
