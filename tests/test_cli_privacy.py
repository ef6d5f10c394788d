"""What `jam-dagster synthesize` must never do: spend for nothing, mix releases up, or tell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NoReturn

import numpy as np
import pandas as pd
import pytest

from jam_dagster.mechanisms import JamPgm
from jam_dagster.privacy import Ledger
from jam_dagster.release import engine as steps
from jam_dagster.tables import CsvSource
from jam_dagster.tables.sources import source
from tests.cli_bench import NOISY, QUICK, RELEASE, RESEARCH, Run, lines, run_process, synthesize
from tests.tiers import first_quick

# --- one folder, two kinds of noise


@pytest.mark.slow
def test_a_release_takes_nothing_from_research(run: Run) -> None:
    run(*synthesize(*RESEARCH))
    research = json.loads(Path("out/transcript/transcript.json").read_text())
    assert research["releasable"] is False

    result = run(*synthesize(*RELEASE, *NOISY, "--json"))

    assert result.exit_code == 0, result.output
    made = json.loads(result.stdout)
    assert made["releasable"] is True
    assert made["rho"]["spent"] > 0
    assert Ledger("ledger.db").balance("people").spent == pytest.approx(made["rho"]["spent"])
    transcript = json.loads(Path("out/transcript/transcript.json").read_text())
    assert (transcript["noise"], transcript["releasable"]) == ("exact", True)
    # Exact errors of the research would be taken for those of the release.
    assert not Path("out/restricted").exists()


# --- sentinels: private values are looked for wherever a run leaves something

JOB = "zq-sentinel-job"
AGE = "7373100917"
RAW = ("--private", "secret.csv", "--public", "survey.csv", "--domain", "raw.yaml")
ARGUMENTS = ("synthesize", *RAW, "--epsilon", "1", "--out", "out", *QUICK, *RELEASE)


def _write_secret() -> None:
    """Write a private table with values that nothing else holds, and a domain that takes them."""
    rng = np.random.default_rng(1)
    for name, rows in (("secret", 300), ("survey", 150)):
        ages = list(map(str, rng.integers(17, 91, rows)))
        jobs = list(rng.choice(["baker", "pilot"], rows))
        if name == "secret":
            ages[3:6], jobs[:3] = [AGE] * 3, [JOB] * 3
        pd.DataFrame({"age": ages, "job": jobs}).to_csv(f"{name}.csv", index=False)
    Path("raw.yaml").write_text(
        "attributes:\n"
        "  age: {edges: [0, 30, 60, 120], integer: true, outside: clip}\n"
        "  job: {values: [baker, pilot, other], other: other}\n"
    )


def _assert_nothing_leaked(*said: str) -> None:
    kept = ("secret.csv", "out/restricted/")
    found = {"what was said": "".join(said)} | {
        path.as_posix(): path.as_posix() + path.read_bytes().decode("latin-1")
        for path in Path().rglob("*")
        if path.is_file() and not path.as_posix().startswith(kept)
    }
    for where, text in found.items():
        assert JOB not in text, where
        assert AGE not in text, where


@pytest.mark.slow
@pytest.mark.parametrize("evaluate", ["private", "exact"])
def test_a_release_leaks_no_value(run: Run, evaluate: str) -> None:
    _write_secret()

    ran = run_process(*ARGUMENTS, "--evaluation-mode", evaluate, "--report")

    assert ran.returncode == 0, ran.stderr
    assert Path("out/report.html").exists()
    _assert_nothing_leaked(ran.stdout, ran.stderr)


def _fail(*_: object, **__: object) -> NoReturn:
    """Fail as libraries do: with what was stumbled over in the message."""
    raise ValueError(f"cannot handle {JOB!r} at {AGE}")


INGESTION = "reading and encoding the private table"

FAILING: dict[str, tuple[str, object, str]] = {
    "reading": (INGESTION, CsvSource, "batches"),
    "encoding": (INGESTION, source, "joined"),
    "mechanism": ("running the mechanism", JamPgm, "run"),
    "error": ("measuring the workload error", steps, "workload_error"),
    "report": ("the report", steps, "render_report"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("step", "place", "name"), FAILING.values(), ids=FAILING)
def test_a_failing_step_leaks_no_value(
    run: Run, monkeypatch: pytest.MonkeyPatch, step: str, place: object, name: str
) -> None:
    _write_secret()
    monkeypatch.setattr(place, name, _fail)

    result = run(*ARGUMENTS, "--report")

    # One line instead of a traceback, whose frames would show more than its message does.
    assert isinstance(result.exception, SystemExit)
    assert result.exit_code == 1
    assert lines(result)[-1].startswith(f"jam-dagster: {step} failed; the cause is withheld")
    _assert_nothing_leaked(result.stdout, result.stderr)


BROKEN = {
    "a missing column": ("secret.csv", "age,job", f"{AGE},job"),
    "a value outside the domain": ("raw.yaml", ", other: other}", "}"),
    "a number out of bounds": ("raw.yaml", ", outside: clip", ""),
    "a row too long": ("secret.csv", f",{JOB}\n", f",{JOB},{AGE}\n"),
    "no number": ("secret.csv", f"{AGE},", f"{JOB},"),
    "an encoding that is not the file's": ("secret.csv", JOB, f"{JOB}\udcff"),
}


@pytest.mark.parametrize("fault", first_quick(BROKEN))
def test_a_faulty_table_leaks_no_value(run: Run, fault: str) -> None:
    _write_secret()
    name, old, new = BROKEN[fault]
    text = Path(name).read_text()
    assert old in text
    Path(name).write_bytes(text.replace(old, new).encode(errors="surrogateescape"))

    result = run(*ARGUMENTS)

    assert isinstance(result.exception, SystemExit)
    assert result.exit_code in (1, 2)
    kinds = {event.kind.value for event in Ledger("ledger.db").events()}
    assert kinds <= {"granted", "reserved"}
    _assert_nothing_leaked(result.stdout, result.stderr)


# --- what is allowed and yet deserves a second look
