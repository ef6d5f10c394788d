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
from benchmarks.performance import TARGETS, main, table
from benchmarks.process import Measured, RunFailedError, describe_stages, measure, stages
from benchmarks.process import synthesize as run_synthesize
from jam_dagster.release.stopwatch import peak_memory_mb
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


def test_a_synthesis_is_asked_for_as_on_the_command_line() -> None:
    command = asked("numpy")

    assert command[1:5] == ["-m", "jam_dagster.cli", "synthesize", "--json"]
    assert command[-2:] == ["--setting", "size_limit_mb=80"]
    # What is not given is left to the command line's default.
    assert "--seed" not in command
    assert "--ledger" not in command


def test_a_release_is_charged_to_a_ledger_of_its_own() -> None:
    one, two = asked("exact"), asked("exact")

    assert one[one.index("--ledger") + 1] != two[two.index("--ledger") + 1]
    assert not Path(one[one.index("--ledger") + 1]).parent.exists()


def test_the_start_is_what_the_stages_leave() -> None:
    by_stage = stages(Measured(2.75, 2, 10**8, ""), MADE)

    assert by_stage == {"start": 0.75, "read": 0.5, "mechanism": 1.5, "mechanism.fit": 1.25}
    assert describe_stages(by_stage) == "start 0.75, read 0.50, mechanism 1.50 (fit 1.25)"


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


def test_it_runs_the_targets_after_one_that_does_not_count(
    ran: list[dict[str, object]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "runs.csv"
    assert main(["--split", "titanic", "--noise", "numpy", "exact", "--out", str(out)]) == 0

    warm_up, *counted = ran
    assert warm_up["rounds"] == 1
    epsilons = [epsilon for split, epsilon in TARGETS if split == "titanic"]
    assert [(run["noise"], run["epsilon"]) for run in counted] == [
        (noise, epsilon) for noise in ("numpy", "exact") for epsilon in epsilons
    ]
    assert {run["rounds"] for run in counted} == {30}
    runs = pd.read_csv(out)
    assert len(runs) == 6
    assert set(runs["seconds.mechanism.fit"]) == {1.25}
    assert set(runs["seconds.start"]) == {0.5}
    assert "error 0.2500 (public 0.5000)" in capsys.readouterr().out


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


def test_seeds_and_repeats_multiply(ran: list[dict[str, object]]) -> None:
    main(["--split", "titanic", "--epsilon", "1", "--seed", "4", "5", "--repeats", "2"])

    assert [run["seed"] for run in ran[1:]] == [4, 4, 5, 5]


def test_targets_are_for_the_setting_that_they_were_set_for(
    ran: list[dict[str, object]], capsys: pytest.CaptureFixture[str]
) -> None:
    main(["--split", "titanic", "--epsilon", "1", "--rounds", "10"])

    line = capsys.readouterr().out.splitlines()[-1]
    assert cells(line)[4:7] == ["2.0", "2.5", "0.50"]


def test_without_the_data_it_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("JAM_DATA", raising=False)

    assert main([]) == 2
    assert "JAM_DATA is not set" in capsys.readouterr().err


def test_a_split_that_is_not_there_is_told(
    splits: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--split", "salary"]) == 2
    assert "it holds titanic" in capsys.readouterr().err


@pytest.mark.slow
def test_a_real_run_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "paper" / "small"
    folder.mkdir(parents=True)
    (folder / "domain.json").write_text('{"a": 3, "b": 2, "c": 2}')
    for name in ("priv", "pub"):
        table = pd.DataFrame({"a": [0, 1, 2] * 20, "b": [0, 1] * 30, "c": [1, 0, 0] * 20})
        table.to_csv(folder / f"{name}.csv", index=False)
    monkeypatch.setenv("JAM_DATA", str(tmp_path))
    out = tmp_path / "runs.csv"

    assert main(["--split", "small", "--rounds", "2", "--degree", "2", "--out", str(out)]) == 0

    (run,) = pd.read_csv(out).to_dict("records")
    assert run["peak_gb"] > 0.05
    assert run["wall_s"] >= run["seconds.mechanism"]
    assert run["private_picks"] + run["public_picks"] == 2
