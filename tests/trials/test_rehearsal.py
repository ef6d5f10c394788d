"""The steps after a mechanism are timed by making them, and grow with the rows."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from jam_dagster.certificates.table import table_csv
from jam_dagster.evaluation import workload_error
from jam_dagster.evaluation.expectations import validation
from jam_dagster.evaluation.expectations.checked_table import CheckedTable
from jam_dagster.mechanisms.loops import rows
from jam_dagster.tables import FrameSource
from jam_dagster.tables.sources.table_file import TableFile
from jam_dagster.trials import planner, rehearsal, trial
from jam_dagster.trials.plan_request import PlanRequest
from jam_dagster.trials.plan_words import simulated_in_words
from jam_dagster.trials.planner import prepare, simulate
from jam_dagster.trials.rehearsal import Rehearsal
from jam_dagster.trials.release_plan import Plan
from tests.full_disk import files_of_at_most
from tests.tables.sources.test_with_children import DOMAIN as PERSONS
from tests.tables.sources.test_with_children import LINK, two_tables
from tests.trials.test_planner import DOMAIN, PUBLIC, SETTINGS

ROWS = (500, 1000, 4000)
IN_CHUNKS = (500, 1000, 2000)


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rehearsal, "_AT_ONCE", ROWS)
    monkeypatch.setattr(rehearsal, "_IN_CHUNKS", IN_CHUNKS)
    monkeypatch.setattr(rehearsal, "CHUNK_ROWS", IN_CHUNKS[1])
    monkeypatch.setattr(planner, "MOST_UNREHEARSED", ROWS[-1])
    monkeypatch.setattr(trial, "MOST_SAMPLED", 1000)


def planned(records: int, **options: object) -> Plan:
    given = {"public": PUBLIC, "domain": DOMAIN, "epsilon": 1.0, "mechanism": "jam_pgm"}
    given |= {"settings": SETTINGS, "degree": 2, "records": records}
    return simulate(prepare(PlanRequest.of(**(given | options))))


def test_seconds_grow_with_the_rows_from_the_last_two_tries() -> None:
    # The first loads libraries: 5 s. Each further row takes a millisecond.
    made = Rehearsal(1_000_500, True, True, {"checks": [5.0, 1.0, 2.0]})
    assert made.expected(search=9.0) == {"checks": pytest.approx(5.0 + 1_000_000 * 0.001)}


def test_rows_and_those_of_the_prior_are_searched_where_they_are_made_at_once() -> None:
    taken = {"sample": [1.0, 1.0, 1.0], "evaluate": [2.0, 2.0, 2.0]}
    assert Rehearsal(300_000, False, True, taken).expected(search=9.0) == {
        "sample": 10.0,
        "evaluate": 11.0,
    }
    without = {"sample": [1.0, 1.0, 1.0]}
    assert Rehearsal(300_000, False, False, without).expected(search=9.0) == {"sample": 10.0}
    assert Rehearsal(300_000, True, True, taken).expected(search=9.0)["sample"] == 1.0


def test_a_stage_that_was_tried_once_takes_as_long_for_all_rows() -> None:
    made = Rehearsal(10**9, True, True, {"evaluate": [3.0]})
    assert made.expected(search=9.0) == {"evaluate": 3.0}


def test_a_shorter_try_that_took_longer_costs_nothing_a_row() -> None:
    assert Rehearsal(10**9, True, True, {"sample": [2.0, 4.0, 3.0]}).expected(0.0)["sample"] == 2.0


@pytest.mark.slow
@pytest.mark.parametrize(("records", "times"), [(50_000_000, 1), (90_000, len(ROWS))])
def test_what_takes_as_long_for_more_rows_in_chunks_is_tried_once(
    records: int, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = []

    def named(function: Callable[..., object]) -> Callable[..., object]:
        def call(*given: object, **more: object) -> object:
            called.append(function.__name__)
            return function(*given, **more)

        return call

    # Trials import the function of the same name from elsewhere.
    monkeypatch.setattr(rehearsal, "workload_error", named(workload_error))
    monkeypatch.setattr(validation, "validate", named(validation.validate))
    planned(records)
    assert called == ["workload_error", "validate"] * times


@pytest.mark.slow
def test_the_last_two_tries_in_chunks_differ_by_one_that_is_not_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes, real = [], CheckedTable.of

    def of(table: TableFile, *facts: Any) -> CheckedTable:
        sizes.append(table.sizes)
        return real(table, *facts)

    monkeypatch.setattr(CheckedTable, "of", of)
    # A second plan of equal rows makes its checks, too.
    for _ in range(2):
        sizes.clear()
        planned(50_000_000)
        assert sizes == [[500], [1000], [1000, 1000]]


@pytest.mark.slow
def test_a_large_release_makes_reads_evaluates_and_checks_rows_in_chunks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rows, "cores", lambda: 2)
    monkeypatch.setattr(rows, "free_memory", lambda: 2**40)
    cost = planned(50_000_000).cost
    assert cost.in_chunks
    assert cost.rehearsed == IN_CHUNKS[-1]
    assert cost.rows_mb > 2 * 2**7
    assert {"encode", "sample", "evaluate", "checks"} < cost.expected_seconds.keys()
    # The public table is read once, whatever the private one has.
    assert cost.expected_seconds["read"] == cost.measured_seconds["read"]


@pytest.mark.slow
def test_a_table_that_is_made_at_once_takes_its_memory() -> None:
    made = planned(90_000)
    cost = made.cost
    assert not cost.in_chunks
    assert cost.rows_mb > 86_000 * len(DOMAIN.names) / 2**20
    said = simulated_in_words(made)
    assert f"{cost.rows_mb:,.0f} MB for synthetic rows" in said["Memory"]
    assert "extrapolated from up to 4,000 rows. Report and certificate" in said["Time"]


@pytest.mark.slow
def test_both_of_two_tables_are_held_and_written(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[pd.DataFrame] = []

    def kept(table: pd.DataFrame, *given: Any) -> bytes:
        written.append(table)
        return table_csv(table, *given)

    monkeypatch.setattr(rehearsal, "table_csv", kept)
    roots, children = (FrameSource(one, "public") for one in two_tables(2000))
    entry = {"private": "private.csv", "public": children, "key": LINK.column, "max": LINK.maximum}
    options = {"public": roots, "domain": PERSONS, "children": {LINK.table: entry}}
    cost = planned(90_000, **options).cost
    assert [list(one) for one in written] == 3 * [["id", "region"], ["id", "job", "sex"]]
    held = sum(one.memory_usage(deep=True).sum() for one in written[-2:])
    assert cost.rows_mb == pytest.approx(held / ROWS[-1] * (90_000 - ROWS[-1]) / 2**20)


def test_few_records_are_not_rehearsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "Rehearsal", None)
    made = planned(ROWS[-1])
    assert made.cost.rehearsed == 0
    assert simulated_in_words(made)["Time"].endswith("Checks and report, not measured, add seconds")


@pytest.mark.slow
@pytest.mark.parametrize(("folder", "room"), [("gone", 10**9), ("", 1000)], ids=["gone", "full"])
def test_a_plan_without_a_folder_for_rows_is_made_all_the_same(
    folder: str, room: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / folder))
    with files_of_at_most(room):
        made = planned(50_000_000)
    assert made.cost.rehearsed == 0
    assert made.cost.expected_seconds["sample"] > 0.0
    said = simulated_in_words(made)["Time"]
    assert "Checks and report, not measured, and an evaluation grow with the rows: none" in said
    assert said.endswith("in TMPDIR; set it to a folder with room, and plan again")
    assert "add seconds" not in said
    assert "unwritten" not in json.dumps(made.to_dict())


@pytest.mark.slow
def test_a_release_without_evaluation_takes_nothing_for_it() -> None:
    assert "evaluate" not in planned(50_000_000, evaluation_mode="off").cost.expected_seconds
