"""A table in memory has the values that the same table in a Parquet file has."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jam_dagster.errors import PrivateValuesError, SourceError, SpecificationError
from jam_dagster.tables import (
    CategoricalAttribute,
    Domain,
    FrameSource,
    NumericAttribute,
    ParquetSource,
    Source,
    encode,
)
from jam_dagster.tables.codes.table import EncodedTable
from jam_dagster.tables.domain.columns import cell_text, each_value
from jam_dagster.tables.sources.frame import polars_of
from jam_dagster.tables.sources.public_apart import same_rows
from tests.examples import examples

PEOPLE = {
    "age": pd.array([17, None, 2**60 + 1], dtype="Int64"),
    "town": ["Aix", None, "Ö"],
    "share": [0.5, np.nan, -1.0],
    "member": [True, False, True],
    "kind": pd.Categorical(["b", "a", None], categories=["b", "a", "c"]),
    "born": [date(2000, 1, 1), None, date(1999, 12, 31)],
}


def written(table: Any, folder: Path) -> pd.DataFrame:
    """Return what the Parquet source gives for the same table."""
    path = folder / "table.parquet"
    if isinstance(table, pd.DataFrame):
        table.to_parquet(path)
    else:
        pq.write_table(table, path)
    return ParquetSource(str(path)).read(private=True)


FRAMES = {
    "all types": pd.DataFrame(PEOPLE),
    "an index with a name": pd.DataFrame(PEOPLE).set_index("town"),
    "two names of an index": pd.DataFrame(PEOPLE).set_index(["town", "share"]),
    "a numbered index with a name": pd.DataFrame(
        {"a": [1, 2]}, index=pd.RangeIndex(5, 7, name="row")
    ),
    "an index without a name": pd.DataFrame({"a": [1, 2]}, index=["x", "y"]),
    "objects": pd.DataFrame({"a": np.array([1, None, 3], object), "b": ["x", None, "y"]}),
    "no rows": pd.DataFrame(PEOPLE).drop(columns="kind").iloc[:0],
    "pyarrow": pa.table({"a": [1, None], "b": ["x", "y"]}),
    "large texts": pa.table({"b": pa.array(["x", None], pa.large_string())}),
    "chunks": pa.concat_tables([pa.table({"a": [1, None]}), pa.table({"a": [3]})]),
}


@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize("private", [True, False])
def test_values_are_those_of_a_parquet_file(tmp_path: Path, name: str, private: bool) -> None:
    found = FrameSource(FRAMES[name], "people").read(private=private)

    wanted = written(FRAMES[name], tmp_path)
    assert found.columns.tolist() == wanted.columns.tolist()
    for column in wanted:
        texts = (each_value(table[column], cell_text, None) for table in (found, wanted))
        np.testing.assert_array_equal(*texts)


def test_texts_as_polars_hands_them_on() -> None:
    table = pa.table(
        {
            "a": pa.array(["x", None], pa.string_view()),
            "b": pa.DictionaryArray.from_arrays(pa.array([1, 0], pa.uint32()), ["u", "v"]),
        }
    )
    found = FrameSource(table, "people").read(private=True)

    assert found["a"].isna().tolist() == [False, True]
    assert found["b"].tolist() == ["v", "u"]


def test_a_frame_of_polars(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    table = polars.DataFrame({"a": [1, None], "b": ["x", "y"]})

    found = FrameSource(table, "people").read(private=True)

    pd.testing.assert_frame_equal(found, written(table.to_arrow(), tmp_path))


class Exported:
    """A table of a library that nobody here knows."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def test_any_library_that_hands_on_arrow_data() -> None:
    table = pa.table({"a": [1, 2]})

    assert FrameSource(Exported(table), "people").read(private=True)["a"].tolist() == [1, 2]
    assert "Exported in memory" in FrameSource(Exported(table), "people").describe()


DOMAIN = Domain(
    (
        NumericAttribute("number", (-4.0, 0.0, 1.0, 9.0), integer=True, nullable=True, clip=True),
        CategoricalAttribute("text", ("a", "b", "1"), nullable=True, other="b"),
        CategoricalAttribute("truth", (True, False), nullable=True),
        NumericAttribute("share", (-1.0, 0.0, 0.5, 1.0), nullable=True, clip=True),
    )
)

ROWS = st.lists(
    st.tuples(
        st.none() | st.integers(-(2**40), 2**40),
        st.none() | st.sampled_from(["a", "b", "1", "", "ü", "x" * 50]),
        st.none() | st.booleans(),
        st.none() | st.floats(allow_nan=False, width=32),
    ),
    min_size=1,
    max_size=20,
)


@pytest.mark.slow
@examples(50)
@given(ROWS)
def test_codes_are_those_of_a_parquet_file(rows: list[tuple[Any, ...]]) -> None:
    columns = list(zip(*rows, strict=True))
    types = [pa.int64(), pa.string(), pa.bool_(), pa.float64()]
    arrow = pa.table(
        [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)],
        list(DOMAIN.names),
    )
    with TemporaryDirectory() as folder:
        path = str(Path(folder, "table.parquet"))
        pq.write_table(arrow, path)
        wanted = ParquetSource(path).counted(DOMAIN, None, None)
        assert isinstance(wanted, EncodedTable)
    for table in (arrow, arrow.to_pandas(), arrow.to_pandas(integer_object_nulls=True)):
        found = encode(FrameSource(table, "people").read(private=True), DOMAIN, private=True)
        for codes, others in zip(found.columns, wanted.columns, strict=True):
            assert codes.tolist() == others.tolist()


def test_what_is_no_table_is_refused() -> None:
    for thing in ([1, 2], {"a": [1]}, np.zeros(3), None):
        with pytest.raises(SpecificationError, match="is not a table: give a DataFrame"):
            FrameSource(thing, "people")
    with pytest.raises(SpecificationError, match="__arrow_c_stream__"):
        # As an earlier polars, which hands on no Arrow data.
        FrameSource(type("DataFrame", (), {"__module__": "polars"})(), "people")


def test_columns_of_the_same_name_are_refused() -> None:
    twice = pd.DataFrame([[1, 2]], columns=["a", "a"])
    like_the_index = pd.DataFrame({"a": [1]}, index=pd.Index(["x"], name="a"))
    as_texts = pd.DataFrame([[1, 2]], columns=[0, "0"])
    for table in (twice, like_the_index, as_texts, pa.table([[1], [2]], names=["a", "a"])):
        for private in (True, False):
            with pytest.raises(SourceError, match=r"two columns of the same name, .* rename one"):
                FrameSource(table, "people").read(private=private)


def test_cells_of_mixed_types_are_read_one_by_one() -> None:
    cells = np.array(["a", 7, True, b"a", date(2000, 1, 1), None], object)
    table = pd.DataFrame({"mixed": cells, "kind": pd.Categorical(["a", 7, True, None, "a", "a"])})

    for private in (True, False):
        found = FrameSource(table, "people").read(private=private)

        assert found["mixed"].tolist() == cells.tolist()
        assert found["kind"].astype(object).tolist()[:3] == ["a", 7, True]
    assert table["mixed"].tolist() == cells.tolist()


def test_a_table_of_arrow_that_cannot_be_converted_tells_nothing_where_it_is_private() -> None:
    class Broken:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            raise ValueError("Secretville")

    with pytest.raises(PrivateValuesError) as caught:
        FrameSource(Broken(), "people").read(private=True)
    assert "Secretville" not in str(caught.value)
    assert caught.value.__context__ is caught.value.__cause__ is None
    with pytest.raises(SourceError, match="give each column values of one type"):
        FrameSource(Broken(), "people").read(private=False)


def test_nothing_of_the_table_is_told() -> None:
    source = FrameSource(pd.DataFrame({"town": ["Secretville"]}), "people")
    output = [repr(source), source.identity(), source.describe(), str(source.to_dict())]

    assert not any("Secretville" in text or "town" in text for text in output)
    assert source.describe() == "pandas DataFrame in memory"
    assert isinstance(source, Source)
    assert source.restricted_because is None


def test_a_digest_of_contents_is_that_of_the_rows_in_any_order() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.integers(0, 300, 50), "b": rng.choice(["x", "y", None], 50)})

    def contents(frame: pd.DataFrame, *names: str) -> str:
        return FrameSource(frame, "people").contents(names or ["a", "b"])

    assert contents(table) == contents(table.iloc[rng.permutation(50)])
    assert contents(table) == contents(table.astype({"a": float}).assign(c=0))
    assert contents(table) != contents(table.assign(b=np.roll(table["b"], 1)))
    assert contents(table) != contents(table, "a")
    assert contents(table) != contents(table.iloc[:49])
    # A row that occurs twice counts twice.
    assert contents(table.iloc[[0, 0, 1]]) != contents(table.iloc[[0, 1, 1]])
    # Where the number of rows is private, there may be none.
    assert contents(table.iloc[:0]) == contents(table.iloc[:0])


def test_a_source_is_known_by_its_name_and_a_public_table_by_the_object() -> None:
    table, other = pd.DataFrame({"a": [1]}), pd.DataFrame({"a": [2]})

    assert FrameSource(table, "p").identity() == FrameSource(other, "p").identity()
    assert FrameSource(table, "p").identity() != FrameSource(table, "q").identity()
    assert same_rows(FrameSource(table, "p"), FrameSource(table, "q"))
    assert not same_rows(FrameSource(table, "p"), FrameSource(other, "p"))
    assert not same_rows(FrameSource(table, "p"), ParquetSource("p"))


def test_a_table_of_polars_comes_back_with_its_types() -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    table = polars.DataFrame(
        {
            "integer": [1, None],
            "number": [0.5, 1.5],
            "text": ["a", None],
            "level": polars.Series(["low", "high"], dtype=polars.Enum(["low", "high", "top"])),
            "plain": polars.Series(["x", "y"], dtype=polars.Categorical),
            "yes": [True, None],
            "day": [date(2024, 1, 5), date(2024, 2, 5)],
            "at": [datetime(2024, 1, 5, 6), None],
            "hour": [time(6), time(7)],
            "length": [timedelta(hours=1), None],
            "price": [Decimal("1.50"), None],
        }
    )
    made = polars_of(FrameSource(table, "people").read(private=False))
    assert made.schema == table.schema
    assert made.rows() == table.rows()
    assert FrameSource(table, "people").is_polars
    assert not FrameSource(pd.DataFrame({"a": [1]}), "people").is_polars
