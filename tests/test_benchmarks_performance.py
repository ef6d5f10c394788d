"""The benchmark of whole runs: how processes are measured, and how the table reads."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from benchmarks import performance
from benchmarks.performance import main, table
from benchmarks.process import Measured, RunFailedError, measure
from benchmarks.process import synthesize as run_synthesize
from jam_dagster.common.operating_system import peak_memory_mb
from tests.cli_bench import write_tables

MADE: dict[str, Any] = {
    "workload_error": {
        "synthetic": {"mean": 0.25, "max": 0.5},
        "public": {"mean": 0.5, "max": 0.9},
        "independent": {"mean": 0.6, "max": 0.8},
    },
    "seconds": {"total": 2.0, "read": 0.5, "mechanism": 1.5, "mechanism.fit": 1.25},
    "picks": {"private": 2, "public": 1},
}


def python(code: str) -> list[str]:
    return [sys.executable, "-S", "-c", code]


# --- processes


@pytest.mark.slow
def test_a_process_is_measured_whole() -> None:
    # The process touches what it holds, so that it counts as resident.
    held = 200 * 2**20
    measured = measure(python(f"x = b'1' * {held}; print(len(x))"))

    assert measured.output == f"{held}\n"
    # What this process held when it started the other is counted as well.
    assert held < measured.peak_bytes < 2 * held + 2**20 * peak_memory_mb()
    assert measured.cpu_seconds > 0
    assert measured.seconds > 0


def test_a_process_that_fails_says_why() -> None:
    with pytest.raises(RunFailedError, match="exit status 3: it is broken"):
        measure(python("import sys; print('it is broken', file=sys.stderr); sys.exit(3)"))


def test_a_process_gets_no_more_time_than_it_may() -> None:
    with pytest.raises(RunFailedError, match="out of time"):
        measure(python("while True: pass"), timeout=0.05)


def test_a_process_gets_no_more_memory_than_it_may() -> None:
    with pytest.raises(RunFailedError, match="MemoryError"):
        measure(python(f"bytearray({10**9})"), memory_bytes=10**8)


def asked(noise: str) -> list[str]:
    """Return the command that a synthesis is run by."""
    commands: list[Sequence[str]] = []

    def run(command: Sequence[str]) -> Measured:
        commands.append(command)
        return Measured(2.5, 2.5, 10**8, json.dumps(MADE))

    tables = {"private": Path("a.csv"), "public": Path("b.csv"), "domain": Path("d.json")}
    options, settings = {"noise": noise, "seed": None}, {"size_limit_mb": 80, "tolerance": None}
    run_synthesize(**tables, options=options, settings=settings, run=run)
    (command,) = commands
    return list(command)


# --- the table


def run_of(split: str, epsilon: float, wall: float, peak: float, error: float) -> dict[str, Any]:
    picks = {"private_picks": 2, "public_picks": 1}
    run = {"split": split, "epsilon": epsilon, "noise": "numpy", "peak_gb": peak}
    return {**run, **picks, "wall_s": wall, "cpu_s": wall / 2, "error": error, "public": 0.5}


def cells(line: str) -> list[str]:
    return line.replace(" / ", "/").split()


def test_a_row_is_a_setting_beside_its_target() -> None:
    rows = [run_of("titanic", 1.0, wall, 0.5, wall / 10) for wall in (1.0, 3.0, 2.0)]

    line = cells(table(rows, with_targets=True).splitlines()[1])

    # The median time, the largest memory, the mean error.
    expected = ["titanic", "1", "numpy", "3", "1.0", "2.0", "4", "0.50", "0.8", "0.2000", "0.5000"]
    assert line == [*expected, "2.0/1.0"]


def test_what_exceeds_its_target_is_marked() -> None:
    rows = [run_of("titanic", 1.0, 4.1, 0.9, 0.2)]

    assert "4.1!" in table(rows, with_targets=True)
    assert "0.90!" in table(rows, with_targets=True)
    assert "!" not in table(rows, with_targets=False)
    assert "!" not in table([run_of("mine", 1.0, 1e3, 1e3, 0.2)], with_targets=True)


@pytest.fixture
def splits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Point JAM_DATA at a folder with one split that need not be read."""
    (tmp_path / "paper" / "titanic").mkdir(parents=True)
    (tmp_path / "paper" / "titanic" / "domain.json").write_text("{}")
    monkeypatch.setenv("JAM_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture
def ran(splits: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """Let runs take no time; return what they were asked for."""
    given: list[dict[str, object]] = []

    def synthesize(**arguments: Any) -> tuple[Measured, dict[str, Any]]:
        asked = {**arguments["options"], **arguments["settings"]}
        given.append({**asked, "split": arguments["private"].parent.name})
        return Measured(2.5, 2.0, 5 * 10**8, ""), MADE

    monkeypatch.setattr(performance, "synthesize", synthesize)
    return given


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["numpy", "exact"])
def test_tables_are_really_synthesized(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noise: str
) -> None:
    split = tmp_path / "paper" / "people"
    split.mkdir(parents=True)
    monkeypatch.chdir(split)
    write_tables()
    monkeypatch.setenv("JAM_DATA", str(tmp_path))
    out = tmp_path / "runs.csv"
    small = ["--rounds", "2", "--degree", "2", "--iterations", "20", "--epsilon", "1"]

    assert main(["--split", "people", "--noise", noise, *small, "--out", str(out)]) == 0

    (run,) = pd.read_csv(out).to_dict("records")
    assert run["noise"] == noise
    assert 0 < run["error"] < 2
    assert run["private_picks"] + run["public_picks"] == 2


def test_without_the_data_it_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("JAM_DATA", raising=False)

    assert main([]) == 2
    assert "JAM_DATA is not set" in capsys.readouterr().err
