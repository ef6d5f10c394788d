"""Results that other processes make. Each test starts one or two, which import little."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from jam_dagster.common import operating_system, worker_processes
from jam_dagster.common.worker_processes import cores, each_result, free_cores
from tests.common.sent_functions import Made, Returns, Unsendable
from tests.tiers import slow


def test_processes_make_results_in_order_and_end() -> None:
    found = list(each_result(Made(os.getpid()), 5, 2))
    assert [int(array[0, 0]) for _, array in found] == [0, 1, 2, 3, 4]
    assert all(array.shape == (2, 3) and array.flags.writeable for _, array in found)
    pids = [pid for pid, _ in found]
    assert len(set(pids)) == 2
    assert pids[::2] == pids[:1] * 3
    assert not any(map(alive, pids))


@pytest.mark.slow
def test_processes_end_where_no_more_results_are_taken() -> None:
    results = each_result(Made(os.getpid()), 1000, 2)
    pid, _ = next(results)
    assert alive(pid)
    results.close()  # type: ignore[attr-defined]
    assert not alive(pid)


def test_what_a_killed_process_would_make_is_made_here() -> None:
    found = list(each_result(Made(os.getpid(), ends=2), 6, 2))
    assert [int(array[0, 0]) for _, array in found] == [0, 1, 2, 3, 4, 5]
    assert [pid == os.getpid() for pid, _ in found] == [False, False, True, False, True, False]


def test_an_error_is_the_function_s_own() -> None:
    results = each_result(Made(os.getpid(), fails=1), 3, 2)
    assert next(results)[0] != os.getpid()
    with pytest.raises(ValueError, match="there is no 1") as raised:
        next(results)
    assert raised.traceback[-1].name == "__call__"


@pytest.mark.parametrize("function", [Unsendable(), *slow(Returns())])
def test_what_cannot_be_packed_is_made_here(function: Any) -> None:
    assert len(list(each_result(function, 3, 2))) == 3


@pytest.mark.parametrize("error", [PermissionError, BlockingIOError, TypeError])
def test_a_process_that_cannot_be_started_is_done_without(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pipes, processes or files may be used up, and the interpreter may have no path."""

    def popen(*arguments: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(subprocess, "Popen", popen)
    found = list(each_result(Made(os.getpid()), 3, 2))
    assert [(pid, int(array[0, 0])) for pid, array in found] == [(os.getpid(), n) for n in range(3)]
    monkeypatch.setattr(os, "pipe", popen)
    assert len(list(each_result(Made(os.getpid()), 3, 2))) == 3


def test_what_a_process_runs_at_its_start_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module of the working directory stands for none, and what is printed is no result."""
    ran = tmp_path / "ran"
    for name in ("sitecustomize.py", "struct.py", "json.py"):
        (tmp_path / name).write_text(f"print('me'); open({str(ran)!r}, 'w').close()")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    pids = [pid for pid, _ in each_result(Made(os.getpid()), 2, 2)]
    assert os.getpid() not in pids
    assert not ran.exists()


@pytest.mark.parametrize("processes", [1, 2])
def test_a_function_that_cannot_be_sent_is_called_here(processes: int) -> None:
    found = each_result(lambda number: (number, os.getpid()), 2, processes)
    assert list(found) == [(0, os.getpid()), (1, os.getpid())]


def test_cores_that_others_use_are_left_to_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(worker_processes, "cores", lambda: 8)
    for load, left in ((0.0, 8), (40.0, 8), (60.0, 5), (64.0, 1), (90.0, 1)):
        monkeypatch.setattr(os, "getloadavg", lambda load=load: (load, 0.0, 0.0))
        assert free_cores() == left


@pytest.mark.parametrize(
    ("files", "allowed"),
    [
        ({"cpu.max": "max 100000"}, 4),
        ({"cpu.max": "250000 100000"}, 2),
        ({"cpu.max": "5000 100000"}, 1),
        ({"cpu.max": "250000 100000", "service/cpu.max": "max 100000"}, 2),
        ({"service/cpu.max": "350000 100000"}, 3),
        ({"cpu/service/cpu.cfs_quota_us": "-1", "cpu/service/cpu.cfs_period_us": "100000"}, 4),
        ({"cpu/service/cpu.cfs_quota_us": "300000", "cpu/service/cpu.cfs_period_us": "100000"}, 3),
    ],
)
def test_cores_are_limited_by_control_groups(
    files: dict[str, str], allowed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: range(4))
    monkeypatch.setattr(operating_system, "_CONTROL", tmp_path)
    (tmp_path / "own").write_text("3:cpu,cpuacct:/service\n0::/service\n")
    monkeypatch.setattr(operating_system, "_GROUPS", tmp_path / "own")
    assert cores() == 4
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert cores() == allowed


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux")
def test_a_process_ends_with_the_one_that_would_take_its_results(tmp_path: Path) -> None:
    starts = (
        "import os, subprocess, sys; "
        "work = 'from time import sleep; import jam_dagster.common.worker_processes as w; '"
        "f'w.end_with_parent({os.getpid()}); sleep(600)'; "
        "print(subprocess.Popen([sys.executable, '-c', work], stdout=2).pid)"
    )
    done = subprocess.run(
        [sys.executable, "-c", starts], capture_output=True, text=True, check=True
    )

    stat = Path(f"/proc/{done.stdout.strip()}/stat")
    due = time.monotonic() + 60
    while stat.exists() and stat.read_text().split()[2] != "Z" and time.monotonic() < due:
        time.sleep(0.1)
    assert time.monotonic() < due
