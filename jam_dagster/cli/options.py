"""The options that more than one command has, each with one name and one meaning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import typer

from jam_dagster.errors import InputError

TABLES, BUDGET, MECHANISM, EVALUATION, OUTPUT = (
    "The tables",
    "The budget",
    "The mechanism",
    "The evaluation",
    "The output",
)

NeighboursName = Literal["replace_one", "add_remove"]
# As `jam_dagster.mechanisms` has it, which a command that needs none must not wait for.
DEFAULT_MECHANISM = "jam_pgm"

EstimatorName = Literal["accelerated", "mirror_descent", "mbi"]
EvaluationName = Literal["exact", "private", "off"]

PUBLIC = typer.Option(
    metavar="TABLE",
    rich_help_panel=TABLES,
    help="A table about the same attributes that is no secret. It may be older, smaller "
    "and biased. Of several, or of one that lacks attributes, each is NAME=TABLE. "
    "None is needed by a mechanism that learns from none, such as aim.",
)

EPSILON = typer.Option(rich_help_panel=BUDGET, help="epsilon of the whole release.")

DELTA = typer.Option(rich_help_panel=BUDGET, help="delta of the whole release.")

DOMAIN = typer.Option(
    metavar="FILE",
    rich_help_panel=TABLES,
    help="The attributes and their values: YAML or JSON, as `domain draft` writes it, or "
    'the papers\' {"attribute": size} for tables of integer codes. Without it the domain '
    "is drafted from the public table.",
)

DATASET = typer.Option(
    metavar="ID",
    rich_help_panel=BUDGET,
    help="The protected dataset that pays. Needed with exact noise.",
)

PRIVATE_STORE = typer.Option(
    metavar="DIR",
    # `jam_dagster.privacy.private_store` defines it, and takes long to import.
    envvar="JAM_PRIVATE",
    rich_help_panel=BUDGET,
    help="The folder, its owner's alone, of the secret by which the ledger knows a source again.",
    show_default="beside the ledger's file; for a ledger on a server, a folder of this user",
)

EDITION = typer.Option(
    metavar="NAME",
    rich_help_panel=BUDGET,
    help="The same release once more is free; a new edition of it is drawn and paid "
    "anew, for example on new data.",
)

NEIGHBOURS = typer.Option(
    rich_help_panel=BUDGET,
    help="What nobody can tell: `replace_one`, a person's rows from another person's; "
    "`add_remove`, nor whether a person is in the table at all.",
)

PRIVACY_UNIT = typer.Option(
    metavar="COLUMN",
    rich_help_panel=BUDGET,
    help="The column of the private table that identifies a person, where one may have "
    "several rows.",
    show_default="every row is a person",
)

MAX_ROWS = typer.Option(
    metavar="K",
    rich_help_panel=BUDGET,
    help="The most rows of a person that are kept, chosen at random; the noise grows with it.",
    show_default="1",
)

RECORDS_SHARE = typer.Option(
    rich_help_panel=BUDGET,
    help="The part of the mechanism's budget that measures the number of rows, where that "
    "is private: with `add_remove`, or more than one row a person.",
    show_default="0.05",
)

NAME = typer.Option(
    metavar="NAME",
    rich_help_panel=MECHANISM,
    help="How the synthetic table is made; `jam-dagster mechanisms` lists them.",
    show_default=DEFAULT_MECHANISM,
)

SETTING = typer.Option(
    metavar="KEY=VALUE",
    rich_help_panel=MECHANISM,
    help="A setting of the mechanism, by its name; may be given again. The options below are the "
    "ones that several mechanisms have; what is not given is the mechanism's own default.",
)

ROUNDS = typer.Option(rich_help_panel=MECHANISM, help="T, the marginals that are selected.")

DEGREE = typer.Option(
    rich_help_panel=MECHANISM,
    help="The workload: all marginals of this many attributes.",
)

ALPHA = typer.Option(
    rich_help_panel=MECHANISM,
    help="The part of a round's budget that measures; the rest selects.",
)

SIZE_LIMIT_MB = typer.Option(rich_help_panel=MECHANISM, help="The largest model, in megabytes.")

ESTIMATOR = typer.Option(
    rich_help_panel=MECHANISM,
    help="How the model is fitted: `accelerated`; `mirror_descent`, the plain rule to "
    "verify it with, slower; or `mbi`, Private-PGM's own, minutes to hours.",
)

ITERATIONS = typer.Option(rich_help_panel=MECHANISM, help="The most steps of a fit.")

TOLERANCE = typer.Option(
    rich_help_panel=MECHANISM,
    help="Trades error for time: an accelerated fit ends when 15 steps lowered its loss "
    "by less than this share. 0 takes all the iterations.",
)

EVALUATE = typer.Option(
    rich_help_panel=EVALUATION,
    help="How the errors are measured on the private table: `exact` errors are "
    "restricted, as the table is; `private` ones are measured with noise, and charged.",
    show_default="`private` for a release, `exact` for research",
)

EVALUATION_SHARE = typer.Option(
    rich_help_panel=EVALUATION,
    help="The part of the budget that pays private evaluation.",
    show_default="0.05",
)


def settings_given(texts: Sequence[str] | None, **options: Any) -> dict[str, Any]:
    """Return the settings of a mechanism that a command was given.

    Parameters
    ----------
    texts
        Each ``KEY=VALUE``.
    **options
        By the names of the settings; None: not given.

    Raises
    ------
    InputError
        If a text is none, or a setting was given twice.
    """
    given = {name: value for name, value in options.items() if value is not None}
    for text in texts or ():
        key, is_one, value = text.partition("=")
        key = key.strip().replace("-", "_")
        if not is_one or not key:
            raise InputError(f"--setting must be KEY=VALUE, such as rounds=10, got {text!r}.")
        if key in given:
            raise InputError(f"{key} was given twice: give it once.")
        given[key] = value.strip()
    return given
