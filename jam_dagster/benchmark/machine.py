"""The machine's description, and the memory of this process."""

from __future__ import annotations

import platform
import resource
import sys
from pathlib import Path
from types import ModuleType

from jam_dagster.common.worker_processes import cores

_PROCESSORS = Path("/proc/cpuinfo")
_STATUS = Path("/proc/self/status")


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
        lines = _STATUS.read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) / 2**10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Linux counts in kilobytes, macOS in bytes.
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10
