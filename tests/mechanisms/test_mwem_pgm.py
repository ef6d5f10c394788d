"""MWEM+PGM by hand: scores, budgets, candidates."""

from __future__ import annotations

import math

import pytest

from jam_dagster.errors import EmptyCandidateSetError
from jam_dagster.mechanisms.mwem_pgm import MwemPgm
from jam_dagster.models.graphical.junction_tree import MEGABYTE
from tests.mechanisms.conftest import scripted_run

AB, AC, BC = 0, 1, 2


def run(private, workload, choices, rho, **settings):
    mechanism = MwemPgm(**{"iterations": 300, "tolerance": 0.0} | settings)
    return scripted_run(mechanism, private, workload, choices, rho)


def test_the_first_scores_are_the_uniform_models_errors_less_the_cells(private, workload):
    _, noise, _ = run(private, workload, [BC, AB, AC], 0.9)
    # Counts of ab: 6 2 0 / 1 0 3, against 2 a cell; of ac: 6 2 / 1 3, against 3; of bc:
    # 7 0 / 0 2 / 0 3, against 2.
    assert noise.selections[0]["scores"] == pytest.approx([10 - 6, 6 - 4, 12 - 6])


def test_later_scores_are_the_fitted_models(private, workload):
    _, noise, _ = run(private, workload, [BC, AB, AC], 9000.0)
    # With bc known and a uniform: ac is 3.5 2.5 twice, ab 3.5 1 1.5 twice.
    wanted = [2 * 2.5 + 2 * 1 + 2 * 1.5 - 6, 2 * 2.5 + 2 * 0.5 - 4, 0 - 6]
    assert noise.selections[1]["scores"] == pytest.approx(wanted, abs=0.05)


def test_rounds_share_alike_and_measure_with_most_of_it(private, workload):
    result, noise, account = run(private, workload, [BC, AB, AC], 0.9)
    assert [s["rho"] for s in noise.selections] == pytest.approx([0.03] * 3)
    assert [m["rho"] for m in noise.measurements] == pytest.approx([0.27] * 3)
    assert account.spent == pytest.approx(0.9)
    assert account.spent <= 0.9
    assert result.transcript.ended == "all rounds"
    # eps = sqrt(8 (1 - alpha) rho / T).
    scales = [call.scale for call in result.transcript.calls]
    assert scales[0] == pytest.approx(math.sqrt(8 * 0.1 * 0.9 / 3))
    run_of_five = run(private, workload, [AB] * 5, 0.9, rounds=5, alpha=0.5)[1]
    assert [m["rho"] for m in run_of_five.measurements] == pytest.approx([0.09] * 5)


def test_as_many_rounds_as_attributes_unless_given(domain, workload):
    assert MwemPgm().expected_rounds(domain, workload) == 3
    assert MwemPgm(rounds=8).expected_rounds(domain, workload) == 8


def test_the_model_may_grow_round_by_round(private, workload):
    # Beside ac stands b: 7 cells, 56 bytes. Beside ab or bc the third: 8 cells, 64 bytes.
    result, noise, _ = run(private, workload, [0, 0], 0.9, rounds=2, size_limit_mb=120 / MEGABYTE)
    assert [r.clique for r in result.transcript.rounds] == [("a", "c"), ("a", "b")]
    # ab and ac together: 10 cells, 80 bytes of 120.
    assert [r.candidates for r in result.transcript.rounds] == [1, 3]
    assert noise.selections[0]["scores"] == pytest.approx([2.0])


def test_where_nothing_fits_the_first_round_it_does_not_start(domain, workload):
    with pytest.raises(EmptyCandidateSetError, match="size_limit_mb / rounds"):
        MwemPgm(rounds=2, size_limit_mb=110 / MEGABYTE).check(domain, workload, 1.0)
