import dataclasses
import json
from decimal import Decimal

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy

from jam_dagster.errors import PrivateValuesError, SourceError, SpecificationError
from jam_dagster.tables import (
    CsvSource,
    DemoSource,
    ParquetSource,
    SplitSource,
    SqlSource,
    draft_table,
    health_survey,
    source_from_config,
    stratified_split,
)
from jam_dagster.tables.sources.csv import unnamed_columns


def read_csv(tmp_path, content, encoding="utf-8", **options):
    path = tmp_path / "table.csv"
    path.write_bytes(content.encode(encoding))
    return CsvSource(str(path), encoding=encoding, **options).read(private=False)


def test_a_csv_file_as_people_write_them(tmp_path):
    table = read_csv(tmp_path, "a, b, c d\n1, x,?\n2, ?, 0.5\n3,NA,\n\n")
    assert list(table.columns) == ["a", "b", "c d"]
    assert table["a"].tolist() == [1, 2, 3]
    assert table["b"].isna().tolist() == [False, True, True]
    assert table["c d"].isna().tolist() == [True, False, True]
    assert table.dtypes.astype(str).tolist() == ["int64", "str", "float64"]


def test_missing_markers_are_the_sources(tmp_path):
    table = read_csv(tmp_path, "a,b\nNA,-9\n?,1\n", missing=("-9",))
    assert table["a"].tolist() == ["NA", "?"]
    assert table["b"].isna().tolist() == [True, False]
    assert read_csv(tmp_path, "a\nNone\n")["a"].tolist() == ["None"]


def test_columns_kept_as_text(tmp_path):
    table = read_csv(tmp_path, "zip,n\n02139,1\n?,2\n", text=("zip",))
    assert table["zip"].iloc[0] == "02139"
    assert table["zip"].isna().tolist() == [False, True]
    with pytest.raises(SourceError, match="no column 'postcode', which `text` lists"):
        read_csv(tmp_path, "zip\n02139\n", text=("postcode",))


def test_other_dialects(tmp_path):
    german = read_csv(tmp_path, "größe;ort\n1,5;Köln\n", "latin-1", separator=";", decimal=",")
    assert german.to_dict("list") == {"größe": [1.5], "ort": ["Köln"]}
    marked = read_csv(tmp_path, "a,b\n1,2\n", "utf-8-sig")
    assert list(marked.columns) == ["a", "b"]
    path = tmp_path / "table.csv"
    path.write_bytes("\ufeffa,b\n1,2\n".encode())
    assert list(CsvSource(str(path)).read(private=True).columns) == ["a", "b"]


def test_row_numbers_that_pandas_wrote_are_left_out(tmp_path):
    path = tmp_path / "table.csv"
    pd.DataFrame({"a": [5, 6]}).to_csv(path)
    assert CsvSource(str(path)).read(private=False).to_dict("list") == {"a": [5, 6]}


def test_compressed_csv(tmp_path):
    path = tmp_path / "table.csv.gz"
    pd.DataFrame({"a": [5, 6]}).to_csv(path, index=False)
    assert source_from_config(str(path)).read(private=False)["a"].tolist() == [5, 6]


def test_private_columns_stay_texts_and_public_ones_show_their_type(tmp_path):
    path = tmp_path / "table.csv"
    # Codes with leading zeros are no numbers.
    path.write_text("i,f,b,t,z,gaps\n1,1.50,TRUE,x,02139,1\n2,1e3,false,1,02140,?\n")
    source = CsvSource(str(path))
    texts = source.read(private=True)
    assert set(texts.dtypes.astype(str)) == {"str"}
    assert texts.iloc[0].tolist() == ["1", "1.50", "TRUE", "x", "02139", "1"]
    typed = source.read(private=False)
    expected = ["int64", "float64", "bool", "str", "str", "Int64"]
    assert typed.dtypes.astype(str).tolist() == expected
    assert typed.equals(source.typed(texts))
    split = SplitSource(source, "i", 1, 1.0, 1, part="public").read(private=False)
    assert split["z"].tolist() == ["02139"]
    assert split["b"].tolist() == [True]


@pytest.mark.parametrize(
    ("texts", "dtype"),
    [
        (("1e3", "2E10"), "str"),
        (("1e3", "2"), "float64"),
        (("1.5e3", "2.0e10"), "float64"),
        (("+49301234567", "+49301234568"), "str"),
        (("+1000000", "-5"), "int64"),
    ],
)
def test_codes_that_look_like_numbers_are_texts(tmp_path, texts, dtype):
    path = tmp_path / "table.csv"
    path.write_text("\n".join(["a,b", *(f"{text},x" for text in texts)]))
    column = CsvSource(str(path)).read(private=False)["a"]
    assert str(column.dtype) == dtype


def test_blank_lines_of_one_column_are_missing_values(tmp_path):
    for private in (True, False):
        path = tmp_path / "table.csv"
        path.write_text("a\n1\n\n?\n 2\n\n\n")
        table = CsvSource(str(path)).read(private=private)
        # Each empty line of a private file is a record; a public one may end in some.
        assert table["a"].isna().tolist() == [False, True, True, False, *[True, True] * private]
        assert table["a"].astype("str").iloc[3] == "2"
    assert read_csv(tmp_path, "a\n").shape == (0, 1)
    assert len(read_csv(tmp_path, "a,b\n1,2\n\n3,4\n\n")) == 2


def test_a_decimal_comma_is_read_value_by_value(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a;b\n1,5;1,5\n2;v1.5\n")
    texts = CsvSource(str(path), separator=";", decimal=",", text=("b",)).read(private=True)
    assert texts.to_dict("list") == {"a": ["1.5", "2"], "b": ["1,5", "v1.5"]}
    path.write_text("a;b\n1.234;x\n")
    with pytest.raises(SourceError, match="column 'a' holds numbers with a point"):
        CsvSource(str(path), separator=";", decimal=",").read(private=False)


def test_separators(tmp_path):
    assert read_csv(tmp_path, "a  b\n1   2\n", separator=r"\s+").to_dict("list") == {
        "a": [1],
        "b": [2],
    }
    for options in ({"separator": "||"}, {"separator": ""}, {"decimal": ",,"}):
        with pytest.raises(SpecificationError, match="must be one character"):
            CsvSource("a.csv", **options)


def test_what_must_not_leave_says_why():
    split = SplitSource(CsvSource("people.csv"), "sex", "f", 0.5, 100)
    assert split.restricted_because is None
    shared = dataclasses.replace(split, private_share=0.5)
    assert "private_share" in shared.restricted_because
    assert SplitSource(shared, "sex", "f", 0.5, 100).restricted_because == shared.restricted_because
    others = [ParquetSource("a"), SqlSource("sqlite://", "select 1"), DemoSource()]
    assert [source.restricted_because for source in others] == [None] * 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2,3\n", "more fields than the header"),
        ("a,b\n1,2\n1,2,3\n", "more fields than the header"),
        ("a,a\n1,2\n", "column 'a' has the name of another"),
        ("", "empty"),
    ],
)
def test_csv_files_that_are_refused(tmp_path, text, message):
    with pytest.raises(SourceError, match=message):
        read_csv(tmp_path, text)


def test_a_wrong_encoding_is_named(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes("a\nKöln\n".encode("latin-1"))
    with pytest.raises(SourceError, match="set `encoding`"):
        CsvSource(str(path)).read(private=False)
    # Which bytes a private record holds is a matter of its values.
    with pytest.raises(PrivateValuesError):
        CsvSource(str(path)).read(private=True)
    with pytest.raises(SourceError, match="set `encoding`"):
        CsvSource(str(path), encoding="utf-99").read(private=True)


def test_a_header_alone_is_a_table_without_rows(tmp_path):
    assert read_csv(tmp_path, "a,b\n").shape == (0, 2)


@pytest.mark.parametrize("private", [True, False])
def test_files_that_are_not_there(private, tmp_path):
    for source in (CsvSource(f"{tmp_path}/x.csv"), ParquetSource(f"{tmp_path}/x.parquet")):
        with pytest.raises(SourceError, match="no such file; check the path"):
            source.read(private=private)


def test_parquet_keeps_dtypes_and_named_indices(tmp_path):
    path = tmp_path / "table.parquet"
    table = pd.DataFrame(
        {"a": pd.Series([1, None], dtype="Int64"), "b": pd.Series(["x", None], dtype="category")}
    )
    table.to_parquet(path)
    read = ParquetSource(str(path)).read(private=True)
    assert read.dtypes.astype(str).tolist() == ["Int64", "category"]
    table.set_index("b").to_parquet(path)
    assert list(ParquetSource(str(path)).read(private=True).columns) == ["b", "a"]
    table.set_index(pd.Index([7, 9])).to_parquet(path)
    assert list(ParquetSource(str(path)).read(private=True).columns) == ["a", "b"]


@pytest.fixture
def database(tmp_path):
    url = f"sqlite:///{tmp_path}/people.db"
    pd.DataFrame({"age": [1, None], "name": ["x", None]}).to_sql(
        "people", sqlalchemy.create_engine(url), index=False
    )
    return url


def test_sql(database):
    table = SqlSource(database, "select name, age from people where name = 'x'").read(private=True)
    assert table.to_dict("list") == {"name": ["x"], "age": [1.0]}


def test_sql_that_is_refused(database, tmp_path):
    with pytest.raises(SourceError, match="no such column: nam"):
        SqlSource(database, "select nam from people").read(private=False)
    with pytest.raises(SourceError, match="two columns of the same name"):
        SqlSource(database, "select age, age from people").read(private=True)
    with pytest.raises(SourceError, match="no such file"):
        SqlSource(f"sqlite:///{tmp_path}/none.db", "select 1").read(private=True)
    assert not (tmp_path / "none.db").exists()
    with pytest.raises(SourceError, match="not a SQLAlchemy URL"):
        SqlSource("nonsense", "select 1").read(private=True)


@pytest.mark.parametrize(
    ("url", "described", "masked"),
    [
        (
            "postgresql://ann:hunter2@db.example:5432/people?sslmode=require",
            "SQL query on postgresql at db.example/people",
            "postgresql://ann:***@db.example:5432/people?sslmode=require",
        ),
        (
            "postgresql://ann:${HUNTER2}@db.example/people",
            "SQL query on postgresql at db.example/people",
            "postgresql://ann:${HUNTER2}@db.example/people",
        ),
        ("${HUNTER2_URL}", "SQL query on ${HUNTER2_URL}", "${HUNTER2_URL}"),
        ("nonsense hunter2", "SQL query", "nonsense hunter2"),
        (
            "mssql+pyodbc:///?odbc_connect=PWD%3Dhunter2&x=1",
            "SQL query on mssql+pyodbc",
            "mssql+pyodbc:///?odbc_connect=***&x=1",
        ),
    ],
)
def test_credentials_are_shown_nowhere(url, described, masked):
    source = SqlSource(url, "select 1")
    assert source.describe() == described
    assert source.to_dict() == {"sql": masked, "query": "select 1"}
    assert "hunter2" not in repr(source)


def test_variables_are_expanded_when_read(tmp_path, monkeypatch):
    (tmp_path / "table.csv").write_text("a\n1\n")
    source = source_from_config("${SOME_FOLDER}/table.csv")
    monkeypatch.delenv("SOME_FOLDER", raising=False)
    with pytest.raises(SourceError, match="variable SOME_FOLDER is not set: set it"):
        source.read(private=True)
    monkeypatch.setenv("SOME_FOLDER", str(tmp_path))
    assert len(source.read(private=True)) == 1
    assert str(tmp_path) not in source.describe() + json.dumps(source.to_dict())


def test_the_demo():
    assert DemoSource(rows=40).read(private=True).equals(health_survey(40, 1)[0])
    public = DemoSource(part="public", rows=20).read(private=False)
    assert public.equals(health_survey(1, 20)[1])
    assert len(DemoSource(part="public").read(private=False)) == 3_000


def test_both_parts_of_a_split_come_from_the_same_split():
    config = {
        "split": {"demo": "health_survey", "rows": 400},
        "by": "sex",
        "value": "female",
        "public_share": 0.25,
        "public_rows": 0.1,
        "seed": 5,
    }
    private = source_from_config(config).read(private=True)
    public = source_from_config(config | {"part": "public"}).read(private=False)
    expected = stratified_split(
        DemoSource(rows=400).read(private=True),
        by="sex",
        value="female",
        public_share=0.25,
        public_rows=0.1,
        seed=5,
    )
    assert private.equals(expected[0])
    assert public.equals(expected[1])


@pytest.mark.parametrize(
    "source",
    [
        CsvSource("people.csv"),
        CsvSource("people.csv", separator=";", missing=("-",), text=("zip",)),
        ParquetSource("people.parquet"),
        SqlSource("sqlite:///people.db", "select 1"),
        DemoSource(part="public", rows=5),
        SplitSource(CsvSource("people.csv"), "sex", "f", 0.5, 100, part="public"),
    ],
)
def test_configurations_give_the_source_back(source):
    assert source_from_config(json.loads(json.dumps(source.to_dict()))) == source


def test_paths_tell_the_format():
    assert source_from_config("a.csv") == CsvSource("a.csv")
    assert source_from_config("s3://bucket/a.TSV.gz") == CsvSource(
        "s3://bucket/a.TSV.gz", separator="\t"
    )
    assert source_from_config("a.parquet") == ParquetSource("a.parquet")


SPLIT = {"split": "a.csv", "by": "a", "value": 1, "public_share": 0.5, "public_rows": 10}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("people.xlsx", "does not show its format"),
        (3, "a path or a mapping"),
        (
            {},
            "csv, parquet, sql, duckdb, spark, demo, split, asset, shift, but it",
        ),
        ({"csv": "a.csv", "parquet": "b"}, "needs one of the keys"),
        ({"csv": 3}, "csv must be a text"),
        ({"csv": "a.csv", "seperator": ";"}, "unknown key 'seperator': allowed are csv, separator"),
        ({"csv": "a.csv", "missing": "?"}, "missing must be a list"),
        ({"csv": "a.csv", "missing": [9]}, "missing must be a list of texts"),
        ({"csv": "a.csv", "skipinitialspace": "no"}, "true or false"),
        ({"sql": "sqlite://"}, "needs the key 'query'"),
        ({"duckdb": "people.duckdb"}, "needs the key 'query'"),
        ({"duckdb": "s3://people.duckdb", "query": "FROM people"}, "not a URL"),
        ({"demo": "titanic"}, "tables of the demo are health_survey, households, persons"),
        ({"demo": "health_survey", "part": "secret"}, "must be one of private, public"),
        ({"demo": "health_survey", "rows": 0}, "at least 1"),
        ({"demo": "health_survey", "rows": "a"}, "rows must be a whole number, at least 1"),
        (SPLIT | {"split": {"xml": "a"}}, "needs one of the keys"),
        (SPLIT | {"public_share": 2}, "be from 0 to 1"),
        (SPLIT | {"public_rows": "many"}, "must be a number"),
        (SPLIT | {"value": ["f"]}, "must be a text or a number"),
        (SPLIT | {"part": "both"}, "must be one of private, public"),
        ({key: value for key, value in SPLIT.items() if key != "by"}, "needs the key 'by'"),
    ],
)
def test_configurations_that_are_refused(config, message):
    with pytest.raises(SpecificationError, match=message):
        source_from_config(config)


def test_columns_without_a_name_are_told(tmp_path):
    (tmp_path / "t.csv").write_text(",a,b\n0,1,2\n")
    (tmp_path / "u.csv").write_text("a,b\n1,2\n")
    remark = unnamed_columns(CsvSource(str(tmp_path / "t.csv")))
    assert remark.endswith("are left out (1): to keep them, name them in both headers.")
    assert unnamed_columns(CsvSource(str(tmp_path / "u.csv"))) == ""
    assert unnamed_columns(ParquetSource("t.parquet")) == ""


def test_decimals_and_times_of_a_public_parquet_file_keep_their_types(tmp_path):
    cells = {"price": pa.array([Decimal("1.50"), None], pa.decimal128(10, 2))}
    cells["at"] = pa.array([3600, 7200], pa.time32("s"))
    pq.write_table(pa.table(cells), tmp_path / "t.parquet")
    table = ParquetSource(str(tmp_path / "t.parquet")).read(private=False)
    assert table["price"].dtype == pd.ArrowDtype(pa.decimal128(10, 2))
    attributes = draft_table(pd.concat([table] * 50)).domain.attributes
    assert [one.dtype for one in attributes] == [
        "decimal128(10, 2)[pyarrow]",
        "time32[ms][pyarrow]",
    ]
