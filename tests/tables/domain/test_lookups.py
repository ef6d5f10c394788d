from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from jam_dagster.errors import DomainError, SpecificationError
from jam_dagster.tables import Domain, EncodedTable, decode, draft_table, encode
from jam_dagster.tables.domain import lookups
from jam_dagster.tables.domain.derived import broken_rows
from jam_dagster.tables.domain.lookups import Lookup
from tests.tiers import slow

ATTRIBUTES = {
    "origin": {"values": ["JFK", "LGA", "EWR"], "nullable": True},
    "dest": {"values": ["LAX", "BOS", "other"], "other": "other", "nullable": True},
}
MILES = [
    ["JFK", "LAX", 2475],
    ["JFK", "BOS", 187],
    ["JFK", "other", [1089, 944]],
    ["LGA", "BOS", 184],
    [None, "LAX", None],
]


def domain(**derived):
    return Domain.from_dict({"attributes": ATTRIBUTES, "derived": derived})


def decoded(made, rows, seed=0):
    table = EncodedTable(made, tuple(np.array(rows).T))
    return decode(table, np.random.default_rng(seed))


def test_the_file_form_is_kept_and_in_the_digest():
    entry = {"lookup": ["origin", "dest"], "values": MILES}
    made = domain(miles=entry)
    assert made.to_dict()["derived"] == {"miles": entry}
    assert made.columns["miles"] == "Int64"
    assert domain(miles=entry | {"dtype": "float64"}).columns["miles"] == "float64"
    assert Domain.from_dict(made.to_dict()).digest == made.digest
    other = [*MILES[:-1], [None, "LAX", 1]]
    assert domain(miles=entry | {"values": other}).digest != made.digest
    assert made.derived[0].described == "looked up by origin, dest in a table of 5 entries"


def test_listed_combinations_have_their_value():
    made = domain(miles={"lookup": ["origin", "dest"], "values": MILES})
    rows = [(0, 0), (0, 1), (1, 1), (3, 0)]
    assert decoded(made, rows)["miles"].tolist() == [2475, 187, 184, pd.NA]


def test_of_several_values_each_row_has_one():
    made = domain(miles={"lookup": ["origin", "dest"], "values": MILES})
    found = decoded(made, [(0, 2)] * 200)["miles"].value_counts()
    assert sorted(found.index) == [944, 1089]
    assert found.min() > 60  # Below it by chance: 1e-8.


def test_an_unlisted_combination_has_the_same_value_in_each_row():
    made = domain(miles={"lookup": ["dest", "origin"], "values": [[b, a, m] for a, b, m in MILES]})
    # Boston from Newark is not listed: as far as from another airport.
    far = decoded(made, [(2, 1)] * 50)["miles"].unique()
    assert len(far) == 1
    assert far[0] in (184, 187)
    assert decoded(made, [(2, 1)] * 3, seed=9)["miles"].unique().tolist() == far.tolist()
    # No entry has a missing destination.
    assert decoded(made, [(0, 3)])["miles"].isin([2475, 187, 1089, 944, 184, pd.NA]).all()


def test_a_lookup_reads_derived_columns_and_is_read():
    made = domain(
        short={"expression": "text(origin)", "values": {"JFK": "J", "LGA": "L", "EWR": "E"}},
        miles={"lookup": ["short"], "values": [["J", 1.5], ["L", 2.5]]},
        double="miles * 2",
    )
    found = decoded(made, [(0, 0), (1, 0)])
    assert found["double"].tolist() == [3.0, 5.0]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"lookup": [], "values": [[1]]}, "from 1 to 3 columns"),
        ({"lookup": ["a", "b", "c", "d"], "values": []}, "from 1 to 3 columns"),
        ({"lookup": ["dest", "dest"], "values": [["a", "a", 1]]}, "column twice"),
        ({"lookup": ["dest"], "values": []}, "has no value"),
        ({"lookup": ["dest"]}, "has no value"),
        ({"lookup": ["dest"], "values": [["LAX", None]]}, "has no value"),
        ({"lookup": ["dest"], "values": [["LAX", 1], ["LAX", 2]]}, "combination twice"),
        ({"lookup": ["dest"], "values": [["LAX", 1], ["BOS", "x"]]}, "all texts"),
        ({"lookup": ["dest"], "values": [["LAX", 2**60]]}, "up to 2\\^53"),
        ({"lookup": ["dest"], "values": [["LAX"]]}, "must list the values of dest"),
        ({"lookup": ["dest"], "values": [["LAX", []]]}, "and a result"),
        ({"lookup": ["dest"], "values": [["LAX", {"a": 1}]]}, "a value must be a text"),
        ({"lookup": ["dest"], "values": [[{"a": 1}, 1]]}, "a value must be a text"),
        ({"lookup": ["dest"], "values": [[float("nan"), 1]]}, "a value must be a text"),
        ({"lookup": ["dest"], "values": [["\ud800", 1]]}, "a value must be a text"),
        ({"lookup": ["gate"], "values": [["A", 1]]}, "reads 'gate'"),
        ({"lookup": ["miles"], "values": [["A", 1]]}, "circle"),
        ({"lookup": ["dest"], "expression": "dest", "values": []}, "unknown key 'expression'"),
    ],
)
def test_what_is_no_lookup_is_refused(entry, message):
    with pytest.raises((DomainError, SpecificationError), match=message):
        domain(miles=entry)


def test_a_value_is_compared_as_the_dtype_holds_it():
    values = [["JFK", 0.1], ["LGA", 1e300], ["EWR", 3]]
    made = domain(miles={"lookup": ["origin"], "values": values, "dtype": "float32"})
    table = decoded(made, [(0, 0), (1, 0), (2, 0)])
    assert table["miles"].isna().tolist() == [False, True, False]
    assert not broken_rows(made.plan[0], table).any()
    assert broken_rows(made.plan[0], table.assign(miles=np.float32(0.2))).all()


def test_a_text_that_no_cell_may_hold_breaks_nothing():
    values = [["JFK", "=1+1"], ["LGA", "x" * 1001], ["EWR", "x"]]
    made = domain(note={"lookup": ["origin"], "values": values})
    table = decoded(made, [(0, 0), (1, 0), (2, 0)])
    assert table["note"].isna().tolist() == [True, True, False]
    assert not broken_rows(made.plan[0], table).any()


def test_the_values_of_a_file_are_bounded(monkeypatch):
    monkeypatch.setattr(lookups, "_MOST_VALUES", 3)
    with pytest.raises(DomainError, match="more than 3 values"):
        Lookup(("dest",), ((("LAX",), (1, 2)), (("BOS",), (3, 4))))


# --- found in a public table


def flights(rows=4000, seed=0, **changes):
    """Flights whose distance follows from the route, and the airline's name from its code."""
    rng = np.random.default_rng(seed)
    origin = rng.choice(["JFK", "LGA", "EWR"], rows)
    dest = rng.choice([f"D{one:02}" for one in range(20)], rows)
    miles = {(a, b): int(rng.integers(100, 3000)) for a in ("JFK", "LGA", "EWR") for b in set(dest)}
    table = pd.DataFrame({"origin": origin, "dest": dest})
    table["miles"] = [miles[route] for route in zip(origin, dest, strict=True)]
    table["region"] = table["dest"].map(lambda one: f"region {int(one[1:]) % 4}")
    table["delay"] = rng.normal(0, 30, rows).round(1)
    return table.assign(**changes), miles


def drafted(table, **given):
    made = draft_table(table, **given)
    kept = [one for one in made.domain.derived if isinstance(one.expression, Lookup)]
    return made, {one.name: one.expression for one in kept}


def test_what_one_or_two_columns_determine_is_found():
    table, miles = flights()
    made, found = drafted(table)
    assert {name: set(one.columns) for name, one in found.items()} == {
        "miles": {"origin", "dest"},
        "region": {"dest"},
    }
    assert found["miles"].columns[0] == "dest"
    entries = {key[::-1]: values for key, values in found["miles"].entries}
    assert entries == {route: (far,) for route, far in miles.items()}
    assert made.domain.names == ("origin", "dest", "delay")
    assert list(made.domain.columns) == list(table.columns)
    assert "miles: 'looked up by dest, origin in a table of 60 entries'" in made.remark


def test_what_is_not_derived_is_proposed():
    table, _ = flights()
    made, found = drafted(table, infer=False)
    assert found == {}
    assert set(made.proposed) == {"miles", "region"}
    assert made.domain.names == tuple(table.columns)
    content = made.domain.to_dict()
    content["attributes"] = {
        name: one for name, one in content["attributes"].items() if name not in made.proposed
    }
    content["repairs"] = []
    assert Domain.from_dict(content | {"derived": dict(made.proposed)}).derived


def test_rows_of_unlisted_values_confirm_nothing_and_keep_their_values():
    table, _ = flights()
    rare = table.index[:80]
    # Of many values the most frequent 60 are listed.
    table.loc[rare, "dest"] = [f"X{place % 50:02}" for place in range(80)]
    table.loc[rare, "region"] = ["far", "farther"] * 40
    _, found = drafted(table)
    entries = dict(found["region"].entries)
    assert set(entries["other",]) == {"far", "farther"}
    assert entries["D00",] == ("region 0",)


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.head(900),
        # One row breaks it.
        lambda table: table.assign(region=table["region"].where(table.index > 0, "region 9")),
        # Few rows have another value than the most frequent one.
        lambda table: table.assign(region=np.where(table["dest"] == "D00", "rare", "plain"))[
            (table["dest"] != "D00") | (table.groupby("dest").cumcount() < 40)
        ],
        # A missing cell is a value.
        lambda table: table.assign(region=table["region"].where(table.index > 0)),
    ],
)
def test_what_chance_may_explain_is_not_found(change):
    table, _ = flights()
    table = change(table)
    _, found = drafted(table[["origin", "dest", "region", "delay"]])
    assert found == {}


def test_a_column_is_looked_up_by_the_numbers_of_another_that_share_bins():
    table, _ = flights()
    table["age"] = np.random.default_rng(5).integers(18, 90, len(table))
    table["group"] = pd.cut(table["age"], [0, 29, 64, 120], labels=["young", "mid", "old"])
    table["group"] = table["group"].astype(str)
    made, found = drafted(table[["origin", "age", "group", "delay"]])
    assert found["group"].columns == ("age",)
    assert made.domain.attribute("age").size < 72
    again = decode(encode(table, made.domain, private=False), np.random.default_rng(0))
    expected = np.select([again["age"] < 30, again["age"] < 65], ["young", "mid"], "old")
    assert (again["group"] == expected).all()


def test_no_column_is_looked_up_by_one_that_is():
    table, _ = flights()
    table["zone"] = table["region"].map({f"region {one}": one % 2 for one in range(4)})
    _, found = drafted(table)
    assert found["zone"].columns == found["region"].columns == ("dest",)


def test_a_date_is_never_looked_up():
    table, _ = flights()
    days = pd.date_range("2024-05-01", periods=20).strftime("%d.%m.%Y")
    table["opened"] = table["dest"].map(dict(zip(sorted(set(table["dest"])), days, strict=True)))
    table["closed"] = table["opened"].str.replace("05.2024", "06.2024")
    made, found = drafted(table)
    assert not {"opened", "closed"} & found.keys()
    assert made.domain.attribute("opened").format == "%d.%m.%Y"


def test_what_was_found_reads_no_other_table():
    """Codes of a private table are the same with and without lookups, repairs and formulas."""
    table, _ = flights()
    table.loc[::9, ["delay"]] = None
    made, found = drafted(table)
    assert found
    plain = Domain(made.domain.attributes)
    private = table.sample(500, random_state=0).assign(miles="?", region=None)
    for other in (private, private.drop(columns=list(found))):
        codes = zip(encode(other, made.domain).columns, encode(other, plain).columns, strict=True)
        assert all((one == two).all() for one, two in codes)


@pytest.mark.parametrize(
    "change",
    [
        lambda dest: f"@{dest}",
        *slow(
            lambda dest: dest * 400,
            lambda dest: [dest],
            lambda dest: Decimal(dest[1:]),
            lambda dest: float(dest[1:]) if dest > "D00" else np.inf,
            lambda dest: complex(dest[1:]),
        ),
        lambda dest: int(dest[1:]) if dest > "D10" else dest,
    ],
    ids=["formulas", "long texts", "lists", "decimals", "infinity", "complex numbers", "mixed"],
)
def test_no_kind_of_column_ends_a_draft(change):
    table, _ = flights()
    cells = pd.Series([change(one) for one in table["dest"]], dtype=object)
    typed = {Decimal: pd.ArrowDtype(pa.decimal128(9, 2)), float: "float64", complex: "complex128"}
    cells = cells.astype(typed.get(type(cells[0]), object))
    made, found = drafted(table[["dest", "delay"]].assign(odd=cells))
    assert "odd" not in found
    assert list(made.domain.columns) == ["dest", "delay", "odd"]
    assert not any(one.values for one in made.domain.derived if one.name == "odd")
