"""Plans and benchmarks of hostile files: an error of the package's own, and no secret in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from jam_dagster.common.yaml_text import write_yaml
from jam_dagster.errors import JamError
from jam_dagster.tables import Domain
from jam_dagster.trials import load_grid
from jam_dagster.trials.plan_request import PlanRequest
from jam_dagster.trials.planner import prepare, simulate
from jam_dagster.trials.splits import SplitFiles
from tests.battery import hostile
from tests.battery.hostile import TEXT, garbled, spoiled
from tests.battery.test_hostile import (
    assert_tells_nothing,
    attempted,
    message_of,
    numbers,
    outcomes,
    valid_file,
)
from tests.tiers import gate

DEFINITION: dict[str, Any] = {
    "type": "jam_dagster.SyntheticRelease",
    "attributes": {
        "release": "people",
        "dataset": "people_2026",
        "private": {"sql": "select * from people", "url": f"postgresql://me:{TEXT}@db.host/people"},
        "public": {"csv": "public.csv", "separator": ","},
        "domain": "domain.yaml",
        "privacy": {"epsilon": 1.0, "delta": 1e-9, "noise": "exact", "edition": "1"},
        "workload": {"degree": 2},
        "mechanism": {"name": "jam_pgm", "rounds": 2, "iterations": 3},
        "evaluation": {"mode": "private", "share": 0.05},
    },
}
SQL = {"sql": "select 1", "url": f"postgresql://me:{TEXT}@db.host/old"}
GRID: dict[str, Any] = {
    "description": "a grid",
    "splits": [{"name": "people", "private": "priv.csv", "public": "pub.csv", "domain": "d.json"}],
    "mechanisms": [
        "jam_pgm",
        {"mechanism": "aim", "label": "AIM", "settings": {"rounds": [2, 3]}, "epsilons": [1]},
    ],
    "epsilons": [0.5, 1.0],
    "seeds": 2,
    "delta": 1e-9,
    "degree": 2,
    "seconds": 60,
    "baselines": False,
}


def hides_the_password(made: Any) -> None:
    if isinstance(made, JamError):
        assert TEXT not in str(made), made
        assert TEXT not in message_of(made)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Domain.from_dict(hostile.DOMAIN).save("domain.yaml")
    public = valid_file(np.random.default_rng(0), planted=False).replace(TEXT, "x")
    Path("public.csv").write_text(public)
    return tmp_path


@pytest.mark.slow
@numbers
def test_definitions_of_releases(number: int, folder: Path) -> None:
    path = folder / "defs.yaml"

    def attempt(rng: np.random.Generator, index: int) -> Any:
        content = DEFINITION
        if index % 4 == 0:
            content = {**content, "attributes": {**content["attributes"], "public": SQL}}
        if index % 2:
            path.write_bytes(garbled(write_yaml(content), rng))
        else:
            try:
                path.write_text(write_yaml(spoiled(content, rng, 0.1)), errors="replace")
            except Exception:
                path.write_bytes(garbled(write_yaml(content), rng))
        return attempted(lambda: PlanRequest.of(path), path.read_bytes())

    for made in outcomes(number, attempt):
        hides_the_password(made)


@pytest.mark.slow
@pytest.mark.parametrize("number", [12, *gate(150)], ids=["quick", "many"])
def test_plans_of_hostile_public_tables(number: int, folder: Path) -> None:
    def attempt(rng: np.random.Generator, index: int) -> Any:
        text = valid_file(rng, planted=False)
        Path("public.csv").write_bytes(garbled(text, rng) if index % 3 else text.encode())
        (folder / "defs.yaml").write_text(write_yaml(DEFINITION))
        request = PlanRequest.of(folder / "defs.yaml", epsilons=(1.0,), seeds=1, degree=1)
        return attempted(lambda: simulate(prepare(request)), index)

    outcomes(number, attempt)


@pytest.mark.slow
@numbers
def test_grids(number: int, folder: Path) -> None:
    pd.DataFrame({"a": [0, 1], "b": [1, 0]}).to_csv("priv.csv", index=False)
    pd.DataFrame({"a": [0, 1], "b": [1, 0]}).to_csv("pub.csv", index=False)
    Path("d.json").write_text('{"a": 2, "b": 2}')
    path = folder / "grid.yaml"

    def attempt(rng: np.random.Generator, index: int) -> Any:
        if index % 2:
            path.write_bytes(garbled(write_yaml(GRID), rng))
        else:
            try:
                path.write_text(write_yaml(spoiled(GRID, rng, 0.1)), errors="replace")
            except Exception:
                path.write_bytes(garbled(write_yaml(GRID), rng))

        return attempted(lambda: load_grid(path).runs(), path.read_bytes())

    outcomes(number, attempt)


@pytest.mark.slow
@numbers
def test_private_tables_of_a_benchmark(number: int, folder: Path) -> None:
    def attempt(rng: np.random.Generator, index: int) -> Any:
        Path("private.csv").write_bytes(garbled(valid_file(rng, bool(index % 2)), rng))
        (files,) = SplitFiles.from_config(
            {
                "name": "people",
                "private": "private.csv",
                "public": "public.csv",
                "domain": "domain.yaml",
            },
            folder,
        )
        return attempted(files.load, index)

    for made in outcomes(number, attempt):
        if isinstance(made, JamError):
            assert_tells_nothing(made)
