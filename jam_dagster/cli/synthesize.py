"""`jam-dagster synthesize`."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jam_dagster.cli.console import echo, print_json, source, stderr, stdout_kept_clean
from jam_dagster.cli.options import (
    DEFINITION,
    PARTITION,
    PRIVATE_STORE_FOLDER,
    AsJson,
    release_options,
    with_release_options,
)
from jam_dagster.cli.progress import progress
from jam_dagster.keys import Panel

if TYPE_CHECKING:
    from jam_dagster.release import Synthesis, SynthesisRequest


@with_release_options
def synthesize(
    out: Annotated[
        Path,
        typer.Option(
            metavar="DIR", rich_help_panel=Panel.OUTPUT, help="The folder for the release's files."
        ),
    ],
    definition: Annotated[Path | None, DEFINITION] = None,
    private: Annotated[
        str | None,
        typer.Option(
            metavar="TABLE",
            rich_help_panel=Panel.TABLES,
            help="The table to protect: a .csv or .parquet file, or a source in JSON, such as "
            """'{"csv": "people.csv", "separator": ";"}'.""",
        ),
    ] = None,
    partition: Annotated[str, PARTITION] = "",
    ledger: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=Panel.BUDGET,
            help="The ledger that is charged: a file or a SQLAlchemy URL. A new one grants the "
            "dataset what this release asks for. Needed with exact noise.",
        ),
    ] = None,
    records_public: Annotated[
        bool,
        typer.Option(
            "--records-public",
            rich_help_panel=Panel.BUDGET,
            help="A new ledger's grant says that the number of private records is public: the "
            "table has one fixed set of people, and replace_one neighbours do not hide how many.",
        ),
    ] = False,
    private_store: Annotated[Path | None, PRIVATE_STORE_FOLDER] = None,
    signing_key: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=Panel.OUTPUT,
            help="The private key that signs the certificate, a file that its owner alone may "
            "read. JAM_SIGNING_KEY in the environment can hold the key, or its path, too.",
        ),
    ] = None,
    checks: Annotated[
        bool | None,
        typer.Option(
            "--checks/--no-checks",
            rich_help_panel=Panel.OUTPUT,
            help="Check the synthetic table against its domain and the measurements; it takes "
            "some seconds.",
            show_default="made with exact noise",
        ),
    ] = None,
    report: Annotated[
        bool | None,
        typer.Option(
            "--report/--no-report",
            rich_help_panel=Panel.OUTPUT,
            help="Write the report, one page in HTML; it takes some seconds.",
            show_default="written with exact noise",
        ),
    ] = None,
    types: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN=TYPE,...",
            rich_help_panel=Panel.TABLES,
            help="Without a public table and a domain: the types of columns, category, integer, "
            "number, date or datetime, such as age=integer,born=date:%d.%m.%Y; none leaves a "
            "column out.",
            show_default="the schema's, or category",
        ),
    ] = None,
    as_json: AsJson = False,
    **options: Any,
) -> None:
    r"""Make a synthetic table that is differentially private.

    Try it, for free, on the papers' integer-coded tables:

    ```
    jam-dagster synthesize --private priv.csv --public pub.csv \
        --domain domain.json --epsilon 1 --noise numpy --out research
    ```

    Make the release of a Dagster component's file:

    ```
    jam-dagster synthesize defs/people/defs.yaml --ledger ledger.db --out release
    ```

    Make a release from options; its errors are measured in a way that may leave, too:

    ```
    jam-dagster synthesize --private people.csv --public survey.csv \
        --domain domain.yaml --epsilon 1 --ledger ledger.db --dataset people \
        --records-public --out release
    ```

    Without a public table and a code book, the budget buys values and edges:

    ```
    jam-dagster synthesize --private people.csv --types age=integer \
        --epsilon 1 --neighbours add_remove --ledger ledger.db --dataset people \
        --out release
    ```

    The folder holds the synthetic table (synthetic.csv; synthetic.parquet of more than
    a million rows), its domain, its checks (checks.html), the report (report.html), the
    certificate (certificate.html, and certificate.json for `certificate verify`), the
    transcript and the model; in `restricted/`, what may not leave. A release that was
    interrupted continues where it stopped when the same command is given again: no draw is
    paid twice.
    """
    from jam_dagster.errors import InputError
    from jam_dagster.release import SynthesisRequest
    from jam_dagster.tables.drafting.paid_draft import types_in

    given = release_options(options)
    if types is not None:
        if given.get("domain") is not None:
            raise InputError("--types is for a release without --domain: the domain has types.")
        given["domain"] = {"identify": "paid", "types": types_in(types)}
    with stdout_kept_clean() if as_json else nullcontext():
        request = SynthesisRequest.of(
            definition,
            out=out,
            partition=partition,
            ledger=ledger,
            records_public=records_public,
            private_store=private_store,
            checks=checks,
            report=report,
            signing_key=None if signing_key is None else str(signing_key),
            private=None if private is None else source(private),
            **given,
        )
        made = _run(request)
    if as_json:
        print_json(made.to_dict())
    else:
        _print_summary(made)


def _run(request: SynthesisRequest) -> Synthesis:
    from jam_dagster.release import synthesize

    with progress(stderr()) as shown:
        return synthesize(request, shown)


def _print_summary(made: Synthesis) -> None:
    from jam_dagster.privacy import describe_rho
    from jam_dagster.reports.mechanism_text import picks_text

    verdict = made.verdict
    if made.errors.restricted:
        echo(f"{'Restricted':<20}the errors below are exact statistics of private data")
    for name, note in zip_longest(["Verdict"], verdict.sentences):
        echo(f"{name or '':<20}{note}")
    for one in made.errors.utility:
        scores = (f"{name} {score.auc:.3f}" for name, score in one.scores.items())
        echo(
            f"{one.target:<20}area under the ROC curve, by what was trained on: {', '.join(scores)}"
        )
    for fit in made.errors.regressions:
        found = (
            f"{name} {', '.join(f'{value:.4g}' for value in values)}"
            for name, values in fit.coefficients.items()
        )
        echo(f"{fit.formula:<20}coefficients: {'; '.join(found)}")
    lines = {"Synthetic table": f"{made.table_path} ({made.rows:,} rows)"}
    if made.report is not None:
        lines["Report"] = str(made.report)
    if made.restricted_report is not None:
        lines["Restricted report"] = str(made.restricted_report)
    lines["Certificate"] = str(made.certificate)
    budget, transcript = made.made.spec.budget, made.made.run.transcript
    lines["Privacy budget"] = describe_rho(budget.rho, budget.converts_at)
    lines["Privacy spent"] = describe_rho(made.rho_spent, budget.converts_at)
    lines["Rounds"] = picks_text(made.made.spec.mechanism.name, transcript.picks)
    lines["Rounding to rows"] = f"{made.sampling_error:.4f}, from the model to the table"
    if made.checks_page is not None:
        passed = len(made.checks) - verdict.failed - verdict.skipped
        skipped = f", {verdict.skipped} not measured" if verdict.skipped else ""
        lines["Checks"] = f"{passed} of {len(made.checks)} passed{skipped}: {made.checks_page}"
    lines["May it leave"] = (
        "the synthetic table may leave" if made.releasable else "the synthetic table may not leave"
    )
    lines["Took"] = f"{made.seconds['total']:.1f} s, {made.peak_memory_mb:,.0f} MB"
    for name, line in lines.items():
        echo(f"{name:<20}{line}")
