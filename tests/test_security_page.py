"""SECURITY.md names the tests of each promise; one that moved must not leave a promise without."""

from __future__ import annotations

import re
from pathlib import Path

from tests.tiers import Collected

ROOT = Path(__file__).parents[1]

# A state machine of Hypothesis is a test by assignment.
_TEST = re.compile(r"^\s*def test_|^Test\w+ = ", re.M)

# A test as a promise cites it, and in brackets the commands that run tests of it first.
_CITED = re.compile(r"`(tests/[^`]+)`(?: \(([^)]*)\))?")


def promises() -> list[str]:
    """Return the lines of tables that name tests."""
    lines = (ROOT / "SECURITY.md").read_text().splitlines()
    return [line for line in lines if line.startswith("| ") and "`tests/" in line]


def promised() -> list[tuple[str, list[str]]]:
    """Return each line of what is promised, with the tests that it cites."""
    _, _, after = (ROOT / "SECURITY.md").read_text().partition("## What is promised")
    return [
        (line, [test for test, _ in _CITED.findall(line)]) for line in promises() if line in after
    ]


def test_every_promise_names_tests_that_are_there() -> None:
    assert len(promises()) > 10
    for line in promises():
        for named, _ in _CITED.findall(line):
            path = ROOT / named
            tests = path.rglob("test_*.py") if path.is_dir() else [path]
            assert any(_TEST.search(one.read_text()) for one in tests if one.exists()), named


def test_every_test_is_cited_with_the_commands_that_run_it(collected: Collected) -> None:
    wrong = {}
    for line in promises():
        for named, said in _CITED.findall(line):
            right = ", ".join(collected.tiers_of(named))
            if said != right:
                wrong[named] = right
    assert wrong == {}, "SECURITY.md says another tier than the tests have"
