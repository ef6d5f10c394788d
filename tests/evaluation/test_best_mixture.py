"""The best weights of public records: against another solver, by hand, its reach."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import scipy

from jam_dagster.errors import SpecificationError
from jam_dagster.evaluation.best_mixture import best_mixture, on_simplex
from jam_dagster.evaluation.workload_error import workload_error
from jam_dagster.mechanisms import load_model, make_mechanism
from jam_dagster.models.weighted.model import WeightedTable
from jam_dagster.privacy import Draws, SeededNoise, UnledgeredAccount
from jam_dagster.tables import Domain, EncodedTable, Workload
from tests.tiers import first_quick

DOMAIN = Domain.from_sizes({"a": 3, "b": 2, "c": 4})
WORKLOAD = Workload.of(DOMAIN, [("a", "b"), ("b", "c"), ("a",)], weights=[1.0, 2.0, 0.5])


def random_table(rng: np.random.Generator, rows: int, spread: float = 0.4) -> EncodedTable:
    joint = rng.multinomial(rows, rng.dirichlet(np.full(24, spread)))
    return EncodedTable(DOMAIN, np.unravel_index(np.repeat(np.arange(24), joint), DOMAIN.shape))


def by_linear_programming(private: EncodedTable, public: EncodedTable) -> float:
    """Solve with scipy: weights, and for each cell how far it may be off."""
    records = np.unique(np.stack(public.columns, 1), axis=0)
    rows, wanted, costs = [], [], []
    share = np.array(WORKLOAD.weights) / sum(WORKLOAD.weights)
    for clique, weight in zip(WORKLOAD.cliques, share, strict=True):
        places = [DOMAIN.positions[name] for name in clique]
        counts = private.marginal(clique) / private.records
        for cell in np.ndindex(counts.shape):
            rows.append((records[:, places] == cell).all(axis=1).astype(float))
            wanted.append(counts[cell])
            costs.append(weight)
    answers, d = np.array(rows), np.array(wanted)
    slack = -np.eye(len(d))
    objective = np.concatenate([np.zeros(len(records)), costs])
    found = scipy.optimize.linprog(
        objective,
        A_ub=np.block([[answers, slack], [-answers, slack]]),
        b_ub=np.concatenate([d, -d]),
        A_eq=[[1.0] * len(records) + [0.0] * slack.shape[1]],
        b_eq=[1.0],
    )
    assert found.success
    return float(found.fun)


@pytest.mark.parametrize("seed", range(8))
def test_it_is_what_another_solver_finds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    private, public = random_table(rng, 200), random_table(rng, int(rng.integers(1, 25)))
    found = best_mixture(private, public, WORKLOAD, tolerance=1e-6)
    wanted = by_linear_programming(private, public)
    assert found.least <= wanted + 1e-9
    assert wanted - 1e-9 <= found.error <= wanted + 1e-6 + 1e-9
    assert found.error - found.least <= 1e-6


def test_its_weights_have_its_error() -> None:
    rng = np.random.default_rng(3)
    private, public = random_table(rng, 200), random_table(rng, 12)
    found = best_mixture(private, public, WORKLOAD, tolerance=1e-5)
    error = workload_error(private, found.model, public, WORKLOAD, mode="exact")
    assert error.synthetic is not None
    assert error.public is not None
    assert found.error == pytest.approx(error.synthetic.mean, abs=1e-9)
    assert found.error < error.public.mean


def table(rows: list[tuple[int, int, int]]) -> EncodedTable:
    return EncodedTable(DOMAIN, tuple(np.array(column) for column in zip(*rows, strict=True)))


def test_by_hand() -> None:
    """A quarter of the records has a = 2, which no public one has: 1/4 too few, 1/4 too many."""
    private = table([(0, 0, 0), (0, 0, 0), (1, 0, 0), (2, 0, 0)])
    public = table([(0, 0, 0), (1, 0, 0)])
    one_way = Workload.of(DOMAIN, [("a",)])
    found = best_mixture(private, public, one_way, tolerance=1e-6)
    assert found.error == pytest.approx(0.5, abs=1e-6)


def test_public_records_that_are_the_private_ones_have_no_error() -> None:
    private = random_table(np.random.default_rng(0), 50)
    found = best_mixture(private, private, WORKLOAD, tolerance=1e-6)
    assert found.error <= 1e-6
    for clique in WORKLOAD.cliques:
        fitted = found.model.marginal(clique)
        np.testing.assert_allclose(fitted, private.marginal(clique), atol=1e-3)


LIMITS = {
    "pmw_pub": {"passes": 200, "iterate": "last"},
    "pep_pub": {"iterations": 1000, "gamma": 0.0},
}


def limit(name: str, private: EncodedTable, public: EncodedTable, workload: Workload) -> float:
    """Return the error of a mechanism with a budget without limit."""
    draws = Draws(SeededNoise(0), UnledgeredAccount(9000.0))
    mechanism = make_mechanism(name, rounds=12, **LIMITS[name])
    model = mechanism.run(private, public, workload, draws).model
    error = workload_error(private, model, public, workload, mode="exact")
    assert error.synthetic is not None
    return error.synthetic.mean


@pytest.mark.slow
@pytest.mark.parametrize("name", first_quick(LIMITS))
def test_mechanisms_that_weigh_public_records_reach_it_where_it_is_nothing(name: str) -> None:
    """Other records than the private ones, and far from their frequencies, can fit all the same."""
    private = table([(0, 0, 0)] * 6 + [(1, 1, 1)] * 3 + [(2, 0, 2)] * 3)
    public = table(
        [(0, 1, 0), (0, 0, 2), (1, 0, 1), (2, 0, 0), (0, 0, 0), (0, 1, 1)] + [(1, 1, 1)] * 9
    )
    workload = Workload.all_k_way(DOMAIN, 1)
    assert best_mixture(private, public, workload, tolerance=1e-6).error <= 1e-6
    assert workload_error(private, public, public, workload, mode="exact").public.mean > 0.5
    assert limit(name, private, public, workload) < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5, 9))
@pytest.mark.parametrize("name", LIMITS)
def test_no_mechanism_that_weighs_public_records_is_better(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    private, public = random_table(rng, 400), random_table(rng, 9)
    least = best_mixture(private, public, WORKLOAD, tolerance=1e-4).least
    assert 0.2 < least <= limit(name, private, public, WORKLOAD)


@pytest.mark.parametrize(
    ("change", "error", "expected"),
    [
        ({"tolerance": 0.0}, SpecificationError, "tolerance must be at least 1e-07"),
        ({"tolerance": math.nan}, SpecificationError, "tolerance"),
    ],
)
def test_what_cannot_be_searched_for_is_refused(change, error, expected) -> None:
    rows = table([(0, 0, 0)])
    with pytest.raises(error, match=expected):
        best_mixture(rows, rows, WORKLOAD, **change)


def test_exact_weights_are_marked_wherever_they_are_stored_or_shown(tmp_path) -> None:
    rng = np.random.default_rng(3)
    private, public = random_table(rng, 100), random_table(rng, 10)
    found = best_mixture(private, public, WORKLOAD)
    assert repr(found) == "BestMixture(restricted: exact statistics of private data)"
    found.model.save(tmp_path / "model")
    described = json.loads((tmp_path / "model" / "model.json").read_text())
    assert described["restricted"] == "exact statistics of private data"
    again = load_model(tmp_path / "model")
    assert isinstance(again, WeightedTable)
    for model in (found.model, again):
        assert model.restricted
        assert "restricted: exact statistics of private data" in repr(model)
        assert "restricted: exact statistics of private data" in model._repr_html_()
    np.testing.assert_array_equal(again.marginal(("a",)), found.model.marginal(("a",)))

    # What a mechanism releases has the files that it always had.
    draws = Draws(SeededNoise(1), UnledgeredAccount(1.0))
    paid = make_mechanism("pmw_pub", rounds=1).run(private, public, WORKLOAD, draws).model
    assert "restricted" not in repr(paid)
    paid.save(tmp_path / "paid")
    assert "restricted" not in json.loads((tmp_path / "paid" / "model.json").read_text())


def test_the_nearest_point_of_a_simplex() -> None:
    np.testing.assert_allclose(on_simplex(np.array([0.2, 0.8])), [0.2, 0.8])
    np.testing.assert_allclose(on_simplex(np.array([3.0, 1.0, -5.0])), [1, 0, 0])
    np.testing.assert_allclose(on_simplex(np.array([0.5, 0.4, -1.0])), [0.55, 0.45, 0])
