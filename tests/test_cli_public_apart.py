"""The command line refuses the private table as the public one, and opens and charges nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pandas as pd
import pytest

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
