"""DualQuery by hand: its rounds, prices and weights, and the records that it finds."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jam_dagster.errors import ChargedBeforeError, DomainError, SpecificationError
from jam_dagster.mechanisms import MechanismResult, Transcript, refit
from jam_dagster.mechanisms.dualquery import MOST_ROUNDS, DualQuery
from jam_dagster.mechanisms.loops.cells import Cells
from jam_dagster.mechanisms.replay import Replay, ReplayError
from jam_dagster.models.measurement import LARGEST_MARGINAL_CELLS
from jam_dagster.privacy import Draws, MemoryStore, Neighbours, UnledgeredAccount
from jam_dagster.tables import Domain, EncodedTable, Workload
from tests.mechanisms.conftest import IMPOSSIBLE, ScriptedNoise, scripted_run

DOMAIN = Domain.from_sizes({"a": 2, "b": 2})
PAIRS = Workload.all_k_way(DOMAIN, 2)
PRIVATE = EncodedTable(DOMAIN, (np.array([0, 0, 0, 1]), np.array([0, 0, 0, 1])))


def run(
    choices: list[int], rho: float, neighbours: Neighbours | None = None, **settings: Any
) -> tuple[MechanismResult, ScriptedNoise]:
    return scripted_run(DualQuery(**settings), PRIVATE, PAIRS, choices, rho, neighbours=neighbours)[
        :2
    ]


def price(s: int, eta: float, rounds: int, records: int) -> float:
    """Return the rho of a run by the closed form."""
    steps = (rounds - 1) * rounds * (2 * rounds - 1)
    return s * eta**2 * steps / (12 * records**2)


def test_rounds_are_those_that_the_budget_pays_for() -> None:
    assert price(10, 2.0, 50, 1000) == pytest.approx(0.8085)
    few = DualQuery(s=10, eta=2.0)
    assert few.rounds(1000, 0.8085 * (1 + 1e-9), 1.0) == 50
    assert few.rounds(1000, 0.8085 * (1 - 1e-9), 1.0) == 49
    # Two rows a person are as half of the records.
    assert few.rounds(2000, 0.8086, 2.0) == 50
    assert few.rounds(10, 1e-6, 1.0) == 2
    assert few.rounds(10**9, 1.0, 1.0) == MOST_ROUNDS
    # The first draws are worth a price.
    assert few.rounds(10**9, 1e-7, 1.0) < 40


@pytest.mark.parametrize(("s", "eta", "rounds"), [(25, 3.0, 75), (500, 1.0, 57)])
def test_rounds_on_the_records_of_the_papers(s: int, eta: float, rounds: int) -> None:
    # rho of epsilon 1 and delta 1e-9.
    assert DualQuery(s=s, eta=eta).rounds(32_384, 0.0149730577, 1.0) == pytest.approx(rounds, abs=1)


def test_weights_are_those_of_the_paper() -> None:
    """With eta = 1 the exponents after (0, 0) was found are q(D) - q(x), and their negations."""
    rho = price(2, 1.0, 2, 4)
    made, noise = run([0, 3], rho * (1 + 1e-9), s=2, eta=1.0)
    first, second = made.transcript.solutions.values()
    assert (first.shape, second.shape) == ((1, 2), (1, 2))
    asked = noise.selections[0]
    epsilon = math.sqrt(8 * asked["rho"])
    exponents = epsilon * asked["scores"] / (2 * asked["sensitivity"])
    answers = (PRIVATE.marginal(("a", "b")) / 4).ravel()
    answers[2 * first[0, 0] + first[0, 1]] -= 1.0
    assert exponents == pytest.approx(np.concatenate([answers, -answers]))
    assert len(noise.selections) == 2
    assert asked["rho"] == pytest.approx(0.5 / 16)
    # Both (0, 0) and (1, 1) were drawn: either satisfies one.
    assert tuple(second[0]) in {(0, 0), (1, 1)}


def test_prices_rise_with_the_square_of_the_round() -> None:
    made, noise = run([0] * 10, price(1, 2.0, 4, 4) * 1.01, s=1, eta=2.0)
    paid = [one["rho"] for one in noise.selections]
    assert np.array(paid) / paid[0] == pytest.approx([1, 4, 9])
    assert [one["sensitivity"] for one in noise.selections] == [1.0, 2.0, 3.0]
    assert made.transcript.rho_spent == pytest.approx(made.transcript.rho_budget)


def test_the_table_is_the_records_that_were_found() -> None:
    made, _ = run([3] * 30, price(1, 2.0, 9, 4) * 1.01, s=1, eta=2.0)
    found = np.concatenate(list(made.transcript.solutions.values()))
    assert found.shape == (9, 2)
    # Whatever the first one is, the others satisfy the cell (1, 1).
    assert (found[1:] == 1).all()
    whole = made.model.marginal(("a", "b"))
    assert whole.sum() == pytest.approx(4.0)
    assert whole[1, 1] >= 4 * 8 / 9 - 1e-9


def test_a_lost_draw_finds_no_record_and_the_others_pay_more() -> None:
    class Losing(UnledgeredAccount):
        def charged(self, step: str) -> float | None:
            return 0.01 if step == "round-002/select" else super().charged(step)

        def charge(self, step: str, rho: float) -> None:
            if step == "round-002/select":
                raise ChargedBeforeError(step)
            super().charge(step, rho)

    noise = ScriptedNoise([0, 0])
    draws = Draws(noise, Losing(price(1, 2.0, 4, 4) * 1.01))
    made = DualQuery(s=1, eta=2.0).run(PRIVATE, None, PAIRS, draws)
    assert list(made.transcript.solutions) == [
        f"round-{number:03d}/records" for number in (1, 3, 4)
    ]
    # One record was found before round 3, and two before round 4.
    assert [one["sensitivity"] for one in noise.selections] == [1.0, 2.0]
    first, second = (one["rho"] for one in noise.selections)
    assert second / first == pytest.approx(4.0)


def replayed(made: MechanismResult, **changed: Any) -> Replay:
    replay = Replay(replace(made.transcript, **changed), DOMAIN, PAIRS)
    replay.run()
    return replay


def test_records_are_taken_from_the_transcript_and_sought_again(tmp_path: Path) -> None:
    made, _ = run([3] * 30, price(1, 2.0, 3, 4) * 1.01, s=1, eta=2.0)
    made.transcript.save(tmp_path)
    loaded = Transcript.load(tmp_path)
    for step, found in made.transcript.solutions.items():
        assert np.array_equal(loaded.solutions[step], found)
    again = refit(loaded, DOMAIN, PAIRS)
    assert np.array_equal(again.marginal(("a", "b")), made.model.marginal(("a", "b")))
    solutions = dict(made.transcript.solutions)
    last = list(solutions)[-1]
    assert replayed(made).differing == 0
    with pytest.raises(ReplayError, match="worse than"):
        replayed(made, solutions=solutions | {last: np.array([[0, 0]])})
    for other in ([[2, 1]], [[-1, 1]]):
        with pytest.raises(ReplayError, match="outside"):
            replayed(made, solutions=solutions | {last: np.array(other)})
    one = np.array([[1, 1]])
    for wrong in (np.array([[1, 1, 1]]), one * 1.0, np.uint64(one), one > 0, np.repeat(one, 2, 0)):
        with pytest.raises(ReplayError, match="lacks the records"):
            replayed(made, solutions=solutions | {last: wrong})
    with pytest.raises(ReplayError, match="does not seek"):
        replayed(made, solutions=solutions | {"more": np.array([[1, 1]])})


def test_another_record_as_good_is_taken_and_counted() -> None:
    """A cell that names one attribute leaves the other to chance, and another solver may differ."""
    singles = Workload.all_k_way(DOMAIN, 1)
    # No private data are read without a draw but the first, which costs nothing.
    noise = ScriptedNoise([0] * 100)
    draws = Draws(noise, UnledgeredAccount(1.0))
    made = DualQuery(s=20, eta=50.0).run(PRIVATE, None, singles, draws)
    (step, *_), solutions = list(made.transcript.solutions)[::-1], dict(made.transcript.solutions)
    other = solutions[step].copy()
    other[0, 1] = 1 - other[0, 1]
    changed = replace(made.transcript, solutions=solutions | {step: other})
    replay = Replay(changed, DOMAIN, singles)
    model = replay.run()
    assert replay.differing == 1
    assert not np.array_equal(model.marginal(("b",)), made.model.marginal(("b",)))


def test_a_resumed_run_takes_the_records_that_were_found(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    account = UnledgeredAccount(price(1, 2.0, 4, 4) * 1.01)
    mechanism = DualQuery(s=1, eta=2.0)
    made = mechanism.run(PRIVATE, None, PAIRS, Draws(ScriptedNoise([0] * 9), account, store))
    monkeypatch.setattr("jam_dagster.models.weighted.oracle.BestRecords.solve", None)
    again = mechanism.run(PRIVATE, None, PAIRS, Draws(ScriptedNoise([]), account, store))
    for step, found in made.transcript.solutions.items():
        assert np.array_equal(again.transcript.solutions[step], found)


def test_what_cannot_run_is_refused_before_a_draw(domain: Domain) -> None:
    workload = Workload.all_k_way(domain, 2)
    with pytest.raises(DomainError, match="such as jam_pgm or tilt"):
        DualQuery().check(IMPOSSIBLE, Workload.all_k_way(IMPOSSIBLE, 2), 1.0)
    with pytest.raises(SpecificationError, match="lower s"):
        DualQuery(s=100).check(domain, workload, 1e-11)
    wide = Domain.from_sizes(dict.fromkeys("abc", 8_000))
    pairs = Workload.all_k_way(wide, 2)
    assert Cells(wide, pairs.cliques).number > LARGEST_MARGINAL_CELLS // 2
    with pytest.raises(SpecificationError, match="such as tilt"):
        DualQuery().check(wide, pairs, 1.0)
