"""Reading a transcript that somebody else may have written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jam_dagster.errors import InputError
from jam_dagster.mechanisms import Transcript
from jam_dagster.privacy import Neighbours
from tests.battery.mechanisms import mwem_pgm
from tests.battery.runs import whole

Change = Callable[[dict[str, Any]], object]


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    result = whole(mwem_pgm(), Neighbours("add_remove")).result
    result.transcript.save(tmp_path)
    return tmp_path


DAMAGES: dict[str, Change] = {
    "calls": lambda it: it.update(calls=None),
    "call": lambda it: it["calls"].insert(0, "x"),
    "step of a call": lambda it: it["calls"][0].update(step=1),
    "price of a call": lambda it: it["calls"][0].update(rho="0.1"),
    "price that is no number": lambda it: it["calls"][0].update(rho=float("nan")),
    "sigma without end": lambda it: it["calls"][-1].update(scale=float("inf")),
    "size of a call": lambda it: it["calls"][0].update(cells=1.0),
    "kind of a call": lambda it: it["calls"][0].update(kind="Laplace"),
    "subject of a call": lambda it: it["calls"][0].update(subject=["a"]),
    "call without a price": lambda it: it["calls"][0].pop("rho"),
    "call with more": lambda it: it["calls"][0].update(more=1),
    "loss": lambda it: it["calls"][0].update(lost=0),
    "records": lambda it: it.update(records="12"),
    "records in parts": lambda it: it.update(records=12.0),
    "records that are true": lambda it: it.update(records=True),
    "budget": lambda it: it.update(rho_budget=None),
    "spent": lambda it: it.update(rho_spent=[]),
    "settings": lambda it: it.update(parameters=None),
    "domain": lambda it: it.update(domain_digest=None),
    "neighbours": lambda it: it.update(neighbours="replace_one"),
    "decisions": lambda it: it.update(decisions=[1]),
    "values": lambda it: it.update(values=["round-001/cells"]),
    "rounds": lambda it: it.update(rounds={"a": 1}),
    "round": lambda it: it["rounds"].append(None),
    "round twice": lambda it: it["rounds"].append(it["rounds"][0]),
    "round of another number": lambda it: it["rounds"][0].update(index=7),
    "round without its marginal": lambda it: it["rounds"][0].pop("clique"),
    "marginal": lambda it: it["rounds"][0].update(clique=[1]),
    "source": lambda it: it["rounds"][0].update(source="Public"),
    "measurement": lambda it: it["rounds"][0].update(measured={"step": 1}),
    "residual": lambda it: it["rounds"][0].update(l1_residual="0.1"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_part_of_another_type_is_damage(stored: Path, damage: str) -> None:
    path = stored / "transcript.json"
    content = json.loads(path.read_text())
    DAMAGES[damage](content)
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"transcript\.json is damaged \(.*\): restore it"):
        Transcript.load(stored)


def test_a_document_of_another_kind_is_damage(stored: Path) -> None:
    for content in (None, True, 1, "x", ["rounds"]):
        (stored / "transcript.json").write_text(json.dumps(content))
        with pytest.raises(InputError, match=r"transcript\.json is damaged"):
            Transcript.load(stored)


def test_what_was_saved_is_read(stored: Path) -> None:
    read = Transcript.load(stored)
    assert type(read.records) is int
    assert all(type(call.rho) is float for call in read.calls)
    assert all(one.values.dtype == np.float64 for one in read.measurements)
