"""A release without a public table, by a mechanism that learns from none."""

import json

import dagster as dg
import pytest

from jam_dagster.certificates import verify
from jam_dagster.release import EvaluationSpec, MechanismSpec
from tests.pipeline.conftest import Bench, failure, told

AIM = {
    "public": None,
    "mechanism": MechanismSpec("aim", rounds=8, iterations=50),
    "evaluation": EvaluationSpec(mode="private"),
}


def test_nothing_public_is_in_the_graph(bench: Bench) -> None:
    definitions = bench.definitions(**AIM)
    graph = definitions.resolve_asset_graph()
    names = {key.path[-1] for key in graph.get_all_asset_keys()}
    assert {"private_discretized", "aim", "synthetic_records", "release_report"} <= names
    assert not any("public" in name for name in names)
    checks = {key.name for key in graph.asset_check_keys}
    assert "better_than_uniform" in checks
    assert not any("public" in name for name in checks)
    specs = [spec for one in definitions.asset_checks or () for spec in one.check_specs]
    described = {spec.name: spec.description for spec in specs}
    assert described["error_known"] == "The workload error is known beyond its noise."
    assert described["better_than_uniform"] == (
        "The domain fits, and the error is less than that of a uniform table."
    )


@pytest.mark.slow
def test_a_whole_release(bench: Bench) -> None:
    result = bench.run(**AIM)

    assert result.success, failure(result)
    shown = told(result)
    assert "distributions" in shown["synthetic_records"]
    assert "synthetic_mean" in shown["workload_error"]
    assert "public_mean" not in shown["workload_error"]
    assert "a uniform table: mean error" in shown["workload_error"]["verdict"]
    assert shown["release_report"]["verdict"] == shown["workload_error"]["verdict"]
    page = result.asset_value(dg.AssetKey(["people", "release_report"]))
    assert "public table" not in page
    assert "each of these numbers was released" in page.lower()
    folder = bench.releases / "people" / "release_certificate"
    assert json.loads((folder / "certificate.json").read_text())["mechanism"]["name"] == "aim"
    findings = verify(folder, ledger=bench.ledger)
    assert all(one.passed for one in findings), [one for one in findings if not one.passed]

    spent = bench.ledger.balance("people").spent_units
    again = bench.run(["aim", "synthetic_records", "workload_error"], **AIM)
    assert again.success, failure(again)
    assert bench.ledger.balance("people").spent_units == spent
