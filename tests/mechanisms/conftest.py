"""A table small enough to check by hand, and noise that does as it is told."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from jam_dagster.mechanisms import FittedModel, make_mechanism
from jam_dagster.privacy import Draws, UnledgeredAccount
from jam_dagster.tables import Domain, EncodedTable, Workload


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
        return counts.copy(), 1 / np.sqrt(rho)

    def gaussian_values(self, values, l2_sensitivity, rho, step):
        return values.copy(), l2_sensitivity / np.sqrt(2 * rho)


def histogram_run(name, private, public, choices, *, degree=1, rho=1.0, store=None, **settings):
    """Run a mechanism that weighs records, choosing as told and without noise."""
    noise = ScriptedNoise(list(choices))
    draws = Draws(noise, UnledgeredAccount(rho), store)
    settings = {"rounds": len(choices)} | settings
    workload = Workload.all_k_way(private.domain, degree)
    return make_mechanism(name, **settings).run(private, public, workload, draws), noise


@pytest.fixture
def domain() -> Domain:
    return Domain.from_sizes({"a": 2, "b": 3, "c": 2})


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
