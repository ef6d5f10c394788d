"""`jam-dagster benchmark split`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from jam_dagster.cli.console import echo, source
from jam_dagster.errors import InputError

TOLERANCE = 0.005
STRATIFIED, TARGETED, BOTH = "Variable stratification", "Public error targeting", "Both"


def split(
    table: Annotated[
        str, typer.Argument(metavar="TABLE", help="All records, a .csv or .parquet file.")
    ],
    domain: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="The attributes and their values, as `domain draft` writes them."
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="DIR",
            help="The folder of the split; a benchmark knows it by its name, with --data the "
            "folder above.",
        ),
    ],
    public_rows: Annotated[
        int, typer.Option(rich_help_panel=BOTH, help="Rows of the public table.")
    ],
    by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            rich_help_panel=STRATIFIED,
            help="The column of which one value is over- or underrepresented.",
        ),
    ] = None,
    value: Annotated[
        str | None, typer.Option(rich_help_panel=STRATIFIED, help="That value.")
    ] = None,
    public_share: Annotated[
        float | None, typer.Option(rich_help_panel=STRATIFIED, help="Its share of the public rows.")
    ] = None,
    private_share: Annotated[
        float | None,
        typer.Option(
            rich_help_panel=STRATIFIED,
            help="Its share of the private rows.",
            show_default="what is left",
        ),
    ] = None,
    private_rows: Annotated[
        int | None,
        typer.Option(
            rich_help_panel=STRATIFIED,
            help="Rows of the private table.",
            show_default="all that are left",
        ),
    ] = None,
    target_error: Annotated[
        float | None,
        typer.Option(
            rich_help_panel=TARGETED, help="The mean workload error of the public table, 0 to 2."
        ),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            rich_help_panel=TARGETED,
            help="How far from it the error may end.",
            show_default=str(TOLERANCE),
        ),
    ] = None,
    degree: Annotated[
        int, typer.Option(rich_help_panel=BOTH, help="The workload: all marginals of so many.")
    ] = 3,
    seed: Annotated[int, typer.Option(rich_help_panel=BOTH, help="Of everything random.")] = 0,
) -> None:
    r"""Make a private and a public table from one, as the JAM paper makes its splits.

    Either a value of a column has given shares, as 25% women of private and 75% of public rows:

    ```
    jam-dagster benchmark split adult.csv --domain adult.yaml --out splits/adult_075 \
        --by sex --value Female --public-share 0.75 --private-share 0.25 \
        --public-rows 3238 --private-rows 32384
    ```

    or the public rows have a given error:

    ```
    jam-dagster benchmark split adult.csv --domain adult.yaml --out splits/adult_target \
        --target-error 0.4 --public-rows 3238
    ```

    What is made, and the error that is printed, is for experiments: rows set aside are taken for
    public, and errors are exact.
    """
    from jam_dagster.benchmark.data import write_split
    from jam_dagster.evaluation.error_targeted_split import error_targeted_split
    from jam_dagster.evaluation.workload_error import table_errors
    from jam_dagster.tables import Domain, Workload, encode, stratified_split

    stratified = {"--by": by, "--value": value, "--public-share": public_share}
    lacking = [name for name, given in stratified.items() if given is None]
    if (target_error is None) == (len(lacking) == 3) or (target_error is None and lacking):
        raise InputError(
            "Give either --by, --value and --public-share, or --target-error: a split has one "
            "construction."
        )
    other = (
        {"--tolerance": tolerance}
        if target_error is None
        else {"--private-share": private_share, "--private-rows": private_rows}
    )
    for name, given in other.items():
        if given is not None:
            has = "--by" if target_error is None else "--target-error"
            raise InputError(f"{name} does nothing with {has}: leave it out.")
    tolerance = TOLERANCE if tolerance is None else tolerance
    own = Domain.load(domain)
    workload = Workload.all_k_way(own, degree)
    records = source(table).read(private=True)
    how: dict[str, object] = {"table": table, "public_rows": public_rows, "seed": seed}
    if by is not None and value is not None and public_share is not None:
        private_records, public_records = stratified_split(
            records,
            by=by,
            value=value,
            public_share=public_share,
            public_rows=public_rows,
            private_share=private_share,
            private_rows=private_rows,
            seed=seed,
        )
        private, public = (encode(one, own) for one in (private_records, public_records))
        (error,) = table_errors(private, [public], workload)
        reached = error.mean
        how |= {"by": by, "value": value, "public_share": public_share}
        how |= {"private_share": private_share, "private_rows": private_rows}
    else:
        made = error_targeted_split(
            encode(records, own),
            target=float(target_error or 0.0),
            public_rows=public_rows,
            workload=workload,
            tolerance=tolerance,
            seed=seed,
        )
        private, public, reached = made.private, made.public, made.error
        how |= {"target_error": target_error, "tolerance": tolerance}
    how |= {"degree": degree, "error": reached}
    write_split(out, private, public, how)
    echo(
        f"{out}: {private.records:,} private and {public.records:,} public rows; the public table "
        f"has error {reached:.4f} (all {degree}-way marginals)"
    )
