"""What people are told when a budget will not last."""

import itertools
from datetime import UTC, datetime
from typing import Any

import dagster as dg
import pytest

from jam_dagster.pipeline import DatasetBudget
from jam_dagster.pipeline.partitions import partitions_definition
from jam_dagster.privacy import Budget, ReleaseId, epsilon_from_rho
from jam_dagster.release import PartitionsSpec, PrivacySpec
from tests.budgets import FIXED, PUBLIC_N
from tests.docs.blocks import ROOT, blocks_of
from tests.pipeline.conftest import (
    AS_DAGSTER_WARNS,
    GIVEN,
    Bench,
    check_of,
    failure,
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
    """The sensors that the page on budgets shows, ticked by hand, and what they sent."""

    def __init__(self, bench: Bench) -> None:
        self.sent: list[tuple[str, str]] = []
        self.instance = bench.instance
        self.cursor: str | None = None
        page = ROOT / "docs" / "budgets.md"
        (shown,) = (block for block in blocks_of(page) if block.title.endswith("/alerts.py"))
        names: dict[str, Any] = {}
        exec(compile(shown.text, shown.place, "exec"), names)
        names["send"] = lambda *said: self.sent.append(said)
        self.low, self.refused = names["low"], names["refused"]

    def tick(self) -> list[tuple[str, str]]:
        """Evaluate the sensor of a low budget, and return what it sends."""
        self.sent.clear()
        context = dg.build_sensor_context(instance=self.instance, cursor=self.cursor)
        self.low(context)
        self.cursor = context.cursor
        return list(self.sent)

    def end(self, run_id: str) -> list[tuple[str, str]]:
        """Evaluate the sensor of refused runs on a run, and return what it sends."""
        self.sent.clear()
        ended = self.instance.get_run_by_id(run_id)
        assert ended is not None
        event = dg.DagsterEvent(dg.DagsterEventType.RUN_CANCELED.value, ended.job_name)
        self.refused(
            dg.build_run_status_sensor_context(
                sensor_name="refused",
                dagster_instance=self.instance,
                dagster_run=ended,
                dagster_event=event,
            )
        )
        return list(self.sent)


def test_a_budget_that_runs_out_warns_and_then_refuses_and_sensors_pass_each_on_once(
    months: Months,
) -> None:
    months.bench.budget = enough_for(2.5)
    alerts = Alerts(months.bench)
    assert alerts.tick() == []

    first = months.run(JANUARY, BUDGET)
    assert first.success, failure(first)
    known = told(first)["privacy_budget"]
    # February's is due when February is over; March's is the first that does not fit.
    assert known["outlook"] == (
        "At this price 1 more fits: 2026-03, which is due on 2026-04-01, does not fit."
        " The budget does not renew."
    )
    warned = sufficed(first)
    assert (warned.passed, warned.severity) == (False, dg.AssetCheckSeverity.WARN)
    # What fits is said, and that nothing shows that the ledger is the right one.
    assert warned.description is not None
    assert warned.description.startswith(f"{known['outlook']} The ledger ")
    assert "is new to dataset 'people', whose whole budget counts as unspent." in warned.description
    assert warned.partition == JANUARY

    assert alerts.tick() == [(f"people {JANUARY}", warned.description)]
    assert alerts.tick() == []

    assert months.run(FEBRUARY, BUDGET).success
    refused = months.run(MARCH)
    text = failure(refused)
    # What was asked, what remains, the difference; and until when.
    amounts = (f"{rho:.6g}"[:7] for rho in (PRICE, 0.5 * PRICE))
    for said in (*amounts, "The budget does not renew."):
        assert said in text
    failed = sufficed(refused)
    assert (failed.passed, failed.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert failed.partition == MARCH
    assert failed.description is not None
    assert failed.description in text
    # Nothing downstream has begun.
    assert {one.step_key for one in refused.get_step_failure_events()} == {"people__privacy_budget"}
    assert not any("private_records" in str(e.step_key) for e in refused.all_node_events)

    ((subject, said),) = alerts.end(refused.run_id)
    assert subject == f"people_release {MARCH}"
    assert alerts.tick() == []
    assert said.partition(": ")[2] == failed.description
    assert alerts.end(first.run_id) == []


@pytest.mark.slow
def test_a_refusal_tells_when_the_budget_renews(months: Months) -> None:
    months.bench.budget = enough_for(1.5, period="year")
    first = months.run(JANUARY, BUDGET)
    year = datetime.now(UTC).year
    known = told(first)["privacy_budget"]
    # February could be made now, and does not fit before the year is over.
    assert "2026-02, which is due on 2026-03-01, does not fit." in known["outlook"]
    assert f"The budget renews on {year + 1}-01-01 (UTC)." in known["outlook"]
    refused = failure(months.run(FEBRUARY, BUDGET))
    assert f"The budget renews on {year + 1}-01-01 (UTC)." in refused


@pytest.mark.slow
def test_static_partitions_warn_unless_all_that_are_left_fit(months: Months) -> None:
    changes: dict[str, Any] = {"partitions": {"static": [JANUARY, FEBRUARY, MARCH]}, "start": None}
    months.bench.budget = enough_for(2.5)
    first = months.run(JANUARY, BUDGET, **changes)
    assert f"{MARCH} does not fit." in told(first)["privacy_budget"]["outlook"]
    assert not sufficed(first).passed
    months.bench.ledger.grant("people", epsilon=enough_for(3.5).epsilon, delta=1e-9)
    months.bench.budget = None
    second = months.run(FEBRUARY, BUDGET, **changes)
    assert sufficed(second).passed
    assert told(second)["privacy_budget"]["outlook"] == "All partitions in sight fit."


@pytest.mark.slow
def test_seeded_noise_needs_no_budget(bench: Bench) -> None:
    result = bench.run(BUDGET, privacy=PrivacySpec(epsilon=2.0, noise="numpy", seed=1))
    assert sufficed(result).description == "Nothing is charged for seeded noise."


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
    assert [name for name, _ in found] == wanted
    for name, at in found:
        window = definition.time_window_for_partition_key(name)  # type: ignore[attr-defined]
        assert at == window.end


@pytest.mark.slow
def test_a_release_that_waits_for_approval_opens_nothing_and_tells_the_officer(
    bench: Bench,
) -> None:
    bench.budget = DatasetBudget(epsilon=5.0, delta=1e-9, **FIXED, approval="required")
    alerts = Alerts(bench)

    refused = bench.run([*BUDGET, "private_records"])

    assert "NotApprovedError" in failure(refused)
    check = sufficed(refused)
    assert not check.passed
    assert "jam-dagster ledger approve" in str(check.description)
    assert bench.kinds() == []
    # Nothing but digests of the public inputs is kept there.
    assert {path.suffix for path in (bench.closed / "people").rglob("*")} <= {".sha256"}
    ((_, said),) = alerts.end(refused.run_id)
    # Also without the asset that reserves.
    assert "NotApprovedError" in failure(bench.run([*GIVEN, "private_records"]))

    digest = said.partition("--specification ")[2].split()[0]
    bench.ledger.approve(ReleaseId("people", "people", digest), reason="request")
    passed = bench.run(BUDGET)
    assert passed.success, failure(passed)
    assert told(passed)["privacy_budget"]["specification"] == digest
    assert bench.kinds() == ["approved", "reserved"]


@pytest.mark.slow
def test_a_configuration_cannot_drop_the_officers_approval(bench: Bench) -> None:
    bench.ledger.grant("people", epsilon=5.0, delta=1e-9, policy=PUBLIC_N, approval="required")
    assert "NotApprovedError" in failure(bench.run(BUDGET))
    assert bench.kinds() == []
