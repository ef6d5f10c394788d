"""The benchmark of the ledger's draws, on few of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.ledger_draws import main
from jam_dagster.privacy import Kind, Ledger


def test_the_command_prints_a_line_a_mark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "ledger.db"
    assert main(["--draws", "6", "3", "--ledger", str(path)]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("     3 draws: ")
    assert first.endswith(" 1.00 times the first")
    assert second.startswith("     6 draws: ")
    kinds = [event.kind for event in Ledger(path).events()]
    assert (kinds.count(Kind.CHARGED), kinds.count(Kind.STORED)) == (6, 6)
