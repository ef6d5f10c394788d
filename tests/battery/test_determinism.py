"""The same inputs and seed give the same release in another process, whatever its surroundings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.battery.mechanisms import QUICK_CASES, SLOW_CASES
from tests.processors import THREADS
from tests.tiers import gate

ROOT = Path(__file__).parents[2]


# A process that starts takes longer than most of the runs, so they share one.
QUICK = tuple(case.name for case in QUICK_CASES)
SLOW = tuple(case.name for case in SLOW_CASES)
GRAPHICAL = ("jam_pgm", "aim", "mst", "tilt")


# Both tests look at the run of the quick cases as they are installed.
@cache
def fingerprints(names: tuple[str, ...], seed: int, threads: int, kernels: str) -> dict[str, Any]:
    """Return by name what runs in a process of its own, in these surroundings, give."""
    surroundings = {**dict.fromkeys(THREADS, str(threads)), "PYTHONHASHSEED": str(seed)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.battery.fingerprint", *names],
        cwd=ROOT,
        env={**os.environ, **surroundings, "JAM_KERNELS": kernels},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert set(found) == set(names)
    return found


@pytest.mark.slow
@pytest.mark.xdist_group("fingerprints")
@pytest.mark.parametrize("names", [QUICK, *gate(SLOW)], ids=["quick", "slow"])
def test_hash_seeds_and_threads_change_nothing(names: tuple[str, ...]) -> None:
    first, other = fingerprints(names, 0, 1, "compiled"), fingerprints(names, 77, 4, "compiled")
    for name in names:
        assert other[name] == first[name], name


@pytest.mark.slow
@pytest.mark.xdist_group("fingerprints")
def test_kernels_change_nothing_but_the_last_digits() -> None:
    compiled = fingerprints(QUICK, 0, 1, "compiled")
    numpy = fingerprints(GRAPHICAL, 0, 1, "numpy")
    for name in GRAPHICAL:
        for same in ("choices", "charges", "measured"):
            assert compiled[name][same] == numpy[name][same], name
        for one, other in zip(compiled[name]["marginals"], numpy[name]["marginals"], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6, err_msg=name)


@pytest.mark.slow
def test_what_is_set_is_what_libraries_read() -> None:
    """The thread counts above reach the libraries: a run at other counts would prove nothing."""
    script = (
        "import numpy; from threadpoolctl import threadpool_info;"
        "print([pool['num_threads'] for pool in threadpool_info()])"
    )
    counts = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, **dict.fromkeys(THREADS, threads)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for threads in ("1", "2")
    }
    assert len(counts) == 2
