"""What the tests of the command line share: small tables, a ledger, and how to call it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import typer
import yaml
from typer.testing import CliRunner, Result

from jam_dagster.cli import app
from jam_dagster.privacy import Ledger
from tests.budgets import PUBLIC_N

PEOPLE = {"age": 4, "sex": 2, "job": 3, "income": 2}
QUICK = (
    *("--mechanism", "jam_pgm", "--setting", "rounds=2", "--setting", "iterations=20"),
    *("--degree", "2", "--no-checks"),
)
KEYS = [
    "restricted",
    "verdict",
    "workload_error",
    "sample_equivalent",
    "equivalent_within",
    "utility",
    "regressions",
    "sampling_error",
    "seconds",
    "peak_memory_mb",
    "rho",
    "picks",
    "rows",
    "releasable",
]

Run = Callable[..., Result]


def write_tables() -> None:
    """Write coded and raw tables, their domains and a ledger to the working directory."""
    rng = np.random.default_rng(0)
    for name, rows in (("priv", 200), ("pub", 80)):
        coded = pd.DataFrame({a: rng.integers(0, size, rows) for a, size in PEOPLE.items()})
        coded.to_csv(f"{name}.csv", index=False)
        raw = pd.DataFrame(
            {"age": rng.integers(17, 91, rows), "job": rng.choice(["baker", "pilot"], rows)}
        )
        raw.to_csv(f"raw-{name}.csv", index=False)
    Path("domain.json").write_text(json.dumps(PEOPLE))
    Ledger("ledger.db").grant("people", epsilon=1.0, delta=1e-9, policy=PUBLIC_N)


@cache
def _program() -> Any:
    """Return the whole command line, which takes longer to make than most commands to run."""
    return typer.main.get_command(app)


def run_cli(*arguments: object) -> Result:
    """Run a command in the working directory."""
    runner = CliRunner()
    # Typer's own `invoke` makes the command line again for each command.
    return super(CliRunner, runner).invoke(_program(), [str(argument) for argument in arguments])


def run_process(
    *arguments: object, program: tuple[str, ...] = ("-m", "jam_dagster.cli"), **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a command in the working directory, in a process of its own."""
    return subprocess.run(
        [sys.executable, *program, *map(str, arguments)],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def synthesize(*options: object, **tables: str) -> list[object]:
    """Return the arguments of a small synthesis; options given later override."""
    named = {"private": "priv.csv", "public": "pub.csv", "domain": "domain.json", **tables}
    given = [part for name, value in named.items() for part in (f"--{name}", value)]
    return ["synthesize", *given, "--epsilon", "1", "--out", "out", *QUICK, *options]


def without(arguments: list[object], *options: str) -> list[object]:
    """Return arguments without some options or settings, each with its value."""
    kept = list(arguments)
    for option in options:
        # A setting's value comes after `--setting`, which goes with it.
        at = kept.index(option) - ("=" in option)
        del kept[at : at + 2]
    return kept


def definition(**attributes: object) -> Path:
    """Write a component's file beside the tables."""
    content = {
        "type": "jam_dagster.SyntheticRelease",
        "attributes": {
            "release": "people",
            "dataset": "people",
            "private": "priv.csv",
            "public": "pub.csv",
            "domain": "domain.json",
            "privacy": {"epsilon": 0.5},
            **attributes,
        },
    }
    path = Path("defs.yaml")
    path.write_text(yaml.safe_dump(content))
    return path


RESEARCH = ("--noise", "numpy")
RELEASE = ("--ledger", "ledger.db", "--dataset", "people", "--no-report")
NOISY = ("--epsilon", "0.4", "--evaluation-mode", "private")


def lines(result: Result) -> list[str]:
    """Return what a command said on standard error."""
    return result.stderr.splitlines()
