"""Cells for values that an attribute cannot hold: encoded apart, and released as missing."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np
import pandas as pd
import pytest

from jam_dagster.errors import DomainError, OutsideDomainError
from jam_dagster.tables import (
    CategoricalAttribute,
    Domain,
    EncodedTable,
    NumericAttribute,
    Workload,
    encode,
)
from jam_dagster.tables.codes.decode import decode
from jam_dagster.tables.codes.repair import repaired
from jam_dagster.tables.domain.children import Link
from jam_dagster.tables.domain.impossible import ImpossibleCombination
from jam_dagster.tables.domain.missing_where import MissingWhere
from jam_dagster.tables.domain.values import NULL_LABEL, UNREADABLE_LABEL

APART: dict[str, Any] = {"nullable": True, "unreadable": "apart"}
ENTRIES: dict[str, tuple[dict[str, Any], list[object], list[object]]] = {
    "numbers": ({"edges": [0, 50, 100]}, [25, "75"], ["75,5", "many"]),
    "numbers of a format": ({"edges": [0, 50], "format": "0.0"}, ["1.5"], ["1,5", "x"]),
    "dates": (
        {"bounds": ["2024-03-01", "2024-03-31"], "unit": "day", "format": "%d.%m.%Y"},
        ["01.03.2024", date(2024, 3, 31)],
        ["03/31/2024", "soon"],
    ),
    "categories": ({"values": ["a", "b"]}, ["a", "b"], ["c", "", 7]),
    "booleans": ({"values": [True, False]}, ["TRUE", False], ["perhaps", "2"]),
    "codes": ({"prefix": 3, "weights": {"E11.9": 6, "I10": 4}}, ["E11.8", "I10"], ["Z99", ""]),
}
KINDS = pytest.mark.parametrize(("entry", "known", "wrong"), ENTRIES.values(), ids=ENTRIES)


def domain_of(**attributes: Any) -> Domain:
    return Domain.from_dict({"attributes": attributes})


def coded(domain: Domain, values: list[object]) -> list[int]:
    return encode(pd.DataFrame({"a": pd.Series(values, dtype=object)}), domain).columns[0].tolist()


@KINDS
def test_an_unreadable_value_has_a_cell_before_that_of_missing_ones(
    entry: dict[str, Any], known: list[object], wrong: list[object]
) -> None:
    domain = domain_of(a=entry | APART)
    attribute = domain.attribute("a")
    size = attribute.size

    assert coded(domain, wrong) == [size - 2] * len(wrong)
    assert coded(domain, [None, np.nan, pd.NaT]) == [size - 1] * 3
    assert max(coded(domain, known)) < size - 2
    assert attribute.labels[-2:] == (UNREADABLE_LABEL, NULL_LABEL)
    assert attribute.missing_codes == (size - 2, size - 1)
    caught = {one.caught: one.code for one in attribute.catch_all_cells}
    assert (caught["unreadable"], caught["missing"]) == attribute.missing_codes
    # The other values have the codes that they have without this cell.
    missing = domain_of(a=entry | APART | {"unreadable": "missing"})
    assert coded(domain, known) == coded(missing, known)
    assert missing.attribute("a").missing_codes == (missing.attribute("a").null_code,)
    assert missing.digest != domain.digest == Domain.from_dict(domain.to_dict()).digest


@KINDS
def test_the_cell_of_a_value_is_its_own_whatever_the_others_are(
    entry: dict[str, Any], known: list[object], wrong: list[object]
) -> None:
    domain = domain_of(a=entry | APART)
    alone = [coded(domain, [one])[0] for one in (*known, *wrong, None)]
    assert coded(domain, [*known, *wrong, None]) == alone


@KINDS
def test_it_is_decoded_to_a_missing_one(
    entry: dict[str, Any], known: list[object], wrong: list[object]
) -> None:
    domain = domain_of(a=entry | APART)
    codes = EncodedTable(domain, (np.repeat(np.arange(domain.sizes["a"]), 3),))
    released = codes.as_released()
    null = domain.sizes["a"] - 1
    assert released.columns[0].tolist() == [*codes.columns[0][:-6].tolist(), *[null] * 6]

    for table in (codes, released):
        column = decode(table, np.random.default_rng(0))
        assert column["a"].isna().tolist() == [False] * (len(column) - 6) + [True] * 6
        again = encode(column, domain)
        assert again.columns[0].tolist() == released.columns[0].tolist()
        listed = domain.attribute("a").listed_codes(column["a"])
        assert listed.tolist() == released.columns[0].tolist()


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"edges": [0, 1], "unreadable": "apart"}, "next to `unreadable: apart`"),
        ({"values": ["x", "o"], "other": "o", **APART}, "has an other"),
        ({"prefix": 1, "weights": {"x": 1}, "other": "o", **APART}, "has an other"),
    ],
)
def test_what_has_no_use_for_it_is_refused(entry: dict[str, Any], message: str) -> None:
    with pytest.raises(DomainError, match=message):
        domain_of(a=entry)


def test_counts_as_rows_are_released() -> None:
    domain = domain_of(
        a={"edges": [0, 1, 2], **APART}, b={"values": ["x"]}, c={"values": ["y"], **APART}
    )
    counts = np.arange(12).reshape(4, 3)
    folded = domain.as_released(("a", "c"), counts)
    assert folded.tolist() == [[0, 0, 3], [3, 0, 9], [0, 0, 0], [15, 0, 36]]
    assert counts[2, 1] == 7
    table = EncodedTable(
        domain, (np.repeat(np.arange(4), 3), np.zeros(12, int), np.tile(np.arange(3), 4))
    )
    workload = Workload.all_k_way(domain, 2)
    for clique in workload.cliques:
        expected = table.as_released().marginal(clique)
        assert np.array_equal(domain.as_released(clique, table.marginal(clique)), expected)


# --- rules

ATTRIBUTES: dict[str, Any] = {
    "status": {"values": ["open", "cancelled"], **APART},
    "a": {"bounds": [0, 2], "bins": 2, **APART},
    "b": {"bounds": [0, 2], "bins": 2, **APART},
}


def ruled(key: str, *entries: Any) -> Domain:
    return Domain.from_dict({"attributes": ATTRIBUTES, key: list(entries)})


def test_rules_of_missing_values_hold_for_unreadable_ones() -> None:
    together = ruled("constraints", {"missing": ["a", "b"]})
    (rule,) = together.constraints
    assert rule == MissingWhere("b", "a", (2, 3))
    assert rule.describe(together) == "b and a are missing together"
    only = ruled("constraints", {"missing": "a", "only_where": {"status": ["cancelled", None]}})
    never = ruled("constraints", {"not_null": ["a"]})
    listed = ruled(
        "constraints", {"combinations": [{"status": "open", "a": {"below": 1}}]}, "a <= b"
    )
    impossible = ruled("impossible", {"status": None, "a": {"below": 1}})
    assert listed.constraints[0].describe(listed) == "1 of 4 combinations of the bins of status, a"
    for domain in (together, only, never, listed, impossible):
        assert Domain.from_dict(domain.to_dict()).digest == domain.digest

    def refused(domain: Domain, **row: object) -> bool:
        cells = {"status": "open", "a": 0.5, "b": 0.5, **row}
        try:
            encode(
                pd.DataFrame({name: [one] for name, one in cells.items()}), domain, private=False
            )
        except OutsideDomainError:
            return True
        return False

    for gap in (None, "x"):
        assert refused(together, a=gap)
        assert not refused(together, a=gap, b="y")
        assert refused(only, a=gap)
        assert not refused(only, a=gap, status="cancelled")
        assert not refused(only, a="x", status=gap)
        assert refused(never, a=gap)
        assert not refused(listed, a=gap, status="cancelled")
        assert refused(impossible, status=gap)
        assert not refused(impossible, a=gap)


def test_a_rule_of_one_of_the_two_cells_is_of_both() -> None:
    attributes = ruled("constraints").attributes
    combination = ImpossibleCombination(("status", "a"), ((3,), (0,)))
    domain = Domain(
        attributes, (combination,), constraints=(MissingWhere("b", "a", (2,), exactly=False),)
    )
    assert domain.impossible[0].codes == ((2, 3), (0,))
    assert domain.constraints == (MissingWhere("b", "a", (2, 3), exactly=False),)
    assert domain.digest == Domain.from_dict(domain.to_dict()).digest


def test_no_repair_makes_a_value_unreadable() -> None:
    domain = ruled("repairs", {"not_null": ["a"]})
    codes = np.array([0] * 99 + [3])
    table = EncodedTable(domain, (codes * 0, codes, codes * 0))
    made = repaired(table, np.random.default_rng(0))
    assert made.column("a").tolist() == [0] * 100
    # Nothing tells which value it should be.
    few = EncodedTable(domain, tuple(np.array([3] * 1 + [2] * 99) for _ in range(3)))
    assert 2 not in repaired(few.as_released(), np.random.default_rng(0)).column("a")


def test_a_child_s_cells_come_before_that_of_no_child() -> None:
    kg = NumericAttribute("kg", (0.0, 50.0, 100.0), nullable=True, unreadable="apart")
    domain = Domain.from_sizes({"region": 2}).with_children(Link("persons", "id", 3), Domain((kg,)))
    child = domain.attribute("persons.1.kg")
    assert (child.missing_codes, child.absent_code, child.size) == ((2, 3), 4, 5)
    rows = pd.DataFrame(
        {
            "region": [0, 0, 1],
            "persons": [2, 1, 0],
            "persons.1.kg": ["7,5", "60", None],
            "persons.2.kg": [None, None, None],
        }
    )
    table = encode(rows, domain)
    assert table.column("persons.1.kg").tolist() == [2, 1, 4]
    assert table.column("persons.2.kg").tolist() == [3, 4, 4]
    assert table.as_released().column("persons.1.kg").tolist() == [3, 1, 4]


def test_the_words_of_the_treatment() -> None:
    number = NumericAttribute("a", (0.0, 1.0), nullable=True, unreadable="apart")
    assert number.outside_text == "an error, other texts to null"
    few = CategoricalAttribute("a", ("x",), nullable=True, unreadable="apart")
    assert few.outside_text == "counted as null"
    assert replace(few, unreadable="error").outside_text == "an error"
    assert few.describe() == "one of x, or null"
