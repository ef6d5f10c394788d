"""`jam-dagster export`: what other tools take from a release."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from jam_dagster.certificates import Certificate
from jam_dagster.mechanisms.loops.transcript import Transcript
from tests.cli_bench import RELEASE, RESEARCH, Run, synthesize


def test_the_measured_marginals_of_a_release(run: Run) -> None:
    made = run(*synthesize(*RELEASE, "--mechanism", "aim", "--setting", "rounds=6"))
    assert made.exit_code == 0, made.output
    result = run("export", "marginals", "out", "--out", "tables", "--json")

    assert result.exit_code == 0, result.output
    transcript = Transcript.load(Path("out/transcript"))
    measured = [one for one in transcript.measurements if one.source == "private"]
    index = pd.read_csv("tables/index.csv")
    assert len(measured) == len(index) == len(json.loads(result.stdout)["files"]) > 0
    for one, (_, row) in zip(measured, index.iterrows(), strict=True):
        table = pd.read_csv(Path("tables") / row["file"])
        assert table.columns.tolist() == [*one.clique, "count"]
        assert row["sigma"] == one.sigma > 0
        np.testing.assert_allclose(table["count"], one.values.ravel())
    readme = Path("tables/README.md").read_text()
    assert f"{len(measured)} marginals" in readme
    assert "epsilon = 1 and delta = 1e-09" in readme

    again = run("export", "marginals", "out", "--out", "tables", "--parquet")
    assert again.exit_code == 2
    assert "tables is a file or holds files: name another folder" in again.stderr

    # In Dagster's stores a certificate has a folder of its own, next to those of its files.
    certificate = Certificate.load(Path("out"))
    moved = {
        name: replace(one, path=f"../out/{one.path}") for name, one in certificate.files.items()
    }
    replace(certificate, files=moved).save(Path("proof"))
    stored = run("export", "marginals", "proof", "--out", "others")
    assert stored.exit_code == 0, stored.output
    assert Path("others/index.csv").read_bytes() == Path("tables/index.csv").read_bytes()


def test_research_is_not_exported(run: Run) -> None:
    assert run(*synthesize(*RESEARCH)).exit_code == 0

    result = run("export", "marginals", "out", "--out", "tables")

    assert result.exit_code == 2
    assert "may not leave: " in result.stderr
    assert not Path("tables").exists()


def test_marginals_that_were_altered_are_not_exported(released: Run) -> None:
    for name in ("domain.yaml", "transcript/transcript.json"):
        path = Path("out") / name
        content = path.read_text()
        path.write_text(content + "\n")

        result = released("export", "marginals", "out", "--out", "tables")

        assert result.exit_code == 2
        assert "was altered: its SHA-256 is another" in result.stderr
        assert not Path("tables").exists()
        path.write_text(content)
