"""FEM by hand: its start, its scores and prices, and the rounds whose records it keeps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jam_dagster.errors import DomainError, SpecificationError
from jam_dagster.mechanisms import MechanismResult
from jam_dagster.mechanisms.fem import Fem
from jam_dagster.models.weighted.oracle import BestRecords, CellQuery
from jam_dagster.privacy import Neighbours
from jam_dagster.tables import Domain, EncodedTable, Workload
from tests.mechanisms.conftest import IMPOSSIBLE, ScriptedNoise, scripted_run

DOMAIN = Domain.from_sizes({"a": 2, "b": 2})
PAIRS = Workload.all_k_way(DOMAIN, 2)
PRIVATE = EncodedTable(DOMAIN, (np.array([0, 0, 0, 1]), np.array([0, 0, 0, 1])))


def run(
    choices: list[int], rho: float, neighbours: Neighbours | None = None, **settings: Any
) -> tuple[MechanismResult, ScriptedNoise]:
    return scripted_run(Fem(**settings), PRIVATE, PAIRS, choices, rho, neighbours=neighbours)[:2]


def test_rounds_but_the_last_select_at_equal_prices() -> None:
    made, noise = run([0, 0, 0], 0.9, rounds=4, s=2)
    assert [one["rho"] for one in noise.selections] == pytest.approx([0.3] * 3)
    assert {one["sensitivity"] for one in noise.selections} == {1.0}
    assert [found.shape for found in made.transcript.solutions.values()] == [(2, 2)] * 4
    several = run([0], 0.9, Neighbours("add_remove", 3), rounds=2, s=1)[1]
    assert [one["sensitivity"] for one in several.selections] == [3.0]


def test_a_score_is_how_much_oftener_the_table_satisfies_a_query() -> None:
    made, noise = run([0], 0.5, rounds=2, s=3)
    first = next(iter(made.transcript.solutions.values()))
    counts = np.bincount(2 * first[:, 0] + first[:, 1], minlength=4)
    apart = PRIVATE.marginal(("a", "b")).ravel() - 4 * counts / 3
    assert noise.selections[0]["scores"] == pytest.approx(np.concatenate([apart, -apart]))


def test_a_run_begins_with_a_query_and_a_negation(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[CellQuery, float]] = []
    solve = BestRecords.solve

    def listening(programs: BestRecords) -> np.ndarray:
        asked.append(dict(programs.queries))
        assert (programs.bonuses <= 0).all()
        return solve(programs)

    monkeypatch.setattr(BestRecords, "solve", listening)
    run([2, 2, 5], 0.9, rounds=4, s=2)
    assert sorted(query.negated for query in asked[0]) == [False, True]
    assert set(asked[0].values()) == {1.0}
    # What is chosen is added, and counts as often as it was chosen.
    assert [sum(weights.values()) for weights in asked] == [2, 3, 4, 5]
    twice = CellQuery((1, 2))
    assert asked[2][twice] - asked[0].get(twice, 0.0) == 2.0
    # The second query's negation.
    assert asked[3][CellQuery((0, 3), negated=True)] >= 1.0


def test_records_of_the_first_quarter_are_left_out() -> None:
    made, _ = run([0] * 8, 0.9, rounds=9, s=2)
    kept = np.concatenate(list(made.transcript.solutions.values())[2:])
    wanted = np.bincount(2 * kept[:, 0] + kept[:, 1], minlength=4) * 4 / len(kept)
    assert made.model.marginal(("a", "b")).ravel() == pytest.approx(wanted)


def test_noise_differs_from_record_to_record() -> None:
    """With much noise records are as good as random."""
    made, _ = run([0], 0.5, rounds=2, s=40, scale=1000.0)
    for found in made.transcript.solutions.values():
        assert len(np.unique(found, axis=0)) == 4


def test_what_cannot_run_is_refused_before_a_draw(domain: Domain) -> None:
    workload = Workload.all_k_way(domain, 2)
    with pytest.raises(DomainError, match="such as jam_pgm or tilt"):
        Fem().check(IMPOSSIBLE, Workload.all_k_way(IMPOSSIBLE, 2), 1.0)
    with pytest.raises(SpecificationError, match="lower rounds"):
        Fem().check(domain, workload, 1e-11)
    with pytest.raises(SpecificationError, match="lower rounds or s"):
        Fem(rounds=1000, s=100).check(domain, workload, 1.0)
