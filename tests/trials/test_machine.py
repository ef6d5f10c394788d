"""What the machine is, and what a process holds."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from jam_dagster.common.operating_system import peak_memory_mb
from jam_dagster.trials import trial

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")


@pytest.mark.slow
def test_the_peak_is_of_the_process_itself() -> None:
    # getrusage would tell what the process that starts it holds.
    held = bytearray(300 * 2**20)
    code = "from jam_dagster.common.operating_system import peak_memory_mb; print(peak_memory_mb())"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert peak_memory_mb() > 300
    assert 10 < float(done.stdout) < 290
    assert len(held)


def test_the_machine_is_told_in_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    processors = tmp_path / "cpuinfo"
    processors.write_text("processor : 0\nmodel name\t: Quick  CPU @ 2GHz\nmodel name : Other\n")
    monkeypatch.setattr(trial, "_PROCESSORS", processors)
    monkeypatch.setattr(trial, "cores", lambda: 3)
    monkeypatch.delitem(sys.modules, "jax", raising=False)

    plain = trial.machine_in_words()
    monkeypatch.setitem(sys.modules, "jax", jax_on("gpu", "NVIDIA H200"))
    on_gpu = trial.machine_in_words()
    monkeypatch.setitem(sys.modules, "jax", jax_on("cpu", "cpu"))
    on_cpu = trial.machine_in_words()
    monkeypatch.setitem(sys.modules, "jax", jax_on("", ""))
    nowhere = trial.machine_in_words()

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
