"""What the sensor believes: what runs of its code location wrote, whatever a launcher reports."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

import jam_dagster
from jam_dagster.pipeline import BudgetAlert, build_budget_sensor
from jam_dagster.pipeline.budget.labels import RESERVES_TAG
from tests.modules import IN_ONE_WORKER, read_module
from tests.pipeline.conftest import AS_DAGSTER_WARNS

pytestmark = AS_DAGSTER_WARNS

KEY = dg.AssetKey(["people", "privacy_budget"])
ALERT = BudgetAlert("low", "people", "people_2026", "", "1", "one fits")
INVENTED = replace(ALERT, kind="refused", text="transfer the budget to mallory")


class Location:
    """A code location whose only asset leaves alerts, and its sensor, ticked by hand."""

    def __init__(self, instance: dg.DagsterInstance) -> None:
        self.instance = instance
        self.sent: list[BudgetAlert] = []
        self.sensor = build_budget_sensor(self.sent.append)
        self.definitions = self.leaving(ALERT)
        self.cursor: str | None = None
        self.ticked_at: float | None = None

    def leaving(self, alert: BudgetAlert, job: str = "people_release") -> dg.Definitions:
        @dg.asset(key=KEY, tags={RESERVES_TAG: "ledger"})
        def privacy_budget(context: dg.AssetExecutionContext) -> None:
            context.log_event(alert.observation(KEY))

        return dg.Definitions(
            assets=[privacy_budget], jobs=[dg.define_asset_job(job, selection=[KEY])]
        )

    def run(self, job: str = "people_release", definitions: dg.Definitions | None = None) -> str:
        found = (definitions or self.definitions).resolve_job_def(job)
        result = found.execute_in_process(instance=self.instance)
        assert result.success
        return result.run_id

    def report(self, alert: BudgetAlert) -> None:
        self.instance.report_runless_asset_event(alert.observation(KEY))

    def tick(self) -> list[BudgetAlert]:
        self.sent.clear()
        context = dg.SensorEvaluationContext(
            instance_ref=None,
            instance=self.instance,
            last_tick_completion_time=self.ticked_at,
            last_run_key=None,
            cursor=self.cursor,
            repository_name=None,
            repository_def=self.definitions.get_repository_def(),
        )
        # What Dagster keeps as the time of a tick is when it began.
        began = time.time()
        self.cursor = self.sensor.evaluate_tick(context).cursor
        self.ticked_at = began
        return list(self.sent)


@pytest.fixture
def location() -> Iterator[Location]:
    with dg.DagsterInstance.ephemeral() as instance:
        location = Location(instance)
        assert location.tick() == []
        yield location


@pytest.mark.parametrize("job", ["people_release", "__ASSET_JOB"])
def test_an_alert_of_a_run_is_passed_on_once(location: Location, job: str) -> None:
    location.run(job)
    assert location.tick() == [ALERT]
    assert location.tick() == []


def test_a_reported_alert_is_not_believed(location: Location) -> None:
    location.report(INVENTED)
    assert location.tick() == []
    location.run()
    location.report(INVENTED)
    assert location.tick() == [ALERT]


@pytest.mark.parametrize("metadata", [{"budget_alert": "low", "colour": "red"}, {}])
def test_a_report_that_is_no_alert_does_not_stop_the_sensor(
    location: Location, metadata: dict[str, Any]
) -> None:
    location.instance.report_runless_asset_event(dg.AssetObservation(KEY, metadata=metadata))
    location.run()
    assert location.tick() == [ALERT]


def test_an_alert_of_a_run_that_is_none_of_the_code_location_is_not_believed(
    location: Location,
) -> None:
    location.run("elsewhere", location.leaving(INVENTED, "elsewhere"))
    run = location.run()
    assert location.tick() == [ALERT]
    # Nor of one that the instance does not know any more, whatever is left of its events.
    location.cursor = json.dumps({})
    location.instance.run_storage.delete_run(run)
    assert location.tick() == []


def test_reports_and_materializations_do_not_hide_an_alert(location: Location) -> None:
    location.instance.report_runless_asset_event(dg.AssetMaterialization(KEY))
    location.run()
    for _ in range(120):
        location.report(INVENTED)
    assert location.tick() == [ALERT]


JUNK = [
    "",
    "junk",
    "[]",
    "[" * 100_000,
    "7",
    json.dumps({KEY.to_user_string(): "x"}),
    json.dumps({KEY.to_user_string(): None}),
    json.dumps({KEY.to_user_string(): -(10**30)}),
    json.dumps({KEY.to_user_string(): 10**9}),
    json.dumps({KEY.to_user_string(): 10**30}),
    '{"people/privacy_budget": ' + "9" * 5000 + "}",
    None,
]


def test_a_cursor_that_a_launcher_set_silences_nothing(location: Location) -> None:
    location.run()
    for place, cursor in enumerate(JUNK):
        location.cursor = cursor
        assert ALERT in location.tick(), place
        # Once is enough.
        assert location.tick() == [], place
        location.run()
        assert location.tick() == [ALERT], place


def test_a_cursor_just_behind_an_alert_does_not_hide_it(location: Location) -> None:
    location.run()
    (last,) = location.instance.fetch_observations(KEY, limit=1).records
    location.cursor = json.dumps({KEY.to_user_string(): last.storage_id})
    assert location.tick() == [ALERT]
    assert location.tick() == []


@IN_ONE_WORKER
def test_nothing_but_the_sensor_reads_events_of_the_instance() -> None:
    """Ledger, stores, reports and certificates cannot believe what they do not look at."""
    reads = {"event_log_storage", "get_event_records", "get_materialized_partitions", "all_logs"}
    found = set()
    package = Path(jam_dagster.__file__).parent
    for path in package.rglob("*.py"):
        for name in read_module(path).attributes:
            if name in reads or name.startswith(("fetch_", "get_latest_")):
                found.add((path.relative_to(package).as_posix(), name))
    assert found == {("pipeline/budget/alerts.py", "fetch_observations")}
