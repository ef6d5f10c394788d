"""The differences of two domains are said by attribute."""

from typing import Any

from jam_dagster.tables import Domain
from jam_dagster.tables.domain.changes import domain_changes

BEFORE: dict[str, Any] = {
    "sex": {"values": ["f", "m"]},
    "town": {"values": ["Aix", "Bern", "other"], "other": "other"},
    "age": {"edges": [0, 30, 60], "integer": True},
    "old": {"values": [1, 2]},
}


def domain(**changes: Any) -> Domain:
    given = {name: one for name, one in {**BEFORE, **changes}.items() if one is not None}
    return Domain.from_dict({"attributes": given})


def test_nothing_is_said_of_what_is_the_same() -> None:
    assert domain_changes(domain(), domain()) == []


def test_each_attribute_says_what_it_was_and_is() -> None:
    now = domain(
        town={"values": ["Aix", *(f"t{n}" for n in range(8)), "other"], "other": "other"},
        age={"edges": [0, 30, 90], "integer": True},
        sex={"values": ["f", "m"], "nullable": True},
        old=None,
        new={"values": ["a"]},
    )
    said = domain_changes(domain(), now)
    assert said[:2] == ["new is new", "old is no longer there"]
    assert "town has also t0, t1, t2, t3, t4 and 3 more, lacks Bern" in said
    (age,) = (one for one in said if one.startswith("age is "))
    assert " and was " in age
    assert any(one.startswith("sex ") for one in said)
