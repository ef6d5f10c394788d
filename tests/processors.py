"""Run tests once more with the arithmetic of other processors: `make processors` does.

NumPy, OpenBLAS and XLA take the instructions of the processor that they find, and each set of
instructions adds up in another order. Here they are kept from the newer ones, so that a test that
pins the last digits of a sum fails on this machine too. It is no second machine: the compiled
kernels, the C library and what else looks at the processor do as always.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]

FOLDERS = ("battery", "models", "mechanisms", "certificates", "compat")
"""Tests of what follows from sums of floats."""

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")

PROBE = """\
import numpy
from numpy._core._multiarray_umath import __cpu_features__
if __cpu_features__["X86_V3"]:
    raise SystemExit("NumPy still has the instructions of X86_V3.")
x = numpy.random.default_rng(0).normal(size=100_003)
print(repr(float(x @ x)))
"""
"""Fails if NumPy takes newer instructions; else prints a sum of squares in full."""


@dataclass(frozen=True)
class Processor:
    """A processor as the libraries are made to see it."""

    core: str
    threads: int

    def __str__(self) -> str:
        return f"{self.core} with {self.threads} thread{'s'[: self.threads - 1]}"

    def run(self, *arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
        """Run this interpreter there."""
        variables = {
            **dict.fromkeys(THREADS, str(self.threads)),
            "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR",
            "OPENBLAS_CORETYPE": self.core,
            "XLA_FLAGS": "--xla_cpu_max_isa=SSE4_2",
        }
        command = [sys.executable, *arguments]
        return subprocess.run(command, env={**os.environ, **variables}, cwd=ROOT, text=True, **more)


PROCESSORS = (Processor("Nehalem", 1), Processor("Haswell", 2))


def sums() -> dict[str, str]:
    """Return the sum of each core, made with one thread.

    Raises
    ------
    SystemExit
        If NumPy warns or takes newer instructions, or the sums are the same.
    """
    found = {}
    for core in (one.core for one in PROCESSORS):
        asked = ("-W", "error::ImportWarning", "-c", PROBE)
        probe = Processor(core, 1).run(*asked, capture_output=True, check=False)
        if probe.returncode:
            raise SystemExit(f"NumPy does not emulate {core} here: {probe.stderr}")
        found[core] = probe.stdout.strip()
    if len(set(found.values())) < len(found):
        raise SystemExit(f"All cores add up alike, so OPENBLAS_CORETYPE has no effect: {found}")
    return found


def main(options: Sequence[str]) -> None:
    """Run the tests on each processor, with the options of pytest; exit if one fails."""
    for core, found in sums().items():
        print(f"x @ x of 100,003 numbers on {core}: {found}")
    folders = [f"tests/{name}" for name in FOLDERS]
    failed = []
    for processor in PROCESSORS:
        print(f"The tests on {processor}:", flush=True)
        if processor.run("-m", "pytest", *folders, *options, check=False).returncode:
            failed.append(str(processor))
    if failed:
        raise SystemExit(f"Tests failed on {' and '.join(failed)}.")


if __name__ == "__main__":
    main(sys.argv[1:])
