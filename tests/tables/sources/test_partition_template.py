"""Which snapshot a source reads: `{partition}` in its path or query."""

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import sqlalchemy as sa

from jam_dagster.errors import SpecificationError
from jam_dagster.tables import source_from_config
from jam_dagster.tables.sources.partition_template import (
    at_partition,
    check_partition,
    is_partitioned,
    linked_file,
    table_of,
    template_of,
)

SPLIT = {"split": "all_{partition}.csv", "by": "sex", "value": "F", "public_share": 0.5}


@pytest.mark.parametrize(
    ("config", "key", "wanted"),
    [
        ("people_{partition}.csv", "csv", "people_2026-01.csv"),
        ({"csv": "{partition}/a.csv", "separator": ";"}, "csv", "2026-01/a.csv"),
        ({"parquet": "s3://b/month={partition}/"}, "parquet", "s3://b/month=2026-01/"),
        (
            {"sql": "sqlite:///a.db", "query": "select * from t where m = '{partition}'"},
            *("query", "select * from t where m = '2026-01'"),
        ),
        ({"sql": "sqlite:///{partition}.db", "query": "select 1"}, "sql", "sqlite:///2026-01.db"),
        ({**SPLIT, "public_rows": 10}, "split", {"csv": "all_2026-01.csv"}),
    ],
)
def test_the_partition_stands_in_path_and_query(config: Any, key: str, wanted: Any) -> None:
    source = source_from_config(config)
    assert is_partitioned(source)
    read = at_partition(source, "2026-01")
    assert not is_partitioned(read)
    assert read.to_dict() == {**source.to_dict(), key: wanted}


@pytest.mark.parametrize("partition", ["2026-01", "2026-01-05", "wave_1", "q1.", "a.b-c_d", "7"])
def test_what_partitions_are_called(partition: str) -> None:
    assert check_partition(partition) == partition


def test_a_long_name_is_looked_at_once() -> None:
    with pytest.raises(SpecificationError):
        check_partition("a" * 99 + "-")


@pytest.mark.parametrize(
    "config", ["people.csv", {"demo": "health_survey"}, {"parquet": "${X}/a_{b}"}]
)
def test_a_source_without_partition_is_the_same_for_all(config: Any) -> None:
    source = source_from_config(config)
    assert not is_partitioned(source)
    assert at_partition(source, "2026-01") is source
    assert at_partition(source, "") is source


@pytest.mark.parametrize(
    "partition",
    [
        *("x--", "x-", "a--b", "x;", "x#", "x/*", "x\\", "x`", "x%", "x\0", "é", "-x", "x$y"),
        "",
        "../secret",
        "a/b",
        "x' or 'a' = 'a",
        "a b",
        ".hidden",
        "a\n",
        "a" * 101,
        7,
    ],
)
def test_what_could_leave_a_path_or_a_query_is_no_partition(partition: Any) -> None:
    with pytest.raises(SpecificationError, match="a partition must be a text"):
        check_partition(partition)
    with pytest.raises(SpecificationError, match="a partition must be a text"):
        at_partition(source_from_config("people_{partition}.csv"), partition)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ("people_{partition}.csv", ""),
        ({"parquet": "{partition}.parquet"}, ""),
        ({"csv": "people.csv", "encoding": "{partition}"}, ""),
        ({"parquet": "folder"}, "in partitions"),
        ({"sql": "sqlite:///{partition}.db", "query": "select 1"}, "counted"),
        ({"asset": "people"}, "counted"),
    ],
)
def test_what_is_no_file_is_known_by_its_template(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: Any, expected: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    source = source_from_config(config)
    assert template_of(source, "") == ""
    assert template_of(source, "2026") == (source.identity() if expected else "")
    # A query or an asset can select whom it likes, so an officer vouches for what it counts.
    counted = template_of(source, "", counted=True)
    assert counted == (source.identity() if expected == "counted" else "")


def test_partitions_of_one_table_have_one_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The spelling and the options do not matter; a file of another name is another table."""
    monkeypatch.chdir(tmp_path)
    visits = source_from_config("visits_{partition}.csv")
    spelt = source_from_config({"csv": "./visits_{partition}.csv", "encoding": "ascii"})
    names = {table_of(one, year) for one in (visits, spelt) for year in ("2016", "2017")}
    assert len(names) == 1
    literal = source_from_config("visits_2016.csv")
    others = [table_of(source_from_config("tests_{partition}.csv"), "2016")]
    others += [table_of(literal, "2016")]
    # A link of that name leads to another table.
    (tmp_path / "tests_2018.csv").touch()
    (tmp_path / "visits_2018.csv").symlink_to(tmp_path / "tests_2018.csv")
    others += [table_of(visits, "2018")]
    assert len(names.union(others)) == 4
    assert table_of(visits, "") == ""


def test_a_link_that_is_named_partition_itself_opens_no_table(tmp_path: Path) -> None:
    """Two folders of such links would be one table, which an officer vouched for once."""
    for name in ("p", "q"):
        (tmp_path / name / "2016").mkdir(parents=True)
        (tmp_path / name / "{partition}").symlink_to(tmp_path / "t" / "{partition}")
    one, other = (source_from_config({"parquet": f"{tmp_path}/{at}/{{partition}}"}) for at in "pq")
    for named in (table_of, template_of):
        assert len({named(source, "2016") for source in (one, other)}) == 2
        assert named(one, "2016") != named(one, "2017")


@pytest.mark.parametrize("user", ["ann", "bob"])
def test_a_query_s_table_is_that_of_any_user(user: str) -> None:
    url = f"postgresql://{user}:hunter2@db/p"
    query = {"sql": url, "query": "select * from people where year = '{partition}'"}
    name = table_of(source_from_config(query), "2016")
    assert "{partition}" in name
    assert user not in name


def test_a_split_of_a_file_can_select_whom_it_likes() -> None:
    split = {"by": "sex", "value": "F", "public_share": 0.5, "public_rows": 5}
    source = source_from_config({"split": "people.csv", **split})
    assert template_of(source, "2026") == ""
    assert template_of(source, "", counted=True) == source.identity()


def test_a_file_of_two_names_is_described(tmp_path: Path) -> None:
    (tmp_path / "a.csv").touch()
    (tmp_path / "c.csv").symlink_to(tmp_path / "a.csv")
    split = {**SPLIT, "split": str(tmp_path / "c.csv"), "public_rows": 9}
    sources = [source_from_config(str(tmp_path / name)) for name in ("a.csv", "c.csv", "d.csv")]
    sources += [source_from_config({"parquet": str(tmp_path)}), source_from_config(split)]
    assert [linked_file(one) for one in sources] == [""] * 5
    (tmp_path / "b.csv").hardlink_to(tmp_path / "a.csv")
    expected = [f"CSV file {tmp_path / 'a.csv'}", f"CSV file {tmp_path / 'c.csv'}", "", ""]
    assert [linked_file(one) for one in sources] == [*expected, expected[1]]


def test_each_partition_reads_rows_of_its_own(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'people.db'}"
    table = pd.DataFrame({"month": ["2026-01", "2026-02", "2026-02"], "age": [1, 2, 3]})
    engine = sa.create_engine(url)
    table.to_sql("people", engine, index=False)
    engine.dispose()
    source = source_from_config(
        {"sql": url, "query": "select age from people where month = '{partition}' order by age"}
    )
    ages = [list(at_partition(source, f"2026-0{m}").read(private=True)["age"]) for m in (1, 2)]
    assert ages == [[1], [2, 3]]


def test_a_partition_may_be_written_in_another_dialect(tmp_path: Path) -> None:
    (tmp_path / "p_2026-01.csv").write_text("a,b\n1.5,x\n")
    (tmp_path / "p_2026-02.csv").write_bytes("a;b\n2,5;é\n".encode("latin-1"))
    german = {"separator": ";", "decimal": ",", "encoding": "latin-1"}
    config = {"csv": str(tmp_path / "p_{partition}.csv"), "but": {"2026-02": german}}
    both = source_from_config(config)
    tables = [at_partition(both, name).read(private=False) for name in ("2026-01", "2026-02")]
    assert [table.iloc[0].tolist() for table in tables] == [[1.5, "x"], [2.5, "é"]]
    assert hash(both)
    assert source_from_config(both.to_dict()) == both
    # All partitions are of one table, whatever they are written in.
    assert table_of(both, "2026-01") == table_of(both, "2026-02") != ""
    moved = at_partition(source_from_config({"shift": config, "by": "1 week"}), "2026-02")
    assert moved.to_dict()["shift"] == {"csv": str(tmp_path / "p_2026-02.csv"), **german}


@pytest.mark.parametrize(
    ("but", "said"),
    [
        ({"2026-02": {"separator": 5}}, "but.2026-02: source 'csv': separator must be a text"),
        ({"2026-02": {"path": "x"}}, "but.2026-02"),
        ({"2026-02": ";"}, "but"),
        ({"2026-02": {"separator": ";;"}}, "one character"),
    ],
)
def test_a_dialect_of_a_partition_that_cannot_be(but: Any, said: str) -> None:
    with pytest.raises(SpecificationError, match=re.escape(said)):
        source_from_config({"csv": "p_{partition}.csv", "but": but})
