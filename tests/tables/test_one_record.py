"""Encoding is a function of one record: replacing one changes no code of the others.

All sensitivities rest on this, so it is tested from the file on: what a reader makes of a column
must not depend on all its rows.
"""

from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any

import dagster as dg
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy
from hypothesis import given
from hypothesis import strategies as st
from upath import UPath

from jam_dagster.errors import JamError
from jam_dagster.pipeline.storage.formats import TABLE
from jam_dagster.pipeline.storage.io_manager import ReleaseStore
from jam_dagster.release.files import ReleaseFiles
from jam_dagster.tables import (
    CategoricalAttribute,
    CsvSource,
    Domain,
    FrameSource,
    NumericAttribute,
    ParquetSource,
    PrefixAttribute,
    SqlSource,
    draft_domain,
    encode,
)
from jam_dagster.tables.codes.encode import each_encoded
from jam_dagster.tables.codes.table import joined
from jam_dagster.tables.domain.columns import as_frame, each_value
from jam_dagster.tables.domain.units import DURATION, TIME
from jam_dagster.tables.sources import parquet as parquet_source
from tests.examples import examples


def changed(before, after):
    """Number of records whose codes differ."""
    pairs = zip(before.columns, after.columns, strict=True)
    return int(np.any([one != another for one, another in pairs], axis=0).sum())


def read_csv(path, cells, private=True, **options):
    # Two columns, so that a missing cell is not a blank line.
    path.write_text("a,b\n" + "".join(f"{cell},x\n" for cell in cells))
    return CsvSource(str(path), **options).read(private=private)[["a"]]


def read_parquet(path, values, kind=None):
    pq.write_table(pa.table({"a": pa.array(values, kind)}), path)
    return ParquetSource(str(path)).read(private=True)


@pytest.mark.parametrize(
    ("public", "private", "replaced"),
    [
        (["01", "02", "03", "9X"], ["01", "02", "03"], "9X"),
        (["TRUE", "FALSE", "unknown"], ["TRUE", "FALSE"], "unknown"),
        (["1.0", "2.50", "none"], ["1.0", "2.50"], "none"),
        (["1.0", "2.50"], ["1.0", "2.50"], "3"),
        (["TRUE", "FALSE"], ["TRUE", "FALSE"], "false"),
        (["1", "2"], ["1", "2"], "1.0"),
        (["1", "2", "x"], ["1", "2"], ""),
    ],
)
def test_one_record_of_a_csv_file(tmp_path, public, private, replaced):
    path = tmp_path / "table.csv"
    domain = draft_domain(read_csv(path, [*public, ""], private=False))
    before = encode(read_csv(path, private * 100), domain)
    after = encode(read_csv(path, [replaced, *(private * 100)[1:]]), domain)
    assert changed(before, after) <= 1
    # Every value of the public table is known in the private one, not sent to `other`.
    assert len(np.unique(before.columns[0])) == len(private)
    attribute = domain.attributes[0]
    if isinstance(attribute, CategoricalAttribute) and attribute.other is not None:
        assert attribute.code_of(attribute.other) not in before.columns[0]


@pytest.mark.parametrize("large", [10**15, 10**16 + 1, 2**63 - 2])
def test_a_null_among_large_integers(tmp_path, large):
    path = tmp_path / "table.parquet"
    values = [large, large + 1] * 50
    attribute = CategoricalAttribute("a", (large, large + 1, 0), nullable=True, other=0)
    domain = Domain((attribute,))
    url = f"sqlite:///{tmp_path}/table.db"
    engine = sqlalchemy.create_engine(url)
    before = encode(read_parquet(path, values), domain)
    assert before.columns[0].tolist() == [0, 1] * 50
    gap = [None, *values[1:]]
    with engine.begin() as connection:
        connection.exec_driver_sql("create table t (a integer)")
        for value in gap:
            connection.exec_driver_sql("insert into t values (?)", (value,))
    for table in (read_parquet(path, gap), SqlSource(url, "select a from t").read(private=True)):
        stored = UPath(tmp_path) / "stored.parquet"
        TABLE.write(table, stored)
        for one in (table, TABLE.read(stored)):
            assert changed(before, encode(one, domain)) == 1
    pd.DataFrame({"a": pd.array(gap, dtype="Int64"), "b": 1}).set_index("a").to_parquet(path)
    assert changed(before, encode(ParquetSource(str(path)).read(private=True), domain)) == 1


WRITTEN = """
01 1 1.0 1.50 2 9X TRUE true False x ? NA inf nan -1 1e3 9007199254740993 9007199254740992.0
10000000000000000 1_000 0x1f 99999999999999999999999 2024-01-31 other 007 yes NO t 31.01.2024
$1,250.50 -$7 5% 1.000,5 27:15:00 20240131
2024-01-31T23:30 2024-01-31T23:30Z 2024-01-31T23:30+05:30 08:30 24:00 PT1H 0000-00-00 9999-12-31
"""
cells = st.sampled_from(["", " 2", *WRITTEN.split()]) | st.integers(-(2**70), 2**70).map(str)


# Floats hold none of the large ones.
LARGE = [10**16 + 1, 2**53 + 1, 2**62 + 1, 2**63 - 1]
integers = st.sampled_from([*LARGE, 1, 2]) | st.integers(-(2**63), 2**63 - 1)


def attributes(values):
    """One domain a kind: drafted, declared, with `other`, and of bins that clip."""
    kinds = [
        tuple(dict.fromkeys(map(str, values))),
        (1, 2, 9007199254740993, 1.5),
        (True, False, "x"),
    ]
    yield from (
        CategoricalAttribute("a", (*kind, "rest"), nullable=True, other="rest", dtype="object")
        for kind in kinds
    )
    yield NumericAttribute("a", (0, 1, 2, 100), nullable=True, clip=True)
    yield NumericAttribute("a", (0, 1, 2, 100), nullable=True, clip=True, unreadable="missing")
    yield CategoricalAttribute("a", (True, False), nullable=True, unreadable="missing")
    yield NumericAttribute("a", (0, 1, 2, 100), integer=True, nullable=True, clip=True)
    yield NumericAttribute("a", (0, 2**53, 2**62), integer=True, nullable=True, clip=True)
    yield CategoricalAttribute("a", ("yes", "No"), nullable=True, unreadable="missing")
    yield NumericAttribute("a", (0, 1, 2, 100), clip=True, **APART)
    yield CategoricalAttribute("a", ("yes", "No", "1"), **APART)
    yield CategoricalAttribute("a", ("007", "7", "rest"), nullable=True, other="rest")
    yield NumericAttribute("a", (0, 1, 2, 100), clip=True, format="#,##0.0#%", **MISSING)
    codes = tuple((text, 1) for text in dict.fromkeys(map(str, values)) if text)
    yield PrefixAttribute("a", prefix=1, weights=codes or (("7", 1),), **MISSING)
    yield from TIMES


MISSING: dict[str, Any] = {"nullable": True, "unreadable": "missing"}
APART: dict[str, Any] = {"nullable": True, "unreadable": "apart"}


def time_attribute(**entry):
    entry = {"outside": "clip", "nullable": True, "unreadable": "missing"} | entry
    return Domain.from_dict({"attributes": {"a": entry}}).attributes[0]


JANUARY = {"bounds": ["2024-01-01", "2024-02-15"]}
TIMES = [
    time_attribute(**JANUARY, unit="day", format="%d.%m.%Y"),
    time_attribute(**JANUARY, unit="day", unreadable="apart"),
    time_attribute(**JANUARY, unit="hour", every="day", zone="America/New_York"),
    time_attribute(**JANUARY, unit="minute", every="month", zone="Asia/Kolkata"),
    time_attribute(bounds=["00:00", "23:00"], unit="hour", dtype=TIME),
    time_attribute(bounds=[0, 40], unit="minute", dtype=DURATION),
    time_attribute(bounds=[0, 90], unit="minute", format="ISO 8601"),
    time_attribute(bounds=["00:00", "23:59"], unit="minute", every="hour", format="%I:%M %p"),
]


def assert_one_changes(read, records, place, new):
    replaced = list(records)
    replaced[place % len(records)] = new
    tables = []
    for rows in (records, replaced):
        try:
            tables.append(read(rows))
        except (JamError, pa.ArrowException):
            return
    for attribute in attributes(records):
        with suppress(JamError):
            domain = Domain((attribute,))
            before, after = (
                encode(table, domain)
                if isinstance(table, pd.DataFrame)
                else joined(each_encoded(table, domain), domain)
                for table in tables
            )
            assert changed(before, after) <= 1


@pytest.mark.slow
@examples(40)
@given(st.lists(cells, min_size=1, max_size=12), st.integers(0, 11), cells)
def test_any_record_of_a_csv_file(tmp_path_factory, records, place, new):
    path = tmp_path_factory.getbasetemp() / "any.csv"
    for decimal in (".", ","):

        def read(rows, decimal=decimal):
            path.write_text("".join(f"{one},1\n" for one in ["a", *rows]))
            return list(CsvSource(str(path), decimal=decimal).batches(["a"]))

        assert_one_changes(read, records, place, new)


@examples(40)
@given(st.lists(cells, min_size=2, max_size=12), st.integers(0, 11), cells)
def test_any_record_of_a_csv_file_of_one_column(tmp_path_factory, records, place, new):
    path = tmp_path_factory.getbasetemp() / "one.csv"

    def read(rows):
        path.write_text("".join(f"{cell}\n" for cell in ["a", *rows]))
        batches = list(CsvSource(str(path)).batches(["a"]))
        assert sum(map(len, batches)) == len(rows)
        return batches

    assert_one_changes(read, records, place, new)


PARQUET_KINDS = pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int64(), integers),
        (pa.uint64(), st.sampled_from([2**64 - 1, 2**63, 1, 2]) | st.integers(0, 2**64 - 1)),
        (pa.float64(), st.floats()),
        (pa.bool_(), st.booleans()),
        (pa.string(), cells),
        (pa.dictionary(pa.int8(), pa.string()), cells),
        (pa.decimal128(20, 2), st.decimals(0, 10**17, places=2)),
        (pa.date32(), st.dates()),
        (pa.timestamp("us"), st.datetimes()),
        (pa.timestamp("us", "Europe/Paris"), st.datetimes(timezones=st.just(UTC))),
        (pa.time64("us"), st.times()),
        (pa.duration("us"), st.timedeltas()),
    ],
    ids=lambda kind: str(kind) if isinstance(kind, pa.DataType) else "",
)


@pytest.mark.slow
@PARQUET_KINDS
@examples(20)
@given(st.data())
def test_any_record_of_a_parquet_file(tmp_path_factory, kind, value, data):
    path = tmp_path_factory.getbasetemp() / "any.parquet"
    value = st.none() | value
    records = data.draw(st.lists(value, min_size=1, max_size=12))
    stored = UPath(tmp_path_factory.getbasetemp()) / "stored.parquet"

    def read_again(rows):
        TABLE.write(read_parquet(path, rows, kind), stored)
        return TABLE.read(stored)

    place, new = data.draw(st.integers(0, 11)), data.draw(value)

    def read(rows):
        read_parquet(path, rows, kind)
        return list(ParquetSource(str(path)).batches(["a"]))

    assert_one_changes(read, records, place, new)
    assert_one_changes(read_again, records, place, new)


@PARQUET_KINDS
@examples(10)
@given(st.data())
def test_chunks_of_a_parquet_file_are_read_as_the_whole(tmp_path_factory, kind, value, data):
    # A chunk's column may have another dtype than the whole one.
    path = tmp_path_factory.getbasetemp() / "chunks.parquet"
    records = data.draw(st.lists(st.none() | value, min_size=1, max_size=12))
    try:
        whole = read_parquet(path, records, kind)
    except (JamError, pa.ArrowException):
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet_source, "READ_ROWS", data.draw(st.integers(2, 6)))
        chunks = list(ParquetSource(str(path)).batches(["a"]))
    for attribute in attributes(records):
        domain = Domain((attribute,))
        try:
            expected = encode(whole, domain)
        except JamError as error:
            with pytest.raises(type(error)):
                joined(each_encoded(chunks, domain), domain, records=len(records))
        else:
            found = joined(each_encoded(chunks, domain), domain, records=len(records))
            assert changed(expected, found) == 0


def frame(cells):
    column = np.fromiter(cells, object, len(cells))
    return pd.DataFrame({"a": pd.Series(column, dtype=object)})


def read_frame(cells):
    return FrameSource(frame(cells), "people").read(private=True)


@pytest.fixture(scope="module")
def output():
    with dg.build_output_context(asset_key="people") as context:
        yield context


def read_stored(folder, context):
    """Read a table that Dagster keeps in a private store, such as the value of an asset."""
    store = ReleaseStore(ReleaseFiles(UPath(folder), private=True))

    def read(cells):
        store.dump_to_path(context, frame(cells), UPath(folder) / "people")
        return TABLE.read(UPath(folder) / "people.parquet")

    return read


def at(hour, offset):
    return datetime(2024, 1, 1, hour, tzinfo=timezone(timedelta(hours=offset)))


@pytest.mark.parametrize(
    ("known", "new"),
    [
        ([1, 2, 3], date(2024, 1, 31)),
        (["a", "b", "c"], b"a"),
        ([True, False], 1.0),
        ([2**60, 2**60 + 1, 2**53 + 1], Decimal("0.5")),
        ([np.True_, np.False_], np.datetime64("2024-01-31")),
        ([[1, 2], [3, 4]], 1),
        ([at(0, 0), at(2, 0)], at(1, 1)),
        (["1", "2"], "\udcff"),
        ([1, 2], Decimal("sNaN")),
        ([1, 2], 10**5000),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, list) else "",
)
def test_one_cell_of_another_type(tmp_path, output, known, new):
    values = (*map(str, known), "rest")
    domain = Domain((CategoricalAttribute("a", values, nullable=True, other="rest"),))
    for read in (read_frame, read_stored(tmp_path, output)):
        records = known * 9
        before = encode(read(records), domain)
        assert before.columns[0].tolist() == list(range(len(known))) * 9
        for place in (0, len(records) - 1):
            after = encode(read([*records[:place], new, *records[place + 1 :]]), domain)
            assert np.flatnonzero(before.columns[0] != after.columns[0]).tolist() == [place]


anything = st.one_of(
    st.sampled_from([None, np.nan, pd.NA, pd.NaT, np.datetime64("NaT"), Decimal("NaN"), 0.0, -0.0]),
    integers,
    st.booleans(),
    st.floats(),
    cells,
    st.text(max_size=3),
    st.binary(max_size=3),
    st.decimals(),
    st.fractions(),
    st.complex_numbers(),
    st.dates(),
    st.datetimes(timezones=st.none() | st.timezones()),
    st.timedeltas(),
    st.times(timezones=st.none() | st.timezones()),
    st.booleans().map(np.bool_),
    st.integers(-9, 9).map(np.int8),
    st.floats(width=32).map(np.float32),
    st.sampled_from(WRITTEN.split()).map(np.str_),
    st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1)).map(pd.Timestamp),
    st.dates().map(np.datetime64),
    st.lists(st.integers(0, 3), max_size=2),
)


@pytest.mark.slow
@examples(100)
@given(st.lists(anything, min_size=1, max_size=8), st.integers(0, 7), anything)
def test_any_cell_of_a_column_of_objects(tmp_path_factory, output, records, place, new):
    assert_one_changes(read_frame, records, place, new)
    assert_one_changes(read_stored(tmp_path_factory.getbasetemp(), output), records, place, new)


@pytest.mark.parametrize("cell", [Fraction(10**400), np.timedelta64(1, "D")])
def test_a_cell_without_a_text_is_not_missing(tmp_path, output, cell):
    stored = read_stored(tmp_path, output)([cell, "a"])
    listed = CategoricalAttribute("a", ("a", "rest"), nullable=True, other="rest")
    for table in (read_frame([cell, "a"]), stored):
        assert encode(table, Domain((listed,))).columns[0].tolist() == [1, 0]
    gap, held = (FrameSource(frame([one]), "people").contents(["a"]) for one in (None, cell))
    assert gap != held


@pytest.mark.slow
@examples(100)
@given(st.lists(anything, min_size=1, max_size=8))
def test_a_stored_cell_encodes_as_the_cell(tmp_path_factory, output, records):
    stored = read_stored(tmp_path_factory.getbasetemp(), output)(records)
    for attribute in attributes(map(str, records)):
        with suppress(JamError):
            domain = Domain((attribute,))
            assert changed(encode(read_frame(records), domain), encode(stored, domain)) == 0


sqlite_values = st.none() | integers | st.floats(0, 9) | cells | st.binary(max_size=3)


@examples(20)
@given(
    st.lists(sqlite_values, min_size=1, max_size=12),
    st.integers(0, 11),
    sqlite_values,
    st.sampled_from(["", "integer", "real", "text", "numeric"]),
)
def test_any_record_of_a_database(tmp_path_factory, records, place, new, kind):
    # SQLite takes a value of any type in any column.
    url = f"sqlite:///{tmp_path_factory.getbasetemp()}/any.db"
    engine = sqlalchemy.create_engine(url)

    def read(rows):
        with engine.begin() as connection:
            connection.exec_driver_sql("drop table if exists t")
            connection.exec_driver_sql(f"create table t (a {kind})")
            for row in rows:
                connection.exec_driver_sql("insert into t values (?)", (row,))
        return SqlSource(url, "select a from t order by rowid").read(private=True)

    assert_one_changes(read, records, place, new)
    engine.dispose()


def test_a_value_in_the_name_of_a_folder(tmp_path):
    # Arrow reads a number where the names of all folders are numbers.
    def read(months):
        folder = tmp_path / "-".join(months)
        for month in months:
            path = folder / f"month={month}" / "rows.parquet"
            path.parent.mkdir(parents=True)
            pq.write_table(pa.table({"a": [1]}), path)
        source = ParquetSource(str(folder))
        return source.read(private=True), pd.concat(map(as_frame, source.batches(["month"])))

    domain = Domain((CategoricalAttribute("month", ("01", "1", "02", "rest"), other="rest"),))
    for before, after in zip(read(["01", "02"]), read(["01", "x"]), strict=True):
        assert encode(before, domain).columns[0].tolist() == [0, 2]
        assert encode(after, domain).columns[0].tolist() == [0, 3]


def test_an_index_of_objects():
    # Pandas would choose a type for an index that becomes a column.
    index = pd.Index(np.array([True, 1.0, 2], object), name="a")
    found = FrameSource(pd.DataFrame({"b": [1, 2, 3]}, index=index), "people").read(private=True)
    assert [type(cell) for cell in found["a"]] == [bool, float, int]


@pytest.mark.parametrize("dtype", [object, pd.StringDtype("python", na_value=np.nan)])
def test_a_text_without_utf_8_is_not_the_text_that_shows_it(dtype):
    cells = pd.Series(["\ud800", repr("\ud800"), "x"], dtype=dtype)
    assert each_value(cells, len, None).tolist() == [1, 8, 1]
