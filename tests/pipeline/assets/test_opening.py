"""How a release opens private data: once, bound to a source, and journalled before."""

import json
import re
import stat
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd
import pytest
from upath import UPath

from jam_dagster.errors import BudgetError
from jam_dagster.pipeline import DatasetBudget
from jam_dagster.pipeline.assets.asset_options import PRIVATE_STEP
from jam_dagster.pipeline.assets.descriptions import CHILDREN
from jam_dagster.pipeline.storage.io_manager import ReleaseStore
from jam_dagster.privacy import Kind
from jam_dagster.privacy.ledger.reservation import LedgerAccount
from jam_dagster.release import EvaluationSpec
from jam_dagster.tables import Domain
from tests.budgets import FIXED
from tests.pipeline.conftest import DOMAIN, GIVEN, UP_TO_SYNTHETIC, Bench, failure, people, told

OFF = EvaluationSpec(mode="off")


def attempts(bench: Bench) -> tuple[int, int]:
    """Return how many attempts there were, and how many did not end well."""
    verified = bench.ledger.verify().accesses
    assert verified is not None
    return verified.attempts, verified.not_ended


def failures(bench: Bench) -> list[Path]:
    return sorted((bench.closed / "people" / "failures").glob("*.txt"))


def failed_steps(result: dg.ExecuteInProcessResult) -> list[str | None]:
    return [event.step_key for event in result.all_events if event.is_step_failure]


def asking(*predicates: dict[str, Any]) -> Domain:
    """Return the domain with predicates that the table must not fulfil."""
    content = DOMAIN.to_dict()
    return Domain.from_dict({**content, "impossible": list(predicates)})


def said(result: dg.ExecuteInProcessResult) -> str:
    """Return what the event log tells of a failure, but for the times and ids of this run."""
    message = failure(result) + "\n".join(
        str(event.message) for event in result.all_events if event.is_step_failure
    )
    return re.sub(r"[0-9a-f-]{36}", "ID", message)


@pytest.mark.slow
def test_a_step_that_ends_well_has_paid_for_its_answer(bench: Bench) -> None:
    """One predicate a run: all that hold nobody would end well, for nothing, until one does not."""
    nobody = {"age": {"bins": [4]}, "sex": "F", "job": "clerk"}
    somebody = {"town": "Aix", "job": "nurse"}
    people(200, seed=2).assign(job="none").to_csv(bench.public, index=False)
    table = pd.read_csv(bench.private)
    table[(table["age"] < 60) | (table["job"] != "clerk")].to_csv(bench.private, index=False)
    refused = bench.run(UP_TO_SYNTHETIC, domain=asking(somebody), evaluation=OFF)
    assert "PrivateValuesError" in failure(refused)
    assert failed_steps(refused) == ["people__release"]
    made = {event.asset_key.path[-1] for event in refused.get_asset_materialization_events()}
    assert made == {*GIVEN, "privacy_budget"}
    assert "charged" not in bench.kinds()
    assert attempts(bench) == (1, 1)
    result = bench.run(UP_TO_SYNTHETIC, domain=asking(nobody), evaluation=OFF)
    assert result.success, failure(result)
    assert "charged" in bench.kinds()


@pytest.mark.parametrize("part", [part for part in PRIVATE_STEP if part != CHILDREN])
def test_no_part_of_the_step_runs_without_the_rest(bench: Bench, part: str) -> None:
    """A part that charges nothing would open the table by itself, and tell whether values fit."""
    job = bench.definitions().resolve_job_def("people_release")
    name = "jam_pgm" if part == "mechanism_run" else part
    with pytest.raises(dg.DagsterInvalidSubsetError, match="does not support subsetting"):
        job.get_subset(asset_selection={dg.AssetKey(["people", name])})


def events_of(result: dg.ExecuteInProcessResult, bench: Bench) -> str:
    """Return what the event log and the releasable store hold of a run's private steps."""
    logged = "\n".join(
        str(event.event_specific_data)
        for event in result.all_events
        if event.step_key == "people__release"
    )
    logged += "\n".join(str(entry.user_message) for entry in bench.instance.all_logs(result.run_id))
    return re.sub(r"[0-9a-f-]{36}|timestamp=[\d.]+|\d+(\.\d+)?m?s\b|pid: \d+", "", logged)


@pytest.mark.slow
def test_no_number_of_rows_is_shown_before_a_draw_is_paid(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pd.read_csv(bench.private).head(557)
    table.to_csv(bench.private, index=False)

    def refuses(*_: Any, **__: Any) -> None:
        raise BudgetError("no charge")

    with monkeypatch.context() as patched:
        patched.setattr(LedgerAccount, "charge", refuses)
        result = bench.run(UP_TO_SYNTHETIC, evaluation=OFF)
    assert failed_steps(result) == ["people__release"]
    assert not re.search(r"\b557\b", events_of(result, bench))
    drawn = bench.run(UP_TO_SYNTHETIC, evaluation=OFF)
    assert drawn.success, failure(drawn)
    (data,) = bench.releases.glob("people/archive/*/release.json")
    assert "records" not in json.loads(data.read_text())
    assert [one.records for one in bench.events() if one.kind == Kind.COUNTED] == ["557"]


@pytest.mark.slow
def test_a_release_opens_the_table_once_and_ends_well(bench: Bench) -> None:
    result = bench.run()
    assert result.success, failure(result)
    # Its errors, which are exact here, are measured meanwhile.
    assert attempts(bench) == (1, 0)
    # Nothing pays for an opening that measures them alone.
    assert bench.run().success
    assert attempts(bench) == (2, 1)
    assert failures(bench) == []


@pytest.mark.slow
def test_too_many_attempts_are_a_refusal_and_cancel_the_run(bench: Bench) -> None:
    bench.budget = DatasetBudget(epsilon=5.0, delta=1e-9, attempts=1, **FIXED)
    assert bench.run([*GIVEN, "privacy_budget"], evaluation=OFF).success
    with bench.ledger.attempt(bench.events()[-1].release_id):
        pass
    result = bench.run(UP_TO_SYNTHETIC, evaluation=OFF)
    run = bench.instance.get_run_by_id(result.run_id)
    assert run is not None
    assert run.status is dg.DagsterRunStatus.CANCELED
    log = [one.user_message for one in bench.instance.all_logs(result.run_id)]
    assert any(one.startswith("Refused: the private data of dataset 'people'") for one in log)
    assert attempts(bench) == (1, 1)


@pytest.mark.slow
def test_a_release_that_has_ended_is_made_again_without_its_private_table(bench: Bench) -> None:
    noisy = EvaluationSpec(mode="private")
    first = bench.run(evaluation=noisy)
    assert first.success, failure(first)
    bench.private.unlink()
    again = bench.run(evaluation=noisy)
    assert again.success, failure(again)
    assert attempts(bench) == (1, 0)
    shown = told(again)
    assert shown["jam_pgm"]["made_again"]
    for name in ("synthetic_records", "workload_error"):
        assert shown[name] == told(first)[name]


@pytest.mark.slow
def test_the_digest_of_a_source_stays_in_the_private_store_and_the_ledger(bench: Bench) -> None:
    result = bench.run(UP_TO_SYNTHETIC, evaluation=OFF)
    assert result.success, failure(result)
    secret = bench.closed / "source.key"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    (reserved,) = {one.source for one in bench.events() if one.kind.value == "reserved"}
    _, *digests = reserved.split(":")
    for path in bench.releases.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert not any(digest.encode() in content for digest in digests), path
    logged = "\n".join(str(event) for event in result.all_events)
    assert not any(digest in logged for digest in digests)


@pytest.mark.slow
def test_a_store_that_fails_is_no_attempt_and_holds_nobody_up(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dagster stores what the step hands out, once the private table is closed."""
    dump = ReleaseStore.dump_to_path

    def full(store: ReleaseStore, context: dg.OutputContext, obj: object, path: UPath) -> None:
        if path.name == "synthetic_records":
            raise OSError(28, "No space left on device")
        dump(store, context, obj, path)

    with monkeypatch.context() as patched:
        patched.setattr(ReleaseStore, "dump_to_path", full)
        result = bench.run(UP_TO_SYNTHETIC, evaluation=OFF)
    assert "No space left on device" in failure(result)
    assert attempts(bench) == (1, 0)
    again = bench.run(UP_TO_SYNTHETIC, evaluation=OFF)
    assert again.success, failure(again)


@pytest.mark.slow
def test_attempts_and_sources_are_granted_by_the_configured_budget(bench: Bench) -> None:
    one, other = (f"{16 * letter}:{64 * 'b'}" for letter in "ac")
    bench.budget = DatasetBudget(epsilon=5.0, delta=1e-9, **FIXED, attempts=7, sources=one)
    assert bench.run(["domain", "privacy_budget"]).success
    balance = bench.ledger.balance("people")
    assert (balance.attempts, balance.sources) == (7, one)
    for changed in ({"attempts": 8}, {"sources": other}):
        bench.budget = DatasetBudget(epsilon=5.0, delta=1e-9, **FIXED, **changed)
        message = failure(bench.run(["privacy_budget"]))
        assert "configure no more than was granted" in message
    # What is not configured is the officer's.
    bench.ledger.grant("people", epsilon=5.0, delta=1e-9, sources=f"{one},{other}")
    for sources in ("", one):
        bench.budget = DatasetBudget(epsilon=5.0, delta=1e-9, **FIXED, sources=sources)
        assert bench.run(["privacy_budget"]).success


@pytest.mark.slow
def test_a_run_that_is_cancelled_says_how_it_resumes(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cancelled(*_: Any, **__: Any) -> None:
        raise dg.DagsterExecutionInterruptedError

    monkeypatch.setattr(LedgerAccount, "charge", cancelled)
    result = bench.run(UP_TO_SYNTHETIC, evaluation=OFF)
    assert not result.success
    lines = "\n".join(entry.user_message for entry in bench.instance.all_logs(result.run_id))
    assert "The same run, launched once more, resumes where this run stopped" in lines
