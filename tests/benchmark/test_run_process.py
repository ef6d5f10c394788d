"""The process of a run: how it ends, and what is left of it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from jam_dagster.benchmark import SplitFiles, load_grid, read_rows, run_grid, run_process
from jam_dagster.benchmark.run_process import RunProcess, was_killed
from jam_dagster.benchmark.runs import Run
from jam_dagster.errors import InputError
from tests.benchmark import targets

on_linux = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Callable[[object], RunProcess]:
    """Start a process that does something else than a run."""

    def start(target: object) -> RunProcess:
        monkeypatch.setattr(run_process, "work", target)
        return RunProcess(Run("small", "aim", epsilon=1.0, seed=0), SplitFiles("small"), None)

    return start


def nothing() -> dict[str, object]:
    return {}


@on_linux
def test_what_was_killed_leaves_what_it_held(started: Callable[[object], RunProcess]) -> None:
    process = started(targets.fill)
    assert process.receiver.poll(60)  # It says that it is at work when it holds them.
    assert not process.over()
    os.kill(process.pid, signal.SIGKILL)
    row = process.row(nothing)

    assert was_killed(row)
    assert row["peak_memory_mb"] > targets.HELD_MB


@on_linux
def test_where_memory_runs_out_the_run_is_ended_and_not_the_benchmark(
    started: Callable[[object], RunProcess],
) -> None:
    process = started(targets.be_killed)
    try:
        output = Path(f"/proc/{process.pid}/oom_score_adj").read_text()
    finally:
        process.end()

    assert int(output) == 1000


@on_linux
def test_an_interrupt_reaches_the_benchmark_and_not_its_runs(
    started: Callable[[object], RunProcess],
) -> None:
    process = started(targets.be_killed)
    try:
        output = Path(f"/proc/{process.pid}/status").read_text()
    finally:
        process.end()

    (blocked,) = [line.split()[1] for line in output.splitlines() if line.startswith("SigBlk:")]
    assert int(blocked, 16) >> (signal.SIGINT - 1) & 1
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_a_crash_and_an_end_are_told_apart_from_a_kill(
    started: Callable[[object], RunProcess],
) -> None:
    crashed, ended = (
        started(target).row(nothing) for target in (targets.crash, targets.end_at_work)
    )

    assert crashed["message"] == "its process was ended by signal 11"
    assert ended["message"].startswith("its process ended with status 3 and no result")
    assert not was_killed(crashed)
    assert not was_killed(ended)


def test_a_process_that_never_came_to_its_run_says_nothing_of_the_run(
    started: Callable[[object], RunProcess],
) -> None:
    with pytest.raises(InputError, match=r"status 1 before the run began.*__main__"):
        started(targets.end_without_a_word).row(nothing)


def test_a_killed_process_is_a_failed_row(
    data: Path, grid_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = data / "paper" / "small"
    lonely = SplitFiles("x", str(folder / "priv.csv"), None, str(folder / "domain.json"))
    grid = replace(load_grid(grid_file), splits=(lonely,), contenders=(), seeds=(0,))
    monkeypatch.setattr(run_process, "work", targets.be_killed)

    rows = run_grid(grid, tmp_path / "rows.parquet", data=data, jobs=1)

    assert {row["status"] for row in rows} == {"failed"}
    assert all("killed by signal 9" in row["message"] for row in rows)


def test_a_run_that_takes_too_long_is_ended(data: Path, grid_file: Path, tmp_path: Path) -> None:
    grid = replace(load_grid(grid_file), baselines=False).narrowed(
        mechanisms=["aim"], epsilons=[1.0]
    )

    (row,) = run_grid(grid, tmp_path / "rows.parquet", data=data, limit_s=0.01)

    assert row["status"] == "failed"
    assert row["message"] == "it took more than 0.01 s"


def test_the_process_of_a_run_makes_no_grid(
    grid_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(multiprocessing.current_process(), "name", run_process._NAME)

    with pytest.raises(InputError, match="This is the process of a run, which makes none"):
        run_grid(load_grid(grid_file), tmp_path / "rows.parquet")

    assert not (tmp_path / "rows.parquet").exists()


@pytest.mark.slow
def test_a_script_without_a_guard_is_told_what_it_lacks(
    data: Path, grid_file: Path, tmp_path: Path
) -> None:
    script, out = tmp_path / "script.py", tmp_path / "rows.parquet"
    script.write_text(
        "from pathlib import Path\n"
        "from jam_dagster.benchmark import load_grid, run_grid\n"
        f"run_grid(load_grid({str(grid_file)!r}), Path({str(out)!r}), data=Path({str(data)!r}))\n"
    )

    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert "This is the process of a run, which makes none" in done.stderr
    assert 'if __name__ == "__main__":' in done.stderr.splitlines()[-1]
    assert read_rows(out) == []
