"""A release of two tables in Dagster: roots and their children are two assets of one step."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd
import pytest

from jam_dagster.certificates import verify
from jam_dagster.errors import SpecificationError
from jam_dagster.pipeline import SyntheticRelease
from jam_dagster.pipeline.budget.labels import LABEL_TAG
from jam_dagster.release import EvaluationSpec, PrivacySpec
from jam_dagster.tables import AssetSource, source_from_config
from tests.pipeline.conftest import AS_DAGSTER_WARNS, Bench, failure, told
from tests.pipeline.test_component import ATTRIBUTES, loaded
from tests.release.test_children import PERSONS, ROOTS, two_tables

pytestmark = AS_DAGSTER_WARNS

ROOT_TABLE, CHILDREN = (
    dg.AssetKey(["people", f"synthetic_{one}"]) for one in ("records", "persons")
)


def write_two(home: Path) -> None:
    """Write households and their persons, private and public."""
    for name, seed in (("private", 1), ("public", 2)):
        households, persons = two_tables(600, seed)
        households.to_csv(home / f"{name}.csv", index=False)
        persons.to_csv(home / f"{name}_persons.csv", index=False)


@pytest.fixture
def two(bench: Bench) -> Bench:
    write_two(bench.home)
    return bench


def given(bench: Bench, table: str = "persons", **changes: Any) -> dict[str, Any]:
    """Return the keys of a release of two tables that differ from those of one."""
    entry = {"private": "private_persons.csv", "public": "public_persons.csv"}
    paths = {side: str(bench.home / name) for side, name in entry.items()}
    limits = {"key": "household", "max": 3, "domain": PERSONS}
    return {"domain": ROOTS, "children": {table: {**paths, **limits, **changes}}}


def table_of(bench: Bench, name: str) -> pd.DataFrame:
    return pd.read_parquet(bench.releases / "people" / f"{name}.parquet")


def failed(bench: Bench) -> dict[str, str]:
    folder = bench.releases / "people" / "release_certificate"
    found = verify(folder, ledger=bench.ledger)
    return {one.name: one.message for one in found if not one.passed}


# --- the definitions


def test_the_children_are_an_asset_of_their_table_s_name(two: Bench) -> None:
    definitions = two.definitions(**given(two))
    specs = {spec.key: spec for spec in definitions.resolve_all_asset_specs()}
    root, children = specs[ROOT_TABLE], specs[CHILDREN]
    upstream = {dep.asset_key for dep in root.deps}
    assert {dep.asset_key for dep in children.deps} == upstream | {ROOT_TABLE}
    assert children.tags[LABEL_TAG] == root.tags[LABEL_TAG] == "dp"
    assert children.kinds == root.kinds
    schema = {
        column.name: column.type for column in children.metadata["dagster/column_schema"].columns
    }
    assert schema == {"household": "int64", "job": "int64", "sex": "int64"}
    # A household may have no person, and then no value in a column of one.
    private = specs[dg.AssetKey(["people", "private_records"])].metadata["dagster/column_schema"]
    gaps = {column.name: column.constraints.nullable for column in private.columns}
    assert gaps == {
        "region": False,
        "persons": False,
        **{f"persons.{slot}.{one}": True for slot in (1, 2) for one in ("job", "sex")},
    }
    lineage = children.metadata["dagster/column_lineage"].deps_by_column
    assert {one.column_name for one in lineage["job"]} == {"persons.1.job", "persons.2.job"}
    # Nothing makes one of the two without the other.
    graph = definitions.resolve_asset_graph()
    assert CHILDREN in graph.get(ROOT_TABLE).execution_set_asset_keys


@pytest.mark.parametrize(
    ("checks", "of_root", "of_children"),
    [
        ("grouped", {"constraints", "measured_marginals"}, {"constraints", "schema"}),
        ("each", {"root_keys", "row_count"}, {"child_keys", "persons__job__values"}),
    ],
)
def test_each_table_has_its_checks(
    two: Bench, checks: str, of_root: set[str], of_children: set[str]
) -> None:
    graph = two.definitions(checks=checks, **given(two)).resolve_asset_graph()
    found: dict[dg.AssetKey, set[str]] = {}
    for one in graph.asset_check_keys:
        found.setdefault(one.asset_key, set()).add(one.name)
    assert of_root | {"releasable"} <= found[ROOT_TABLE]
    assert of_children | {"releasable"} <= found[CHILDREN]
    assert not (of_root - {"constraints"}) & found[CHILDREN]


@pytest.mark.parametrize("side", ["roots", "private", "public"])
def test_a_table_that_is_an_asset_has_no_children_yet(two: Bench, side: str) -> None:
    asset = AssetSource("vault/people")
    changes = {"private": asset, **given(two)} if side == "roots" else given(two, **{side: asset})
    with pytest.raises(SpecificationError, match="asset vault/people cannot have children"):
        two.definitions(**changes)


def test_a_public_table_of_children_that_is_not_there_is_logged(
    two: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    missing = two.home / "public_persons.csv"
    missing.unlink()
    two.definitions(**given(two))
    (said,) = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert f"there is no {missing}" in said


def test_children_cannot_have_the_name_of_the_roots_asset(two: Bench) -> None:
    with pytest.raises(SpecificationError, match="would be the asset synthetic_records"):
        two.definitions(**given(two, table="records"))


# --- its runs


class Watched(SyntheticRelease):
    """A project's own component, which adds metadata to what the step makes."""

    def execute(
        self, context: dg.AssetExecutionContext, results: Iterator[dg.MaterializeResult[Any]]
    ) -> Iterator[dg.MaterializeResult[Any]]:
        for place, result in enumerate(results):
            seen = {"place": place, "has_value": hasattr(result.value, "columns")}
            yield result._replace(metadata={**(result.metadata or {}), **seen})


@pytest.mark.slow
def test_a_project_s_own_step_has_both_tables(two: Bench) -> None:
    children = {
        "private": str(two.home / "private_persons.csv"),
        "public": str(two.home / "public_persons.csv"),
        "key": "household",
        "max": 3,
        "domain": PERSONS.to_dict(),
    }
    attributes = {**ATTRIBUTES, "domain": ROOTS.to_dict(), "children": {"persons": children}}
    with loaded(two, attributes, Watched) as (_, definitions):
        result = two.launch(definitions)
    assert result.success, failure(result)
    shown = told(result)
    places = [shown[f"synthetic_{one}"]["place"] for one in ("records", "persons")]
    assert places == sorted(places)
    assert not any(one.get("has_value") for one in shown.values())
    households, persons = (table_of(two, key.path[-1]) for key in (ROOT_TABLE, CHILDREN))
    assert persons["household"].isin(households["household"]).all()
    assert failed(two) == {}


@pytest.mark.slow
def test_a_release_of_two_tables_and_the_same_again(two: Bench) -> None:
    changes = {**given(two), "evaluation": EvaluationSpec(mode="private", share=0.2)}
    result = two.run(**changes)
    assert result.success, failure(result)
    households, persons = (table_of(two, key.path[-1]) for key in (ROOT_TABLE, CHILDREN))
    assert households["household"].is_unique
    assert persons["household"].isin(households["household"]).all()
    assert persons.groupby("household").size().max() == 3
    shown = told(result)
    assert shown["synthetic_records"]["dagster/row_count"] == len(households)
    assert shown["synthetic_persons"]["dagster/row_count"] == len(persons)
    # How many there are in the private tables is not told.
    assert "dagster/row_count" not in shown["private_records"] | shown["private_discretized"]
    pd.testing.assert_frame_equal(pd.read_csv(shown["synthetic_persons"]["csv"]), persons)
    assert failed(two) == {}
    checks = result.get_asset_check_evaluations()
    # The ledger is new, of which `budget_suffices` warns.
    broken = [one.check_name for one in checks if not one.passed and one.blocking]
    assert {*broken} <= {"budget_suffices"}
    assert {one.check_name for one in checks if one.asset_key == CHILDREN} >= {"constraints"}

    events = two.kinds()
    again = two.run(**changes)
    assert again.success, failure(again)
    assert [kind for kind in two.kinds()[len(events) :] if kind == "charged"] == []
    pd.testing.assert_frame_equal(table_of(two, "synthetic_persons"), persons)

    # Children that were changed are seen by the certificate, and used by no step.
    path = two.releases / "people" / "synthetic_persons.csv"
    path.write_text("\n".join(path.read_text().splitlines()[:-1]))
    assert "file: children" in failed(two)
    two.run(**changes)
    persons.head(9).to_parquet(two.releases / "people" / "synthetic_persons.parquet")
    assert "was changed since" in failure(two.run(["release_report"], **changes))


@pytest.mark.slow
def test_children_of_another_run_are_refused(two: Bench) -> None:
    assert two.run(**given(two)).success
    path = two.releases / "people" / "synthetic_persons.parquet"
    held = pd.read_parquet(path)
    held.attrs = {}
    held.to_parquet(path)
    two.vouch("synthetic_persons.parquet")
    said = failure(two.run(["release_report"], **given(two)))
    assert "synthetic_persons of release people belong to another run" in said


@pytest.mark.slow
def test_households_alone_are_public_and_the_domain_is_drafted_from_two(two: Bench) -> None:
    alone = two.run(**given(two, public=None))
    assert alone.success, failure(alone)
    assert "public_records_roots" in told(alone)
    children = given(two, domain=None)["children"]
    privacy = PrivacySpec(epsilon=2.0, edition="2")
    drafted = two.run(children=children, domain={"identify": "public"}, privacy=privacy)
    assert drafted.success, failure(drafted)
    assert list(table_of(two, "synthetic_persons")) == ["household", "job", "sex"]


@pytest.mark.slow
def test_text_keys_of_public_tables_keep_their_width_from_asset_to_asset(two: Bench) -> None:
    for path in two.home.glob("p*.csv"):
        frame = pd.read_csv(path)
        frame["household"] = frame["household"].astype(str).str.zfill(6)
        frame.to_csv(path, index=False)
    children = given(two, domain=None)["children"]
    result = two.run(children=children, domain={"identify": "public"})
    assert result.success, failure(result)
    households, persons = (table_of(two, key.path[-1]) for key in (ROOT_TABLE, CHILDREN))
    assert households["household"].tolist()[:2] == ["000001", "000002"]
    assert persons["household"].isin(households["household"]).all()
    assert failed(two) == {}


@pytest.mark.slow
def test_research_shows_neither_table(two: Bench) -> None:
    privacy = PrivacySpec(epsilon=2.0, noise="numpy", seed=3)
    result = two.run(privacy=privacy, **given(two))
    assert result.success, failure(result)
    shown = told(result)["synthetic_persons"]
    assert not {"preview", "dagster/row_count"} & {*shown}
    assert not list(two.releases.rglob("synthetic_persons*"))


@pytest.mark.slow
def test_snapshots_of_two_tables(two: Bench) -> None:
    for table in ("private", "private_persons"):
        held = two.home / f"{table}.csv"
        held.rename(two.home / f"{table}_may.csv")
    changes = {
        "private": source_from_config(str(two.home / "private_{partition}.csv")),
        "partitions": {"static": ["may"]},
        **given(two, private=str(two.home / "private_persons_{partition}.csv")),
    }
    result = two.run(partition="may", **changes)
    assert result.success, failure(result)
    assert len(table_of(two, "synthetic_persons/may"))
