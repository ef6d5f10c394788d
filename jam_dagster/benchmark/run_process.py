"""A run in its own process, so that runs share neither memory nor threads."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from jam_dagster.benchmark.data import SplitFiles
from jam_dagster.benchmark.machine import give_up_first, peak_memory_of_mb
from jam_dagster.benchmark.results import Row
from jam_dagster.benchmark.runs import Run
from jam_dagster.benchmark.worker import AT_WORK, ONE_THREAD, work
from jam_dagster.errors import InputError

LOOK_SECONDS = 0.2
"""The interval between checks of a run's memory and time limit."""

_NAME = "jam_dagster benchmark run"
_KILLED = f"its process was killed by signal {int(signal.SIGKILL)}"
_SCRIPT = (
    "a script that makes runs is read again by each of their processes: put what calls run_grid "
    'below `if __name__ == "__main__":`'
)


class RunProcess:
    """A run in its own process, with one thread.

    Parameters
    ----------
    run
        The run.
    files
        The files of its split.
    data
        The folder of published tables.
    """

    def __init__(self, run: Run, files: SplitFiles, data: Path | None) -> None:
        # A fork of a process with threads may hang, and would keep the libraries' thread pools.
        context = multiprocessing.get_context("spawn")
        self.receiver, sender = context.Pipe(duplex=False)
        folder = None if data is None else str(data)
        self.process = context.Process(
            target=work,
            name=_NAME,
            args=(run.to_dict(), files.to_dict(), folder, sender),
            daemon=True,
        )
        with _environment(ONE_THREAD), _interrupts_held():
            self.process.start()
        # Only the child holds this end now, so its exit closes the pipe.
        sender.close()
        self.started = time.monotonic()
        # If memory runs out, this process can be repeated.
        give_up_first(self.pid)
        self._at_work = self._over = False
        self._row: Row | None = None
        self._peak_mb = 0.0

    @property
    def pid(self) -> int:
        """Id of the process."""
        return self.process.pid or 0

    def over(self) -> bool:
        """Return whether the process has sent its row or has ended without one."""
        self._peak_mb = max(self._peak_mb, peak_memory_of_mb(self.pid))
        try:
            while not self._over and self.receiver.poll():
                message = self.receiver.recv()
                if message == AT_WORK:
                    self._at_work = True
                else:
                    self._row, self._over = message, True
        except (EOFError, OSError):
            self._over = True
        return self._over

    def late(self, limit_s: float | None) -> bool:
        """Return whether a number of seconds has passed since the start; None: never."""
        return limit_s is not None and time.monotonic() - self.started >= limit_s

    def row(self, about: Callable[[], Row], limit_s: float | None = None) -> Row:
        """Wait for the row, or return a row with the cause of the failure.

        Parameters
        ----------
        about
            Returns the known part of the row if the process sent none.
        limit_s
            Time limit in seconds since the start. None: no limit.

        Raises
        ------
        InputError
            If the process ended before the run began, which is not a failure of the run.
        """
        while not self.over() and not self.late(limit_s):
            wait([self.receiver], LOOK_SECONDS)
        seconds = time.monotonic() - self.started
        late = not self._over
        if late:
            self.process.kill()
        self.process.join()
        self.receiver.close()
        if self._row is not None:
            return self._row
        code = self.process.exitcode or 0
        if not late and not self._at_work and code >= 0:
            raise InputError(
                f"The process of a run ended with status {code} before the run began; its output "
                f"is above. If a script started it: {_SCRIPT}."
            )
        return {
            **about(),
            "status": "failed",
            "message": f"it took more than {limit_s:g} s" if late else _how(code),
            "seconds": seconds,
            # The memory at the last check, which may be below the peak.
            "peak_memory_mb": self._peak_mb or None,
        }

    def end(self) -> None:
        """End the run and remove its process."""
        self.process.kill()
        self.process.join()
        self.receiver.close()


def was_killed(row: Row) -> bool:
    """Return whether the process of a row's run was killed, usually for lack of memory."""
    return row["status"] == "failed" and (row.get("message") or "").startswith(_KILLED)


def check_no_worker() -> None:
    """Raise if this process is itself the process of a run.

    Raises
    ------
    InputError
        If it is: it has imported a script without a guard again.
    """
    # The process's name is set before the script is imported again; its parent is not.
    if multiprocessing.current_process().name == _NAME:
        raise InputError(f"This is the process of a run, which makes none: {_SCRIPT}.")


def _how(code: int) -> str:
    """Return how a process without a row ended."""
    if code == -signal.SIGKILL:
        return f"{_KILLED}, usually for lack of memory"
    if code < 0:
        return f"its process was ended by signal {-code}"
    return f"its process ended with status {code} and no result; its output is above"


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Block interrupts for a process started here; an interrupt meanwhile is delivered later.

    An interrupt from the keyboard goes to all processes of a terminal, but the benchmark itself
    ends its runs.
    """
    # The resource tracker, which the first process starts, would otherwise unblock interrupts.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables that a process started here inherits."""
    before: dict[str, Any] = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
