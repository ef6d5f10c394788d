"""What a process holds, what is left, and how many runs that allows."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from jam_dagster.benchmark import Planned, Run, Runner, load_grid, machine, running
from jam_dagster.benchmark.machine import (
    available_memory_mb,
    cores,
    memory_of_mb,
    peak_memory_mb,
)
from jam_dagster.benchmark.results import Results

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")


@pytest.mark.slow
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


def test_the_machine_is_told_in_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    processors = tmp_path / "cpuinfo"
    processors.write_text("processor : 0\nmodel name\t: Quick  CPU @ 2GHz\nmodel name : Other\n")
    monkeypatch.setattr(machine, "_PROCESSORS", processors)
    monkeypatch.setattr(machine, "cores", lambda: 3)
    monkeypatch.delitem(sys.modules, "jax", raising=False)

    plain = machine.machine_in_words()
    monkeypatch.setitem(sys.modules, "jax", jax_on("gpu", "NVIDIA H200"))
    on_gpu = machine.machine_in_words()
    monkeypatch.setitem(sys.modules, "jax", jax_on("cpu", "cpu"))
    on_cpu = machine.machine_in_words()
    monkeypatch.setitem(sys.modules, "jax", jax_on("", ""))
    nowhere = machine.machine_in_words()

    version = f"Python {platform.python_version()}"
    assert (
        plain == f"{platform.system()} {platform.machine()}, {version}, Quick CPU @ 2GHz, 3 cores"
    )
    assert on_gpu == f"{plain}, jax 1.2.3 on gpu (NVIDIA H200)"
    assert on_cpu == f"{plain}, jax 1.2.3 on cpu"
    assert nowhere == f"{plain}, jax 1.2.3"


def jax_on(where: str, kind: str) -> ModuleType:
    """Stand in for jax, which another platform than this machine's would need."""
    made = ModuleType("jax")
    found = SimpleNamespace(platform=where, device_kind=kind)

    def devices() -> list[SimpleNamespace]:
        if not where:
            raise RuntimeError("Unable to initialize backend")
        return [found]

    made.__dict__.update(__version__="1.2.3", devices=devices)
    return made


def test_a_container_has_left_what_files_could_give_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, content in (
        ("_LIMIT", f"{50 * 2**20}\n"),
        ("_USED", f"{45 * 2**20}\n"),
        ("_USED_FOR", f"anon {4 * 2**20}\nfile {41 * 2**20}\ninactive_file {30 * 2**20}\n"),
    ):
        monkeypatch.setattr(machine, name, tmp_path / name)
        (tmp_path / name).write_text(content)

    assert available_memory_mb() == 35
    (tmp_path / "_USED_FOR").unlink()
    assert available_memory_mb() == 5
    (tmp_path / "_LIMIT").write_text("max\n")
    left = available_memory_mb()
    assert left is not None
    assert left > 35


@pytest.fixture
def runner(grid_file: Path, tmp_path: Path) -> Runner:
    return Runner(load_grid(grid_file), Results(tmp_path / "rows.parquet"), jobs=4)


AIM, JAM = (
    Planned(Run("small", name, epsilon=1.0, seed=0), name, None, 1.0, True)
    for name in ("aim", "jam_pgm")
)
ROW = {"key": "aim", "mechanism": "aim", "split": "small", "status": "done"}


def under_way(planned: Planned, expected_mb: float) -> running._Running:
    process: Any = SimpleNamespace(pid=os.getpid())
    return running._Running(planned, process, expected_mb)


def test_a_run_waits_for_memory(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    runner.results.add({**ROW, "peak_memory_mb": 3000.0})
    others = [under_way(JAM, memory_of_mb(os.getpid()) + 500.0)]
    left = {"mb": 3400.0}
    monkeypatch.setattr(running, "available_memory_mb", lambda: left["mb"])

    # The one under way may still come to hold 500 MB.
    assert not runner._fits(AIM, others)
    assert runner._fits(JAM, others)
    left["mb"] = 3700.0
    assert runner._fits(AIM, others)
    # One alone is always tried.
    left["mb"] = 1.0
    assert runner._fits(AIM, [])


def test_what_was_killed_runs_alone(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "available_memory_mb", lambda: 1e6)
    killed = "its process was killed by signal 9, usually for lack of memory"
    runner.results.add({**ROW, "status": "failed", "message": killed, "peak_memory_mb": 700.0})

    assert runner._fits(JAM, [under_way(JAM, 1000.0)])
    assert not runner._fits(AIM, [under_way(JAM, 1000.0)])
    assert runner._fits(AIM, [])
    assert not runner._fits(JAM, [under_way(AIM, runner._expected_mb(AIM.run))])
    # Once it is done, it is known what it holds.
    runner.results.add({**ROW, "peak_memory_mb": 900.0})
    assert runner._fits(AIM, [under_way(JAM, 1000.0)])


def test_a_run_that_failed_tells_no_upper_bound(runner: Runner) -> None:
    runner.results.add({**ROW, "status": "failed", "message": "late", "peak_memory_mb": 700.0})

    assert runner._expected_mb(AIM.run) == running.FIRST_GUESS_MB
    runner.results.add({**ROW, "status": "failed", "message": "late", "peak_memory_mb": 1700.0})
    assert runner._expected_mb(AIM.run) == 1700.0
