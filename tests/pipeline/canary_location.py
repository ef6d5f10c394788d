"""The code location that `test_leak_canary` runs in processes of its own."""

import json
import os
from pathlib import Path
from typing import Any

import dagster as dg

from jam_dagster.pipeline import DomainSpec, EvaluationSpec, PrivacySpec, UnitSpec
from tests.pipeline.conftest import Bench


def _persons(neighbours: Any, **privacy: Any) -> dict[str, Any]:
    return {
        "privacy": PrivacySpec(
            epsilon=2.0, neighbours=neighbours, unit=UnitSpec("who", 2), **privacy
        ),
        "evaluation": EvaluationSpec(mode="private", share=0.2),
    }


CASES: dict[str, dict[str, Any]] = {
    "private": {"evaluation": EvaluationSpec(mode="private", share=0.2)},
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
    return dg.Definitions.merge(
        bench.definitions(**CASES[case]), dg.Definitions(executor=dg.in_process_executor)
    )
