"""The certificate as an asset: it verifies where it lies, and its check says what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from jam_dagster.certificates import Certificate, verify
from jam_dagster.pipeline import EvaluationSpec, PrivacySpec
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


def test_a_release_leaves_a_certificate_that_verifies(drawn: Bench) -> None:
    result = drawn.run(["release_certificate"])
    assert result.success, failure(result)
    assert failed(folder(drawn), drawn) == []
    assert releasable(result).passed
    (made,) = result.get_asset_materialization_events()
    told = made.materialization.metadata
    assert told["releasable"].value is True
    assert Path(str(told["page"].value)).is_file()

    # It moves with the release's folder, and the table of another is noticed.
    moved = drawn.releases.rename(drawn.home / "published") / "people"
    assert failed(moved / "release_certificate") == []
    (moved / "synthetic_records.csv").write_text("sex\nF\n")
    assert [name for name, _ in failed(moved / "release_certificate")] == ["file: table"]


def test_the_evaluations_draw_is_certified_too(bench: Bench) -> None:
    wanted = [*UP_TO_SYNTHETIC, "workload_error", "release_certificate"]
    result = bench.run(wanted, **PRIVATE)
    assert result.success, failure(result)
    assert failed(folder(bench), bench) == []
    certificate = Certificate.load(folder(bench))
    assert [one.call.step for one in certificate.draws if one.share == "evaluation"] == [
        "evaluation/means"
    ]
    charged = {event.step for event in bench.events() if event.kind.value == "charged"}
    assert {one.call.step for one in certificate.draws} == charged

    # Made again, for nothing, it says the same.
    again = bench.run(wanted, **PRIVATE)
    assert again.success, failure(again)
    assert Certificate.load(folder(bench)) == certificate


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


def test_a_certificate_is_of_the_run_that_is_there(drawn: Bench) -> None:
    told = failure(drawn.run(["release_certificate"], privacy=PrivacySpec(epsilon=1.5)))
    assert "Materialize jam_pgm" in told


def test_a_ledger_that_was_altered_certifies_nothing(drawn: Bench) -> None:
    import sqlite3

    with sqlite3.connect(drawn.home / "ledger.sqlite") as connection:
        connection.execute("DROP TRIGGER events_no_update")
        connection.execute("UPDATE events SET units = units - 1 WHERE kind = 'charged'")
    told = failure(drawn.run(["release_certificate"]))
    assert "LedgerIntegrityError" in told


@pytest.mark.slow
@pytest.mark.parametrize("neighbours", ["replace_one", "add_remove"])
def test_releases_under_either_relation_verify(bench: Bench, neighbours: str) -> None:
    privacy = PrivacySpec(epsilon=2.0, neighbours=neighbours)  # type: ignore[arg-type]
    wanted = [*UP_TO_SYNTHETIC, "workload_error", "release_certificate"]
    result = bench.run(wanted, privacy=privacy, **PRIVATE)
    assert result.success, failure(result)
    assert failed(folder(bench), bench) == []
    assert Certificate.load(folder(bench)).releasable
