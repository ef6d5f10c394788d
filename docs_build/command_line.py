"""The command line's reference, from the commands themselves."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from jam_dagster.cli import app

INTRODUCTION = """# Command line

`jam-dagster` makes a release without Dagster, plans one, and looks after the ledger. Results go
to standard output, all else to standard error; with `--json` each command prints its result as
one JSON object. The exit status is 0; 2 for bad input; 3 where the privacy budget does not allow
it; 1 for anything else.
"""


def commands() -> Iterator[tuple[str, TyperCommand]]:
    """Yield every command by its full name, such as ``jam-dagster ledger show``."""
    yield from _below("jam-dagster", typer.main.get_command(app))


def _below(name: str, command: object) -> Iterator[tuple[str, TyperCommand]]:
    if isinstance(command, TyperGroup):
        for part, one in command.commands.items():
            yield from _below(f"{name} {part}", one)
    elif isinstance(command, TyperCommand):
        yield name, command


def command_line_page() -> str:
    """Return the page of all commands, with their arguments and options."""
    return "\n".join([INTRODUCTION, *(_section(name, one) for name, one in commands())])


def _section(name: str, command: TyperCommand) -> str:
    lines = [f"## `{name}`", "", inspect.cleandoc(command.help or ""), ""]
    rows = [_row(one) for one in command.params if one.name != "help"]
    if rows:
        lines += ["| option | what it is | default |", "|---|---|---|", *rows, ""]
    return "\n".join(lines)


def _row(parameter: object) -> str:
    if not isinstance(parameter, TyperArgument | TyperOption):
        raise TypeError(f"{parameter!r} is no parameter of a typer command")
    if isinstance(parameter, TyperArgument):
        name = f"`{parameter.metavar or (parameter.name or '').upper()}`"
    else:
        name = f"`{' / '.join([*parameter.opts, *parameter.secondary_opts])}`"
        if parameter.metavar and not parameter.is_flag:
            name += f" {parameter.metavar}"
    return f"| {name} | {_cell(parameter.help or '')} | {_default(parameter)} |"


def _default(parameter: TyperArgument | TyperOption) -> str:
    if parameter.required:
        return "**needed**"
    shown = parameter.show_default
    if isinstance(shown, str):
        return _cell(shown)
    default = parameter.default
    if default is None or isinstance(default, bool) or callable(default):
        return ""
    return f"`{default}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
