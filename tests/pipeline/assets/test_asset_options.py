"""What Dagster is told of a release's assets before any is made."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pytest

from jam_dagster.pipeline.assets.asset_options import code_version
from jam_dagster.pipeline.budget.labels import LABEL_TAG
from jam_dagster.pipeline.graph import ReleaseGraph
from jam_dagster.release import DomainSpec, MechanismSpec
from jam_dagster.tables import source_from_config
from tests.pipeline.conftest import Bench, specification


def versions(**changes: Any) -> dict[str, str]:
    graph = ReleaseGraph(specification(**changes))
    return {name: code_version(graph, name) for name in graph.names}


def test_everything_is_labelled_owned_and_described(bench: Bench) -> None:
    definitions = bench.definitions(owners=["team:statistics"], tags={"team": "x"}, group="census")
    for spec in definitions.resolve_all_asset_specs():
        assert LABEL_TAG in spec.tags
        assert spec.tags["team"] == "x"
        assert spec.owners == ["team:statistics"]
        assert spec.group_name == "census"
        assert spec.description
        assert spec.kinds
        assert spec.code_version
    for name in ("jam_pgm", "workload_error"):
        node = definitions.resolve_assets_def(dg.AssetKey(["people", name])).op
        assert node.retry_policy == dg.RetryPolicy(max_retries=0)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"private": source_from_config("other.csv")}, {"private_records"}),
        ({"public": source_from_config("other.csv")}, {"public_records"}),
        ({"domain": DomainSpec(identify="public")}, {"domain"}),
        ({"mechanism": MechanismSpec("jam_pgm", rounds=3)}, {"privacy_budget", "mechanism_run"}),
    ],
    ids=["private", "public", "domain", "mechanism"],
)
def test_an_asset_is_out_of_date_once_its_configuration_changed(
    changes: dict[str, Any], expected: set[str]
) -> None:
    before, after = versions(), versions(**changes)
    assert {name for name, version in before.items() if after[name] != version} == expected
