"""This repository's own code location: what it loads, and what its releases say without data."""

import tomllib
from pathlib import Path

import dagster as dg
import pandas as pd
import pytest
import yaml
from dagster_shared.libraries import DagsterLibraryRegistry

import assets.definitions
from assets.materialized import is_materialized
from jam_dagster.pipeline import LedgerResource, check_definitions
from jam_dagster.tables import Domain, health_survey_domain
from jam_dagster.version import __version__
from resources import BUDGETS, build_resources
from tests.pipeline.conftest import Bench

ROOT = Path(__file__).parents[2]
TWO = ("records", "persons")
RELEASES = ROOT / "assets" / "releases"


@pytest.fixture
def code_location(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dg.Definitions:
    monkeypatch.delenv("JAM_DATA", raising=False)
    monkeypatch.setenv("JAM_HOME", str(tmp_path))
    definitions = assets.definitions.defs()
    assert isinstance(definitions, dg.Definitions)
    return definitions


def test_workspace_file_says_the_same_as_pyproject() -> None:
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["dg"]
    (location,) = yaml.safe_load((ROOT / "workspace.yaml").read_text())["load_from"]
    module = location["python_module"]
    assert tool["directory_type"] == "project"
    assert module["location_name"] == tool["project"]["code_location_name"]
    # dg looks for the module `definitions` below the root module, unless it is told otherwise.
    shown = tool["project"].get("code_location_target_module", "")
    assert module["module_name"] == (shown or f"{tool['project']['root_module']}.definitions")
    assert module["working_directory"] == "."
    assert tool["project"]["defs_module"].startswith(f"{tool['project']['root_module']}.")


def test_code_location_loads_without_data(code_location: dg.Definitions) -> None:
    dg.Definitions.validate_loadable(code_location)
    groups = {spec.group_name for spec in code_location.resolve_all_asset_specs()}
    assert groups == {"health_survey", "health_survey_monthly", "households", "adult"}
    for name in groups:
        assert code_location.resolve_job_def(f"{name}_release")


@pytest.mark.parametrize("found", [False, True])
def test_what_a_run_would_miss_is_logged(
    bench: Bench, found: bool, caplog: pytest.LogCaptureFixture
) -> None:
    if not found:
        bench.budget = None
        bench.public.unlink()
    check_definitions(bench.definitions())
    said = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert bool(said) == (not found)
    if said:
        table, budget = said
        assert f"there is no {bench.public}, its public table." in table
        assert "'people' has no privacy budget" in budget
        assert f"ledger grant --ledger {bench.ledger.location} --dataset people" in budget


def test_a_dataset_that_an_officer_has_granted_has_a_budget(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.budget = None
    bench.ledger.grant("people", epsilon=1.0, delta=1e-9)
    check_definitions(bench.definitions())
    assert not caplog.records


def test_a_ledger_that_cannot_be_read_here_is_no_missing_budget(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    elsewhere = LedgerResource(url="${NO_SUCH_VARIABLE}")
    resources = {**bench.resources(), "ledger": elsewhere}
    assets = bench.definitions().assets
    check_definitions(dg.Definitions(assets=assets, resources=resources))
    assert not caplog.records


@pytest.mark.slow
def test_households_and_their_persons_are_made(
    code_location: dg.Definitions, tmp_path: Path
) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        made = code_location.resolve_job_def("households_release")
        result = made.execute_in_process(instance=instance)
    checks = [one for one in result.get_asset_check_evaluations() if one.blocking]
    # The ledger is new, and no file next to the release says that it is the right one.
    assert [one.check_name for one in checks if not one.passed] == ["budget_suffices"]
    tables = (tmp_path / "releases" / "households" / f"synthetic_{one}.csv" for one in TWO)
    households, persons = (pd.read_csv(table)["household_id"] for table in tables)
    assert households.is_unique
    assert set(persons) <= set(households)


@pytest.mark.slow
def test_a_month_of_the_demo_is_made(code_location: dg.Definitions, tmp_path: Path) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        made = code_location.resolve_job_def("health_survey_monthly_release")
        assert made.execute_in_process(instance=instance, partition_key="2026-01").success
    report = tmp_path / "releases" / "health_survey_monthly" / "release_report" / "2026-01.html"
    assert "the table that it was drawn on" in report.read_text()


def test_protected_datasets_of_the_releases_have_budgets() -> None:
    for path in RELEASES.glob("*/defs.yaml"):
        attributes = yaml.safe_load(path.read_text())["attributes"]
        assert attributes["dataset"] in BUDGETS
        assert attributes["privacy"]["epsilon"] <= BUDGETS[attributes["dataset"]].epsilon


def test_domain_of_the_demo_is_the_simulator_s() -> None:
    assert Domain.load(RELEASES / "health_survey" / "domain.yaml") == health_survey_domain()


def test_parts_of_adult_are_of_one_split() -> None:
    attributes = yaml.safe_load((RELEASES / "adult" / "defs.yaml").read_text())["attributes"]
    private, public = attributes["private"], attributes["public"]
    assert (private.pop("part"), public.pop("part")) == ("private", "public")
    assert private == public


@pytest.mark.parametrize(
    ("variables", "ledger", "private", "releases"),
    [
        ({"JAM_HOME": "/j"}, "/j/ledger.sqlite", "/j/private", "/j/releases"),
        ({"DAGSTER_HOME": "/d"}, "/d/jam/ledger.sqlite", "/d/jam/private", "/d/jam/releases"),
        (
            {"JAM_HOME": "/j", "JAM_LEDGER": "/l", "JAM_PRIVATE": "/p", "JAM_RELEASES": "s3://r"},
            # By their names, which errors show.
            *("${JAM_LEDGER}", "${JAM_PRIVATE}", "${JAM_RELEASES}"),
        ),
        ({}, f"{ROOT}/.jam/ledger.sqlite", f"{ROOT}/.jam/private", f"{ROOT}/.jam/releases"),
    ],
)
def test_places_follow_the_environment(
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    ledger: str,
    private: str,
    releases: str,
) -> None:
    for name in ("JAM_HOME", "DAGSTER_HOME", "JAM_LEDGER", "JAM_PRIVATE", "JAM_RELEASES"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    resources = build_resources()
    assert resources["ledger"].url == ledger  # type: ignore[union-attr]
    assert resources["private_io_manager"].root == private  # type: ignore[union-attr]
    assert resources["private_io_manager"].private  # type: ignore[union-attr]
    assert resources["releasable_io_manager"].root == releases  # type: ignore[union-attr]
    assert not resources["releasable_io_manager"].private  # type: ignore[union-attr]


def test_a_release_counts_as_made_once_there_is_a_report_of_it() -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        assert not is_materialized(instance, "health_survey")
        instance.report_runless_asset_event(
            dg.AssetMaterialization(dg.AssetKey(["other", "release_report"]))
        )
        assert not is_materialized(instance, "health_survey")
        instance.report_runless_asset_event(
            dg.AssetMaterialization(dg.AssetKey(["health_survey", "release_report"]))
        )
        assert is_materialized(instance, "health_survey")


def test_a_code_location_names_the_version() -> None:
    assert DagsterLibraryRegistry.get()["jam-dagster"] == __version__
