"""Other neighbours than replace-one: more noise, a measured n, and a transcript that says so."""

from __future__ import annotations

import math

import pytest

from jam_dagster.mechanisms import JamPgm
from jam_dagster.privacy import (
    REPLACE_ONE,
    Draws,
    Neighbours,
    SeededNoise,
    UnledgeredAccount,
)
from jam_dagster.tables import Workload

RELATIONS = [
    REPLACE_ONE,
    Neighbours("add_remove"),
    Neighbours("replace_one", 3),
    Neighbours("add_remove", 4),
]


class Seen(SeededNoise):
    """Seeded noise that remembers which sensitivities it was told."""

    def gaussian_counts(self, counts, l2_sensitivity, rho, step):
        seen.append((step, l2_sensitivity))
        return super().gaussian_counts(counts, l2_sensitivity, rho, step)

    def select(self, scores, rho, sensitivity, step):
        seen.append((step, sensitivity))
        return super().select(scores, rho, sensitivity, step)


seen: list[tuple[str, float]] = []


def run(private, public, neighbours, *, rounds=3, rho=0.5, **funds):
    draws = Draws(Seen(1), UnledgeredAccount(rho), neighbours=neighbours, **funds)
    workload = Workload.all_k_way(private.domain, 2)
    return JamPgm(rounds=rounds, size_limit_mb=1).run(private, public, workload, draws)


@pytest.mark.parametrize("neighbours", RELATIONS, ids=str)
def test_every_draw_has_the_sensitivity_of_the_relation(private, public, neighbours):
    seen.clear()
    result = run(private, public, neighbours, rounds=8)
    sensitivities = {"select": set(), "measure": set(), "records": set()}
    for step, sensitivity in seen:
        sensitivities[step.rpartition("/")[2]].add(sensitivity)
    assert sensitivities["select"] == {neighbours.jam_score}
    assert sensitivities["measure"] == {neighbours.marginal_l2}
    assert sensitivities["records"] == (
        set() if neighbours.records_public else {neighbours.records}
    )
    assert [(call.step, call.sensitivity) for call in result.transcript.calls] == seen


def test_a_private_number_of_rows_is_measured_from_its_share(private, public):
    neighbours = Neighbours("add_remove", 2)
    transcript = run(private, public, neighbours, rho=0.5, records_share=0.2).transcript
    first = transcript.calls[0]
    assert (first.step, first.rho) == ("records", pytest.approx(0.1))
    assert first.scale == pytest.approx(2 / math.sqrt(2 * 0.1))
    assert transcript.records != private.records  # chance of a zero draw: 9%, with this seed none
    assert transcript.neighbours == neighbours


def test_a_lost_number_of_rows_is_measured_again_from_what_is_left(private, public):
    account = UnledgeredAccount(0.5)
    account.charge("records", 0.1)
    draws = Draws(SeededNoise(0), account, neighbours=Neighbours("add_remove"), records_share=0.5)
    assert draws.records(12) >= 1
    first, second = draws.calls
    assert (first.step, first.lost, first.scale) == ("records", True, None)
    assert second.step == "records-2"
    assert second.rho == pytest.approx(0.5 * 0.4)
    assert draws.spent == pytest.approx(0.1 + 0.2)
