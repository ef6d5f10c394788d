"""Several public tables over one domain, some of which lack attributes."""

import numpy as np
import pytest

from jam_dagster.errors import DomainError, InputError
from jam_dagster.tables import Domain, EncodedTable, PublicTables, Workload

DOMAIN = Domain.from_sizes({"a": 2, "b": 3, "c": 2})


def table(names: str, rows: list[tuple[int, ...]]) -> EncodedTable:
    return EncodedTable(DOMAIN.project(names), tuple(np.array(rows).T))


AB = table("ab", [(0, 0), (1, 2), (1, 1), (1, 1)])
BC = table("bc", [(0, 1), (2, 0)])
BOTH = PublicTables(DOMAIN, {"ab": AB, "bc": BC})


def test_the_first_that_has_the_attributes_answers_in_the_scale_of_the_first() -> None:
    assert BOTH.records == 4
    assert BOTH.marginal(("b",)).tolist() == [1, 2, 1]
    assert BOTH.marginal(("c",)).tolist() == [2.0, 2.0]
    assert BOTH.marginal(("b", "c")).tolist() == [[0, 2.0], [0, 0], [2.0, 0]]
    asked = [("c",), ("a", "b"), ("b",)]
    assert list(BOTH.marginals(asked)) == asked


def test_who_has_what() -> None:
    assert BOTH.answering(("b",)) == ["ab", "bc"]
    assert BOTH.answering(("b", "c")) == ["bc"]
    assert BOTH.answering(("a", "c")) == []
    with pytest.raises(InputError, match="No public table has all of a, c"):
        BOTH.marginal(("a", "c"))


def test_one_table_is_public_tables_too() -> None:
    one = PublicTables.of(DOMAIN, BC)
    assert one.answering(("b",)) == [""]
    assert PublicTables.of(DOMAIN, BOTH) is BOTH
    assert repr(BOTH) == ("PublicTables(ab: 4 records, 2 attributes, bc: 2 records, 2 attributes)")


@pytest.mark.parametrize(
    ("tables", "told"),
    [
        ({}, "no public table"),
        ({"x": EncodedTable(Domain.from_sizes({"d": 2}), (np.array([0]),))}, "'x' are encoded"),
        ({"x": EncodedTable(Domain.from_sizes({"a": 5}), (np.array([0]),))}, "its projection"),
        ({"x": EncodedTable(DOMAIN, (np.array([], int),) * 3)}, "'x' is empty"),
    ],
)
def test_what_does_not_fit_is_named(tables: dict[str, EncodedTable], told: str) -> None:
    with pytest.raises(DomainError, match=told):
        PublicTables(DOMAIN, tables)


def test_tables_of_another_domain_are_refused() -> None:
    with pytest.raises(DomainError, match="encode all over one domain"):
        PublicTables.of(Domain.from_sizes({"a": 2, "b": 3}), BOTH)


def test_a_whole_workload_is_not_needed() -> None:
    closure = Workload.all_k_way(DOMAIN, 2).downward_closure()
    assert [q for q in closure if not BOTH.answering(q)] == [("a", "c")]
