"""A backfill as the daemon does it: real runs, in processes of their own, on a real instance."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.workspace.context import IWorkspaceProcessContext
from dagster._core.workspace.load_target import ModuleTarget

from jam_dagster.privacy import Budget, Event, Ledger, epsilon_from_rho
from tests.pipeline.conftest import people

MONTHS = ("2025-01", "2025-02")
PRICE = Budget(2.0, 1e-9).rho
LONGEST = 500.0

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


@dataclass
class Backfills:
    """A code location in a server, and the daemon's part played by this process."""

    home: Path
    instance: dg.DagsterInstance
    workspace: IWorkspaceProcessContext

    def launch(self, name: str, months: tuple[str, ...]) -> dict[str, dg.DagsterRun]:
        """Backfill everything that the release makes, and return each partition's run."""
        # Dagster's daemon takes a second to import, for each run that collects these tests.
        from dagster._core.execution.backfill import PartitionBackfill
        from dagster._daemon.backfill import execute_backfill_iteration
        from dagster._daemon.run_coordinator.queued_run_coordinator_daemon import (
            QueuedRunCoordinatorDaemon,
        )

        graph = self.workspace.create_request_context().asset_graph
        started = time.time()
        backfill = PartitionBackfill.from_asset_partitions(
            backfill_id=name,
            asset_graph=graph,
            partition_names=list(months),
            asset_selection=sorted(graph.materializable_asset_keys),
            backfill_timestamp=started,
            tags={},
            dynamic_partitions_store=self.instance,
            all_partitions=False,
            title=None,
            description=None,
            run_config=None,
        )
        self.instance.add_backfill(backfill)
        queue = QueuedRunCoordinatorDaemon(interval_seconds=1)
        while True:
            list(execute_backfill_iteration(self.workspace, logging.getLogger("backfill")))
            list(queue.run_iteration(self.workspace))
            found = self.instance.get_backfill(name)
            assert found is not None
            runs = self.instance.get_runs(dg.RunsFilter(tags={"dagster/backfill": name}))
            if found.status.value.startswith("COMPLETED") and all(one.is_finished for one in runs):
                break
            assert found.error is None, found.error
            assert time.time() - started < LONGEST, f"{found.status}: {runs}"
            time.sleep(1)
        by_partition = {one.tags["dagster/partition"]: one for one in runs}
        # A run for each partition, and not one more.
        assert sorted(by_partition) == sorted(months)
        assert len(runs) == len(months)
        return by_partition

    def failure(self, run: dg.DagsterRun) -> str:
        events = self.instance.all_logs(run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE)
        return "\n".join(
            str(one.dagster_event.step_failure_data.error) for one in events if one.dagster_event
        )

    def events(self) -> list[Event]:
        return Ledger(self.home / "ledger.sqlite").events()

    def reserved(self) -> list[str]:
        return [one.release_id.partition for one in self.events() if one.kind.value == "reserved"]


@pytest.fixture
def backfills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Backfills]:
    """Budget for a partition and a half of two."""
    people(200, seed=2).to_csv(tmp_path / "public.csv", index=False)
    for place, month in enumerate(MONTHS):
        table = people(600, seed=10 + place)
        table.to_csv(tmp_path / f"private_{month}.csv", index=False)
    monkeypatch.setenv("JAM_BACKFILL_HOME", str(tmp_path))
    monkeypatch.setenv("JAM_BACKFILL_EPSILON", str(epsilon_from_rho(1.5 * PRICE, 1e-9)))
    target = ModuleTarget(
        module_name="tests.pipeline.backfill_location",
        attribute=None,
        working_directory=str(Path(__file__).parents[2]),
        location_name="backfills",
    )
    from dagster._core.test_utils import create_test_daemon_workspace_context

    with (
        warnings.catch_warnings(),
        dg.instance_for_test(temp_dir=str(tmp_path), synchronous_run_coordinator=False) as instance,
        create_test_daemon_workspace_context(target, instance) as workspace,
    ):
        warnings.simplefilter("ignore")
        yield Backfills(tmp_path, instance, workspace)


def test_a_backfill_spends_once_a_partition_in_their_order(backfills: Backfills) -> None:
    first, second = MONTHS
    runs = backfills.launch("once", MONTHS)
    assert runs[first].is_success, backfills.failure(runs[first])
    # Both began at once. The second waited its turn, and then did not fit.
    refused = backfills.failure(runs[second])
    assert not runs[second].is_success
    assert "is left, rho" in refused
    assert second in refused
    for rho in (PRICE, 0.5 * PRICE):
        assert f"{rho:.6g}"[:6] in refused
    assert backfills.reserved() == [first]
