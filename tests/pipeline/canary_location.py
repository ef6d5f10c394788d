"""The code location that `test_leak_canary` runs in processes of its own."""

import json
import math
import os
from itertools import combinations
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd

from jam_dagster.pipeline import DatasetBudget, check_definitions
from jam_dagster.privacy import Budget, DirectoryStore, epsilon_from_rho
from jam_dagster.release import EvaluationSpec, PrivacySpec, UnitSpec, WorkloadSpec
from jam_dagster.tables import (
    AssetSource,
    Domain,
    PreviousRelease,
    draft_domain,
    source_from_config,
)
from tests.budgets import FIXED
from tests.pipeline.conftest import DOMAIN, Bench
from tests.torture.points import die

PAIRS = [list(pair) for pair in combinations(DOMAIN.names, 2)]
WEIGHTS = [math.sqrt(prime) for prime in (2, 3, 5, 7, 11, 13)]
"""Shares of a table are fractions of its rows, and so is an error that is weighted by whole
numbers: a search would take one for the other. Weighted by roots, it equals nothing else."""


def _persons(neighbours: Any, **privacy: Any) -> dict[str, Any]:
    return {
        "privacy": PrivacySpec(
            epsilon=2.0,
            neighbours=neighbours,
            unit=UnitSpec(column="who", max_rows=2),
            **privacy,
        ),
        "evaluation": EvaluationSpec(mode="private", share=0.2),
    }


HOUSEHOLDS = Domain.from_dict({"attributes": {"region": {"values": ["n", "s"], "other": "s"}}})


def _households(home: Path) -> dict[str, Any]:
    """The people as persons of households, two tables."""
    sides = {side: str(home / f"{side}_persons.csv") for side in ("private", "public")}
    persons = {**sides, "key": "household", "max": 3, "domain": DOMAIN}
    evaluation = EvaluationSpec(mode="private", share=0.2)
    return {"domain": HOUSEHOLDS, "children": {"persons": persons}, "evaluation": evaluation}


SNAPSHOTS = ("first", "second", "third")
VAULT = dg.AssetKey(["vault", "people"])


class Vault(dg.IOManager):
    """What keeps a table of the project, and has much to say of it."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def handle_output(self, context: dg.OutputContext, obj: object) -> None:
        raise AssertionError("nothing is made here")

    def load_input(self, context: dg.InputContext) -> pd.DataFrame:
        table = pd.read_csv(self.home / "private.csv")
        context.add_input_metadata({"rows": len(table), "preview": table.to_markdown()})
        return table


def _snapshots(home: Path, **changes: Any) -> dict[str, Any]:
    """Each drawn on the one before, of a table of the project."""
    return {
        "private": AssetSource("/".join(VAULT.path)),
        # An officer vouches for no asset here.
        "privacy": PrivacySpec(epsilon=2.0, neighbours="add_remove"),
        "public": PreviousRelease(source_from_config(str(home / "public.csv")), 0.25),
        "partitions": {"static": SNAPSHOTS},
        "evaluation": EvaluationSpec(mode="private", share=0.2),
        **changes,
    }


CASES: dict[str, dict[str, Any]] = {
    "private": {
        "evaluation": EvaluationSpec(mode="private", share=0.2),
        "workload": WorkloadSpec(cliques=PAIRS, weights=WEIGHTS),
    },
    "exact": {},
    "identified": {},
    "persons": _persons("replace_one"),
    "persons who come and go": _persons("add_remove"),
    "persons, in research": _persons("replace_one", noise="numpy"),
}


@dg.definitions
def defs() -> dg.Definitions:
    home = Path(os.environ["CANARY_HOME"])
    case = json.loads((home / "case.json").read_text())
    bench = Bench(home)
    if "CANARY_STORES" in os.environ:
        die_after(int(os.environ["CANARY_STORES"]))
    retried = dg.define_asset_job(
        "retried_release", "*", op_retry_policy=dg.RetryPolicy(max_retries=1)
    )
    more = dg.Definitions(executor=dg.in_process_executor, jobs=[retried])
    if case == "identified":
        CASES[case]["domain"] = draft_domain(
            pd.read_csv(bench.public), private=pd.read_csv(bench.private), bins=4
        )
    if case == "households":
        CASES[case] = _households(home)
    if not case.startswith("snapshots"):
        return dg.Definitions.merge(bench.definitions(**CASES[case]), more)
    # The third does not fit.
    two = epsilon_from_rho(2 * Budget(2.0, 1e-9).rho, 1e-9)
    bench.budget = DatasetBudget(epsilon=two, delta=1e-9, **FIXED)
    changes = CASES[case.removeprefix("snapshots of ")] if " of " in case else {}
    partitions = dg.StaticPartitionsDefinition(list(SNAPSHOTS))
    kept = dg.AssetSpec(VAULT, partitions_def=partitions).with_io_manager_key("vault")
    return check_definitions(
        dg.Definitions.merge(
            bench.definitions(**_snapshots(home, **changes)),
            dg.Definitions(
                assets=[kept],
                resources={"vault": Vault(home)},
                executor=dg.in_process_executor,
            ),
        )
    )


def die_after(outcomes: int) -> None:
    """Kill the process once so many outcomes of draws are stored."""
    put, stored = DirectoryStore.put, []

    def counted(self: DirectoryStore, step: str, outcome: dict[str, Any]) -> None:
        put(self, step, outcome)
        stored.append(step)
        if len(stored) == outcomes:
            die()

    DirectoryStore.put = counted  # type: ignore[method-assign]
