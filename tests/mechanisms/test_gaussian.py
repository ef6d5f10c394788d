"""Gaussian by hand: shares, answers and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jam_dagster.errors import InputError, SpecificationError
from jam_dagster.mechanisms import Measurement, load_model, make_mechanism
from jam_dagster.mechanisms.gaussian import Gaussian, shares_of
from jam_dagster.models.measured_answers import MeasuredAnswers, _nearest
from jam_dagster.privacy import Draws, SeededNoise, UnledgeredAccount
from jam_dagster.tables import Domain, EncodedTable, ImpossibleCombination, Workload
from tests.mechanisms.conftest import ScriptedNoise


def run(private, workload, rho, noise):
    account = UnledgeredAccount(rho)
    return Gaussian().run(private, None, workload, Draws(noise, account)), account


def measured(clique, values, sigma=1.0):
    return Measurement(clique, "private", np.array(values, dtype=float), sigma, 0)


def test_shares_follow_weights_and_cells(domain, private):
    workload = Workload.of(domain, [("a",), ("a", "c"), ("b",)], weights=[4.0, 2.0, 9.0])
    # (c n)^(2/3) of 4 * 2, 2 * 4, 9 * 3.
    assert shares_of(domain, workload).tolist() == pytest.approx([4 / 17, 4 / 17, 9 / 17])
    noise = ScriptedNoise([])
    result, account = run(private, workload, 1.7, noise)
    assert [m["rho"] for m in noise.measurements] == pytest.approx([0.4, 0.4, 0.9])
    assert account.spent == pytest.approx(1.7)
    assert account.spent <= 1.7
    assert not noise.selections
    assert [r.clique for r in result.transcript.rounds] == list(workload.cliques)


def test_impossible_cells_are_worth_no_budget():
    never = ImpossibleCombination(("a", "b"), ((0,), (0,)))
    domain = Domain(Domain.from_sizes({"a": 3, "b": 3, "c": 8}).attributes, (never,))
    workload = Workload.of(domain, [("a", "b"), ("c",)])
    assert shares_of(domain, workload).tolist() == pytest.approx([0.5, 0.5])


def test_no_other_shares_make_less_expected_error(domain):
    workload = Workload.of(domain, [("a",), ("a", "b"), ("c",)], weights=[1.0, 3.0, 0.2])
    shares = shares_of(domain, workload)
    cost = np.array(workload.weights) * [2, 6, 2]
    rng = np.random.default_rng(0)
    others = rng.dirichlet(shares * 50, size=500)
    assert (cost / np.sqrt(shares)).sum() < (cost / np.sqrt(others)).sum(axis=1).min()


def test_the_model_tells_what_it_holds(private, workload):
    model = run(private, workload, 1.0, SeededNoise(0))[0].model
    assert model.records == private.records
    assert model.cliques == workload.cliques
    assert model.size_mb == pytest.approx((6 + 4 + 6) * 8 / 2**20)


def test_answers_hold_nothing_negative_and_sum_to_n(domain):
    model = MeasuredAnswers(domain, 10, [measured(("a", "c"), [[9.0, -4.0], [3.0, 2.0]])])
    # Without the negative cell the others have 14: each gives 4 / 3.
    wanted = [[9 - 4 / 3, 0], [3 - 4 / 3, 2 - 4 / 3]]
    np.testing.assert_allclose(model.marginal(("a", "c")), wanted)
    np.testing.assert_allclose(model.marginal(("c", "a")), np.transpose(wanted))
    # A margin is summed before it is corrected: 12 and -2 of one, 5 and 5 of the other.
    np.testing.assert_allclose(model.marginal(("c",)), [10, 0])
    np.testing.assert_allclose(model.marginal(("a",)), [5, 5])


def test_measurements_of_the_same_are_weighed_by_their_noise(domain):
    model = MeasuredAnswers(
        domain,
        10,
        [
            measured(("a",), [7.0, 3.0], sigma=1.0),
            # Two cells of sigma 2 make a count of a, eight times the variance.
            measured(("a", "c"), [[1.0, 1.0], [4.0, 4.0]], sigma=2.0),
        ],
    )
    np.testing.assert_allclose(model.marginal(("a",)), [(8 * 7 + 2) / 9, (8 * 3 + 8) / 9])


def test_impossible_cells_hold_nothing():
    never = (
        ImpossibleCombination(("a", "b"), ((0,), (0,))),
        ImpossibleCombination(("b", "c"), ((1,), (0,))),
    )
    domain = Domain(Domain.from_sizes({"a": 2, "b": 2, "c": 2}).attributes, never)
    workload = Workload.all_k_way(domain, 2)
    columns = np.repeat([[0, 1, 1], [1, 0, 0], [1, 0, 1]], [30, 20, 50], axis=0).T
    result, _ = run(EncodedTable(domain, tuple(columns)), workload, 0.001, SeededNoise(0))
    assert result.transcript.measurements[0].values[0, 0] != 0
    assert result.model.marginal(("a", "b"))[0, 0] == 0
    # Whoever has a = 0 has b = 1, and so c = 1.
    assert result.model.marginal(("a", "c"))[0, 0] == 0
    for clique in workload.downward_closure():
        assert result.model.marginal(clique).sum() == pytest.approx(100)


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=9), st.floats(1, 1e6), st.integers(0, 2**9)
)
def test_the_nearest_table_is_what_projecting_promises(values, total, some):
    values = np.array(values)
    possible = np.array([some >> i & 1 == 0 for i in range(values.size)])
    possible[0] = True
    nearest = _nearest(values, possible, total)
    assert nearest.min() >= 0
    assert nearest.sum() == pytest.approx(total, rel=1e-6)
    assert not nearest[~possible].any()
    # Optimal: what is kept moved alike, and what is not lies below.
    moved = (values - nearest)[possible & (nearest > 0)]
    assert np.ptp(moved) <= 1e-9 * (1 + np.abs(values).max() + total)
    assert (values[possible] <= moved.max() + nearest[possible] + 1e-3).all()


@pytest.mark.parametrize("largest", [1e9, 9e18])
def test_the_nearest_table_beside_values_in_which_the_total_is_lost(largest):
    possible = np.ones(3, dtype=bool)
    for values, wanted in (
        ([largest, largest, -largest], [0.5, 0.5, 0.0]),
        ([-largest, -largest, -largest], [1 / 3, 1 / 3, 1 / 3]),
        ([largest, 0.0, 0.0], [1.0, 0.0, 0.0]),
    ):
        np.testing.assert_allclose(_nearest(np.array(values), possible, 1.0), wanted, atol=1e-9)


def test_what_was_not_measured_is_not_answered(domain, private):
    model = run(private, Workload.of(domain, [("a", "b"), ("c",)]), 1.0, SeededNoise(0))[0].model
    for names, message in (
        (("a", "c"), "No marginal that was measured holds a, c.*Add it to the workload"),
        (("a", "z"), "no attribute 'z'; it has a, b, c"),
        (("a", "a"), "An attribute is repeated"),
    ):
        with pytest.raises(InputError, match=message):
            model.marginal(names)


def test_it_samples_nothing_and_says_where_its_place_is(private, workload):
    assert not Gaussian.samples
    model = run(private, workload, 1.0, SeededNoise(0))[0].model
    with pytest.raises(InputError, match=r"no synthetic table.*Python and in the benchmark"):
        model.sample(10, np.random.default_rng(0))


def spoil(tmp_path, change):
    path = tmp_path / "model.json"
    described = json.loads(path.read_text())
    change(described)
    path.write_text(json.dumps(described))


@pytest.mark.parametrize(
    "change",
    [
        lambda one: one.pop("sigmas"),
        lambda one: one["sigmas"].pop(),
        lambda one: one["sigmas"].__setitem__(0, 0.0),
        lambda one: one["cliques"].__setitem__(0, ["a", "c"]),
        lambda one: one["cliques"].__setitem__(0, ["a", "z"]),
        lambda one: one["cliques"].append(["a"]) or one["sigmas"].append(1.0),
        lambda one: one.update(total="many"),
    ],
)
def test_a_damaged_folder_is_refused(private, workload, tmp_path, change):
    run(private, workload, 0.5, SeededNoise(4))[0].model.save(tmp_path)
    spoil(tmp_path, change)
    with pytest.raises(InputError, match="damaged"):
        load_model(tmp_path)
    (tmp_path / "answers.npz").unlink()
    with pytest.raises(InputError, match=r"no answers\.npz"):
        load_model(tmp_path)


def test_what_cannot_start_is_refused(domain, workload):
    light = Workload(workload.cliques, (1e9, 1.0, 1e9), workload.attributes)
    with pytest.raises(SpecificationError, match=r"leaves the marginal a x c .*Raise epsilon"):
        Gaussian().check(domain, light, 1e-6)
    with pytest.raises(SpecificationError, match="Raise epsilon, or use a smaller workload"):
        Gaussian().check_budget(1e-13)
    with pytest.raises(SpecificationError, match="colour is no setting of gaussian; it has none"):
        make_mechanism("gaussian", colour=1)
