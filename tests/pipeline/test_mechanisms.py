"""Every mechanism makes a whole release: charged, certified, reported, and called by its name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import dagster as dg
import pytest

from jam_dagster.certificates import Certificate, verify
from jam_dagster.mechanisms import Transcript
from jam_dagster.mechanisms.registry import MECHANISMS, title_of
from jam_dagster.pipeline.budget.labels import CHARGES_TAG, LABEL_TAG
from jam_dagster.release import EvaluationSpec, MechanismSpec, PrivacySpec
from jam_dagster.reports.mechanism_text import chooses_source
from jam_dagster.tables import source_from_config
from tests.pipeline.conftest import DOMAIN, Bench, failure, up_to_synthetic
from tests.small_runs import REFUSING_IMPOSSIBLE, SYNTHESIZING, small
from tests.tiers import gate, slow

ALWAYS = ("jam_pgm", "tilt")
"""The paper's, and the one that is recommended; the command line certifies each kind of model."""

every_mechanism = pytest.mark.parametrize(
    "name", [*ALWAYS, *slow(*sorted(set(SYNTHESIZING) - set(ALWAYS)))]
)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*ALWAYS, *gate(*sorted(set(SYNTHESIZING) - set(ALWAYS)))])
def test_a_release_from_table_to_report(bench: Bench, name: str) -> None:
    asked: dict[str, Any] = {
        "mechanism": MechanismSpec(name, **small(name)),
        "evaluation": EvaluationSpec(mode="private", share=0.1),
    }
    if name in REFUSING_IMPOSSIBLE:
        asked["domain"] = replace(DOMAIN, impossible=())
    assets = [*up_to_synthetic(name), "workload_error", "release_certificate", "release_report"]
    result = bench.run(assets, **asked)
    assert result.success, failure(result)

    folder = bench.releases / "people"
    transcript = Transcript.load(folder / f"{name}.run" / "transcript")
    assert (transcript.mechanism, transcript.releasable) == (name, True)
    charged = {event.step for event in bench.events() if event.kind.value == "charged"}
    assert charged == {call.step for call in transcript.calls} | {"evaluation/means"}
    found = verify(
        folder / "release_certificate",
        ledger=bench.ledger,
        public=source_from_config(str(bench.public)),
    )
    assert [one for one in found if not one.passed] == []
    assert all(one.checked for one in found)
    assert Certificate.load(folder / "release_certificate").releasable

    page = (folder / "release_report.html").read_text()
    assert f"the mechanism ({title_of(name)})" in page
    assert ("taken from public data" in page) == chooses_source(transcript.mechanism)
    assert ("was taken from the public table" in page) == chooses_source(transcript.mechanism)
    others = {one.title for one in MECHANISMS.values()} - {title_of(name)}
    assert not [one for one in others if f"({one})" in page]
    for path in bench.releases.rglob("*"):
        assert not path.is_file() or bench.private.name.encode() not in path.read_bytes(), path

    # Once more it costs nothing and is the same.
    before = (folder / "synthetic_records.csv").read_bytes()
    spent = bench.ledger.balance("people").spent_units
    again = bench.run(up_to_synthetic(name), **asked)
    assert again.success, failure(again)
    assert (folder / "synthetic_records.csv").read_bytes() == before
    assert bench.ledger.balance("people").spent_units == spent


@every_mechanism
def test_the_run_is_called_by_its_mechanism_and_is_what_charges(bench: Bench, name: str) -> None:
    specs = {
        spec.key.path[-1]: spec
        for spec in bench.definitions(mechanism=MechanismSpec(name)).resolve_all_asset_specs()
    }

    assert CHARGES_TAG in specs[name].tags
    assert specs[name].tags[LABEL_TAG] == "dp"
    assert specs[name].description == f"The run of {title_of(name)}."
    assert "mechanism_run" not in specs
    shown = " ".join(f"{spec.description} {spec.metadata}" for spec in specs.values())
    assert ("jam_pgm" in shown) == (name == "jam_pgm")
    assert dg.AssetKey(["people", name]) in {
        dep.asset_key for dep in specs["synthetic_records"].deps
    }


def test_the_run_says_that_it_learns_from_no_public_table(bench: Bench) -> None:
    uniform = MechanismSpec("tilt", prior="uniform")

    specs = bench.definitions(mechanism=uniform).resolve_all_asset_specs()

    (run,) = [spec for spec in specs if spec.key.path[-1] == "tilt"]
    assert run.description == "The run of TILT without public data."


@pytest.mark.slow
def test_another_mechanism_is_another_release(drawn: Bench) -> None:
    asked = {"mechanism": MechanismSpec("aim", **small("aim"))}

    # What follows from the run asks for the run of the mechanism that is configured.
    result = drawn.run(["release_report"], **asked)
    assert not result.success

    result = drawn.run(["aim", "release_report"], **asked)
    assert result.success, failure(result)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["aim", *gate("mst")])
def test_research_does_not_tell_how_many_rounds_the_data_took(bench: Bench, name: str) -> None:
    asked = {
        "mechanism": MechanismSpec(name, **small(name)),
        "privacy": PrivacySpec(epsilon=2.0, noise="numpy"),
    }
    result = bench.run(up_to_synthetic(name), **asked)
    assert result.success, failure(result)
    logged = [event.user_message for event in bench.instance.all_logs(result.run_id)]
    rounds = [line for line in logged if line.startswith("round ")]
    # Of MST it follows from the number of attributes.
    assert rounds == ([] if name == "aim" else [f"round {one}/7" for one in range(1, 8)])
