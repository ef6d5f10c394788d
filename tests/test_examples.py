"""What a newcomer runs is the same every time; the gate looks further, and says what to keep."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

from tests.examples import FEW, GATE, PER_TEST, QUICK

ROOT = Path(__file__).parents[1]

PROPERTY = """
from pathlib import Path
from hypothesis import given, strategies as st
from tests.examples import examples

@examples(5)
@given(st.integers(0, 2**40))
def test_of_numbers(number):
    with Path("drawn").open("a") as drawn:
        drawn.write(f"{number}\\n")
    assert number != WRONG
"""


def run(folder: Path, *options: str, wrong: str = "None") -> tuple[list[str], str]:
    """Run a property in a folder of its own; return what it drew, and what pytest said."""
    (folder / "drawn").write_text("")
    (folder / "test_property.py").write_text(PROPERTY.replace("WRONG", wrong))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.conftest", "test_property.py", *options],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return (folder / "drawn").read_text().split(), done.stdout + done.stderr


@pytest.mark.parametrize("name", [FEW, QUICK])
def test_the_quick_profiles_repeat_themselves_and_wait(name: str) -> None:
    quick = settings.get_profile(name)
    assert quick.derandomize
    assert quick.database is None
    assert quick.deadline is None


def test_the_gate_is_random_longer_and_prints_how_to_repeat_a_failure() -> None:
    gate = settings.get_profile(GATE)
    assert not gate.derandomize
    assert gate.deadline is None
    assert gate.print_blob
    assert gate.max_examples >= 20 * PER_TEST


def test_make_tells_the_two_apart() -> None:
    rules = dict(re.findall(r"^([a-z-]+):.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.M))
    assert f"--hypothesis-profile={GATE}" in rules["gate"]
    assert "torture mutants" in rules["gate"]
    assert f"--hypothesis-profile={FEW}" in rules["test"]
    assert "hypothesis" not in rules["test-all"]


def test_properties_take_their_settings_from_the_profile() -> None:
    """Settings of a test's own would not grow in the gate, or be random in `make test`."""
    own = re.compile(r"max_examples\s*=|derandomize\s*=|deadline\s*=|database\s*=\s*None")
    beside = (Path(__file__), ROOT / "tests" / "examples.py")
    for path in (ROOT / "tests").rglob("*.py"):
        text = path.read_text()
        if path not in beside and "from hypothesis import" in text:
            assert not own.search(text), path


@pytest.mark.slow
def test_the_profiles_hold_where_tests_run_and_a_failure_says_how_it_is_kept(
    tmp_path: Path,
) -> None:
    few, said = run(tmp_path)
    assert len(few) <= 5
    assert "how to keep what was found" not in said
    many, said = run(tmp_path, f"--hypothesis-profile={GATE}", wrong="number")
    assert "@reproduce_failure(" in said
    assert "how to keep what was found" in said
    assert "@example(" in said
    assert many[: len(few)] != few
