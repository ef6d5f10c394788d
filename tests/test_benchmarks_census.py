"""The measurements of a census: limits that kill, rows that are added, and the parts."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pandas as pd
import pytest

from benchmarks import census
from benchmarks.census import PARTS, Taken, limited, main, read_rows
from benchmarks.make_census import write_census

ROOM = 500_000_000


def run(code: str, folder: Path, *, limit: int = ROOM, seconds: float = 60.0) -> Taken:
    return limited([sys.executable, "-c", code], limit=limit, seconds=seconds, folder=folder)


def test_a_command_is_measured(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(3_000_000))
    code = f"print(len(open({str(tmp_path / 'file')!r}, 'rb').read()))"

    taken = run(code, tmp_path)

    assert taken.status == "done"
    assert taken.output == "3000000\n"
    assert taken.read_bytes > 3_000_000
    assert taken.cpu_seconds > 0
    assert 0 < taken.peak_bytes < ROOM


def test_a_process_that_allocates_too_much_fails(tmp_path: Path) -> None:
    taken = run("bytearray(400_000_000)", tmp_path, limit=300_000_000)

    assert taken.status == "exit status 1"
    assert "MemoryError" in (tmp_path / "said.txt").read_text()


def test_processes_that_hold_too_much_together_are_killed(tmp_path: Path) -> None:
    # Each is below the limit.
    code = "import os, time; os.fork(); held = bytearray(b'1') * 60_000_000; time.sleep(30)"
    assert run(code, tmp_path, limit=100_000_000).status == "killed: memory"


def test_a_command_that_takes_too_long_is_stopped(tmp_path: Path) -> None:
    assert run("import time; time.sleep(30)", tmp_path, seconds=0.1).status == "stopped: time"


def test_what_is_killed_with_a_command_counts_whatever_its_group(tmp_path: Path) -> None:
    spinning = f"[{sys.executable!r}, '-c', 'while True: pass']"
    code = f"import subprocess, time; print(subprocess.Popen({spinning}, process_group=0).pid)"
    taken = run(f"{code}; import sys; sys.stdout.flush(); time.sleep(30)", tmp_path, seconds=1.0)
    # Python takes a twentieth to start.
    assert taken.cpu_seconds > 0.2
    state = Path(f"/proc/{int(taken.output)}/stat")
    assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"


def test_parts_that_need_a_failed_one_are_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_census(tmp_path, rows=30, columns=3, files=2, public_rows=5)
    commands: list[list[str]] = []

    def fake(command: list[str], *, limit: int, seconds: float, folder: Path) -> Taken:
        commands.append(command)
        (folder / "said.txt").write_text("no room\n")
        failed = "synthesize" in command and "--public" in command
        status = "exit status 1" if failed else "done"
        cost = {"expected_seconds": {"read": 0.25}, "seconds": 0.25, "private_table_mb": 2000.0}
        cost |= {"memory_mb": 3000.0, "in_files_mb": 1000.0}
        said = json.dumps({"seconds": {"read": 0.5}, "cost": cost})
        return Taken(status, 1.0, 2.0, 3_000_000_000, 4, said)

    monkeypatch.setattr(census, "limited", fake)
    out = tmp_path / "rows.parquet"

    assert main([str(tmp_path), "--out", str(out), "--label", "a1"]) == 1
    assert main([str(tmp_path), "--out", str(out), "--parts", "draft"]) == 0

    rows = read_rows(out)
    assert [row["part"] for row in rows] == [part for part in PARTS if part != "verify"] + ["draft"]
    assert {(row["rows"], row["columns"]) for row in rows} == {(30, 3)}
    assert [row["status"] for row in rows].count("exit status 1") == 1
    assert rows[-2]["code"] == "a1"
    assert rows[-3]["stages"] == '{"read": 0.5}'
    # So many codes stay in their files.
    assert json.loads(rows[2]["stages"]) == {"read": 0.25, "total": 0.25, "mb": 1000.0}
    shown, said = capsys.readouterr()
    assert "| 30 | 3 | release | exit status 1 | 1.0 | 2.0 | 3.00 | 0.00 |" in shown
    assert said == "no room\n\n"


@pytest.mark.parametrize(
    ("options", "codes_mb", "expected"),
    [
        ([], 1000.0, {"table": "parquet", "mb": 3000.0}),
        ([], 1025.0, {"table": "parquet", "mb": 1000.0}),
        (["--duckdb"], 1000.0, {"table": "duckdb", "mb": 1000.0}),
    ],
)
def test_a_forecast_has_the_memory_of_codes_that_are_held(
    options: list[str],
    codes_mb: float,
    expected: dict[str, object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_census(tmp_path, rows=30, columns=3, files=2, public_rows=5)
    cost = {"expected_seconds": {}, "seconds": 0.25, "private_table_mb": codes_mb}
    said = json.dumps({"cost": cost | {"memory_mb": 3000.0, "in_files_mb": 1000.0}})
    taken = Taken("done", 1.0, 2.0, 3, 4, said)
    monkeypatch.setattr(census, "limited", lambda command, **more: taken)
    out = tmp_path / "rows.parquet"

    assert main([str(tmp_path), "--out", str(out), "--parts", "forecast", *options]) == 0

    (row,) = read_rows(out)
    assert {"table": row["table"], "mb": json.loads(row["stages"])["mb"]} == expected


def test_a_forecast_is_compared_with_the_release_of_its_size() -> None:
    said = json.dumps({"read": 1.0, "total": 90.0, "mb": 1000.0})
    rows = [
        (5, 3, "release", "done", 100.0, 2_000_000_000, "{}"),
        (5, 3, "forecast", "done", 30.0, 1_000_000_000, said),
        (6, 3, "forecast", "done", 30.0, 1_000_000_000, said),
        (6, 3, "release", "stopped: time", 9.0, 1, "{}"),
    ]
    names = ("rows", "columns", "part", "status", "cpu_seconds", "peak_bytes", "stages")
    (found,) = census.forecasts(pd.DataFrame(rows, columns=names).assign(degree=2)).itertuples()
    assert (found.rows, found.cpu_seconds, found.expected_seconds) == (5, 100.0, 90.0)
    assert (found.gb, found.expected_gb) == (2.0, pytest.approx(1.048576))


def test_a_law_is_found_by_the_sizes_that_it_is_fitted_to_and_given_for_others() -> None:
    sizes = [(2, 20), (20, 30), (5, 80), (132, 80), (55, 60)]
    frame = pd.DataFrame(sizes, columns=["rows", "columns"])
    frame["rows"] *= 1_000_000
    cells = frame["rows"] * frame["columns"] / 1e6
    frame["cpu_seconds"] = 10.0 + 0.25 * cells + 0.5 * frame["columns"] ** 3 / 1e3
    wanted = frame["cpu_seconds"].to_numpy(copy=True)
    # A release with a forecast cannot move it.
    frame.loc[4, "cpu_seconds"] = 1e9
    frame = frame.assign(part="release", status="done", degree=2)
    frame = pd.concat([frame, frame[4:].assign(part="forecast")])
    found = census.law(frame)
    assert found["law_seconds"].to_numpy() == pytest.approx(wanted)
    assert found["fitted"].to_list() == [True] * 4 + [False]
