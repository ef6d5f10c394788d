"""The same inputs and seed give the same release in another process, whatever its surroundings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tests.battery.mechanisms import Case, every_mechanism

ROOT = Path(__file__).parents[2]
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def told(case: Case, **environment: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.battery.fingerprint", case.name],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@every_mechanism
def test_hash_seeds_and_threads_change_nothing(case: Case) -> None:
    first = told(case, PYTHONHASHSEED="0", **dict.fromkeys(THREADS, "1"))
    for seed, threads in (("1", "2"), ("77", "4")):
        assert told(case, PYTHONHASHSEED=seed, **dict.fromkeys(THREADS, threads)) == first


@every_mechanism
def test_kernels_change_nothing_but_the_last_digits(case: Case) -> None:
    compiled, numpy = told(case), told(case, JAM_KERNELS="numpy")
    for same in ("choices", "charges", "measured"):
        assert compiled[same] == numpy[same]
    for one, other in zip(compiled["marginals"], numpy["marginals"], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)


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
