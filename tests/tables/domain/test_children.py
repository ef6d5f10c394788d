"""Domains of roots with two of their children."""

from typing import Any

import numpy as np
import pytest

from jam_dagster.errors import DomainError, SpecificationError
from jam_dagster.tables import (
    CategoricalAttribute,
    Combinations,
    Domain,
    ImpossibleCombination,
    NumericAttribute,
)
from jam_dagster.tables.domain.children import NO_CHILD, Link

LINK = Link("persons", "household_id", 3)
ROOTS = Domain((CategoricalAttribute("region", ("north", "south")),))
PERSONS = Domain(
    (
        NumericAttribute("age", (0.0, 15.0, 65.0, 100.0), nullable=True),
        CategoricalAttribute("married", ("yes", "no")),
    ),
    (ImpossibleCombination(("age", "married"), ((0,), (0,))),),
)


def test_a_row_has_the_number_of_children_and_two_of_them() -> None:
    domain = ROOTS.with_children(LINK, PERSONS)
    assert domain.sizes == {
        "region": 2,
        "persons": 4,
        "persons.1.age": 5,
        "persons.1.married": 3,
        "persons.2.age": 5,
        "persons.2.married": 3,
    }
    age = domain.attribute("persons.1.age")
    assert age.labels[-2:] == ("(null)", NO_CHILD)
    assert age.null_code == 3


def test_a_root_has_as_many_children_as_it_says() -> None:
    masks = ROOTS.with_children(LINK, PERSONS).impossible_masks()
    for slot in (1, 2):
        no_child = np.array([False] * 2 + [True])
        for number, row in enumerate(masks["persons", f"persons.{slot}.married"]):
            assert row.tolist() == (no_child if number >= slot else ~no_child).tolist()


def test_what_a_child_cannot_be_neither_of_two_is() -> None:
    for slot in (1, 2):
        clique = (f"persons.{slot}.age", f"persons.{slot}.married")
        mask = ROOTS.with_children(LINK, PERSONS).impossible_masks()[clique]
        assert np.argwhere(mask).tolist() == [[0, 0]]


def test_a_constraint_of_any_shape_holds_in_both_slots() -> None:
    rng = np.random.default_rng(0)
    listed = [(tuple(map(int, one)),) * 3 for one in rng.integers(0, 4, size=(4, 1))]
    table = Domain.from_sizes({"a": 4, "b": 4, "c": 4})
    child = Domain(table.attributes, constraints=(Combinations(("a", "b", "c"), tuple(listed)),))
    domain = ROOTS.with_children(LINK, child)
    (mask,) = child.impossible_masks().values()
    found = domain.impossible_masks()[LINK.slot(2, "abc")]
    assert found[:4, :4, :4].tolist() == mask.tolist()
    assert not found[4].any()


def test_a_domain_file_holds_both_tables() -> None:
    domain = ROOTS.with_children(LINK, PERSONS)
    written = domain.to_dict()
    assert list(written["attributes"]) == ["region"]
    assert written["children"]["persons"]["max"] == 3
    again = Domain.from_dict(written)
    assert again == domain
    assert again.digest == domain.digest
    other = ROOTS.with_children(Link("persons", "household_id", 4), PERSONS)
    assert other.digest != domain.digest


@pytest.mark.parametrize(
    ("children", "message"),
    [
        ({"persons": {"key": "id", "max": 11, "attributes": {}}}, "max must be a whole number"),
        ({"persons": {"max": 2, "attributes": {}}}, "key must be the column of both"),
        ({"Persons!": {"key": "id", "max": 2}}, "begins with a lower-case letter"),
        ({"persons": [1]}, "must be a mapping"),
        ({"a": {}, "b": {}}, "of one table's name"),
        ({"persons": {"key": "id", "max": 2, "attributes": {"id": {"values": [1]}}}}, "'id'"),
        ({"region": {"key": "id", "max": 2, "attributes": {"x": {"values": [1]}}}}, "'region'"),
        (
            {
                "persons": {
                    "key": "id",
                    "max": 2,
                    "attributes": {"x": {"values": [1]}},
                    "children": {
                        "pets": {"key": "id", "max": 2, "attributes": {"x": {"values": [1]}}}
                    },
                }
            },
            "no third",
        ),
    ],
)
def test_what_is_wrong_with_children_is_named(children: dict[str, Any], message: str) -> None:
    with pytest.raises((SpecificationError, DomainError), match=message):
        Domain.from_dict({"attributes": {"region": {"values": ["n", "s"]}}, "children": children})
