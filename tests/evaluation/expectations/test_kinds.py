"""Expectations are known, and well named, from the domain alone."""

from __future__ import annotations

import re

from jam_dagster.evaluation import expectation_names
from jam_dagster.tables import CategoricalAttribute, Domain
from tests.evaluation.conftest import small_domain


def test_every_kind_is_expected_where_it_applies() -> None:
    specs = {spec.name: spec for spec in expectation_names(small_domain())}
    assert list(specs)[:3] == ["columns", "row_count", "impossible_combination_1"]
    assert {name for name in specs if name.startswith("age__")} == {
        "age__dtype",
        "age__bounds",
        "age__marginal",
        "age__fit",
    }
    assert {name for name in specs if name.startswith("marital_status__")} == {
        "marital_status__dtype",
        "marital_status__values",
        "marital_status__nulls",
        "marital_status__marginal",
    }
    assert "Widowed" in specs["impossible_combination_1"].description
    warnings = {name for name, spec in specs.items() if not spec.blocking}
    assert warnings == {name for name in specs if name.endswith(("__marginal", "__fit"))}
    assert specs["age__marginal"].severity == "WARN"
    assert specs["age__dtype"].severity == "ERROR"


def test_names_are_valid_and_unique_whatever_the_attributes_are_called() -> None:
    names = ("a-b", "a_b", "a b", "a_b_2", "年齢", "性別", "columns", "row_count", "_", "1st")
    domain = Domain(tuple(CategoricalAttribute(name, ("x",)) for name in names))
    specs = expectation_names(domain)
    found = [spec.name for spec in specs]
    assert all(re.fullmatch(r"[A-Za-z0-9_]+", name) for name in found)
    assert len(set(found)) == len(found) == 2 + 4 * len(names)
    of_columns = [spec.name for spec in specs if spec.subject == "columns"]
    assert of_columns[0] == "columns__dtype"


def test_names_do_not_depend_on_other_processes() -> None:
    assert expectation_names(small_domain()) == expectation_names(small_domain())
