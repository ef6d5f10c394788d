"""Each command runs the tests that it says."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_command_leaves_out_the_later_tiers_only() -> None:
    text = (ROOT / "Makefile").read_text()
    for name, value in re.findall(r"^(QUICK|ALL) := (.*)$", text, re.M):
        text = text.replace(f"$({name})", value)
    rules = dict(re.findall(r"^([a-z-]+):.*\n((?:\t.*\n)+)", text, re.M))
    assert '-m "not slow and not gate"' in rules["test"]
    assert '-m "not slow and not gate"' in rules["processors-quick"]
    assert '-m "not gate"' in rules["test-all"]
    assert '-m "not gate"' in rules["processors"]
    assert "-m " not in rules["gate"].replace("python -m", "")
    assert "make test-all" in (ROOT / ".ci" / "run").read_text().splitlines()
