"""A Parquet table in chunks: the same codes and counts as the whole, whatever its size."""

import os
import tracemalloc
from functools import partial
from itertools import combinations
from pathlib import Path

import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import assume, given
from hypothesis import strategies as st
from pandas.api.types import is_object_dtype

from jam_dagster.errors import (
    DomainError,
    InputError,
    JamError,
    PrivateValuesError,
    SourceError,
)
from jam_dagster.tables import (
    CategoricalAttribute,
    Domain,
    EncodedTable,
    NumericAttribute,
    ParquetSource,
    PrivacyUnit,
    decode,
    encode,
    marginal_blocks,
)
from jam_dagster.tables.codes import marginals
from jam_dagster.tables.codes.encode import each_encoded
from jam_dagster.tables.codes.privacy_unit import LimitedRows
from jam_dagster.tables.codes.table import joined
from jam_dagster.tables.domain.values import text_of
from jam_dagster.tables.sources import parquet as parquet_source
from jam_dagster.tables.sources.parquet import ParquetTable
from tests.examples import examples

SENTINEL = "zq81sentinel"
AB = Domain((CategoricalAttribute("a", ("u", "v")), NumericAttribute("b", (0, 10, 20))))


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(parquet_source, "READ_ROWS", 3)


def write(path, columns, rows_in_a_group=4):
    pq.write_table(pa.table(columns), path, row_group_size=rows_in_a_group)
    return ParquetSource(str(path))


def people(path, rows=10, **columns):
    known = {"a": ["u", "v"] * (rows // 2), "b": list(np.arange(rows) % 20), "name": ["x"] * rows}
    return write(path, known | columns)


def counted(source, domain, cliques=(), *, limit=parquet_source.ENCODED_BYTES):
    """Return the private table, which is left in its file above some bytes of codes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet_source, "ENCODED_BYTES", limit)
        return source.counted(domain, None, None, cliques)


def all_cliques(domain):
    return [
        clique for k in range(len(domain.names) + 1) for clique in combinations(domain.names, k)
    ]


def assert_same(table, expected):
    assert table.records == expected.records
    cliques = all_cliques(expected.domain)
    found, wanted = table.marginals(cliques), expected.marginals(cliques)
    assert list(found) == cliques
    for clique in cliques:
        assert found[clique].dtype == wanted[clique].dtype
        assert np.array_equal(found[clique], wanted[clique])


@examples(20)
@given(st.from_type(EncodedTable), st.integers(0, 9), st.integers(1, 9))
def test_any_table_counts_as_in_memory(tmp_path_factory, table, seed, rows_in_a_group):
    values = decode(table, np.random.default_rng(seed))
    # Parquet holds no column of several types; a text stands for what it writes.
    for name in filter(lambda name: is_object_dtype(values[name]), values.columns):
        values[name] = values[name].map(text_of, na_action="ignore")
    path = tmp_path_factory.getbasetemp() / "any.parquet"
    values.to_parquet(path, row_group_size=rows_in_a_group)
    source = ParquetSource(str(path))
    try:
        expected = encode(source.read(private=True), table.domain)
    except JamError:
        # Such as a text that writes another value of the attribute as a number.
        assume(False)
    streamed = counted(source, table.domain, limit=0)
    held = counted(source, table.domain)
    assert isinstance(streamed, ParquetTable)
    assert isinstance(held, EncodedTable)
    assert all(map(np.array_equal, held.columns, expected.columns))
    assert_same(streamed, expected)
    assert streamed.contents() == expected.contents()


@pytest.mark.parametrize("rows_in_a_group", [1, 2, 3, 4, 100])
def test_batches_split_row_groups_and_lose_no_row(tmp_path, rows_in_a_group):
    source = write(tmp_path / "t.parquet", {"a": list(range(10))}, rows_in_a_group)
    batches = list(source.batches(["a"]))
    assert pa.Table.from_batches(batches)["a"].to_pylist() == list(range(10))
    assert max(map(len, batches)) <= 3
    assert source.rows() == 10


def test_what_is_held_depends_on_the_size_of_the_codes(tmp_path):
    source = people(tmp_path / "t.parquet")
    assert isinstance(counted(source, AB, limit=20), EncodedTable)
    assert isinstance(counted(source, AB, limit=19), ParquetTable)
    assert isinstance(counted(source, AB), EncodedTable)


@pytest.fixture
def passes(monkeypatch):
    """The passes over a file, which grow with each one."""
    found, read = [], ParquetSource.batches
    monkeypatch.setattr(
        ParquetSource, "batches", lambda *given, **rest: found.append(1) or read(*given, **rest)
    )
    return found


def test_what_will_be_asked_for_is_counted_as_the_table_is_checked(tmp_path, passes):
    source = people(tmp_path / "t.parquet")
    table = counted(source, AB, [("a",), ("b",), ("a", "b")], limit=0)
    expected = counted(source, AB)
    assert len(passes) == 2
    assert_same(table, expected)
    assert len(passes) == 2


def test_a_folder_reads_as_in_memory(tmp_path):
    for year in (2023, 2024):
        (tmp_path / f"year={year}").mkdir()
    columns = {"a": ["u", "v", "u", "v", None], "b": pa.array([1, 2, None, 4, 15], pa.int64())}
    pq.write_table(pa.table(columns), tmp_path / "year=2023" / "one.parquet")
    # Another type, and a column less.
    narrow = {"b": pa.array([3, 19], pa.int16())}
    pq.write_table(pa.table(narrow), tmp_path / "year=2024" / "two.parquet")
    domain = Domain(
        (
            CategoricalAttribute("a", ("u", "v"), nullable=True),
            NumericAttribute("b", (0, 10, 20), nullable=True),
            CategoricalAttribute("year", (2023, 2024)),
        )
    )
    source = ParquetSource(str(tmp_path))
    assert source.rows() == 7
    expected = encode(source.read(private=True), domain)
    assert expected.marginal(("year",)).tolist() == [5, 2]
    assert_same(counted(source, domain, limit=0), expected)


@pytest.mark.parametrize("name", ["a", "b", "a.b"])
@pytest.mark.parametrize("kind", ["column", "named index", "numbered index"])
def test_columns_and_named_indices_are_found(tmp_path, name, kind):
    table = pd.DataFrame({"a": ["u", "v"], "b": [1, 2], "a.b": ["x", "x"]}).drop(columns=name)
    index = pd.RangeIndex(2, name=name)
    if kind != "numbered index":
        index = pd.Index([0, 1], name=name)
    table.index = index
    if kind == "column":
        table = table.reset_index()
    path = tmp_path / "t.parquet"
    table.to_parquet(path)
    source = ParquetSource(str(path))
    domain = Domain((CategoricalAttribute(name, (0, 1)),))
    assert counted(source, domain, limit=0).marginal((name,)).tolist() == [1, 1]


def test_files_that_fsspec_reaches(monkeypatch, tmp_path):
    people(tmp_path / "t.parquet")
    memory = fsspec.filesystem("memory")
    memory.pipe("/people/t.parquet", (tmp_path / "t.parquet").read_bytes())
    monkeypatch.setenv("PEOPLE", "memory://people")
    for path in ("${PEOPLE}/t.parquet", "${PEOPLE}", f"file://{tmp_path}/t.parquet"):
        source = ParquetSource(path)
        expected = encode(source.read(private=True), AB)
        assert_same(counted(source, AB, limit=0), expected)


def test_texts_are_read_once_for_every_place(tmp_path):
    for kind in (pa.string(), pa.large_string()):
        source = write(tmp_path / "t.parquet", {"a": pa.array(["u", "v"] * 5, kind)})
        for batch in source.batches(["a"]):
            assert pa.types.is_dictionary(batch.column("a").type)


@pytest.mark.parametrize(
    "columns",
    [
        {"a": ["u"] * 9 + [SENTINEL]},
        {"b": [1] * 9 + [73194]},
        {"b": [1] * 9 + [None]},
        {"b": [SENTINEL] * 10},
    ],
)
@pytest.mark.parametrize("limit", [0, 1000])
def test_a_bad_value_in_the_last_row_group_is_not_told(tmp_path, columns, limit):
    source = people(tmp_path / "t.parquet", **columns)
    with pytest.raises(PrivateValuesError) as caught:
        counted(source, AB, limit=limit)
    assert str(caught.value) == str(PrivateValuesError())
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


@pytest.mark.parametrize("limit", [0, 1000])
def test_other_tables_that_are_refused(tmp_path, limit):
    path = tmp_path / "t.parquet"
    source = ParquetSource(str(path))
    with pytest.raises(SourceError, match="no such file"):
        counted(source, AB, limit=limit)
    path.write_bytes(f"PAR1{SENTINEL}PAR1".encode())
    with pytest.raises(SourceError, match="cannot read Parquet file") as caught:
        counted(source, AB, limit=limit)
    assert SENTINEL not in str(caught.value)
    write(path, {SENTINEL: [1], "a": ["u"]})
    with pytest.raises(DomainError, match="no column 'b': add it"):
        counted(source, AB, limit=limit)
    pq.write_table(pa.table([["u"], ["v"], [1]], ["a", "a", "b"]), path)
    with pytest.raises(SourceError, match="two columns of the same name"):
        counted(source, AB, limit=limit)


A = Domain((CategoricalAttribute("a", ("u", "v"), nullable=True, unreadable="missing"),))


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        (pa.array([b"u"]), "of the type binary, whose cells are bytes: cast it to a text"),
        (pa.array([b"u"], pa.binary(1)), "whose cells are bytes"),
        (pa.array([["u"]]), "of the type list, whose cells hold several values"),
        (pa.array([{SENTINEL: "u"}]), "of the type struct, whose cells hold several values"),
        (pa.array([[("u", 1)]], pa.map_(pa.string(), pa.int64())), "of the type map"),
        (pa.array([True]), "lists no value that a column of dtype bool can hold"),
        (pa.array([1]), "lists no value that a column of dtype int64 can hold"),
    ],
)
def test_a_type_of_no_value_is_refused_before_a_row_is_read(tmp_path, cells, says):
    source = write(tmp_path / "t.parquet", {"a": cells})
    with pytest.raises(DomainError, match=says) as caught:
        source.check(A, None)
    assert SENTINEL not in str(caught.value)
    with pytest.raises(DomainError, match=says):
        source.counted(A, None, None)
    if "cells" in says:
        # No value of it is an unlisted one.
        other = Domain((CategoricalAttribute("a", ("u", "other"), other="other"),))
        with pytest.raises(DomainError, match=says):
            source.check(other, None)


def test_columns_are_looked_for_before_a_row_is_read(tmp_path):
    path = tmp_path / "t.parquet"
    source = people(path, b=["x"] * 10)
    source.check(AB, None)
    source.check(AB, PrivacyUnit("name", 2))
    with pytest.raises(DomainError, match="no column 'c'"):
        source.check(Domain((CategoricalAttribute("c", ("u",)),)), None)
    with pytest.raises(InputError, match="no column 'nobody'"):
        source.check(AB, PrivacyUnit("nobody", 2))
    write(path, {"a": pa.array([None, None], pa.float64())}).check(A, None)
    write(path, {"a": pa.array([0, 1])}).check(
        Domain((CategoricalAttribute("a", ("no", "yes")),)), None
    )


@pytest.mark.parametrize("held", [True, False])
def test_whether_a_private_table_has_rows_is_not_told(tmp_path, held):
    source = write(
        tmp_path / "t.parquet", {"a": pa.array([], pa.string()), "b": pa.array([], "f8")}
    )
    if held:
        table = counted(source, AB)
        assert isinstance(table, EncodedTable)
    else:
        table = ParquetTable(AB, source)
    assert_same(table, EncodedTable(AB, (np.array([], int), np.array([], int))))
    # Its columns are looked at, as those of any other.
    for columns in ({"b": pa.array([], pa.int64())}, {}):
        source = write(tmp_path / "t.parquet", columns)
        with pytest.raises(DomainError, match="no column 'a'"):
            counted(source, AB) if held else ParquetTable(AB, source)


def test_a_file_that_is_cut_off_in_its_last_row_group(tmp_path):
    path = tmp_path / "t.parquet"
    source = people(path, rows=60)
    content = bytearray(path.read_bytes())
    footer = int.from_bytes(content[-8:-4], "little")
    content[-footer - 200 : -footer - 8] = SENTINEL.encode().ljust(192, b"\xff")
    path.write_bytes(content)
    # Whether a row group can be read may hang on a value.
    with pytest.raises(PrivateValuesError) as caught:
        counted(source, AB, limit=0)
    assert SENTINEL not in str(caught.value)


def plain(path, b, when=None):
    """Write ten people in a layout that no value changes."""
    columns = pa.table({"a": ["u", "v"] * 5, "b": b})
    pq.write_table(columns, path, compression="none", use_dictionary=False, write_statistics=False)
    if when is not None:
        os.utime(path, (when, when))
    return ParquetSource(str(path))


@pytest.mark.parametrize(
    "change",
    [lambda path: people(path, rows=12), lambda path: plain(path, [3] * 9 + [13], when=1)],
    ids=["more rows", "as many, in the same layout and of the same time"],
)
def test_a_file_that_changes_is_noticed(tmp_path, change):
    path = tmp_path / "t.parquet"
    table = counted(plain(path, [3] * 10, when=1), AB, limit=0)
    change(path)
    with pytest.raises(SourceError, match="changed while its marginals were counted"):
        table.marginal(("a",))


def test_a_file_that_is_written_again_between_two_passes_is_the_same(tmp_path):
    path = tmp_path / "t.parquet"
    source = plain(path, [*range(10)], when=1)
    table = counted(source, AB, limit=0)
    expected = counted(source, AB)
    rows = pq.read_table(path)
    pq.write_table(rows.take([*range(9, -1, -1)]), path)
    assert_same(table, expected)
    assert counted(source, AB).contents() == table.contents()


def test_persons_that_are_exchanged_between_two_passes_are_noticed(tmp_path, monkeypatch):
    """The rows that stay would be those of others."""
    path, kept = tmp_path / "t.parquet", LimitedRows.kept
    source = people(path, rows=4, name=["x", "x", "y", "z"])
    unit, secret = PrivacyUnit("name", 1), b"s" * 32
    monkeypatch.setattr(parquet_source, "ENCODED_BYTES", 0)
    assert source.counted(AB, unit, secret).records == 3

    def kept_of_before(rows):
        people(path, rows=4, name=["x", "y", "z", "z"])
        os.utime(path, (1, 1))
        return kept(rows)

    monkeypatch.setattr(LimitedRows, "kept", kept_of_before)
    with pytest.raises(SourceError, match="changed while it was read: a file was"):
        source.counted(AB, unit, secret)


@pytest.mark.parametrize("which", [0, 2], ids=["that was read", "that is still to be read"])
@pytest.mark.parametrize("columns", [{}, {"rows": 12}], ids=["same layout", "more rows"])
def test_a_file_that_is_replaced_while_its_folder_is_read_is_said(tmp_path, which, columns):
    for name in range(3):
        plain(tmp_path / f"{name}.parquet", [3] * 10, when=1)
    source, replaced = ParquetSource(str(tmp_path)), tmp_path / f"{which}.parquet"
    batches = source.batches(AB.names)
    # The first file is read whole, and a part of the second.
    for _ in range(5):
        next(batches)
    if columns:
        people(replaced, **columns)
    else:
        plain(replaced, [13] * 10, when=2)
    with pytest.raises(SourceError, match="changed while it was read: a file was"):
        list(batches)
    assert sum(map(len, source.batches(AB.names))) == (32 if columns else 30)


@pytest.mark.parametrize("limit", [0, parquet_source.ENCODED_BYTES])
def test_no_name_of_a_file_decides_what_a_folder_contains(tmp_path, limit):
    plain(tmp_path / "0.parquet", [3] * 10)
    plain(tmp_path / "1.parquet", [13] * 10)
    source = ParquetSource(str(tmp_path))
    before = counted(source, AB, limit=limit).contents()
    (tmp_path / "0.parquet").rename(tmp_path / "2.parquet")
    assert counted(source, AB, limit=limit).contents() == before
    plain(tmp_path / "1.parquet", [13] * 9 + [3])
    assert counted(source, AB, limit=limit).contents() != before


@pytest.mark.parametrize(
    "hurt",
    [
        lambda path: path.unlink(),
        lambda path: os.truncate(path, 100),
        lambda path: os.truncate(path, 0),
        lambda path: write(path, {"a": [SENTINEL] * 40, "b": [73194] * 40}),
        lambda path: path.write_bytes(bytes(path.stat().st_size)),
        lambda path: path.write_bytes(path.read_bytes()[-8:].rjust(path.stat().st_size, b"\0")),
    ],
    ids=["removed", "cut", "emptied", "written", "of zeros", "of zeros, with the marks of Parquet"],
)
def test_a_file_of_a_folder_that_changes_while_it_is_read_is_said(tmp_path, hurt):
    for name in "012":
        people(tmp_path / f"{name}.parquet", rows=60)
    source, last = ParquetSource(str(tmp_path)), tmp_path / "2.parquet"
    whole = last.read_bytes()
    batches = source.batches(AB.names)
    next(batches)
    hurt(last)
    with pytest.raises(SourceError, match="changed while it was read: a file was") as caught:
        list(batches)
    assert SENTINEL not in str(caught.value)
    assert last.name not in str(caught.value)
    last.write_bytes(whole)
    assert sum(map(len, source.batches(AB.names))) == 180


@pytest.fixture
def stored(tmp_path):
    """Two files in a store, the second of which has lost its rows."""
    people(tmp_path / "t.parquet", rows=60)
    whole, store = (tmp_path / "t.parquet").read_bytes(), fsspec.filesystem("memory")
    footer = int.from_bytes(whole[-8:-4], "little") + 8
    without_rows = whole[-footer:].rjust(len(whole), b"\0")
    store.pipe({"/stored/0.parquet": whole, "/stored/1.parquet": without_rows})
    yield ParquetSource("memory://stored")
    store.rm("/stored", recursive=True)


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (ConnectionError(SENTINEL), "builtins.ConnectionError; check the path or URL"),
        (TimeoutError(110, SENTINEL), "TimeoutError; check the path or URL"),
        (PermissionError(13, SENTINEL), "this user may not read it"),
        (RuntimeError(SENTINEL), "RuntimeError; check the path or URL"),
    ],
    ids=["no connection", "no answer", "no login", "any"],
)
def test_a_store_that_fails_while_its_files_are_read_changes_none(stored, monkeypatch, fault, says):
    def fails(*given, **options):
        raise fault

    batches = stored.batches(AB.names)
    next(batches)
    monkeypatch.setattr(MemoryFileSystem, "_open", fails)
    with pytest.raises(SourceError, match="cannot read Parquet file memory://stored: ") as caught:
        list(batches)
    assert says in str(caught.value)
    assert "changed" not in str(caught.value)
    assert SENTINEL not in str(caught.value)
    assert caught.value.__context__ is caught.value.__cause__ is None


def test_a_store_that_fails_after_the_last_row_changes_none(tmp_path, monkeypatch):
    store = fsspec.filesystem("memory")
    store.pipe("/whole/0.parquet", Path(people(tmp_path / "t.parquet").path).read_bytes())

    def fails(*given, **options):
        raise ConnectionError(SENTINEL)

    batches = ParquetSource("memory://whole").batches(AB.names)
    for _ in range(4):
        next(batches)
    monkeypatch.setattr(MemoryFileSystem, "info", fails)
    with pytest.raises(SourceError, match="cannot read Parquet file memory://whole: ") as caught:
        list(batches)
    store.rm("/whole", recursive=True)
    assert "changed" not in str(caught.value)
    assert SENTINEL not in str(caught.value)


def test_rows_that_cannot_be_read_are_a_fault_of_values_unless_their_file_is_gone(stored):
    with pytest.raises(PrivateValuesError) as caught:
        list(stored.batches(AB.names))
    assert caught.value.__context__ is caught.value.__cause__ is None
    batches = stored.batches(AB.names)
    next(batches)
    fsspec.filesystem("memory").rm("/stored/1.parquet")
    with pytest.raises(SourceError, match="changed while it was read: a file was"):
        list(batches)


@pytest.mark.parametrize("records", [9, 11])
def test_chunks_of_another_number_of_rows_are_refused(tmp_path, records):
    chunks = people(tmp_path / "t.parquet").batches(AB.names)
    with pytest.raises(InputError, match="the number of rows changed"):
        joined(each_encoded(chunks, AB), AB, records=records)


def test_counts_are_kept_and_others_take_one_pass(tmp_path, passes):
    table = counted(people(tmp_path / "t.parquet"), AB, limit=0)
    assert len(passes) == 1
    table.marginals([("a",)])
    assert len(passes) == 2
    table.marginals(all_cliques(AB))
    assert len(passes) == 3
    list(marginal_blocks(table, all_cliques(AB), cells=12))
    assert len(passes) == 3


@pytest.mark.slow
def test_memory_does_not_grow_with_the_rows_of_a_row_group(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_source, "READ_ROWS", 1000)
    monkeypatch.setattr(parquet_source, "_BUFFER_BYTES", 1 << 16)
    monkeypatch.setattr(marginals, "_MOST_WAITING", 1 << 14)
    domain = Domain(tuple(NumericAttribute(name, (0, 0.5, 1)) for name in "abcd"))
    rng = np.random.default_rng(0)
    arrow, python = [], []
    for rows in (20_000, 200_000):
        path = tmp_path / f"{rows}.parquet"
        columns = pa.table({name: rng.random(rows) for name in domain.names})
        plain = {"use_dictionary": False, "compression": "none", "data_page_size": 1 << 14}
        pq.write_table(columns, path, row_group_size=rows, **plain)
        del columns
        source = ParquetSource(str(path))
        before = pa.total_allocated_bytes()
        arrow.append(max(pa.total_allocated_bytes() - before for _ in source.batches(domain.names)))
        table = counted(source, domain, limit=0)
        tracemalloc.start()
        assert table.marginals(combinations("abcd", 3))["a", "b", "c"].sum() == rows
        python.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # The larger one's values take 6.4 MB, its codes 0.8.
    assert arrow[1] < 2 * arrow[0] < 2e6
    assert python[1] < 2 * python[0] < 2e6


@pytest.mark.parametrize("first", [[None, None], [None, "u"]])
def test_a_column_that_is_missing_in_one_file_is_there_in_others(tmp_path, first):
    """pandas states no type for a column without a cell: it decides none for other files."""
    for name, cells in (("0", first), ("1", ["u", "v", None])):
        pd.DataFrame({"a": pd.Series(cells, dtype=object)}).to_parquet(tmp_path / f"{name}.parquet")
    domain = Domain((CategoricalAttribute("a", ("u", "v"), nullable=True),))
    found = ParquetSource(str(tmp_path)).counted(domain, None, None)
    assert found.column("a")[2:].tolist() == [0, 1, 2]


def test_files_of_several_types_are_refused_before_a_value_is_read(tmp_path):
    for name, cells in (("0", ["u"]), ("1", [73194])):
        pd.DataFrame({"b": [0], "a": cells}).to_parquet(tmp_path / f"{name}.parquet")
    with pytest.raises(SourceError, match="have the column 'a' in several types") as caught:
        ParquetSource(str(tmp_path)).counted(AB, None, None)
    assert "73194" not in str(caught.value)


def test_a_later_file_with_two_columns_of_a_name_is_refused_before_a_value_is_read(tmp_path):
    pq.write_table(pa.table({"a": [1]}), tmp_path / "0.parquet")
    pq.write_table(pa.table([[1], [2]], names=["a", "a"]), tmp_path / "1.parquet")
    with pytest.raises(SourceError, match="a file of the folder has two columns of the same name"):
        next(ParquetSource(str(tmp_path)).batches(["a"]))


def test_a_folder_without_a_file_is_refused_before_a_release_begins(tmp_path, monkeypatch):
    monkeypatch.setenv("JAM_TABLES", str(tmp_path))
    source, said = ParquetSource("${JAM_TABLES}"), r"\$\{JAM_TABLES\}: there is no such file"
    for looked_at in (partial(source.check, AB, None), source.rows, source.names):
        with pytest.raises(SourceError, match=said) as refused:
            looked_at()
        assert str(tmp_path) not in str(refused.value)


def test_the_schema_of_a_public_table_is_compared_without_a_row(tmp_path):
    sex = {"values": ["f", "m"], "nullable": True, "unreadable": "missing"}
    domain = Domain.from_dict({"attributes": {"sex": sex}})
    source = ParquetSource(str(tmp_path / "t.parquet"))
    assert source.public_fault(domain) == ""
    for cells, said in (
        (["f"], ""),
        ([True], "lists no value that a column of dtype bool can hold"),
        ([["f"]], "the public table's column for attribute 'sex' is of the type list"),
    ):
        pq.write_table(pa.table({"Sex ": cells}), source.path)
        assert said in source.public_fault(domain)
        assert bool(source.public_fault(domain)) == bool(said)
    pq.write_table(pa.table({"age": [1]}), source.path)
    assert "the public table has no column 'sex' (it has age)" in source.public_fault(domain)
