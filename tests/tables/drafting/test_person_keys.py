"""Columns that look like a person's key are named, and others are not."""

import numpy as np
import pandas as pd
import pytest

from jam_dagster.tables.drafting.person_keys import person_keys, unit_remark

RNG = np.random.default_rng(3)
ROWS = 1000


def table(**columns: object) -> pd.DataFrame:
    return pd.DataFrame({"amount": RNG.normal(size=ROWS), **columns})


@pytest.mark.parametrize(
    "name",
    ["client_id", "playerID", "Patient No", "customers", "id", "userid", "kundennr", "account"],
)
@pytest.mark.parametrize("kind", ["number", "text", "number with gaps"])
def test_a_key_that_repeats_is_asked_about(name: str, kind: str) -> None:
    keys = pd.Series(RNG.integers(0, 300, ROWS))
    if kind == "text":
        keys = "C" + keys.astype(str)
    if kind == "number with gaps":
        keys = keys.astype(float).where(keys > 5)
    ((found, values),) = person_keys(table(**{name: keys}))
    assert (found, values) == (name, keys.nunique())
    said = unit_remark(table(**{name: keys}))
    assert said.startswith(f"{name} (")
    assert "looks like a person's key, and repeats in the 1,000 rows" in said
    assert "privacy: {unit: row}" in said


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("client_id", range(ROWS)),  # a row each
        ("client_kind", RNG.integers(0, 5, ROWS)),  # few values
        ("department_id", RNG.integers(0, 40, ROWS)),  # a group's: 25 rows each
        ("town", RNG.integers(0, 300, ROWS)),  # no such name
        ("weight_of_patient", RNG.normal(size=ROWS).round(1)),
        ("member", RNG.random(ROWS) < 0.5),
        ("valid", RNG.integers(0, 300, ROWS)),
        ("customer_age", RNG.integers(0, 90, ROWS)),
        ("product_id", RNG.integers(0, 300, ROWS)),
        ("member_tags", [[n % 40] for n in range(ROWS)]),
    ],
)
def test_other_columns_are_not(name: str, column: object) -> None:
    assert list(person_keys(table(**{name: column}))) == []
    assert unit_remark(table(**{name: column})) == ""
