"""`jam-dagster synthesize`."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from jam_dagster.cli.console import (
    echo,
    print_json,
    public_source,
    source,
    stderr,
    stdout_kept_clean,
)
from jam_dagster.cli.options import (
    ALPHA,
    BUDGET,
    DATASET,
    DEFAULT_MECHANISM,
    DEGREE,
    DELTA,
    DOMAIN,
    EDITION,
    EPSILON,
    ESTIMATOR,
    EVALUATE,
    EVALUATION_SHARE,
    ITERATIONS,
    MAX_ROWS,
    MECHANISM,
    NAME,
    NEIGHBOURS,
    OUTPUT,
    PRIVACY_UNIT,
    PRIVATE_STORE,
    PUBLIC,
    RECORDS_SHARE,
    ROUNDS,
    SETTING,
    SIZE_LIMIT_MB,
    TABLES,
    TOLERANCE,
    EstimatorName,
    EvaluationName,
    NeighboursName,
    settings_given,
)
from jam_dagster.cli.progress import progress

if TYPE_CHECKING:
    from jam_dagster.release import Synthesis, SynthesisRequest


def synthesize(
    private: Annotated[
        str,
        typer.Option(
            metavar="TABLE",
            rich_help_panel=TABLES,
            help="The table to protect: a .csv or .parquet file, or a source in JSON, such as "
            """'{"csv": "people.csv", "separator": ";"}'.""",
        ),
    ],
    epsilon: Annotated[float, EPSILON],
    out: Annotated[
        Path,
        typer.Option(metavar="DIR", rich_help_panel=OUTPUT, help="The folder for what is made."),
    ],
    public: Annotated[list[str] | None, PUBLIC] = None,
    domain: Annotated[Path | None, DOMAIN] = None,
    delta: Annotated[float, DELTA] = 1e-9,
    noise: Annotated[
        Literal["exact", "numpy"],
        typer.Option(
            rich_help_panel=BUDGET,
            help="`exact` makes a release, charged to a ledger; `numpy` is seeded, charges "
            "nothing, and what it makes may not leave.",
        ),
    ] = "exact",
    ledger: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=BUDGET,
            help="The ledger that is charged: a file or a SQLAlchemy URL. A new one grants the "
            "dataset what this release asks for. Needed with exact noise.",
        ),
    ] = None,
    dataset: Annotated[str | None, DATASET] = None,
    private_store: Annotated[Path | None, PRIVATE_STORE] = None,
    release: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            rich_help_panel=BUDGET,
            help="What the ledger calls this release.",
            show_default="the name of --out",
        ),
    ] = None,
    edition: Annotated[str, EDITION] = "1",
    signing_key: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=OUTPUT,
            help="The private key that signs the certificate, a file that its owner alone may "
            "read. JAM_SIGNING_KEY in the environment can hold the key, or its path, too.",
        ),
    ] = None,
    neighbours: Annotated[NeighboursName, NEIGHBOURS] = "replace_one",
    privacy_unit: Annotated[str | None, PRIVACY_UNIT] = None,
    max_rows: Annotated[int | None, MAX_ROWS] = None,
    records_share: Annotated[float | None, RECORDS_SHARE] = None,
    retention_days: Annotated[
        int | None,
        typer.Option(
            metavar="DAYS",
            rich_help_panel=OUTPUT,
            help="Keep what is in restricted/ for so long after the release has ended; then "
            "`private remove --due` removes it.",
            show_default="until somebody removes it",
        ),
    ] = None,
    mechanism: Annotated[str, NAME] = DEFAULT_MECHANISM,
    trust_mechanism: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PACKAGE",
            rich_help_panel=MECHANISM,
            help="A package whose mechanisms this release trusts; may be given again. Nothing made "
            "by a mechanism of another package than jam-dagster may leave without.",
            show_default=False,
        ),
    ] = None,
    degree: Annotated[int, DEGREE] = 3,
    setting: Annotated[list[str] | None, SETTING] = None,
    rounds: Annotated[int | None, ROUNDS] = None,
    alpha: Annotated[float | None, ALPHA] = None,
    size_limit_mb: Annotated[float | None, SIZE_LIMIT_MB] = None,
    estimator: Annotated[EstimatorName | None, ESTIMATOR] = None,
    iterations: Annotated[int | None, ITERATIONS] = None,
    tolerance: Annotated[float | None, TOLERANCE] = None,
    seed: Annotated[
        int,
        typer.Option(
            rich_help_panel=MECHANISM,
            help="Of `--noise numpy`: of its noise and its sampling. A release has no seed: its "
            "noise is exact, and its sampling follows from what was measured.",
        ),
    ] = 0,
    evaluate: Annotated[EvaluationName | None, EVALUATE] = None,
    evaluation_share: Annotated[float | None, EVALUATION_SHARE] = None,
    checks: Annotated[
        bool | None,
        typer.Option(
            "--checks/--no-checks",
            rich_help_panel=OUTPUT,
            help="Check the synthetic table against its domain and against what was measured; it "
            "takes some seconds.",
            show_default="made with exact noise",
        ),
    ] = None,
    report: Annotated[
        bool | None,
        typer.Option(
            "--report/--no-report",
            rich_help_panel=OUTPUT,
            help="Write the report, one page in HTML; it takes some seconds.",
            show_default="written with exact noise",
        ),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            rich_help_panel=OUTPUT,
            help="Print the result as one JSON object, and nothing else, on standard output.",
        ),
    ] = False,
) -> None:
    r"""Make a synthetic table that is differentially private.

    Try it, for free, on the papers' integer-coded tables:

    ```
    jam-dagster synthesize --private priv.csv --public pub.csv \
        --domain domain.json --epsilon 1 --rounds 10 --noise numpy --out research
    ```

    Make a release; its errors are measured in a way that may leave, too:

    ```
    jam-dagster synthesize --private people.csv --public survey.csv \
        --domain domain.yaml --epsilon 1 --ledger ledger.db --dataset people \
        --out release
    ```

    In the folder lie the synthetic table (synthetic.csv), its domain, its checks
    (checks.html), the report (report.html), the certificate (certificate.html, and
    certificate.json for `certificate verify`), the transcript and the model; in `restricted/`,
    what may not leave. A release that was interrupted goes on where it stopped
    when the same command is given again: no draw is paid
    twice.
    """
    from jam_dagster.release import SynthesisRequest

    with stdout_kept_clean() if as_json else nullcontext():
        made = _run(
            SynthesisRequest(
                private=source(private),
                public=public_source(public) if public else None,
                out=out,
                epsilon=epsilon,
                delta=delta,
                domain=domain,
                mechanism=mechanism,
                settings=settings_given(
                    setting,
                    rounds=rounds,
                    alpha=alpha,
                    size_limit_mb=size_limit_mb,
                    estimator=estimator,
                    iterations=iterations,
                    tolerance=tolerance,
                ),
                trusted_mechanisms=trust_mechanism or (),
                degree=degree,
                seed=seed,
                noise=noise,
                evaluate=evaluate,
                evaluation_share=evaluation_share,
                ledger=ledger,
                dataset=dataset,
                private_store=private_store,
                release=release,
                edition=edition,
                neighbours=neighbours,
                privacy_unit=privacy_unit,
                max_rows=max_rows,
                records_share=records_share,
                retention_days=retention_days,
                checks=checks,
                report=report,
                signing_key=None if signing_key is None else str(signing_key),
            )
        )
    if as_json:
        print_json(made.to_dict())
    else:
        _print_summary(made, mechanism, delta)


def _run(request: SynthesisRequest) -> Synthesis:
    from jam_dagster.release import synthesize

    console = stderr()
    with progress(console) as (on_stage, on_start, on_round):
        return synthesize(
            request,
            on_stage=on_stage,
            on_start=on_start,
            on_round=on_round,
            tell=lambda sentence: console.print(sentence, soft_wrap=True),
        )


def _print_summary(made: Synthesis, mechanism: str, delta: float) -> None:
    from jam_dagster.privacy import describe_rho
    from jam_dagster.reports.mechanism_text import picks_text

    lines = {"Synthetic table": f"{made.output / 'synthetic.csv'} ({made.rows:,} rows)"}
    if made.report is not None:
        lines["Report"] = str(made.report)
    if made.certificate is not None:
        lines["Certificate"] = str(made.certificate)
    lines["Privacy budget"] = describe_rho(made.rho_budget, delta)
    lines["Privacy spent"] = describe_rho(made.rho_spent, delta)
    lines["Rounds"] = picks_text(mechanism, made.picks)
    errors = made.errors
    if errors.restricted:
        lines["Errors"] = "restricted: exact statistics of private data"
    elif errors.synthetic is not None:
        lines["Errors"] = f"measured with noise of standard deviation {errors.sigma:.4f}"
    for name, error in errors.to_dict().items():
        if error is not None:
            lines[f"Error, {name}"] = f"{error['mean']:.4f}"
    if errors.sample_equivalent is not None:
        lines["As good as"] = (
            f"a random sample of {errors.sample_equivalent:,} of {made.rows:,} records"
        )
    lines["Rounding to rows"] = f"{made.sampling_error:.4f}, from the model to the table"
    if made.checks_page is not None:
        passed = sum(check.passed for check in made.checks)
        lines["Checks"] = f"{passed} of {len(made.checks)} passed: {made.checks_page}"
    lines["May it leave"] = (
        "the synthetic table may leave" if made.releasable else "the synthetic table may not leave"
    )
    lines["Took"] = f"{made.seconds['total']:.1f} s, {made.peak_memory_mb:,.0f} MB"
    for name, line in lines.items():
        echo(f"{name:<20}{line}")
