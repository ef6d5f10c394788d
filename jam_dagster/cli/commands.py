"""The commands of `jam-dagster`, in one application."""

from typing import Annotated

import typer

from jam_dagster.cli.benchmark import app as benchmark_app
from jam_dagster.cli.certificate import app as certificate_app
from jam_dagster.cli.console import Commands
from jam_dagster.cli.demo import app as demo_app
from jam_dagster.cli.domain import app as domain_app
from jam_dagster.cli.export import app as export_app
from jam_dagster.cli.ledger import app as ledger_app
from jam_dagster.cli.mechanisms import mechanisms
from jam_dagster.cli.plan import plan
from jam_dagster.cli.synthesize import synthesize
from jam_dagster.version import __version__

app = typer.Typer(
    cls=Commands,
    name="jam-dagster",
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"jam-dagster {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    r"""Differentially private synthetic tables, with the help of public data.

    A first one, in three lines:

    ```
    jam-dagster demo data --out people
    cd people
    jam-dagster synthesize --private people.csv --public survey_2016.csv \
        --domain domain.yaml --epsilon 1 --degree 2 --noise numpy --out research
    ```

    The cost and benefit of a release are planned from public data alone, before it is made:

    ```
    jam-dagster plan --public survey_2016.csv --domain domain.yaml --epsilon 1
    ```

    `--noise numpy` is for trying: nothing is charged, and nothing that it makes may leave. A
    release is drawn with exact noise, and names the ledger and the dataset that pay for it:

    ```
    jam-dagster synthesize ... --ledger ledger.db --dataset people --out release
    jam-dagster ledger show --ledger ledger.db
    jam-dagster certificate verify release --ledger ledger.db
    ```

    `--json` prints what a command did or found as one JSON object.

    The exit status is 0; 2 for bad input; 3 where the privacy budget does not allow it; 1 for
    anything else, such as a run of a benchmark that failed.
    """


app.command()(synthesize)
app.command()(plan)
app.command()(mechanisms)
app.add_typer(domain_app, name="domain")
app.add_typer(ledger_app, name="ledger")
app.add_typer(certificate_app, name="certificate")
app.add_typer(export_app, name="export")
app.add_typer(benchmark_app, name="benchmark")
app.add_typer(demo_app, name="demo")
