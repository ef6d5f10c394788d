"""A small release made by hand: a domain with every kind of attribute, a model, a transcript."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import numpy as np
import pandas as pd
import pytest

from jam_dagster.mechanisms import FittedModel, Measurement, Round, Transcript
from jam_dagster.privacy import REPLACE_ONE
from jam_dagster.tables import (
    CategoricalAttribute,
    Clique,
    Domain,
    EncodedTable,
    ImpossibleCombination,
    NumericAttribute,
)
from jam_dagster.tables.codes.decode import decode

RECORDS = 4000


@dataclass(frozen=True)
class SmallRelease:
    """What the evaluation of a release works with."""

    domain: Domain
    transcript: Transcript
    model: FittedModel
    synthetic: EncodedTable
    public: EncodedTable
    table: pd.DataFrame


def small_domain() -> Domain:
    return Domain(
        (
            NumericAttribute("age", (0, 15, 30, 60, 90), integer=True, nullable=True),
            CategoricalAttribute("marital-status", ("Single", "Married", "Widowed")),
            NumericAttribute("income", (0.0, 10.5, 20.0, 99.5)),
            CategoricalAttribute("citizen", (False, True)),
            CategoricalAttribute("region", (1, 2, 3), nullable=True),
        ),
        impossible=(ImpossibleCombination(("age", "marital-status"), ((0,), (1, 2))),),
    )


def small_model(domain: Domain) -> FittedModel:
    with np.errstate(divide="ignore"):
        age_and_status = np.log(
            np.array([[700, 0, 0], [600, 300, 0], [300, 900, 100], [100, 400, 400], [150, 30, 20]])
        )
    potentials: dict[Clique, np.ndarray] = {
        ("age", "marital-status"): age_and_status,
        ("income",): np.log(np.array([2000.0, 1500.0, 500.0])),
        ("citizen",): np.log(np.array([400.0, 3600.0])),
        ("region",): np.log(np.array([1000.0, 2000.0, 900.0, 100.0])),
    }
    return FittedModel(domain, RECORDS, potentials)


def measured_round(
    index: int, clique: Clique, source: str, counts: np.ndarray, sigma: float, seed: int = 5
) -> Round:
    """Return a round whose measurement is `counts` with noise."""
    private = source == "private"
    noise = np.random.default_rng([seed, index]).normal(0.0, sigma, counts.shape) if private else 0
    measurement = Measurement(clique, source, counts + noise, sigma if private else 0.0, index)  # type: ignore[arg-type]
    return Round(
        index=index,
        clique=clique,
        source=source,  # type: ignore[arg-type]
        candidates=25,
        rho_select=0.001,
        rho_measure=1 / sigma**2 if private else 0.0,
        rho_spent=math.nan,
        sigma=sigma if private else 0.0,
        size_limit_mb=8.0,
        model_mb=0.01,
        l1_residual=0.02,
        iterations=20,
        loss=0.001,
        seconds=0.5,
        measurement=measurement,
    )


def lost(made: Round) -> Round:
    """Return a round as it is where its measurement was charged and lost."""
    return replace(made, measurement=None, sigma=0.0, l1_residual=math.nan, loss=math.nan)


def transcript_of(domain: Domain, rounds: list[Round], *, releasable: bool = True) -> Transcript:
    spent = list(accumulate(r.rho_select + r.rho_measure for r in rounds))
    return Transcript(
        mechanism="jam_pgm",
        parameters={
            "rounds": max(1, len(rounds)),
            "alpha": 0.8,
            "size_limit_mb": 80.0,
            "iterations": 100,
        },
        domain_digest=domain.digest,
        records=RECORDS,
        rho_budget=0.05,
        rho_spent=spent[-1] if spent else 0.0,
        rounds=tuple(replace(r, rho_spent=s) for r, s in zip(rounds, spent, strict=True)),
        ended="all rounds",
        noise="exact" if releasable else "numpy",
        releasable=releasable,
        neighbours=REPLACE_ONE,
        calls=(),
        workload_digest="",
    )


def small_rounds(model: FittedModel) -> list[Round]:
    """Return rounds that measure the model's own marginals; region privately never."""
    chosen: list[tuple[Clique, str, float]] = [
        (("age", "marital-status"), "private", 20.0),
        (("age",), "private", 30.0),
        (("income", "region"), "public", 0.0),
        (("income",), "private", 25.0),
        (("citizen",), "private", 15.0),
    ]
    return [
        measured_round(index, clique, source, model.marginal(clique), sigma)
        for index, (clique, source, sigma) in enumerate(chosen)
    ]


def rows_of(chart: Any) -> list[dict[str, Any]]:
    """Return all rows that a chart holds, those of its layers and panels too."""
    spec = chart.to_dict()
    found: list[dict[str, Any]] = [
        row for rows in spec.get("datasets", {}).values() for row in rows
    ]

    def walk(part: Any) -> None:
        if isinstance(part, dict):
            data = part.get("data")
            found.extend(data.get("values", []) if isinstance(data, dict) else [])
            for value in part.values():
                walk(value)
        elif isinstance(part, list):
            for value in part:
                walk(value)

    walk(spec)
    return found


@pytest.fixture(scope="session")
def release() -> SmallRelease:
    return small_release()


def small_release() -> SmallRelease:
    domain = small_domain()
    model = small_model(domain)
    rng = np.random.default_rng(0)
    synthetic = model.sample(RECORDS, rng)
    biased = np.random.default_rng(1).random(RECORDS) < 0.05 + 0.3 * (synthetic.column("age") > 2)
    return SmallRelease(
        domain=domain,
        transcript=transcript_of(domain, small_rounds(model)),
        model=model,
        synthetic=synthetic,
        public=synthetic.take(biased),
        table=decode(synthetic, rng),
    )
