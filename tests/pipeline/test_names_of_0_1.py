"""What a project that began with version 0.1 refers to goes on under its old names."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pytest

from jam_dagster import ReleaseResources, SyntheticRelease
from tests.pipeline.conftest import Bench, failure
from tests.pipeline.test_build import metadata

ASSETS = {
    "domain",
    "jam_pgm",
    "privacy_budget",
    "private_discretized",
    "private_records",
    "public_discretized",
    "public_records",
    "release_certificate",
    "release_report",
    "synthetic_records",
    "workload_error",
}

CHECKS = {
    "privacy_budget": {"budget_suffices"},
    "release_certificate": {"releasable"},
    "synthetic_records": {
        "columns",
        "row_count",
        "releasable",
        *(f"sex__{what}" for what in ("dtype", "marginal", "nulls", "values")),
        *(f"town__{what}" for what in ("dtype", "marginal", "nulls", "values")),
        *(f"age__{what}" for what in ("bounds", "dtype", "marginal")),
        "impossible_combination_1",
    },
    "workload_error": {"synthetic_no_worse_than_public"},
}

KEYS: dict[Any, set[str]] = {
    SyntheticRelease: {
        *("release", "dataset", "private", "public", "domain", "privacy", "mechanism"),
        *("workload", "evaluation", "partitions", "start", "schedule", "group", "owners", "tags"),
    },
    ReleaseResources: {"budgets", "home", "ledger", "private", "releases"},
}


def test_files_of_0_1_hold_no_key_that_is_gone() -> None:
    for component, keys in KEYS.items():
        assert keys <= set(component.model().model_fields)


@pytest.mark.slow
def test_an_instance_of_0_1_goes_on_with_its_assets_and_checks(bench: Bench) -> None:
    assets = {name: dg.AssetKey(["people", name]) for name in ASSETS}
    for key in assets.values():
        # Its metadata were other ones, which nothing reads.
        bench.instance.report_runless_asset_event(
            dg.AssetMaterialization(key, metadata={"jam_dagster": "0.1.0"})
        )

    result = bench.run()

    assert result.success, failure(result)
    assert metadata(result, "jam_pgm")["made_again"] is False
    for key in assets.values():
        assert len(bench.instance.fetch_materializations(key, limit=5).records) == 2
    checked = {(one.asset_key, one.check_name) for one in result.get_asset_check_evaluations()}
    for name, checks in CHECKS.items():
        assert {(assets[name], check) for check in checks} <= checked
