"""The command line refuses the private table as the public one, and opens and charges nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pandas as pd
import pytest
import yaml

from tests.cli_bench import NOISY, RELEASE, Run, synthesize


def ledger() -> bytes:
    return Path("ledger.db").read_bytes()


def as_private(*options: str) -> list[str]:
    """Return the command with something else as its public table."""
    command = list(synthesize(*RELEASE, *NOISY))
    at = command.index("--public")
    return [*command[:at], *command[at + 2 :], *options]


@pytest.mark.parametrize("spelling", ["path", "hard link", "url", "named", "json"])
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

    result = run(*as_private("--public", *public))

    assert result.exit_code == 2
    assert "is the private table" in result.stderr
    assert ledger() == granted
    assert not Path("out").exists()


@pytest.mark.slow
def test_plan(run: Run) -> None:
    content = {
        "type": "jam_dagster.SyntheticRelease",
        "attributes": {
            "release": "people",
            "dataset": "people",
            "private": "priv.csv",
            "public": "pub.csv",
            "domain": "domain.json",
            "privacy": {"epsilon": 0.5, "unit": {"column": "a"}},
        },
    }
    Path("defs.yaml").write_text(yaml.safe_dump(content))
    Path("priv.csv").chmod(0)

    result = run("plan", "defs.yaml", "--public", "./priv.csv")
    assert result.exit_code == 2
    assert "is the private table" in result.stderr

    frame = pd.read_csv("pub.csv")
    frame.assign(a=1, who=1).to_csv("persons.csv", index=False)
    result = run(
        "plan",
        *("--public", "persons.csv", "--domain", "domain.json", "--epsilon", "1"),
        *("--privacy-unit", "who"),
    )
    assert result.exit_code == 2
    assert "identifies a person" in result.stderr
