"""What earlier runs left in the store is never combined with another release's configuration."""

from typing import Any

import dagster as dg
import pandas as pd
import pytest

from jam_dagster.pipeline import EvaluationSpec, PrivacySpec
from jam_dagster.privacy import DirectoryStore
from jam_dagster.privacy.private_store import SOURCE_KEY_FILE
from jam_dagster.tables import Domain
from tests.moved import bind_again
from tests.pipeline.conftest import UP_TO_SYNTHETIC, Bench, failure
from tests.pipeline.test_build import metadata, synthetic

# One worker draws the release that all of them begin with.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("drawn")]

PRIVATE = EvaluationSpec(mode="private", share=0.2)
OTHER_YAML = PrivacySpec(epsilon=0.01, edition="3")
NEXT_EDITION = PrivacySpec(epsilon=2.0, edition="2")
OTHER_DOMAIN = Domain.from_dict(
    {
        "attributes": {
            "sex": {"values": ["F", "M"]},
            "town": {"values": ["Aix", "elsewhere"], "other": "elsewhere"},
            "job": {"values": ["clerk", "nurse", "none"]},
            "age": {"edges": [0, 50, 100], "integer": True, "outside": "clip", "nullable": True},
        }
    }
)


def page(bench: Bench) -> str:
    return (bench.releases / "people" / "release_report.html").read_text()


@pytest.mark.parametrize("asset", ["synthetic_records", "release_report"])
def test_nothing_is_made_of_a_run_that_was_drawn_under_other_yaml(drawn: Bench, asset: str) -> None:
    result = drawn.run([asset], privacy=OTHER_YAML)
    message = failure(result)
    assert "InputError" in message
    assert "epsilon 2 at delta 1e-09" in message
    assert "Materialize jam_pgm first" in message
    assert not (drawn.releases / "people" / "release_report.html").exists()


def test_checks_judge_no_table_of_another_release(drawn: Bench) -> None:
    job = drawn.definitions(privacy=OTHER_YAML).resolve_implicit_global_asset_job_def()
    key = dg.AssetCheckKey(dg.AssetKey(["people", "synthetic_records"]), "releasable")
    columns = dg.AssetCheckKey(dg.AssetKey(["people", "synthetic_records"]), "schema")
    for one in (key, columns):
        result = job.get_subset(asset_selection=set(), asset_check_selection={one})
        done = result.execute_in_process(instance=drawn.instance, raise_on_error=False)
        assert "Materialize jam_pgm first" in failure(done)
        assert not done.get_asset_check_evaluations()


def test_report_states_the_guarantee_that_was_paid_for(drawn: Bench) -> None:
    assert drawn.run(["release_report"]).success
    assert "&epsilon; = 2" in page(drawn) or "ε = 2" in page(drawn)


def test_report_tells_nothing_of_a_table_from_another_run(drawn: Bench) -> None:
    path = drawn.releases / "people" / "synthetic_records.parquet"
    table = pd.read_parquet(path)
    table.attrs = {"jam_dagster.run": "another"}
    table.to_parquet(path, index=False)
    message = failure(drawn.run(["release_report"]))
    assert "synthetic_records of release people belong to another run than jam_pgm" in message


@pytest.mark.parametrize("change", ["edition", "mode"])
def test_error_alone_opens_no_reservation(drawn: Bench, change: str) -> None:
    """Edition 1 was drawn with the whole budget; neither of these releases was."""
    changes: dict[str, Any] = {"evaluation": PRIVATE}
    if change == "edition":
        changes["privacy"] = NEXT_EDITION
        assert drawn.run(["private_records", "private_discretized"], **changes).success
    events = drawn.events()
    message = failure(drawn.run(["workload_error"], **changes))
    assert "Materialize jam_pgm first" in message
    assert drawn.events() == events


def test_error_of_another_run_is_not_reported(drawn: Bench) -> None:
    assert drawn.run(evaluation=PRIVATE).success
    following: dict[str, Any] = {"evaluation": PRIVATE, "privacy": NEXT_EDITION}
    assert drawn.run(UP_TO_SYNTHETIC, **following).success
    message = failure(drawn.run(["release_report"], **following))
    assert "workload_error of release people belong to another run" in message


def test_new_edition_is_not_drawn_from_what_was_ingested_for_the_old(drawn: Bench) -> None:
    events = drawn.events()
    message = failure(drawn.run(["jam_pgm"], privacy=NEXT_EDITION))
    assert "was read for edition 1, not for edition 2" in message
    assert "Materialize private_records and private_discretized" in message
    assert drawn.events() == events
    # Encoding what is left over again does not make it new.
    message = failure(drawn.run(["private_discretized", "jam_pgm"], privacy=NEXT_EDITION))
    assert "was read for edition 1, not for edition 2" in message
    assert drawn.events() == events


def test_release_says_whether_it_was_made_again(
    bench: Bench, capfd: pytest.CaptureFixture[str]
) -> None:
    first = bench.run(UP_TO_SYNTHETIC)
    assert metadata(first, "jam_pgm")["made_again"] is False
    private = pd.read_csv(bench.private)
    private.assign(sex="F").to_csv(bench.private, index=False)
    table = synthetic(bench)
    again = bench.run(UP_TO_SYNTHETIC)
    assert metadata(again, "jam_pgm")["made_again"] is True
    pd.testing.assert_frame_equal(synthetic(bench), table)
    output = [
        record.user_message
        for record in bench.instance.all_logs(again.run_id)
        if record.step_key == "people__jam_pgm"
    ]
    assert any("raise privacy.edition" in one for one in output)


@pytest.mark.parametrize("side", ["private_discretized", "public_discretized"])
def test_tables_over_different_domains_are_refused(drawn: Bench, side: str) -> None:
    bind_again(drawn.ledger, drawn.private, drawn.closed / SOURCE_KEY_FILE)
    assert drawn.run(["private_records"]).success
    events = drawn.events()
    result = drawn.run(["domain", side, "jam_pgm"], domain=OTHER_DOMAIN)
    message = failure(result)
    stale = {"private_discretized", "public_discretized"} - {side}
    assert "DomainError" in message
    assert f"{stale.pop()} of release people and the release's domain differ" in message
    # What opens the private table over another domain is another release, which is reserved.
    later = {event.kind.value for event in drawn.events()[len(events) :]}
    assert later <= {"reserved"}


def test_tables_over_an_undeclared_domain_are_refused(drawn: Bench) -> None:
    message = failure(drawn.run(["jam_pgm"], domain=OTHER_DOMAIN))
    assert "public_discretized and private_discretized of release people" in message


# The evaluation's share ------------------------------------------------------------------------


def assert_release_ends_without_errors(bench: Bench, spent: float) -> None:
    result = bench.run(["workload_error", "release_report"], evaluation=PRIVATE)
    assert result.success, failure(result)
    shown = metadata(result, "workload_error")
    assert shown["mode"] == "off"
    assert shown["rho_spent"] == pytest.approx(spent, rel=1e-4)
    assert "unknown" in shown["note"]
    assert "synthetic_mean" not in shown
    (check,) = (
        one
        for one in result.get_asset_check_evaluations()
        if one.check_name == "better_than_public"
    )
    assert not check.passed
    assert check.severity is dg.AssetCheckSeverity.WARN
    assert "unknown" in (check.description or "")
    assert "mean error" not in page(bench)
    assert bench.ledger.balance("people").reserved == 0


def test_report_is_made_when_the_evaluation_was_lost(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bench.run(UP_TO_SYNTHETIC, evaluation=PRIVATE).success
    put = DirectoryStore.put

    def loses(self: DirectoryStore, step: str, outcome: Any) -> None:
        raise OSError

    monkeypatch.setattr(DirectoryStore, "put", loses)
    assert not bench.run(["workload_error"], evaluation=PRIVATE).success
    monkeypatch.setattr(DirectoryStore, "put", put)
    assert_release_ends_without_errors(bench, 0.2 * 0.0561305)


def test_report_is_made_when_an_operator_closed_the_evaluation(bench: Bench) -> None:
    assert bench.run(UP_TO_SYNTHETIC, evaluation=PRIVATE).success
    (release,) = bench.ledger.releases("people")
    release.account("evaluation").close("not wanted")
    assert_release_ends_without_errors(bench, 0.0)
