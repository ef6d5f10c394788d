"""Whatever goes wrong with a private table, no error shows a value or a statistic of it."""

import re
import traceback
import warnings

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy
from hypothesis import given
from hypothesis import strategies as st

from jam_dagster.common.redaction import keeping_details
from jam_dagster.errors import DomainError, JamError, PrivateValuesError, SourceError
from jam_dagster.tables import (
    CategoricalAttribute,
    CsvSource,
    Domain,
    DuckDbSource,
    NumericAttribute,
    ParquetSource,
    SplitSource,
    SqlSource,
    draft_domain,
    encode,
    stratified_split,
)
from jam_dagster.tables.sources.reading import reading

SENTINEL = "zq81sentinel"
NUMBER = 73194.25
SHOWN_NUMBERS = ("73194", "73,194")


def shown(error):
    return "".join(traceback.format_exception(error)) + repr(error) + str(error)


def chain(error):
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def assert_nothing_leaks(error):
    text = shown(error).replace(__file__, "")
    assert SENTINEL not in text
    assert not any(number in text for number in SHOWN_NUMBERS)
    assert all(isinstance(one, JamError) for one in chain(error))
    # Neither how many rows are concerned, nor how many there are (37 in these tables).
    assert not re.search(r"\b(37|36|35)\b", re.sub(r"/\S+", "PATH", str(error)))


class Hostile:
    def __str__(self):
        raise ValueError(SENTINEL)

    __repr__ = __str__
    __hash__ = None


HOSTILE_COLUMNS = {
    "text": [SENTINEL] * 36 + ["x"],
    "number": [NUMBER] * 37,
    "fraction": [0.25] + [1.0] * 36,
    "numeric text": [SENTINEL, *["1"] * 36],
    "missing": [None] + ["x"] * 36,
    "missing number": [np.nan] + [1.0] * 36,
    "infinite": [np.inf] * 37,
    "mixed": [SENTINEL, 1, True, 2.5, None, *[NUMBER] * 32],
    "unprintable": [Hostile()] * 37,
    "list": [[SENTINEL]] * 37,
    "date": [pd.Timestamp("2024-01-31")] * 37,
}
ATTRIBUTES = {
    "categorical": CategoricalAttribute("a", ("u", "v")),
    "boolean": CategoricalAttribute("a", (True, False)),
    "numeric": NumericAttribute("a", (10, 20), integer=True),
}


@pytest.mark.parametrize("attribute", ATTRIBUTES.values(), ids=list(ATTRIBUTES))
@pytest.mark.parametrize("values", HOSTILE_COLUMNS.values(), ids=list(HOSTILE_COLUMNS))
def test_encoding(attribute, values):
    table = pd.DataFrame({"a": pd.Series(values, dtype=None)})
    with pytest.raises(JamError) as caught:
        encode(table, Domain((attribute,)))
    assert_nothing_leaks(caught.value)
    if type(caught.value) is DomainError:
        # The type of a whole column.
        assert "'a'" in str(caught.value)
    else:
        assert type(caught.value) is PrivateValuesError
        assert "'a'" not in shown(caught.value)


AGES = (19, 23, 37, 52)


def shown_alike(action):
    """Return all that is shown of an error, raised from one line whatever it is."""
    with pytest.raises(JamError) as caught:
        action()
    return shown(caught.value)


def test_which_predicate_holds_first_is_not_told():
    """One run, many predicates, the last of which always holds: the first must not be told."""
    answers = set()
    for least in AGES:
        domain = Domain.from_dict(
            {
                "attributes": {
                    "age": {"bounds": [0, 100], "bins": 100, "integer": True},
                    "sex": {"values": ["F", "M"]},
                },
                "impossible": [
                    *({"age": {"bins": [age]}, "sex": "F"} for age in range(100)),
                    {"sex": "M"},
                ],
            }
        )
        table = pd.DataFrame({"age": [least, 60, 5], "sex": ["F", "F", "M"]})
        alone = Domain.from_dict(
            {**domain.to_dict(), "impossible": [{"age": {"bins": [least]}, "sex": "F"}]}
        )
        for one in (domain, alone):
            answers.add(shown_alike(lambda d=one, t=table: encode(t, d)))
    assert len(answers) == 1


FAULTS = {
    "outside the domain": {"a": ["z"]},
    "missing": {"a": [None]},
    "no number": {"n": ["many"]},
    "outside the bounds": {"n": ["200"]},
    "a fraction": {"n": ["1.5"]},
    "impossible": {"a": ["u"], "b": ["v"]},
    "unprintable": {"b": [Hostile()]},
}


def test_every_fault_of_a_value_is_told_alike():
    domain = Domain.from_dict(
        {
            "attributes": {
                "a": {"values": ["u", "v"]},
                "b": {"values": ["u", "v"]},
                "n": {"bounds": [0, 100], "bins": 5, "integer": True},
            },
            "impossible": [{"a": "u", "b": "v"}],
        }
    )
    fine = {"a": ["v"] * 3, "b": ["v"] * 3, "n": ["1"] * 3}
    answers = set()
    for fault in FAULTS.values():
        for place in range(3):
            columns = {name: list(values) for name, values in fine.items()}
            for name, (value,) in fault.items():
                columns[name][place] = value
            table = pd.DataFrame(columns, dtype=object)
            kept = []
            with keeping_details(kept.append):
                answers.add(shown_alike(lambda t=table: encode(t, domain)))
            assert len(kept) == 1
    assert len(answers) == 1
    # The owner of the data is helped.
    assert "in __str__" in kept[0]


@given(st.lists(st.text(min_size=1) | st.integers() | st.floats() | st.none(), min_size=1))
def test_encoding_anything_succeeds_or_fails_quietly(values):
    table = pd.DataFrame({"a": pd.Series([SENTINEL, *values], dtype=object)})
    for attribute in ATTRIBUTES.values():
        with pytest.raises(JamError) as caught:
            encode(table, Domain((attribute,)))
        assert_nothing_leaks(caught.value)


def test_a_missing_column_does_not_list_the_private_header():
    # Where a file has no header, its first row is taken for one.
    table = pd.DataFrame({SENTINEL: [1], str(NUMBER): [2]})
    with pytest.raises(JamError) as caught:
        encode(table, Domain((ATTRIBUTES["numeric"],)))
    assert_nothing_leaks(caught.value)


@pytest.mark.parametrize(
    "values",
    [
        [f"{SENTINEL}{number}" for number in range(1200)],
        [{SENTINEL: 1}] * 37,
        [pd.Timestamp("2024-01-31")] * 37,
        [Hostile()] * 37,
        [SENTINEL, 1.5] * 20,
    ],
    ids=["names", "objects", "dates", "unprintable", "other type"],
)
def test_drafting_from_a_private_table(values):
    public = pd.DataFrame({"a": ["u", "v"] if len(values) > 1000 else [1.0, np.nan]})
    private = pd.DataFrame({"a": pd.Series(values, dtype=None)})
    with pytest.raises(JamError) as caught:
        draft_domain(public, private=private)
    assert_nothing_leaks(caught.value)
    assert "1,2" not in str(caught.value)


def test_splitting():
    table = pd.DataFrame({"a": [SENTINEL] * 36 + ["x"]})
    for arguments in ({"value": "x"}, {"value": "y"}, {"by": "b", "value": "x"}):
        with pytest.raises(JamError) as caught:
            stratified_split(
                table, **{"by": "a", "public_share": 0.5, "public_rows": 10, "seed": 0} | arguments
            )
        assert_nothing_leaks(caught.value)


@pytest.mark.parametrize("part", ["private", "public"])
def test_a_split_of_a_private_table_tells_no_count(tmp_path, part):
    path = tmp_path / "people.csv"
    path.write_text(f"a\n{SENTINEL}\nx\n")
    answers = {
        shown_alike(
            lambda v=value, r=rows: SplitSource(
                CsvSource(str(path)), by="a", value=v, public_share=0.5, public_rows=r, part=part
            ).read(private=part == "private")
        )
        for value, rows in (("x", 4), ("y", 2), (SENTINEL, 10))
    }
    assert len(answers) == 1
    with pytest.raises(JamError, match="needs one column 'b'"):
        SplitSource(CsvSource(str(path)), by="b", value="x", public_share=0.5, public_rows=2).read(
            private=True
        )


@pytest.mark.parametrize(
    "content",
    [
        f"a,b\n1,2\n{SENTINEL},2,{NUMBER}\n",
        f"a,b\n1,2,{SENTINEL}\n1,2,{NUMBER}\n",
        f'a,b\n1,"{SENTINEL}\n',
        f"{SENTINEL},{SENTINEL},{NUMBER}\n1,2,3\n",
        "",
        f"a,b\n{SENTINEL},\xff\n",
    ],
    ids=["ragged", "too wide", "open quote", "no header", "empty", "encoding"],
)
def test_reading_csv(tmp_path, content):
    path = tmp_path / "people.csv"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(JamError) as caught:
        CsvSource(str(path)).read(private=True)
    assert_nothing_leaks(caught.value)


def test_reading_parquet(tmp_path):
    path = tmp_path / "people.parquet"
    path.write_bytes(f"PAR1{SENTINEL}PAR1".encode())
    with pytest.raises(JamError) as caught:
        ParquetSource(str(path)).read(private=True)
    assert_nothing_leaks(caught.value)


@pytest.mark.parametrize(
    ("kind", "value"), [(pa.date32(), 10**7), (pa.time32("s"), 10**6), (pa.string(), b"\xff")]
)
def test_one_value_of_a_parquet_file_that_python_has_not(tmp_path, kind, value):
    """It may not show by another error than a value outside the domain does."""
    path = str(tmp_path / "a.parquet")
    texts = kind == pa.string()
    cells = pa.array([b"a", value] if texts else [0, value], pa.binary() if texts else pa.int32())
    pq.write_table(pa.table({"a": cells.view(kind)}), path)
    domain = Domain((CategoricalAttribute("a", ("a", "rest"), other="rest"),))
    reads = [
        lambda source: encode(source.read(private=True), domain),
        lambda source: source.counted(domain, None, None),
    ]
    if kind == pa.date32():
        # In batches a date is encoded by itself, as one that is not listed.
        assert reads.pop()(ParquetSource(path)).marginal(("a",)).tolist() == [0, 2]
    for read in reads:
        with pytest.raises(PrivateValuesError) as caught:
            read(ParquetSource(path))
        assert_nothing_leaks(caught.value)


def test_reading_sql(tmp_path):
    url = f"sqlite:///{tmp_path}/people.db"
    engine = sqlalchemy.create_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql("create table people (a text)")
        connection.exec_driver_sql(f"insert into people values ('{SENTINEL}')")
    # SQLite quotes the value here: malformed JSON path / bad JSON.
    for query in ("select json_extract('{}', a) from people", "select a, a from people"):
        with pytest.raises(JamError) as caught:
            SqlSource(url, query).read(private=True)
        assert_nothing_leaks(caught.value)
    # Which error a query ends in can be an answer.
    answers = {
        shown_alike(lambda q=query: SqlSource(url, q).read(private=True))
        for query in (
            "select json_extract('{}', a) from people",
            "select abs(-9223372036854775808) from people",
            "select nothing from people",
            "select 1 from nowhere",
        )
    }
    assert len(answers) == 1
    assert "always the same" in answers.pop()
    with pytest.raises(JamError, match=SENTINEL):
        SqlSource(url, "select json_extract('{}', a) from people").read(private=False)


def test_reading_by_duckdb(tmp_path):
    path = str(tmp_path / "people.duckdb")
    with duckdb.connect(path) as connection:
        connection.execute("create table people (a text)")
        connection.execute(f"insert into people values ('{SENTINEL}')")
    domain = Domain((ATTRIBUTES["categorical"],))
    # Which error a row ends in can be an answer; the first is that of `encode`.
    answers = {
        shown_alike(lambda q=query: DuckDbSource(path, q).counted(domain, None, None, [("a",)]))
        for query in (
            "from people",
            "select a::int::text as a from people",
            "select error(a)::text as a from people",
        )
    }
    assert len(answers) == 1
    for query in ("select a::int from people", "select a from people where error(a) is null"):
        with pytest.raises(PrivateValuesError) as caught:
            DuckDbSource(path, query).read(private=True)
        assert_nothing_leaks(caught.value)
    # DuckDB looks at all rows before it knows these columns.
    with pytest.raises(SourceError, match="PIVOT") as refused:
        DuckDbSource(path, "pivot people on a using count(*)").read(private=True)
    assert_nothing_leaks(refused.value)


@pytest.mark.filterwarnings("error")
def test_warnings_while_reading():
    def read():
        warnings.warn(SENTINEL, stacklevel=1)
        return pd.DataFrame({"a": [1]})

    assert len(reading("a table", True, read)) == 1
    with pytest.raises(JamError, match=SENTINEL):
        reading("a table", False, read)
