"""PrivSyn by hand: the expected error, the pairs that lower it, cliques of them, and shares."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from jam_dagster.errors import SpecificationError
from jam_dagster.mechanisms import MechanismResult, privsyn
from jam_dagster.mechanisms.privsyn import PrivSyn, combine, dense_pairs, expected_noise
from jam_dagster.privacy import Draws, MemoryStore, Neighbours, SeededNoise, UnledgeredAccount
from jam_dagster.tables import Domain, Workload
from tests.mechanisms.conftest import chain

PAIRS = list(combinations("abcd", 2))
DOMAIN = Domain.from_sizes(dict.fromkeys("abcd", 3))


def run(rho: float, **settings: Any) -> MechanismResult:
    private = chain()
    draws = Draws(SeededNoise(1), UnledgeredAccount(rho), MemoryStore())
    workload = Workload.all_k_way(private.domain, 2)
    return PrivSyn(**settings).run(private, None, workload, draws)


def test_the_expected_noise_by_hand() -> None:
    whole = 4 ** (2 / 3) + 27 ** (2 / 3)
    assert expected_noise(whole, 1.0, 1.0) == pytest.approx(22.0595, abs=1e-4)
    assert expected_noise(whole, 1.0, 2**0.5) == pytest.approx(22.0595 * 2**0.5, abs=1e-3)
    # As what it says: shares by the cells, and sqrt(2/pi) sigma in each.
    shares = [4 ** (2 / 3) / whole, 27 ** (2 / 3) / whole]
    assert shares == pytest.approx([0.21874, 0.78126], abs=1e-5)
    sigmas = [(2 * share) ** -0.5 for share in shares]
    by_cells = (2 / np.pi) ** 0.5 * (4 * sigmas[0] + 27 * sigmas[1])
    assert by_cells == pytest.approx(expected_noise(whole, 1.0, 1.0))


def test_pairs_are_selected_while_they_lower_the_error() -> None:
    # A pair of nine cells costs 9 sqrt(1/pi) at rho 1 and sensitivity 1: 5.08 counts.
    noisy = dict.fromkeys(combinations("abcd", 2), 5.0)
    assert dense_pairs(DOMAIN, noisy, 1.0, 1.0) == []
    noisy["a", "b"] = 5.2
    # c and d are in no pair, and join the most dependent selected attribute.
    noisy["a", "c"], noisy["b", "d"] = 4.0, 3.0
    noisy |= dict.fromkeys([("b", "c"), ("a", "d"), ("c", "d")], 1.0)
    assert dense_pairs(DOMAIN, noisy, 1.0, 1.0) == [("a", "b"), ("a", "c"), ("b", "d")]
    # Two pairs cost sqrt(8) times as much as one, three sqrt(27) times.
    noisy = {("a", "b"): 9.5, ("c", "d"): 9.5}
    assert dense_pairs(DOMAIN, noisy, 1.0, 1.0) == [("a", "b"), ("c", "d")]
    noisy = {("a", "b"): 9.5, ("a", "c"): 9.5, ("b", "c"): 9.5}
    assert dense_pairs(DOMAIN, noisy, 1.0, 1.0) == [("a", "b"), ("a", "c")]


def test_cliques_take_the_place_of_their_pairs() -> None:
    pairs = list(combinations("abc", 2))
    assert combine(DOMAIN, [*pairs, ("c", "d")], 5000) == [("a", "b", "c"), ("c", "d")]
    # Twenty-seven cells are not fewer than 27.
    assert combine(DOMAIN, [*pairs, ("c", "d")], 27) == [*pairs, ("c", "d")]
    every = list(combinations("abcd", 2))
    assert combine(DOMAIN, every, 5000) == [("a", "b", "c", "d")]
    # Of the triples, all after the first share two attributes with it, and the last three.
    assert combine(DOMAIN, every, 81) == [("a", "b", "c"), ("a", "b", "d"), ("c", "d")]
    assert combine(DOMAIN, [], 5000) == []


def test_a_tenth_for_pairs_a_tenth_for_attributes_and_the_rest_by_cells() -> None:
    calls = run(2.0).transcript.calls
    assert calls[0].rho == pytest.approx(0.2)
    assert calls[0].sensitivity == pytest.approx(6.0 * 6**0.5)
    singles = [call for call in calls[1:] if call.cells == 3]
    assert [call.rho for call in singles] == pytest.approx([0.05] * 4)
    combined = [call for call in calls[1:] if call.cells > 3]
    assert sum(call.rho for call in combined) == pytest.approx(1.6)
    parts = [call.cells ** (2 / 3) for call in combined]
    assert [call.rho for call in combined] == pytest.approx(
        [1.6 * part / sum(parts) for part in parts]
    )


def test_with_much_budget_records_have_all_pairs() -> None:
    private, model = chain(), run(8e3).model
    assert model.sample(private.records, np.random.default_rng(0)).records == private.records
    for pair in combinations("abcd", 2):
        apart = np.abs(model.marginal(pair) - private.marginal(pair)).sum()
        assert apart < 0.02 * private.records, pair


def test_if_the_dependence_was_lost_attributes_stay_single(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        privsyn, "released_dependence", lambda ctx, names, rho: dict.fromkeys(PAIRS, 0.0)
    )
    result = run(2.0)
    assert [one.clique for one in result.transcript.rounds] == [(name,) for name in "abcd"]


def test_a_large_table_is_sampled_from_fewer_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(privsyn, "MOST_RECORDS", 100)
    model = run(8e3).model
    assert model.support.size <= 100
    assert model.marginal(("a",)).sum() == pytest.approx(4000)


@pytest.mark.parametrize(
    ("relation", "k", "reach"),
    [("add_remove", 1, 4.0), ("replace_one", 1, 6.0), ("replace_one", 2, 16.0)],
)
def test_dependence_is_released_at_its_sensitivity(relation: Any, k: int, reach: float) -> None:
    neighbours, private = Neighbours(relation, k), chain(500)
    draws = Draws(SeededNoise(1), UnledgeredAccount(1.0), MemoryStore(), neighbours=neighbours)
    workload = Workload.all_k_way(private.domain, 2)
    calls = PrivSyn().run(private, None, workload, draws).transcript.calls
    (found,) = [call for call in calls if call.step == "dependence"]
    assert found.sensitivity == pytest.approx(reach * 6**0.5)


def test_pairs_that_are_too_large_are_refused() -> None:
    domain = Domain.from_sizes({"a": 20_000, "b": 10_000})
    with pytest.raises(SpecificationError, match="PrivSyn compares pairs"):
        PrivSyn().check(domain, Workload.of(domain, [("a",), ("b",)]), 1.0)
