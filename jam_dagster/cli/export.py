"""`jam-dagster export`: what a release holds, for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from jam_dagster.cli.console import group, print_result
from jam_dagster.cli.options import AsJson
from jam_dagster.errors import InputError

app = group("The contents of a release, as files for other tools.")


@app.callback()
def _group() -> None:
    """Export what a release holds, as files for other tools."""


@app.command()
def marginals(
    where: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder of a release that was certified.")
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="A new folder for the tables.")],
    parquet: Annotated[
        bool, typer.Option("--parquet", help="Write Parquet files in place of CSV.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write the noisy marginals that a release measured, one table each.

    ```
    jam-dagster export marginals release --out marginals
    ```

    They are part of the release and cost nothing more. A README in the folder says what they are,
    and `index.csv` has the standard deviation of the noise of each.
    """
    from jam_dagster.certificates import Certificate
    from jam_dagster.mechanisms.loops.transcript import Transcript
    from jam_dagster.reports.marginal_files import save_marginals
    from jam_dagster.tables import Domain

    certificate = Certificate.load(where)
    if not certificate.releasable:
        raise InputError(f"the run may not leave: {'; '.join(certificate.reasons)}")
    paths = save_marginals(
        Transcript.load(where / "transcript"),
        Domain.load(where / "domain.yaml"),
        out,
        release=certificate.key.release,
        budget=(certificate.asked.epsilon, certificate.asked.delta),
        parquet=parquet,
    )
    print_result(
        {"files": [str(one) for one in paths]},
        f"{len(paths)} marginals, an index and a README are in {out}.",
        as_json=as_json,
    )
