"""The private table given as the public one is refused, however it is spelled."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from jam_dagster.errors import InputError, SpecificationError
from jam_dagster.tables import CsvSource, ParquetSource, PublicSources, Source, source_from_config
from jam_dagster.tables.sources.frame import FrameSource
from jam_dagster.tables.sources.identity import place_of
from jam_dagster.tables.sources.public_apart import (
    check_apart,
    check_headers,
    check_no_copy,
    check_no_people,
    check_outside,
    restricted_folders,
    same_rows,
    snapshot_of,
)
from jam_dagster.tables.sources.shifted import ShiftedSource


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HERE", str(tmp_path))
    Path("people.csv").write_text("who,a\n1,2\n")
    Path("survey.csv").write_text("a\n2\n")
    Path("link.csv").symlink_to("people.csv")
    os.link("people.csv", "hard.csv")
    Path("parts").mkdir()
    pd.DataFrame({"who": [1], "a": [2]}).to_parquet("parts/one.parquet")
    Path("linked").symlink_to("parts", target_is_directory=True)
    Path("p.db").touch()
    os.link("p.db", "q.db")
    return tmp_path


QUERY = "select a, b from people where town = 'Aix'"
SPLIT = {"split": "people.csv", "by": "a", "value": 2, "public_share": 0.5, "public_rows": 1}

SAME: dict[str, tuple[Any, Any]] = {
    "the path": ("people.csv", "people.csv"),
    "dots": ("people.csv", "./parts/../people.csv"),
    "a link": ("people.csv", "link.csv"),
    "a hard link": ("people.csv", "hard.csv"),
    "a file URL": ("people.csv", "file://${HERE}/people.csv"),
    "a variable": ("people.csv", "${HERE}/people.csv"),
    "a variable that is not set": ("${NOT_SET}/people.csv", "${NOT_SET}/people.csv"),
    "other options": ("people.csv", {"csv": "people.csv", "separator": ";", "text": ["a"]}),
    "a URL": ("https://h.example/a.csv", "HTTPS://ann@H.example:443/b/../a.csv#x"),
    "a folder": ("parts", "linked/"),
    "a file of the folder": ("parts", "parts/one.parquet"),
    "the folder of the file": ("parts/one.parquet", "linked"),
    "a file of the bucket's folder": ("s3://b/people", "s3a://b/people/part-0.parquet"),
    "a query": (QUERY, QUERY),
    "another white space": (QUERY, " select a ,b\n from  people where town='Aix' ;"),
    "another case, and a comment": (QUERY, "SELECT a, b /* all */ FROM people WHERE town = 'Aix'"),
    "an asset": ({"asset": "w/people"}, {"asset": "w/people"}),
    "the whole of a split": (SPLIT, "people.csv"),
    "a split of it": ("people.csv", SPLIT | {"part": "public"}),
    "the same part": (SPLIT, SPLIT | {"part": "private"}),
    "another split": (SPLIT, SPLIT | {"part": "public", "seed": 3}),
    "the demo": ({"demo": "health_survey"}, {"demo": "health_survey", "rows": 300}),
}

OTHERS: dict[str, tuple[Any, Any]] = {
    "another file": ("people.csv", "survey.csv"),
    "a name that begins alike": ("s3://b/people", "s3://b/people_2016/part-0.parquet"),
    "another where": (QUERY, QUERY.replace("Aix", "Bern")),
    "another part": (SPLIT, SPLIT | {"part": "public"}),
    "another asset": ({"asset": "w/people"}, {"asset": "w/survey"}),
    "the demo's other part": (
        {"demo": "health_survey"},
        {"demo": "health_survey", "part": "public"},
    ),
    "another kind": ("people.csv", {"asset": "people.csv"}),
}


def source(config: Any, url: str = "sqlite:///p.db") -> Any:
    if isinstance(config, str) and config.lower().lstrip().startswith("select"):
        return source_from_config({"sql": url, "query": config})
    if isinstance(config, str) and not config.partition("#")[0].endswith(".csv"):
        return source_from_config({"parquet": config})
    return source_from_config({"csv": config} if isinstance(config, str) else config)


@pytest.mark.parametrize(("private", "public"), SAME.values(), ids=list(SAME))
def test_the_private_table_is_no_public_one(folder: Path, private: Any, public: Any) -> None:
    assert same_rows(source(private), source(public))
    with pytest.raises(SpecificationError, match="The public table is the private table") as caught:
        check_apart(source(private), source(public))
    assert "Nothing was opened and nothing charged: name a table" in str(caught.value)
    several = PublicSources({"survey": source("survey.csv"), "other": source(public)})
    with pytest.raises(SpecificationError, match="Public table 'other' is the private table"):
        check_apart(source(private), several)


@pytest.mark.parametrize(("private", "public"), OTHERS.values(), ids=list(OTHERS))
def test_another_table_is_one(folder: Path, private: Any, public: Any) -> None:
    assert not same_rows(source(private), source(public))
    check_apart(source(private), source(public))
    check_apart(source(private), None)


def test_databases(folder: Path) -> None:
    one = source(QUERY)
    assert same_rows(one, source(QUERY, "sqlite+pysqlite:///file:q.db?mode=ro&uri=true"))
    assert not same_rows(one, source(QUERY, "sqlite:///other.db"))
    assert not same_rows(one, source(QUERY.replace("Aix", "B"), "sqlite:///q.db"))
    remote = source(QUERY, "postgresql://ann:x@db.example/p")
    assert same_rows(remote, source(QUERY, "postgresql+psycopg://DB.example:5432/p"))
    assert not same_rows(remote, source(QUERY, "postgresql://db.example/q"))


def test_nothing_is_opened(folder: Path) -> None:
    for path in ("people.csv", "survey.csv"):
        Path(path).chmod(0)
    assert same_rows(source("people.csv"), source("hard.csv"))
    assert not same_rows(source("people.csv"), source("survey.csv"))


@pytest.mark.parametrize(
    ("private", "public", "found"),
    [
        ("people_{partition}.csv", "people_2026-01.csv", "2026-01"),
        ("people_{partition}.csv", "./x/../people_2026-01.csv", "2026-01"),
        ("{partition}/people_{partition}.csv", "wave1/people_wave1.csv", "wave1"),
        ("{partition}/people_{partition}.csv", "wave1/people_wave2.csv", None),
        ("people_{partition}.csv", "survey.csv", None),
        ("people_{partition}.csv", "other/people_2026-01.csv", None),
        ("people.csv", "people_2026-01.csv", None),
        (
            "select * from t where m = '{partition}'",
            "SELECT * FROM t  where m='2026-01'",
            "2026-01",
        ),
        ("select * from t where m = '{partition}'", "select * from s where m = '2026-01'", None),
    ],
)
def test_a_snapshot_of_the_private_table(
    folder: Path, private: str, public: str, found: str | None
) -> None:
    assert snapshot_of(source(private), source(public)) == found


def test_a_copy_of_the_private_table_is_known_by_its_bytes(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": range(5000), "b": "x"})
    for name in ("people.csv", "copy.csv"):
        frame.to_csv(tmp_path / name, index=False)
    frame.assign(b=["y", *["x"] * 4999]).to_csv(tmp_path / "near.csv", index=False)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        for part in (0, 1):
            frame[part::2].to_parquet(tmp_path / name / f"{part + len(name)}.parquet")
    frame.to_parquet(tmp_path / "two" / "more.parquet")
    people, two = CsvSource(str(tmp_path / "people.csv")), ParquetSource(str(tmp_path / "two"))

    def is_copy(private: Source, public: Any) -> bool:
        try:
            check_no_copy(private, public)
        except InputError:
            return True
        return False

    copy, near = (CsvSource(str(tmp_path / name)) for name in ("copy.csv", "near.csv"))
    assert is_copy(people, copy)
    assert not is_copy(people, near)
    assert is_copy(people, PublicSources({"a": near, "b": copy}))
    assert is_copy(people, ShiftedSource(copy, "1 week"))
    # A part of it is not all of it, and a larger one holds all.
    assert is_copy(ParquetSource(str(tmp_path / "one")), two)
    assert not is_copy(two, ParquetSource(str(tmp_path / "one")))
    assert is_copy(FrameSource(frame, "people"), FrameSource(frame.copy(), "public"))
    assert not is_copy(FrameSource(frame, "people"), FrameSource(frame.assign(b="y"), "public"))
    assert not is_copy(people, CsvSource(str(tmp_path / "missing.csv")))
    assert not is_copy(people, None)


def test_a_place_of_private_files(folder: Path) -> None:
    Path("closed").mkdir()
    Path("closed/copy.csv").write_text("a\n2\n")
    os.link("closed/copy.csv", "outside.csv")
    os.link("survey.csv", "elsewhere.csv")
    root = [place_of("closed")]
    database = source_from_config({"sql": "sqlite:///closed/x.db", "query": QUERY})
    for public in ("closed/copy.csv", "./closed/people/x.csv", "outside.csv"):
        with pytest.raises(SpecificationError, match="is in the private store"):
            check_outside(source(public), root, "the private store")
    with pytest.raises(SpecificationError, match="Public table 'x' "):
        check_outside(PublicSources({"x": database}), root, "the private store")
    with pytest.raises(SpecificationError, match="is in "):
        check_outside(source("s3a://b/closed/x.csv"), ["s3://b/closed"], "the private store")
    for public in ("survey.csv", "closed.csv", "elsewhere.csv"):
        check_outside(source(public), root, "the private store")
    check_outside(source({"asset": "closed/x"}), root, "the private store")


def test_the_restricted_folder_of_a_release(folder: Path) -> None:
    Path("out/restricted").mkdir(parents=True)
    assert restricted_folders(source("out/restricted/x.csv")) == []
    Path("out/release.json").touch()
    assert restricted_folders(source("out/restricted/x.csv")) == [str(folder / "out/restricted")]
    assert restricted_folders(source("out/synthetic.csv")) == []


def test_a_table_of_persons_is_not_public(folder: Path) -> None:
    for names in (["a", "who"], ["Who "], ["WHO"]):
        with pytest.raises(InputError, match="has the column 'who', which identifies a person"):
            check_no_people(names, "who")
    check_no_people(["a", "whole"], "who")
    check_no_people(["who"], None)
    for public in ("people.csv", "parts", SPLIT):
        with pytest.raises(InputError, match="Public table 'x' has the column 'who'"):
            check_headers(PublicSources({"x": source(public)}), "who")
    check_headers(source("survey.csv"), "who")
    check_headers(source("people.csv"), None)
    pd.DataFrame({"a": [1]}, index=pd.RangeIndex(1, name="who")).to_parquet("index.parquet")
    with pytest.raises(InputError, match="'who'"):
        check_headers(source("index.parquet"), "who")
