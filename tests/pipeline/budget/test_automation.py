"""When a release runs: pools, freshness, and automation that would spend unasked."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import dagster as dg
import pytest

from jam_dagster.errors import PrivacyLabelError, SpecificationError
from jam_dagster.pipeline import check_definitions
from jam_dagster.pipeline.budget.automation import freshness_of
from jam_dagster.pipeline.partitions import tick_of
from jam_dagster.release import EvaluationSpec, PartitionsSpec, PrivacySpec
from jam_dagster.tables import source_from_config
from tests.pipeline.conftest import AS_DAGSTER_WARNS, UP_TO_SYNTHETIC, Bench, failure, write_tables

pytestmark = AS_DAGSTER_WARNS

PRIVATE = EvaluationSpec(mode="private", share=0.2)
SPENDING = ("privacy_budget", "jam_pgm", "synthetic_records", "workload_error")
EAGER = dg.AutomationCondition.eager()
TICK = dg.AutomationCondition.cron_tick_passed("0 6 3 * *")
ON_CRON = dg.AutomationCondition.on_cron("0 6 3 * *")


def conditioned(name: str, condition: Any) -> Callable[[dg.AssetSpec], dg.AssetSpec]:
    def change(spec: dg.AssetSpec) -> dg.AssetSpec:
        named = spec.key.path[-1] == name
        return spec.replace_attributes(automation_condition=condition) if named else spec

    return change


@pytest.mark.slow
@pytest.mark.parametrize("name", SPENDING)
@pytest.mark.parametrize(
    "condition",
    [
        EAGER,
        dg.AutomationCondition.on_missing(),
        EAGER.without(dg.AutomationCondition.in_latest_time_window()),
        ON_CRON | EAGER,
        # A tick stands in them, and they wait for none.
        ON_CRON | dg.AutomationCondition.on_missing(),
        ~TICK,
        dg.AutomationCondition.missing().since(TICK),
        dg.AutomationCondition.any_deps_updated(),
    ],
)
def test_what_happens_upstream_spends_nothing(bench: Bench, name: str, condition: Any) -> None:
    with pytest.raises(SpecificationError, match=rf"people/{name} spends.*on_cron"):
        bench.definitions(translate=conditioned(name, condition), evaluation=PRIVATE)


@pytest.mark.parametrize(
    ("name", "condition"),
    [
        *((name, ON_CRON) for name in SPENDING),
        ("jam_pgm", ON_CRON & ~dg.AutomationCondition.any_deps_missing()),
        ("jam_pgm", ON_CRON | TICK.newly_true()),
        ("release_report", EAGER),
    ],
)
def test_clocks_may_spend_and_what_costs_nothing_may_be_eager(
    bench: Bench, name: str, condition: Any
) -> None:
    definitions = bench.definitions(translate=conditioned(name, condition), evaluation=PRIVATE)
    check_definitions(definitions)


def test_research_noise_costs_nothing_and_may_be_eager(bench: Bench) -> None:
    seeded = PrivacySpec(epsilon=2.0, noise="numpy", seed=1)
    bench.definitions(translate=conditioned("jam_pgm", EAGER), privacy=seeded)


def test_conditions_given_after_the_release_was_built_are_refused(bench: Bench) -> None:
    changed = bench.definitions().map_asset_specs(func=conditioned("jam_pgm", EAGER))
    with pytest.raises(SpecificationError, match="people/jam_pgm spends"):
        check_definitions(changed)


def test_the_mark_of_a_reservation_stays(bench: Bench) -> None:
    def unmarked(spec: dg.AssetSpec) -> dg.AssetSpec:
        kept = {name: value for name, value in spec.tags.items() if name != "jam/reserves"}
        return spec.replace_attributes(tags=kept)

    with pytest.raises(PrivacyLabelError, match="jam/reserves ledger and translated to none"):
        bench.definitions(translate=unmarked)


def test_steps_that_spend_share_their_datasets_pool_and_are_never_retried(bench: Bench) -> None:
    definitions = bench.definitions(dataset="people_2026", evaluation=PRIVATE)
    steps = [one for one in definitions.resolve_asset_graph().assets_defs if one.keys]
    spend = [one for one in steps if dg.AssetKey(["people", "jam_pgm"]) in one.keys]
    assert [one.op.pool for one in spend] == ["jam/people_2026"]
    assert spend[0].op.retry_policy.max_retries == 0
    # The others repeat what they did, for nothing: a job's policy may do that.
    assert not any(one.op.pool or one.op.retry_policy for one in steps if one not in spend)


POD = {"container_config": {"resources": {"limits": {"memory": "4Gi"}}}}


def test_steps_and_runs_have_the_tags_and_the_pool_that_a_file_gives_them(bench: Bench) -> None:
    given = {"op": {"tags": {"dagster-k8s/config": POD}, "pool": "heavy"}}
    definitions = bench.definitions(**given, run_tags={"dagster-k8s/config": POD, "team": "a"})
    job = definitions.resolve_job_def("people_release")
    assert job.tags["team"] == "a"
    assert json.loads(job.tags["dagster-k8s/config"]) == POD
    assert job.tags["dagster/max_retries"] == "0"
    steps = [one for one in definitions.assets or () if isinstance(one, dg.AssetsDefinition)]
    assert all(json.loads(one.op.tags["dagster-k8s/config"]) == POD for one in steps)
    assert {one.op.pool for one in steps} == {None, "heavy"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"run_tags": {"dagster/max_retries": "3"}}, "the release sets the tag"),
        ({"run_tags": {"jam/release": "other"}}, "the release sets the tag"),
        ({"op": {"name": "mine"}}, "name"),
        ({"op": {"pool": ""}}, "pool"),
    ],
)
def test_tags_and_pools_that_cannot_be(bench: Bench, given: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecificationError, match=said):
        bench.definitions(**given)


@pytest.mark.slow
def test_a_release_runs_where_its_pool_has_one_place(tmp_path: Any) -> None:
    overrides = {"concurrency": {"pools": {"default_limit": 1}}}
    with dg.instance_for_test(temp_dir=str(tmp_path), overrides=overrides) as instance:
        write_tables(tmp_path)
        result = Bench(tmp_path, instance).run(UP_TO_SYNTHETIC)
        assert result.success, failure(result)
        taken = instance.event_log_storage.get_concurrency_info("jam/people")
        assert taken.slot_count == 1
        assert taken.active_slot_count == 0


@pytest.mark.parametrize(
    ("every", "schedule", "deadline", "grace"),
    [
        ("daily", "daily", "0 6 * * *", 6),
        ("daily", "30 20 * * *", "30 2 * * *", 6),
        ("weekly", "weekly", "0 0 * * 2", 24),
        ("weekly", "0 6 * * 6", "0 6 * * 0", 24),
        ("monthly", "0 6 3 * *", "0 6 4 * *", 24),
        ("monthly", "0 6 28 * *", "0 6 1 * *", 96),
    ],
)
def test_what_is_scheduled_is_late_some_time_after_its_tick(
    every: Any, schedule: str, deadline: str, grace: int
) -> None:
    partitions = PartitionsSpec(every, "2026-01-01")
    assert freshness_of(partitions, tick_of(partitions, schedule)) == dg.FreshnessPolicy.cron(
        deadline_cron=deadline, lower_bound_delta=timedelta(hours=grace)
    )


def test_what_others_wait_for_has_a_freshness_policy_if_there_is_a_schedule(bench: Bench) -> None:
    months = {
        "private": source_from_config(str(bench.home / "private_{partition}.csv")),
        "partitions": "monthly",
        "start": "2026-01-01",
    }
    scheduled = bench.definitions(**months, schedule="0 6 3 * *")
    due = {
        spec.key.path[-1] for spec in scheduled.resolve_all_asset_specs() if spec.freshness_policy
    }
    assert due == {"synthetic_records", "release_certificate", "release_report"}
    for plain in (bench.definitions(), bench.definitions(**months)):
        assert not any(spec.freshness_policy for spec in plain.resolve_all_asset_specs())
