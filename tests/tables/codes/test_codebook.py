"""A cell of Arrow data has the code of the cell alone, whatever is kept of earlier batches."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from jam_dagster.errors import DomainError, PrivateStepError, PrivateValuesError
from jam_dagster.tables import Domain, encode
from jam_dagster.tables.codes import codebook
from jam_dagster.tables.codes.codebook import Codebook
from jam_dagster.tables.codes.encode import each_encoded
from jam_dagster.tables.domain.columns import as_frame

TOWNS = Domain.from_dict(
    {"attributes": {"town": {"values": ["a", "b", "rest"], "other": "rest", "nullable": True}}}
)
LISTED = Domain.from_dict({"attributes": {"town": {"values": ["a", "b"]}}})


def domain_of(entry: dict[str, Any]) -> Domain:
    return Domain.from_dict({"attributes": {"x": entry}})


def batch_of(cells: pa.Array, name: str = "x") -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([cells], [name])


def codes_of(batches: list[pa.RecordBatch], domain: Domain) -> list[int]:
    return [int(one) for part in each_encoded(batches, domain) for one in part.columns[0]]


OTHER = {"values": ["1", "2", "rest"], "other": "rest", "nullable": True}
BINS = {"edges": [0, 1, 2, 1e300], "outside": "clip", "nullable": True}
DAYS = {"bounds": ["2024-01-01", "2024-01-31"], "unit": "day", "outside": "clip", "nullable": True}
CELLS = {
    "texts": (OTHER, pa.array(["1", "x", None, "2", "1"])),
    "large texts": (OTHER, pa.array(["1", "x", None, "2", "1"], pa.large_string())),
    "views of texts": (OTHER, pa.array(["1", "x", None, "2", "1"], pa.string_view())),
    "texts of a dictionary": (OTHER, pa.array(["1", "x", None, "2", "1"]).dictionary_encode()),
    "booleans": ({"values": [True, False], "nullable": True}, pa.array([True, None, False])),
    "whole numbers": (OTHER, pa.array([1, 2, None, 3, 1], pa.uint8())),
    "floats": (OTHER, pa.array([1.0, 2.5, None, float("nan"), 2.0])),
    "half precision": (OTHER, pa.array([1.0, 2.5, None], pa.float16())),
    "decimals": (OTHER, pa.array([Decimal("1.00"), Decimal("2.50"), None])),
    "identifiers": (OTHER, pa.array([b"0" * 16, None], pa.uuid())),
    "short decimals": (OTHER, pa.array([Decimal("1.00"), None], pa.decimal32(5, 2))),
    "nulls": (OTHER, pa.nulls(3)),
    "bins": (BINS, pa.array([0.5, 1.0, None, float("nan"), -1.0, float("inf")])),
    "bins of whole numbers": (BINS, pa.array([0, 1, None, 2**62 + 1, 7])),
    "bins of texts": ({**BINS, "unreadable": "missing"}, pa.array(["0.5", "1", None, "many"])),
    "bins of decimals": (BINS, pa.array([Decimal("0.99"), Decimal("1.00"), None])),
    "days": (DAYS, pa.array([date(2024, 1, 2), None, date(1999, 1, 1)])),
    "instants": (DAYS, pa.array([datetime(2024, 1, 2, 23, 59, tzinfo=UTC), None])),
    "nanoseconds": (DAYS, pa.array([pd.Timestamp("2024-01-02T03:04:05.000000001"), None])),
    "times of day": (
        {"bounds": ["00:00", "23:59"], "unit": "hour", "dtype": "time64[us][pyarrow]"},
        pa.array([time(3), time(23, 59)]),
    ),
    "durations": (
        {"bounds": [0, 9], "unit": "hour", "dtype": "timedelta64[us]", "outside": "clip"},
        pa.array([timedelta(hours=3), timedelta(days=2)]),
    ),
}


@pytest.mark.parametrize(("entry", "cells"), CELLS.values(), ids=CELLS)
def test_a_cell_has_the_code_that_it_has_in_a_frame(
    entry: dict[str, Any], cells: pa.Array, monkeypatch: pytest.MonkeyPatch
) -> None:
    domain = domain_of(entry)
    whole = batch_of(cells)
    expected = encode(as_frame(whole), domain).columns[0].tolist()
    parts = [whole.slice(row, 1) for row in range(len(cells))]
    for kept in (codebook.MOST_KEPT, 1, 0):
        monkeypatch.setattr(codebook, "MOST_KEPT", kept)
        assert codes_of([whole, whole], domain) == expected * 2
        assert codes_of([*parts, *reversed(parts)], domain) == [*expected, *reversed(expected)]


def test_cells_of_a_dictionary_that_no_row_has_are_no_fault() -> None:
    cells = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array(["a", "b", "SECRET"]))
    assert codes_of([batch_of(cells, "town")], LISTED) == [0, 1, 0]


def test_a_null_or_a_cell_twice_in_a_dictionary() -> None:
    cells = pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 2, 3, None], pa.uint8()), pa.array(["b", None, "a", "b"])
    )
    assert codes_of([batch_of(cells, "town")], TOWNS) == [1, 3, 0, 1, 3]
    with pytest.raises(PrivateValuesError):
        codes_of([batch_of(cells, "town")], LISTED)


def test_batches_of_one_column_may_have_several_types() -> None:
    texts = pa.array(["a", "z", None])
    batches = [texts, texts.dictionary_encode(), texts.cast(pa.large_string()), texts]
    found = codes_of([batch_of(one, "town") for one in batches], TOWNS)
    assert found == [0, 2, 3] * 4


def test_few_cells_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codebook, "MOST_KEPT", 100)
    book = Codebook(TOWNS.attributes[0])
    for begin in range(0, 1000, 40):
        texts = [*(f"t{number}" for number in range(begin, begin + 40)), "a"]
        assert book.encode(pa.array(texts)).tolist() == [2] * 40 + [0]
    assert book._cells is not None
    assert len(book._cells) == len(book._codes) == 100


def test_each_distinct_cell_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    (attribute,), asked = TOWNS.attributes, []
    known = type(attribute).codes_in
    monkeypatch.setattr(
        type(attribute),
        "codes_in",
        lambda self, column: asked.extend(column) or known(self, column),
    )
    rng = np.random.default_rng(0)
    batches = [pa.array(rng.choice(["a", "b", "c", "d"], 1000)) for _ in range(5)]
    codes_of([batch_of(one, "town") for one in batches], TOWNS)
    assert sorted(asked) == ["a", "b", "c", "d"]


def test_faults_of_columns_are_named_and_those_of_values_are_not() -> None:
    with pytest.raises(DomainError, match="no column 'town'"):
        codes_of([batch_of(pa.array(["SECRET"]))], TOWNS)
    twice = pa.RecordBatch.from_arrays([pa.array(["a"])] * 2, ["town", "town"])
    with pytest.raises(DomainError, match="has column 'town' twice"):
        codes_of([twice], TOWNS)
    with pytest.raises(DomainError, match="is numeric, but the table's column has dtype"):
        codes_of([batch_of(pa.array([datetime(2024, 1, 2)]))], domain_of(BINS))
    for numbers in (pa.array([1]), pa.array([1]).dictionary_encode()):
        with pytest.raises(DomainError, match="is of dates or times, but the table's column"):
            codes_of([batch_of(numbers)], domain_of(DAYS))
    bad = pa.StringArray.from_buffers(
        1, pa.array([0, 1], pa.int32()).buffers()[1], pa.py_buffer(b"\xff")
    )
    for cells in (pa.array(["a", "SECRET"]), pa.array(["a", None]), bad):
        with pytest.raises(PrivateValuesError) as caught:
            codes_of([batch_of(cells, "town")], LISTED)
        assert str(caught.value) == str(PrivateValuesError())
        assert caught.value.__context__ is None
    assert not issubclass(PrivateValuesError, PrivateStepError)


@pytest.mark.parametrize("cells", [pa.array([b"a"]), pa.array([[1]])])
def test_cells_of_no_value_are_none_of_other(cells: pa.Array) -> None:
    with pytest.raises(DomainError, match="leave it out of the domain"):
        codes_of([batch_of(cells)], domain_of(OTHER))
