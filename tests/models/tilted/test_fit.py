"""Fits of tilted priors: their optimum, their bounds, and the strength of the prior."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
import scipy

from jam_dagster.mechanisms import Measurement
from jam_dagster.mechanisms.loops.single_attributes import ExpectedAttributes
from jam_dagster.models.graphical.junction_tree import mask_of
from jam_dagster.models.tilted.fit import TiltFit, closest_marginal, strength_of
from jam_dagster.models.tilted.model import TiltedModel
from jam_dagster.models.tilted.prior import PublicPrior
from jam_dagster.tables import Domain, EncodedTable, ImpossibleCombination, Workload
from jam_dagster.trials.splits import SplitFiles
from tests.tiers import slow

SIZES = {"a": 2, "b": 3, "c": 4}
DOMAIN = Domain.from_sizes(SIZES)
BARRED = Domain(DOMAIN.attributes, impossible=(ImpossibleCombination(("a", "c"), ((0,), (1,))),))
N = 1000.0
TRUSTED = 99_000


def public(domain: Domain, seed: int = 0) -> EncodedTable:
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 2, 50)
    second = (first + rng.integers(0, 2, 50)) % 3
    third = (second + rng.integers(0, 3, 50)) % 4
    return EncodedTable(domain, (first, second, third))


TRUTH = np.random.default_rng(9).dirichlet(np.full(24, 3.0)).reshape(2, 3, 4)
TRUTH[0, :, 1] = 0.0
TRUTH /= TRUTH.sum()


def measured(clique, seed: int, sigma: float = 10.0) -> Measurement:
    counts = N * sum_onto(TRUTH, clique)
    noise = np.random.default_rng(seed).normal(0, sigma, counts.shape)
    return Measurement(clique, "private", counts + noise, sigma, seed)


def sum_onto(joint: np.ndarray, clique) -> np.ndarray:
    lost = tuple(axis for axis, name in enumerate(SIZES) if name not in clique)
    return joint.sum(axis=lost)


def joint_of(model) -> np.ndarray:
    return model.marginal(tuple(SIZES)) / model.total


@pytest.mark.parametrize("domain", [*slow(DOMAIN), BARRED], ids=["all possible", "some impossible"])
@pytest.mark.parametrize("records", [True, *slow(False)], ids=["records", "network"])
def test_the_fit_is_the_optimum_over_all_tables(domain, records, monkeypatch):
    """As a general optimizer finds it, with a probability for every possible cell."""
    monkeypatch.setattr("jam_dagster.models.tilted.fit.SETTLED", 1e-8)
    table = public(domain)
    if domain is BARRED:
        table = possible()
    prior = PublicPrior.of(domain, table)
    if not records:
        prior = PublicPrior(domain, 1, prior.potentials, None, np.empty(0), 0.0)
    fit = TiltFit(prior, N, iterations=500)
    for seed, clique in enumerate([("a",), ("b", "c"), ("a", "c"), ("b", "c")]):
        fit.add(measured(clique, seed, 20.0))
    found = joint_of(fit.model)
    start = prior.model(N)
    # The share of the records before the tilt falls with what measurements show.
    share = 1 / (1 + np.exp(-fit._odds))
    base = (1 - share) * joint_of(TiltedModel(start.network, None, 0.0))
    if start.rows is not None:
        base = base + share * start.rows.marginal(tuple(SIZES)) / N
    held = base > 0

    def cost(logs: np.ndarray) -> float:
        joint = np.zeros(base.shape)
        joint[held] = np.exp(logs - np.logaddexp.reduce(logs))
        divergence = (joint[held] * np.log(joint[held] / base[held])).sum()
        misfits = (
            ((sum_onto(joint, clique) - one.answer) ** 2).sum() / (2 * one.ridge(N))
            for clique, one in fit.measured.items()
        )
        return float(divergence + sum(misfits))

    ours = cost(np.log(found[held]))
    best = scipy.optimize.minimize(cost, np.log(found[held]), method="BFGS", options={"gtol": 1e-7})
    elsewhere = scipy.optimize.minimize(
        cost, np.log(base[held]), method="BFGS", options={"gtol": 1e-7}
    )
    assert ours <= min(best.fun, elsewhere.fun) + 1e-5
    if domain is BARRED:
        assert found[0, :, 1].max() == 0.0


def test_without_a_measurement_the_model_is_the_prior():
    prior = PublicPrior.of(DOMAIN, public(DOMAIN))
    np.testing.assert_array_equal(
        joint_of(TiltFit(prior, N, iterations=5).model), joint_of(prior.model(N))
    )


def test_little_noise_is_followed_and_much_noise_is_not():
    prior = PublicPrior.of(DOMAIN, public(DOMAIN))
    exact, noisy = measured(("a", "b"), 3, 1.0), measured(("a", "b"), 3, 1e5)
    close, far = (TiltFit(prior, N, iterations=100) for _ in range(2))
    close.add(exact)
    far.add(noisy)
    assert np.abs(close.model.marginal(("a", "b")) - exact.values).sum() < 0.05 * N
    moved = np.abs(far.model.marginal(("a", "b")) - prior.model(N).marginal(("a", "b"))).sum()
    assert moved < 0.02 * N


def test_one_measurement_corrects_what_is_correlated():
    """A table in which c follows a: who measures a moves c."""
    rng = np.random.default_rng(5)
    first = rng.integers(0, 2, 400)
    table = EncodedTable(DOMAIN, (first, rng.integers(0, 3, 400), first * 2))
    fit = TiltFit(PublicPrior.of(DOMAIN, table), N, iterations=100)
    before = fit.model.marginal(("c",))[2]
    fit.add(Measurement(("a",), "private", np.array([100.0, 900.0]), 5.0, 0))
    assert fit.model.marginal(("c",))[2] - before > 0.3 * N


def test_potentials_of_empty_cells_do_not_run_away():
    """Cells that are measured at or below zero, again and again, almost without noise."""
    fit = TiltFit(PublicPrior.of(BARRED, possible()), N, iterations=50)
    for seed, pair in enumerate([*itertools.combinations(SIZES, 2)] * 3):
        shape = tuple(SIZES[name] for name in pair)
        values = np.full(shape, -3.0)
        values.flat[seed % values.size] = N
        fit.add(Measurement(pair, "private", values, 0.01, seed))
        for table in fit.model.network.potentials.values():
            assert np.isfinite(table).all()
        joint = joint_of(fit.model)
        assert np.isfinite(joint).all()
        assert joint.sum() == pytest.approx(1.0, abs=1e-9)


def possible() -> EncodedTable:
    table = public(BARRED)
    return table.take((table.column("a") != 0) | (table.column("c") != 1))


@pytest.mark.parametrize("cells", [1, 8, 2**15])
def test_answers_are_those_of_the_model_however_many_are_mixed_at_a_time(cells, monkeypatch):
    monkeypatch.setattr("jam_dagster.models.tilted.fit.TOGETHER", cells)
    fit = TiltFit(PublicPrior.of(DOMAIN, public(DOMAIN)), N, iterations=20)
    fit.add(measured(("a", "b"), 0))
    cliques = Workload.all_k_way(DOMAIN, 2).downward_closure()
    masks = [mask_of(DOMAIN.positions[name] for name in clique) for clique in cliques]
    answers = dict(fit.marginals(masks))
    assert answers.keys() == set(masks)
    for mask, clique in zip(masks, cliques, strict=True):
        np.testing.assert_allclose(N * answers[mask], fit.model.marginal(clique), rtol=1e-12)


def test_fits_repeat_and_a_stored_model_is_the_released_one(tmp_path):
    prior = PublicPrior.of(DOMAIN, public(DOMAIN))
    fits = [TiltFit(prior, N, iterations=20) for _ in range(2)]
    for seed, clique in enumerate(Workload.all_k_way(DOMAIN, 2).cliques):
        for fit in fits:
            fit.add(measured(clique, seed))
    one, other = (fit.released for fit in fits)
    assert joint_of(one).tobytes() == joint_of(other).tobytes()
    np.testing.assert_allclose(joint_of(one), joint_of(fits[0].model), atol=1e-12)


def test_what_is_released_is_fitted_more_finely_and_once(monkeypatch):
    monkeypatch.setattr("jam_dagster.models.tilted.fit.SETTLED", 0.01)
    released = []
    for fine in (1e-4, 1e-7):
        monkeypatch.setattr("jam_dagster.models.tilted.fit.FINE", fine)
        fit = TiltFit(PublicPrior.of(DOMAIN, public(DOMAIN)), N, iterations=500)
        for seed, clique in enumerate([("a",), ("b", "c"), ("a", "c")]):
            fit.add(measured(clique, seed, 3.0))
        coarse = joint_of(fit.model)
        released.append(joint_of(fit.released))
        assert joint_of(fit.released).tobytes() == released[-1].tobytes()
    close, exact = released
    assert np.abs(close - exact).sum() < 0.2 * np.abs(coarse - exact).sum()


def test_the_same_clique_again_is_a_mean_by_precision():
    prior = PublicPrior.of(DOMAIN, public(DOMAIN))
    fit = TiltFit(prior, N, iterations=20)
    fit.add(Measurement(("a",), "private", np.array([100.0, 900.0]), 10.0, 0))
    fit.add(Measurement(("a",), "private", np.array([500.0, 500.0]), 20.0, 1))
    one = fit.measured["a",]
    np.testing.assert_allclose(one.answer, [0.18, 0.82])
    assert one.precision == pytest.approx(1 / 10**2 + 1 / 20**2)


def test_the_strength_is_that_of_the_sample_that_is_as_far_off():
    rng = np.random.default_rng(6)
    shares = rng.dirichlet(np.ones(400))
    model = shares * 1e6
    for records in (30, 1000, 300_000):
        drawn = rng.multinomial(records, shares) / records * 1e6
        found = strength_of(drawn + rng.normal(0, 10, 400), model, 10.0, 1e6)
        assert 0.5 * records < found < 2 * records


def test_a_strength_below_the_largest_takes_evidence():
    model = np.array([600.0, 300.0, 100.0])
    noise = np.random.default_rng(0).normal(0, 5, 3)
    assert strength_of(model + noise, model, 5.0, N) > TRUSTED
    assert strength_of(model[::-1], model, 5.0, N) < 30
    # Not much likelier than that the model is right.
    assert strength_of(model + np.array([12, -12, 0]), model, 5.0, N) > TRUSTED


def test_a_few_cells_that_are_wrong_by_chance_let_little_noise_through():
    """Of a thousand cells three are off by four deviations; a strength of 10 would be likeliest."""
    model = np.concatenate([np.full(50, 10.0), np.full(950, 0.5)])
    noise = np.random.default_rng(1).normal(0, 38, 1000)
    noise[:3] = [4 * 38, -4 * 38, 4 * 38]
    strength = strength_of(model + noise, model, 38.0, 975)
    ridges = np.array([strength, 10.0])[:, None] * 38**2 / 975
    mistaken, likeliest = (model / (model + ridges) * np.abs(noise)).sum(axis=1)
    assert strength < TRUSTED
    assert mistaken < likeliest / 2


def test_what_noise_hides_teaches_nothing_and_takes_nothing_from_the_records():
    fit = TiltFit(PublicPrior.of(DOMAIN, public(DOMAIN)), N, iterations=5)
    before = fit.model.share
    fit.add(measured(("a", "b"), 8, 1e6))
    assert not fit.learnt
    assert fit.model.share == pytest.approx(before, rel=1e-3)
    fit.add(measured(("a", "b"), 8, 1.0))
    assert fit.learnt
    assert fit.model.share < before


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_noise_may_say_anything():
    fit = TiltFit(PublicPrior.of(DOMAIN, public(DOMAIN)), 12, iterations=20)
    for sign in (1, -1, 1):
        for clique, sigma in ((("a", "b"), 1.0), (("c",), 1e-3)):
            values = np.full([SIZES[name] for name in clique], sign * 9e18)
            fit.add(Measurement(clique, "private", values, sigma, 0))
    answer = fit.released.marginal(tuple(SIZES))
    assert np.isfinite(answer).all()
    assert answer.min() >= 0
    assert answer.sum() == pytest.approx(12)


@pytest.mark.parametrize("ridge", [1e-9, 1e-4, 0.1, 10.0])
@pytest.mark.parametrize("cells", [1, 3, 500])
def test_the_conditions_of_the_closest_marginal_hold(ridge: float, cells: int) -> None:
    """log(p / m) + (p - y) / s is one constant: so large where s is small that p - y counts."""
    rng = np.random.default_rng(cells)
    base = rng.normal(0, 3, cells)
    target = rng.dirichlet(np.full(cells, 0.2)) + rng.normal(0, 0.05, cells)
    found = closest_marginal(base, target, ridge)
    assert found.sum() == pytest.approx(1.0, abs=1e-12)
    held = found > 1e-200
    constant = ridge * (np.log(found[held]) - base[held]) + found[held] - target[held]
    np.testing.assert_allclose(constant, constant[0], atol=1e-8 + 1e-7 * ridge)


def test_little_noise_gives_the_projection_onto_the_simplex() -> None:
    """What is less than zero by noise is taken from all others alike."""
    found = closest_marginal(np.zeros(4), np.array([0.9, 0.2, 0.0, -0.3]), 1e-9)
    np.testing.assert_allclose(found, [0.85, 0.15, 0.0, 0.0], atol=1e-6)


def test_much_noise_leaves_a_marginal_of_the_model() -> None:
    base = np.log([0.5, 0.3, 0.2])
    np.testing.assert_allclose(
        closest_marginal(base + 5.0, np.array([0.0, 1.0, 0.0]), 1e9), np.exp(base)
    )


def test_impossible_cells_of_the_closest_marginal_stay_empty() -> None:
    found = closest_marginal(np.array([-np.inf, 0.0, 0.0]), np.array([9.0, 0.0, 0.0]), 1e-6)
    np.testing.assert_allclose(found, [0.0, 0.5, 0.5])


@pytest.mark.parametrize("seed", [4, 6])
def test_potentials_beyond_their_bounds_win_nothing(seed: int, jam_data: Path) -> None:
    """Fits that gained by them ended up to 2 away from marginals that were measured."""
    table = SplitFiles("salary").load(jam_data).private
    assert isinstance(table, EncodedTable)
    domain, records, sigma = table.domain, table.records, 5.4
    rng = np.random.default_rng(seed)
    salary, rate, system, earnings, overtime, other, gross, place, first = domain.names
    singles = [(name,) for name in domain.names]
    triples = [
        (salary, earnings, gross),
        (system, earnings, place),
        (salary, rate, system),
        (system, other, gross),
        (salary, overtime, place),
        (system, earnings, first),
    ]
    fit = TiltFit(PublicPrior.uniform(domain), records, iterations=500)
    for clique in [*singles, *triples]:
        counts = table.marginal(clique)
        noisy = counts + rng.normal(0, sigma, counts.shape)
        measured = Measurement(clique, "private", noisy, sigma, 0)
        (fit if len(clique) > 1 else ExpectedAttributes(fit)).add(measured)
        apart = np.abs(fit.model.marginal(clique) - counts).sum() / records
        assert apart < 0.3, clique
