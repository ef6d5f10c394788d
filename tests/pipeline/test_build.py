"""A release as its users run it: what it makes, what it charges, and what it refuses."""

import re
import sqlite3
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd
import pytest

from jam_dagster.errors import SpecificationError
from jam_dagster.evaluation import expectation_names
from jam_dagster.mechanisms import Transcript
from jam_dagster.pipeline import DatasetBudget
from jam_dagster.pipeline.assets.metadata import column_schema
from jam_dagster.pipeline.storage.store_place import stored_draws
from jam_dagster.privacy import Budget, epsilon_from_rho
from jam_dagster.privacy.ledger.release_id import command_line_run
from jam_dagster.release import DomainSpec, EvaluationSpec, MechanismSpec, PrivacySpec
from jam_dagster.tables import Domain, encode
from tests.budgets import FIXED, PUBLIC_N
from tests.pipeline.conftest import (
    DOMAIN,
    UP_TO_SYNTHETIC,
    Bench,
    Full,
    failure,
    labels_of,
    told,
)
from tests.tiers import slow, slow_rows

GROUPS = {"schema", "values", "constraints", "rules", "measured_marginals", "domain_fits"}
OFF = EvaluationSpec(mode="off")


def synthetic(bench: Bench, *, restricted: bool = False) -> pd.DataFrame:
    root = bench.closed if restricted else bench.releases
    return pd.read_parquet(root / "people" / "synthetic_records.parquet")


def test_a_job_opens_the_ledger_few_times(full: Full) -> None:
    rounds = told(full.result)["jam_pgm"]["rounds"].records
    # A noisy marginal is charged and stored; which rounds have one is drawn.
    measured = sum("±" in str(one.data) for one in rounds)
    assert full.connections <= 41 + 2 * measured


def test_release_ends_green_and_every_check_is_evaluated(full: Full) -> None:
    bench, result = full.bench, full.result
    checks = {one.check_name: one for one in result.get_asset_check_evaluations()}
    # The domain has no rule beside its constraints.
    assert set(checks) == GROUPS - {"rules"} | {
        *("releasable", "error_known", "better_than_public", "budget_suffices")
    }
    listed = checks["schema"].metadata["expectations"].value.records
    assert {one.data["expectation"] for one in listed} >= {"columns", "row_count", "sex__dtype"}
    broken = [one.check_name for one in checks.values() if not one.passed]
    # Warnings may come and go with the noise; what a consumer relies on may not.
    assert all(checks[name].severity is dg.AssetCheckSeverity.WARN for name in broken)

    # What the pages of the assets point to is there.
    events = result.get_asset_materialization_events()
    names = {event.asset_key.path[-1] for event in events} | set(checks)
    graph = bench.definitions().resolve_asset_graph()
    for event in events:
        node = graph.get(event.asset_key)
        # `dg list defs` shows it in a narrow column.
        assert node.description is not None
        assert len(node.description) <= 32
        assert {"about", "who_may_see_it", "what_it_costs", "where_to_look"} <= {*node.metadata}
        pointed = set(re.findall(r"`(\w+)`", node.metadata["where_to_look"]))
        assert pointed <= names | set(event.materialization.metadata)

    table = synthetic(bench)
    assert list(table.columns) == list(DOMAIN.names)
    assert encode(table, DOMAIN, private=False).records == 600
    pd.testing.assert_frame_equal(
        pd.read_csv(bench.releases / "people" / "synthetic_records.csv").astype(table.dtypes), table
    )

    run = told(result)["jam_pgm"]
    assert len(run["rounds"].records) == 3
    assert 0 < run["rho_spent"] <= run["rho_budget"]
    # Now that a draw is paid for.
    assert run["records"] == 600
    assert run["epsilon_spent"] <= 2.0
    assert run["picks_private"] + run["picks_public"] == 3
    for picture in ("budget_over_rounds", "choices_per_round"):
        assert "](data:image/png;base64," in run[picture]
    made = told(result)["synthetic_records"]
    assert made["dagster/row_count"] == 600
    # A table that has little to do with the model would be off by 1.
    assert 0 <= made["sampling_error_mean"] <= made["sampling_error_maximum"] < 0.5
    assert "not an error against private data" in made["sampling_error_is"]
    assert [column.name for column in made["dagster/column_schema"].columns] == list(DOMAIN.names)
    lineage = made["dagster/column_lineage"].deps_by_column["job"]
    assert {dep.asset_key.path[-1] for dep in lineage} == {
        "private_discretized",
        "public_discretized",
    }
    assert {dep.column_name for dep in lineage} == {"job"}
    error = told(result)["workload_error"]
    assert "restricted" in error["note"]
    assert "](data:image/png;base64," in error["error_by_marginal"]
    assert not (bench.releases / "people" / "workload_error.json").exists()
    assert (bench.closed / "people" / "workload_error.json").exists()

    kinds = bench.kinds()
    assert kinds[0] == "reserved"
    assert kinds[-2:] == ["closed", "certified"]
    assert kinds.count("charged") == 3 + run["picks_private"]
    assert bench.ledger.balance("people").reserved == 0
    spent = bench.ledger.balance("people").spent
    transcript = Transcript.load(bench.releases / "people" / "jam_pgm.run" / "transcript")
    assert spent == pytest.approx(transcript.rho_spent, rel=1e-12)
    # The event log tells six digits.
    assert run["rho_spent"] == pytest.approx(spent, rel=1e-5)


def test_private_assets_tell_nothing_not_even_their_number_of_rows(full: Full) -> None:
    raw, coded = (told(full.result)[f"private_{name}"] for name in ("records", "discretized"))
    # What would lie in a store would have a path.
    harmless = {"dagster/column_schema"}
    assert set(raw) == harmless | {"source", "kept"}
    assert set(coded) == harmless | {"dagster/column_lineage"}
    # The schema is the declared one: nothing in it was seen in the table.
    assert raw["dagster/column_schema"] == column_schema(DOMAIN)
    assert coded["dagster/column_schema"] == column_schema(DOMAIN, coded=True)


@pytest.mark.slow
def test_exact_errors_reach_the_restricted_report_only(bench: Bench) -> None:
    graph = bench.definitions().resolve_asset_graph()
    ancestors = graph.get_ancestor_asset_keys(dg.AssetKey(["people", "release_report"]))
    assert dg.AssetKey(["people", "workload_error"]) not in ancestors
    assert dg.AssetKey(["people", "workload_error"]) in graph.get_ancestor_asset_keys(
        dg.AssetKey(["people", "release_report_restricted"])
    )


# What is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [DatasetBudget(epsilon=1.0, delta=1e-9, **FIXED), *slow(None)])
def test_a_refusal_leaves_what_it_did_not_run_as_it_was(
    bench: Bench, budget: DatasetBudget | None
) -> None:
    """Dagster shows what a failed run did not make as failed, and what a canceled one did not."""
    bench.budget = budget
    result = bench.run()
    run = bench.instance.get_run_by_id(result.run_id)
    assert run is not None
    assert run.status == dg.DagsterRunStatus.CANCELED
    log = bench.instance.all_logs(result.run_id)
    (refusal,) = [one for one in log if one.user_message.startswith("Refused: ")]
    (failed,) = [one for one in log if one.is_dagster_event and one.dagster_event.is_step_failure]
    assert refusal.user_message.removeprefix("Refused: ") in failure(result)
    assert log.index(refusal) < log.index(failed)


@pytest.mark.slow
def test_a_damaged_ledger_fails_its_run(bench: Bench) -> None:
    bench.ledger.grant("people", epsilon=5.0, delta=1e-9, policy=PUBLIC_N)
    with sqlite3.connect(bench.home / "ledger.sqlite") as connection:
        triggers = "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        for (name,) in connection.execute(triggers).fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute("UPDATE events SET reason = 'another'")
    result = bench.run(["domain", "privacy_budget"])
    run = bench.instance.get_run_by_id(result.run_id)
    assert run is not None
    assert "LedgerIntegrityError" in failure(result)
    assert run.status == dg.DagsterRunStatus.FAILURE


def change(path: Path, edit: Any) -> None:
    table = pd.read_csv(path)
    edit(table).to_csv(path, index=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("side", "edit", "error", "named"),
    [
        ("private", lambda t: t.drop(columns="job"), "DomainError", "job"),
        *slow_rows(("public", lambda t: t.drop(columns="job"), "DomainError", "job")),
    ],
)
def test_bad_table_is_refused_and_nothing_is_charged(
    bench: Bench, side: str, edit: Any, error: str, named: str
) -> None:
    change(getattr(bench, side), edit)
    message = failure(bench.run())
    assert error in message
    assert named in message
    assert set(bench.kinds()) <= {"reserved"}


@pytest.mark.slow
def test_workload_that_fits_no_model_is_refused_before_anything_is_reserved(bench: Bench) -> None:
    # Without an impossible combination, whose clique the model holds from the start.
    domain = Domain(DOMAIN.attributes)
    mechanism = MechanismSpec("jam_pgm", rounds=3, size_limit_mb=1e-6)
    message = failure(bench.run(domain=domain, mechanism=mechanism))
    assert "EmptyCandidateSetError" in message
    assert bench.kinds() == []


@pytest.mark.slow
def test_what_another_release_would_leave_is_told(bench: Bench) -> None:
    def outlook(epsilon: float) -> Any:
        result = bench.run(["domain", "privacy_budget"], privacy=PrivacySpec(epsilon=epsilon))
        (event,) = [
            one for one in result.get_asset_materialization_events() if one.asset_key == budget
        ]
        return event.materialization.metadata["dataset_epsilon_after_another"].value

    budget = dg.AssetKey(["people", "privacy_budget"])
    left = Budget(5.0, 1e-9).rho - 2 * Budget(2.0, 1e-9).rho
    assert outlook(2.0) == pytest.approx(epsilon_from_rho(left, 1e-9))
    assert outlook(4.0) == "another does not fit"


@pytest.mark.slow
def test_draws_that_lie_with_the_command_line_are_told(bench: Bench) -> None:
    table = bench.private.read_text()
    bench.private.unlink()
    failure(bench.run())
    (reserved,) = bench.ledger.reservations()
    by_hand = bench.ledger.open_release(
        reserved.release_id, reserved.shares, run_id=command_line_run()
    )
    by_hand.account("mechanism").charge("round-000/select", 1e-6)
    bench.private.write_text(table)
    message = failure(bench.run(UP_TO_SYNTHETIC))
    assert "`jam-dagster synthesize` charged it: its folder holds them" in message
    assert bench.kinds() == ["reserved", "charged"]


def test_older_copy_of_the_ledger_is_noticed_by_what_it_forgot(drawn: Bench) -> None:
    """The draws that it does not know were paid once, and would go back to the budget."""
    events = drawn.events()
    first = next(event for event in events if event.kind.value == "charged")
    shares = {event.share: event.rho for event in events if event.kind.value == "reserved"}
    (drawn.home / "ledger.sqlite").rename(drawn.home / "newer.sqlite")
    drawn.ledger.grant("people", epsilon=5.0, delta=1e-9, policy=PUBLIC_N)
    assert first.release_id is not None
    older = drawn.ledger.open_release(first.release_id, shares)
    older.account(first.share).charge(first.step, first.rho)
    message = failure(drawn.run(UP_TO_SYNTHETIC))
    assert "that this ledger never charged: it is another ledger, or an older copy" in message
    assert drawn.kinds() == ["reserved", "charged"]


@pytest.mark.slow
def test_draws_that_lie_behind_a_link_are_remembered(drawn: Bench) -> None:
    store = drawn.resources()["releasable_io_manager"].open().files
    archive = drawn.releases / "people" / "archive"
    (edition,) = archive.iterdir()
    before = list(stored_draws(store))
    assert before
    for folder in (edition, archive, drawn.releases / "people"):
        moved = drawn.home / f"moved-{folder.name}"
        folder.rename(moved)
        folder.symlink_to(moved)
        assert list(stored_draws(store)) == before
    (drawn.home / "ledger.sqlite").rename(drawn.home / "lost.sqlite")
    # They are remembered, and no release goes on through a link.
    assert "is a link or a device" in failure(drawn.run(["privacy_budget"]))


@pytest.mark.slow
@pytest.mark.parametrize("edition", ["1", "2"])
def test_ledger_that_was_lost_grants_no_second_budget(drawn: Bench, edition: str) -> None:
    (drawn.home / "ledger.sqlite").rename(drawn.home / "lost.sqlite")
    privacy = PrivacySpec(epsilon=2.0, edition=edition)
    message = failure(drawn.run(UP_TO_SYNTHETIC, privacy=privacy))
    assert "holds draws of protected dataset 'people'" in message
    assert "Restore the ledger" in message
    assert "jam-dagster ledger grant" in message
    assert drawn.events() == []
    (drawn.home / "lost.sqlite").rename(drawn.home / "ledger.sqlite")
    assert drawn.run(["privacy_budget"], privacy=privacy).success


# Research -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_domain_identified_from_public_data(bench: Bench) -> None:
    for path in (bench.private, bench.public):
        table = pd.read_csv(path).assign(year=2013)
        table["quarter"] = [f"2024-Q{place % 4 + 1}" for place in range(len(table))]
        table.to_csv(path, index=False)
    result = bench.run(domain=DomainSpec(identify="public", bins=4), evaluation=OFF)
    assert result.success, failure(result)
    (made,) = result.asset_materializations_for_node("people__domain")
    assert made.metadata["left_out"].value == "- year: is 2013 in every row"
    assert made.metadata["to_look_at"].value.startswith("- quarter: looks like months, quarters")
    names = {one.check_name for one in result.get_asset_check_evaluations()}
    assert names == GROUPS | {"releasable", "budget_suffices"}
    assert list(synthetic(bench).columns) == [*DOMAIN.names, "year", "quarter"]


@pytest.mark.slow
def test_a_domain_drafted_from_private_data_is_restricted(bench: Bench) -> None:
    changes = {"domain": replace(DOMAIN, identified_from="private"), "evaluation": OFF}
    assert labels_of(bench.definitions(**changes)) == {
        "public_records": "public",
        "domain": "restricted",
        "privacy_budget": "public",
        "private_records": "private",
        "private_discretized": "private",
        "public_discretized": "restricted",
        "jam_pgm": "restricted",
        "synthetic_records": "restricted",
        "release_certificate": "restricted",
        "release_report": "restricted",
    }
    result = bench.run(**changes)
    assert result.success, failure(result)
    checks = {one.check_name: one for one in result.get_asset_check_evaluations()}
    assert not checks["releasable"].passed
    # A digest of what nothing paid for would tell neighbours apart.
    assert "certified" not in bench.kinds()
    # It draws on private data, so it is charged like any other.
    assert bench.kinds().count("charged") >= 3
    kept = {path.name for path in bench.releases.rglob("*") if path.is_file()}
    assert kept == {"public_records.parquet"}
    # Draws, report and checks lie in the private store, closed to others like all that is there.
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in bench.closed.rglob("*")}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}
    assert {path.suffix for path in modes} >= {".npz", ".html", ".parquet", ".csv", ".yaml"}


@pytest.mark.slow
@pytest.mark.parametrize("misfit", ["warn", "error"])
def test_a_domain_that_does_not_fit_is_said_and_blocks_where_it_should(
    bench: Bench, misfit: str
) -> None:
    moved = {"Aix": "Oslo", "Bern": "Riga", "Cork": "Turin"}
    table = pd.read_csv(bench.private)
    table = table.assign(town=table["town"].map(moved), wealth=4711)
    table.to_csv(bench.private, index=False)
    # A mean error with noise, and every column measured.
    result = bench.run(
        misfit=misfit,
        mechanism=MechanismSpec("mst"),
        evaluation=EvaluationSpec(mode="private"),
    )
    found = {one.check_name: one for one in result.get_asset_check_evaluations()}
    check = found["domain_fits"]
    assert not check.passed
    assert check.severity.value == misfit.upper()
    (row,) = (
        one.data for one in check.metadata["expectations"].value.records if one.data["met"] == "no"
    )
    assert row["expectation"] == "town__fit"
    assert "counted as elsewhere" in row["finding"]
    assert "List the values of town" in row["finding"]
    lines = [one.user_message for one in bench.instance.all_logs(result.run_id)]
    assert any(one.startswith("The domain does not fit town. In town, ") for one in lines)
    if misfit == "warn":
        assert not found["better_than_public"].passed
        assert found["better_than_public"].description.startswith("The domain does not fit town")
    # A column that neither domain nor public table has is named, and its values are not.
    assert any(
        "columns of the private table that the domain does not have: wealth" in one for one in lines
    )
    assert "4711" not in "".join(lines)
    assert ("release_report" in told(result)) == (misfit == "warn")
    summary = (bench.releases / "people" / "synthetic_records.checks.html").read_text()
    row = next(one for one in summary.split("<tr>") if "Fit of the domain" in one)
    assert ("blocks" in row) == (misfit == "error")
    if misfit == "warn":
        page = (bench.releases / "people" / "release_report.html").read_text()
        assert "The domain does not fit town" in page
        assert "List the values of town" in page


@pytest.mark.parametrize("level", ["default", *slow("INFO"), *slow("DEBUG")])
@pytest.mark.parametrize("where", ["run", *slow("assets"), "job of somebody else"])
def test_a_console_shows_events_of_dagster_only_if_asked(
    bench: Bench, level: str, where: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = {"loggers": {"console": {"config": {"log_level": level}}}}
    selected = [dg.AssetKey(["people", "domain"])]
    # Dagster's own job runs what `dg launch --assets` and the UI select.
    name = {"run": "people_release", "assets": "__ASSET_JOB"}.get(where, "mine")
    mine = dg.Definitions(jobs=[dg.define_asset_job("mine", selection=selected)])
    dg.Definitions.merge(bench.definitions(), mine).resolve_job_def(name).execute_in_process(
        instance=bench.instance,
        asset_selection=None if name == "mine" else selected,
        run_config=None if level == "default" else asked,
    )
    shown = "STEP_START" in capsys.readouterr().err
    assert shown == (level == "DEBUG" or (level == "default" and name == "mine"))


@pytest.mark.parametrize("key", ["console", *slow("json")])
def test_a_project_may_have_loggers_of_its_own(bench: Bench, key: str) -> None:
    own = dg.Definitions(loggers={key: dg.json_console_logger})
    job = dg.Definitions.merge(bench.definitions(), own).resolve_job_def("people_release")
    assert job.loggers == {key: dg.json_console_logger}
    done = job.execute_in_process(
        instance=bench.instance, asset_selection=[dg.AssetKey(["people", "domain"])]
    )
    assert done.success
    assert done.dagster_run.tags["jam/release"] == "people"


def test_the_job_runs_in_one_process_unless_the_code_location_is_to_run_it(bench: Bench) -> None:
    location = dg.Definitions(executor=dg.multiprocess_executor)

    def executor_of(**given: Any) -> dg.ExecutorDefinition:
        made = dg.Definitions.merge(bench.definitions(**given), location)
        return made.resolve_job_def("people_release").executor_def

    assert executor_of().name == "one_process"
    assert executor_of(executor="code_location") is dg.multiprocess_executor
    with pytest.raises(SpecificationError, match="executor must be one of in_process, code_loc"):
        executor_of(executor="celery")


def test_each_expectation_of_a_declared_domain_may_have_a_check(bench: Bench) -> None:
    def names(**given: Any) -> set[str]:
        graph = bench.definitions(checks="each", **given).resolve_asset_graph()
        return {key.name for key in graph.asset_check_keys}

    assert names() >= {one.name for one in expectation_names(DOMAIN)}
    assert names(domain=DomainSpec(identify="public")) >= GROUPS
    with pytest.raises(SpecificationError, match="checks must be one of grouped, each"):
        bench.definitions(checks="some")


def test_a_check_of_the_domain_blocks_where_the_file_says_so(bench: Bench) -> None:
    def blocking(**given: Any) -> set[str]:
        checks = bench.definitions(**given).asset_checks or ()
        return {spec.name for one in checks for spec in one.check_specs if spec.blocking}

    assert "domain_fits" not in blocking()
    assert blocking(misfit="error") == blocking() | {"domain_fits"}
    each = blocking(misfit="error", checks="each") - blocking(checks="each")
    assert each == {"town__fit", "age__fit"}
    with pytest.raises(SpecificationError, match="misfit must be one of warn, error"):
        bench.definitions(misfit="block")
