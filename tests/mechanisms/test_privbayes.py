"""PrivBayes by hand: the score, useful and maximal parents, the parts of the budget."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jam_dagster.errors import DomainError, SpecificationError
from jam_dagster.mechanisms import MechanismResult, make_mechanism
from jam_dagster.mechanisms.base import subsets_of
from jam_dagster.mechanisms.loops.dependence import joint_dependence
from jam_dagster.mechanisms.privbayes import PrivBayes, PrivBayesPgm, options_of
from jam_dagster.models.bayesian import model as bayesian
from jam_dagster.models.bayesian.model import BayesianNetwork
from jam_dagster.privacy import (
    Draws,
    MemoryStore,
    Neighbours,
    SeededNoise,
    UnledgeredAccount,
)
from jam_dagster.tables import Clique, Domain, EncodedTable, Workload
from tests.mechanisms.conftest import chain

BYTES = 8 / 2**20
BITS = Domain.from_sizes(dict.fromkeys("abc", 2))


class Hearing(SeededNoise):
    """Noise that keeps the scores of each choice, by the name of its draw."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.heard: dict[str, list[float]] = {}

    def select(self, scores: np.ndarray, rho: float, sensitivity: float, step: str) -> int:
        self.heard[step] = scores.tolist()
        return super().select(scores, rho, sensitivity, step)


def xor(rows: int = 800) -> EncodedTable:
    """a and b even and independent, and c = a xor b."""
    a, b = np.arange(rows) % 2, np.arange(rows) // 2 % 2
    return EncodedTable(BITS, (a, b, a ^ b))


def run(
    private: EncodedTable,
    rho: float,
    noise: Any = None,
    name: str = "privbayes_pgm",
    **settings: Any,
) -> MechanismResult:
    draws = Draws(noise or SeededNoise(1), UnledgeredAccount(rho), MemoryStore())
    workload = Workload.all_k_way(private.domain, 2)
    return make_mechanism(name, **settings).run(private, None, workload, draws)


def measured(result: MechanismResult) -> list[Clique]:
    return [one.clique for one in result.transcript.rounds]


def test_parents_are_one_joint_attribute() -> None:
    assert joint_dependence(np.array([[3, 1], [1, 3]]), 0) == 4.0
    assert joint_dependence(np.array([[4, 1], [1, 3]]), 1) == pytest.approx(44 / 9)
    counts = xor().marginal("abc")
    # R = 1/2 of two parents, and 0 of either alone.
    assert [joint_dependence(counts, axis) for axis in range(3)] == [800.0] * 3
    assert joint_dependence(counts.sum(axis=0), 1) == 0.0
    assert joint_dependence(np.array([5, 2, 0]), 0) == 0.0


def test_marginals_have_up_to_four_parents_as_long_as_these_are_not_too_many() -> None:
    sizes = {number: len(subsets_of([str(one) for one in range(number)], 5)) for number in (1, 3)}
    assert sizes == {1: 1, 3: 7}
    most = [max(map(len, subsets_of(list(map(str, range(number))), 5))) for number in (14, 20, 30)]
    assert most == [5, 4, 3]
    # An attribute has one parent at least.
    assert max(map(len, subsets_of(list(map(str, range(205))), 5))) == 2


def test_parents_are_maximal_within_what_is_allowed() -> None:
    every = subsets_of("abc", 5)
    assert options_of(BITS, "a", "", every) == {("a",): "a"}
    assert options_of(BITS, "bc", "a", every) == {("a", "b"): "b", ("a", "c"): "c"}
    assert options_of(BITS, "b", "ac", every) == {("a", "b", "c"): "b"}
    pairs = [clique for clique in every if len(clique) < 3]
    assert options_of(BITS, "b", "ac", pairs) == {("a", "b"): "b", ("b", "c"): "b"}
    assert options_of(BITS, "bc", "a", [("a", "c")]) == {("a", "c"): "c", ("b",): "b"}


def test_both_parents_of_an_exclusive_or_are_found_if_their_cells_are_useful() -> None:
    noise = Hearing(1)
    # sigma = sqrt(3 / (0.7 rho)) = 0.0231: eight cells are useful up to a theta of 5413.
    wide = run(xor(), 8e3, noise, theta=5_410.0)
    assert measured(wide)[-1] == ("a", "b", "c")
    assert np.abs(wide.model.marginal("abc") - xor().marginal("abc")).sum() < 4
    narrow = run(xor(), 8e3, noise, theta=5_420.0)
    assert {len(clique) for clique in measured(narrow)} == {1, 2}
    assert noise.heard["round-003/select"] == [0.0, 0.0]
    assert np.abs(narrow.model.marginal("abc") - 100).max() < 2


def test_with_much_budget_the_network_has_the_true_parents() -> None:
    # Nine cells are useful, and 27 are not.
    result = run(chain(), 8e3, theta=1e4)
    assert measured(result) == [("a",), ("a", "b"), ("b", "c"), ("c", "d")]


def test_an_attribute_alone_is_useful_whatever_its_size() -> None:
    result = run(chain(), 1e-4)
    assert measured(result) == [("a",), ("b",), ("c",), ("d",)]
    # No attribute can have a parent, so nothing is chosen.
    assert all(one.rho_select == 0 for one in result.transcript.rounds)
    assert result.transcript.rho_spent == pytest.approx(1e-4)


def test_the_shares_of_the_budget() -> None:
    transcript = run(chain(), 8e3, theta=1e4, beta=0.4).transcript
    chosen = [call.rho for call in transcript.calls if "select" in call.step]
    paid = [call.rho for call in transcript.calls if "measure" in call.step]
    # The last attribute has three parents to choose from.
    assert chosen == pytest.approx([0.4 * 8e3 / 3] * 3)
    assert paid == pytest.approx([0.6 * 8e3 / 4] * 4)
    assert {call.sensitivity for call in transcript.calls if "select" in call.step} == {6.0}


def test_scores_move_with_the_neighbours() -> None:
    relation = Neighbours("add_remove", max_rows=3)
    private, workload = chain(), Workload.all_k_way(chain().domain, 2)
    draws = Draws(SeededNoise(1), UnledgeredAccount(8e3), MemoryStore(), neighbours=relation)
    calls = PrivBayesPgm().run(private, None, workload, draws).transcript.calls
    assert {call.sensitivity for call in calls if "select" in call.step} == {12.0}


def test_two_attributes_have_one_choice() -> None:
    private = EncodedTable(Domain.from_sizes({"a": 2, "b": 2}), tuple(np.eye(2, dtype=int)))
    result = run(private, 8e3, theta=1.0)
    assert measured(result) == [("a",), ("a", "b")]
    assert [one.rho_select for one in result.transcript.rounds] == [0.0, 0.0]
    assert [one.rho_measure for one in result.transcript.rounds] == pytest.approx([2.8e3, 5.2e3])


def test_one_attribute_has_all_of_the_budget() -> None:
    private = EncodedTable(Domain.from_sizes({"a": 3}), (np.arange(300) % 3,))
    draws = Draws(SeededNoise(1), UnledgeredAccount(1.0), MemoryStore())
    result = PrivBayesPgm().run(private, None, Workload.of(private.domain, [("a",)]), draws)
    assert [one.rho_measure for one in result.transcript.rounds] == pytest.approx([1.0])


def test_parents_that_make_the_model_too_large_are_no_candidates() -> None:
    # Without a limit the last one has three parents: 81 cells.
    assert max(map(len, measured(run(chain(), 8e3, theta=10.0)))) == 4
    narrow = run(chain(), 8e3, theta=10.0, size_limit_mb=27 * BYTES)
    assert measured(narrow) == [("a",), ("a", "b"), ("b", "c"), ("c", "d")]
    assert narrow.model.size_mb <= 27 * BYTES
    least = run(chain(), 8e3, theta=10.0, size_limit_mb=1 * BYTES)
    assert measured(least) == [("a",), ("b",), ("c",), ("d",)]


def test_a_budget_that_is_too_little_is_refused_before_any_charge() -> None:
    with pytest.raises(SpecificationError, match="Raise epsilon"):
        PrivBayesPgm().check(BITS, Workload.all_k_way(BITS, 2), 5e-12)


def test_without_the_graphical_model_the_draws_are_the_same() -> None:
    for theta in (1e4, 10.0):
        with_model = run(chain(), 8e3, theta=theta)
        alone = run(chain(), 8e3, name="privbayes", theta=theta)
        assert measured(alone) == measured(with_model)
        for one, other in zip(
            alone.transcript.measurements, with_model.transcript.measurements, strict=True
        ):
            np.testing.assert_array_equal(one.values, other.values)


def test_conditional_tables_are_those_that_were_measured() -> None:
    result = run(chain(300), 0.5, name="privbayes", theta=0.5)
    assert isinstance(result.model, BayesianNetwork)
    assert next(iter(result.model.conditionals)) == ("a",)
    for one, (family, table) in zip(
        result.transcript.measurements, result.model.conditionals.items(), strict=True
    ):
        assert sorted(family) == list(one.clique)
        kept = np.maximum(one.values, 0).transpose([one.clique.index(name) for name in family])
        np.testing.assert_allclose(table * kept.sum(axis=-1, keepdims=True), kept, atol=1e-9)
        assert (one.values < 0).any() or len(family) < 3


def test_with_much_budget_rows_follow_the_table() -> None:
    private = xor()
    result = run(private, 8e3, name="privbayes", theta=1.0)
    rows = result.model.sample(800, np.random.default_rng(0))
    assert np.abs(rows.marginal("abc") - private.marginal("abc")).sum() <= 4


def test_parents_have_no_limit_but_usefulness_without_the_graphical_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ten attributes of nine values, each with up to four parents: a tree of 80 MB holds eight."""
    monkeypatch.setattr(bayesian, "COUNTED_ROWS", 2**12)
    domain = Domain.from_sizes(dict.fromkeys("abcdefghij", 9))
    rng = np.random.default_rng(0)
    private = EncodedTable(domain, tuple(rng.integers(0, 9, 500) for _ in domain.names))
    result = run(private, 8e3, name="privbayes", theta=1e-4)
    assert [len(clique) for clique in measured(result)] == [1, 2, 3, 4, 5, 5, 5, 5, 5, 5]
    assert all(np.isfinite(one.l1_residual) for one in result.transcript.rounds)


def test_impossible_combinations_are_refused_before_any_charge() -> None:
    domain = Domain.from_dict(
        {
            "attributes": {"a": {"values": ["x", "y"]}, "b": {"values": ["x", "y"]}},
            "impossible": [{"a": ["x"], "b": ["y"]}],
        }
    )
    with pytest.raises(DomainError, match="choose a mechanism that honours them"):
        PrivBayes().check(domain, Workload.all_k_way(domain, 2), 1.0)
