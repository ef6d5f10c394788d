"""Results of a function that processes of this package's own make: `each_result`.

`multiprocessing` is no choice: "spawn" and "forkserver" run a user's script again, and "fork" is
unsafe together with the threads of Arrow and Dagster.
"""

from __future__ import annotations

import os
import pickle
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, suppress
from typing import IO, Any, TypeVar

import numpy as np

from jam_dagster.common.operating_system import control_groups, widen_pipe

T = TypeVar("T")

ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NPROC"), "1"
)
"""Environment of one of several like processes."""

_LENGTH = struct.Struct("<Q")
_PIPE_BYTES = 2**20


def cores() -> int:
    """Return how many cores this process may use, by affinity and control groups."""
    if hasattr(os, "sched_getaffinity"):
        allowed = len(os.sched_getaffinity(0))
    else:
        allowed = os.cpu_count() or 1
    for group in control_groups("cpu"):
        # The second version has one file, the first two; there -1 says that it has no limit.
        for files in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
            with suppress(OSError, ValueError):
                text = " ".join((group / one).read_text() for one in files)
                quota, period = map(int, text.split())
                allowed = min(allowed, max(1, quota // period)) if quota > 0 else allowed
    return allowed


def free_cores() -> int:
    """Return how many cores this process may use and others leave it, with the one it is on.

    On a busy machine more processes would take longer than one. A worker is handed a pipe, which
    Windows cannot do: it has no load to read either, and is given one process.
    """
    if not hasattr(os, "getloadavg"):
        return 1
    idle = (os.cpu_count() or 1) - os.getloadavg()[0]
    return min(cores(), max(0, round(idle)) + 1)


def isolated(code: str) -> list[str]:
    """Return the command that runs code in a process of this interpreter; start it elsewhere.

    The working directory may be a stranger's folder, whose files are not to be run. So the process
    is isolated (``-I``), starts in `sys.prefix`, and looks for modules where this one does, except
    at places that depend on the working directory.
    """
    places = [place for place in sys.path if os.path.isabs(place)]
    return [sys.executable, "-I", "-c", f"import sys; sys.path[:] = {places!r}; {code}"]


def end_with_parent(parent: int) -> None:
    """Have this process end when its parent, which would take what it makes, is gone."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def each_result(
    function: Callable[[int], T], number: int, processes: int
) -> Generator[T, None, None]:
    """Yield the results for 0, 1, ..., `number` - 1 in order, made by so many processes.

    A process has at most one result that was not taken. A result that no process can make, because
    it was killed, the function cannot be sent, or it raises an error, is made in this process: so
    errors are the function's own, and less memory suffices.
    """
    packed = _packed(function) if processes > 1 else None
    if packed is None:
        yield from map(function, range(number))
        return
    with ExitStack() as stack:
        workers = [stack.enter_context(_Worker()) for _ in range(processes)]
        for first, worker in enumerate(workers):
            worker.ask(packed, range(first, number, processes))
        for one in range(number):
            found = workers[one % processes].result()
            yield function(one) if found is None else found[0]


class _Worker:
    """A process that makes results; lost once it cannot be started, or ended early."""

    def __init__(self) -> None:
        self._answers: IO[bytes] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        # No process, no file or no interpreter may be left to start one.
        with suppress(OSError, TypeError, ValueError):
            self._start()

    def _start(self) -> None:
        # Results have a pipe of their own: what libraries print is no part of them.
        here, there = os.pipe()
        self._answers = os.fdopen(here, "rb")
        try:
            self._process = subprocess.Popen(  # noqa: S603  # this interpreter, on this package
                isolated(f"from {__name__} import work; work({os.getpid()}, {there})"),
                cwd=sys.prefix,
                stdin=subprocess.PIPE,
                # The parent makes again what fails here, and raises its error.
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, **ONE_THREAD},
                pass_fds=[there],
                # An interrupt from the keyboard reaches the parent alone, which ends its workers.
                process_group=0,
            )
        finally:
            os.close(there)
        widen_pipe(here, _PIPE_BYTES)

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, *_: object) -> None:
        if self._answers is not None:
            self._answers.close()
        if self._process is not None:
            self._process.kill()
            # Closing sends what is buffered, to a process that is gone.
            with suppress(OSError):
                self._process.stdin.close()  # type: ignore[union-attr]
            self._process.wait()

    def ask(self, packed: list[Any], numbers: range) -> None:
        with suppress(OSError):
            if self._process is not None:
                _write(self._process.stdin, packed)
                _write(self._process.stdin, _packed(numbers) or [])

    def result(self) -> tuple[Any] | None:
        """Return the next result, in a tuple; None if there will not be any."""
        if self._process is not None:
            try:
                return (_read(self._answers),)
            except Exception:
                self._process.kill()
                self._process.wait()
                self._process = None
        return None


def _packed(value: object) -> list[Any] | None:
    """Return a value's parts, its arrays uncopied; None if it cannot be sent."""
    arrays: list[Any] = []
    try:
        head = pickle.dumps(value, protocol=5, buffer_callback=lambda one: arrays.append(one.raw()))
    except Exception:
        # An object that cannot be sent may raise anything.
        return None
    return [head, *arrays]


def _write(file: Any, parts: list[Any]) -> None:
    file.write(_LENGTH.pack(len(parts)))
    for part in parts:
        file.write(_LENGTH.pack(len(part)))
        file.write(part)
    file.flush()


def _read(file: Any) -> Any:
    (number,) = _LENGTH.unpack(_filled(file, _LENGTH.size))
    head, *arrays = (
        _filled(file, *_LENGTH.unpack(_filled(file, _LENGTH.size))) for _ in range(number)
    )
    return pickle.loads(head, buffers=arrays)  # noqa: S301  # of a process of this package


def _filled(file: IO[bytes], size: int) -> memoryview:
    # Not a bytearray, which would be filled with zeros first.
    held = np.empty(size, np.uint8).data
    if file.readinto(held) < size:  # type: ignore[attr-defined]
        raise EOFError
    return held


def work(parent: int, answers: int) -> None:
    """Make the results that a parent asks for on standard input."""
    end_with_parent(parent)
    with os.fdopen(answers, "wb") as file:
        try:
            function, numbers = _read(sys.stdin.buffer), _read(sys.stdin.buffer)
            for number in numbers:
                packed = _packed(function(number))
                if packed is None:
                    raise TypeError("the result cannot be sent")
                _write(file, packed)
        except Exception:
            # The parent makes it again, and raises the error.
            os._exit(1)
