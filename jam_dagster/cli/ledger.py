"""`jam-dagster ledger`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    pass

app = typer.Typer(
    help="Who spent what on which protected dataset.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

LedgerOption = Annotated[
    str, typer.Option("--ledger", metavar="FILE", help="The ledger: a file or a SQLAlchemy URL.")
]
