"""`jam-dagster demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from jam_dagster.cli.console import group, tell
from jam_dagster.errors import InputError

app = group("Simulated people to try everything with.")


@app.command()
def data(
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder for the files.")],
    private_rows: Annotated[int, typer.Option(help="People in the private table.")] = 30_000,
    public_rows: Annotated[int, typer.Option(help="People in the public table.")] = 3_000,
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
    private.to_csv(out / "private.csv", index=False)
    public.to_csv(out / "public.csv", index=False)
    health_survey_domain().save(out / "domain.yaml")
    tell(
        f"{out}: private.csv ({private_rows:,} simulated people), public.csv ({public_rows:,}), "
        "domain.yaml",
    )
