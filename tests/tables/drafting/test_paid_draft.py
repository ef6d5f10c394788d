"""A domain that asks for all columns, of their names and types alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from jam_dagster.common.yaml_text import parse_yaml
from jam_dagster.errors import DomainError, JamError, SpecificationError
from jam_dagster.tables import Domain
from jam_dagster.tables.domain.bought import Draw, PaidCounts
from jam_dagster.tables.drafting.paid_draft import (
    after_release,
    paid_domain,
    types_in,
    with_paid_values,
    with_public_values,
)

NAMES = ["sex", "age", "income", "born", "seen", "key"]


def asked(declared: dict[str, str] | None = None, types: str = "", **given: Any) -> Domain:
    return paid_domain(NAMES, declared or {}, types_in(types) if types else {}, **given)


def test_a_column_that_nothing_is_known_of_is_a_category() -> None:
    domain = asked()
    assert domain.asked is not None
    assert list(domain.asked.values) == NAMES
    assert domain.asked.bins == {}


def test_types_are_the_authors_else_the_schemas() -> None:
    declared = {"age": "int64", "income": "float32", "born": "date32[day]", "seen": "timestamp[us]"}
    domain = asked(declared | {"sex": "string", "key": "INTEGER"}, "key=none,income=integer")
    assert domain.asked is not None
    assert list(domain.asked.bins) == ["age", "income", "born", "seen"]
    kinds = [domain.attribute(name).kind_text for name in domain.asked.bins]
    assert kinds == ["integer", "integer", "day", "minute"]
    assert "key" not in domain.names
    written = asked(types="income=number:2,born=date:%d.%m.%Y,seen=datetime:%Y-%m-%d %H:%M")
    assert written.attribute("income").decimals == 2
    assert written.attribute("born").format == "%d.%m.%Y"


def test_a_format_without_a_date_is_named() -> None:
    with pytest.raises(DomainError, match="'age': format '%Q' has no part of a date"):
        asked(types="age=date:%Q")


def test_columns_bins_and_shares() -> None:
    domain = asked(types="age=integer", columns=["sex", "age"], bins=9, share=0.3)
    assert domain.names == ("sex", "age")
    assert domain.asked is not None
    assert (domain.asked.bins, domain.asked.share, domain.asked.delta_share) == (
        {"age": 9},
        0.3,
        0.5,
    )


@pytest.mark.parametrize(
    ("types", "fault"),
    [
        ("age=whole", "give one of these"),
        ("age=integer:2", "give one of these"),
        ("shoe=integer", "no column 'shoe'"),
        ("age", "COLUMN=TYPE"),
        ("=integer", "COLUMN=TYPE"),
    ],
)
def test_types_that_are_none(types: str, fault: str) -> None:
    with pytest.raises(SpecificationError, match=fault):
        asked(types=types)


@pytest.mark.parametrize(
    "name", ["", " ", "17", "3.5", "2020-01-01", "12:30", "$4", "Unnamed: 0", "sex"]
)
def test_a_table_without_a_header_is_refused_and_quoted_nowhere(name: str) -> None:
    with pytest.raises(SpecificationError, match="need a name each") as refused:
        paid_domain([*NAMES, name], {}, {})
    assert not name.strip() or name == "sex" or name not in str(refused.value)


def test_no_column_is_left() -> None:
    with pytest.raises(JamError, match="leave out fewer"):
        asked(types=",".join(f"{name}=none" for name in NAMES))


def test_texts_of_a_draft_are_selected_unless_something_depends_on_them() -> None:
    entries: dict[str, Any] = {
        "town": {"values": ["Ur", "rest"], "other": "rest", "nullable": True},
        "sex": {"values": ["f", "m"]},
        "size": {"values": ["S", "L"], "dtype": "ordered category"},
        "adult": {"values": [False, True]},
        "age": {"edges": [0, 18, 99], "integer": True},
    }
    rules = {"impossible": [{"sex": "m", "size": "S"}], "repairs": [{"not_null": ["town"]}]}
    draft = Domain.from_dict({"identified_from": "public", "attributes": entries, **rules})
    domain = with_paid_values(draft, share=0.1)
    assert domain.asked is not None
    assert domain.asked.values == {"town": (100, ("Ur",))}
    assert (domain.asked.bins, domain.asked.share) == ({}, 0.1)
    assert domain.identified_from == "public"
    fixed = draft.project(["sex", "size", "adult", "age"])
    assert with_paid_values(fixed) is fixed


def test_values_of_a_public_table_are_public() -> None:
    asking = Domain.from_dict(
        {
            "attributes": {
                "town": {"values": "paid", "at_most": 2, "public": ["Ur"]},
                "note": {"values": "paid"},
            }
        }
    )
    towns = ["Oz", "Nod", "Nod", "Ur", "Ur", "=1+1", "=1+1", "other", None, "Lud", "Lud", "Lud"]
    domain = with_public_values(asking, pd.DataFrame({"town": towns}))
    assert domain.asked is not None
    assert domain.asked.values == {"town": (2, ("Ur", "Lud", "Nod")), "note": (100, ())}


MONTHLY = Domain.from_dict(
    {
        "share": 0.3,
        "attributes": {
            "town": {"values": "paid", "at_most": 3, "public": ["Ur"]},
            "sex": {"values": ["f", "m"]},
            "age": {"edges": "paid", "integer": True, "bins": 8},
            "note": {"values": "paid", "at_most": 1},
        },
    }
)


def released(**changes: Any) -> Domain:
    other = {"other": "other", "nullable": True}
    entries: dict[str, Any] = {
        "town": {"values": ["Ur", "Oz", "Nod", "other"], **other},
        "sex": {"values": ["f", "m"]},
        "age": {"edges": [0, 18, 40, 99], "integer": True, "outside": "clip", "nullable": True},
        "note": {"values": ["other"], **other},
    }
    return Domain.from_dict({"attributes": {**entries, **changes}})


def test_values_and_edges_of_the_release_before_are_kept() -> None:
    domain = after_release(MONTHLY, released())
    assert domain.asked is not None
    assert domain.asked.bins == {}
    # One more town may be selected: the two that were count in the three.
    assert domain.asked.values == {"town": (1, ("Ur", "Nod", "Oz")), "note": (1, ())}
    assert domain.asked.share == 0.3
    assert domain.attribute("age").to_entry()["edges"] == [0, 18, 40, 99]
    assert Domain.from_dict(domain.to_dict()) == domain
    # So it is told from what was asked for beyond any other release.
    assert after_release(MONTHLY, domain) == domain
    assert after_release(MONTHLY, MONTHLY) == MONTHLY


def test_with_nothing_left_to_select_nothing_is_asked_for() -> None:
    note = {"values": ["a", "other"], "other": "other", "nullable": True}
    towns = {"values": ["Ur", "A", "B", "C", "other"], "other": "other", "nullable": True}
    domain = after_release(MONTHLY, released(note=note, town=towns))
    assert domain.asked is None
    assert domain.attribute("town").listed == ("Ur", "A", "B", "C", "other")
    assert domain.attribute("town").other_code == 4
    assert Domain.from_dict(domain.to_dict()) == domain
    assert after_release(domain, released()) is domain


def bought(**entry: Any) -> tuple[Domain, Domain]:
    """Return a domain that asks for edges, and one with edges that were bought so."""
    asking = Domain.from_dict({"attributes": {"seen": {"edges": "paid"} | entry}})
    return asking, asking.buy(within_bounds)


def within_bounds(draws: Sequence[Draw]) -> list[PaidCounts]:
    """Return counts of 9,000 records in each of the bins in the middle."""
    counts = []
    for step, one in draws:
        values = [9_000 if 3 <= code <= one.size - 6 else 0 for code in range(one.size)]
        counts.append(PaidCounts(step, one.name, one.size, 1e-3, 1.0, 2.0, tuple(values)))
    return counts


NUMBER: dict[str, Any] = {"decimals": 2, "range": [0, 1000], "bins": 6}
DAY: dict[str, Any] = {"unit": "day", "range": ["2020-01-01", "2029-12-31"], "bins": 6}


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (NUMBER, {"range": [0, 2000]}),
        (NUMBER, {"bins": 7}),
        (NUMBER, {"decimals": 1}),
        ({**NUMBER, "decimals": None}, {"integer": True}),
        ({"integer": True}, {"integer": None, "unit": "month"}),
        (DAY, {"unit": "month"}),
        (DAY, {"range": ["2020-01-01", "2030-12-31"]}),
        (DAY, {"format": "%d.%m.%Y"}),
    ],
)
def test_edges_are_asked_for_again_if_other_ones_are_asked_for(
    before: dict[str, Any], now: dict[str, Any]
) -> None:
    given = {key: value for key, value in before.items() if value is not None}
    asking, domain = bought(**given)
    assert domain != replace(asking, asked=None)
    edited = {key: value for key, value in {**given, **now}.items() if value is not None}
    other, _ = bought(**edited)
    assert after_release(other, domain) == other
    # So it is in a month further on, which kept the edges and bought nothing.
    later = after_release(asking, domain)
    later = Domain.from_dict(parse_yaml(later.to_yaml()))
    assert later.asked is None
    assert later.attributes == domain.attributes
    assert after_release(asking, later).to_dict() == later.to_dict()
    assert after_release(other, later) == other
    # Which cells have no number is no question of edges.
    strict, _ = bought(**given, nullable=False)
    assert after_release(strict, later).asked is None
    # What was kept decides nothing.
    assert replace(later, kept={}).digest == later.digest


@pytest.mark.parametrize("kept", ["age", {"age": 3}])
def test_what_was_kept_is_by_attribute(kept: object) -> None:
    with pytest.raises(SpecificationError, match="'kept' must be a mapping"):
        Domain.from_dict({**released().to_dict(), "kept": kept})


def test_a_zone_makes_other_edges() -> None:
    entry = {"edges": [0, 5, 9], "integer": True, "outside": "clip", "nullable": True}
    asking = Domain.from_dict({"attributes": {"age": {"edges": "paid", "unit": "day"}}})
    known = Domain.from_dict({"attributes": {"age": entry}})
    assert after_release(asking, known) == asking
    for zone in ("UTC", "Asia/Tokyo"):
        days = {"unit": "day", "zone": zone, "bounds": ["2020-01-01", "2020-12-31"], "bins": 4}
        known = Domain.from_dict({"attributes": {"age": days}})
        assert after_release(asking, known) == asking


def test_what_the_release_before_does_not_know_is_asked_for_again() -> None:
    unsure = MONTHLY.attribute("age").to_entry()
    for age in (unsure, {"values": ["young", "old"]}, {"edges": [0, 0.2, 0.5, 9]}):
        domain = after_release(MONTHLY, released(age=age))
        assert domain.asked is not None
        assert domain.asked.bins == {"age": 8}
    lacking = released().project(["sex", "age"])
    domain = after_release(MONTHLY, lacking)
    assert domain.asked is not None
    assert list(domain.asked.values) == ["town", "note"]
