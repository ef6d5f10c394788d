"""Releases of one snapshot after another: what each partition reads, pays, and leaves."""

import shutil
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from typing import Any

import dagster as dg
import pandas as pd
import pytest
import yaml

from jam_dagster.certificates import Certificate, verify
from jam_dagster.errors import PrivacyLabelError, SpecificationError
from jam_dagster.pipeline import SyntheticRelease, check_definitions
from jam_dagster.privacy import Budget, Policy, epsilon_from_rho
from jam_dagster.release import (
    DomainSpec,
    EvaluationSpec,
    MechanismSpec,
    PartitionsSpec,
    PrivacySpec,
    WorkloadSpec,
)
from jam_dagster.tables import Domain, source_from_config
from tests.budgets import FIXED
from tests.pipeline.conftest import (
    AS_DAGSTER_WARNS,
    DOMAIN,
    UP_TO_SYNTHETIC,
    Bench,
    failure,
    people,
    together,
    told,
)
from tests.pipeline.test_component import ATTRIBUTES, loaded
from tests.tiers import slow_rows

pytestmark = AS_DAGSTER_WARNS

JANUARY, FEBRUARY, MARCH = "2026-01", "2026-02", "2026-03"
PRIVATE = EvaluationSpec(mode="private", share=0.2)


@cache
def of_one_sex(sex: str, seed: int) -> str:
    """Return a table of people as the text of a file."""
    return people(600, seed).assign(sex=sex).to_csv(index=False)


class Months:
    """A release a month, of snapshots beside each other."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        for place, month in enumerate((JANUARY, FEBRUARY, MARCH)):
            # As many rows in each: what tells the months apart must not be their number.
            text = of_one_sex("F" if place == 0 else "M", seed=10 + place)
            (bench.home / f"private_{month}.csv").write_text(text)
        self.changes: dict[str, Any] = {
            "private": source_from_config(str(bench.home / "private_{partition}.csv")),
            # One round that measures the sex on the private table: what else it could choose is
            # worse by more than chance makes up for in one run of a hundred million.
            "mechanism": MechanismSpec("jam_pgm", rounds=1, iterations=20),
            "workload": WorkloadSpec(cliques=[["sex"]]),
            "partitions": "monthly",
            "start": "2026-01-01",
        }

    def definitions(self, **changes: Any) -> dg.Definitions:
        return self.bench.definitions(**{**self.changes, **changes})

    def run(
        self, partition: str | None, selection: list[str] | None = None, **changes: Any
    ) -> dg.ExecuteInProcessResult:
        return self.bench.run(selection, partition=partition, **{**self.changes, **changes})

    def synthetic(self, month: str) -> pd.DataFrame:
        folder = self.bench.releases / "people" / "synthetic_records"
        return pd.read_parquet(folder / f"{month}.parquet")

    def reserved(self) -> list[str]:
        return [
            one.release_id.partition for one in self.bench.events() if one.kind.value == "reserved"
        ]


@pytest.fixture
def months(bench: Bench) -> Months:
    return Months(bench)


@pytest.mark.slow
def test_each_partition_pays_once_and_leaves_files_of_its_own(months: Months) -> None:
    for month in (JANUARY, FEBRUARY):
        result = months.run(month, evaluation=PRIVATE)
        assert result.success, failure(result)
        assert {event.partition for event in result.get_asset_materialization_events()} == {month}
        checks = result.get_asset_check_evaluations()
        assert {one.partition for one in checks} == {month}
        told_checks = told(result)["release_report"]["checks_told"]
        assert told_checks > 10
    # The months hold one sex each, which the public table does not.
    first, second = months.synthetic(JANUARY), months.synthetic(FEBRUARY)
    assert (first["sex"] == "F").mean() > 0.7
    assert (second["sex"] == "M").mean() > 0.7
    assert sorted(set(months.reserved())) == [JANUARY, FEBRUARY]

    folder = months.bench.releases / "people"
    for month in (JANUARY, FEBRUARY):
        report = (folder / "release_report" / f"{month}.html").read_text()
        # Where the private table lies is no business of who reads the release.
        assert f"private_{month}.csv" not in report
        certified = folder / "release_certificate" / month
        assert Certificate.load(certified).release_id.partition == month
        assert [
            one.message for one in verify(certified, ledger=months.bench.ledger) if not one.passed
        ] == []
        assert (folder / "synthetic_records" / f"{month}.checks.html").is_file()
        assert (folder / "synthetic_records" / f"{month}.csv").is_file()

    # Made again, each is free and the same; and January's report finds January's checks.
    events = months.bench.events()
    again = months.run(JANUARY, UP_TO_SYNTHETIC, evaluation=PRIVATE)
    assert again.success, failure(again)
    assert told(again)["jam_pgm"]["made_again"]
    pd.testing.assert_frame_equal(months.synthetic(JANUARY), first)
    report = months.run(FEBRUARY, ["release_report"], evaluation=PRIVATE)
    assert told(report)["release_report"]["checks_told"] == told_checks
    assert months.bench.events() == events
    pd.testing.assert_frame_equal(months.synthetic(FEBRUARY), second)

    # An edition of one month leaves the other as it is.
    mended = PrivacySpec(epsilon=2.0, editions={FEBRUARY: 2})  # type: ignore[dict-item]
    again = months.run(JANUARY, UP_TO_SYNTHETIC, evaluation=PRIVATE, privacy=mended)
    assert told(again)["jam_pgm"]["made_again"]
    assert months.bench.events() == events
    drawn = months.run(FEBRUARY, UP_TO_SYNTHETIC, evaluation=PRIVATE, privacy=mended)
    assert drawn.success, failure(drawn)
    history = told(drawn)["privacy_budget"]["history"]
    assert "Partition 2026-02 was drawn before: edition 1, on" in history
    assert "This is edition 2, which is drawn and paid again." in history
    assert "backfill" not in history
    assert months.reserved().count(JANUARY) < months.reserved().count(FEBRUARY)


@pytest.mark.slow
def test_disjoint_partitions_of_a_second_table_wait_for_the_officer(months: Months) -> None:
    """A person in the visits of January and in the tests of February would pay once."""
    bench, settings = months.bench, {"evaluation": EvaluationSpec(mode="off")}
    policy = Policy(partitions="disjoint", **FIXED)
    bench.budget, granted = None, {"epsilon": 9.0, "delta": 1e-9}
    bench.ledger.grant("people", **granted, policy=policy)
    tests = {"private": source_from_config(str(bench.home / "tests_{partition}.csv"))}
    for month in (FEBRUARY, MARCH):
        shutil.copy(bench.home / f"private_{month}.csv", bench.home / f"tests_{month}.csv")
    for month in (JANUARY, FEBRUARY):
        made = months.run(month, UP_TO_SYNTHETIC, **settings)
        assert made.success, failure(made)
    spent = bench.ledger.balance("people")
    refused = failure(months.run(MARCH, UP_TO_SYNTHETIC, **settings, **tests))
    assert "would read another table than a release of partition '2026-01'" in refused
    assert "--partitions 'disjoint in all tables'" in refused
    assert bench.ledger.balance("people").spent_units == spent.spent_units
    in_all = replace(policy, partitions="disjoint in all tables")
    bench.ledger.grant("people", **granted, policy=in_all, reason="no person is in two months")
    made = months.run(MARCH, UP_TO_SYNTHETIC, **settings, **tests)
    assert made.success, failure(made)
    bench.ledger.verify()


@pytest.mark.slow
def test_what_a_backfill_costs_is_told_before_it_is_launched(months: Months) -> None:
    definitions = months.definitions()
    rho = Budget(2.0, 1e-9).rho
    year = f"A year of monthly partitions (12) costs up to rho {12 * rho:.6g}, which is epsilon"
    year += f" {epsilon_from_rho(12 * rho, 1e-9):.4g}"
    job = definitions.resolve_job_def("people_release")
    spec = definitions.resolve_assets_def(
        dg.AssetKey(["people", "privacy_budget"])
    ).get_asset_spec()
    for text in (job.description, spec.metadata["about"]):
        assert text is not None
        assert f"Each partition reserves rho {rho:.6g} (epsilon 2 at delta 1e-09)" in text
        assert year in text
    seeded = months.definitions(privacy=PrivacySpec(epsilon=2.0, noise="numpy"))
    description = seeded.resolve_job_def("people_release").description
    assert description is not None
    assert "Partitions cost nothing" in description


def test_every_asset_and_check_is_partitioned_alike_and_backfilled_one_by_one(
    months: Months,
) -> None:
    definitions = check_definitions(months.definitions(evaluation=PRIVATE))
    graph = definitions.resolve_asset_graph()
    wanted = dg.MonthlyPartitionsDefinition(
        start_date=datetime(2026, 1, 1, tzinfo=UTC), fmt="%Y-%m"
    )
    for key in graph.get_all_asset_keys():
        node = graph.get(key)
        assert node.partitions_def == wanted
        # None: a run for each partition, which knows it by name and not as a range.
        assert node.backfill_policy is None
    assert all(graph.get(key).partitions_def == wanted for key in graph.asset_check_keys)
    # Without partitions everything is as it was.
    plain = months.bench.definitions().resolve_asset_graph()
    assert not any(plain.get(key).partitions_def for key in plain.get_all_asset_keys())


def test_several_partitions_in_one_run_are_refused(months: Months) -> None:
    job = months.definitions().resolve_job_def("people_release")
    edges = {"start": JANUARY, "end": FEBRUARY}
    result = job.execute_in_process(
        instance=months.bench.instance,
        tags={f"dagster/asset_partition_range_{edge}": key for edge, key in edges.items()},
        raise_on_error=False,
    )
    assert "one partition at a time" in failure(result)
    assert months.bench.kinds() == []


@pytest.mark.slow
def test_a_translation_that_takes_the_partitions_away_is_refused(months: Months) -> None:
    with pytest.raises(PrivacyLabelError, match="partitions"):
        months.definitions(translate=lambda spec: spec.replace_attributes(partitions_def=None))


@pytest.mark.slow
def test_other_assets_partitions_are_not_the_release_s(bench: Bench) -> None:
    """An unpartitioned release in a partitioned run is the same release, paid for once."""

    @dg.asset(partitions_def=dg.StaticPartitionsDefinition(["a", "b"]))
    def beside() -> None: ...

    selection = dg.AssetSelection.all() - dg.AssetSelection.checks()
    job = dg.define_asset_job("both", selection=selection)
    definitions = dg.Definitions.merge(
        bench.definitions(mechanism=MechanismSpec("jam_pgm", rounds=1, iterations=20)),
        dg.Definitions(assets=[beside], jobs=[job]),
    )
    keys = [*together(definitions, UP_TO_SYNTHETIC), beside.key]
    for partition in ("a", "b"):
        result = definitions.resolve_job_def("both").execute_in_process(
            instance=bench.instance,
            partition_key=partition,
            asset_selection=keys,
            raise_on_error=False,
        )
        assert result.success, failure(result)
    assert bench.kinds().count("reserved") == 1


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"private": "people.csv"}, "has partitions, but its private source no {partition}"),
        ({"partitions": None, "start": None}, "The private source of release people has a"),
        (
            {"partitions": None, "start": None, "private": "p.csv", "public": "{partition}.csv"},
            "The public source of release people has a",
        ),
        ({"partitions": "hourly"}, "daily, weekly, monthly or {static: [names]}, got 'hourly'"),
        ({"partitions": {"dynamic": ["a"]}}, "{static: [names]}"),
        ({"partitions": {"static": []}, "start": None}, "at least one partition"),
        ({"partitions": {"static": ["a", "a"]}, "start": None}, "each once"),
        ({"partitions": {"static": ["a/b"]}, "start": None}, "'a/b'"),
        ({"partitions": {"static": ["a"]}}, "start is for partitions that are daily"),
        ({"partitions": None}, "start is for a release that has partitions"),
        ({"start": None}, "need a start, a day such as 2026-01-01; got None"),
        ({"partitions": "daily", "start": "2026-01"}, "got '2026-01'"),
        ({"schedule": "daily"}, "must be monthly, or a cron"),
        ({"schedule": "0 6 * * *"}, "such as '0 6 3 * *'; got '0 6 * * *'"),
        ({"schedule": "0 6 31 * *"}, "got '0 6 31 * *'"),
        (
            {"schedule": "monthly", "partitions": {"static": ["a"]}, "start": None},
            "Launch a backfill",
        ),
        (
            {"schedule": "monthly", "partitions": None, "start": None, "private": "p.csv"},
            "schedule is for a release that has partitions",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(
    months: Months, changes: dict[str, Any], named: str
) -> None:
    sources = {
        side: source_from_config(changes[side]) for side in ("private", "public") if side in changes
    }
    with pytest.raises(SpecificationError) as caught:
        months.definitions(**{**changes, **sources})
    assert named in str(caught.value)
    assert not months.bench.ledger.exists


@pytest.mark.parametrize(
    ("every", "schedule", "cron"),
    [
        *slow_rows(("monthly", "monthly", "0 0 1 * *")),
        ("monthly", "30 6 3 * *", "30 6 3 * *"),
        *slow_rows(
            ("weekly", "weekly", "0 0 * * 1"),
            ("weekly", "0 6 * * 0", "0 6 * * 0"),
            ("daily", "daily", "0 0 * * *"),
            ("daily", "15 23 * * *", "15 23 * * *"),
        ),
    ],
)
def test_the_schedule_is_due_once_a_partition_and_stopped(
    months: Months, every: str, schedule: str, cron: str
) -> None:
    definitions = months.definitions(partitions=every, schedule=schedule)
    made = definitions.resolve_schedule_def("people_release_schedule")
    assert made.cron_schedule == cron
    assert made.default_status is dg.DefaultScheduleStatus.STOPPED
    assert made.execution_timezone == "UTC"


@pytest.mark.parametrize(
    ("every", "start", "now", "due"),
    [
        ("monthly", "2026-01", datetime(2026, 3, 3, 6, tzinfo=UTC), FEBRUARY),
        # The fifth of January 2026 was a Monday.
        *slow_rows(
            ("weekly", "2026-01-01", datetime(2026, 1, 19, tzinfo=UTC), "2026-01-12"),
            ("daily", "2026-01-01", datetime(2026, 1, 3, tzinfo=UTC), "2026-01-02"),
        ),
    ],
)
def test_a_tick_releases_the_partition_whose_time_is_over(
    months: Months, every: str, start: str, now: datetime, due: str
) -> None:
    definitions = months.definitions(partitions=every, start=start, schedule=every)
    made = definitions.resolve_schedule_def("people_release_schedule")
    context = dg.build_schedule_context(
        instance=months.bench.instance,
        scheduled_execution_time=now,
        repository_def=definitions.get_repository_def(),
    )
    (request,) = made.evaluate_tick(context).run_requests or []
    assert request.partition_key == due


def test_there_is_no_schedule_unless_it_is_asked_for(months: Months) -> None:
    assert not months.definitions().schedules


def test_partitions_and_a_schedule_come_from_yaml(bench: Bench) -> None:
    attributes = {
        **ATTRIBUTES,
        "private": {"sql": "${PEOPLE}", "query": "select * from people where wave = '{partition}'"},
        "partitions": {"static": ["wave1", "wave2"]},
    }
    with loaded(bench, attributes) as (component, definitions):
        assert component.partitions == {"static": ["wave1", "wave2"]}
        keys = definitions.resolve_assets_def(dg.AssetKey(["people", "jam_pgm"])).partitions_def
        assert keys == dg.StaticPartitionsDefinition(["wave1", "wave2"])
    monthly = {
        **ATTRIBUTES,
        "private": str(bench.home / "private_{partition}.csv"),
        "partitions": "monthly",
        "start": "2026-01-01",
        "schedule": "0 6 3 * *",
    }
    with loaded(bench, monthly) as (_, definitions):
        made = definitions.resolve_schedule_def("people_release_schedule")
        assert made.cron_schedule == "0 6 3 * *"


def test_a_start_in_yaml_needs_no_quotes() -> None:
    text = yaml.safe_dump(ATTRIBUTES) + "partitions: daily\nstart: 2026-01-01\n"
    release = SyntheticRelease.resolve_from_yaml(text)
    assert PartitionsSpec.of(release.partitions, release.start) == PartitionsSpec(
        "daily", "2026-01-01"
    )


@pytest.mark.slow
def test_a_domain_that_was_edited_since_is_told_before_it_is_paid(months: Months) -> None:
    named = ["domain", "privacy_budget"]
    assert months.run(JANUARY, named).success
    edited = DOMAIN.to_dict()
    edited["attributes"]["town"]["values"].insert(0, "Ulm")
    changed = {"domain": DomainSpec(declared=Domain.from_dict(edited))}
    history = told(months.run(FEBRUARY, named, **changed))["privacy_budget"]["history"]
    assert "Since 2026-01 the domain was edited: town has also Ulm" in history
