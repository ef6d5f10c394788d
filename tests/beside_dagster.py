"""Run the commands as they are installed, without the libraries of the tests: `make newest` does.

A user's project has Dagster's newest version and what that allows, which the pins of this project
may not be.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path


def output_of(command: str, *arguments: str, status: int = 0) -> str:
    """Return all that a command prints, once it ends with `status`."""
    path = Path(sys.executable).with_name(command)
    done = subprocess.run(
        [path, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode != status:
        raise AssertionError(f"{command} {' '.join(arguments)}: {done.returncode}\n{done.stdout}")
    return done.stdout


def check() -> None:
    """Raise unless the package imports, and each command helps and names what is wrong."""
    output_of("python", "-c", "import jam_dagster.pipeline")
    assert "--version" in output_of("jam-dagster", "--help")
    assert "--noise" in output_of("jam-dagster", "plan", "--help")
    mistyped = output_of("jam-dagster", "plan", "--epsilom", "1", status=2)
    assert "See `jam-dagster plan --help`" in mistyped, mistyped
    refused = output_of("jam-dagster", "ledger", "show", "--ledger", "no-such.db", status=2)
    assert "there is no ledger at" in refused, refused
    if shutil.which("dg", path=str(Path(sys.executable).parent)):
        assert "jam_dagster.SyntheticRelease" in output_of("dg", "list", "components")
        scaffold = ("scaffold", "defs", "jam_dagster.SyntheticRelease", "--help")
        assert "--infer" in output_of("dg", *scaffold)


if __name__ == "__main__":
    check()
    names = ("dagster", "typer", "click")
    print("It works with", ", ".join(f"{name} {version(name)}" for name in names))
