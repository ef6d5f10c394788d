"""A release with several public tables, and with one that lacks attributes."""

import dagster as dg
import pandas as pd
import pytest

from jam_dagster.errors import SpecificationError
from jam_dagster.release import MechanismSpec, PrivacySpec
from jam_dagster.tables import PublicSources, PublicTables, source_from_config
from tests.pipeline.conftest import Bench, failure, told

# So little that what is free is chosen.
TINY = {
    "privacy": PrivacySpec(epsilon=0.05),
    "mechanism": MechanismSpec("jam_pgm", rounds=4, iterations=50),
}


@pytest.fixture
def several(bench: Bench) -> PublicSources:
    """Return two public tables: one without jobs, and one of towns and jobs."""
    given = pd.read_csv(bench.public)
    given.drop(columns="job").to_csv(bench.home / "census.csv", index=False)
    given[["town", "job"]][:50].to_csv(bench.home / "survey.csv", index=False)
    return PublicSources(
        {name: source_from_config(str(bench.home / f"{name}.csv")) for name in ("census", "survey")}
    )


def test_each_public_table_is_an_asset(bench: Bench, several: PublicSources) -> None:
    definitions = bench.definitions(public=several)
    graph = definitions.resolve_asset_graph()
    keys = {key.path[-1] for key in graph.get_all_asset_keys()}
    assert {"public_records_census", "public_records_survey"} <= keys
    assert "public_records" not in keys
    codes = graph.get(dg.AssetKey(["people", "public_discretized"]))
    assert {key.path[-1] for key in codes.parent_keys} == {
        "domain",
        "public_records_census",
        "public_records_survey",
    }
    assert graph.get(dg.AssetKey(["people", "public_records_survey"])).tags["jam/privacy"] == (
        "public"
    )


@pytest.mark.slow
def test_a_whole_release(bench: Bench, several: PublicSources) -> None:
    result = bench.run(public=several, **TINY)

    assert result.success, failure(result)
    public = result.asset_value(dg.AssetKey(["people", "public_discretized"]))
    assert isinstance(public, PublicTables)
    metadata = told(result)["public_discretized"]
    assert metadata["census_lacks"] == "job"
    assert metadata["survey_lacks"] == "sex, age"
    assert metadata["dagster/row_count"] == 250
    lineage = metadata["dagster/column_lineage"].deps_by_column
    assert [dep.asset_key.path[-1] for dep in lineage["town"]] == [
        "public_records_census",
        "public_records_survey",
    ]
    assert [dep.asset_key.path[-1] for dep in lineage["job"]] == ["public_records_survey"]
    run = result.asset_value(dg.AssetKey(["people", "jam_pgm"]))
    assert {one.table for one in run.transcript.rounds} <= {"", "census", "survey"}
    page = result.asset_value(dg.AssetKey(["people", "release_report"]))
    assert "Public table (census 200, survey 50 records): census: CSV file" in page
    for check in result.get_asset_check_evaluations():
        assert check.passed or check.severity == dg.AssetCheckSeverity.WARN, check.check_name

    # Made again it costs nothing.
    spent = bench.ledger.balance("people").spent
    assert bench.run(["jam_pgm", "synthetic_records"], public=several, **TINY).success
    assert bench.ledger.balance("people").spent == spent


@pytest.mark.parametrize("name", ["pmw_pub", "pep_pub"])
def test_what_weighs_records_is_refused_several_at_once(
    bench: Bench, several: PublicSources, name: str
) -> None:
    with pytest.raises(SpecificationError, match=f"{name} weights the records of one public table"):
        bench.definitions(public=several, mechanism=MechanismSpec(name))
    assert bench.definitions(public=several, mechanism=MechanismSpec("gem_pub"))
