"""Executors hold memory apart from the driver, and one of them is killed when asked."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

from benchmarks.census_spark import EXECUTOR, Watch

MB = 2**20


def holding(megabytes: int, *arguments: str) -> subprocess.Popen[bytes]:
    code = f"held = b'x' * ({megabytes} * 2**20); print(flush=True); import time; time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def test_each_process_is_an_executors_or_the_drivers() -> None:
    watch = Watch()
    with holding(40) as gateway, holding(60, EXECUTOR) as executor:
        with watch.watching():
            time.sleep(0.6)
        assert watch.executors == {executor.pid}
        assert watch.driver > 40 * MB
        assert 60 * MB < watch.executor < 60 * MB + watch.driver
        assert watch.peak == watch.driver + watch.executor
        assert set(watch.cpu) == {executor.pid}
        assert executor.poll() is None
        for one in (gateway, executor):
            one.kill()


def test_an_executor_is_killed_in_time() -> None:
    watch = Watch(killing=0.3)
    with holding(1, EXECUTOR) as executor, watch.watching():
        assert executor.wait(30) == -signal.SIGKILL
    assert watch.killed == executor.pid
