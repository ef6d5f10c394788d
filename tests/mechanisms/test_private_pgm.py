"""The estimator against what can be known without it."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from jam_dagster.mechanisms import FittedModel, Measurement
from jam_dagster.mechanisms.private_pgm import estimate, load_mbi
from jam_dagster.tables import Domain
from jam_dagster.tables.domain import ImpossibleCombination


def exact(table, *cliques):
    return [
        Measurement(clique, "public", table.marginal(clique).astype(float), 0.0, i)
        for i, clique in enumerate(cliques)
    ]


def test_consistent_measurements_are_met(domain, private):
    cliques = [("a", "b"), ("b", "c")]
    model = estimate(domain, exact(private, *cliques), private.records, iterations=1000)
    for clique in cliques:
        np.testing.assert_allclose(model.marginal(clique), private.marginal(clique), atol=0.05)


def test_no_measurement_gives_the_uniform_model(domain):
    model = estimate(domain, [], 12, iterations=50)
    np.testing.assert_allclose(model.marginal(("a", "b")), 2)


def test_measurements_weigh_alike_whatever_their_noise(domain):
    """Two measurements of one marginal meet halfway, though one claims far less noise."""
    low = Measurement(("a",), "private", np.array([40.0, 60.0]), 100.0, 0)
    high = Measurement(("a",), "private", np.array([60.0, 40.0]), 0.1, 1)
    model = estimate(domain, [low, high], 100, iterations=500)
    np.testing.assert_allclose(model.marginal(("a",)), [50, 50], atol=0.1)


def test_impossible_combinations_stay_zero_whatever_is_measured(domain, private):
    constrained = Domain(
        domain.attributes, impossible=(ImpossibleCombination(("a", "c"), ((0,), (0,))),)
    )
    model = estimate(
        constrained, exact(private, ("a", "b"), ("b", "c")), private.records, iterations=300
    )
    assert model.marginal(("a", "c"))[0, 0] == 0
    assert model.marginal(("a", "c")).sum() == pytest.approx(private.records)


def test_warm_start_goes_on_where_the_last_fit_stopped(domain, private):
    measurements = exact(private, ("a", "b"))
    fitted = estimate(domain, measurements, private.records, iterations=1000)
    cold = estimate(domain, measurements, private.records, iterations=50)
    warm = estimate(domain, measurements, private.records, iterations=50, warm_start=fitted)
    truth = private.marginal(("a", "b"))
    assert np.abs(warm.marginal(("a", "b")) - truth).sum() <= (
        np.abs(cold.marginal(("a", "b")) - truth).sum()
    )


def test_marginals_equal_mbi_on_the_same_potentials(domain, private):
    """Our junction tree and mbi's variable elimination read one model alike."""
    mbi = load_mbi()
    model = estimate(
        domain, exact(private, ("a", "b"), ("b", "c")), private.records, iterations=100
    )
    theirs_domain = mbi.Domain(domain.names, domain.shape)
    tables = {
        clique: mbi.Factor(theirs_domain.project(clique), table)
        for clique, table in model.potentials.items()
    }
    potentials = mbi.CliqueVector(theirs_domain, list(tables), tables)
    for names in [("a",), ("a", "c"), ("a", "b", "c")]:
        theirs = mbi.marginal_oracles.variable_elimination(potentials, names, model.total)
        np.testing.assert_allclose(model.marginal(names), theirs.values, atol=1e-9)


FIT = """
import numpy as np
from jam_dagster.mechanisms import Measurement
from jam_dagster.mechanisms.private_pgm import estimate
from jam_dagster.tables import Domain
domain = Domain.from_sizes({"income": 3, "age": 4, "sex": 2, "race": 3})
rng = np.random.default_rng(0)
cliques = [("income", "age"), ("age", "sex"), ("sex", "race"), ("income", "sex")]
measured = [
    Measurement(c, "private", rng.normal(50, 10, [domain.sizes[a] for a in c]), 1.0, i)
    for i, c in enumerate(cliques)
]
model = estimate(domain, measured, 600, iterations=100)
print(model.marginal(domain.names).tobytes().hex())
"""


def test_fit_is_the_same_in_processes_with_other_hash_seeds():
    outputs = {
        subprocess.run(
            [sys.executable, "-c", FIT],
            env={"PYTHONHASHSEED": seed, "PATH": "", "JAX_PLATFORMS": "cpu"},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_uniform_model_has_no_cliques(domain):
    assert FittedModel.uniform(domain, 5).cliques == ()
