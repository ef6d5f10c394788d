import numpy as np
import pandas as pd
import pytest

from jam_dagster.errors import (
    DomainError,
    InputError,
    OutsideDomainError,
    PrivateValuesError,
    SpecificationError,
)
from jam_dagster.mechanisms import FittedModel
from jam_dagster.tables import Combinations, Domain, NotNull, Order, decode, encode
from jam_dagster.tables.domain import constraints as module

NUMBERS = {
    "a": {"edges": [0, 10, 20, 30], "integer": True, "nullable": True},
    "b": {"edges": [0, 5, 15, 40], "decimals": 1},
    "way": {"values": ["x", "y"], "nullable": True},
    "to": {"values": [1, 2, 3]},
}


def domain(*constraints, attributes=NUMBERS, key="constraints"):
    return Domain.from_dict({"attributes": attributes, key: list(constraints)})


def test_what_breaks_an_order_wholly_is_impossible():
    found = domain("a <= b")
    # The last bin of `a` begins at 20; the first two of `b` end below 5 and 15.
    assert found.impossible_masks()["a", "b"].tolist() == [
        [False, False, False],
        [True, False, False],
        [True, True, False],
        [False, False, False],  # Missing.
    ]
    reverse = domain("b <= a").impossible_masks()["a", "b"]
    assert np.argwhere(reverse).tolist() == [[0, 2]]


def test_only_an_order_without_equality_is_broken_by_equal_numbers():
    single = {name: {"edges": [0, 1, 2, 3], "integer": True} for name in ("a", "b")}
    masks = [domain(f"a {sign} b", attributes=single).impossible_masks() for sign in ("<=", "<")]
    least, strict = (mask["a", "b"] for mask in masks)
    assert np.argwhere(strict & ~least).tolist() == [[0, 0], [1, 1]]


def test_combinations_that_are_not_listed_are_impossible():
    found = domain({"combinations": [{"way": "x", "to": [1, 2]}, {"to": 3}]})
    assert found.constraints == (Combinations(("way", "to"), (((0,), (0, 1)), ((), (2,)))),)
    assert found.impossible_masks()["way", "to"].tolist() == [
        [False, False, False],
        [True, True, False],
        [False, False, False],  # Missing.
    ]
    assert found.constraints[0].describe(found) == "4 of 6 combinations of way, to"
    binned = {"way": {"values": ["x", "y"]}, "to": {"edges": [0, 1, 5]}}
    bins = domain({"combinations": [{"way": "x", "to": {"below": 1}}]}, attributes=binned)
    assert bins.constraints[0].describe(bins) == "1 of 4 combinations of the bins of way, to"


def test_not_null_leaves_a_missing_value_nothing():
    found = domain({"not_null": ["way", "to"]})
    assert found.constraints == (NotNull("way"), NotNull("to"))
    assert found.impossible_masks()["way",].tolist() == [False, False, True]
    assert ("to",) not in found.impossible_masks()


def test_times_are_compared_in_their_units():
    days = {
        "arrival": {"bounds": ["2024-03-01", "2024-03-04"], "unit": "day"},
        "departure": {"bounds": ["2024-03-03", "2024-03-06"], "unit": "day", "format": "%d.%m.%Y"},
    }
    mask = domain("departure <= arrival", attributes=days).impossible_masks()[
        "arrival", "departure"
    ]
    assert mask.sum() == 4 * 4 - 3


@pytest.mark.parametrize("key", ["constraints", "repairs"])
def test_the_file_form_is_kept_and_in_the_digest(key):
    attributes = {**NUMBERS, "a b": {"bounds": [0, 40], "bins": 4}}
    content = {
        "attributes": attributes,
        key: [
            "a < b",
            {"order": 'b <= col("a b")', "apart": [[0, 3, 2], [4, 9.5, 1]]},
            'a <= col("a b")',
            {"combinations": [{"way": "x", "to": [1, 2]}, {"a": {"below": 10}}, {"way": "y"}]},
            {"not_null": ["a", "way"]},
        ],
    }
    found = Domain.from_dict(content)
    assert found.to_dict()[key] == content[key]
    assert Domain.from_dict(found.to_dict()) == found
    digests = {Domain.from_dict(content | {key: content[key][count:]}).digest for count in range(6)}
    assert len(digests) == 6
    assert ("constraints" in found._repr_html_()) == (key == "constraints")
    kept = (Order("a", "b", strict=True), NotNull("a")) if key == "constraints" else ()
    assert found.project(["a", "b"]).constraints == kept


@pytest.mark.parametrize(
    ("entry", "error", "message"),
    [
        ("a", SpecificationError, "written as departure <= arrival"),
        ("a >= b", SpecificationError, "written as departure <= arrival"),
        ("a <= b <= c", SpecificationError, "written as departure <= arrival"),
        ("a <= from", SpecificationError, r'is col\("its name"\)'),
        ("a" * 3000 + " <= b", SpecificationError, "written as departure <= arrival"),
        ("a <= c", InputError, "no attribute 'c'"),
        ("a <= a", DomainError, "between two numbers, or two dates or times of one unit"),
        ("a <= way", DomainError, "'way', which has categories: declare its edges"),
        ({"order": "a <= b", "apart": [[-1, 2, 1]]}, DomainError, "goes from 0 or more"),
        ({"order": "a < b", "apart": [[0, 2, 1]]}, DomainError, "goes from 1 or more"),
        ({"order": "a < b", "apart": [[2, 1, 1]]}, DomainError, "a larger one"),
        ({"order": "a < b", "apart": [[1, 2]]}, DomainError, "an entry of apart must be a first"),
        ({"order": "a < b", "apart": [[1, 2, 0]]}, DomainError, "weight of apart must be above 0"),
        ({"order": "a < b", "apart": [[1, 2, 1]] * 1001}, DomainError, "more than 1,000 entries"),
        ({"order": "a <", "apart": []}, SpecificationError, "written as departure <= arrival"),
        ({"order": "a < b", "part": []}, SpecificationError, "'part'"),
        (3, SpecificationError, "must be an order, such as departure <= arrival"),
        ({"a": 1}, SpecificationError, "'a'"),
        ({"not_null": "a"}, SpecificationError, "must be a list"),
        ({"not_null": ["c"]}, InputError, "no attribute 'c'"),
        ({"combinations": []}, DomainError, "at least one entry"),
        ({"combinations": [{"a": {"below": 10}}]}, DomainError, "two attributes or more"),
        ({"combinations": ["x"]}, SpecificationError, "map attributes to conditions"),
        ({"combinations": [{"way": "z", "to": 1}]}, DomainError, "not one of its values"),
    ],
)
def test_what_is_no_constraint_is_said(entry, error, message):
    with pytest.raises(error, match=message):
        domain(entry)


def test_a_derived_column_is_in_no_constraint():
    content = {"attributes": {"a": {"edges": [0, 1]}}, "derived": {"c": "a * 2"}}
    for key in ("constraints", "repairs"):
        with pytest.raises(InputError, match="'c': it is derived, so name columns"):
            Domain.from_dict(content | {key: ["a <= c"]})


def test_orders_that_cannot_be_kept_are_refused():
    times = {
        "day": {"bounds": ["2024-03-01", "2024-03-04"], "unit": "day"},
        "hour": {"bounds": ["2024-03-01", "2024-03-04"], "unit": "hour", "every": "day"},
    }
    with pytest.raises(DomainError, match="of one unit and zone"):
        domain("day <= hour", attributes=times)
    times["day"] = times["hour"] | {"hour_from": "h"}
    with pytest.raises(DomainError, match="'day', whose hour is that of another column"):
        domain("day <= hour", attributes=times | {"h": {"bounds": [0, 23], "integer": True}})
    three = {name: {"edges": [0, 1, 2]} for name in "abc"}
    for key in ("constraints", "repairs"):
        with pytest.raises(DomainError, match="in a circle between a, b, c"):
            domain(
                "a <= b",
                "b <= c",
                "c <= a",
                "a <= c",
                "b <= a",
                "c <= b",
                attributes=three,
                key=key,
            )
    with pytest.raises(DomainError, match="need a third one: declare a <= c"):
        domain("a <= b", "b <= c", attributes=three)


def test_bounds_that_would_break_an_order_are_refused():
    """A record of 25 and 40 keeps the order; moved to its bound, the second number would not."""
    clipped = {"a": {"edges": [0, 20, 30]}, "b": {"edges": [0, 10, 15], "outside": "clip"}}
    with pytest.raises(DomainError, match="give 'b' bounds at least as high as those of 'a'"):
        domain("a <= b", attributes=clipped)
    clipped["b"]["edges"] = [0, 10, 30]
    assert domain("a <= b", attributes=clipped).constraints == (Order("a", "b"),)


def test_constraints_are_bounded_before_they_are_built(monkeypatch):
    wide = {name: {"bounds": [0, 1], "bins": 10_000} for name in "ab"}
    with pytest.raises(DomainError, match=r"spans 100,000,000 cells, more than 10,000,000"):
        domain("a <= b", attributes=wide)
    monkeypatch.setattr(module, "_MOST_CONSTRAINTS", 2)
    with pytest.raises(DomainError, match="more than 2 constraints"):
        domain("a <= b", "a <= b", "a <= b")


def test_a_model_gives_what_breaks_a_constraint_nothing_and_decoding_keeps_orders():
    found = domain("a <= b", {"combinations": [{"way": "x", "to": 1}, {"way": "y", "to": [2, 3]}]})
    codes = FittedModel.uniform(found, 1.0).sample(3000, np.random.default_rng(0))
    table = decode(codes, np.random.default_rng(1))
    both = table.dropna()
    assert (both["a"] <= both["b"]).all()
    assert ((both["way"] == "x") == (both["to"] == 1)).all()
    again = encode(table, found)
    assert all(
        (one == other).all() for one, other in zip(again.columns, codes.columns, strict=True)
    )


def test_a_record_that_breaks_a_constraint_is_refused_and_one_that_breaks_a_repair_is_not():
    table = pd.DataFrame({"a": [5, 25, None], "b": [2.0, 3.0, 1.0], "way": "x", "to": 1})
    rules = ["a <= b", {"not_null": ["a"]}, {"combinations": [{"way": "y", "to": 1}]}]
    messages = [
        r"breaks the constraint a <= b in 1 of 3 rows: correct the source",
        r"a is not missing in 1 of 3 rows",
        r"1 of 6 combinations of way, to in 3 of 3 rows",
    ]
    for rule, message in zip(rules, messages, strict=True):
        with pytest.raises(OutsideDomainError, match=message):
            encode(table, domain(rule), private=False)
        with pytest.raises(PrivateValuesError):
            encode(table, domain(rule))
    plain, repaired = domain(), domain(*rules, key="repairs")
    for one, other in zip(
        encode(table, plain).columns, encode(table, repaired).columns, strict=True
    ):
        assert (one == other).all()
    assert plain.impossible_masks() == repaired.impossible_masks() == {}


def test_an_order_of_two_units_names_the_function_of_the_finer_one():
    times = {
        "at": {"unit": "minute", "bounds": ["2024-01-01", "2024-01-02"]},
        "due": {"unit": "day", "bounds": ["2024-01-01", "2024-01-02"]},
    }
    with pytest.raises(DomainError, match=r"write date\(at\) in it"):
        domain("at <= due", attributes=times)
    for wrong in ("date(due) <= at", "year(at) <= due", "date(at) <= date(due)"):
        with pytest.raises(DomainError, match="unit and zone"):
            domain(wrong, attributes=times)
    with pytest.raises(DomainError, match="units of the higher one"):
        domain({"order": "due <= date(at)", "apart": [[0, 1, 1]]}, attributes=times, key="repairs")
    found = domain("date(at) <= due", attributes=times)
    assert np.argwhere(found.impossible_masks()["at", "due"])[:, 1].tolist() == [0] * 1440
    assert Domain.from_dict(found.to_dict()) == found
