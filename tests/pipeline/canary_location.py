"""The code location that `test_leak_canary` runs in processes of its own."""

import json
import math
import os
from itertools import combinations
from pathlib import Path
from typing import Any

import dagster as dg

from jam_dagster.pipeline import DomainSpec, EvaluationSpec, PrivacySpec, UnitSpec, WorkloadSpec
from jam_dagster.privacy import DirectoryStore
from tests.pipeline.conftest import DOMAIN, Bench
from tests.torture.points import die

PAIRS = [list(pair) for pair in combinations(DOMAIN.names, 2)]
WEIGHTS = [math.sqrt(prime) for prime in (2, 3, 5, 7, 11, 13)]
"""Shares of a table are fractions of its rows, and so is an error that is weighted by whole
numbers: a search would take one for the other. Weighted by roots, it equals nothing else."""


def _persons(neighbours: Any, **privacy: Any) -> dict[str, Any]:
    return {
        "privacy": PrivacySpec(
            epsilon=2.0, neighbours=neighbours, unit=UnitSpec("who", 2), **privacy
        ),
        "evaluation": EvaluationSpec(mode="private", share=0.2),
    }


CASES: dict[str, dict[str, Any]] = {
    "private": {
        "evaluation": EvaluationSpec(mode="private", share=0.2),
        "workload": WorkloadSpec(cliques=PAIRS, weights=WEIGHTS),
    },
    "exact": {},
    "identified": {"domain": DomainSpec(identify="both", bins=4)},
    "persons": _persons("replace_one"),
    "persons who come and go": _persons("add_remove"),
    "persons, in research": _persons("replace_one", noise="numpy"),
}


@dg.definitions
def defs() -> dg.Definitions:
    home = Path(os.environ["CANARY_HOME"])
    case = json.loads((home / "case.json").read_text())
    bench = Bench(home, dg.DagsterInstance.ephemeral())
    if "CANARY_STORES" in os.environ:
        die_after(int(os.environ["CANARY_STORES"]))
    retried = dg.define_asset_job(
        "retried_release", "*", op_retry_policy=dg.RetryPolicy(max_retries=1)
    )
    return dg.Definitions.merge(
        bench.definitions(**CASES[case]),
        dg.Definitions(executor=dg.in_process_executor, jobs=[retried]),
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
