"""Each command runs the tests that it says; a list that names a test that is gone is noticed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import tiers
from tests.tiers import TEST, Collected, is_named

ROOT = Path(__file__).parents[1]

LISTS = {
    name: getattr(tiers, name)
    for name in ("DAGSTER_WIRING", "COMMAND_WIRING", "BEYOND_DEFAULTS", "SLOW", "LONG", "FIRST")
}


@pytest.mark.parametrize("name", LISTS)
def test_every_name_of_a_list_is_of_a_test(name: str, collected: Collected) -> None:
    assert [one for one in LISTS[name] if not collected.tiers_of(one)] == []


def test_what_is_listed_as_wiring_is_quick(collected: Collected) -> None:
    for name in tiers.DAGSTER_WIRING | tiers.COMMAND_WIRING:
        assert TEST in collected.tiers_of(name), name


def test_a_name_stands_for_what_is_in_it() -> None:
    test = "tests/folder/test_module.py::test_name[a-b]"
    for name in (
        "tests/",
        "tests/folder/",
        "tests/folder/test_module.py",
        "tests/folder/test_module.py::test_name",
        test,
    ):
        assert is_named(test, {name}), name
    for name in (
        "tests",
        "tests/fold",
        "tests/folder/test_module.py::test_nam",
        "tests/folder/test_module.py::test_name[a]",
    ):
        assert not is_named(test, {name}), name


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
