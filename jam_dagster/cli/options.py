"""The options that more than one command has, each with one name and one meaning."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import typer

from jam_dagster.cli.console import public_source
from jam_dagster.errors import InputError

TABLES, BUDGET, MECHANISM, EVALUATION, OUTPUT = (
    "The tables",
    "The budget",
    "The mechanism",
    "The evaluation",
    "The output",
)

# As `jam_dagster.mechanisms` has it, which a command that needs none must not wait for.
DEFAULT_MECHANISM = "jam_pgm"


def _option(flag: str, panel: str, text: str, **more: Any) -> Any:
    return typer.Option(flag, rich_help_panel=panel, help=text, **more)


# Each option of a release, by the names of `jam_dagster.release.options.OPTIONS`. Their texts stand
# here because the sections of a specification take long to import; a test compares both.
_RELEASE: dict[str, tuple[Any, Any]] = {
    "public": (
        list[str] | None,
        _option(
            "--public",
            TABLES,
            "A table about the same attributes that is no secret. It may be older, smaller and "
            "biased. Of several, or of one that lacks attributes, each is NAME=TABLE. None is "
            "needed by a mechanism that learns from none, such as aim.",
            metavar="TABLE",
        ),
    ),
    "domain": (
        Path | None,
        _option(
            "--domain",
            TABLES,
            "The attributes and their values: YAML or JSON, as `domain draft` writes it, or the "
            'papers\' {"attribute": size} for tables of integer codes. Without it the domain is '
            "drafted from the public table.",
            metavar="FILE",
        ),
    ),
    "epsilon": (float | None, _option("--epsilon", BUDGET, "epsilon of the whole release.")),
    "delta": (
        float | None,
        _option("--delta", BUDGET, "delta of the whole release.", show_default="1e-09"),
    ),
    "noise": (
        Literal["exact", "numpy"] | None,
        _option(
            "--noise",
            BUDGET,
            "`exact` makes a release, charged to a ledger; `numpy` is seeded and free, and its "
            "result may not leave.",
            show_default="exact",
        ),
    ),
    "dataset": (
        str | None,
        _option(
            "--dataset",
            BUDGET,
            "The protected dataset that pays. Needed with exact noise.",
            metavar="ID",
        ),
    ),
    "release": (
        str | None,
        _option(
            "--release",
            BUDGET,
            "What the ledger calls this release.",
            metavar="NAME",
            show_default="the name of --out",
        ),
    ),
    "edition": (
        str | None,
        _option(
            "--edition",
            BUDGET,
            "The same release once more is free; another edition of it is drawn and paid again, "
            "for example on new data.",
            metavar="NAME",
            show_default="1",
        ),
    ),
    "neighbours": (
        Literal["replace_one", "add_remove"] | None,
        _option(
            "--neighbours",
            BUDGET,
            "What a reader cannot distinguish: `replace_one`, a person's rows from another "
            "person's; `add_remove`, nor whether a person is in the table at all.",
            show_default="replace_one",
        ),
    ),
    "privacy_unit": (
        str | None,
        _option(
            "--privacy-unit",
            BUDGET,
            "The column of the private table that identifies a person, where one may have several "
            "rows.",
            metavar="COLUMN",
            show_default="every row is a person",
        ),
    ),
    "max_rows": (
        int | None,
        _option(
            "--max-rows",
            BUDGET,
            "The most rows of a person that are kept, chosen at random; the noise grows with it.",
            metavar="K",
            show_default="1",
        ),
    ),
    "records_share": (
        float | None,
        _option(
            "--records-share",
            BUDGET,
            "The part of the mechanism's budget that measures the number of rows, where that is "
            "private: with `add_remove`, or more than one row a person.",
            show_default="0.05",
        ),
    ),
    "mechanism": (
        str | None,
        _option(
            "--mechanism",
            MECHANISM,
            "How the synthetic table is made; `jam-dagster mechanisms` lists them.",
            metavar="NAME",
            show_default=DEFAULT_MECHANISM,
        ),
    ),
    "setting": (
        list[str] | None,
        _option(
            "--setting",
            MECHANISM,
            "A setting of the mechanism, such as rounds=10; may be given again. `jam-dagster "
            "mechanisms NAME` lists them with their defaults.",
            metavar="KEY=VALUE",
        ),
    ),
    "degree": (
        int | None,
        _option(
            "--degree",
            MECHANISM,
            "The workload: all marginals of this many attributes.",
            show_default="3",
        ),
    ),
    "clique": (
        list[str] | None,
        _option(
            "--clique",
            MECHANISM,
            "Or a workload of these marginals, each by its attributes; may be given again.",
            metavar="A,B",
        ),
    ),
    "weight": (
        list[float] | None,
        _option("--weight", MECHANISM, "A weight for each --clique, in their order."),
    ),
    "seed": (
        int | None,
        _option(
            "--seed",
            MECHANISM,
            "The seed of `--noise numpy`. A release has no seed: its noise is exact.",
            show_default="0",
        ),
    ),
    "trust_mechanism": (
        list[str] | None,
        _option(
            "--trust-mechanism",
            MECHANISM,
            "A package whose mechanisms this release trusts; may be given again. Without it, a "
            "result of another package's mechanism may not leave.",
            metavar="PACKAGE",
            show_default=False,
        ),
    ),
    "evaluate": (
        Literal["exact", "private", "off"] | None,
        _option(
            "--evaluate",
            EVALUATION,
            "How the errors are measured on the private table: `exact` errors are restricted, as "
            "the table is; `private` ones are measured with noise, and charged.",
            show_default="`private` for a release, `exact` for research",
        ),
    ),
    "evaluation_share": (
        float | None,
        _option(
            "--evaluation-share",
            EVALUATION,
            "The part of the budget that pays private evaluation.",
            show_default="0.05",
        ),
    ),
    "search": (
        bool | None,
        _option(
            "--search/--no-search",
            OUTPUT,
            "Swap sampled rows for others of the model, where that brings the workload closer; "
            "free of budget.",
            show_default="--search",
        ),
    ),
    "retention_days": (
        int | None,
        _option(
            "--retention-days",
            OUTPUT,
            "Keep what is in restricted/ for so many days after the release has ended; then "
            "`private remove --due` removes it.",
            metavar="DAYS",
            show_default="until somebody removes it",
        ),
    ),
}

PRIVATE_STORE = typer.Option(
    metavar="DIR",
    # `jam_dagster.privacy.private_store` defines it, and takes long to import.
    envvar="JAM_PRIVATE",
    rich_help_panel=BUDGET,
    help="The folder, its owner's alone, of the secret by which the ledger knows a source again.",
    show_default="beside the ledger's file; for a ledger on a server, a folder of this user",
)

DEFINITION = typer.Argument(
    metavar="[DEFS.YAML]",
    help="The release's component file, or its folder. Options take the place of what it says.",
    show_default=False,
)

PARTITION = typer.Option(
    metavar="NAME", rich_help_panel=BUDGET, help="The partition, where the release has some."
)

Command = TypeVar("Command", bound=Callable[..., None])


def with_release_options(command: Command) -> Command:
    """Give a command the options of a release; it gets them as keyword arguments.

    A decorator for a command that takes ``**options``: those of a release stand in its help.
    """
    own = inspect.signature(command, eval_str=True)
    parameters = [
        one for one in own.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    for name, (kind, option) in _RELEASE.items():
        parameters.append(
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=Annotated[kind, option],
            )
        )
    command.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command


def release_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of a command as `jam_dagster.release.options.release_spec` takes them."""
    options = dict(given)
    settings = _settings(options.pop("setting"))
    public, cliques, weights = (options.pop(name) for name in ("public", "clique", "weight"))
    domain, trusted = options.pop("domain"), options.pop("trust_mechanism")
    return options | {
        "public": public_source(public) if public else None,
        "domain": None if domain is None else domain.absolute(),
        "settings": settings or None,
        "cliques": [text.split(",") for text in cliques] if cliques else None,
        "weights": weights or None,
        "trusted_mechanisms": trusted or None,
    }


def _settings(texts: Sequence[str] | None) -> dict[str, Any]:
    """Return the settings of a mechanism, each ``KEY=VALUE``."""
    given = {}
    for text in texts or ():
        key, is_one, value = text.partition("=")
        key = key.strip().replace("-", "_")
        if not is_one or not key:
            raise InputError(f"--setting must be KEY=VALUE, such as rounds=10, got {text!r}.")
        given[key] = value.strip()
    return given
