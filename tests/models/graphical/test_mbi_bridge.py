"""The estimator against what can be known without it."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from jam_dagster.mechanisms import FittedModel, Measurement
from jam_dagster.models.graphical.mbi_bridge import estimate, load_mbi, to_markov_random_field
from jam_dagster.tables import CategoricalAttribute, Domain, NumericAttribute
from jam_dagster.tables.domain.impossible import ImpossibleCombination
from tests.tiers import by_jax

pytestmark = by_jax


def exact(table, *cliques):
    return [
        Measurement(clique, "public", table.marginal(clique).astype(float), 0.0, i)
        for i, clique in enumerate(cliques)
    ]


@pytest.mark.slow
def test_warm_start_goes_on_where_the_last_fit_stopped(domain, private):
    measurements = exact(private, ("a", "b"))
    fitted = estimate(domain, measurements, private.records, iterations=1000)
    cold = estimate(domain, measurements, private.records, iterations=50)
    warm = estimate(domain, measurements, private.records, iterations=50, warm_start=fitted)
    truth = private.marginal(("a", "b"))
    assert np.abs(warm.marginal(("a", "b")) - truth).sum() <= (
        np.abs(cold.marginal(("a", "b")) - truth).sum()
    )


def test_marginals_equal_mbi_on_the_same_potentials(domain):
    """Our junction tree and mbi's variable elimination read one model alike."""
    mbi, rng = load_mbi(), np.random.default_rng(0)
    cliques = [("a", "b"), ("b", "c")]
    drawn = {one: rng.normal(size=[domain.sizes[name] for name in one]) for one in cliques}
    model = FittedModel(domain, 100.0, drawn)
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
from jam_dagster.models.graphical.mbi_bridge import estimate
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


@pytest.mark.slow
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


def exported(kind):
    """Return models of each kind that there is, over names that are not in alphabetic order."""
    domain = Domain.from_sizes({"zip": 2, "income": 3, "age": 4, "alone": 2})
    impossible = (ImpossibleCombination(("zip", "age"), ((0,), (0, 1))),)
    rng = np.random.default_rng(0)
    cliques = [("zip", "income"), ("income", "age")]
    tables = {q: rng.normal(0, 1, [domain.sizes[name] for name in q]) for q in cliques}
    if kind == "uniform":
        return FittedModel.uniform(domain, 90.0)
    if kind == "plain":
        return FittedModel(domain, 250.5, tables)
    constrained = FittedModel(Domain(domain.attributes, impossible=impossible), 80.0, tables)
    return constrained if kind == "constrained" else constrained.condition({"age": [0, 3]})


EXPORTED = ["plain", "constrained", "conditioned", "uniform"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", EXPORTED)
def test_exported_model_answers_the_same(kind):
    model = exported(kind)
    theirs = to_markov_random_field(model)
    assert theirs.domain.attributes == model.domain.names
    assert theirs.domain.shape == model.domain.shape
    assert theirs.total == model.total
    for clique in theirs.marginals.cliques:
        np.testing.assert_allclose(
            theirs.marginals[clique].values, model.marginal(clique), atol=1e-9
        )
    # In a clique, in another order, across cliques, with the attribute of no clique, and all.
    for names in [
        ("zip", "income"),
        ("income", "zip"),
        ("income",),
        ("alone",),
        ("zip", "age"),
        ("alone", "age"),
        model.domain.names,
    ]:
        factor = theirs.project(names)
        assert factor.domain.attributes == names
        np.testing.assert_allclose(factor.values, model.marginal(names), atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("kind", EXPORTED)
def test_mbi_samples_what_is_exported(kind):
    model = exported(kind)
    np.random.seed(0)  # noqa: NPY002  # mbi draws from NumPy's global generator
    data = to_markov_random_field(model).synthetic_data(rows=4000)
    for names in [("zip", "income"), ("income", "age"), ("zip", "age"), ("alone",)]:
        share = np.asarray(data.project(names).values) / 4000
        expected = model.marginal(names) / model.total
        assert (share[expected == 0] == 0).all()
        # The standard deviation of a share is below 0.008: six of them fail once in 5e8.
        np.testing.assert_allclose(share, expected, atol=0.048)


def test_constraints_are_exported_where_cells_cannot_occur():
    assert to_markov_random_field(exported("plain")).constraints == ()
    (combination,) = to_markov_random_field(exported("constrained")).constraints
    assert combination.domain.attributes == ("zip", "age")
    np.testing.assert_array_equal(combination.invalid, [[0, 0], [0, 1]])
    cliques = [c.clique for c in to_markov_random_field(exported("conditioned")).constraints]
    assert sorted(cliques) == [("age",), ("age", "zip")]


@pytest.mark.slow
def test_what_mbi_fitted_comes_back_whole(domain, private):
    model = estimate(domain, exact(private, ("a", "b"), ("b", "c")), 12, iterations=100)
    theirs = to_markov_random_field(model)
    assert theirs.cliques == model.cliques
    for clique, table in model.potentials.items():
        np.testing.assert_array_equal(theirs.potentials[clique].values, table)


def test_exported_cells_have_their_labels(model_of_people):
    theirs = to_markov_random_field(model_of_people)
    assert theirs.domain.labels == (("yes", "no", "(null)"), ("0 to 9", "10 to 19"))


@pytest.fixture
def model_of_people():
    return FittedModel.uniform(
        Domain(
            (
                CategoricalAttribute("vote", ("yes", "no"), nullable=True),
                NumericAttribute("age", (0, 10, 19), integer=True),
            )
        ),
        10,
    )
