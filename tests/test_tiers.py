"""Each command runs the tests that it says."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_command_leaves_out_the_later_tiers_only() -> None:
    rules = dict(re.findall(r"^([a-z-]+):.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.M))
    assert '-m "not slow and not gate"' in rules["test"]
    assert '-m "not gate"' in rules["test-all"]
    assert "-m " not in rules["gate"].replace("python -m", "")
    assert "make test-all" in (ROOT / ".ci" / "run").read_text().splitlines()
