"""The process of a run: how it ends, and what is left of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jam_dagster.errors import InputError
from jam_dagster.trials import run_process
from jam_dagster.trials.run_process import RunProcess
from jam_dagster.trials.runs import Run
from jam_dagster.trials.splits import SplitFiles

BEGUN = "import os, sys; print('begun', flush=True); "
KILLED = "import os; os.kill(os.getpid(), 9)"
CRASHED = BEGUN + "os.kill(os.getpid(), 11)"
ENDED = BEGUN + "sys.exit(3)"


@pytest.fixture
def row_of(data: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Return the row of a process that does something else than a run."""

    def row(code: str, limit_s: float | None = None) -> dict[str, Any]:
        monkeypatch.setattr(run_process, "_COMMAND", (sys.executable, "-c", code))
        run, files = Run("small", "aim", epsilon=1.0, seed=0), SplitFiles("small")
        return RunProcess(run, files, files.load(data), data, limit_s).row()

    return row


def test_how_a_process_ended_is_told(row_of: Callable[..., dict[str, Any]]) -> None:
    killed, crashed, ended = map(row_of, (KILLED, CRASHED, ENDED))

    assert {one["status"] for one in (killed, crashed, ended)} == {"failed"}
    assert "killed by signal 9" in killed["message"]
    assert crashed["message"] == "its process was ended by signal 11"
    assert ended["message"].startswith("its process ended with status 3 and no result")
    # What is known of a run stands in its row.
    assert (killed["mechanism"], killed["records"]) == ("aim", 120)


def test_a_run_that_takes_too_long_is_ended(row_of: Callable[..., dict[str, Any]]) -> None:
    row = row_of("import time; time.sleep(600)", 0.3)

    assert row["message"] == "it took more than 0.3 s"
    assert 0.3 <= row["seconds"] < 60


def test_a_row_counts_however_its_process_ends(row_of: Callable[..., dict[str, Any]]) -> None:
    assert row_of(BEGUN + "print('{\"key\": 1}', flush=True); os.abort()") == {"key": 1}


def test_a_process_that_never_came_to_its_run_says_nothing_of_the_run(
    row_of: Callable[..., dict[str, Any]],
) -> None:
    with pytest.raises(InputError, match="status 1 before the run began"):
        row_of("raise SystemExit(1)")


def test_an_interrupt_of_the_terminal_does_not_reach_a_run(
    data: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    groups: list[int] = []
    popen = subprocess.Popen

    def start(command: Any, **options: Any) -> Any:
        process = popen([sys.executable, "-c", "import time; time.sleep(600)"], **options)
        groups.append(os.getpgid(process.pid))
        return process

    monkeypatch.setattr(subprocess, "Popen", start)
    run, files = Run("small", "aim", epsilon=1.0, seed=0), SplitFiles("small")
    RunProcess(run, files, files.load(data), data).end()

    assert groups != [os.getpgrp()]
