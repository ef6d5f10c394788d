"""`jam-dagster demo`."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from jam_dagster.cli.console import group, print_result
from jam_dagster.cli.options import AsJson
from jam_dagster.common.files import write_whole
from jam_dagster.errors import InputError

app = group("Simulated people to try everything with.")


@app.command()
def data(
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder for the files.")],
    as_json: AsJson = False,
) -> None:
    """Write the simulated health survey: people.csv, survey_2016.csv and domain.yaml.

    Nobody in it exists. The private table, people.csv, is this year's survey of a region; the
    public one is an older and biased survey of the same region.
    """
    from jam_dagster.tables import health_survey, health_survey_domain

    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out} is a file: name a folder.")
    private, public = health_survey()
    with TemporaryDirectory() as drawn:
        private.to_csv(Path(drawn, "people.csv"), index=False)
        public.to_csv(Path(drawn, "survey_2016.csv"), index=False)
        health_survey_domain().save(Path(drawn, "domain.yaml"))
        contents = {out / file.name: file.read_bytes() for file in sorted(Path(drawn).iterdir())}
    # Somebody's own table may have such a name, and be the only copy.
    if others := [file for file, content in contents.items() if _is_another(file, content)]:
        raise InputError(f"{others[0]} exists and is another file: name another folder as --out.")
    out.mkdir(parents=True, exist_ok=True)
    for file, content in contents.items():
        write_whole(file, content)
    print_result(
        {"files": [str(file) for file in contents]},
        f"{out}: people.csv ({len(private):,} simulated people), survey_2016.csv "
        f"({len(public):,}), domain.yaml",
        as_json=as_json,
    )


def _is_another(file: Path, content: bytes) -> bool:
    return file.exists() and not (file.is_file() and file.read_bytes() == content)
