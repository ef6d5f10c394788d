"""Derived columns: what expressions give, that they end and raise one error, whoever wrote them."""

import itertools
import time
import warnings
from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from jam_dagster.common.yaml_text import parse_yaml, write_yaml
from jam_dagster.errors import DomainError, JamError
from jam_dagster.tables import Domain, EncodedTable, decode, encode
from jam_dagster.tables.domain.derived import DerivedColumn, PlannedColumn, reproduces
from jam_dagster.tables.domain.units import DATE
from tests.tiers import slow

NEW_YORK = '"America/New_York"'
START = "2013-06-01T03:30:00Z"
ATTRIBUTES = {
    "hour": {"bounds": [0, 23], "integer": True, "nullable": True},
    "part": {"bounds": [0, 1], "bins": 2},
    "start": {"values": [START]},
    "a b": {"values": ["x", "y"], "dtype": "category"},
    "late": {"values": [True, False]},
    "written": {"bounds": ["2013-06-17", "2013-06-17"], "unit": "day", "format": "%d.%m.%Y"},
    "price": {"values": ["1.234,50 €"]},
    "paid": {"edges": [1234.5, 1234.51], "format": "#.##0,00 €"},
}


def domain(derived: object = None, columns: object = None) -> Domain:
    more = {"derived": derived or {}, "columns": columns or []}
    return Domain.from_dict({"attributes": ATTRIBUTES, **more})


def computed(expression: object, rows: int = 4) -> pd.Series:
    """Return a derived column over rows whose hour is 0, 1, 2, ..., and at last missing."""
    declared = domain({"d": expression})
    hours = np.arange(rows)
    hours[-1] = 24
    rest = [np.zeros(rows, int)] * 7
    codes = tuple(one.astype(np.uint8) for one in (hours, *rest))
    return decode(EncodedTable(declared, codes), np.random.default_rng(0))["d"]


@pytest.mark.parametrize(
    ("expression", "dtype", "values"),
    [
        ("hour * 100 + 7", "Int64", [7, 107, 207, None]),
        ("-hour // 2", "Int64", [0, -1, -1, None]),
        ("7 % hour", "Int64", [None, 0, 1, None]),
        ("hour / 2", "float64", [0, 0.5, 1, None]),
        ("1 / hour", "float64", [None, 1, 0.5, None]),
        ("round(hour / 3, 2)", "float64", [0, 0.33, 0.67, None]),
        ({"expression": "hour / 2", "dtype": "Int8"}, "Int8", [0, None, 1, None]),
        ({"expression": "hour * 100", "dtype": "UInt8"}, "UInt8", [0, 100, 200, None]),
        ({"expression": "hour * 200", "dtype": "Int8"}, "Int8", [0, None, None, None]),
        ("number(paid) * hour // 1", "float64", [0, 1234, 2469, None]),
        ("number(price)", "float64", [None] * 4),
        ("number(late) + 1", "Int64", [2] * 4),
        (
            'text(number(paid) * hour, "$#,##0.00")',
            "str",
            ["$0.00", "$1,234.51", "$2,469.02", None],
        ),
        ('text(hour, "0%")', "str", ["0%", "1%", "2%", None]),
        ("round(log(hour) + exp(hour) + sqrt(hour), 3)", "float64", [None, 3.718, 9.496, None]),
        ("round(log10(hour * 100), 3)", "float64", [None, 2, 2.301, None]),
        (
            'text(after(written, hour), "%d.%m.%Y")',
            "str",
            [f"{n}.06.2013" for n in (17, 18, 19)] + [None],
        ),
        ('between(start, after(start, hour * 90, "minute"), "hour")', "Int64", [0, 1, 3, None]),
        ("between(start, written)", "Int64", [15] * 4),
        ("compared(hour, 1)", "str", ["<", "=", ">", "null"]),
        ("compared(number(paid), 5000)", "str", ["<"] * 4),
        ("compared(paid, hour)", "str", [">"] * 3 + ["null"]),
        ({"expression": "compared(written, start)", "values": {">": True}}, "boolean", [True] * 4),
        ('"F" + text(hour, 2) + col("a b")', "str", ["F00x", "F01x", "F02x", None]),
        ("text(late)", "str", ["True"] * 4),
        ('"=" + text(late)', "str", [None] * 4),
        ("hour(start)", "Int64", [3] * 4),
        (f"hour(start, {NEW_YORK})", "Int64", [23] * 4),
        (f"day(start, {NEW_YORK}) * 100 + month(start, {NEW_YORK})", "Int64", [3105] * 4),
        ("weekday(start)", "Int64", [5] * 4),
        ("year(start) * 100 + minute(start)", "Int64", [201330] * 4),
        ('year(col("a b"))', "Int64", [None] * 4),
        ("quarter(start) * 100 + week(start)", "Int64", [222] * 4),
        ("date(start)", "datetime64[us]", [pd.Timestamp("2013-06-01")] * 4),
        (f"timestamp(start, {NEW_YORK})", "datetime64[us]", [pd.Timestamp("2013-05-31 23:30")] * 4),
        ({"expression": f"date(start, {NEW_YORK})", "dtype": DATE}, DATE, [date(2013, 5, 31)] * 4),
        ('text(start, "%Y-Q%q %H:%M%:z")', "str", ["2013-Q2 03:30+00:00"] * 4),
        (f'text(date(start, {NEW_YORK}), "%Y-%m")', "str", ["2013-05"] * 4),
        ("week(written)", "Int64", [25] * 4),
        ('text(written, "%G-W%V")', "str", ["2013-W25"] * 4),
        ('"K" + text(row(), 3)', "str", ["K001", "K002", "K003", "K004"]),
        ({"expression": "hour", "values": {0: "a", "1": "=1"}}, "str", ["a", None, None, None]),
        ({"expression": "late", "values": {True: 0.5}, "dtype": "float32"}, "float32", [0.5] * 4),
        (2013, "Int64", [2013] * 4),
        (0.5, "float64", [0.5] * 4),
        (True, "boolean", [True] * 4),
        ('"EWR"', "str", ["EWR"] * 4),
        (None, "object", [None] * 4),
        ({"expression": None, "dtype": "datetime64[ns, UTC]"}, "datetime64[ns, UTC]", [None] * 4),
    ],
)
def test_what_an_expression_gives(expression: object, dtype: str, values: list[object]) -> None:
    column = computed(expression)
    assert str(column.dtype) == dtype
    assert [None if pd.isna(one) else one for one in column] == values


def test_a_date_is_read_whatever_it_is_made_of() -> None:
    instants = pd.Series(pd.to_datetime([START, None]))
    for column in (
        instants,
        instants.dt.tz_convert("America/New_York"),
        instants.dt.tz_localize(None).astype("datetime64[s]"),
        pd.Series([pd.Timestamp(START), None], dtype=object),
        pd.Series([START.replace("T", " "), "2013"]),
    ):
        table = pd.DataFrame({"t": column})
        assert reproduces(f"hour(t, {NEW_YORK})", pd.Series([23, None]), table)
    local = pd.DataFrame({"t": instants.dt.tz_convert("America/New_York")})
    assert reproduces("hour(t)", pd.Series([23.0, None]), local)
    days = pd.DataFrame({"t": pd.Series([date(9999, 1, 1), date(2020, 2, 29)], dtype=object)})
    assert reproduces("year(t)", pd.Series([None, 2020]), days)
    sums = pd.DataFrame({"t": pd.Series([Decimal("1.5"), None], dtype=object)})
    assert reproduces("t * 2", pd.Series([3, None]), sums)


def test_keys_are_unique_and_follow_from_the_seed() -> None:
    keys = computed("uuid()", 25)
    assert keys.is_unique
    assert keys.str.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-.{12}").all()
    assert keys.equals(computed("uuid()", 25))


def test_a_random_part_of_a_key_is_no_rule_of_the_rows() -> None:
    made = domain({"key": 'text(hour) + "-" + uuid()', "of key": "key + text(row(), 4)"})
    assert [one.name for one in made.rules if isinstance(one, PlannedColumn)] == ["of key"]


def test_columns_come_in_the_declared_order_and_need_no_private_column() -> None:
    made = domain({"twice": "once + once", "once": "hour"}, ["twice", *ATTRIBUTES, "once"])
    private = pd.DataFrame(
        {"hour": [5], "part": [0.25], "start": START, "a b": "x", "late": [True], "once": ["?"]}
        | {"written": "17.06.2013", "price": "1.234,50 €", "paid": "1.234,50 €"}
    )
    table = decode(encode(private, made), np.random.default_rng(0))
    assert {name: str(dtype) for name, dtype in table.dtypes.items()} == made.columns
    assert list(table) == ["twice", *ATTRIBUTES, "once"]
    assert table["twice"].tolist() == [10]
    assert list(domain({"c": 1}).columns) == [*ATTRIBUTES, "c"]


def test_a_file_and_a_digest_tell_them_apart() -> None:
    plain = domain()
    made = domain({"a": "hour", "b": {"expression": None, "dtype": "string"}}, [*"ab", *ATTRIBUTES])
    assert Domain.from_dict(parse_yaml(write_yaml(made.to_dict()))) == made
    digests = {
        one.digest
        for one in (plain, made, domain({"a": "hour"}), domain({"a": 1}), domain({"a": True}))
    }
    assert len(digests) == 5


@pytest.mark.parametrize(
    ("derived", "message"),
    [
        ({"d": "hours"}, "did you mean 'hour'"),
        ({"d": "e", "e": "d"}, "in a circle: d, e"),
        ({"hour": "1"}, "'hour' is derived, and an attribute"),
        ({"d": "hour ** 2"}, "holds what is not allowed"),
        ({"d": "hour.real"}, "not allowed"),
        ({"d": "[h for h in (hour,)]"}, "not allowed"),
        ({"d": "start[0]"}, "not allowed"),
        ({"d": "__import__('os')"}, "not allowed"),
        ({"d": "9007199254740993"}, "beyond 2"),
        ({"d": 2**64}, "beyond 2"),
        ({"d": "start * 3"}, r"\* between text and integer"),
        ({"d": "hour +"}, "cannot be read"),
        ({"d": "a b"}, r'col\("its name"\)'),
        ({"d": "1" + "+1" * 250}, "longer than 500"),
        ({"d": "-" * 400 + "1"}, "nested deeper"),
        ({"d": "(" * 240 + "1" + ")" * 240}, "cannot be read|nested deeper"),
        ({"d": 'hour(start, "Europe/../../etc/passwd")'}, "no time zone"),
        ({"d": 'hour(start, "Europe/Atlantis")'}, "no time zone"),
        ({"d": "text(hour, 101)"}, "from 0 to 100"),
        ({"d": "text(hour, hour)"}, "arguments"),
        ({"d": 'text(start, "%999999999d")'}, "a format has"),
        ({"d": 'text(start, "%c")'}, "a format has"),
        ({"d": "text(date(start))"}, "needs a format"),
        ({"d": 'text(hour, "%H")'}, "format of numbers"),
        ({"d": "after(hour, 1)"}, "after takes a date"),
        ({"d": 'after(start, 1, "month")'}, "its unit is one of"),
        ({"d": "between(start, hour)"}, "between takes two dates"),
        ({"d": "compared(start, hour)"}, "compared takes two"),
        ({"d": "log(start)"}, "log takes a number"),
        ({"d": "number(date(start))"}, "number takes"),
        ({"d": "date(hour)"}, "takes a date"),
        ({"d": {"expression": "hour", "dtype": "int64"}}, "use Int64"),
        ({"d": {"expression": "hour", "dtypes": "Int64"}}, "dtypes"),
        ({"d": [1]}, "an expression, a number or null"),
        ({"d": {"expression": "hour", "values": [1]}}, "must map values"),
        ({"d": {"expression": "hour", "values": {1: "a", 2: 3}}}, "all texts"),
        ({"d": {"expression": "hour", "values": {1: "a", "1": "b"}}}, "twice"),
        ({"d": {"expression": "hour", "values": {1: 2**60}}}, "up to 2"),
        ({str(number): 1 for number in range(1001)}, "more than 1,000"),
    ],
)
def test_what_is_refused(derived: dict[str, object], message: str) -> None:
    with pytest.raises(JamError, match=message):
        domain(derived)


@pytest.mark.parametrize("columns", [["d"], [*ATTRIBUTES, "d", "d"], [*ATTRIBUTES, "e"]])
def test_an_order_names_each_column_once(columns: list[str]) -> None:
    with pytest.raises(DomainError, match="each attribute and each derived column once"):
        domain({"d": 1}, columns)


def test_results_stay_small() -> None:
    """Columns that double the one before: texts end at a thousand letters, numbers at 2^53."""
    derived: dict[str, object] = {"t0": "start", "n0": "hour + 1"}
    for before, after in itertools.pairwise(range(60)):
        derived |= {f"t{after}": f"t{before} + t{before}", f"n{after}": f"n{before} * 2"}
    table = decode(
        EncodedTable(domain(derived), (np.ones(3, np.uint8), *[np.zeros(3, np.uint8)] * 7)),
        np.random.default_rng(0),
    )
    assert table["t5"].str.len().tolist() == [640] * 3
    assert table["t6"].isna().all()
    assert table["t59"].isna().all()
    assert table["n51"].tolist() == [2**52] * 3
    assert table["n52"].isna().all()


@pytest.mark.parametrize("number", [150, *slow(600)])
def test_any_text_gives_a_column_or_the_packages_error(number: int) -> None:
    parts = (
        *("hour", "part", "start", "late", 'col("a b")', "nobody", "1", "0", "1.5e308", '"x"'),
        *("+", "-", "*", "/", "//", "%", "**", "(", ")", ",", ".", "@", "~", "not ", " if "),
        *("text(", "round(", "hour(", "year(", "col(", "row()", "uuid()", "lambda: ", "f'{hour}'"),
        *(
            "date(",
            "timestamp(",
            "week(",
            '"%d"',
            '"America/New_York"',
            "None",
            "True",
            "1j",
            "b''",
            "...",
            "\\",
            "\0",
            "\ud800",
            "é",
            "ﬁ",
        ),
    )
    rng = np.random.default_rng(5)
    given = 0
    began = time.process_time()
    for _ in range(number):
        expression = "".join(
            parts[place] for place in rng.integers(len(parts), size=rng.integers(1, 6))
        )
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                computed(expression)
            except DomainError:
                continue
        given += 1
    assert given > number / 30
    assert time.process_time() - began < number / 20


def test_a_name_and_an_expression_are_checked() -> None:
    with pytest.raises(DomainError, match="name"):
        DerivedColumn("", 1)
    with pytest.raises(DomainError, match="finite"):
        DerivedColumn("a", float("inf"))


def test_a_narrow_decimal_may_be_read() -> None:
    price = {"bounds": [0, 100], "bins": 4, "decimals": 2, "dtype": "decimal128(12, 2)[pyarrow]"}
    Domain.from_dict({"attributes": {"p": price}, "derived": {"r": "round(p, 1)"}})
