"""What earlier runs left in the store is never combined with another release's configuration."""

import json

import dagster as dg
import pandas as pd
import pytest
from upath import UPath

from jam_dagster.pipeline.storage.formats import TABLE
from jam_dagster.release import EvaluationSpec, PrivacySpec
from jam_dagster.tables import Domain
from tests.pipeline.conftest import UP_TO_SYNTHETIC, Bench, check_of, failure, told

# One worker draws the release that all of them begin with.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("drawn")]

PRIVATE = EvaluationSpec(mode="private", share=0.2)
OTHER_YAML = PrivacySpec(epsilon=0.01, edition="3")
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


def test_nothing_is_made_of_a_run_that_was_drawn_under_other_yaml(drawn: Bench) -> None:
    result = drawn.run(["release_report"], privacy=OTHER_YAML)
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


def test_report_tells_nothing_of_a_table_from_another_run(drawn: Bench) -> None:
    path = drawn.releases / "people" / "synthetic_records.parquet"
    table = pd.read_parquet(path)
    table.attrs = {"jam_dagster.run": "another"}
    table.to_parquet(path, index=False)
    drawn.vouch("synthetic_records.parquet")
    message = failure(drawn.run(["release_report"]))
    assert "synthetic_records of release people belong to another run than jam_pgm" in message


def test_error_of_another_run_is_not_reported(drawn: Bench) -> None:
    assert drawn.run(UP_TO_SYNTHETIC, evaluation=PRIVATE).success
    path = drawn.releases / "people" / "workload_error.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "run": "another"}))
    drawn.vouch("workload_error.json")
    message = failure(drawn.run(["release_report"], evaluation=PRIVATE))
    assert "workload_error of release people belong to another run" in message


@pytest.mark.parametrize(
    ("made", "stale"),
    [([], "domain and public_discretized"), (["domain"], "public_discretized")],
    ids=["both", "public"],
)
def test_tables_over_different_domains_are_refused(
    drawn: Bench, made: list[str], stale: str
) -> None:
    events = drawn.events()
    message = failure(drawn.run([*made, "jam_pgm"], domain=OTHER_DOMAIN))
    assert "DomainError" in message
    assert f" {stale} of release people and the release's domain differ" in message
    assert drawn.events() == events


def test_checks_by_themselves_believe_nothing_that_was_changed(drawn: Bench) -> None:
    """Who may write among the releases could have a launch of checks alone praise any table."""
    definitions = drawn.definitions()
    keys = definitions.resolve_asset_graph().asset_check_keys
    wanted = [key for key in keys if key.asset_key.path[-1] == "synthetic_records"]
    alone = dg.define_asset_job("alone", selection=dg.AssetSelection.checks(*wanted))
    job = dg.Definitions.merge(definitions, dg.Definitions(jobs=[alone])).resolve_job_def("alone")

    def launched() -> dg.ExecuteInProcessResult:
        return job.execute_in_process(instance=drawn.instance, raise_on_error=False)

    assert launched().success
    path = UPath(drawn.releases / "people" / "synthetic_records.parquet")
    rows = TABLE.read(path)
    others = rows.iloc[::-1].reset_index(drop=True)
    others.attrs = rows.attrs
    TABLE.write(others, path)
    refused = launched()
    assert not refused.success
    assert "people/synthetic_records in the store of releases is not what" in failure(refused)


# The evaluation's share ------------------------------------------------------------------------


def assert_release_ends_without_errors(bench: Bench, spent: float) -> None:
    result = bench.run([*UP_TO_SYNTHETIC, "release_report"], evaluation=PRIVATE)
    assert result.success, failure(result)
    shown = told(result)["workload_error"]
    assert shown["mode"] == "off"
    assert shown["rho_spent"] == pytest.approx(spent, rel=1e-4)
    assert "unknown" in shown["verdict"]
    assert "synthetic_mean" not in shown
    check = check_of(result, "better_than_public")
    assert not check.passed
    assert check.severity is dg.AssetCheckSeverity.WARN
    assert "unknown" in (check.description or "")
    assert "mean error" not in page(bench)
    assert bench.ledger.balance("people").reserved == 0


def test_report_is_made_when_an_operator_closed_the_evaluation(bench: Bench) -> None:
    assert bench.run(["domain", "privacy_budget"], evaluation=PRIVATE).success
    (release,) = bench.ledger.reservations("people")
    release.account("evaluation").close("not wanted")
    assert_release_ends_without_errors(bench, 0.0)
