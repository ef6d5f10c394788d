"""The benchmark of counting, on tables that take no time."""

from pathlib import Path

import pytest

from benchmarks.counting import CASES, DATABASE, load, main, write_parquet
from benchmarks.make_census import main as make_census
from tests.postgres import PostgresServer

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("case", sorted(set(CASES) - {"database"}))
def test_every_case_counts_every_record(tmp_path: Path, case: str) -> None:
    path = tmp_path / "people.parquet"
    write_parquet(path, 300, 4, group_rows=120)
    seconds = CASES[case](300, 4, path)
    assert "count" in seconds
    assert min(seconds.values()) >= 0


def test_a_database_counts_every_record(
    tmp_path: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "people.parquet"
    write_parquet(path, 300, 4, group_rows=120)
    database = postgres.create_database()
    load(database, path)
    monkeypatch.setenv(DATABASE, database)
    seconds = CASES["database"](300, 4, path)
    assert set(seconds) == {"pass", "count"}


def test_the_command_prints_a_line_a_case(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--rows", "300", "--attributes", "3", "--cases", "blocks"]) == 0
    heading, line = capsys.readouterr().out.splitlines()
    assert heading == "300 rows, 3 attributes"
    assert line.startswith("blocks")
    assert line.endswith("MB")


def test_a_folder_of_a_census_is_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert make_census([str(tmp_path), "--rows", "3000", "--columns", "4"]) == 0
    capsys.readouterr()
    assert main(["--table", str(tmp_path), "--degree", "3"]) == 0
    encoding, counting = capsys.readouterr().out.split("; ")[0].split(", ")
    assert float(encoding.removesuffix(" ns to encode a cell")) > 0
    assert float(counting.removesuffix(" ns to count a row and marginal")) > 0
