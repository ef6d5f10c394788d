"""A domain that asks for all columns, of their names and types alone."""

from __future__ import annotations

from typing import Any

import pytest

from jam_dagster.errors import JamError, SpecificationError
from jam_dagster.tables import Domain
from jam_dagster.tables.drafting.paid_draft import paid_domain, types_in

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


def test_columns_bins_and_shares() -> None:
    domain = asked(types="age=integer", columns=["sex", "age"], bins=9, share=0.3, delta_share=None)
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
