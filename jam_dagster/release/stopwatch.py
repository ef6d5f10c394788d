"""Seconds of a run by stage, and its memory."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

_STATUS = Path("/proc/self/status")


@dataclass
class Stopwatch:
    """The wall-clock time of named stages."""

    on_stage: Callable[[str], None]
    seconds: dict[str, float] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time one stage; a name that comes again adds up."""
        self.on_stage(name)
        begun = time.monotonic()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - begun

    def add_parts(self, stage: str, seconds: Mapping[str, float]) -> None:
        """Note what the parts of a stage took."""
        self.seconds |= {f"{stage}.{part}": taken for part, taken in seconds.items()}

    def total(self) -> dict[str, float]:
        """Return the time since the start, of every stage and of the parts of stages."""
        return {"total": time.monotonic() - self.started, **self.seconds}


def peak_memory_mb() -> float:
    """Return the peak memory of this process, in 2^20 bytes.

    On Linux it is read from the process's own status: `getrusage` includes the memory of the
    parent process at the start.
    """
    if _STATUS.exists():
        lines = _STATUS.read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) / 2**10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Linux counts in kilobytes, macOS in bytes.
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10
