"""Whoever launches runs decides neither where a release is paid and kept, nor what it is."""

import json
import logging
import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd
import pytest
from dagster._core.workspace.context import IWorkspaceProcessContext
from dagster._core.workspace.load_target import ModuleTarget

from jam_dagster.pipeline import (
    DatasetBudget,
    LedgerResource,
    ReleaseResources,
    ReleaseStoreResource,
)
from jam_dagster.pipeline.storage.io_manager import ReleaseStore
from jam_dagster.tables import source_from_config
from tests.budgets import FIXED
from tests.pipeline.conftest import (
    AS_DAGSTER_WARNS,
    GIVEN,
    UP_TO_SYNTHETIC,
    Bench,
    failure,
    people,
    together,
    write_tables,
)
from tests.tiers import first_but_gate

pytestmark = [*AS_DAGSTER_WARNS, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

ROOT = Path(__file__).parents[2]
KEYS = ("ledger", "private_io_manager", "releasable_io_manager")
# Enough to reserve, and none of it slow.
RESERVING = ["domain", "privacy_budget"]
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


def elsewhere(home: Path, key: str) -> dict[str, Any]:
    """Return the run config that moves a resource to places of the launcher's choosing."""
    other = home / "other"
    config: dict[str, Any] = {"root": str(other)}
    if key == "ledger":
        budget = {"people": {"epsilon": 50.0, "delta": 1e-9}}
        config = {"url": str(other / "ledger.sqlite"), "budgets": budget}
    elif key == "private_io_manager":
        config |= {"private": False, "options": {"auto_mkdir": True}}
    return {"resources": {key: {"config": config}}}


def assert_refused(said: str, key: str) -> None:
    assert f"root:resources:{key}:config" in said.replace("\\u0022", '"')
    assert "nexpected config entr" in said


def assert_nothing_happened(home: Path) -> None:
    bench = Bench(home)
    assert bench.events() == []
    assert not (home / "other").exists()
    assert not bench.closed.exists()
    assert not bench.releases.exists()


def execute(
    bench: Bench, job: dg.JobDefinition, config: dict[str, Any], **options: Any
) -> dg.ExecuteInProcessResult:
    options.setdefault("asset_selection", [dg.AssetKey(["people", name]) for name in RESERVING])
    return job.execute_in_process(instance=bench.instance, run_config=config | QUIET, **options)


def attempt(
    bench: Bench, made: dg.Definitions, config: dict[str, Any], *steps: str, **options: Any
) -> str:
    """Return why some steps of the release's job failed."""
    job, selection = made.resolve_job_def("people_release"), together(made, [*steps])
    return failure(
        execute(bench, job, config, asset_selection=selection, raise_on_error=False, **options)
    )


def by_its_job(bench: Bench, config: dict[str, Any]) -> None:
    execute(bench, bench.definitions().resolve_job_def("people_release"), config)


def from_the_asset_graph(bench: Bench, config: dict[str, Any]) -> None:
    """By the job behind the button of the UI, whose resources may have any further key."""
    execute(bench, bench.definitions().resolve_implicit_global_asset_job_def(), config)


def by_materialize(bench: Bench, config: dict[str, Any]) -> None:
    definitions = bench.definitions()
    dg.materialize(
        [one for one in definitions.assets or () if isinstance(one, dg.AssetsDefinition)],
        selection=[dg.AssetKey(["people", name]) for name in RESERVING],
        resources=dict(definitions.resources or {}),
        instance=bench.instance,
        run_config=config | QUIET,
    )


def by_a_schedule(bench: Bench, config: dict[str, Any]) -> None:
    job = bench.definitions().resolve_job_def("people_release")
    schedule = dg.ScheduleDefinition(
        name="monthly", job=job, cron_schedule="0 0 1 * *", run_config=config
    )
    tick = schedule.evaluate_tick(dg.build_schedule_context(instance=bench.instance))
    (asked,) = tick.run_requests or ()
    execute(bench, job, dict(asked.run_config))


def of_resources_in_yaml(bench: Bench, config: dict[str, Any]) -> None:
    attributes = {
        "budgets": {"people": {"epsilon": 5.0}},
        "ledger": str(bench.home / "ledger.sqlite"),
        "private": str(bench.closed),
        "releases": str(bench.releases),
    }
    made = ReleaseResources.from_attributes_dict(attributes=attributes)
    resources = made.build_defs(dg.ComponentTree.for_test().load_context).resources
    release = dg.Definitions(
        assets=bench.definitions().assets, jobs=bench.definitions().jobs, resources=resources
    )
    release.resolve_job_def("people_release").execute_in_process(
        instance=bench.instance, run_config=config | QUIET
    )


@pytest.mark.slow
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(
    "launch",
    [
        by_its_job,
        from_the_asset_graph,
        by_materialize,
        by_a_schedule,
        of_resources_in_yaml,
    ],
)
def test_no_launch_moves_the_ledger_or_a_store(
    bench: Bench, key: str, launch: Callable[[Bench, dict[str, Any]], None]
) -> None:
    with pytest.raises(dg.DagsterInvalidConfigError) as refused:
        launch(bench, elsewhere(bench.home, key))
    assert_refused(str(refused.value), key)
    assert_nothing_happened(bench.home)


@pytest.mark.slow
def test_a_launch_that_gives_nothing_is_none_the_worse(bench: Bench) -> None:
    empty: dict[str, Any] = {"resources": {key: {"config": {}} for key in KEYS}}
    by_its_job(bench, empty)
    assert bench.kinds() == ["reserved"]


@pytest.mark.parametrize("job", ["people_release", ""])
def test_no_step_takes_config_or_inputs_from_a_launch(bench: Bench, job: str) -> None:
    """An input that a launch gave as a pickle would run code of the launcher's."""
    definitions = bench.definitions()
    whole = (
        definitions.resolve_job_def(job)
        if job
        else definitions.resolve_implicit_global_asset_job_def()
    )
    ops = whole.run_config_schema.config_type.fields["ops"].config_type.fields
    assert len(ops) == len(whole.graph.nodes) >= 12
    for name, one in ops.items():
        accepted = one.config_type.fields
        assert set(accepted) == {"config"}, name
        assert accepted["config"].config_type.fields == {}, name
    # The same of each step alone, whose inputs come from no other step of the run.
    for node in whole.graph.nodes:
        alone = whole.get_subset(op_selection=[node.name])
        one = alone.run_config_schema.config_type.fields["ops"].config_type.fields[node.name]
        assert set(one.config_type.fields) == {"config"}, node.name


@pytest.mark.slow
def test_inputs_that_a_launch_gives_are_refused_or_not_looked_at(bench: Bench) -> None:
    class Owned:
        def __reduce__(self) -> Any:
            return Path.write_text, (bench.home / "owned", "x")

    planted = bench.home / "planted.pickle"
    planted.write_bytes(pickle.dumps(Owned()))
    given = {"public_discretized": {"pickle": {"path": str(planted)}}}
    config = {"ops": {"people__release": {"inputs": given}}}
    for launch in (by_its_job, from_the_asset_graph):
        # Of a step that the run does not make Dagster drops them, unless its job has a config.
        with suppress(dg.DagsterInvalidConfigError):
            launch(bench, config)
        with pytest.raises(dg.DagsterInvalidConfigError, match="inputs"):
            launch(bench, {"ops": {"people__privacy_budget": {"inputs": {"domain": {"value": 1}}}}})
    assert not (bench.home / "owned").exists()


@pytest.mark.slow
def test_the_default_io_manager_keeps_nothing_of_a_release(bench: Bench) -> None:
    other = bench.home / "other"
    definitions = bench.definitions()
    result = execute(
        bench,
        definitions.resolve_job_def("people_release"),
        {"resources": {"io_manager": {"config": {"base_dir": str(other)}}}},
        asset_selection=together(definitions, UP_TO_SYNTHETIC),
    )
    assert result.success
    assert bench.closed.exists()
    assert not other.exists()


@pytest.mark.slow
def test_resources_of_a_project_s_own_are_refused_what_a_launch_gives(bench: Bench) -> None:
    """What is put in the place of the resources may take run config; the steps do not."""

    @dg.resource(config_schema={"url": dg.Field(str, is_required=False)})
    def ledger(context: dg.InitResourceContext) -> LedgerResource:
        budgets = {"people": DatasetBudget(epsilon=50.0, delta=1e-9, **FIXED)}
        return LedgerResource(url=context.resource_config["url"], budgets=budgets)

    @dg.io_manager(config_schema={"root": dg.Field(str, is_required=False)})
    def private(context: dg.InitResourceContext) -> ReleaseStore:
        return ReleaseStoreResource(root=context.resource_config["root"], private=True).open()

    other = bench.home / "other"
    own = {
        "ledger": (ledger, {"url": str(other / "l")}),
        "private_io_manager": (private, {"root": str(other)}),
    }
    assert bench.run(GIVEN).success
    for key, (resource, config) in own.items():
        definitions = bench.definitions()
        resources = {**(definitions.resources or {}), key: resource}
        made = dg.Definitions(assets=definitions.assets, jobs=definitions.jobs, resources=resources)
        for step in ("privacy_budget", "private_records"):
            said = attempt(bench, made, {"resources": {key: {"config": config}}}, "domain", step)
            assert f"the run's config configures the resource {key}" in said
            assert str(other) not in said
        assert bench.events() == []
        assert not other.exists()
    # The releasable store keeps the hashes of what the public steps made.
    assert {path.suffix for path in bench.closed.rglob("*") if path.is_file()} == {".sha256"}


@pytest.mark.slow
def test_a_launch_does_not_move_the_table_that_a_release_is_made_of(bench: Bench) -> None:
    @dg.asset(io_manager_key="warehouse")
    def raw() -> pd.DataFrame:
        return people(600, seed=1)

    definitions = dg.Definitions.merge(
        bench.definitions(private=source_from_config({"asset": "raw"})),
        dg.Definitions(
            assets=[raw],
            resources={"warehouse": dg.FilesystemIOManager(base_dir=str(bench.home / "raw"))},
        ),
    )
    assert bench.run(GIVEN).success
    # Another table, in another place, as a launch would name it.
    other = {"warehouse": dg.FilesystemIOManager(base_dir=str(bench.home / "planted"))}
    dg.materialize([raw], resources=other, instance=bench.instance, run_config=QUIET)
    config = {"resources": {"warehouse": {"config": {"base_dir": str(bench.home / "planted")}}}}
    said = attempt(bench, definitions, config, "private_records")
    assert "the run's config configures the resource warehouse" in said
    assert bench.events() == []
    # Nothing but digests of the public inputs is kept there.
    assert {path.suffix for path in (bench.closed / "people").rglob("*")} <= {".sha256"}


@pytest.mark.slow
def test_a_tag_of_a_run_names_no_partition_that_there_is_not(bench: Bench) -> None:
    for name in ("A", "Z"):
        people(600, seed=1).to_csv(bench.home / f"people_{name}.csv", index=False)
    definitions = bench.definitions(
        private=source_from_config(str(bench.home / "people_{partition}.csv")),
        partitions={"static": ["A", "B"]},
    )
    # Dagster refuses before a step that loads others begins, and after one that loads none ended.
    dagster = "Nonexistent partition keys"
    for step, refused in (
        ("public_records", "has no partition 'Z'"),
        ("privacy_budget", dagster),
        ("private_records", dagster),
    ):
        assert refused in attempt(bench, definitions, {}, step, tags={"dagster/partition": "Z"})
    assert bench.events() == []
    assert not bench.closed.exists()


def test_the_ledger_must_be_one(bench: Bench) -> None:
    definitions = bench.definitions()
    resources = {**(definitions.resources or {}), "ledger": "ledger.sqlite"}
    made = dg.Definitions(assets=definitions.assets, jobs=definitions.jobs, resources=resources)
    assert "ledger is a str; make it a LedgerResource" in attempt(bench, made, {}, *RESERVING)


COMMANDS = (
    "dg launch -m LOCATION --job people_release",
    "dg launch -m LOCATION --assets group:people",
    "dagster job execute -m LOCATION -j people_release",
    "dagster asset materialize -m LOCATION --select group:people",
)


def everything_elsewhere(home: Path) -> dict[str, Any]:
    moved = [elsewhere(home, key)["resources"] for key in KEYS]
    return {"resources": {key: one for each in moved for key, one in each.items()}}


@pytest.mark.slow
@pytest.mark.parametrize("command", first_but_gate(COMMANDS))
def test_no_command_moves_the_ledger_or_a_store(tmp_path: Path, command: str) -> None:
    write_tables(tmp_path)
    (tmp_path / "dagster").mkdir()
    program, *words = command.replace("LOCATION", "tests.pipeline.launch_location").split()
    config = everything_elsewhere(tmp_path)
    if command.startswith("dagster job execute"):
        file = tmp_path / "run.json"
        file.write_text(json.dumps(config))
        words += ["-c", str(file)]
    else:
        words += ["--config-json", json.dumps(config)]
    done = subprocess.run(
        [str(Path(sys.executable).parent / program), *words],
        cwd=ROOT,
        env={
            **os.environ,
            "JAM_LAUNCH_HOME": str(tmp_path),
            "DAGSTER_HOME": str(tmp_path / "dagster"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    for key in KEYS:
        assert_refused(done.stdout + done.stderr, key)
    assert_nothing_happened(tmp_path)


LAUNCH = """
mutation($params: ExecutionParams!) { launchRun(executionParams: $params) {
  __typename
  ... on RunConfigValidationInvalid { errors { message } }
  ... on PythonError { message } } }
"""
REEXECUTE = LAUNCH.replace("launchRun", "launchRunReexecution")
SEVERAL = """
mutation($params: [ExecutionParams!]!) { launchMultipleRuns(executionParamsList: $params) {
  __typename
  ... on LaunchMultipleRunsResult { launchMultipleRunsResult {
    __typename
    ... on RunConfigValidationInvalid { errors { message } } } } } }
"""


@pytest.fixture
def workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[dg.DagsterInstance, IWorkspaceProcessContext]]:
    """The code location in a server, as the webserver and the daemon meet it."""
    write_tables(tmp_path)
    monkeypatch.setenv("JAM_LAUNCH_HOME", str(tmp_path))
    target = ModuleTarget(
        module_name="tests.pipeline.launch_location",
        attribute=None,
        working_directory=str(ROOT),
        location_name="launched",
    )
    home = tmp_path / "dagster"
    home.mkdir()
    # It takes longer to import than all quick tests of this module, which need none of it.
    from dagster._core.test_utils import create_test_daemon_workspace_context

    with (
        warnings.catch_warnings(),
        dg.instance_for_test(temp_dir=str(home)) as instance,
        create_test_daemon_workspace_context(target, instance) as context,
    ):
        warnings.simplefilter("ignore")
        yield instance, context


@pytest.mark.slow
def test_no_launch_from_the_ui_moves_the_ledger_or_a_store(
    tmp_path: Path, workspace: tuple[dg.DagsterInstance, IWorkspaceProcessContext]
) -> None:
    """The Launchpad, the buttons of the asset graph, several at once, and a re-execution."""
    from dagster_graphql.test.utils import execute_dagster_graphql

    instance, context = workspace
    place = {"repositoryLocationName": "launched", "repositoryName": "__repository__"}
    selectors = [
        {**place, "pipelineName": "people_release"},
        {
            **place,
            "pipelineName": "__ASSET_JOB",
            "assetSelection": [
                {"path": ["people", "domain"]},
                {"path": ["people", "privacy_budget"]},
            ],
            "assetCheckSelection": [
                {"assetKey": {"path": ["people", "privacy_budget"]}, "name": "budget_suffices"}
            ],
        },
    ]
    from dagster._core.test_utils import create_run_for_test

    before = create_run_for_test(instance, job_name="people_release")
    for key in KEYS:
        for selector in selectors:
            params = {
                "selector": selector,
                "runConfigData": json.dumps(elsewhere(tmp_path, key)),
            }
            again = {"parentRunId": before.run_id, "rootRunId": before.run_id}
            request = context.create_request_context()
            for text, given, name in (
                (LAUNCH, params, "launchRun"),
                (REEXECUTE, {**params, "executionMetadata": again}, "launchRunReexecution"),
                (SEVERAL, [params], "launchMultipleRuns"),
            ):
                answer = execute_dagster_graphql(request, text, {"params": given}).data[name]
                said = json.dumps(answer)
                assert "RunConfigValidationInvalid" in said, (name, said)
                assert_refused(said, key)
    assert [one.run_id for one in instance.get_runs()] == [before.run_id]
    assert_nothing_happened(tmp_path)


BACKFILL = """
mutation($params: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $params) {
  __typename
  ... on LaunchBackfillSuccess { backfillId }
  ... on PythonError { message } } }
"""


@pytest.mark.slow
@pytest.mark.parametrize("key", first_but_gate(KEYS))
def test_no_backfill_moves_the_ledger_or_a_store(
    tmp_path: Path, workspace: tuple[dg.DagsterInstance, IWorkspaceProcessContext], key: str
) -> None:
    from dagster._daemon.backfill import execute_backfill_iteration
    from dagster_graphql.test.utils import execute_dagster_graphql

    instance, context = workspace
    params = {
        "assetSelection": [{"path": ["towns", name]} for name in RESERVING],
        "partitionNames": ["A", "B"],
        "runConfigData": json.dumps(elsewhere(tmp_path, key)),
    }
    request = context.create_request_context()
    answer = execute_dagster_graphql(request, BACKFILL, {"params": params}).data
    launched = answer["launchPartitionBackfill"]
    said = str(launched)
    if launched["__typename"] == "LaunchBackfillSuccess":
        for _ in range(3):
            list(execute_backfill_iteration(context, logging.getLogger("backfill")))
        found = instance.get_backfill(launched["backfillId"])
        assert found is not None
        said = str(found.error)
    assert_refused(said, key)
    assert not any(run.is_success for run in instance.get_runs())
    assert_nothing_happened(tmp_path)


def test_no_launch_lets_steps_run_before_those_upstream_of_them(tmp_path: Path) -> None:
    """Dagster would look for a step that can run without end, and no signal would end it."""
    job = Bench(tmp_path).definitions().resolve_job_def("people_release")
    dg.validate_run_config(job, {})
    order = {"step_dependency_config": {"require_upstream_step_success": False}}
    for config in (order, {"in_process": order}, {"multiprocess": order}):
        with pytest.raises(dg.DagsterInvalidConfigError, match="nexpected config entr"):
            dg.validate_run_config(job, {"execution": {"config": config}})
