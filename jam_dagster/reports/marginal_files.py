"""The measured marginals of a release as files for other tools: counts with their noise."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from jam_dagster.common.deferred import pd
from jam_dagster.common.files import write_whole
from jam_dagster.common.html_pages import environment
from jam_dagster.common.shown_text import one_line
from jam_dagster.errors import InputError

if TYPE_CHECKING:
    from jam_dagster.mechanisms.loops.transcript import Transcript
    from jam_dagster.models.measurement import Measurement
    from jam_dagster.tables import Domain


def save_marginals(
    transcript: Transcript,
    domain: Domain,
    folder: Path,
    *,
    release: str,
    budget: tuple[float, float],
    parquet: bool = False,
) -> list[Path]:
    """Write every private measurement of a release as a table, with an index and a README.

    The folder is new or empty, and the run may leave. Tables are returned in the order of their
    measurement.
    """
    if not transcript.releasable or domain.restricted:
        raise InputError(
            "the run may not leave: its noise is seeded, or its domain is from private data"
        )
    measured = [one for one in transcript.measurements if one.source == "private"]
    if not measured:
        raise InputError("the release measured no marginal")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} is a file or holds files: name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    digits = len(str(len(measured)))
    paths, index = [], []
    for number, one in enumerate(measured, 1):
        path = folder / f"marginal_{number:0{digits}}.{'parquet' if parquet else 'csv'}"
        table = marginal_table(one, domain)
        write_whole(path, table.to_parquet() if parquet else table.to_csv(index=False).encode())
        paths.append(path)
        index.append((path.name, " x ".join(one.clique), len(table), one.sigma, one.step))
    listed = pd.DataFrame(index, columns=["file", "attributes", "cells", "sigma", "draw"])
    write_whole(folder / "index.csv", listed.to_csv(index=False).encode())
    readme = environment("jam_dagster.reports").get_template("marginals.md")
    text = readme.render(
        count=len(measured),
        release=one_line(release),
        epsilon=budget[0],
        delta=budget[1],
        records=transcript.records,
        public=transcript.neighbours.records_public,
    )
    write_whole(folder / "README.md", f"{text}\n".encode())
    return paths


def marginal_table(measured: Measurement, domain: Domain) -> pd.DataFrame:
    """Return a row for each cell of a measured marginal: its labels, and the noisy count."""
    codes = np.unravel_index(np.arange(measured.values.size), measured.values.shape)
    columns: dict[str, object] = {}
    for name, own in zip(measured.clique, codes, strict=True):
        attribute = domain.attribute(name)
        labels = np.array(attribute.labels, dtype=object)
        if attribute.null_code is not None:
            labels[attribute.null_code] = None
        columns[name] = labels[own]
    count = "count"
    while count in columns:
        count = f"noisy_{count}"
    return pd.DataFrame({**columns, count: measured.values.ravel()})
