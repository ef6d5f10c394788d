"""Each command runs the tests that it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

GROUPED = """
import os
import pytest

@pytest.mark.xdist_group("one")
@pytest.mark.parametrize("number", range(8))
def test_grouped(number):
    with open("workers.txt", "a") as file:
        file.write(os.environ["PYTEST_XDIST_WORKER"] + "\\n")
"""


@pytest.mark.slow
def test_one_worker_runs_a_group(tmp_path: Path) -> None:
    """Tests share what takes long to make: some versions of pytest and xdist part them silently."""
    (tmp_path / "test_group.py").write_text(GROUPED)
    command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadgroup"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    workers = (tmp_path / "workers.txt").read_text().split()
    assert len(workers) == 8
    assert len(set(workers)) == 1


def test_every_command_leaves_out_the_later_tiers_only() -> None:
    rules = dict(re.findall(r"^([a-z-]+):.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.M))
    assert '-m "not slow and not gate"' in rules["test"]
    assert '-m "not gate"' in rules["test-all"]
    assert "-m " not in rules["gate"].replace("python -m", "")
    assert "make test-all" in (ROOT / ".ci" / "run").read_text().splitlines()
