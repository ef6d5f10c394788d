"""SECURITY.md names the test of each promise; a test that moved must not leave one without."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]

# A state machine of Hypothesis is a test by assignment.
_TEST = re.compile(r"^\s*def test_|^Test\w+ = ", re.M)


def test_every_promise_names_tests_that_are_there() -> None:
    text = (ROOT / "SECURITY.md").read_text()
    promises = [line for line in text.splitlines() if line.startswith("| ") and "`tests/" in line]
    assert len(promises) > 10
    for line in promises:
        for named in re.findall(r"`(tests/[^`]+)`", line):
            path = ROOT / named
            tests = path.rglob("test_*.py") if path.is_dir() else [path]
            assert any(_TEST.search(one.read_text()) for one in tests if one.exists()), named
