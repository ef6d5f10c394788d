import json
import os
import shutil
import sqlite3

# Before Dagster is imported: no test may call out.
os.environ["DAGSTER_DISABLE_TELEMETRY"] = "1"

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Self
from unittest.mock import MagicMock

import dagster as dg
import numpy as np
import pandas as pd
import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

from jam_dagster.evaluation.expectations.validation import TableChecks, not_checked
from jam_dagster.pipeline import (
    DatasetBudget,
    LedgerResource,
    ReleaseStoreResource,
    build_synthetic_release,
)
from jam_dagster.pipeline.assets import assessment, private_side
from jam_dagster.pipeline.budget.labels import LABEL_TAG
from jam_dagster.privacy import Event, Ledger
from jam_dagster.release import (
    DomainSpec,
    EvaluationSpec,
    MechanismSpec,
    PrivacySpec,
    ReleaseSpec,
    WorkloadSpec,
)
from jam_dagster.release.documents import MadeRelease
from jam_dagster.tables import Domain, source_from_config
from tests.budgets import FIXED

DOMAIN = Domain.from_dict(
    {
        "attributes": {
            "sex": {"values": ["F", "M"]},
            "town": {"values": ["Aix", "Bern", "Cork", "elsewhere"], "other": "elsewhere"},
            "job": {"values": ["clerk", "nurse", "none"]},
            "age": {
                "edges": [0, 15, 30, 45, 60, 100],
                "integer": True,
                "outside": "clip",
                "nullable": True,
            },
        },
        "impossible": [{"age": {"below": 15}, "job": ["clerk", "nurse"]}],
    }
)

RESOURCE_INIT_FAILURE = dg.DagsterEventType.RESOURCE_INIT_FAILURE

AS_DAGSTER_WARNS = [
    pytest.mark.filterwarnings("ignore::dagster.BetaWarning"),
    pytest.mark.filterwarnings("ignore::dagster.PreviewWarning"),
    pytest.mark.filterwarnings("ignore:`parse_obj_as` is deprecated"),
]
"""Dagster marks its own use of these as beta."""

UP_TO_SYNTHETIC = [
    "public_records",
    "domain",
    "privacy_budget",
    "private_records",
    "private_discretized",
    "public_discretized",
    "jam_pgm",
    "synthetic_records",
]

GIVEN = ["public_records", "domain", "public_discretized"]
"""What the step that opens the private table takes from the store."""


def up_to_synthetic(mechanism: str) -> list[str]:
    """Return the names of what leads to the synthetic table by a mechanism."""
    return [mechanism if name == "jam_pgm" else name for name in UP_TO_SYNTHETIC]


def specification(**changes: Any) -> ReleaseSpec:
    """Return the specification of a release whose tables nobody reads."""
    given: dict[str, Any] = {
        "release": "people",
        "dataset": "people",
        "private": source_from_config("a.csv"),
        "public": source_from_config("b.csv"),
        "domain": DomainSpec(declared=DOMAIN),
        "privacy": PrivacySpec(epsilon=2.0),
    }
    return ReleaseSpec(**given | changes)


def people(rows: int, seed: int) -> pd.DataFrame:
    """Return a small table with dependencies, nulls, and no impossible combination."""
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 95, rows)
    town = rng.choice(["Aix", "Bern", "Cork"], rows, p=[0.5, 0.3, 0.2])
    job = np.where(town == "Aix", "nurse", rng.choice(["clerk", "none"], rows))
    return pd.DataFrame(
        {
            "sex": rng.choice(["F", "M"], rows),
            "town": town,
            "job": np.where(age < 15, "none", job),
            "age": pd.array(np.where(rng.random(rows) < 0.05, None, age), dtype="Int64"),
        }
    )


@dataclass
class Bench:
    """A release of small tables in a folder of its own, with all that it runs on."""

    home: Path
    given: dg.DagsterInstance | None = None
    budget: DatasetBudget | None = field(
        default_factory=lambda: DatasetBudget(epsilon=5.0, delta=1e-9, **FIXED)
    )
    until_the_end: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.until_the_end.close()

    @cached_property
    def instance(self) -> dg.DagsterInstance:
        """Dagster's instance, which takes time to make, and which definitions do not need."""
        return self.given or self.until_the_end.enter_context(dg.DagsterInstance.ephemeral())

    @property
    def private(self) -> Path:
        return self.home / "private.csv"

    @property
    def public(self) -> Path:
        return self.home / "public.csv"

    @property
    def releases(self) -> Path:
        return self.home / "releases"

    @property
    def closed(self) -> Path:
        return self.home / "closed"

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.home / "ledger.sqlite")

    def events(self) -> list[Event]:
        return self.ledger.events() if self.ledger.exists else []

    def kinds(self) -> list[str]:
        """The kinds of the ledger's events, without the grant of the configured budget."""
        kinds = [str(event.kind.value) for event in self.events()]
        return [kind for kind in kinds if kind not in ("granted", "bound")]

    def vouch(self, *names: str) -> None:
        """Keep the hashes of stored assets as they are now, as the operator could."""
        for name in names:
            path = self.releases / "people" / name
            files = [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file()]
            hashes = {
                str(one.relative_to(path.parent)): sha256(one.read_bytes()).hexdigest()
                for one in files
            }
            kept = self.closed / "people" / name
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.with_name(f"{kept.stem}.sha256").write_text(json.dumps(hashes))

    def resources(self) -> dict[str, Any]:
        budgets = {} if self.budget is None else {"people": self.budget}
        return {
            "ledger": LedgerResource(url=str(self.home / "ledger.sqlite"), budgets=budgets),
            "private_io_manager": ReleaseStoreResource(root=str(self.closed), private=True),
            "releasable_io_manager": ReleaseStoreResource(root=str(self.releases)),
        }

    def definitions(self, **changes: Any) -> dg.Definitions:
        given: dict[str, Any] = {
            "dataset": "people",
            "private": source_from_config(str(self.private)),
            "public": source_from_config(str(self.public)),
            "domain": DOMAIN,
            "privacy": PrivacySpec(epsilon=2.0),
            "mechanism": MechanismSpec("jam_pgm", rounds=3, iterations=50),
            "workload": WorkloadSpec(degree=2),
            "evaluation": EvaluationSpec(mode="exact"),
        }
        release = build_synthetic_release("people", **{**given, **changes})
        return dg.Definitions.merge(release, dg.Definitions(resources=self.resources()))

    def run(
        self, selection: list[str] | None = None, *, partition: str | None = None, **changes: Any
    ) -> dg.ExecuteInProcessResult:
        """Run some assets, all unless some are named, each with those that its step makes too."""
        return self.launch(self.definitions(**changes), selection, partition=partition)

    def launch(
        self,
        definitions: dg.Definitions,
        selection: Iterable[str | dg.AssetKey] | None = None,
        *,
        partition: str | None = None,
    ) -> dg.ExecuteInProcessResult:
        """Run the same of other definitions."""
        return definitions.resolve_job_def("people_release").execute_in_process(
            instance=self.instance,
            raise_on_error=False,
            partition_key=partition,
            run_config={"loggers": {"console": {"config": {"log_level": "ERROR"}}}},
            asset_selection=together(definitions, selection) if selection else None,
        )


def together(definitions: dg.Definitions, names: Iterable[str | dg.AssetKey]) -> list[dg.AssetKey]:
    """Return the keys of some assets, and of those that their steps make too."""
    graph = definitions.resolve_asset_graph()
    keys = (dg.AssetKey(["people", one]) if isinstance(one, str) else one for one in names)
    return sorted({one for key in keys for one in graph.get(key).execution_set_asset_keys})


def failure(result: dg.ExecuteInProcessResult) -> str:
    """Return everything that the event log tells of the failed steps, and of their resources."""
    assert not result.success
    failed = [event.step_failure_data for event in result.all_events if event.is_step_failure]
    steps = [one.error for one in failed]
    told = [one.user_failure_data.metadata for one in failed if one.user_failure_data]
    made = [event for event in result.all_events if event.event_type is RESOURCE_INIT_FAILURE]
    return "\n".join(map(str, [*steps, *told, *(event.engine_event_data.error for event in made)]))


def check_of(result: dg.ExecuteInProcessResult, name: str) -> dg.AssetCheckEvaluation:
    """Return what a run found by the check of that name."""
    (found,) = (one for one in result.get_asset_check_evaluations() if one.check_name == name)
    return found


def labels_of(definitions: dg.Definitions) -> dict[str, str]:
    """Return the label of each asset."""
    specs = definitions.resolve_all_asset_specs()
    return {spec.key.path[-1]: spec.tags[LABEL_TAG] for spec in specs}


def told(result: dg.ExecuteInProcessResult) -> dict[str, dict[str, Any]]:
    """Return what the event log tells of each asset that a run has made."""
    return {
        event.asset_key.path[-1]: {
            name: value.value for name, value in event.materialization.metadata.items()
        }
        for event in result.get_asset_materialization_events()
    }


@pytest.fixture(scope="session", autouse=True)
def migrations_read_once() -> Iterator[None]:
    """Share Dagster's migrations, of which it imports two hundred for each new instance."""
    read = ScriptDirectory.from_config
    known: dict[str | None, ScriptDirectory] = {}

    def shared(config: Config) -> ScriptDirectory:
        place = config.get_main_option("script_location")
        if place not in known:
            known[place] = read(config)
        return known[place]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScriptDirectory, "from_config", shared)
        yield


@cache
def people_csv(rows: int, seed: int) -> str:
    """Return the same table as the text of a file."""
    return people(rows, seed).to_csv(index=False)


def write_tables(home: Path) -> None:
    (home / "private.csv").write_text(people_csv(600, seed=1))
    (home / "public.csv").write_text(people_csv(200, seed=2))


@contextmanager
def nothing_pictured() -> Iterator[None]:
    """Leave out what takes most of a run's time, and what `full` has: checks and pictures."""

    def checks(made: MadeRelease) -> TableChecks:
        return not_checked(made.run.model.domain, "left out")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MadeRelease, "checks", property(checks))
        for module in (private_side, assessment):
            for name in ("plots", "png"):
                patch.setattr(module, name, MagicMock())
            patch.setattr(module, "pictures", lambda charts: dg.MetadataValue.md("left out"))
        yield


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Two small tables, and no release of them yet."""
    write_tables(tmp_path)
    with Bench(tmp_path) as bench:
        yield bench


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the quick tests of what is made once be of one worker, so that one makes it."""
    for item in items:
        for name in ("drawn_home", "full", "given_home", "releases"):
            shared = name in getattr(item, "fixturenames", ())
            if shared and item.get_closest_marker("slow") is None:
                item.add_marker(pytest.mark.xdist_group(name))


@dataclass(frozen=True)
class Full:
    """A release with its checks and reports, for tests that only look at it."""

    bench: Bench
    result: dg.ExecuteInProcessResult
    connections: int


@pytest.fixture(scope="session")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Full]:
    home = tmp_path_factory.mktemp("full")
    write_tables(home)
    opened: list[object] = []
    connect = sqlite3.connect

    def counted(*args: Any, **options: Any) -> sqlite3.Connection:
        opened.append(args)
        return connect(*args, **options)

    with Bench(home) as bench:
        with pytest.MonkeyPatch.context() as patch:
            # Dagster's own databases connect by SQLAlchemy's name of it.
            patch.setattr(sqlite3, "connect", counted)
            result = bench.run()
        assert result.success, failure(result)
        yield Full(bench, result, len(opened))


@pytest.fixture(scope="session")
def drawn_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("drawn")
    write_tables(home)
    with Bench(home) as bench, nothing_pictured():
        result = bench.run(UP_TO_SYNTHETIC)
        assert result.success, failure(result)
    return home


@pytest.fixture
def drawn(drawn_home: Path, tmp_path: Path) -> Iterator[Bench]:
    """The same after a release was drawn up to its synthetic table: a copy for each test."""
    home = tmp_path / "copy"
    shutil.copytree(drawn_home, home)
    with Bench(home) as bench:
        # The tables have moved with the folder, and what was read of them says where they were.
        bench.ledger.rebind("people", reason="copied for a test")
        yield bench
