"""The certificate as an asset: it verifies where it lies, and its check says what it says."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd
import pytest

from jam_dagster.certificates import Certificate, released_files, verify
from jam_dagster.certificates.signing import Signer
from jam_dagster.errors import SpecificationError
from jam_dagster.pipeline import LedgerResource
from jam_dagster.pipeline.assets import certification
from jam_dagster.pipeline.storage.formats import CODES
from jam_dagster.release import EvaluationSpec, PrivacySpec
from jam_dagster.release.run import read_run, write_run
from jam_dagster.tables import EncodedTable
from tests.budgets import PUBLIC_N
from tests.pipeline.conftest import UP_TO_SYNTHETIC, Bench, failure

PRIVATE: dict[str, Any] = {"evaluation": EvaluationSpec(mode="private", share=0.2)}


def folder(bench: Bench, *, restricted: bool = False) -> Path:
    return (bench.closed if restricted else bench.releases) / "people" / "release_certificate"


def releasable(result: dg.ExecuteInProcessResult) -> dg.AssetCheckEvaluation:
    (found,) = (
        one
        for one in result.get_asset_check_evaluations()
        if one.check_name == "releasable" and one.asset_key.path[-1] == "release_certificate"
    )
    return found


def failed(path: Path, bench: Bench | None = None) -> list[tuple[str, str]]:
    found = verify(path, ledger=None if bench is None else bench.ledger)
    return [(one.name, one.message) for one in found if not one.passed]


@pytest.mark.slow
def test_a_release_leaves_a_certificate_that_verifies(drawn: Bench) -> None:
    result = drawn.run(["release_certificate"])
    assert result.success, failure(result)
    assert failed(folder(drawn), drawn) == []
    assert releasable(result).passed
    (made,) = result.get_asset_materialization_events()
    shown = made.materialization.metadata
    assert shown["releasable"].value is True
    assert Path(str(shown["page"].value)).is_file()

    # It moves with the release's folder, and the table of another is noticed.
    moved = drawn.releases.rename(drawn.home / "published") / "people"
    assert failed(moved / "release_certificate") == []
    (moved / "synthetic_records.csv").write_text("sex\nF\n")
    found = {name for name, _ in failed(moved / "release_certificate")}
    assert found == {"file: table", "the table, sampled again"}


@pytest.mark.slow
def test_research_is_certified_as_not_releasable(bench: Bench) -> None:
    research = {"privacy": PrivacySpec(epsilon=2.0, noise="numpy")}
    result = bench.run([*UP_TO_SYNTHETIC, "release_certificate"], **research)
    assert result.success, failure(result)
    found = releasable(result)
    assert not found.passed
    assert found.severity == dg.AssetCheckSeverity.ERROR
    assert "seeded" in (found.description or "")
    assert failed(folder(bench, restricted=True)) == []
    assert not folder(bench).exists()


@pytest.mark.slow
def test_the_report_and_the_noisy_errors_are_sealed_and_signed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = [*UP_TO_SYNTHETIC, "workload_error", "release_report", "release_certificate"]
    bench.ledger.grant(
        "people", epsilon=bench.budget.epsilon, delta=bench.budget.delta, policy=PUBLIC_N
    )
    signer = Signer.new(bench.home / "signing.pem")
    monkeypatch.setenv("JAM_SIGNING_KEY", str(bench.home / "signing.pem"))
    before = bench.events()
    assert "is not known to the ledger" in failure(bench.run(wanted, **PRIVATE))
    assert bench.events() == before

    bench.ledger.signing_keys.add(signer.public)
    result = bench.run(wanted, **PRIVATE)
    assert result.success, failure(result)
    certificate = Certificate.load(folder(bench))
    assert {"report", "errors"} <= certificate.files.keys()
    found = {one.name: one for one in verify(folder(bench), signing_keys=[signer.public])}
    assert all(one.passed for one in found.values())
    assert found["the outcomes"].checked
    made = folder(bench) / "certificate.json"
    whole, events = made.read_bytes(), bench.events()
    assert bench.run(wanted, **PRIVATE).success
    assert (made.read_bytes(), bench.events()) == (whole, events)

    report = bench.releases / "people" / "release_report.html"
    errors = bench.releases / "people" / "workload_error.json"
    table = bench.releases / "people" / "synthetic_records.csv"
    for path, changed, finding in (
        (report, ("</body>", "<p>epsilon = 0.001</p></body>"), "file: report"),
        (table, ("\n", "\n\n"), "file: table"),
    ):
        genuine = path.read_text()
        path.write_text(genuine.replace(*changed))
        assert finding in [name for name, _ in failed(folder(bench))]
        assert "is not the file that was made" in failure(
            bench.run(["release_certificate"], **PRIVATE)
        )
        path.write_text(genuine)

    # So is a domain that somebody puts in place before the files are sealed.
    def swapped(**files: Any) -> Any:
        files["domain"].write_text(files["domain"].read_text().replace("elsewhere", "nowhere"))
        return released_files(**files)

    with monkeypatch.context() as patch:
        patch.setattr(certification, "released_files", swapped)
        assert "domain.yaml is not the file that was made" in failure(
            bench.run(["release_certificate"], **PRIVATE)
        )
    # A page tells of a table and of errors as they were made, too.
    records = table.with_suffix(".parquet")
    rows = pd.read_parquet(records)
    others = rows.iloc[::-1].reset_index(drop=True)
    others.attrs = rows.attrs
    for path, name in ((errors, "workload_error"), (records, "synthetic_records")):
        content = path.read_bytes()
        if path == records:
            others.to_parquet(path, index=False)
        else:
            path.write_bytes(content.replace(b'"sigma": ', b'"sigma": 1'))
        assert f"people/{name} in the store of releases is not what its step wrote" in failure(
            bench.run(["release_report"], **PRIVATE)
        )
        path.write_bytes(content)
    # It tells of the run, its guarantee and the public table, too.
    (stored,) = (bench.releases / "people").glob("*.run")
    run = read_run(stored)
    promised = replace(run.release, epsilon=0.001)
    loss = replace(run.transcript, rho_spent=run.transcript.rho_spent / 2)
    kept = bench.home / "genuine"
    shutil.copytree(stored, kept)
    for forged in (replace(run, release=promised), replace(run, transcript=loss)):
        write_run(forged, stored)
        for name in ("release_report", "release_certificate"):
            message = failure(bench.run([name], **PRIVATE))
            assert "people/jam_pgm in the store of releases is not what its step wrote" in message
        shutil.rmtree(stored)
        shutil.copytree(kept, stored)
    (codes,) = (bench.releases / "people").glob("public_discretized*")
    genuine_codes = codes.read_bytes()
    public = CODES.read(codes)
    CODES.write(EncodedTable(public.domain, (public.columns[0] * 0, *public.columns[1:])), codes)
    message = failure(bench.run(["release_report"], **PRIVATE))
    assert "people/public_discretized in the store of releases is not what its step" in message
    codes.write_bytes(genuine_codes)
    assert bench.run(["release_report", "release_certificate"], **PRIVATE).success
    assert (made.read_bytes(), bench.events()) == (whole, events)

    # The page of another run is not certified with this one.
    report.write_text(report.read_text().replace('name="jam-run" content="', 'name="jam-run" x="'))
    message = failure(bench.run(["release_certificate"], **PRIVATE))
    assert "Materialize release_report first" in message


@pytest.mark.slow
def test_exact_errors_are_not_sealed(bench: Bench) -> None:
    exact = {"evaluation": EvaluationSpec(mode="exact")}
    result = bench.run([*UP_TO_SYNTHETIC, "workload_error", "release_certificate"], **exact)
    assert result.success, failure(result)
    assert "errors" not in Certificate.load(folder(bench)).files


def test_a_key_in_the_configuration_is_refused() -> None:
    with pytest.raises(SpecificationError, match="make a new key"):
        LedgerResource(url="x", signing_key="-----BEGIN PRIVATE KEY-----").signer()
    with pytest.raises(SpecificationError, match="NOT_SET_ANYWHERE"):
        LedgerResource(url="x", signing_key="${NOT_SET_ANYWHERE}").signer()
