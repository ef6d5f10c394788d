"""One text says what a source reads: the same for every spelling of it, without credentials."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pandas as pd
import pytest

from jam_dagster.errors import SourceError
from jam_dagster.tables import Source, source_from_config
from jam_dagster.tables.sources.identity import is_one_file, place_in, places_in
from jam_dagster.tables.sources.partition_template import at_partition
from tests.tiers import slow


def identity(config: Any) -> str:
    return source_from_config(config).identity()


@pytest.fixture
def people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("FOLDER", str(tmp_path))
    folder = tmp_path / "a b"
    folder.mkdir()
    (folder / "people.csv").write_text("x\n1\n")
    (tmp_path / "linked").symlink_to(folder, target_is_directory=True)
    (tmp_path / "link.csv").symlink_to(folder / "people.csv")
    return folder / "people.csv"


@pytest.mark.parametrize(
    "spelling",
    [
        "a b/people.csv",
        "./a b/../a b//people.csv",
        "linked/people.csv",
        "link.csv",
        "~/a b/people.csv",
        "${FOLDER}/a b/people.csv",
        "file://{}/a b/people.csv",
        "simplecache::file://{}/a b/people.csv",
        "FILE://localhost{}/a%20b/people.csv",
        "file:{}/a%20b/people.csv",
        "file://{}/a%20b/people.csv#part",
        " file://{}/a%20b/%70eople.csv",
        "local://{}/a b/./people.csv",
    ],
)
def test_every_spelling_of_a_path_is_one_text(people: Path, tmp_path: Path, spelling: str) -> None:
    path = spelling.replace("{}", str(tmp_path)) if "$" not in spelling else spelling
    for kind in ("csv", "parquet"):
        assert identity({kind: path}) == identity({kind: str(people)})
        assert json.loads(identity({kind: path}))[kind] == str(people)


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        *(
            (kind, path)
            for kind in ("csv", "parquet")
            for path in ("a/b://c", " s3://c", "_s3://c")
        ),
        # Arrow takes the name for a URL and opens nothing.
        ("csv", "simplecache:://c"),
    ],
)
def test_a_path_that_looks_like_a_url_is_the_file_that_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, path: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / path).parent.mkdir(parents=True)
    table = pd.DataFrame({"x": [1]})
    (table.to_csv if kind == "csv" else table.to_parquet)(tmp_path / path)
    source = source_from_config({kind: path})
    assert len(source.read(private=True)) == 1
    assert json.loads(source.identity())[kind] == str(tmp_path / path)


@pytest.fixture(scope="module")
def similar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of files with similar names, each in CSV and in Parquet."""
    folder = tmp_path_factory.mktemp("similar")
    for number, one in enumerate(["p.csv", "p%2Ecsv", "p.csv#1", "p%23.csv", "p#.csv", "p?.csv"]):
        pd.DataFrame({"x": [number]}).to_csv(folder / one, index=False)
        pd.DataFrame({"x": [number]}).to_parquet(folder / one.replace("csv", "pq"))
    return folder


@pytest.mark.parametrize("name", ["p.csv", "p%2Ecsv", "p.csv#1", "p%23.csv", "~p.csv", "p?.csv"])
@pytest.mark.parametrize(
    "form", ["{}", "file://{}", *slow("file:{}", "local://{}", "file://localhost{}")]
)
def test_what_is_opened_is_what_the_text_says(similar: Path, name: str, form: str) -> None:
    """Whichever of several files of similar names a URL means, identity and reader agree."""
    for kind, named in (("csv", name), ("parquet", name.replace("csv", "pq"))):
        url = form.format(f"{similar}/{named}")
        source = source_from_config({kind: url})
        place = json.loads(source.identity())[kind]
        if name == "~p.csv":
            with pytest.raises(SourceError, match="no such file"):
                source.read(private=True)
            continue
        expected = source_from_config({kind: place}).read(private=True)
        assert source.read(private=True).equals(expected)
        assert source.count_records(None) == 1
        if form in ("{}", "local://{}"):
            assert place.endswith(f"/{named}")


def test_a_file_of_another_host_is_refused(tmp_path: Path) -> None:
    for kind in ("csv", "parquet"):
        source = source_from_config({kind: f"file://elsewhere{tmp_path}/people.csv"})
        for action in (source.identity, lambda one=source: one.read(private=True)):
            with pytest.raises(SourceError, match="another host: write file:///PATH"):
                action()


def test_a_name_of_another_case_is_the_same_file_where_case_is_ignored(
    people: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (people.parent / people.name.upper()).hardlink_to(people)
    upper = f"{people.parent}/{people.name.upper()}"
    assert identity(upper) != identity(str(people))
    # Such a file system lists it once.
    listed = [one for one in os.listdir(people.parent) if one != people.name.upper()]
    monkeypatch.setattr(os, "listdir", lambda folder: listed)
    assert identity(upper) == identity(str(people))


def test_another_file_is_another_text(people: Path) -> None:
    assert identity("a b/people.csv") != identity("a b/other.csv")
    assert identity({"csv": "a b/people.csv"}) != identity({"parquet": "a b/people.csv"})


@pytest.mark.slow
def test_a_text_in_another_process_is_the_same(people: Path, tmp_path: Path) -> None:
    code = (
        "from jam_dagster.tables import source_from_config as of; "
        "config = {'csv': 'linked/people.csv', 'missing': ['b', 'a'], 'text': ['x', 'y']}; "
        "print(of(config).identity())"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    config = {"csv": str(people), "missing": ["a", "b"], "text": ["y", "x"]}
    assert printed == {identity(config)}


@pytest.mark.parametrize(
    "options",
    [
        {"separator": ";"},
        {"encoding": "latin-1"},
        {"decimal": ","},
        {"skipinitialspace": False},
        {"missing": ["-9"]},
        {"text": ["zip"]},
    ],
)
def test_how_a_file_is_read_belongs_to_it(options: dict[str, Any]) -> None:
    assert identity({"csv": "a.csv", **options}) != identity({"csv": "a.csv"})


def test_a_default_written_out_changes_nothing() -> None:
    written = {"csv": "a.csv", "separator": ",", "encoding": "UTF8", "missing": [*"?", "", "NA"]}
    shuffled = written | {"encoding": "utf-8", "missing": ["NA", "", "?"]}
    assert identity(written) == identity(shuffled)
    assert identity({"csv": "a.csv", "encoding": "utf_8"}) == identity("a.csv")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://Data.Example/a/b.csv", "HTTPS://data.example:443/a/./c/../b.csv"),
        ("https://ann:hunter2@data.example/b.csv", "https://data.example/b.csv#part"),
        ("https://data.example/%7eann/b.csv", "https://data.example/~ann/b.csv"),
        ("https://data.example/b.csv?v=2&a=1&token=hunter2", "https://data.example/b.csv?a=1&v=2"),
        (
            "https://x.blob.example/b.csv?sp=r&se=2026-01-01&sig=hunter2",
            "https://x.blob.example/b.csv?sp=r&se=2027-01-01&sig=hunter3",
        ),
        (
            "https://x.example/b.csv?X-Amz-Date=1&X-Amz-Credential=hunter2&X-Amz-Signature=hunter2",
            "https://x.example/b.csv",
        ),
        ("ftp://ann:hunter2@data.example/b.csv", "ftp://ann:hunter3@DATA.example:21/b.csv"),
        ("s3a://bucket/b.csv", "s3://bucket/./b.csv"),
        ("s3://AKIA:hunter2@bucket/b.csv", "s3://bucket/b.csv"),
        ("gcs://bucket/b.csv", "gs://bucket/b.csv"),
        ("simplecache::s3://bucket/b.csv", "s3://bucket/b.csv"),
        ("zip://a.csv::x/../b.zip", "zip://a.csv::b.zip"),
        ("abfss://box@Account.dfs.example/b.csv", "abfs://box@account.dfs.example/b.csv"),
    ],
)
def test_every_spelling_of_a_url_is_one_text(one: str, other: str) -> None:
    assert identity({"csv": one}) == identity({"csv": other})
    assert "hunter" not in identity({"csv": one}) + identity({"csv": other})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://data.example/a.csv", "https://data.example/A.csv"),
        ("https://data.example/a.csv", "https://data.example:8443/a.csv"),
        ("https://data.example/a.csv?v=1", "https://data.example/a.csv?v=2"),
        ("https://data.example/a%2Fb.csv", "https://data.example/a/b.csv"),
        ("s3://bucket/a.csv", "s3://bucket2/a.csv"),
        ("s3://bucket/a%20b.csv", "s3://bucket/a b.csv"),
        ("abfs://one@x.example/a.csv", "abfs://other@x.example/a.csv"),
        ("zip://a.csv::s3://b/x.zip", "zip://b.csv::s3://b/x.zip"),
        ("https://data.example/a.csv?author=1", "https://data.example/a.csv?author=2"),
        ("https://data.example/a.csv?user=1", "https://data.example/a.csv?user=2"),
        ("memory://a/x.csv", "memory://A/x.csv"),
        ("ftp://ann@data.example/b.csv", "ftp://bob@data.example/b.csv"),
        ("simplecache::ssh://ann@data.example/b.csv", "sftp://data.example/b.csv"),
    ],
)
def test_another_url_is_another_text(one: str, other: str) -> None:
    assert identity({"csv": one}) != identity({"csv": other})


QUERY = "select * from people where town = 'A  B'"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("postgresql://ann:hunter2@DB.example:5432/p", "postgresql+psycopg://ann@db.example/p"),
        ("postgresql:///p?host=db.example&user=ann", "postgresql://ann:hunter2@db.example/p"),
        ("postgresql://db/p?sslmode=require&connect_timeout=3", "postgresql://db/p"),
        ("postgresql://ann:hunter2@localhost", "postgresql://ann@127.0.0.1/ann"),
        (
            "mssql+pyodbc:///?odbc_connect=SERVER%3Dx%3BPWD%3Dhunter2%3BDATABASE%3Dp",
            "mssql+pyodbc:///?odbc_connect=database%3Dp%3Bserver%3Dx%3BAPP%3Da",
        ),
    ],
)
def test_every_spelling_of_a_database_is_one_text(one: str, other: str) -> None:
    texts = {identity({"sql": url, "query": QUERY}) for url in (one, other)}
    assert len(texts) == 1
    assert "hunter" not in texts.pop()


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://db.example/q",
        "postgresql://other.example/p",
        "postgresql://db.example:5433/p",
        "mysql://db.example/p",
        "postgresql://db.example/p?options=-csearch_path%3Dother",
    ],
)
def test_another_database_is_another_text(url: str) -> None:
    known = {"sql": "postgresql://db.example/p", "query": QUERY}
    assert identity(known) != identity(known | {"sql": url})


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann@db.example/p",
        "postgresql://ann@db.example/p?user=bob",
        "postgresql://db.example/p?user=bob",
        "mssql+pyodbc:///?odbc_connect=SERVER%3Dx%3BUID%3Dann%3BDATABASE%3Dp",
        "mssql+pyodbc:///?odbc_connect=SERVER%3Dx%3BTrusted_Connection%3Dyes%3BDATABASE%3Dp",
    ],
)
def test_another_user_reads_another_table(url: str) -> None:
    """The search path and the security of rows depend on the user."""
    others = ["postgresql://eve@db.example/p", "postgresql://db.example/p"]
    others.append("mssql+pyodbc:///?odbc_connect=SERVER%3Dx%3BUID%3Deve%3BDATABASE%3Dp")
    texts = {identity({"sql": one, "query": QUERY}) for one in (url, *others)}
    assert len(texts) == 4


SEARCH = "-csearch_path%3Dother"


@pytest.mark.parametrize(
    ("variable", "value", "left_open", "said"),
    [
        ("PGUSER", "eve", "db/p", "eve@db/p"),
        ("PGHOST", "other", "ann@/p", "ann@other/p"),
        ("PGPORT", "5433", "ann@db/p", "ann@db:5433/p"),
        ("PGDATABASE", "q", "ann@db", "ann@db/q"),
        ("PGOPTIONS", unquote(SEARCH), "ann@db/p", f"ann@db/p?options={SEARCH}"),
        ("PGHOSTADDR", "10.0.0.7", "ann@db/p", "ann@db/p?hostaddr=10.0.0.7"),
    ],
)
def test_what_a_url_leaves_open_is_what_the_driver_takes(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, left_open: str, said: str
) -> None:
    """Else another user, or another search path, would read under the same reservation."""
    one, other = ({"sql": f"postgresql://{url}", "query": QUERY} for url in (left_open, said))
    before = identity(one)
    monkeypatch.setenv(variable, value)
    assert identity(one) == identity(other) != before


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://?service=s",
        "postgresql+psycopg://ann@db.example/p?service=s",
        "postgresql://?conninfo=service%3Ds",
        "postgresql+psycopg2://?dsn=service%3Ds",
        "cockroachdb://?service=s",
    ],
)
def test_a_service_file_names_no_source(url: str) -> None:
    """The file may name another server tomorrow, under the same text."""
    with pytest.raises(SourceError, match="write host, port, database and user into the URL"):
        identity({"sql": url, "query": QUERY})


def test_a_service_of_the_environment_names_no_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGSERVICE", "s")
    with pytest.raises(SourceError, match="PGSERVICE"):
        identity({"sql": "postgresql://ann@db.example/p", "query": QUERY})
    assert identity({"sql": "mysql://ann@db.example/p", "query": QUERY})


def test_who_asks_is_the_user_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """libpq asks the system, whatever the variables of a shell say."""
    source = {"sql": "postgresql://db.example/p", "query": QUERY}
    before = identity(source)
    for variable in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(variable, "eve")
    assert identity(source) == before


def test_the_file_of_a_database_is_resolved(people: Path, tmp_path: Path) -> None:
    (tmp_path / "p.db").touch()
    (tmp_path / "q.db").symlink_to(tmp_path / "p.db")
    spellings = [
        "sqlite:///p.db",
        "sqlite:///q.db",
        f"sqlite:///{tmp_path}/a b/../p.db",
        "sqlite+pysqlite:///${FOLDER}/p.db",
        f"sqlite:///file:{tmp_path}/p.db?mode=ro&uri=true",
    ]
    assert len({identity({"sql": url, "query": QUERY}) for url in spellings}) == 1
    others = ["sqlite:///file:p.db", "sqlite:///p%252Edb", "sqlite:///~/p.db", "sqlite:///p.db#"]
    texts = {identity({"sql": url, "query": QUERY}) for url in ("sqlite:///p.db", *others)}
    assert len(texts) == 5
    assert identity({"sql": "sqlite:///a.db", "query": "q"}) != identity(
        {"sql": "sqlite:///p.db", "query": "q"}
    )


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:///p.db?mode=ro",
        "sqlite:///file:p.db",
        "sqlite:///file:p.db?URI=true",
        "sqlite:///file:p%252Edb?uri=true",
        "sqlite:///p.db?uri=true&mode=ro",
        "sqlite:///file:p.db?uri=true&uri=true",
    ],
)
def test_the_database_that_is_opened_is_what_the_text_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    """Whichever of several files of similar names a URL means, or it is refused."""
    monkeypatch.chdir(tmp_path)
    for name in ("p.db", "file:p.db", "p.db?mode=ro"):
        with sqlite3.connect(tmp_path / name) as connection:
            connection.execute("create table t (x)")
            connection.execute("insert into t values (?)", (name,))
        connection.close()
    source = source_from_config({"sql": url, "query": "select x from t"})
    try:
        place = json.loads(source.identity())["sql"]["name"]
    except SourceError:
        return
    assert source.read(private=True)["x"].tolist() == [Path(place).name]
    if "uri=true" in url:
        Path("file:p.db").unlink()
        assert source.count_records(None) == 1


def of_query(query: str) -> str:
    return identity({"sql": "sqlite:///p.db", "query": query})


@pytest.mark.parametrize(
    "other",
    [f"  {QUERY}\n", QUERY.replace("where", "\n\twhere "), f"{QUERY} ;"],
)
def test_white_space_of_a_query_is_one_blank(other: str) -> None:
    assert of_query(QUERY) == of_query(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (QUERY, QUERY.replace("A  B", "A B")),
        ("select a from t where b = 1", "select a from t where b = 2"),
        ("select a from t -- all\nwhere b = 1", "select a from t -- all where b = 1"),
        ("select a from t # all\nwhere b = 1", "select a from t # all where b = 1"),
        ("select 'a\\'  b' from t", "select 'a\\' b' from t"),
        ("select $$a  b$$ from t", "select $$a b$$ from t"),
        ('select "a  b" from t', 'select "a b" from t'),
        ("select `a  b` from t", "select `a b` from t"),
        ("select [a  b] from t", "select [a b] from t"),
        ("select a from People", "select a from people"),
        ("select a\u00a0b from t", "select a b from t"),
        ("select a from t where b = 1\u00a0", "select a from t where b = 1"),
    ],
)
def test_another_query_is_another_text(one: str, other: str) -> None:
    assert of_query(one) != of_query(other)


def test_the_place_is_one_for_all_who_read_it(tmp_path: Path) -> None:
    """Of two disjoint partitions, no way of reading makes one table two."""
    people = {"csv": str(tmp_path / "people.csv")}
    split = {"split": people, "by": "x", "value": 1, "public_share": 0.5, "public_rows": 9}
    options = {"encoding": "ascii", "text": ["x"]}
    same = [people, people | options, {"parquet": people["csv"]}, split, split | {"seed": 1}]
    assert len({place_in(identity(one)) for one in same}) == 1
    urls = [f"postgresql://{user}db.example/p" for user in ("", "ann@", "bob:hunter2@")]
    queries = [identity({"sql": url, "query": QUERY}) for url in urls]
    (place,) = {place_in(one) for one in queries}
    assert not any(name in place for name in ("user", "ann", "bob"))
    assert place_in(queries[0].replace("A  B", "A")) != place
    assert places_in("another package's text") == ["another package's text"]
    children = {"persons": {"source": people | options, "key": "id", "max": 3}}
    two = identity({"roots": split, "children": children})
    assert places_in(two) == [place_in(identity(people))] * 2


def test_what_tells_partitions_apart_is_one_file(tmp_path: Path) -> None:
    for config, expected in (
        ({"csv": str(tmp_path / "a.csv")}, True),
        # Its access points are further addresses, and a server has links.
        ({"csv": "s3://bucket/a.csv"}, False),
        ({"csv": "sftp://server/a.csv"}, False),
        ({"demo": "health_survey"}, False),
        ({"parquet": str(tmp_path)}, False),
        ({"parquet": "s3://bucket/people"}, False),
        ({"csv": "https://data.example/a.csv"}, False),
        ({"csv": "zip://a.csv::/data/a.zip"}, False),
        ({"sql": "sqlite:///a.db", "query": QUERY}, False),
        ({"asset": "a"}, False),
    ):
        assert is_one_file(identity(config)) == expected, config


def test_demo_split_and_asset() -> None:
    demo = {"demo": "health_survey"}
    # Samples of a part have the same people.
    assert identity(demo) == identity(demo | {"rows": 300, "period": "2026-03"})
    assert identity(demo) != identity(demo | {"part": "public"})
    split = {"split": "a.csv", "by": "x", "value": 1, "public_share": 0.5, "public_rows": 9}
    assert identity(split) == identity(split | {"split": {"csv": "./a.csv"}, "seed": 0})
    assert identity(split) != identity(split | {"part": "public"})
    assert identity(split) != identity(split | {"value": "1"})
    assert identity({"asset": "a/b"}) != identity({"asset": "a/c"})


def test_the_partition_belongs_to_it() -> None:
    source: Source = source_from_config("people_{partition}.csv")
    resolved = at_partition(source, "2026-01")
    assert resolved.identity() == identity("people_2026-01.csv") != source.identity()


def test_what_cannot_be_resolved_is_named_without_its_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NOT_SET", raising=False)
    with pytest.raises(SourceError, match="NOT_SET is not set"):
        identity("${NOT_SET}/a.csv")
    with pytest.raises(SourceError, match="URL") as caught:
        identity({"sql": "hunter2", "query": "select 1"})
    assert "hunter2" not in str(caught.value)
