"""`jam-dagster demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from jam_dagster.cli.console import group, print_result
from jam_dagster.cli.options import AsJson
from jam_dagster.errors import InputError

app = group("Simulated people to try everything with.")


@app.command()
def data(
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder for the files.")],
    private_rows: Annotated[int, typer.Option(help="People in the private table.")] = 30_000,
    public_rows: Annotated[int, typer.Option(help="People in the public table.")] = 3_000,
    as_json: AsJson = False,
) -> None:
    """Write the simulated health survey: private.csv, public.csv and domain.yaml.

    Nobody in it exists. The private table is this year's survey of a region; the public one is an
    older and biased survey of the same region.
    """
    from jam_dagster.tables import health_survey, health_survey_domain

    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out} is a file: name a folder.")
    private, public = health_survey(private_rows, public_rows)
    out.mkdir(parents=True, exist_ok=True)
    files = [out / name for name in ("private.csv", "public.csv", "domain.yaml")]
    private.to_csv(files[0], index=False)
    public.to_csv(files[1], index=False)
    health_survey_domain().save(files[2])
    print_result(
        {"files": [str(one) for one in files]},
        f"{out}: private.csv ({private_rows:,} simulated people), public.csv ({public_rows:,}), "
        "domain.yaml",
        as_json=as_json,
    )
