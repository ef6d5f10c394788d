"""Output of the commands, and errors that end one."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from jam_dagster.common.shown_text import one_line, visible
from jam_dagster.errors import (
    AttemptsError,
    BudgetError,
    BudgetExceededError,
    EmptyCandidateSetError,
    InputError,
    JamError,
    LostDrawError,
    NotApprovedError,
    ReleaseClosedError,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from jam_dagster.tables import PublicSources, Source

# Its name and module differ between versions of Typer: before 0.26 it is Click's.
_USAGE_ERROR: type[Exception] = next(
    kind for kind in typer.BadParameter.__mro__ if kind.__base__ is Exception
)
"""Base class of the errors that a command line raises for its arguments."""


class Commands(TyperGroup):
    """Commands whose errors are one line on standard error and an exit status."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command and leave the process with its exit status."""
        run = partial(super().main, args, prog_name, complete_var, False, windows_expand_args)
        if not standalone_mode:
            return run(**extra)
        try:
            status = run(**extra)
        except (JamError, _USAGE_ERROR) as error:
            if line := _line(error):
                echo(f"jam-dagster: {line}", err=True)
            status = _status(error)
        except OSError as error:
            # Private steps keep theirs to themselves; what is left is a file of the user's.
            echo(f"jam-dagster: {_file_fault(error)}", err=True)
            status = 2
        except typer.Abort:
            status = 1
        sys.exit(status or 0)


def group(about: str) -> typer.Typer:
    """Return a group of commands, which shows its help where none of them is named."""
    return typer.Typer(help=about, no_args_is_help=True, rich_markup_mode="markdown")


def _status(error: Exception) -> int:
    if isinstance(
        error,
        AttemptsError | BudgetExceededError | LostDrawError | NotApprovedError | ReleaseClosedError,
    ):
        return 3
    # The other fault of a budget is a ledger that is not there, or is no ledger.
    if isinstance(error, InputError | BudgetError | EmptyCandidateSetError):
        return 2
    return int(getattr(error, "exit_code", 1))


def _file_fault(error: OSError) -> str:
    where = "" if error.filename is None else f" {error.filename}:"
    return (
        f"cannot read or write:{where} {error.strerror or type(error).__name__}. "
        "Check the path, its permissions and the space on the disk."
    )


def _line(error: Exception) -> str:
    """Return what is wrong in one line; empty if the help was the answer."""
    message = str(error)
    if isinstance(error, _USAGE_ERROR):
        message = getattr(error, "format_message", error.__str__)()
        context = getattr(error, "ctx", None)
        if message and context is not None:
            ending = "" if message.endswith((".", "?")) else "."
            message += f"{ending} See `{context.command_path} --help`."
    return " ".join(message.split())


def stdout() -> Console:
    """Return the console for results that are tables."""
    return _console()


def stderr() -> Console:
    """Return the console for everything that is no result."""
    return _console(stderr=True)


def _console(**options: Any) -> Console:
    """Return a console that shows texts of others as they are, and obeys none of them."""
    from rich.console import Console

    class LiteralConsole(Console):
        """Shows what is unseen in a text; neither markup nor the codes of emoji are read."""

        def render_str(self, text: str, **options: Any) -> Text:
            return super().render_str(visible(text), **options)

    return LiteralConsole(highlight=False, markup=False, emoji=False, **options)


def tell(line: str) -> None:
    """Print what is no result, however long, as one line on standard error."""
    stderr().print(line, soft_wrap=True)


def echo(line: str, *, err: bool = False) -> None:
    """Print one line, whatever line breaks and escape sequences the names in it hold."""
    typer.echo(one_line(line), err=err)


def print_json(value: Any) -> None:
    """Print one JSON value as the only line of standard output."""
    typer.echo(json.dumps(value, allow_nan=False))


def print_result(result: Any, line: str, *, as_json: bool) -> None:
    """Print what a command did: as JSON, or in one line on standard error."""
    if as_json:
        print_json(result)
    else:
        tell(line)


@contextmanager
def stdout_kept_clean() -> Iterator[None]:
    """Send to standard error whatever would reach standard output, also from compiled code."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def public_source(texts: Sequence[str]) -> Source | PublicSources:
    """Return the public tables that an option names: ``TABLE``, or each as ``NAME=TABLE``."""
    from jam_dagster.tables import PublicSources
    from jam_dagster.tables.sources.public import TABLE_NAME

    named = [text.partition("=") for text in texts]
    named = [parts for parts in named if TABLE_NAME.fullmatch(parts[0]) and parts[1]]
    # A path may have the same form: year=2016/survey.parquet.
    if len(texts) == 1 and (not named or Path(texts[0]).exists()):
        return source(texts[0])
    if len(named) < len(texts):
        raise InputError(
            "If there are several public tables, each needs a name, of "
            "lower-case letters, digits and '_': "
            "--public census=census.csv --public survey=survey.parquet."
        )
    tables = {name: source(text) for name, _, text in named}
    if len(tables) < len(named):
        raise InputError("Two public tables have the same name: give each its own.")
    return PublicSources(tables)


def source(text: str) -> Source:
    """Return the table that an option names."""
    from jam_dagster.tables import source_from_config
    from jam_dagster.tables.sources.base import config_from_text

    return source_from_config(config_from_text(text))
