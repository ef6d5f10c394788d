"""GEM's loss, its gradient and its step, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from jam_dagster.models.measurement import Measurement
from jam_dagster.models.mixture.adam_step import free_logits, free_rows, network, programs
from jam_dagster.models.mixture.training import CellTarget, MixtureTrainer, Target
from jam_dagster.tables import Domain, Workload
from tests.tiers import by_jax

pytestmark = by_jax

TWO = Domain.from_sizes({"a": 2, "b": 2})


def single(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def trainer(logits: list[list[float]], loss: str) -> MixtureTrainer:
    return MixtureTrainer(TWO, {"logits": np.array(logits, dtype=np.float32)}, loss)


THREE = math.log(3)
"""The logit, beside 0, of a probability of three quarters."""


def test_the_loss_of_a_marginal_by_hand() -> None:
    # Two rows: (3/4, 1/4) x (1/2, 1/2) and (1/2, 1/2) x (1/4, 3/4).
    made = trainer([[THREE, 0, 0, 0], [0, 0, 0, THREE]], "l2")
    np.testing.assert_allclose(made.tables()[0], [[0.75, 0.25], [0.5, 0.5]], atol=1e-6)
    # Their mean is ((4, 6), (2, 4)) / 16.
    target = Target(("a", "b"), np.array([[0.5, 0.375], [0.125, 0.0]], np.float32), 0.0)
    loss, gradient = made.gradient([target])
    assert loss == pytest.approx(0.25**2 + 0.25**2)
    # 2 (answer - target) = ((-1/2, 0), (0, 1/2)); by p(a) of a row: that times q(b), halved.
    np.testing.assert_allclose(
        gradient,
        [[-0.125, 0.125, -0.1875, 0.0625], [-0.0625, 0.1875, -0.125, 0.125]],
        atol=1e-6,
    )
    # The signs of answer - target are ((-1, 1), (-1, 1)).
    target = Target(("a", "b"), np.array([[0.5, 0.25], [0.25, 0.0]], np.float32), 0.0)
    loss, gradient = trainer([[THREE, 0, 0, 0], [0, 0, 0, THREE]], "l1").gradient([target])
    assert loss == pytest.approx(0.75)
    np.testing.assert_allclose(gradient, [[0, 0, -0.5, 0.5], [0.25, 0.25, -0.5, 0.5]], atol=1e-6)


def test_one_step_of_adam_by_hand() -> None:
    made = trainer([[0, 0, 0, 0]], "l2")
    target = Target(("a",), single(1.0, 0.0), 0.0)
    _, gradient = made.gradient([target])
    assert gradient.tolist() == [[-1.0, 1.0, 0.0, 0.0]]
    made.step(made.begin(), gradient, 0.25)
    # By the logits it is p (g - <p, g>) = (-1/2, 1/2); Adam's first step is its sign.
    np.testing.assert_allclose(made.weights["logits"], [[0.25, -0.25, 0.0, 0.0]], atol=1e-6)
    assert made.tables()[0][0, 0] == pytest.approx(1 / (1 + math.exp(-0.5)))


@pytest.mark.slow
def test_the_network_by_hand() -> None:
    """The whole generator written out in NumPy, in double precision."""
    weights = network((2, 3), 5, 4, seed=1)
    flow = weights["inputs"].astype(float)
    for layer in range(2):
        linear = flow @ weights[f"hidden_{layer}_map"] + weights[f"hidden_{layer}_bias"]
        normal = (linear - linear.mean(axis=0)) / np.sqrt(linear.var(axis=0) + 1e-5)
        flow = np.hstack([np.maximum(normal, 0), flow])
    raised = np.exp(flow @ weights["logits_map"] + weights["logits_bias"])
    wanted = np.hstack(
        [part / part.sum(axis=1, keepdims=True) for part in np.split(raised, [2], axis=1)]
    )
    found = programs().probabilities(weights, (2, 3))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, atol=1e-5)


@pytest.mark.slow
def test_a_step_of_the_network_follows_the_gradient() -> None:
    """Adam's first step is the gradient's sign; finite differences of the loss know it as well."""
    domain = Domain.from_sizes({"a": 2, "b": 3})
    made = MixtureTrainer(domain, network(domain.shape, 5, 4, seed=1), "l2")
    target = Target(("a", "b"), np.array([[0.6, 0, 0], [0, 0.4, 0]], np.float32), 0.0)
    before = dict(made.weights)
    _, gradient = made.gradient([target])
    made.step(made.begin(), gradient, 0.125)
    seen = 0
    for name in ("logits_map", "logits_bias", "hidden_0_map", "hidden_1_gain"):
        moved = (np.asarray(made.weights[name]) - before[name]).ravel()
        for place in range(0, moved.size, 3):
            losses = []
            for sign in (1, -1):
                bent = {one: np.array(value) for one, value in before.items()}
                bent[name].ravel()[place] += sign * 0.01
                losses.append(MixtureTrainer(domain, bent, "l2").gradient([target])[0])
            if abs(losses[0] - losses[1]) > 1e-4:
                seen += 1
                wanted = -0.125 * np.sign(losses[0] - losses[1])
                assert moved[place] == pytest.approx(wanted, rel=1e-2)
    assert seen > 10


@pytest.mark.parametrize("loss", ["l1", "l2"])
def test_what_noise_explains_is_not_trained_on(loss: str) -> None:
    made = trainer([[0, 0, 0, 0]], loss)
    noisy = Target(("a",), single(0.6, 0.4), 0.1)
    assert made.gradient([noisy])[0] > 0
    assert made.gradient([noisy], 3.0)[0] == 0
    before = np.array(made.weights["logits"])
    assert made.train([noisy], iterations=5, learning_rate=0.1, threshold=3.0).iterations == 0
    np.testing.assert_array_equal(made.weights["logits"], before)


@pytest.mark.slow
def test_a_step_that_single_precision_cannot_take_is_not_taken() -> None:
    made = MixtureTrainer(TWO, network(TWO.shape, 5, 4, seed=1), "l2")
    before = made.tables()
    ended = made.train([Target(("a",), single(1, 0), 0.0)], iterations=4, learning_rate=1e30)
    assert ended.iterations == 4
    np.testing.assert_array_equal(made.tables(), before)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_squares_that_single_precision_cannot_hold_are_told() -> None:
    """A transcript holds the loss of each round, and JSON has no infinity."""
    counts = np.full((2, 2), 9e18) * [[1, -1], [-1, 1]]
    target = Target.measured(Measurement(("a", "b"), "private", counts, 1e6, 0), 1)
    made = trainer([[0, 0, 0, 0]], "l2")
    many = [target] * 20
    assert made.squares(many) == pytest.approx(80 * 81e36, rel=1e-6)
    assert math.isfinite(made.train(many, iterations=2, learning_rate=0.1).loss)


def test_the_noise_of_a_sum_is_taken_out() -> None:
    counts = np.array([[30.0, 20.0], [40.0, -2.0]])
    target = Target.measured(Measurement(("a", "b"), "private", counts, 5.0, 0), 100)
    np.testing.assert_allclose(target.values, (counts + 3) / 100, rtol=1e-6)
    assert target.sigma == 0.05
    # Of normal noise in four cells three directions are left: mean 3, variance 6 in squares.
    assert target.explained("l2", 1.0) == pytest.approx(0.05**2 * (3 + math.sqrt(6)))
    assert target.explained("l1", 0.0) == pytest.approx(0.05 * 3 * math.sqrt(2 / math.pi))


@pytest.mark.slow
def test_programs_are_compiled_once_for_marginals_of_every_shape() -> None:
    domain = Domain.from_sizes({"a": 2, "b": 7, "c": 3, "d": 5})
    made = MixtureTrainer(domain, network(domain.shape, 6, 3, seed=0), "l2")
    used = programs()
    compiled = [one._cache_size() for one in (used.advance, used.probabilities)]
    for degree in (1, 2, 3):
        for clique in Workload.all_k_way(domain, degree).cliques:
            shape = [domain.sizes[name] for name in clique]
            even = np.full(shape, 1 / np.prod(shape), np.float32)
            made.train([Target(clique, even, 0.0)], iterations=2, learning_rate=0.01)
    after = [one._cache_size() for one in (used.advance, used.probabilities)]
    # The first of a domain's steps takes NumPy's weights, whose placement is another's.
    assert after[0] - compiled[0] <= 2
    assert after[1] == compiled[1]


def test_averages_are_between() -> None:
    made = trainer([[4, 0, 0, 0]], "l2")
    held = {"logits": np.zeros((1, 4), np.float32)}
    assert np.asarray(made.average(held, 0.75)["logits"]).tolist() == [[1, 0, 0, 0]]


def test_seeds_decide_the_weights() -> None:
    for make in (lambda seed: free_logits((2, 3), 4, seed), lambda seed: network((2,), 4, 3, seed)):
        one, same, other = make(1), make(1), make(2)
        for name, value in one.items():
            assert value.dtype == np.float32
            np.testing.assert_array_equal(value, same[name])
        assert any((value != other[name]).any() for name, value in one.items())


def nearest(values: np.ndarray) -> np.ndarray:
    """Return the nearest distribution, by sorting, in double precision."""
    ordered = np.sort(values)[::-1].astype(float)
    excess = (np.cumsum(ordered) - 1) / np.arange(1, len(values) + 1)
    return np.maximum(values - excess[ordered > excess][-1], 0)


def test_free_rows_are_projected_onto_distributions() -> None:
    sizes = (2, 5, 91, 1)
    values = np.random.default_rng(0).normal(0, 2, (20, sum(sizes))).astype(np.float32)
    found = np.asarray(programs().project({"rows": values}, sizes)["rows"])
    ends = np.cumsum(sizes)
    wanted = [
        np.apply_along_axis(nearest, 1, values[:, end - size : end])
        for end, size in zip(ends, sizes, strict=True)
    ]
    np.testing.assert_allclose(found, np.hstack(wanted), atol=1e-5)
    simplex = free_rows(sizes, 40, 1)["rows"]
    np.testing.assert_allclose(simplex[:, 7:98].sum(axis=1), 1.0, rtol=1e-5)
    assert 0 < simplex.min() < simplex[:, 7:98].max() < 0.03


def test_a_step_of_free_rows_by_hand() -> None:
    """n' = 1: the cell (0, 0) is answered by 1/4, and is to be 1; Adam's first step is the sign."""
    cell = Target(("a", "b"), np.array([[1, 0], [0, 0]], np.float32), 0.0)
    rows = {"rows": np.full((1, 4), 0.5, np.float32)}
    made = MixtureTrainer(TWO, rows, "l2")
    loss, gradient = made.gradient([cell])
    assert loss == pytest.approx(0.75**2 + 3 * 0.25**2)
    # 2 (answer - target) = ((-3/2, 1/2), (1/2, 1/2)), by p(a = 0): half its row's sum.
    np.testing.assert_allclose(gradient, [[-0.5, 0.5, -0.5, 0.5]], atol=1e-6)
    # That all values of an attribute pull one way is what the projection would undo.
    made.step(made.begin(), gradient + single(9, 9, 0, 0), 0.125)
    np.testing.assert_allclose(made.tables()[0], [[0.625, 0.375]], atol=1e-6)
    np.testing.assert_allclose(made.tables()[1], [[0.625, 0.375]], atol=1e-6)


def test_single_cells_are_answered_and_pull_as_their_marginals_do() -> None:
    domain = Domain.from_sizes({"a": 2, "b": 3, "c": 2})
    made = MixtureTrainer(domain, free_rows(domain.shape, 7, 3), "l2")
    whole = made.answer(("a", "b", "c"))
    asked = [(0, 0, 0), (1, 2, 0), (1, 0, 1), (1, 2, 1)]
    columns = np.array([[a, 2 + b, 5 + c] for a, b, c in asked])
    wanted = np.array([0.3, 0.1, -0.2, 0.5], np.float32)
    loss, gradient = made.gradient([CellTarget(columns, wanted)])
    # Cells that are to be what they are pull nowhere.
    target = whole.copy()
    for cell, value in zip(asked, wanted, strict=True):
        target[cell] = value
    same, pulled = made.gradient([Target(("a", "b", "c"), target, 0.0)])
    assert loss == pytest.approx(same, rel=1e-5)
    np.testing.assert_allclose(gradient, pulled, atol=1e-6)
