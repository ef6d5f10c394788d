"""The cells of a decoded table are found again, and what is no value of it is found out."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jam_dagster.tables import CategoricalAttribute, Domain, EncodedTable, NumericAttribute
from jam_dagster.tables.codes.decode import decode
from jam_dagster.tables.domain.attributes import OUTSIDE, Attribute
from jam_dagster.tables.domain.text_dtype import name_of
from tests.dtypes import EVERY_DTYPE
from tests.evaluation.conftest import small_domain
from tests.examples import examples


@examples(50)
@given(st.integers(0, 2**32 - 1), st.integers(1, 60))
def test_codes_of_decoded_values_are_the_codes_they_came_from(seed: int, records: int) -> None:
    domain, rng = small_domain(), np.random.default_rng(seed)
    age = rng.integers(1, 5, records)  # Children would meet an impossible combination.
    others = [rng.integers(0, size, records) for size in domain.shape[1:]]
    encoded = EncodedTable(domain, (age, *others))
    table = decode(encoded, rng)
    for attribute in domain.attributes:
        column = table[attribute.name]
        assert attribute.listed_codes(column).tolist() == encoded.column(attribute.name).tolist()


def test_other_and_clipped_values_are_outside() -> None:
    category = CategoricalAttribute("c", ("x", "other"), other="other")
    found = category.listed_codes(pd.Series(["x", "y", None, "other"]))
    assert found.tolist() == [0, OUTSIDE, OUTSIDE, 1]
    number = NumericAttribute("n", (0.0, 1.0, 2.0), clip=True)
    values = pd.Series([-0.1, 0.0, 1.0, 2.0, 2.1, np.inf, -np.inf, np.nan])
    assert number.listed_codes(values).tolist() == [-1, 0, 1, 1, -1, -1, -1, -1]


@pytest.mark.parametrize("attribute", EVERY_DTYPE.attributes, ids=lambda one: one.name)
def test_missing_cells_of_every_dtype_have_the_last_cell(attribute: Attribute) -> None:
    codes = np.array([*range(attribute.size), attribute.size - 1])
    table = decode(EncodedTable(Domain((attribute,)), (codes,)), np.random.default_rng(0))
    assert name_of(table[attribute.name].dtype) == attribute.dtype
    assert attribute.listed_codes(table[attribute.name]).tolist() == codes.tolist()


def test_text_in_a_number_column_is_outside() -> None:
    number = NumericAttribute("n", (0.0, 5.0))
    assert number.listed_codes(pd.Series(["1", "one"])).tolist() == [0, OUTSIDE]
