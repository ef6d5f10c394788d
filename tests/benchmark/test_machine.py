"""What a process holds, what is left, and how many runs that allows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jam_dagster.benchmark import Planned, Run, Runner, load_grid, running
from jam_dagster.benchmark.machine import (
    available_memory_mb,
    cores,
    memory_of_mb,
    peak_memory_mb,
)
from jam_dagster.benchmark.results import Results

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")


def test_the_peak_is_of_the_process_itself() -> None:
    # getrusage would tell what the process that starts it holds.
    held = bytearray(300 * 2**20)
    code = "from jam_dagster.benchmark.machine import peak_memory_mb; print(peak_memory_mb())"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert peak_memory_mb() > 300
    assert 10 < float(done.stdout) < 290
    assert len(held)


def test_what_is_left_and_held_is_known() -> None:
    left = available_memory_mb()

    assert left is not None
    assert left > 0
    assert memory_of_mb(os.getpid()) > 10
    assert memory_of_mb(2**30) == 0
    assert cores() >= 1


def test_a_run_waits_for_memory(
    grid_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = Runner(load_grid(grid_file), Results(tmp_path / "rows.parquet"), jobs=4)
    runner._note_peak({"mechanism": "aim", "split": "small", "peak_memory_mb": 3000.0})
    one, other = (
        Planned(Run("small", name, epsilon=1.0, seed=0), name, None, 1.0, True)
        for name in ("aim", "jam_pgm")
    )
    process = type("Process", (), {"pid": os.getpid()})()
    held = memory_of_mb(os.getpid())
    under_way = [running._Running(other, process, expected_mb=held + 500.0)]
    left = {"mb": 3400.0}
    monkeypatch.setattr(running, "available_memory_mb", lambda: left["mb"])

    # The one under way may still come to hold 500 MB.
    assert not runner._fits(one, under_way)
    assert runner._fits(other, under_way)
    left["mb"] = 3700.0
    assert runner._fits(one, under_way)
    # One alone is always tried.
    left["mb"] = 1.0
    assert runner._fits(one, [])
