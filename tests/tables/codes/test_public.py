"""Several public tables over one domain, some of which lack attributes."""

import numpy as np
import pytest

from jam_dagster.errors import DomainError
from jam_dagster.tables import Domain, EncodedTable, PublicTables, Workload
from jam_dagster.tables.codes.public import is_known

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
    assert is_known(BOTH, ("a", "b"))
    assert not is_known(BOTH, ("a", "c"))
    assert is_known(AB, ("a", "b"))


def test_what_no_table_has_whole_is_the_product_of_its_parts() -> None:
    # a from the first, c from the second; (a, b) goes before (b, c), for it is as large.
    assert BOTH.marginal(("a", "c")).tolist() == [[0.5, 0.5], [1.5, 1.5]]
    expected = np.multiply.outer(AB.marginal(("a", "b")), [0.5, 0.5])
    np.testing.assert_allclose(BOTH.marginal(("a", "b", "c")), expected)
    # The larger part goes first, whichever table it is in, and axes stay in their order.
    alone = PublicTables(DOMAIN, {"a": table("a", [(0,), (1,)]), "bc": BC})
    expected = np.multiply.outer([0.5, 0.5], alone.marginal(("b", "c")))
    np.testing.assert_allclose(alone.marginal(("a", "b", "c")), expected)


def test_what_no_table_has_at_all_is_uniform() -> None:
    one = PublicTables(DOMAIN, {"ab": AB})
    assert one.marginal(("c",)).tolist() == [2.0, 2.0]
    assert one.marginal(("a", "c")).tolist() == [[0.5, 0.5], [1.5, 1.5]]
    assert one.marginal(()) == 4
    for clique in Workload.all_k_way(DOMAIN, 3).downward_closure():
        assert one.marginal(clique).sum() == pytest.approx(4)
        assert one.marginal(clique).shape == tuple(DOMAIN.sizes[name] for name in clique)


def test_one_table_is_public_tables_too() -> None:
    one = PublicTables.of(DOMAIN, BC)
    assert one.answering(("b",)) == [""]
    assert PublicTables.of(DOMAIN, BOTH) is BOTH
    assert repr(BOTH) == ("PublicTables(ab: 4 records, 2 attributes, bc: 2 records, 2 attributes)")


@pytest.mark.parametrize(
    ("tables", "expected"),
    [
        ({}, "no public table"),
        ({"x": EncodedTable(Domain.from_sizes({"d": 2}), (np.array([0]),))}, "'x' are encoded"),
        ({"x": EncodedTable(Domain.from_sizes({"a": 5}), (np.array([0]),))}, "its projection"),
        ({"x": EncodedTable(DOMAIN, (np.array([], int),) * 3)}, "'x' is empty"),
    ],
)
def test_what_does_not_fit_is_named(tables: dict[str, EncodedTable], expected: str) -> None:
    with pytest.raises(DomainError, match=expected):
        PublicTables(DOMAIN, tables)


def test_tables_of_another_domain_are_refused() -> None:
    with pytest.raises(DomainError, match="encode all over one domain"):
        PublicTables.of(Domain.from_sizes({"a": 2, "b": 3}), BOTH)


def test_a_whole_workload_is_not_needed() -> None:
    closure = Workload.all_k_way(DOMAIN, 2).downward_closure()
    assert [q for q in closure if not BOTH.answering(q)] == [("a", "c")]
