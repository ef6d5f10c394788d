"""What people are told when a budget will not last."""

import itertools
from datetime import UTC, datetime
from typing import Any
from unittest.mock import Mock

import dagster as dg
import pytest

from jam_dagster.pipeline import (
    BudgetAlert,
    DatasetBudget,
    EvaluationSpec,
    MechanismSpec,
    PartitionsSpec,
    PrivacySpec,
    build_budget_sensor,
)
from jam_dagster.pipeline.assets import private_side
from jam_dagster.pipeline.partitions import partitions_definition
from jam_dagster.privacy import Budget, ReleaseKey, epsilon_from_rho
from tests.budgets import FIXED, PUBLIC_N
from tests.pipeline.conftest import (
    AS_DAGSTER_WARNS,
    GIVEN,
    UP_TO_SYNTHETIC,
    Bench,
    check_of,
    failure,
    people,
    told,
)
from tests.pipeline.test_partitions import (
    FEBRUARY,
    JANUARY,
    MARCH,
    Months,
    months,
)

__all__ = ["months"]

pytestmark = AS_DAGSTER_WARNS

BUDGET = ["domain", "privacy_budget"]
PRICE = Budget(2.0, 1e-9).rho


def enough_for(count: float, **policy: str) -> DatasetBudget:
    epsilon = epsilon_from_rho(count * PRICE, 1e-9)
    return DatasetBudget(epsilon=epsilon, delta=1e-9, **{**FIXED, **policy})


def sufficed(result: dg.ExecuteInProcessResult) -> dg.AssetCheckEvaluation:
    return check_of(result, "budget_suffices")


class Alerts:
    """A sensor of a code location, ticked by hand, and what it sent."""

    def __init__(self, bench: Bench, definitions: dg.Definitions) -> None:
        self.sent: list[BudgetAlert] = []
        self.sensor = build_budget_sensor(self.notify)
        self.repository = definitions.get_repository_def()
        self.instance = bench.instance
        self.cursor: str | None = None
        self.fails = 0

    def notify(self, alert: BudgetAlert) -> None:
        if self.fails:
            self.fails -= 1
            raise ConnectionError("the chat is down")
        self.sent.append(alert)

    def tick(self) -> list[BudgetAlert]:
        self.sent.clear()
        context = dg.build_sensor_context(
            instance=self.instance, cursor=self.cursor, repository_def=self.repository
        )
        data = self.sensor.evaluate_tick(context)
        self.cursor = data.cursor
        return list(self.sent)


def test_a_budget_that_runs_out_warns_and_then_refuses_and_a_sensor_tells_each_once(
    months: Months,
) -> None:
    months.bench.budget = enough_for(2.5)
    alerts = Alerts(months.bench, months.definitions())
    assert alerts.tick() == []

    first = months.run(JANUARY, BUDGET)
    assert first.success, failure(first)
    known = told(first)["privacy_budget"]
    assert known["partitions_that_still_fit"] == 1
    # February's is due when February is over; March's is the first that does not fit.
    assert known["budget_lasts_until"] == "2026-04-01"
    assert known["outlook"] == (
        "At this price 1 more fits, up to 2026-02; 2026-03, which is due on 2026-04-01, does not"
        " fit any more."
    )
    warned = sufficed(first)
    assert (warned.passed, warned.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert warned.description == known["outlook"]
    assert warned.partition == JANUARY

    (alert,) = alerts.tick()
    assert alert.kind == "low"
    assert (alert.release, alert.dataset, alert.partition) == ("people", "people", JANUARY)
    assert alert.lasts_until == "2026-04-01"
    assert alert.renews_on is None
    assert alert.partitions_that_still_fit == 1
    assert alert.asked_rho == pytest.approx(PRICE, rel=1e-5)
    assert alert.remaining_rho == pytest.approx(1.5 * PRICE, rel=1e-5)
    assert alerts.tick() == []

    assert months.run(FEBRUARY, BUDGET).success
    refused = months.run(MARCH)
    text = failure(refused)
    today = datetime.now(UTC).date()
    # What was asked, what remains, the difference; and since when, and until when.
    for said in (
        *(f"{rho:.6g}"[:7] for rho in (PRICE, 0.5 * PRICE)),
        f"The last partition that was paid for is {FEBRUARY}, reserved on {today}.",
        "The budget does not renew.",
    ):
        assert said in text
    failed = sufficed(refused)
    assert (failed.passed, failed.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert failed.partition == MARCH
    assert failed.description is not None
    assert failed.description in text
    # Nothing downstream has begun.
    assert {one.step_key for one in refused.get_step_failure_events()} == {"people__privacy_budget"}
    assert not any("private_records" in str(e.step_key) for e in refused.all_node_events)

    low, gone = alerts.tick()
    assert (low.kind, low.partition) == ("low", FEBRUARY)
    assert (gone.kind, gone.partition) == ("refused", MARCH)
    assert gone.text == failed.description
    assert gone.lasts_until == str(today)
    assert (
        gone.title == f"people {MARCH} was refused: the privacy budget of people does not suffice"
    )
    assert alerts.tick() == []

    # Made again, January is free: that is no news.
    assert months.run(JANUARY, BUDGET).success
    assert alerts.tick() == []


@pytest.mark.slow
def test_a_refusal_by_the_step_of_the_private_table_cancels_the_run_too(bench: Bench) -> None:
    assert bench.run(GIVEN).success
    result = bench.run(UP_TO_SYNTHETIC[-1:], privacy=PrivacySpec(epsilon=50.0))
    assert not result.success
    run = bench.instance.get_run_by_id(result.run_id)
    assert run is not None
    assert run.status is dg.DagsterRunStatus.CANCELED


def test_a_refusal_tells_when_the_budget_renews(months: Months) -> None:
    months.bench.budget = enough_for(1.5, period="year")
    first = months.run(JANUARY, BUDGET)
    year = datetime.now(UTC).year
    known = told(first)["privacy_budget"]
    # February could be made now, and does not fit before the year is over.
    assert known["budget_lasts_until"] == "2026-03-01"
    assert known["budget_renews_on"] == f"{year + 1}-01-01"
    assert f"The budget renews on {year + 1}-01-01 (UTC)." in known["outlook"]
    refused = failure(months.run(FEBRUARY, BUDGET))
    assert f"The budget renews on {year + 1}-01-01 (UTC): until then nothing more fits" in refused


@pytest.mark.slow
def test_a_budget_that_lasts_passes(months: Months) -> None:
    months.bench.budget = enough_for(1.5, partitions="disjoint")
    result = months.run(JANUARY, BUDGET)
    assert sufficed(result).passed
    known = told(result)["privacy_budget"]
    assert known["budget_lasts_until"] == "no end in sight"
    assert known["outlook"] == "Any number of partitions fits: they are disjoint."


@pytest.mark.slow
def test_static_partitions_warn_unless_all_that_are_left_fit(months: Months) -> None:
    changes: dict[str, Any] = {"partitions": {"static": [JANUARY, FEBRUARY, MARCH]}, "start": None}
    months.bench.budget = enough_for(2.5)
    first = months.run(JANUARY, BUDGET, **changes)
    assert told(first)["privacy_budget"]["budget_lasts_until"] == MARCH
    assert not sufficed(first).passed
    months.bench.ledger.grant("people", epsilon=enough_for(3.5).epsilon, delta=1e-9)
    months.bench.budget = None
    second = months.run(FEBRUARY, BUDGET, **changes)
    assert sufficed(second).passed
    assert told(second)["privacy_budget"]["outlook"] == (
        f"All partitions in sight fit, up to {MARCH}."
    )


@pytest.mark.slow
def test_what_was_sent_is_not_sent_again_when_the_next_fails(months: Months) -> None:
    months.bench.budget = enough_for(2.5)
    alerts = Alerts(months.bench, months.definitions())
    alerts.tick()
    for month in (JANUARY, FEBRUARY):
        assert months.run(month, BUDGET).success
    kept = alerts.notify

    def once(alert: BudgetAlert) -> None:
        kept(alert)
        alerts.fails = 1 if alert.partition == JANUARY else 0

    alerts.sensor = build_budget_sensor(once)
    assert [one.partition for one in alerts.tick()] == [JANUARY]
    alerts.fails = 0
    assert [one.partition for one in alerts.tick()] == [FEBRUARY]


@pytest.mark.slow
def test_seeded_noise_needs_no_budget(bench: Bench) -> None:
    result = bench.run(BUDGET, privacy=PrivacySpec(epsilon=2.0, noise="numpy", seed=1))
    assert sufficed(result).description == "Nothing is charged for seeded noise."


def test_alerts_survive_their_way_through_the_event_log() -> None:
    alert = BudgetAlert(
        "low", "people", "people_2026", "", "1", 0.1, 1.0, 0.2, 2.0, None, None, None, "text"
    )
    stored = dg.AssetObservation("x", metadata=alert.metadata).metadata
    assert BudgetAlert.of(stored) == alert


@pytest.mark.parametrize(
    ("every", "start", "done"),
    [
        ("daily", "2026-02-27", ()),
        ("weekly", "2026-01-01", ()),
        ("weekly", "2026-01-05", ("2026-01-05", "2026-01-12")),
        ("monthly", "2025-11-02", ()),
        ("monthly", "2026-01", ("2026-02", "2026-01")),
    ],
)
def test_partitions_to_come_are_those_of_dagster(
    every: Any, start: str, done: tuple[str, ...]
) -> None:
    spec = PartitionsSpec(every, start)
    definition = partitions_definition(spec)
    there = definition.get_partition_keys(current_time=datetime(2027, 3, 1, tzinfo=UTC))
    wanted = [name for name in there if name > max(done, default="")][:20]
    found = list(itertools.islice(spec.following(done), len(wanted)))
    assert [one.partition for one in found] == wanted
    for one in found:
        window = definition.time_window_for_partition_key(one.partition)  # type: ignore[attr-defined]
        assert one.at == window.end


def test_a_release_that_waits_for_approval_opens_nothing_and_tells_the_officer(
    bench: Bench,
) -> None:
    bench.budget = DatasetBudget(epsilon=5.0, delta=1e-9, **FIXED, approval="required")
    alerts = Alerts(bench, bench.definitions())
    alerts.tick()

    refused = bench.run([*BUDGET, "private_records"])

    assert "NotApprovedError" in failure(refused)
    check = sufficed(refused)
    assert not check.passed
    assert "jam-dagster ledger approve" in str(check.description)
    assert bench.kinds() == []
    # Nothing but digests of the public inputs is kept there.
    assert {path.suffix for path in (bench.closed / "people").rglob("*")} <= {".sha256"}
    (alert,) = alerts.tick()
    assert alert.kind == "not approved"
    assert alert.title == "people waits for approval: it would be paid by people"
    assert "--specification" in alert.text
    # Also without the asset that reserves.
    assert "NotApprovedError" in failure(bench.run([*GIVEN, "private_records"]))

    digest = alert.text.partition("--specification ")[2].split()[0]
    bench.ledger.approve(ReleaseKey("people", "people", digest), reason="request")
    passed = bench.run(BUDGET)
    assert passed.success, failure(passed)
    assert told(passed)["privacy_budget"]["specification"] == digest
    assert bench.kinds() == ["approved", "reserved"]


@pytest.mark.slow
def test_a_configuration_cannot_drop_the_officers_approval(bench: Bench) -> None:
    bench.ledger.grant("people", epsilon=5.0, delta=1e-9, policy=PUBLIC_N, approval="required")
    assert "NotApprovedError" in failure(bench.run(BUDGET))
    assert bench.kinds() == []


@pytest.mark.slow
def test_a_release_that_is_worse_than_its_public_table_is_told(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The public rows are the private ones, and the errors' noise is a twentieth of the other."""
    people(5_000, seed=1).to_csv(bench.private, index=False)
    people(5_000, seed=1).to_csv(bench.public, index=False)
    settings = {
        "mechanism": MechanismSpec("independent"),
        "evaluation": EvaluationSpec(mode="private"),
    }
    alerts = Alerts(bench, bench.definitions(**settings))
    alerts.tick()
    with monkeypatch.context() as stopped:
        stopped.setattr(private_side, "log_alert", Mock(side_effect=OSError("stopped")))
        assert not bench.run([*GIVEN, "privacy_budget", "workload_error"], **settings).success
    assert alerts.tick() == []
    # All was drawn, and nobody was told.
    result = bench.run([*GIVEN, "privacy_budget", "workload_error"], **settings)
    assert result.success, failure(result)
    (alert,) = alerts.tick()
    assert (alert.kind, alert.title) == ("worse", "people is worse than its public table")
    assert alert.text.startswith("Worse than the public table: mean error")
    assert alert.remaining_rho is None
    # The officer was told once: a repeat measures nothing.
    again = bench.run([*GIVEN, "privacy_budget", "workload_error"], **settings)
    assert again.success, failure(again)
    assert alerts.tick() == []
    # Exact errors are for those who may see them.
    exact = {"evaluation": EvaluationSpec(mode="exact"), "mechanism": settings["mechanism"]}
    second = PrivacySpec(epsilon=2.0, edition="2")
    result = bench.run([*GIVEN, "privacy_budget", "workload_error"], privacy=second, **exact)
    assert result.success, failure(result)
    assert alerts.tick() == []
