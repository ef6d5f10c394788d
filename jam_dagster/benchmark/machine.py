"""The machine's description, the memory of processes, and free memory."""

from __future__ import annotations

import os
import platform
import resource
import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType

_PROCESSORS = Path("/proc/cpuinfo")
_STATUS = Path("/proc/self/status")
_MEMORY = Path("/proc/meminfo")
_LIMIT = Path("/sys/fs/cgroup/memory.max")
_USED = Path("/sys/fs/cgroup/memory.current")
_USED_FOR = Path("/sys/fs/cgroup/memory.stat")


def machine_in_words() -> str:
    """Return the machine's description: system, Python, processor, cores, and jax if used."""
    words = [
        f"{platform.system()} {platform.machine()}",
        f"Python {platform.python_version()}",
        processor(),
        "1 core" if cores() == 1 else f"{cores()} cores",
    ]
    if (jax := sys.modules.get("jax")) is not None:
        words.append(_jax_in_words(jax))
    return ", ".join(word for word in words if word)


def processor() -> str:
    """Return the model of the processor; empty if it is unknown."""
    if _PROCESSORS.exists():
        for line in _PROCESSORS.read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return " ".join(value.split())
    return platform.processor()


def _jax_in_words(jax: ModuleType) -> str:
    words = f"jax {jax.__version__}"
    try:
        device = jax.devices()[0]
    except RuntimeError:
        # The requested platform is not available.
        return words
    kind = f" ({device.device_kind})" if device.device_kind != device.platform else ""
    return f"{words} on {device.platform}{kind}"


def peak_memory_mb() -> float:
    """Return the peak memory of this process, in 2^20 bytes.

    On Linux it is read from the process's own status: `getrusage` includes the memory of the
    parent process at the start.
    """
    if _STATUS.exists():
        return _kilobytes(_STATUS, "VmHWM") / 2**10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Linux counts in kilobytes, macOS in bytes.
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def memory_of_mb(pid: int) -> float:
    """Return the current memory of another process, in 2^20 bytes; 0 if unknown."""
    return _held_mb(pid, "VmRSS")


def peak_memory_of_mb(pid: int) -> float:
    """Return the peak memory of another process, in 2^20 bytes; 0 if unknown."""
    return _held_mb(pid, "VmHWM")


def _held_mb(pid: int, name: str) -> float:
    try:
        return _kilobytes(Path(f"/proc/{pid}/status"), name) / 2**10
    except (OSError, StopIteration):
        return 0.0


def give_up_first(pid: int) -> None:
    """Ask the system to end this process first if memory runs out, where that is supported."""
    with suppress(OSError):
        Path(f"/proc/{pid}/oom_score_adj").write_text("1000")


def available_memory_mb() -> float | None:
    """Return the free memory of the machine or the container, in 2^20 bytes; None if unknown."""
    if not _MEMORY.exists():
        return None
    left = _kilobytes(_MEMORY, "MemAvailable") / 2**10
    if _LIMIT.exists() and (limit := _LIMIT.read_text().strip()) != "max":
        # The cache of inactive files counts as free.
        used = int(_USED.read_text()) - _idle_file_bytes()
        left = min(left, (int(limit) - used) / 2**20)
    return left


def _idle_file_bytes() -> int:
    if not _USED_FOR.exists():
        return 0
    counters = dict(line.split() for line in _USED_FOR.read_text().splitlines())
    return int(counters.get("inactive_file", 0))


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _kilobytes(path: Path, name: str) -> float:
    lines = path.read_text().splitlines()
    return float(next(line for line in lines if line.startswith(f"{name}:")).split()[1])
