"""Rows that repeat the key of an earlier one are found from chunk to chunk as in the whole."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from jam_dagster.evaluation.expectations.keys_seen import KeysSeen
from jam_dagster.tables.domain.unique import Unique

DAY = datetime.date(2024, 1, 1)
EXACT = pd.array([Decimal("1.1"), 2, 3], dtype=pd.ArrowDtype(pa.decimal128(38, 2)))

ALIKE: dict[str, tuple[Any, Any]] = {
    "integers, some missing": ([3, -(2**40), 7], [3.0, float(-(2**40)), np.nan]),
    "integers of pandas": ([3, 2, 1], pd.array([3, 2, pd.NA], dtype="Int64")),
    "small integers": (np.array([3, 2, 1], np.int8), np.array([3, 2, 9], np.uint64)),
    "booleans, some missing": ([True, False, True], [True, False, None]),
    "floats": ([0.5, 0.0, 1.5], pd.array([0.5, -0.0, pd.NA], dtype="Float64")),
    "other categories": (pd.Categorical(list("abb")), pd.Categorical(list("abc"), list("cba"))),
    "categories of integers": (pd.Categorical([1, 2, 5]), [1.0, 2.0, np.nan]),
    "texts": (list("abx"), pd.array(["a", "b", None], dtype="string")),
    "dates": ([DAY, DAY.replace(day=2), DAY], [DAY, DAY.replace(day=2), None]),
    "decimals": (EXACT, EXACT[:2].insert(2, pd.NA)),
    "times": (pd.to_datetime([1, 2, 3]), pd.to_datetime([1, 2, None])),
}


@pytest.mark.parametrize("kind", ALIKE)
def test_the_same_values_of_two_chunks_are_one_key(kind: str) -> None:
    one, other = (pd.DataFrame({"a": given, "b": [1, 1, 1]}) for given in ALIKE[kind])
    keys = KeysSeen()
    keys.repeated(one)
    assert keys.repeated(other).tolist() == [True, True, False]


def test_as_many_rows_repeat_earlier_ones_as_in_the_whole() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.integers(0, 60, 3000), "b": rng.integers(0, 60, 3000) / 4})
    table = table.mask(rng.random(table.shape) < 0.1)
    keys = KeysSeen()
    # A chunk may have few rows, none, or none without a gap.
    gaps = pd.DataFrame({"a": [np.nan] * 2, "b": [1.0] * 2})
    chunks = [table[:1000], table[1000:1010], gaps, table[:0], table[1010:]]
    found = np.concatenate([keys.repeated(one) for one in chunks])
    expected = Unique(("a", "b")).repeated(pd.concat(chunks))
    assert 500 < expected.sum() < 2500
    np.testing.assert_array_equal(found, expected)


def test_each_row_holds_eight_bytes_at_most_in_few_arrays() -> None:
    keys, rows = KeysSeen(), np.arange(100)
    for chunk in range(200):
        repeats = rows[: chunk % 7]
        part = pd.DataFrame({"a": np.append(rows + 100 * chunk, repeats), "b": "x"})
        assert keys.repeated(part).sum() == len(repeats)
    assert sum(one.nbytes for one in keys.runs) == 8 * 100 * 200
    assert len(keys.runs) < 10
    assert all((np.diff(one) > 0).all() for one in keys.runs)
