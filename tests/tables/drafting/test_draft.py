import uuid
from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jam_dagster.errors import (
    DomainError,
    InputError,
    PrivateValuesError,
    SpecificationError,
)
from jam_dagster.tables import (
    CategoricalAttribute,
    CsvSource,
    Domain,
    EncodedTable,
    NumericAttribute,
    decode,
    draft_domain,
    draft_table,
    encode,
    health_survey,
    wide_attributes,
)
from jam_dagster.tables.domain.binned import BinnedAttribute
from jam_dagster.tables.domain.columns import with_types
from jam_dagster.tables.drafting.drafted_domain import DraftedDomain
from tests.examples import examples
from tests.tiers import first_quick, slow


def draft(column, **options):
    return draft_domain(pd.DataFrame({"a": column}), **options).attribute("a")


def test_text_becomes_the_values_observed_and_other():
    attribute = draft(["b", "a", "b"])
    assert attribute.values == ("a", "b", "other")
    assert attribute.other == "other"
    assert attribute.nullable
    assert draft(["b", "a"], other=None).values == ("a", "b")
    assert draft(["b", "a"], other="rest").other == "rest"


def test_no_other_is_added_where_no_value_is_rare():
    attribute = draft(["b", "a"] * 5)
    assert (attribute.values, attribute.other) == (("a", "b"), None)
    # An unseen value of another table is missing, and ends nothing.
    assert attribute.nullable
    assert attribute.unreadable == "missing"
    encoded = encode(pd.DataFrame({"a": ["c", "b"]}), Domain((attribute,)))
    assert encoded.column("a").tolist() == [attribute.null_code, 1]
    assert draft(["b", "a"] * 5, other=None).unreadable == "error"
    # Four rows of a value are few, whatever the others are.
    rare = draft(["b", "a"] * 5 + ["c"] * 4)
    assert (rare.values, rare.other) == (("a", "b", "c", "other"), "other")
    # A value that no release may hold needs one, and one in the table stays one.
    assert draft(["b", "=a"] * 5).values == ("b", "other")
    assert draft(["b", "Other"] * 5).other == "Other"


def test_texts_that_a_spreadsheet_runs_become_other():
    drafted = draft_table(pd.DataFrame({"a": ["@home", "+49 170", "-", "away"]}))
    assert drafted.domain.attribute("a").values == ("-", "away", "other")
    assert (
        drafted.notes["a"]
        == "texts that a spreadsheet would run become 'other': '@home', '+49 170'"
    )


@pytest.mark.parametrize("name", ["other", "Other", "OTHER"])
def test_an_other_in_the_table_is_used(name):
    attribute = draft(["a", name])
    assert attribute.other == name
    assert len(attribute.values) == 2


def test_categories_that_are_too_many_to_be_counted_well_are_remarked_on():
    places = [f"place {number}" for number in range(140)]
    table = pd.DataFrame({"place": places * 2, "sex": ["F", "M"] * len(places)})
    drafted = draft_domain(table, other=None)
    remark = wide_attributes(drafted)
    assert "place (141 values)" in remark
    assert "sex" not in remark
    assert wide_attributes(drafted.project(["sex"])) == ""
    assert wide_attributes(draft_domain(table, private=table)) == ""


BOOLEANS = {"values": (False, True), "other": None, "unreadable": "missing"}


@pytest.mark.parametrize(
    ("column", "attribute"),
    [
        ([True, None], BOOLEANS | {"dtype": "boolean"}),
        (pd.Series([True, None], dtype=object), BOOLEANS | {"dtype": "boolean"}),
        ([Decimal("1.5"), "x", Decimal(2), "y"], {"values": (1.5, 2, "x", "y", "other")}),
        # Two bins would hold every number of another table.
        ([1.0, np.nan, 3.0], {"values": (1, 3), "dtype": "Int64", "unreadable": "missing"}),
        ([1.0, 2.0], {"values": (1, 2), "dtype": "float64"}),
        ([2018, 2019] * 9, {"values": (2018, 2019), "other": None, "unreadable": "missing"}),
        ([1.0, np.nan, 3.0, 4.0], {"integer": True, "dtype": "Int64", "bins": 3}),
        ([20180, 20190], {"integer": True, "bins": 2}),
        (
            [0.1, 0.4, 0.2],
            {"decimals": 1, "labels": ("0.1", "0.2", "0.4", "(unreadable)", "(null)")},
        ),
        ([0.25, 100.5], {"decimals": 2}),
        ([0.1, np.pi], {"decimals": None}),
        (pd.Series([0.1, 7.3], dtype="float32"), {"decimals": 1}),
        # Infinity is left to clipping.
        ([0.0, 1.0, 2.0, np.inf], {"bounds_text": ("0", "2"), "clip": True}),
        # Metres are no minutes.
        ([f"{one}m" for one in range(-20, 90)] * 2, {"format": "0m"}),
        (["1h 5m", *(f"{one}m" for one in range(1, 60))] * 2, {"format": "1h 20m"}),
        # Of few numbers, a text among them is a value.
        ([*"12345"] * 20 + ["refused"] * 3, {"values": (*"12345", "refused", "other")}),
        ([f"{one:04}" for one in range(60)] * 2 + ["x"], {"dtype": "str"}),
        (
            [20130601 + day for day in range(30)] * 2,
            {"unit": "day", "format": "%Y%m%d", "dtype": "Int64"},
        ),
        ([20130601, 20139999] * 9, {"integer": True, "format": None}),
    ],
)
def test_a_column_becomes_an_attribute(column, attribute):
    drafted = draft(column)
    assert {name: getattr(drafted, name) for name in attribute} == attribute
    assert drafted.nullable


def test_integers_get_a_bin_a_value_of_equal_width_where_these_are_few():
    attribute = draft([3, 5, 34], bins=32)
    assert attribute.labels == (*map(str, range(3, 35)), "(unreadable)", "(null)")
    assert attribute.integer
    assert attribute.clip
    assert attribute.nullable
    assert attribute.unreadable == "apart"
    wide = draft([3, 5, 35], bins=32)
    assert wide.bins == 32
    assert wide.edges[0] == 3
    assert wide.edges[-1] == 35


@pytest.mark.parametrize("bins", [1, 5, 32, *slow(2, 100)])
@pytest.mark.parametrize("decimals", [0, 3, *slow(1, 2)])
@pytest.mark.parametrize("count", [2, 31, 32, 33, 34, 64, 500])
def test_every_bin_of_a_draft_holds_a_value(bins, decimals, count):
    # A range as wide as the bins is where rounding could leave one without.
    values = (np.arange(count) + 7) / 10**decimals
    attribute = draft([*values, *values], bins=bins)
    assert attribute.bins == min(bins, count)
    low, high = attribute.bin_limits
    assert (low <= high).all()


@pytest.mark.parametrize("value", [5, 5.0, 0.1, np.pi, -3, 1e300])
def test_one_value_with_gaps_gets_one_bin_of_its_own(value):
    attribute = draft([value, None])
    assert attribute.bins == 1
    assert attribute.bin_limits[0].tolist() == [value]
    table = encode(pd.DataFrame({"a": [value]}), Domain((attribute,)))
    assert decode(table, np.random.default_rng(0))["a"].iloc[0] == value


def test_a_common_value_gets_a_bin_of_its_own():
    values = [0] * 50 + [40] * 30 + list(range(5, 300))
    attribute = draft(values, bins=32)
    assert "0" in attribute.labels
    assert "40" not in attribute.labels
    attribute = draft(values + [40] * 30, bins=32)
    assert {"0", "40"} <= set(attribute.labels)
    assert attribute.labels[0] == "0"
    assert attribute.labels[-3].endswith("to 299")
    # Few bins more than asked, and still every value in one.
    assert attribute.bins <= 32 + 4
    domain = Domain((attribute,))
    assert Domain.from_dict(domain.to_dict()) == domain


@pytest.mark.parametrize("bins", [None, 32])
@pytest.mark.parametrize("top", [100, 10.75])
def test_a_common_largest_value_ends_the_domain(top, bins):
    values = [top] * 60 + np.linspace(0, 10, 300).round(2).tolist()
    attribute = draft(values, bins=bins)
    low, high = attribute.bin_limits
    assert low[-1] == high[-1] == top
    encoded = encode(pd.DataFrame({"a": values}), Domain((attribute,)), private=False)
    decoded = decode(encoded, np.random.default_rng(0))["a"]
    assert (decoded == top).sum() == 60


def test_a_common_real_number_gets_a_bin_of_its_own():
    rng = np.random.default_rng(0)
    values = np.r_[np.full(100, np.pi), rng.normal(size=500), 10.0]
    attribute = draft(values)
    domain = Domain((attribute,))
    decoded = decode(encode(pd.DataFrame({"a": values}), domain), rng)["a"]
    assert (decoded == np.pi).sum() == 100


@examples(40)
@given(
    st.lists(
        st.floats(-1e12, 1e12) | st.integers(-(2**52), 2**52) | st.none(), min_size=1, max_size=40
    ),
    st.none() | st.integers(1, 40),
)
def test_a_drafted_domain_holds_its_table(values, bins):
    values = [*values, None, 1, 2]
    table = pd.DataFrame({"a": pd.Series(values, dtype="float64")})
    domain = draft_domain(table, bins=bins)
    encoded = encode(table, domain, private=False)
    again = encode(decode(encoded, np.random.default_rng(0)), domain)
    assert np.array_equal(encoded.columns[0], again.columns[0])
    assert Domain.from_dict(domain.to_dict()).digest == domain.digest


def test_dtypes_and_order_are_the_public_tables_with_room_for_gaps():
    public = pd.DataFrame(
        {
            "z": pd.Series([1, 2], dtype="int8"),
            "y": pd.Series([0.5, 1.25], dtype="float32"),
            "x": pd.Series(["u", "v"], dtype="category"),
            "w": pd.Series(["u", None], dtype="string"),
            "v": pd.Series([True, False]),
            "u": pd.Series([1, None], dtype="UInt16"),
            "t": pd.Series([0.5, None], dtype="Float64"),
            "s": pd.Series([300, 7], dtype="int64[pyarrow]"),
            "r": pd.Series([3.0, 7.0]),
        }
    )
    domain = draft_domain(public)
    assert domain.names == tuple(public.columns)
    table = decode(encode(public, domain), np.random.default_rng(0))
    dtypes = ["Int8", "float32", "category", "string", "boolean", "UInt16", "Float64", "Int64"]
    assert table.dtypes.astype(str).tolist() == [*dtypes, "float64"]


DAYS = [f"2020-{month:02d}-{day:02d}" for month in range(1, 13) for day in range(1, 15)]
CELLS: dict[str, list[Any]] = {
    "dates": [*DAYS, None],
    "durations": [f"{hour}:{minute:02d}:00" for hour in range(30) for minute in range(0, 60, 7)],
    "money": [f"${number}.50" for number in range(150)],
    "numbers in texts": [*map(str, range(150)), "none"],
    "words": ["a", "b", None],
    "keys": [f"key {number}" for number in range(150)],
    "integers": [*range(150, 0, -1), 3],
    "integers with gaps": [*range(150), 3, None],
    "decimals": [Decimal(number) / 100 for number in range(150)] + [None],
    "fractions": [number / 8 for number in range(150)],
    "booleans": [True, False, None],
    "days": [pd.Timestamp(one).date() for one in DAYS],
    "moments": [pd.Timestamp(one) for one in DAYS] + [None],
    "moments with a zone": [pd.Timestamp(one, tz="Europe/Berlin") for one in DAYS],
    "lengths": [pd.Timedelta(number, "h") for number in range(150)],
}
CONTAINERS: dict[str, Callable[[list[Any]], pd.Series]] = {
    "objects": lambda cells: pd.Series(cells, dtype=object),
    "Arrow": lambda cells: pd.Series(pd.arrays.ArrowExtensionArray(pa.array(cells))),
    "large texts": lambda cells: pd.Series(cells, dtype=pd.ArrowDtype(pa.large_string())),
    "a dictionary": lambda cells: pd.Series(
        pd.arrays.ArrowExtensionArray(pa.array(cells).dictionary_encode())
    ),
    "a category": lambda cells: pd.Series(cells, dtype="category"),
}
# Some dtypes say more than others: the levels of a category, the digits of decimals, a zone.
DECLARED = {"words", "integers", "integers with gaps", "decimals", "fractions", "booleans"}
SAYING_MORE = {
    *((cells, container) for cells in DECLARED for container in ("a dictionary", "a category")),
    ("decimals", "Arrow"),
    *(("moments with a zone", container) for container in ("objects", "a dictionary")),
}


@cache
def drafted_as_given(cells: str) -> DraftedDomain:
    given = CELLS[cells]
    other = [place % 3 for place in range(len(given))]
    return draft_table(pd.DataFrame({"a": given, "b": other}))


@pytest.mark.parametrize(
    ("cells", "container"),
    [
        # Each kind of cells and each container once in the first tier.
        pytest.param(
            *(cells, container),
            marks=() if container == "Arrow" or cells == "dates" else pytest.mark.slow,
        )
        for cells, given in CELLS.items()
        for container in CONTAINERS
        if (cells, container) not in SAYING_MORE
        and (container != "large texts" or isinstance(given[0], str))
    ],
)
def test_the_same_cells_have_one_domain_whatever_holds_them(cells, container):
    expected = drafted_as_given(cells)
    other = [place % 3 for place in range(len(CELLS[cells]))]
    drafted = draft_table(pd.DataFrame({"a": CONTAINERS[container](CELLS[cells]), "b": other}))
    assert drafted.domain == expected.domain
    assert drafted.left_out == expected.left_out
    assert drafted.notes == expected.notes


LEVELS: dict[str, pd.CategoricalDtype] = {
    "texts": pd.CategoricalDtype(["low", "mid", "high", "very high"]),
    "in order": pd.CategoricalDtype(["low", "mid", "high", "very high"], ordered=True),
    "months in order": pd.CategoricalDtype(["2024-03", "2024-02", "2024-01"], ordered=True),
    "integers": pd.CategoricalDtype([30, 10, 20, 99]),
    "numbers": pd.CategoricalDtype([1.5, 0.25, 3.0]),
    "yes and no": pd.CategoricalDtype(["yes", "no"]),
    "booleans": pd.CategoricalDtype([True, False]),
    "many": pd.CategoricalDtype([f"town {number}" for number in range(900, 0, -1)]),
    "with an other": pd.CategoricalDtype(["Other", "a"]),
}


@pytest.mark.parametrize("levels", LEVELS)
def test_the_levels_of_a_category_stay_with_their_order_and_type(levels):
    dtype = LEVELS[levels]
    all_rows = pd.Series([*dtype.categories, None], dtype=dtype)
    public = pd.concat([all_rows[1:]] * 3, ignore_index=True)
    domain = draft_domain(pd.DataFrame({"a": public}))
    assert domain.attribute("a").values == tuple(dtype.categories)
    assert domain.attribute("a").other is None
    assert Domain.from_dict(domain.to_dict()) == domain
    decoded = decode(encode(pd.DataFrame({"a": all_rows}), domain), np.random.default_rng(0))
    pd.testing.assert_series_equal(decoded["a"], all_rows, check_names=False)
    # Another table may have other levels.
    unlisted = encode(pd.DataFrame({"a": ["no such level"]}), domain)
    assert unlisted.columns[0].tolist() == [domain.attribute("a").null_code]


def test_drafts_from_both_tables_are_the_papers_and_marked():
    public = pd.DataFrame({"a": ["x", "y"], "n": [0] * 2, "m": [1, 2]})
    private = pd.DataFrame({"n": [0, 99, None], "m": [1, 3, 1], "a": ["z", "x", "x"], "extra": 0})
    domain = draft_domain(public, private=private)
    assert domain.restricted
    assert domain.attribute("a").values == ("x", "y", "z")
    assert domain.attribute("a").other is None
    assert domain.attribute("n").bins == 32
    assert domain.attribute("n").nullable
    assert domain.attribute("n").dtype == "Int64"
    assert domain.shape == (3, 33, 3)
    assert not draft_domain(public).restricted


def test_drafts_of_the_health_survey_hold_both_parts():
    private, public = health_survey(500, 500)
    domain = draft_domain(public)
    assert encode(private, domain).records == 500
    assert encode(public, domain).records == 500


BOTH_ENDS = pd.Series(["0001-01-01", "9999-12-31 23:59:59"]).astype("datetime64[us, UTC]")
BOTH_ENDS = BOTH_ENDS.dt.tz_convert("Pacific/Auckland")
LEFT_OUT = [
    ([f"person {number}" for number in range(101)], "holds 101 different texts in 101 rows, such"),
    ([f"person {number % 60}" for number in range(101)] + [*map(str, range(99))], "holds 159"),
    ([f"{number} 456 789" for number in range(100, 201)], "holds 101 different texts"),
    ([f"{number:,}" for number in range(950, 1080)], "holds another integer in each of 130"),
    (range(7, 108), "holds another integer in each of 101 rows"),
    ([number * 1009 for number in range(101)], "holds another integer in each of 101 rows"),
    ([2**60 + number for number in range(101)], "holds another integer in each of 101 rows"),
    ([2**60 + number % 200**2 for number in range(400)] * 2, "holds 400 numbers of so many digits"),
    ([Decimal(10**20) + number % 5 for number in range(50)], "holds 5 numbers of so many digits"),
    ([2**60 + 1] * 2, "is 1152921504606846977 in every row"),
    ([Decimal(10**20)] * 2, "is 100000000000000000000 in every row"),
    ([None, None], "is missing in every row"),
    ([np.nan, np.nan], "is missing in every row"),
    ([np.inf, np.inf], "holds no finite number"),
    ([7, 7], "is 7 in every row"),
    ([True, True], "is True in every row"),
    (["x\ny", "x\ny"], r"is x\ny in every row"),
    (
        [pd.Timestamp("2024-01-31").date(), pd.Timestamp("2024-01-31")],
        "holds dates or times mixed with",
    ),
    ([pd.Timestamp("2024-01-31")] * 2, "is 2024-01-31 00:00:00 in every row"),
    (BOTH_ENDS, "holds dates that a time zone moves beyond the years 1 to 9999"),
    ([1j], "holds values of type complex128, which cannot be counted"),
    ([{"a": 1}], "holds nested values"),
    ([[1], None], "holds nested values"),
    (["a", [1]], "holds nested values"),
    ([b"a", b"b"], "holds objects that are neither"),
    ([b"a", "b"], "holds objects that are neither texts nor numbers, mixed with others"),
    ([uuid.UUID(int=1), uuid.UUID(int=2)], "holds objects that are neither"),
    (np.array([2**64 - 1 - n for n in range(400)] * 2, dtype="uint64"), "holds integers too large"),
    (pd.Series(["\ud800", "a"], dtype=object), "attribute 'a' lists '"),
]


def test_all_that_cannot_be_modelled_is_left_out_at_once():
    for column, reason in LEFT_OUT:
        column = pd.Series(column)
        table = pd.DataFrame({"id": column.index % 2, "a": column, "b": column.index % 3 == 0})
        if len(table) == 1:
            table = pd.concat([table, table.assign(id=1, b=False)])
        draft = draft_table(table, infer=False)
        assert draft.domain.names == ("id", "b")
        (left_out,) = draft.left_out
        assert (left_out.name, left_out.index) == ("a", 1)
        assert str(left_out).startswith(f"a: {reason}")
    with pytest.raises(DomainError, match=r"no column .* \(a: is 1 in every row; b: is missing"):
        draft_table(pd.DataFrame({"a": [1, 1], "b": None}))


def test_of_many_different_texts_it_is_said_what_helps():
    rows = range(150)
    table = pd.DataFrame(
        {
            "fine": ["a", "b", "c"] * 50,
            "price": [f"{'$' if one % 3 else '€'}{one}.50" for one in rows],
            "number": pd.Series([f"{one}.25" for one in rows], dtype="str"),
            "code": [f"{one}X" for one in range(1000, 1150)],
            "day": [
                f"{date(2020, 1, 1) + timedelta(one):{('%Y-%m-%d', '%d.%m.%Y')[one % 2]}}"
                for one in rows
            ],
            "pressure": [f"{100 + one}/{60 + one}" for one in rows],
        }
    )
    assert {one.name: one.reason.partition(", ")[2] for one in draft_table(table).left_out} == {
        "price": "numbers with several units ($, €): put the units in a column of their own",
        "number": "all of them numbers: make numbers of them in the source, unless they are keys",
        "day": (
            "dates in several formats, such as '2020-01-01' and '02.01.2020': write them in one"
            " format in the source"
        ),
        "pressure": ("two numbers each, as in '100/60': make two columns of them in the source"),
        "code": (
            "such as names, keys or remarks, which identify persons: shorten or group them in the"
            " source to keep them"
        ),
    }


def test_keys_look_like_keys():
    rng = np.random.default_rng(0)
    sparse = np.sort(rng.choice(10**6, 150, replace=False))
    for name in ("customer_id", "orderNumber", "ID", "invoice no", "Unnamed: 0"):
        keys = draft_table(pd.DataFrame({name: sparse, "b": [1, 2] * 75}), infer=False)
        (left_out,) = keys.left_out
        assert left_out.name == name
    # Different and sorted numbers may be salaries.
    for name in ("salary", "paid", "width"):
        assert draft_table(pd.DataFrame({name: sparse})).domain.attribute(name).integer


def test_a_file_says_in_the_tables_order_what_is_left_out(tmp_path):
    values = {"a": [1, 2] * 25, "n": None, "=b": ["x"] * 25 + ["y"] * 25, "z": 0}
    table = pd.DataFrame({"year\n  x: 1": 2013} | values)
    draft = draft_table(table)
    draft.save(tmp_path / "domain.yaml")
    lines = (tmp_path / "domain.yaml").read_text().splitlines()
    assert [line for line in lines if line.lstrip()[0] == "#" or line[-1] == ":"] == [
        "attributes:",
        r"  # left out: year\n  x: 1: is 2013 in every row",
        "  a:",
        "  # left out: n: is missing in every row",
        "  # a spreadsheet would run its name as a formula, which no release may hold: give it"
        " another first character in both tables, or exclude it",
        "  =b:",
        "  # left out: z: is 0 in every row",
        "repairs:",
        "derived:",
        "columns:",
        "# Rules that hold in every row of the public table, to be written below `derived`:",
        r'# "year\n  x: 1": 2013',
        "# z: 0",
    ]
    assert Domain.load(tmp_path / "domain.yaml") == draft.domain
    draft.save(tmp_path / "domain.json")
    assert Domain.load(tmp_path / "domain.json") == draft.domain


def test_nothing_is_proposed_from_few_rows():
    days = pd.date_range("2024-01-01", periods=60)
    table = pd.DataFrame(
        {"at": days, "day": days.day, "a": ["x", "y"] * 30, "b": ["x", "y"] * 30, "z": 7}
    )
    drafted = draft_table(table.head(30), infer=False)
    assert (list(drafted.proposed), drafted.domain.repairs) == (["z"], ())
    drafted = draft_table(table, infer=False)
    assert list(drafted.proposed) == ["day", "b", "z"]
    assert drafted.domain.repairs


def test_columns_are_chosen_by_name():
    table = pd.DataFrame({"age": [1, 2], "sex": ["f", "m"], "year": 2013})
    assert draft_table(table, columns=["sex", "age"]).domain.names == ("age", "sex")
    assert draft_table(table, columns=["sex", "age"]).left_out == ()
    assert draft_table(table, exclude=["age", "year"]).domain.names == ("sex",)
    for options in ({"columns": ["agee"]}, {"exclude": ["agee"]}):
        with pytest.raises(InputError, match=r"no column 'agee': did you mean age\?"):
            draft_table(table, **options)
    with pytest.raises(InputError, match="no column is left"):
        draft_table(table, columns=["age"], exclude=["age"])


def test_the_most_frequent_of_many_texts_are_kept():
    places = [f"place {number:02}" for number in range(80)]
    frequent = draft(places + places[:30] * 5)
    assert frequent.values == (*places[:30], "other")
    assert frequent.code_of("place 79") == 30
    drafted = draft_table(pd.DataFrame({"a": places + places[:30] * 5}))
    assert drafted.notes["a"] == (
        "50 of 80 texts become 'other', in 22% of the public rows: group them in the source to keep"
        " them"
    )
    # Where none is frequent, some of them.
    assert len(draft(places).values) == 61


def test_booleans_keep_the_spelling_of_the_table():
    attribute = draft(["Yes", "No", "Yes"])
    assert attribute.values == ("No", "Yes")
    assert (attribute.other, attribute.unreadable) == (None, "missing")
    assert [attribute.code_of(one) for one in ("YES", "yes", True, "FALSE")] == [1, 1, 1, 0]
    assert [attribute.code_of(one) for one in ("other", 2, None, "", "-1")] == [None] * 5
    assert draft(["yes", "Yes", "no"]).other == "other"
    assert draft(["Y", "N"]).code_of(np.True_) == 1


def test_large_integers_stay_apart():
    known = [2**60 + number for number in (0, 1, 10**9, 2**40)]
    table = pd.DataFrame({"a": known * 9})
    domain = draft_domain(table)
    decoded = decode(encode(table, domain, private=False), np.random.default_rng(0))
    assert decoded["a"].tolist() == known * 9
    assert str(decoded["a"].dtype) == "Int64"


@pytest.mark.parametrize(
    ("known", "dtype"),
    [
        ([-(2**63), 2**53, 2**53 + 1, 103241243500726320, 103241243500726324, 2**63 - 1], "Int64"),
        ([5, 2**64 - 2, 2**64 - 1], "UInt64"),
        ([2**64, 2**64 + 1], "str"),
    ],
)
def test_few_integers_of_any_size_are_categories_in_every_container(tmp_path, known, dtype):
    table = pd.DataFrame({"a": known * 9, "b": range(9 * len(known))})
    tables = [table.astype({"a": str}), table]
    if dtype != "str":
        tables.append(table.astype({"a": dtype}))
        table.to_parquet(tmp_path / "table.parquet")
        tables.append(pd.read_parquet(tmp_path / "table.parquet"))
    tables.append(with_types(table.astype({"a": "str"}), ()))
    for table in tables:
        domain = draft_domain(table)
        decoded = decode(encode(tables[1], domain, private=False), np.random.default_rng(0))
        assert decoded["a"].astype(str).tolist() == [*map(str, known)] * 9
    assert domain.attribute("a").dtype == dtype
    # A text as a CSV file has it.
    assert [domain.attribute("a").code_of(str(one)) for one in known] == [*range(len(known))]


@pytest.mark.parametrize("number", [int, float])
def test_levels_of_several_types_leave_as_texts(tmp_path, number):
    levels = [number(1), "1", "2", number(3), "X"]
    table = pd.DataFrame({"a": pd.Series(levels * 20, dtype=object), "b": [0, 1] * 50})
    domain = draft_domain(table)
    decoded = decode(encode(table, domain, private=False), np.random.default_rng(0))
    assert decoded["a"].tolist() == ["1", "1", "2", "3", "X"] * 20
    decoded.to_parquet(tmp_path / "table.parquet")
    # Numbers and texts are read as before.
    assert [domain.attribute("a").code_of(one) for one in (1, 1.0, "1.0", "x")] == [0, 0, 0, 3]


def test_large_integers_and_decimals_are_numbers():
    domain = draft_domain(
        pd.DataFrame(
            {
                "large": [2**62 + 2**40 * number**2 for number in range(200)] * 2,
                "price": [Decimal(number**2).scaleb(-2) for number in range(200)] * 2,
            }
        )
    )
    large, price = domain.attributes
    assert (large.integer, large.dtype) == (True, "Int64")
    assert (price.decimals, price.dtype) == (2, "decimal128(38, 2)[pyarrow]")
    codes = EncodedTable(domain, tuple(np.arange(20) for _ in domain.names))
    table = decode(codes, np.random.default_rng(0))
    assert table.dtypes.astype(str).tolist() == [large.dtype, price.dtype]
    assert all(isinstance(one, Decimal) for one in table["price"])
    assert all(map(np.array_equal, encode(table, domain).columns, codes.columns))


@pytest.mark.parametrize("bins", [0, -1, 2.5, True])
def test_bins_that_are_refused(bins):
    with pytest.raises(SpecificationError, match="positive integer"):
        draft([1, 2], bins=bins)


@pytest.mark.parametrize(
    ("public", "private", "error", "message"),
    [
        (pd.DataFrame({"a": []}), None, InputError, "without rows"),
        (pd.DataFrame(index=[0]), None, InputError, "no columns"),
        (pd.DataFrame({0: [1]}), None, DomainError, "must be a text"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), None, DomainError, "'a' twice"),
        (pd.DataFrame({"a": [1]}), pd.DataFrame({"b": [1]}), DomainError, "column 'a'"),
        (
            pd.DataFrame({"a": [1]}),
            pd.DataFrame({"a": ["x"]}),
            PrivateValuesError,
            "always the same",
        ),
    ],
)
def test_tables_that_are_refused(public, private, error, message):
    with pytest.raises(error, match=message):
        draft_domain(public, private=private)


def test_whether_a_private_table_has_rows_is_not_told():
    public = pd.DataFrame({"a": [1, 2], "b": ["x", "y"], "c": [0.5, None], "d": [True, False]})
    found = draft_domain(public, private=public.iloc[:0].astype("str"))
    assert found.names == ("a", "b", "c", "d")
    assert found.restricted


def test_private_texts_are_read_like_the_public_columns():
    public = pd.DataFrame({"n": [1, 2], "b": [True, False], "t": ["x", "01"]})
    private = pd.DataFrame({"n": ["1.0", "5"], "b": ["TRUE", "false"], "t": ["01", "1"]})
    domain = draft_domain(public, private=private)
    assert domain.attribute("n").labels == ("1", "2", "3", "4", "5")
    assert domain.attribute("b").values == (False, True)
    assert domain.attribute("t").values == ("01", "1", "x")
    with pytest.raises(PrivateValuesError):
        draft_domain(public, private=private.assign(n="many"))


@pytest.mark.parametrize("odd", [15550217, 0, 19801301, *slow(2020101, 19800100, 99991231)])
@pytest.mark.parametrize("dtype", ["int64", "str", *slow("Int64", "int64[pyarrow]")])
def test_a_few_odd_cells_change_no_kind_in_silence(odd, dtype):
    days = pd.date_range("1930-01-01", periods=249, freq="97D").strftime("%Y%m%d").astype(int)
    column = pd.Series([*days, odd]).astype(dtype)
    drafted = draft_table(pd.DataFrame({"born": column}))
    born = drafted.domain.attribute("born")
    assert born.format == "%Y%m%d"
    read = not np.isnan(born.clock.count_of(odd))
    assert read or "1 of 250 public cells are released as missing" in drafted.notes["born"]


@pytest.mark.parametrize("mean", [9.0, 6.0])
def test_thousands_are_read_beside_numbers_without(tmp_path: Path, mean: float) -> None:
    """Above and below a thousand, whichever most numbers are, none is missing or moved."""
    amounts = np.exp(np.random.default_rng(0).normal(mean, 1.0, 600)).round(2)
    assert 0.01 < (amounts < 1000).mean() < 0.99
    for group, point in (".,", ",."):
        texts = [f"{one:,.2f}".translate({44: group, 46: point}) for one in amounts]
        lines = ["fee;sex", *(f"{text};{'fm'[row % 2]}" for row, text in enumerate(texts))]
        (tmp_path / "fees.csv").write_text("\n".join(lines))
        source = CsvSource(str(tmp_path / "fees.csv"), separator=";", decimal=point)
        drafted = draft_table(source.read(private=False))
        assert drafted.notes == {}
        fee = drafted.domain.attribute("fee")
        assert isinstance(fee, NumericAttribute)
        assert (fee.edges[0], fee.edges[-1]) == (amounts.min(), amounts.max())
        assert fee.format == f"#{group}##0{point}00"
        # A private table is read cell by cell, and gives the same.
        private = encode(source.read(private=True), drafted.domain, private=True).column("fee")
        assert np.array_equal(private, np.searchsorted(fee.edges[1:-1], amounts, side="right"))
        synthetic = decode(
            EncodedTable(drafted.domain, (private, private * 0)), np.random.default_rng(0)
        )["fee"]
        assert all(fee.number_format.read(one) is not None for one in synthetic)


def test_few_odd_numbers_decide_no_format() -> None:
    plain = [f"{one}.25" for one in range(500, 900)]
    odd = draft_table(pd.DataFrame({"fee": [*plain * 5, *["1,374.50"] * 10]}))
    fee = odd.domain.attribute("fee")
    assert isinstance(fee, NumericAttribute)
    assert fee.format is None
    unread = "10 of 2,010 public cells are released as missing, such as '1,374.50'"
    assert unread in odd.notes["fee"]
    # Here 1.672 would be one thing in one cell and another one beside it.
    table = pd.DataFrame({"share": ["1.672", "0.5", "0.25"] * 300 + ["1.374,93"] * 100})
    assert "#.##0" not in str(getattr(draft_table(table).domain.attribute("share"), "format", ""))


_WRITTEN: dict[str, Callable[[float], Any]] = {
    "numbers": "{:.2f}".format,
    "dollars": "${:,.2f}".format,
    "dates": lambda one: f"{date(2020, 1, 1) + timedelta(int(one))}",
    "dates in Germany": lambda one: f"{date(2020, 1, 1) + timedelta(int(one)):%d.%m.%Y}",
}


@pytest.mark.parametrize("kind", first_quick(_WRITTEN))
def test_a_few_words_among_many_values_become_missing(kind: str) -> None:
    amounts = np.random.default_rng(0).uniform(100, 2500, 600).round(2).tolist()
    texts = list(map(_WRITTEN[kind], amounts))
    plain = draft(amounts if kind == "numbers" else texts)
    drafted = draft_table(pd.DataFrame({"a": [*texts, *["n/a"] * 200, *["refused"] * 40]}))
    found = drafted.domain.attribute("a")
    assert isinstance(found, BinnedAttribute)
    assert (found.edges, getattr(found, "format", None)) == (plain.edges, plain.format)
    assert "240 of 840 public cells are released as missing, such as 'n/a'" in drafted.notes["a"]
    # Few values are listed with the word.
    assert isinstance(draft([*texts[:40], *["n/a"] * 20]), CategoricalAttribute)


@pytest.mark.parametrize("others", [["90+"] * 10, [f"word {one}" for one in "abcdef"]])
def test_a_text_with_a_digit_or_many_texts_may_be_values(others: list[str]) -> None:
    texts = [*map(str, range(80)), *others]
    drafted = draft_table(pd.DataFrame({"a": texts * 10}))
    assert isinstance(drafted.domain.attribute("a"), CategoricalAttribute)
    assert f"; they are mostly numbers, but {others[0]!r}" in drafted.notes["a"]
    # Nearly all is enough.
    drafted = draft_table(pd.DataFrame({"a": [*texts * 10, *texts[:80] * 200]}))
    assert isinstance(drafted.domain.attribute("a"), NumericAttribute)
