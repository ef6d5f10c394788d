"""Tables that the project makes already: loaded after the reservation, and held to their labels."""

from typing import Any

import dagster as dg
import pandas as pd
import pytest

from jam_dagster.errors import PrivacyLabelError, SpecificationError
from jam_dagster.pipeline import check_definitions
from jam_dagster.release import EvaluationSpec, PrivacySpec
from jam_dagster.tables import AssetSource, source_from_config
from tests.pipeline.conftest import (
    AS_DAGSTER_WARNS,
    GIVEN,
    UP_TO_SYNTHETIC,
    Bench,
    failure,
    people,
)
from tests.tiers import slow_rows

pytestmark = AS_DAGSTER_WARNS

PEOPLE, SURVEY = dg.AssetKey(["warehouse", "people"]), dg.AssetKey(["warehouse", "survey"])
FROM_ASSETS: dict[str, Any] = {
    "private": source_from_config({"asset": "warehouse/people"}),
    "public": source_from_config({"asset": "warehouse/survey"}),
    # No officer vouches for the asset, which can select whom it likes.
    "privacy": PrivacySpec(epsilon=2.0, neighbours="add_remove"),
}


class Warehouse(dg.IOManager):
    """Keeps tables in memory, and notes what it gave and when."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.tables: dict[tuple[str, ...], Any] = {}
        self.given: list[tuple[str, list[str]]] = []

    def handle_output(self, context: dg.OutputContext, obj: object) -> None:
        part = context.partition_key if context.has_partition_key else ""
        self.tables[*context.asset_key.path, part] = obj

    def load_input(self, context: dg.InputContext) -> object:
        part = context.partition_key if context.has_partition_key else ""
        self.given.append((context.asset_key.to_user_string(), self.bench.kinds()))
        return self.tables[*context.asset_key.path, part]


def table(key: dg.AssetKey, value: object, **options: Any) -> dg.AssetsDefinition:
    @dg.asset(key=key, io_manager_key="warehouse", **options)
    def made() -> object:
        return value

    return made


class Project:
    """A project with two tables, and a release of them."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.warehouse = Warehouse(bench)
        self.assets = [
            table(PEOPLE, people(600, seed=1).assign(name="Annegret Quill")),
            table(SURVEY, people(200, seed=2)),
        ]

    def definitions(self, **changes: Any) -> dg.Definitions:
        return dg.Definitions.merge(
            self.bench.definitions(**{**FROM_ASSETS, **changes}),
            dg.Definitions(assets=self.assets, resources={"warehouse": self.warehouse}),
        )

    def materialize(self, *keys: dg.AssetKey, partition: str | None = None) -> None:
        made = dg.materialize(
            [one for one in self.assets if one.key in keys],
            resources={"warehouse": self.warehouse},
            instance=self.bench.instance,
            partition_key=partition,
        )
        assert made.success

    def run(
        self, selection: list[str] = UP_TO_SYNTHETIC, partition: str | None = None, **changes: Any
    ) -> dg.ExecuteInProcessResult:
        return self.bench.launch(self.definitions(**changes), selection, partition=partition)


@pytest.fixture
def project(bench: Bench) -> Project:
    return Project(bench)


@pytest.mark.slow
def test_tables_of_the_project_are_released(project: Project) -> None:
    project.materialize(PEOPLE, SURVEY)
    result = project.run()
    assert result.success, failure(result)
    synthetic = pd.read_csv(project.bench.releases / "people" / "synthetic_records.csv")
    assert list(synthetic) == ["sex", "town", "job", "age"]
    # The whole release was reserved before the private table was asked for, which was once.
    asked = [kinds for name, kinds in project.warehouse.given if name == "warehouse/people"]
    assert asked == [["reserved"]]
    assert "Annegret Quill" not in "\n".join(map(str, result.all_events))
    # What the project's table was is left as it was.
    assert project.warehouse.tables["warehouse", "people", ""].attrs == {}


@pytest.mark.slow
def test_a_table_of_the_project_is_not_loaded_for_a_repeat(project: Project) -> None:
    project.materialize(PEOPLE, SURVEY)
    for _ in ("first", "again"):
        result = project.run(evaluation=EvaluationSpec(mode="off"))
        assert result.success, failure(result)
    assert [name for name, _ in project.warehouse.given].count("warehouse/people") == 1


@pytest.mark.slow
def test_the_lineage_shows_where_tables_come_from(project: Project) -> None:
    definitions = check_definitions(project.definitions())
    graph = definitions.resolve_asset_graph()
    private = graph.get(dg.AssetKey(["people", "private_records"]))
    assert PEOPLE in private.parent_keys
    assert graph.get(dg.AssetKey(["people", "public_records"])).parent_keys == {SURVEY}
    columns = private.metadata["dagster/column_lineage"].deps_by_column
    assert columns["town"] == [dg.TableColumnDep(asset_key=PEOPLE, column_name="town")]
    project.materialize(PEOPLE, SURVEY)
    result = project.run(["public_records"])
    (event,) = result.get_asset_materialization_events()
    lineage = event.materialization.metadata["dagster/column_lineage"].value
    assert lineage.deps_by_column["sex"] == [dg.TableColumnDep(SURVEY, "sex")]


@pytest.mark.slow
def test_what_an_io_manager_says_of_private_values_is_withheld(project: Project) -> None:
    project.materialize(PEOPLE, SURVEY)
    load_input = project.warehouse.load_input

    def refuses(context: dg.InputContext) -> Any:
        if context.asset_key == PEOPLE:
            raise ValueError("secret of Annegret Quill")
        return load_input(context)

    project.warehouse.load_input = refuses  # type: ignore[method-assign]
    message = failure(project.run())
    assert (
        "loading asset warehouse/people, which must have been materialized before, failed"
        in message
    )
    assert "Annegret Quill" not in message


@pytest.mark.slow
def test_what_is_no_table_is_refused(project: Project) -> None:
    project.assets[0] = table(PEOPLE, ["Ann"])
    project.materialize(PEOPLE, SURVEY)
    message = failure(project.run())
    assert "warehouse/people is a builtins.list, and a table must be a pandas.DataFrame" in message


@pytest.mark.slow
def test_an_asset_that_is_not_there_is_named(project: Project) -> None:
    project.assets = project.assets[1:]
    project.materialize(SURVEY)
    message = failure(project.run())
    assert "warehouse/people, from which a table of release people is read, is not in" in message
    assert project.bench.kinds() == []
    with pytest.raises(SpecificationError, match=r"warehouse/people.*dg list defs"):
        check_definitions(project.definitions())


@pytest.mark.slow
def test_what_another_code_location_makes_is_loaded_by_its_declaration(project: Project) -> None:
    project.materialize(PEOPLE, SURVEY)
    external = [dg.AssetSpec(key).with_io_manager_key("warehouse") for key in (PEOPLE, SURVEY)]
    definitions = dg.Definitions.merge(
        project.bench.definitions(**FROM_ASSETS),
        dg.Definitions(assets=external, resources={"warehouse": project.warehouse}),
    )
    result = project.bench.launch(check_definitions(definitions), UP_TO_SYNTHETIC)
    assert result.success, failure(result)


# Labels ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("label", ["public", "dp"])
def test_a_private_table_that_calls_itself_releasable_is_refused(
    project: Project, label: str
) -> None:
    project.assets[0] = table(PEOPLE, people(600, seed=1), tags={"jam/privacy": label})
    with pytest.raises(PrivacyLabelError, match=f"warehouse/people is labelled {label}, but"):
        check_definitions(project.definitions())
    project.materialize(PEOPLE, SURVEY)
    # A project that never calls check_definitions is held to it when the release runs.
    assert "PrivacyLabelError" in failure(project.run())
    assert project.bench.kinds() == []


@pytest.mark.parametrize(
    ("label", "loads"), [*slow_rows(("public", False)), (None, True), *slow_rows(("private", True))]
)
def test_what_else_is_made_of_the_private_table_is_tainted(
    project: Project, label: str | None, loads: bool
) -> None:
    tags = {} if label is None else {"jam/privacy": label}
    project.assets.append(table(dg.AssetKey("count"), 1, deps=[PEOPLE], tags=tags))
    if loads:
        check_definitions(project.definitions())
    else:
        with pytest.raises(PrivacyLabelError, match="warehouse/people -> count"):
            check_definitions(project.definitions())


@pytest.mark.slow
def test_a_private_table_is_no_public_source(project: Project) -> None:
    both = {"private": AssetSource("warehouse/people"), "public": AssetSource("warehouse/people")}
    with pytest.raises(SpecificationError, match="is the private table"):
        project.definitions(**both)
    copy = dg.AssetKey(["warehouse", "copy"])
    project.assets.append(table(copy, people(600, seed=1), deps=[PEOPLE]))
    copied = {**both, "public": AssetSource("warehouse/copy")}
    with pytest.raises(PrivacyLabelError, match="-> warehouse/copy -> people/public_records"):
        check_definitions(project.definitions(**copied))
    project.materialize(PEOPLE, SURVEY, copy)
    assert "PrivacyLabelError" in failure(project.run(**copied))
    assert project.warehouse.given == []


@pytest.mark.slow
def test_a_public_table_in_the_store_of_what_is_private_is_refused(project: Project) -> None:
    @dg.asset(key=SURVEY, io_manager_key="private_io_manager")
    def made() -> pd.DataFrame:
        return people(200, seed=2)

    project.assets[1] = made
    project.materialize(PEOPLE)
    message = failure(project.run(["public_records"]))
    assert "warehouse/survey is a public table of release people, and is kept by" in message


@pytest.mark.slow
def test_a_private_table_in_the_store_of_what_may_leave_is_refused(project: Project) -> None:
    @dg.asset(key=PEOPLE, io_manager_key="releasable_io_manager")
    def made() -> pd.DataFrame:
        return people(600, seed=1)

    project.assets[0] = made
    project.materialize(SURVEY)
    for selection in (UP_TO_SYNTHETIC, [*GIVEN, "private_records"]):
        message = failure(project.run(selection))
        assert "warehouse/people is the private table of release people, and is kept by" in message
    assert project.bench.kinds() == []


@pytest.mark.slow
def test_a_public_table_among_the_releases_is_what_the_project_wrote(project: Project) -> None:
    @dg.asset(key=SURVEY, io_manager_key="releasable_io_manager")
    def made() -> pd.DataFrame:
        return people(200, seed=2)

    project.assets[1] = made
    job = project.definitions().resolve_implicit_global_asset_job_def()

    def launched(*keys: dg.AssetKey) -> dg.ExecuteInProcessResult:
        return job.execute_in_process(
            instance=project.bench.instance, asset_selection=keys, raise_on_error=False
        )

    records = dg.AssetKey(["people", "public_records"])
    assert launched(SURVEY, records).success
    path = project.bench.releases / "warehouse" / "survey.parquet"
    people(200, seed=3).to_parquet(path)
    changed = failure(launched(records))
    assert "warehouse/survey in the store of releases is not what its step wrote" in changed
    assert launched(SURVEY, records).success


# Partitions -----------------------------------------------------------------------------------

MONTHS: dict[str, Any] = {"partitions": "monthly", "start": "2026-01-01"}


@pytest.mark.slow
def test_partitions_of_the_asset_are_those_of_the_release(project: Project) -> None:
    # Dagster calls months by their first day, and these began a year before.
    months = dg.MonthlyPartitionsDefinition(start_date="2025-01-01")
    project.assets[0] = table(PEOPLE, people(600, seed=1), partitions_def=months)
    check_definitions(project.definitions(**MONTHS))
    project.materialize(PEOPLE, partition="2026-02-01")
    project.materialize(SURVEY)
    result = project.run(partition="2026-02", **MONTHS)
    assert result.success, failure(result)
    (reserved,) = [one for one in project.bench.events() if one.kind.value == "reserved"]
    assert reserved.release_id is not None
    assert reserved.release_id.partition == "2026-02"
    message = failure(project.run(partition="2026-01", **MONTHS))
    assert "must have been materialized before" in message


@pytest.mark.slow
@pytest.mark.parametrize(
    ("theirs", "changes", "partition", "expected"),
    [
        (None, MONTHS, "2026-02", "has partitions, but asset warehouse/people has none"),
        *slow_rows(
            (
                dg.StaticPartitionsDefinition(["a"]),
                {},
                None,
                "warehouse/people has partitions, but release people has none",
            ),
            (
                dg.StaticPartitionsDefinition(["a"]),
                {"partitions": {"static": ["b"]}},
                "b",
                "warehouse/people has no partition that is b",
            ),
            (
                dg.WeeklyPartitionsDefinition(start_date="2026-01-01"),
                MONTHS,
                "2026-02",
                "no partition that is 2026-02 of release people",
            ),
        ),
    ],
)
def test_other_partitions_are_refused_before_anything_is_reserved(
    project: Project,
    theirs: dg.PartitionsDefinition[str] | None,
    changes: dict[str, Any],
    partition: str | None,
    expected: str,
) -> None:
    project.assets[0] = table(PEOPLE, people(600, seed=1), partitions_def=theirs)
    project.materialize(SURVEY)
    assert expected in failure(project.run(partition=partition, **changes))
    assert project.bench.kinds() == []


@pytest.mark.parametrize("key", ["", "a//b", "people_{partition}", " people"])
def test_a_key_that_is_none_is_refused(key: str) -> None:
    with pytest.raises(SpecificationError, match="asset"):
        AssetSource(key)


def test_an_asset_is_not_split(project: Project) -> None:
    split = {"split": {"asset": "warehouse/people"}, "by": "sex", "value": "F"}
    with pytest.raises(SpecificationError, match="Split it into two assets"):
        source_from_config({**split, "public_share": 0.5, "public_rows": 0.1})
    with pytest.raises(Exception, match="--private"):
        AssetSource("warehouse/people").read(private=True)
