"""A table small enough to check by hand, and noise that does as it is told."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from jam_dagster.mechanisms import FittedModel, make_mechanism
from jam_dagster.privacy import Draws, Neighbours, UnledgeredAccount
from jam_dagster.tables import Domain, EncodedTable, Workload

IMPOSSIBLE = Domain.from_dict(
    {
        "attributes": {"a": {"values": [0, 1]}, "b": {"values": [0, 1]}},
        "impossible": [{"a": [0], "b": [0]}],
    }
)


@dataclass
class ScriptedNoise:
    """Chooses what a test says, adds nothing, and keeps what it was asked."""

    choices: list[int]
    name: str = "scripted"
    releasable: bool = False
    repeatable: bool = False
    selections: list[dict] = field(default_factory=list)
    measurements: list[dict] = field(default_factory=list)

    def select(self, scores, rho, sensitivity, step):
        index = self.choices[len(self.selections)] % len(scores)
        self.selections.append(
            {"scores": scores.copy(), "rho": rho, "sensitivity": sensitivity, "step": step}
        )
        return index

    def gaussian_counts(self, counts, l2_sensitivity, rho, step):
        self.measurements.append({"counts": counts.copy(), "rho": rho, "step": step})
        return counts.copy(), l2_sensitivity / np.sqrt(2 * rho)

    def gaussian_values(self, values, l2_sensitivity, rho, step):
        return values.copy(), l2_sensitivity / np.sqrt(2 * rho)


def scripted_run(
    mechanism, private, workload, choices, rho, *, public=None, store=None, neighbours=None
):
    """Run a mechanism, choosing as told and without noise; return the noise and the account too."""
    noise, account = ScriptedNoise(list(choices)), UnledgeredAccount(rho)
    draws = Draws(noise, account, store, neighbours=neighbours or Neighbours())
    return mechanism.run(private, public, workload, draws), noise, account


def chain(rows: int = 4000) -> EncodedTable:
    """a - b - c - d, each of which mostly repeats the one before it."""
    rng = np.random.default_rng(0)
    columns = [rng.integers(0, 3, rows)]
    for _ in range(3):
        kept = rng.random(rows) < 0.8
        columns.append(np.where(kept, columns[-1], rng.integers(0, 3, rows)))
    return EncodedTable(Domain.from_sizes(dict.fromkeys("abcd", 3)), tuple(columns))


def histogram_run(name, private, public, choices, *, degree=1, rho=1.0, store=None, **settings):
    """Run a mechanism that weighs records, choosing as told and without noise."""
    mechanism = make_mechanism(name, **{"rounds": len(choices)} | settings)
    workload = Workload.all_k_way(private.domain, degree)
    return scripted_run(mechanism, private, workload, choices, rho, public=public, store=store)[:2]


@pytest.fixture
def domain() -> Domain:
    return Domain.from_sizes({"a": 2, "b": 3, "c": 2})


@pytest.fixture
def workload(domain: Domain) -> Workload:
    return Workload.all_k_way(domain, 2)


def table(domain: Domain, rows: list[tuple[int, ...]]) -> EncodedTable:
    return EncodedTable(domain, tuple(np.array(column) for column in zip(*rows, strict=True)))


@pytest.fixture
def private(domain: Domain) -> EncodedTable:
    rows = [(0, 0, 0)] * 6 + [(1, 2, 1)] * 3 + [(0, 1, 1)] * 2 + [(1, 0, 0)]
    return table(domain, rows)


@pytest.fixture
def public(domain: Domain) -> EncodedTable:
    return table(domain, [(0, 0, 0), (0, 1, 1), (1, 2, 1), (1, 2, 0)])


@pytest.fixture
def model(domain: Domain) -> FittedModel:
    rng = np.random.default_rng(0)
    return FittedModel(
        domain,
        1000.0,
        {("a", "b"): rng.normal(0, 1, (2, 3)), ("b", "c"): rng.normal(0, 1, (3, 2))},
    )
