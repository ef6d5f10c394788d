"""The inner loops of a run, each by itself, on a simulated table with the shape of UCI Adult.

    python -m pytest benchmarks/test_kernels.py

100,000 rows, 15 attributes, all 575 marginals of up to three of them, and a model of thirteen
overlapping marginals of three attributes. The suite does not collect them: times depend on the
machine, and nothing here can fail but by an error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from benchmarks.simulated import Population
from jam_dagster.mechanisms import (
    FittedModel,
    JamPgm,
    Measurement,
    Round,
    Transcript,
    refit,
)
from jam_dagster.models.graphical.tractability import TractabilityFilter
from jam_dagster.privacy import REPLACE_ONE
from jam_dagster.tables import Clique, Domain, EncodedTable, Workload

ROWS, ATTRIBUTES, LIMIT_MB = 100_000, 15, 80.0

# The fixture of pytest-benchmark, which is not typed.
Benchmark = Any


@dataclass(frozen=True)
class Case:
    """What the kernels work on."""

    table: EncodedTable
    closure: list[Clique]
    measured: list[Clique]
    model: FittedModel

    @property
    def domain(self) -> Domain:
        """The attributes."""
        return self.table.domain


@pytest.fixture(scope="module")
def case() -> Case:
    population = Population.of(ATTRIBUTES, seed=0)
    sizes = dict(zip(population.names, population.sizes, strict=True))
    domain = Domain.from_dict(sizes)
    table = EncodedTable.from_frame(domain, population.draw(ROWS, np.random.default_rng(0)))
    closure = list(Workload.all_k_way(domain, 3).downward_closure())
    measured = [tuple(domain.names[i : i + 3]) for i in range(ATTRIBUTES - 2)]
    rng = np.random.default_rng(1)
    potentials = {clique: rng.normal(size=[sizes[name] for name in clique]) for clique in measured}
    return Case(table, closure, measured, FittedModel(domain, ROWS, potentials))


def again(model: FittedModel) -> Callable[[], tuple[tuple[FittedModel], dict[str, object]]]:
    """Return a setup that makes the model anew, since a model keeps its calibrated tree."""

    def setup() -> tuple[tuple[FittedModel], dict[str, object]]:
        return (FittedModel(model.domain, model.total, model.potentials),), {}

    return setup


def test_counting_every_marginal(benchmark: Benchmark, case: Case) -> None:
    counts = benchmark(case.table.marginals, case.closure)

    assert counts[case.closure[-1]].sum() == ROWS


def test_filtering_for_the_first_time(benchmark: Benchmark, case: Case) -> None:
    def filtered() -> list[int]:
        return TractabilityFilter(case.domain, case.closure).fitting(case.measured, LIMIT_MB)

    assert benchmark(filtered)


def test_filtering_after_one_more_measurement(benchmark: Benchmark, case: Case) -> None:
    *before, last = case.measured

    def setup() -> tuple[tuple[TractabilityFilter], dict[str, object]]:
        tractable = TractabilityFilter(case.domain, case.closure)
        tractable.fitting(before, LIMIT_MB)
        return (tractable,), {}

    def filtered(tractable: TractabilityFilter) -> list[int]:
        return tractable.fitting([*before, last], LIMIT_MB)

    assert benchmark.pedantic(filtered, setup=setup, rounds=20)


def test_answering_every_candidate(benchmark: Benchmark, case: Case) -> None:
    def answered(model: FittedModel) -> dict[Clique, np.ndarray]:
        return model.marginals(case.closure)

    answers = benchmark.pedantic(answered, setup=again(case.model), rounds=5)

    assert answers[case.closure[-1]].sum() == pytest.approx(ROWS)


def test_sampling_a_table(benchmark: Benchmark, case: Case) -> None:
    def sampled(model: FittedModel) -> EncodedTable:
        return model.sample(ROWS, np.random.default_rng(0))

    assert benchmark.pedantic(sampled, setup=again(case.model), rounds=5).records == ROWS


def test_fitting_round_by_round(benchmark: Benchmark, case: Case) -> None:
    rng = np.random.default_rng(2)
    sigma = 50.0
    rounds = []
    for index, clique in enumerate(case.measured):
        counts = case.table.marginal(clique)
        noisy = counts + rng.normal(0.0, sigma, counts.shape)
        rounds.append(
            Round(
                index=index,
                clique=clique,
                source="private",
                candidates=len(case.closure),
                rho_select=0.0,
                rho_measure=0.0,
                rho_spent=0.0,
                sigma=sigma,
                size_limit_mb=LIMIT_MB,
                model_mb=0.0,
                l1_residual=0.0,
                iterations=0,
                loss=0.0,
                seconds=0.0,
                measurement=Measurement(clique, "private", noisy, sigma, index),
            )
        )
    transcript = Transcript(
        mechanism=JamPgm.name,
        parameters=JamPgm(rounds=len(rounds)).parameters(),
        domain_digest=case.domain.digest,
        records=ROWS,
        rho_budget=0.0,
        rho_spent=0.0,
        rounds=tuple(rounds),
        ended="all rounds",
        noise="numpy",
        releasable=False,
        neighbours=REPLACE_ONE,
        calls=(),
        workload_digest="",
    )

    model = benchmark.pedantic(refit, args=(transcript, case.domain), rounds=1)

    assert model.marginal(case.measured[0]).sum() == pytest.approx(ROWS)
