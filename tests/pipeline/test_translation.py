"""An organisation's own keys, groups, owners, tags and kinds, through a whole release."""

from typing import Any

import dagster as dg
import pandas as pd
import pytest

from jam_dagster.certificates import Certificate, verify
from jam_dagster.errors import PrivacyLabelError, SpecificationError
from jam_dagster.pipeline import (
    SyntheticRelease,
    build_release_assets,
    build_release_checks,
    build_release_job,
    build_release_schedule,
    check_definitions,
)
from jam_dagster.release import (
    EvaluationSpec,
    MechanismSpec,
    PartitionsSpec,
    ReleaseSpec,
    WorkloadSpec,
)
from jam_dagster.tables import source_from_config
from tests.pipeline.conftest import AS_DAGSTER_WARNS, DOMAIN, Bench, failure, people, specification
from tests.pipeline.test_component import ATTRIBUTES

pytestmark = AS_DAGSTER_WARNS


class Official(SyntheticRelease):
    """Calls tables what an office calls them."""

    def get_asset_spec(self, spec: dg.AssetSpec) -> dg.AssetSpec:
        release, name = spec.key.path
        made = spec.replace_attributes(
            key=["office", release.upper(), name.removesuffix("_records")],
            group_name="official",
            owners=["team:office"],
            description=f"Of the office. {spec.description}",
        )
        return made.merge_attributes(tags={"cost_centre": "42"}, kinds={"snowflake"})


STEP = ("private", "private_discretized", "jam_pgm", "synthetic", "workload_error")


def key(name: str) -> dg.AssetKey:
    return dg.AssetKey(["office", "PEOPLE", name])


def official(bench: Bench, **changes: Any) -> dg.Definitions:
    made = Official.from_attributes_dict(
        attributes={
            **ATTRIBUTES,
            "private": str(bench.private),
            "public": str(bench.public),
            "domain": DOMAIN.to_dict(),
            "mechanism": {"name": "jam_pgm", "rounds": 2, "iterations": 20},
            "evaluation": {"mode": "private", "share": 0.2},
            **changes,
        }
    )
    return dg.Definitions.merge(
        made.build_defs(dg.ComponentTree.for_test().load_context),
        dg.Definitions(resources=bench.resources()),
    )


@pytest.mark.slow
def test_renamed_assets_are_released(bench: Bench) -> None:
    @dg.asset(deps=[key("synthetic")], tags={"jam/privacy": "dp"})
    def downstream() -> None: ...

    definitions = check_definitions(
        dg.Definitions.merge(official(bench), dg.Definitions(assets=[downstream]))
    )
    for spec in (one for one in definitions.resolve_all_asset_specs() if len(one.key.path) > 1):
        assert spec.key.path[:2] == ["office", "PEOPLE"]
        assert (spec.group_name, spec.owners) == ("official", ["team:office"])
        assert spec.tags["cost_centre"] == "42"
        assert "snowflake" in spec.kinds
        assert spec.description is not None
        assert spec.description.startswith("Of the office.")
        assert all(dep.asset_key.path[0] == "office" for dep in spec.deps)
    result = bench.launch(definitions)
    assert result.success, failure(result)
    checks = result.get_asset_check_evaluations()
    assert {one.asset_key for one in checks} >= {key("synthetic"), key("release_certificate")}
    assert all(one.passed for one in checks if one.severity is dg.AssetCheckSeverity.ERROR)
    lineage = definitions.resolve_asset_graph().get(key("synthetic")).metadata
    columns = lineage["dagster/column_lineage"].deps_by_column["town"]
    assert dg.TableColumnDep(key("private_discretized"), "town") in columns

    folder = bench.releases / "office" / "PEOPLE"
    assert list(pd.read_csv(folder / "synthetic.csv")) == ["sex", "town", "job", "age"]
    output = (folder / "release_report.html").read_text()
    assert "synthetic" in output
    certified = folder / "release_certificate"
    # The ledger knows the release by its own name, whatever its assets are called.
    assert Certificate.load(certified).release_id.release == "people"
    assert [one for one in verify(certified, ledger=bench.ledger) if not one.passed] == []
    assert bench.kinds().count("reserved") == 2  # a share each
    spent = bench.events()
    again = bench.launch(definitions, map(key, STEP))
    assert again.success, failure(again)
    assert bench.events() == spent


def test_taints_follow_renamed_assets(bench: Bench) -> None:
    @dg.asset(deps=[key("private")], tags={"jam/privacy": "public"})
    def leak() -> None: ...

    with pytest.raises(PrivacyLabelError, match="office/PEOPLE/private -> leak"):
        check_definitions(dg.Definitions.merge(official(bench), dg.Definitions(assets=[leak])))


@pytest.mark.slow
def test_renamed_snapshots_have_schedule_and_partitions(bench: Bench) -> None:
    private = {"csv": str(bench.home / "private_{partition}.csv")}
    months = {"partitions": "monthly", "start": "2026-01-01", "schedule": "monthly"}
    definitions = official(bench, private=private, **months)
    people(300, seed=3).to_csv(bench.home / "private_2026-01.csv", index=False)
    assert definitions.resolve_schedule_def("people_release_schedule")
    names = ("public", "domain", "public_discretized", *STEP)
    result = bench.launch(definitions, map(key, names), partition="2026-01")
    assert result.success, failure(result)
    assert (bench.releases / "office" / "PEOPLE" / "synthetic" / "2026-01.parquet").exists()


def by_metadata(spec: dg.AssetSpec) -> dg.AssetSpec:
    return spec.replace_attributes(key=spec.key.with_prefix("x")) if spec.metadata else spec


def all_one(spec: dg.AssetSpec) -> dg.AssetSpec:
    return spec.replace_attributes(key="table")


def test_releases_share_a_group(bench: Bench) -> None:
    both = [
        build_release_assets(quick(bench, release=name), group="shared")
        for name in ("adults", "children")
    ]
    definitions = dg.Definitions(assets=[*both[0], *both[1]], resources=bench.resources())
    graph = definitions.resolve_asset_graph()
    for node in map(graph.get, graph.get_all_asset_keys()):
        # By name alone, the other release's would do as well.
        assert {parent.path[0] for parent in node.parent_keys} <= {node.key.path[0]}
    for spec in (spec for one in both[0] for spec in one.specs):
        assert {dep.asset_key for dep in spec.deps} <= graph.get_all_asset_keys()


@pytest.mark.parametrize(
    ("translate", "error", "expected"),
    [
        (by_metadata, SpecificationError, "let its key follow"),
        (all_one, SpecificationError, "two assets of release people one key"),
    ],
)
def test_translations_that_cannot_hold_are_refused(
    bench: Bench, translate: Any, error: type[Exception], expected: str
) -> None:
    with pytest.raises(error, match=expected):
        bench.definitions(translate=translate)


# The pieces -----------------------------------------------------------------------------------


def quick(bench: Bench, **changes: Any) -> ReleaseSpec:
    given: dict[str, Any] = {
        "private": source_from_config(str(bench.private)),
        "public": source_from_config(str(bench.public)),
        "mechanism": MechanismSpec("jam_pgm", rounds=2, iterations=20),
        "workload": WorkloadSpec(degree=2),
        "evaluation": EvaluationSpec(mode="off"),
    }
    return specification(**given | changes)


@pytest.mark.slow
def test_assets_stand_alone(bench: Bench) -> None:
    made = dg.materialize(
        build_release_assets(quick(bench)),
        resources=bench.resources(),
        instance=bench.instance,
        raise_on_error=False,
    )
    assert made.success, failure(made)
    names = {one.check_name for one in made.get_asset_check_evaluations()}
    # Only what the assets check by themselves.
    assert "releasable" not in names
    assert (bench.releases / "people" / "synthetic_records.csv").exists()


def test_labels_of_the_pieces_are_checked(bench: Bench) -> None:
    def careless(spec: dg.AssetSpec) -> dg.AssetSpec:
        return spec.replace_attributes(tags={"jam/privacy": "public"})

    with pytest.raises(PrivacyLabelError):
        build_release_assets(quick(bench), translate=careless)
    assets = build_release_assets(quick(bench))

    @dg.asset(deps=[dg.AssetKey(["people", "private_records"])], tags={"jam/privacy": "dp"})
    def leak() -> None: ...

    with pytest.raises(PrivacyLabelError, match="leak"):
        check_definitions(dg.Definitions(assets=[*assets, leak], resources=bench.resources()))


def test_pieces_together_are_the_release(bench: Bench) -> None:
    spec = quick(
        bench,
        private=source_from_config(str(bench.home / "private_{partition}.csv")),
        partitions=PartitionsSpec("monthly", "2026-01-01"),
    )
    assets = build_release_assets(spec, schedule="monthly")
    job = build_release_job(spec, assets)
    pieces = check_definitions(
        dg.Definitions(
            assets=assets,
            asset_checks=build_release_checks(spec),
            jobs=[job],
            schedules=[build_release_schedule(job, spec.partitions, "monthly")],
            resources=bench.resources(),
        )
    )
    whole = bench.definitions(
        private=spec.private,
        mechanism=spec.mechanism,
        evaluation=spec.evaluation,
        partitions="monthly",
        start="2026-01-01",
        schedule="monthly",
    )
    for one, other in zip(
        sorted(pieces.resolve_all_asset_specs(), key=lambda spec: spec.key),
        sorted(whole.resolve_all_asset_specs(), key=lambda spec: spec.key),
        strict=True,
    ):
        assert one == other
    graphs = [one.resolve_asset_graph().asset_check_keys for one in (pieces, whole)]
    assert graphs[0] == graphs[1]
    descriptions = [one.resolve_job_def("people_release").description for one in (pieces, whole)]
    assert descriptions[0] == descriptions[1]
    assert pieces.resolve_schedule_def("people_release_schedule").cron_schedule == "0 0 1 * *"
