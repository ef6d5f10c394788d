"""A release by a mechanism that reads no value: no step looks at one, and all end alike."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd
import pytest

from jam_dagster.pipeline.storage.formats import RUN
from jam_dagster.privacy import Kind
from jam_dagster.release import EvaluationSpec, MechanismSpec, PrivacySpec
from jam_dagster.tables import CsvSource
from tests.pipeline.assets.test_opening import attempts, said
from tests.pipeline.assets.test_source_assets import FROM_ASSETS, PEOPLE, SURVEY, Project
from tests.pipeline.conftest import (
    AS_DAGSTER_WARNS,
    Bench,
    failure,
    up_to_synthetic,
    write_tables,
)

pytestmark = [*AS_DAGSTER_WARNS, pytest.mark.slow]

PRIOR = up_to_synthetic("public_prior")
OFF = EvaluationSpec(mode="off")
MEASURED = EvaluationSpec(mode="private", share=0.5)


def by_prior(**changes: Any) -> dict[str, Any]:
    return {"mechanism": MechanismSpec("public_prior"), "evaluation": OFF, **changes}


def misfit(private: Path) -> None:
    """Replace values of some records by what no domain holds, and break the line of one."""
    lines = private.read_text().splitlines()
    lines[1:4] = ["X,Paris,spy,1e999", ",,,", "F,Aix"]
    private.write_text("\n".join(lines))


def shown(bench: Bench, result: dg.ExecuteInProcessResult) -> list[str]:
    """Return what the UI shows of each asset, and which steps ended well."""
    made = [
        f"{event.asset_key} {event.materialization.metadata}".replace(str(bench.home), "HOME")
        for event in result.get_asset_materialization_events()
    ]
    ended = [f"{event.step_key} {event.event_type_value}" for event in result.all_events]
    return sorted(made) + [line for line in ended if "STEP_" in line]


def test_no_step_looks_at_a_value(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: Any) -> None:
        raise AssertionError("read")

    misfit(bench.private)
    monkeypatch.setattr(CsvSource, "_batches", read)
    result = bench.run(PRIOR, **by_prior())
    assert result.success, failure(result)
    assert len(pd.read_csv(bench.releases / "people" / "synthetic_records.csv")) == 600
    assert attempts(bench) == (1, 0)
    assert bench.kinds() == ["reserved", "counted", "derived", "ran", "returned", "closed"]
    assert [one.records for one in bench.events() if one.kind == Kind.COUNTED] == ["600"]
    bench.ledger.verify()


def test_runs_are_shown_alike_whether_values_fit_or_not(tmp_path: Path) -> None:
    told = []
    for name in ("fits", "misfits"):
        home = tmp_path / name
        home.mkdir()
        write_tables(home)
        with Bench(home) as bench:
            if name == "misfits":
                misfit(bench.private)
            result = bench.run(PRIOR, **by_prior())
            assert result.success, failure(result)
            told.append(shown(bench, result))
    assert told[0] == told[1]


def test_the_number_of_records_is_shown_once_it_was_read_and_only_where_it_is_public(
    bench: Bench,
) -> None:
    hidden = PrivacySpec(epsilon=1.0, neighbours="add_remove")
    lines = bench.private.read_text().splitlines()
    bench.private.write_text("\n".join(lines[:574]))
    result = bench.run(PRIOR, **by_prior(privacy=hidden))
    assert result.success, failure(result)
    # The noise is 0 in one run of some fifteen: what was measured may be told.
    measured = RUN.read(bench.releases / "people" / "public_prior.run").transcript.records
    told = re.sub(rf"\b{measured}\b", "measured", str(shown(bench, result)))
    assert not re.search(r"\b573\b", told)
    assert [one.step for one in bench.events() if one.kind == Kind.CHARGED] == ["records"]
    assert not [one for one in bench.events() if one.kind == Kind.COUNTED]


def test_an_evaluation_is_charged_before_it_fails_on_values(bench: Bench) -> None:
    misfit(bench.private)
    asked = by_prior(evaluation=MEASURED)
    result = bench.run([*PRIOR, "workload_error"], **asked)
    assert "PrivateValuesError" in said(result)
    assert "1e999" not in said(result)
    charged = [one.step for one in bench.events() if one.kind == Kind.CHARGED]
    assert charged == ["evaluation/means"]
    # What is paid for is there; the release ends without the answer, and encodes nothing again.
    assert len(pd.read_csv(bench.releases / "people" / "synthetic_records.csv")) == 600
    again = bench.run(["workload_error", "release_certificate", "release_report"], **asked)
    assert again.success, failure(again)
    assert [one.step for one in bench.events() if one.kind == Kind.CHARGED] == charged


def test_an_asset_is_loaded_to_be_counted_and_once_the_evaluation_is_charged(bench: Bench) -> None:
    project = Project(bench)
    project.materialize(PEOPLE, SURVEY)
    asked = {**FROM_ASSETS, **by_prior(evaluation=MEASURED)}
    result = project.run([*PRIOR, "workload_error"], **asked)
    assert result.success, failure(result)
    loaded = [kinds for name, kinds in project.warehouse.given if name == "warehouse/people"]
    assert ["charged" in kinds for kinds in loaded] == [False, True]
