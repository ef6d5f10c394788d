"""Shell blocks as a reader types them, without a process for each command of Python.

Each would import Dagster anew, which takes longer than what the command does. That commands start
by themselves is looked at by the long pages, whose blocks are run by Bash alone, and by
`tests/test_fresh_project.py`.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from itertools import groupby
from pathlib import Path
from unittest.mock import patch

import click
import typer
from dagster_dg_cli.cli import cli as dg

from jam_dagster.cli import app

PROGRAMS: dict[str, click.Command] = {"jam-dagster": typer.main.get_command(app), "dg": dg}
"""The commands that run in this process."""

_ASSIGNMENT = re.compile(r"([A-Z_]+)=(.*)")


@dataclass
class Ran:
    """What came of commands."""

    status: int = 0
    output: str = ""
    errors: str = ""


def command_lines(text: str) -> list[str]:
    """Return the lines of a block, each whole."""
    return [one for one in text.replace("\\\n", " ").splitlines() if one.strip()]


def run_shell(text: str, folder: Path, environment: dict[str, str]) -> Ran:
    """Run the commands of a block in a folder, up to the first that fails.

    Parameters
    ----------
    text
        A command a line; one of `PROGRAMS` may have assignments before it, and `> FILE` behind.
    folder
        The working directory.
    environment
        The whole environment.
    """
    ran = Ran()
    for program, lines in groupby(command_lines(text), key=_program):
        if program not in PROGRAMS:
            steps = iter([run_bash("\n".join(lines), folder, environment)])
        else:
            steps = (_call(line, folder, environment) for line in lines)
        for step in steps:
            ran = Ran(step.status, ran.output + step.output, ran.errors + step.errors)
            if ran.status:
                return ran
    return ran


def run_bash(text: str, folder: Path, environment: dict[str, str]) -> Ran:
    """Run a block as a script, each command as a process."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def _program(line: str) -> str:
    words = shlex.split(line, comments=True)
    return next((word for word in words if not _ASSIGNMENT.fullmatch(word)), "")


def _call(line: str, folder: Path, environment: dict[str, str]) -> Ran:
    words = shlex.split(line, comments=True)
    given = dict(environment)
    while found := _ASSIGNMENT.fullmatch(words[0]):
        given[found[1]] = found[2]
        words = words[1:]
    program, *rest = words
    target = folder / rest[-1] if rest[-2:-1] == [">"] else None
    output, errors, status = StringIO(), StringIO(), 0
    # No runner of click: it closes its streams, to which Dagster's loggers still write. A job that
    # configures logging closes all handlers, and absl's closes the stream that pytest captures.
    with (
        _as_a_process(folder, given),
        patch("logging.shutdown"),
        redirect_stdout(output),
        redirect_stderr(errors),
    ):
        try:
            PROGRAMS[program].main(rest[:-2] if target else rest, prog_name=program)
        except SystemExit as ended:
            status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        except Exception:
            status = 1
            traceback.print_exc()
    if target is not None:
        target.write_text(output.getvalue())
        return Ran(status, "", errors.getvalue())
    return Ran(status, output.getvalue(), errors.getvalue())


@contextmanager
def _as_a_process(folder: Path, environment: dict[str, str]) -> Iterator[None]:
    """Give a command a folder, an environment and a path, and forget the modules of the folder."""
    before, path, home = dict(os.environ), list(sys.path), Path.cwd()
    os.environ.clear()
    os.environ.update(environment)
    sys.path.insert(0, str(folder))
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(home)
        sys.path[:] = path
        os.environ.clear()
        os.environ.update(before)
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None) or "").startswith(str(folder)):
                del sys.modules[name]
