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
    from jam_dagster.certificates.held import Held
    from jam_dagster.certificates.verification import releasable_certificate
    from jam_dagster.reports.marginal_files import save_marginals

    certificate = releasable_certificate(where)
    held = Held(certificate, where, {}, None)
    for name in ("domain", "transcript", "measurements"):
        if fault := held.fault_of(name):
            raise InputError(fault)
    paths = save_marginals(
        held.transcript,
        held.domain,
        out,
        release=certificate.release_id.release,
        budget=(certificate.asked.epsilon, certificate.asked.delta),
        parquet=parquet,
    )
    print_result(
        {"files": [str(one) for one in paths]},
        f"{len(paths)} marginals, an index and a README are in {out}.",
        as_json=as_json,
    )


@app.command()
def croissant(
    where: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder of a release that was certified.")
    ],
    out: Annotated[
        Path,
        typer.Option(metavar="FILE", help="The .json file, in the folder of the release or above."),
    ],
    url: Annotated[str, typer.Option(metavar="URL", help="The page of the published table.")],
    license: Annotated[  # noqa: A002
        str, typer.Option(metavar="URL", help="Its licence, such as one of spdx.org/licenses.")
    ],
    creator: Annotated[
        list[str], typer.Option(metavar="NAME", help="Who publishes it; again for each.")
    ],
    published: Annotated[
        str | None,
        typer.Option(metavar="DATE", help="The day of publication.", show_default="today"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    r"""Write Croissant 1.1 metadata of a synthetic table, with its certificate as provenance.

    ```
    jam-dagster export croissant release --out release/croissant.json \
        --url https://example.org/survey --creator "Statistical Office" \
        --license https://spdx.org/licenses/CC-BY-4.0
    ```
    """
    import json
    from datetime import UTC, date, datetime

    from jam_dagster.common.files import write_whole
    from jam_dagster.reports.croissant import croissant as metadata

    if out.suffix != ".json":
        raise InputError(f"--out {out} must end in .json.")
    try:
        day = datetime.now(UTC).date() if published is None else date.fromisoformat(published)
    except ValueError:
        raise InputError(
            f"--published must be a date such as 2026-05-03, got {published!r}"
        ) from None
    document = metadata(
        where, out, url=url, license=license, creators=creator, published=day.isoformat()
    )
    write_whole(out, (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode())
    print_result({"file": str(out)}, f"{out}: the metadata of the table.", as_json=as_json)


@app.command()
def registry(
    where: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder of a release that was certified.")
    ],
    written: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="A YAML file of what a person writes: data_curators, description, intended_use, "
            "data_product_region, preprocessing_and_hyperparameter_tuning, justification and "
            "registry_authors.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The record, a .yaml file.")],
    as_json: AsJson = False,
) -> None:
    """Write a record for the public registry of deployments of differential privacy.

    ```
    jam-dagster export registry release --written written.yaml --out record.yaml
    ```

    It is a draft of tier 3. Every other field follows from the certificate.
    """
    import yaml

    from jam_dagster.common.files import read_text_bytes, write_whole
    from jam_dagster.common.yaml_text import parse_yaml, write_yaml, yaml_place
    from jam_dagster.reports.registry import registry_record

    if out.suffix not in (".yaml", ".yml"):
        raise InputError(f"--out {out} must end in .yaml.")
    try:
        content = parse_yaml(read_text_bytes(written).decode())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        place = f" {yaml_place(error)}" if isinstance(error, yaml.YAMLError) else ""
        raise InputError(f"--written {written} is not YAML in UTF-8{place}.") from None
    if not isinstance(content, dict):
        raise InputError(f"--written {written} must be a mapping of fields to what they say.")
    record = registry_record(where, content)
    write_whole(out, write_yaml(record).encode())
    print_result({"file": str(out)}, f"{out}: the record, a draft of tier 3.", as_json=as_json)
