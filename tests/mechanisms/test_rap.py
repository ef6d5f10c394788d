"""RAP by hand: cells and their scores, budgets, and what rows can answer."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from jam_dagster.errors import DomainError, SpecificationError
from jam_dagster.mechanisms import MechanismResult, make_mechanism, refit
from jam_dagster.mechanisms.loops.cells import Cells
from jam_dagster.mechanisms.rap import Rap, cell_targets, index_among
from jam_dagster.mechanisms.replay import ReplayError
from jam_dagster.models.measurement import LARGEST_MARGINAL_CELLS
from jam_dagster.models.mixture.adam_step import free_rows
from jam_dagster.models.mixture.training import MixtureTrainer
from jam_dagster.privacy import Draws, Neighbours, SeededNoise, UnledgeredAccount
from jam_dagster.privacy.noise.calls import subject_of_choices
from jam_dagster.tables import Domain, EncodedTable, Workload
from tests.mechanisms.conftest import IMPOSSIBLE, ScriptedNoise, scripted_run
from tests.tiers import by_jax

pytestmark = by_jax

SMALL: dict[str, Any] = {"components": 6, "iterations": 5}


def run(
    private: EncodedTable,
    workload: Workload,
    choices: list[int],
    rho: float,
    neighbours: Neighbours | None = None,
    **settings: Any,
) -> tuple[MechanismResult, ScriptedNoise]:
    mechanism = Rap(**SMALL | settings)
    return scripted_run(mechanism, private, workload, choices, rho, neighbours=neighbours)[:2]


def test_cells_are_those_of_the_workload_one_marginal_after_another(domain: Domain) -> None:
    cells = Cells(domain, [("a", "b"), ("c",)])
    assert cells.number == 8
    assert cells.place(0) == (("a", "b"), (0, 0))
    assert cells.place(5) == (("a", "b"), (1, 2))
    assert cells.place(6) == (("c",), (0,))
    assert len({cells.named(cell) for cell in range(8)}) == 8
    (pair, single) = cell_targets(cells, {5: 0.25, 7: 0.5})
    # The values of a, b and c are side by side: two, three and two of them.
    assert (pair.columns.tolist(), pair.values.tolist()) == ([[1, 4]], [0.25])
    assert (single.columns.tolist(), single.values.tolist()) == ([[6]], [0.5])


def test_a_score_is_the_error_of_a_cell(private: EncodedTable) -> None:
    workload = Workload.all_k_way(private.domain, 2)
    result, noise = run(private, workload, [0, 2], 0.9, rounds=1, k=2)
    start = free_rows(private.domain.shape, 6, 0)
    trainer = MixtureTrainer(private.domain, start, "l2")
    wanted = np.concatenate(
        [
            np.abs(private.marginal(one) - private.records * trainer.answer(one)).ravel()
            for one in workload.cliques
        ]
    )
    first, second = noise.selections
    assert first["scores"] == pytest.approx(wanted, rel=1e-5)
    # The second choice is among the cells that the first one left.
    assert second["scores"] == pytest.approx(wanted[1:], rel=1e-5)
    # Two of the cells of ab, exact for there is no noise.
    (noisy,) = result.transcript.values.values()
    assert noisy.tolist() == private.marginal(("a", "b")).ravel()[[0, 3]].tolist()


def test_half_of_a_round_selects_and_half_measures(private: EncodedTable) -> None:
    workload = Workload.all_k_way(private.domain, 2)
    # A cell that is chosen is no candidate again, in its round and in the next one.
    result, noise = run(private, workload, [4, 4, 0, 4], 0.8, rounds=2, k=2)
    assert [one["rho"] for one in noise.selections] == pytest.approx([0.1] * 4)
    assert [len(one["scores"]) for one in noise.selections] == [16, 15, 14, 13]
    measured = [call for call in result.transcript.calls if call.kind == "Gaussian"]
    assert [call.cells for call in measured] == [2, 2]
    assert [call.rho for call in measured] == pytest.approx([0.2, 0.2])
    assert [call.sensitivity for call in measured] == pytest.approx([math.sqrt(2)] * 2)
    first, second = result.transcript.values.values()
    counts = np.concatenate([private.marginal(one).ravel() for one in workload.cliques])
    assert (first.tolist(), second.tolist()) == (counts[[4, 5]].tolist(), counts[[0, 7]].tolist())
    several = run(private, workload, [0], 0.8, Neighbours("add_remove", 3), rounds=1, k=1)[0]
    assert several.transcript.calls[-1].sensitivity == pytest.approx(3.0)


@pytest.mark.slow
def test_a_run_ends_where_every_cell_is_measured() -> None:
    domain = Domain.from_sizes({"a": 2})
    private = EncodedTable(domain, (np.array([0, 1, 1]),))
    made, noise = run(private, Workload.all_k_way(domain, 1), [0, 0], 0.9, rounds=5, k=3)
    assert len(noise.selections) == 2
    assert made.transcript.ended == "every cell is measured"


def test_a_round_measures_as_many_cells_with_any_budget(private: EncodedTable) -> None:
    workload = Workload.all_k_way(private.domain, 2)
    for rho in (1e-3, 1e3):
        draws = Draws(SeededNoise(1), UnledgeredAccount(rho))
        made = Rap(**SMALL, rounds=1, k=5).run(private, None, workload, draws)
        assert [one.size for one in made.transcript.values.values()] == [5]


def test_a_cell_that_was_chosen_twice_is_found(private: EncodedTable) -> None:
    workload = Workload.all_k_way(private.domain, 2)
    made = run(private, workload, [0, 0], 0.9, rounds=1, k=2)[0].transcript
    choice, values = made.calls
    name = json.loads(choice.subject)[0]
    twice = replace(choice, subject=subject_of_choices([name, name]))
    with pytest.raises(ReplayError, match="chose a candidate twice"):
        refit(replace(made, calls=(twice, values)), private.domain, workload)


def test_the_noise_of_rounds_differs(private: EncodedTable) -> None:
    """The authors' code draws it with one key, so that differences of answers are exact."""
    workload = Workload.all_k_way(private.domain, 2)
    draws = Draws(SeededNoise(1), UnledgeredAccount(0.8))
    result = Rap(**SMALL, rounds=2, k=1).run(private, None, workload, draws)
    apart = [float(one[0]) % 1.0 for one in result.transcript.values.values()]
    assert len(apart) == 2
    assert abs(apart[0] - apart[1]) > 1e-6


def test_one_row_answers_a_cell_and_its_complement() -> None:
    """A is 1 for 0.8 of the records, and only that cell is measured: the other is 0.2."""
    domain = Domain.from_sizes({"a": 2})
    trainer = MixtureTrainer(domain, free_rows((2,), 1, 0), "l2")
    mechanism = Rap(learning_rate=0.01, iterations=1000)
    mechanism.train(trainer, cell_targets(Cells(domain, [("a",)]), {1: 0.8}))
    np.testing.assert_allclose(trainer.answer(("a",)), [0.2, 0.8], atol=0.01)


def test_the_loss_is_the_norm_of_residuals() -> None:
    domain = Domain.from_sizes({"a": 2, "b": 2})
    cells = Cells(domain, [("a", "b")])
    trainer = MixtureTrainer(domain, {"rows": np.full((1, 4), 0.5, np.float32)}, "l2")
    # The cell (0, 0) is answered by 1/4, and is to be 1.
    targets = cell_targets(cells, {0: 1.0})
    squares, gradient = trainer.gradient(targets)
    assert squares == pytest.approx(0.5625)
    np.testing.assert_allclose(gradient, [[-0.75, 0, -0.75, 0]], atol=1e-6)
    Rap(learning_rate=0.01, iterations=200).train(trainer, targets)
    assert trainer.answer(("a", "b"))[0, 0] == pytest.approx(1.0, abs=1e-3)


def test_what_cannot_run_is_refused_before_a_draw(domain: Domain) -> None:
    workload = Workload.all_k_way(domain, 2)
    with pytest.raises(DomainError, match="such as jam_pgm or tilt"):
        make_mechanism("rap").check(IMPOSSIBLE, Workload.all_k_way(IMPOSSIBLE, 2), 1.0)
    with pytest.raises(SpecificationError, match="lower rounds or k"):
        Rap(rounds=10, k=50).check(domain, workload, 1e-10)
    wide = Domain.from_sizes(dict.fromkeys("abcd", 10_000))
    pairs = Workload.all_k_way(wide, 2)
    assert Cells(wide, pairs.cliques).number > LARGEST_MARGINAL_CELLS
    with pytest.raises(SpecificationError, match="such as mwem_rp"):
        Rap().check(wide, pairs, 1.0)
    with pytest.raises(SpecificationError, match="lower components"):
        replace(Rap(), components=100_000).check(wide, Workload.all_k_way(wide, 1), 1.0)


def test_a_cell_is_found_among_those_that_are_left() -> None:
    cells = Cells(Domain.from_sizes({"a": 2, "b": 3}), [("a",), ("a", "b")])
    left = [cell for cell in range(cells.number) if cell != 4]
    for place, cell in enumerate(left):
        assert index_among(left, cells, cells.named(cell)) == place
    for name in (cells.named(4), "b at (0,)", "a at (2,)", "a"):
        assert index_among(left, cells, name) is None
