"""Results of a function that processes of this package's own make: `each_result`.

`multiprocessing` is no choice: "spawn" and "forkserver" run a user's script again, and "fork" is
unsafe beside the threads of Arrow and Dagster.
"""

from __future__ import annotations

import os
import pickle
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np

T = TypeVar("T")

ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NPROC"), "1"
)
"""Environment of a process beside others like it."""

# -P: no module of the working directory is run.
_COMMAND = (sys.executable, "-P", "-m", "jam_dagster.common.worker_processes")
_LENGTH = struct.Struct("<Q")
_PIPE_BYTES = 2**20
_MEMORY = Path("/proc/meminfo")
_CONTROL = Path("/sys/fs/cgroup")
# The second version's files, and the first's.
_GROUPS = (
    (_CONTROL / "memory.max", _CONTROL / "memory.current"),
    (_CONTROL / "memory/memory.limit_in_bytes", _CONTROL / "memory/memory.usage_in_bytes"),
)


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def free_cores() -> int:
    """Return how many cores this process may use and others leave it, with the one it is on.

    On a busy machine more processes would take longer than one.
    """
    idle = (os.cpu_count() or 1) - os.getloadavg()[0]
    return min(cores(), max(0, round(idle)) + 1)


def free_memory() -> int:
    """Return how many bytes this process may still take, by system and control group."""
    system = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if _MEMORY.exists():
        lines = dict(line.split(":") for line in _MEMORY.read_text().splitlines())
        system = int(lines["MemAvailable"].split()[0]) * 2**10
    limits = [system]
    for most, used in _GROUPS:
        try:
            limits.append(int(most.read_text()) - int(used.read_text()))
        except (OSError, ValueError):
            continue
    return max(0, min(limits))


def end_with_parent(parent: int) -> None:
    """Have this process end when its parent, which would take what it makes, is gone."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def each_result(function: Callable[[int], T], number: int, processes: int) -> Iterator[T]:
    """Yield the results for 0, 1, ..., `number` - 1 in order, made by so many processes.

    A process has at most one result that was not taken. What no process can make, because it was
    killed, the function cannot be sent, or it raises an error, is made here: so errors are the
    function's own, and less memory suffices.
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
    """A process that makes results; lost once it ended early."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(  # noqa: S603  # this interpreter, on this package
            [*_COMMAND, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={
                **os.environ,
                **ONE_THREAD,
                "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path)),
            },
            pipesize=_PIPE_BYTES,
            # An interrupt from the keyboard reaches the parent alone, which ends its workers.
            process_group=0,
        )
        self._lost = False

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            # What was not sent is sent now, to nobody.
            with suppress(OSError):
                pipe.close()  # type: ignore[union-attr]
        self._process.wait()

    def ask(self, packed: list[Any], numbers: range) -> None:
        try:
            _write(self._process.stdin, packed)
            _write(self._process.stdin, _packed(numbers) or [])
        except OSError:
            self._lost = True

    def result(self) -> tuple[Any] | None:
        """Return the next result, in a tuple; None if there will be none."""
        if not self._lost:
            try:
                return (_read(self._process.stdout),)
            except (EOFError, OSError):
                self._lost = True
        return None


def _packed(value: object) -> list[Any] | None:
    """Return a value's parts, its arrays uncopied; None if it cannot be sent."""
    arrays: list[Any] = []
    try:
        head = pickle.dumps(value, protocol=5, buffer_callback=lambda one: arrays.append(one.raw()))
    except (pickle.PicklingError, AttributeError, TypeError):
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


def _work(parent: int) -> None:
    end_with_parent(parent)
    with os.fdopen(os.dup(1), "wb") as answer:
        # What libraries print is no part of the answer.
        os.dup2(2, 1)
        try:
            function, numbers = _read(sys.stdin.buffer), _read(sys.stdin.buffer)
            for number in numbers:
                _write(answer, _packed(function(number)) or [])
        except Exception:
            # The parent takes the number again, and meets the error there.
            os._exit(1)


if __name__ == "__main__":
    _work(int(sys.argv[1]))
