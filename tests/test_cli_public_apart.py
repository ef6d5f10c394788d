"""The command line refuses the private table as the public one, and opens and charges nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pandas as pd
import pytest

from jam_dagster.errors import PrivateValuesError
from jam_dagster.privacy import Ledger
from jam_dagster.release import SynthesisRequest
from jam_dagster.release import synthesize as synthesize_release
from jam_dagster.release.engine import Progress
from tests.cli_bench import NOISY, RELEASE, Run, definition, synthesize, without
from tests.tiers import slow


def ledger() -> bytes:
    return Path("ledger.db").read_bytes()


@pytest.mark.parametrize("spelling", ["path", *slow("hard link", "url", "named", "json")])
def test_synthesize(run: Run, spelling: str) -> None:
    os.link("priv.csv", "hard.csv")
    public = {
        "path": ["./x/../priv.csv"],
        "hard link": ["hard.csv"],
        "url": [Path("priv.csv").resolve().as_uri()],
        "named": ["survey=pub.csv", "--public", "census=priv.csv"],
        "json": [json.dumps({"csv": "priv.csv", "missing": ["-"]})],
    }[spelling]
    Path("x").mkdir()
    Path("priv.csv").chmod(0)
    granted = ledger()

    given = without(synthesize(*RELEASE, *NOISY), "--public")
    result = run(*given, "--public", *public)

    assert result.exit_code == 2
    assert "is the private table" in result.stderr
    assert ledger() == granted
    assert not Path("out").exists()


def test_a_copy_is_an_attempt_that_tells_nothing(run: Run) -> None:
    Path("copy.csv").write_bytes(Path("priv.csv").read_bytes())
    given = without(synthesize(*RELEASE, *NOISY), "--public")
    refused = run(*given, "--public", "copy.csv")
    assert refused.exit_code != 0
    # The sentence of any value that does not fit, once the opening was journalled.
    assert str(PrivateValuesError()) in refused.stderr
    assert "copy" not in refused.stderr
    # Not even by the stage that a log shows last.
    stages: list[str] = []
    request = SynthesisRequest.of(
        out=Path("staged"),
        ledger="ledger.db",
        dataset="people",
        epsilon=0.1,
        degree=2,
        private="priv.csv",
        public="copy.csv",
        domain=Path("domain.json"),
        checks=False,
    )
    with pytest.raises(PrivateValuesError):
        synthesize_release(request, Progress(on_stage=stages.append))
    assert stages[-1] == "encode"
    assert stages.count("encode") == 2  # of the public table, and of the private one
    attempt, _ = Ledger("ledger.db").open_attempts("people")
    assert attempt.kind == "attempted"
    assert Ledger("ledger.db").balance("people").spent == 0
    (reason,) = Path("out").rglob("failures/*.txt")
    assert "copy.csv) is a copy of the private table" in reason.read_text()
    # Nor does a mechanism release it that reads no value of the private table.
    prior = ("--mechanism", "public_prior", "--domain", "domain.json", "--epsilon", "0.1")
    tables = ("--private", "priv.csv", "--public", "copy.csv", "--no-checks", *RELEASE)
    by_prior = run("synthesize", *tables, *prior, "--evaluation-mode", "off", "--out", "prior")
    assert str(PrivateValuesError()) in by_prior.stderr
    Ledger("ledger.db").acknowledge("people", reason="tried on purpose")
    # Of a copy in which one byte differs nobody knows.
    whole = Path("priv.csv").read_text().rstrip()
    Path("copy.csv").write_text(f"{whole[:-1]}{1 - int(whole[-1])}\n")
    near = run(*given, "--public", "copy.csv")
    assert near.exit_code == 0, near.output


@pytest.mark.slow
def test_plan(run: Run) -> None:
    definition(privacy={"epsilon": 0.5, "unit": {"column": "a"}})
    Path("priv.csv").chmod(0)

    result = run("plan", "defs.yaml", "--public", "./priv.csv")
    assert result.exit_code == 2
    assert "is the private table" in result.stderr

    frame = pd.read_csv("pub.csv")
    frame.assign(a=1, who=1).to_csv("persons.csv", index=False)
    table = ("--public", "persons.csv", "--domain", "domain.json", "--epsilon", "1")
    result = run("plan", *table, "--privacy-unit", "who")
    assert result.exit_code == 2
    assert "identifies a person" in result.stderr
