"""One run in a process of its own, so that no run holds another's memory or threads."""

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
"""How often runs are looked at: for what they hold, and whether their time is over."""

_NAME = "jam_dagster benchmark run"
_KILLED = f"its process was killed by signal {int(signal.SIGKILL)}"
_SCRIPT = (
    "a script that makes runs is read again by each of their processes: put what calls run_grid "
    'below `if __name__ == "__main__":`'
)


class RunProcess:
    """A run in a process of its own, with one thread.

    Parameters
    ----------
    run
        What it makes.
    files
        Where its split is found.
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
        # Only the process holds it now, so its end is seen here.
        sender.close()
        self.started = time.monotonic()
        # Of both processes, the one that can be made again.
        give_up_first(self.pid)
        self._at_work = self._over = False
        self._told: Row | None = None
        self._peak_mb = 0.0

    @property
    def pid(self) -> int:
        """Of the process."""
        return self.process.pid or 0

    def over(self) -> bool:
        """Look at the process: whether it has told its row, or can tell none any more."""
        self._peak_mb = max(self._peak_mb, peak_memory_of_mb(self.pid))
        try:
            while not self._over and self.receiver.poll():
                told = self.receiver.recv()
                if told == AT_WORK:
                    self._at_work = True
                else:
                    self._told, self._over = told, True
        except (EOFError, OSError):
            self._over = True
        return self._over

    def late(self, limit_s: float | None) -> bool:
        """Whether so many seconds have passed since the start; None: never."""
        return limit_s is not None and time.monotonic() - self.started >= limit_s

    def row(self, about: Callable[[], Row], limit_s: float | None = None) -> Row:
        """Wait for the row, or return one that says how the run failed.

        Parameters
        ----------
        about
            Returns what is known of the row where the process told nothing.
        limit_s
            Seconds since the start after which the process is ended. None: never.

        Raises
        ------
        InputError
            If the process ended before it came to the run, which says nothing of the run.
        """
        while not self.over() and not self.late(limit_s):
            wait([self.receiver], LOOK_SECONDS)
        seconds = time.monotonic() - self.started
        late = not self._over
        if late:
            self.process.kill()
        self.process.join()
        self.receiver.close()
        if self._told is not None:
            return self._told
        code = self.process.exitcode or 0
        if not late and not self._at_work and code >= 0:
            raise InputError(
                f"The process of a run ended with status {code} before it came to the run; what "
                f"it said is above. Where that is a script's: {_SCRIPT}."
            )
        return {
            **about(),
            "status": "failed",
            "message": f"it took more than {limit_s:g} s" if late else _how(code),
            "seconds": seconds,
            # What it held when it was last looked at, which may be less than it came to.
            "peak_memory_mb": self._peak_mb or None,
        }

    def end(self) -> None:
        """End the run; nothing is left of it."""
        self.process.kill()
        self.process.join()
        self.receiver.close()


def was_killed(row: Row) -> bool:
    """Whether a row is of a run whose process was killed, as the system does for want of memory."""
    return row["status"] == "failed" and (row.get("message") or "").startswith(_KILLED)


def check_no_worker() -> None:
    """Refuse to make runs in the process of a run.

    Raises
    ------
    InputError
        If this is one: a script without a guard was read again by it.
    """
    # The name is there before the script is read again, the parent is not.
    if multiprocessing.current_process().name == _NAME:
        raise InputError(f"This is the process of a run, which makes none: {_SCRIPT}.")


def _how(code: int) -> str:
    """Return how a process ended that told no row."""
    if code == -signal.SIGKILL:
        return f"{_KILLED}, for which want of memory is the usual reason"
    if code < 0:
        return f"its process was ended by signal {-code}"
    return f"its process ended with status {code} and no result; what it said is above"


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Let no interrupt reach a process started here; one that comes meanwhile is not lost.

    A key that interrupts goes to all processes of a terminal; the benchmark ends its runs.
    """
    # Its own start, which that of a first process brings about, would let interrupts through.
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
