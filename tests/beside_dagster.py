"""Run the commands as they are installed, without the libraries of the tests: `make newest` does.

A user's project has Dagster's newest version and what that allows, which the pins of this project
may not be. With a project of `create-dagster` as argument, a release is scaffolded and made in it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from random import Random

OPTIONS = ("--public", "--private", "--dataset", "--epsilon", "--infer")
"""Options of the scaffolder, which a version of Typer that `dg` cannot use leaves out."""


def output_of(command: str, *arguments: str, status: int = 0, folder: Path | None = None) -> str:
    """Return all that a command prints, once it ends with `status`."""
    path = Path(sys.executable).with_name(command)
    done = subprocess.run(
        [path, *arguments],
        cwd=folder,
        # As in an environment that somebody has activated: `dg` takes none from elsewhere.
        env={
            **os.environ,
            "VIRTUAL_ENV": sys.prefix,
            "PATH": f"{path.parent}:{os.environ['PATH']}",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
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
        helped = output_of("dg", *SCAFFOLD, "--help")
        assert all(option in helped for option in OPTIONS), helped


SCAFFOLD = ("scaffold", "defs", "jam_dagster.SyntheticRelease")


def check_project(project: Path) -> None:
    """Raise unless a release is scaffolded, checked, listed and made in a project."""
    for name, seed, rows in (("people.csv", 1, 600), ("survey.csv", 2, 200)):
        random = Random(seed)
        cells = (f"{random.choice('fm')},{random.randint(18, 80)}\n" for _ in range(rows))
        (project / name).write_text("sex,age\n" + "".join(cells))
    tables = ("--public", "survey.csv", "--private", "people.csv")
    output_of("dg", *SCAFFOLD, "people", *tables, folder=project)
    for what in ("yaml", "defs"):
        output_of("dg", "check", what, folder=project)
    assert "people/synthetic_records" in output_of("dg", "list", "defs", "--json", folder=project)
    made = output_of("dg", "launch", "--job", "people_release", folder=project)
    assert "Made release people, which may leave" in made, made


if __name__ == "__main__":
    check()
    for argument in sys.argv[1:]:
        check_project(Path(argument))
    names = ("dagster", "typer", "click")
    print("It works with", ", ".join(f"{name} {version(name)}" for name in names))
