"""The options that more than one command has, each with one name and one meaning."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import typer

from jam_dagster.cli.console import public_source
from jam_dagster.errors import InputError
from jam_dagster.keys import OPTIONS, Key, Panel, sentence

SETTINGS = typer.Option(
    "--setting",
    rich_help_panel=Panel.MECHANISM,
    help="A setting of the mechanism, such as rounds=10; may be given again. `jam-dagster "
    "mechanisms NAME` lists them with their defaults.",
    metavar="KEY=VALUE",
)

PRIVATE_STORE_FOLDER = typer.Option(
    metavar="DIR",
    # `jam_dagster.privacy.private_store` defines it, and takes long to import.
    envvar="JAM_PRIVATE",
    rich_help_panel=Panel.BUDGET,
    help="The folder, its owner's alone, of the secret by which the ledger knows a source again.",
    show_default="next to the ledger's file; for a ledger on a server, a folder of this user",
)

DEFINITION = typer.Argument(
    metavar="[DEFS.YAML]",
    help="The release's component file, or its folder. Options take the place of what it says.",
    show_default=False,
)

PARTITION = typer.Option(
    metavar="NAME", rich_help_panel=Panel.BUDGET, help="The partition, where the release has some."
)

LedgerOption = Annotated[
    str,
    typer.Option(
        metavar="FILE",
        help="The ledger: a file, or postgresql://user@host/database; ${VARIABLES} are expanded.",
    ),
]
AsJson = Annotated[
    bool,
    typer.Option(
        "--json",
        rich_help_panel=Panel.OUTPUT,
        help="Print the result as one JSON object, and nothing else, on standard output.",
    ),
]
DatasetOption = Annotated[str, typer.Option(metavar="ID", help="The protected dataset.")]
ReasonOption = Annotated[str, typer.Option(metavar="TEXT", help="Written in the journal.")]
SliceOption = Annotated[
    str, typer.Option(metavar="NAME", help="Which slice of the data, if it is partitioned.")
]
EditionOption = Annotated[str, typer.Option(metavar="NAME", help="Which edition of it.")]


def check_reason(reason: str) -> None:
    """Raise unless a reason says something."""
    if not reason.strip():
        raise InputError("--reason must say why: it is all that the journal will know.")


Command = TypeVar("Command", bound=Callable[..., None])


def with_release_options(command: Command) -> Command:
    """Give a command the options of a release; it gets them as keyword arguments.

    A decorator for a command that takes ``**options``: those of a release are in its help.
    """
    own = inspect.signature(command, eval_str=True)
    parameters = {
        name: one
        for name, one in own.parameters.items()
        if one.kind is not inspect.Parameter.VAR_KEYWORD
    }
    # A plan has no private table, so a command declares that option by itself.
    shared = {name: _option(key) for name, key in OPTIONS.items() if name != "private"}
    for name, annotation in {**shared, "settings": Annotated[list[str] | None, SETTINGS]}.items():
        parameters[name] = inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
        )
    command.__signature__ = own.replace(  # type: ignore[attr-defined]
        parameters=list(parameters.values())
    )
    command.__annotations__ = {name: one.annotation for name, one in parameters.items()}
    return command


def _option(key: Key) -> Any:
    """Return the annotation of an option, as typer reads it."""
    again = " It may be given again." if get_origin(key.kind) is list else ""
    option = typer.Option(
        key.flag,
        rich_help_panel=key.option.panel,
        help=sentence(key.field.description or "") + again,
        metavar=key.option.metavar,
        show_default=key.default or False,
    )
    return Annotated[_choice(key.kind) | None, option]


def _choice(kind: Any) -> Any:
    """Return a type of a few texts as an enumeration, for Typer reads no literals before 0.19."""
    if get_origin(kind) is not Literal:
        return kind
    return StrEnum("Choice", [(one, one) for one in get_args(kind)])


def release_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of a command as `jam_dagster.release.options.release_spec` takes them."""
    options = {name: _plain(value) for name, value in given.items() if value not in (None, [])}
    if "settings" in options:
        options["settings"] = _settings(options["settings"])
    if "public" in options:
        options["public"] = public_source(options["public"])
    if "cliques" in options:
        options["cliques"] = [text.split(",") for text in options["cliques"]]
    return options


def _plain(value: Any) -> Any:
    """Return a choice as text, and a path from here, for one in a file starts from its folder."""
    if isinstance(value, StrEnum):
        return str(value)
    return value.absolute() if isinstance(value, Path) else value


def _settings(texts: Sequence[str]) -> dict[str, Any]:
    """Return the settings of a mechanism, each ``KEY=VALUE``."""
    given = {}
    for text in texts:
        key, is_one, value = text.partition("=")
        key = key.strip().replace("-", "_")
        if not is_one or not key:
            raise InputError(f"--setting must be KEY=VALUE, such as rounds=10, got {text!r}.")
        given[key] = value.strip()
    return given
