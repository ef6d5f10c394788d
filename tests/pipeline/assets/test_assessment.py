"""The reports of a release."""

import json

import dagster as dg
import pytest

from jam_dagster.evaluation import expectation_names
from jam_dagster.release import EvaluationSpec
from tests.pipeline.conftest import DOMAIN, Bench, failure

PRIVATE = EvaluationSpec(mode="private", share=0.2)
TABLE = dg.AssetKey(["people", "synthetic_records"])


@pytest.mark.slow
def test_a_report_tells_what_the_table_is_like_and_not_what_was_reported_of_it(
    drawn: Bench,
) -> None:
    page = drawn.releases / "people" / "release_report.html"

    def told() -> object:
        made = drawn.run(["release_report"])
        assert made.success, failure(made)
        (event,) = made.get_asset_materialization_events()
        return event.materialization.metadata["checks_told"].value

    names = [spec.name for spec in expectation_names(DOMAIN)]
    assert told() == len(names)
    before = page.read_text()
    # Who may launch runs can report materializations and results of checks.
    drawn.instance.report_runless_asset_event(dg.AssetMaterialization(TABLE))
    for name in names:
        drawn.instance.report_runless_asset_event(
            dg.AssetCheckEvaluation(check_name=name, passed=False, metadata={}, asset_key=TABLE)
        )
    assert told() == len(names)
    assert page.read_text() == before


@pytest.mark.slow
def test_what_is_learnt_of_a_target_stands_on_the_restricted_page_alone(bench: Bench) -> None:
    target, other, *_ = DOMAIN.names
    purpose = [{"target": target}, {"regress": f"{other} ~ {target}"}]
    made = bench.run(evaluation=EvaluationSpec(mode="exact"), purpose=purpose)
    assert made.success, failure(made)
    (restricted,) = bench.closed.rglob("release_report_restricted.html")
    (stored,) = bench.closed.rglob("workload_error.json")
    (learnt,) = json.loads(stored.read_text())["utility"]
    scores = learnt["scores"]
    assert f"{scores['synthetic']['auc']:.3f}" in restricted.read_text()
    assert f"A logistic regression predicts {target}" in restricted.read_text()
    left = [path.read_bytes() for path in bench.releases.rglob("*") if path.is_file()]
    assert not any(b"logistic regression" in one or b'"utility"' in one for one in left)
    told = str([event.materialization for event in made.get_asset_materialization_events()])
    assert str(scores["synthetic"]["balanced"]) not in told


@pytest.mark.slow
def test_scores_of_a_target_are_paid_and_shown(bench: Bench) -> None:
    target, *_ = DOMAIN.names
    made = bench.run(purpose=[{"target": target}], evaluation=PRIVATE)
    assert made.success, failure(made)
    shown = {
        event.asset_key.path[-1]: event.materialization.metadata
        for event in made.get_asset_materialization_events()
    }
    assert target in shown["workload_error"]["synthetic_scores"].value
    (stored,) = bench.releases.rglob("workload_error.json")
    assert len(json.loads(stored.read_text())["public"]["scores"][target]) == 20


def test_scores_that_cannot_be_measured_here_are_refused_before_anything_is_reserved(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jam_dagster.evaluation.utility.find_spec", lambda name: None)
    made = bench.run(purpose=[{"target": DOMAIN.names[0]}], evaluation=PRIVATE)

    assert not made.success
    assert "jam-dagster[utility]" in failure(made)
    assert not any(one.kind == "reserved" for one in bench.events())
