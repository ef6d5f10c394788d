"""PrivMRF by hand: the graph, the merit of parents, what is useful, and the parts of the budget."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from jam_dagster.errors import SpecificationError
from jam_dagster.mechanisms import MechanismResult, privmrf
from jam_dagster.mechanisms.loops.dependence import graph_of, independence_error
from jam_dagster.mechanisms.privmrf import Networks, PrivMrf, candidates_of, sample_of
from jam_dagster.privacy import Draws, MemoryStore, SeededNoise, UnledgeredAccount
from jam_dagster.tables import Domain, EncodedTable, Workload
from tests.mechanisms.conftest import ScriptedNoise, chain

BYTES = 8 / 2**20
THREES = Domain.from_sizes(dict.fromkeys("abc", 3))


def pairs(**known: float) -> dict[frozenset[str], float]:
    return {frozenset(name): value for name, value in known.items()}


def run(private: EncodedTable, rho: float, noise: Any = None, **settings: Any) -> MechanismResult:
    draws = Draws(noise or SeededNoise(1), UnledgeredAccount(rho), MemoryStore())
    workload = Workload.all_k_way(private.domain, 2)
    return PrivMrf(**settings).run(private, None, workload, draws)


def test_the_distance_from_independence() -> None:
    assert independence_error(np.array([[3, 1], [1, 3]])) == 4.0
    assert independence_error(np.array([[4, 1], [1, 3]])) == pytest.approx(44 / 9)
    assert independence_error(np.zeros((2, 3))) == 0.0


def test_the_graph_takes_the_most_dependent_edges_that_fit() -> None:
    known = pairs(ab=0.25, bc=0.1, ac=0.0)
    assert graph_of(THREES, known, 18 * BYTES) == [("a", "b"), ("b", "c")]
    # The third edge adds nothing but cells, and is taken since it fits.
    assert graph_of(THREES, known, 27 * BYTES) == [("a", "b", "c")]
    assert graph_of(THREES, known, 17 * BYTES) == [("a", "b"), ("c",)]


def test_among_edges_alike_the_one_with_fewer_cells_is_first() -> None:
    domain = Domain.from_sizes({"a": 2, "b": 3, "c": 400})
    assert graph_of(domain, pairs(ab=0.1, bc=0.1, ac=0.1), 450 * BYTES) == [("a", "b"), ("c",)]


def test_the_merit_of_parents() -> None:
    networks = Networks(THREES, pairs(ab=0.3, ac=0.3, bc=0.2), 27.0, np.random.default_rng(0))
    assert networks.merit("a", ("b", "c")) == pytest.approx(0.6 / 2.2**0.5)
    assert networks.merit("a", ("b",)) == pytest.approx(0.3)
    assert networks.merit("a", ()) == 0.0
    # Noise may make the dependence of parents negative.
    wrong = Networks(THREES, pairs(ab=0.3, ac=0.3, bc=-5.0), 27.0, np.random.default_rng(0))
    assert wrong.merit("a", ("b", "c")) == pytest.approx(0.6)


def test_parents_are_as_many_as_are_useful() -> None:
    networks = Networks(THREES, {}, 27.0, np.random.default_rng(0))
    assert networks.largest(["a", "b"], 9.0) == [("a", "b")]
    assert networks.largest(["a", "b"], 3.0) == [("a",), ("b",)]
    assert networks.largest(["a", "b"], 1.0) == [()]
    assert networks.largest(["a", "b"], 0.5) == []


def test_each_attribute_is_in_an_initial_marginal() -> None:
    known = pairs(ab=0.3, ac=0.1, bc=0.2)
    for seed in range(20):
        networks = Networks(THREES, known, 9.0, np.random.default_rng(seed))
        found = networks.marginals("abc", [("a", "b", "c")])
        assert {name for marginal in found for name in marginal} == set("abc")
        assert all(len(marginal) == 2 for marginal in found)
    narrow = Networks(THREES, known, 8.0, np.random.default_rng(0))
    assert narrow.marginals("abc", [("a", "b", "c")]) == [("a",), ("b",), ("c",)]


def test_candidates_are_proper_subsets_and_weigh_by_their_clique() -> None:
    found = candidates_of(THREES, [("a", "b"), ("b", "c")], 100.0)
    assert found == {("a",): 2.0, ("b",): 4.0, ("c",): 2.0}
    whole = candidates_of(THREES, [("a", "b", "c")], 9.0)
    # Pairs have nine cells, which is not less than nine.
    assert whole == {("a",): 3.0, ("b",): 3.0, ("c",): 3.0}
    assert candidates_of(THREES, [("a",)], 100.0) == {}


def test_a_sample_has_different_candidates_by_their_weights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    weights = {(str(number),): float(number % 2) for number in range(50)}
    assert sample_of(weights, np.random.default_rng(0)) == list(weights)
    monkeypatch.setattr(privmrf, "QUERIES", 30)
    found = sample_of(weights, np.random.default_rng(0))
    assert len(found) == len(set(found)) < 26
    assert all(int(name) % 2 for (name,) in found)
    # A step measures so many, whatever the coins.
    more = sample_of(weights, np.random.default_rng(0), 40)
    assert more[: len(found)] == found
    assert len(more) == len(set(more)) == 40


def test_many_marginals_a_step_are_no_more_than_there_are() -> None:
    """Steps that measure more than they sample still end with all of the budget's marginals."""
    private = chain()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(privmrf, "QUERIES", 1)
        result = run(private, 8e3, t=100.0)
    assert result.transcript.ended == "all rounds"
    later = [one for one in result.transcript.rounds if one.candidates > 4]
    assert len(later) > 2


def test_a_tenth_for_pairs_a_tenth_for_distances_and_the_rest_for_marginals() -> None:
    private = chain()
    result = run(private, 2.0)
    calls = result.transcript.calls
    assert calls[0].step == "dependence"
    assert calls[0].rho == pytest.approx(0.2)
    assert calls[0].sensitivity == pytest.approx(6.0 * 6**0.5)
    distances = [call for call in calls if "distances" in call.step]
    # Four attributes: two steps, of two and one marginals.
    assert [call.rho for call in distances] == pytest.approx([0.1, 0.1])
    assert all(one.sensitivity == pytest.approx(2.0 * one.cells**0.5) for one in distances)
    measured = [call.rho for call in calls if call.kind == "discrete Gaussian"]
    assert len(measured) == len(result.transcript.rounds)
    assert measured == pytest.approx([1.6 / len(measured)] * len(measured))
    assert PrivMrf().expected_rounds(private.domain, Workload.all_k_way(private.domain, 2)) == 7


def test_with_much_budget_it_measures_what_depends() -> None:
    private = chain()
    model = run(private, 8e3).model
    for pair in combinations("abcd", 2):
        apart = np.abs(model.marginal(pair) - private.marginal(pair)).sum()
        assert apart < 0.03 * private.records, pair


def test_useful_marginals_have_few_cells() -> None:
    """n / (theta sqrt(2/pi) sigma): little budget measures single attributes alone."""
    result = run(chain(), 2e-4)
    assert {len(one.clique) for one in result.transcript.rounds} == {1}
    wide = run(chain(), 2e-4, theta=1e-4)
    assert max(len(one.clique) for one in wide.transcript.rounds) > 2


def test_distances_are_of_candidates_from_the_model() -> None:
    class Listening(ScriptedNoise):
        def gaussian_values(
            self, values: np.ndarray, l2_sensitivity: float, rho: float, step: str
        ) -> tuple[np.ndarray, float]:
            released[step] = values.copy()
            return super().gaussian_values(values, l2_sensitivity, rho, step)

    released: dict[str, np.ndarray] = {}
    private = chain()
    result = run(private, 8e3, Listening([]), tolerance=0.0)
    counts = {pair: private.marginal(pair) for pair in combinations("abcd", 2)}
    wanted = [independence_error(counts[pair]) for pair in combinations("abcd", 2)]
    assert released["dependence"].tolist() == pytest.approx(wanted)
    first = next(one for step, one in released.items() if step != "dependence")
    assert first.min() >= 0.0
    # What was measured without noise is exact.
    measured = {one.clique for one in result.transcript.rounds}
    for clique in measured:
        assert np.abs(result.model.marginal(clique) - private.marginal(clique)).sum() < 5


def test_pairs_that_are_too_large_are_refused() -> None:
    domain = Domain.from_sizes({"a": 20_000, "b": 10_000})
    with pytest.raises(SpecificationError, match="PrivMRF scores pairs"):
        PrivMrf().check(domain, Workload.of(domain, [("a",), ("b",)]), 1.0)


def test_a_single_attribute_has_no_pair() -> None:
    domain = Domain.from_sizes({"a": 3})
    private = EncodedTable(domain, (np.arange(300) % 3,))
    draws = Draws(SeededNoise(1), UnledgeredAccount(1.0), MemoryStore())
    result = PrivMrf().run(private, None, Workload.of(domain, [("a",)]), draws)
    assert [one.clique for one in result.transcript.rounds] == [("a",)]
