"""Algorithm 2 by hand: budgets, limits, scores, one draw, resuming, refitting."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from jam_dagster.errors import (
    DomainError,
    EmptyCandidateSetError,
    SpecificationError,
)
from jam_dagster.mechanisms import JamPgm, Transcript, refit
from jam_dagster.models.graphical.tractability import TractabilityFilter
from jam_dagster.privacy import Draws, MemoryStore, SeededNoise, UnledgeredAccount
from jam_dagster.tables import Domain, EncodedTable, PublicTables, Workload
from tests.mechanisms.conftest import ScriptedNoise, table

CLOSURE = [("a",), ("b",), ("c",), ("a", "b"), ("a", "c"), ("b", "c")]
PUBLIC = len(CLOSURE)


def scripted(choices, rho=0.9, store=None, account=None):
    noise = ScriptedNoise(list(choices))
    account = UnledgeredAccount(rho) if account is None else account
    return noise, account, Draws(noise, account, store)


def run(domain, private, public, workload, draws, **settings):
    settings = {"rounds": 3, "iterations": 50} | settings
    return JamPgm(**settings).run(private, public, workload, draws)


def test_candidates_are_the_downward_closure_twice(domain, private, public, workload):
    assert list(workload.downward_closure()) == CLOSURE
    noise, _, draws = scripted([0], rho=0.1)
    run(domain, private, public, workload, draws, rounds=1)
    assert noise.selections[0]["scores"].shape == (2 * len(CLOSURE),)


def test_budget_of_three_private_rounds(domain, private, public, workload):
    noise, account, draws = scripted([3, 4, 5])
    result = run(domain, private, public, workload, draws)
    assert [s["rho"] for s in noise.selections] == pytest.approx([0.06] * 3)
    assert [m["rho"] for m in noise.measurements] == pytest.approx([0.24] * 3)
    assert [r.sigma for r in result.transcript.rounds] == pytest.approx([1 / math.sqrt(0.24)] * 3)
    assert account.spent == pytest.approx(0.9)
    assert result.transcript.rho_spent == pytest.approx(0.9)
    assert account.spent <= 0.9
    assert result.transcript.ended == "all rounds"


def test_a_public_choice_leaves_its_measuring_budget_to_later_rounds(
    domain, private, public, workload
):
    noise, account, draws = scripted([PUBLIC + 3, 4, PUBLIC + 5])
    result = run(domain, private, public, workload, draws)
    # Round 1 selects for 0.06; rounds 2 and 3 share 0.84 and 0.84 - 0.084 - 0.336.
    assert [s["rho"] for s in noise.selections] == pytest.approx([0.06, 0.084, 0.084])
    assert [m["rho"] for m in noise.measurements] == pytest.approx([0.336])
    assert account.spent == pytest.approx(0.06 + 0.084 + 0.336 + 0.084)
    assert result.transcript.picks == {"private": 1, "public": 2}
    assert [r.sigma for r in result.transcript.rounds] == pytest.approx(
        [0, 1 / math.sqrt(0.336), 0]
    )


def test_public_measurements_are_public_counts_scaled_to_n(domain, private, public, workload):
    _, _, draws = scripted([PUBLIC + 3], rho=0.1)
    result = run(domain, private, public, workload, draws, rounds=1)
    (measurement,) = result.transcript.measurements
    assert measurement.source == "public"
    np.testing.assert_array_equal(measurement.values, public.marginal(("a", "b")) * (12 / 4))


def test_private_measurements_pass_through_the_noise(domain, private, public, workload):
    noise, _, draws = scripted([3], rho=0.1)
    result = run(domain, private, public, workload, draws, rounds=1)
    np.testing.assert_array_equal(noise.measurements[0]["counts"], private.marginal(("a", "b")))
    np.testing.assert_array_equal(
        result.transcript.measurements[0].values, private.marginal(("a", "b"))
    )


def test_first_scores_count_the_uniform_models_error(domain, private, public, workload):
    noise, _, draws = scripted([0], rho=0.1)
    run(domain, private, public, workload, draws, rounds=1)
    sigma = 1 / math.sqrt(0.08)
    expected_private, expected_public = [], []
    for q in CLOSURE:
        counts = private.marginal(q)
        uniform = np.full(counts.shape, private.records / counts.size)
        error = np.abs(counts - uniform).sum()
        expected_private.append(error - math.sqrt(2 / math.pi) * sigma * counts.size)
        expected_public.append(error - np.abs(counts - public.marginal(q) * 3).sum())
    np.testing.assert_allclose(noise.selections[0]["scores"], expected_private + expected_public)
    assert noise.selections[0]["sensitivity"] == 4


def test_a_table_small_enough_to_score_in_the_head():
    domain = Domain.from_sizes({"x": 2, "y": 2})
    private = table(domain, [(0, 0), (0, 1), (0, 0), (1, 1)])
    public = table(domain, [(0, 1), (1, 1)])
    noise, _, draws = scripted([2], rho=1.25)
    JamPgm(rounds=1, iterations=50).run(private, public, Workload.all_k_way(domain, 1), draws)
    # Uniform has 2, 2. x is 3, 1: error 2, public (scaled 2, 2) error 2. y is 2, 2: error 0,
    # public 0, 4: error 4. sigma is 1.
    noise_error = 2 * math.sqrt(2 / math.pi)
    expected = [2 - noise_error, 0 - noise_error, 0, -4]
    np.testing.assert_allclose(noise.selections[0]["scores"], expected)


def test_later_scores_use_the_refitted_model(domain, private, public, workload):
    noise, _, draws = scripted([3, 3], rho=0.9)
    run(domain, private, public, workload, draws, rounds=2, iterations=500)
    sigma = 1 / math.sqrt(0.36)
    # The model now answers (a, b) as measured, so what is left of its private score is the noise.
    left = noise.selections[1]["scores"][3] + math.sqrt(2 / math.pi) * sigma * 6
    assert 0 <= left < 0.5


def test_one_selection_and_at_most_one_measurement_a_round(domain, private, public, workload):
    noise, _, draws = scripted([0, PUBLIC, 1])
    run(domain, private, public, workload, draws)
    assert [s["step"] for s in noise.selections] == [f"round-00{i}/select" for i in (1, 2, 3)]
    assert [m["step"] for m in noise.measurements] == ["round-001/measure", "round-003/measure"]


def test_size_limit_grows_with_the_budget_spent(domain, private, public, workload):
    _, _, draws = scripted([3, PUBLIC + 4, 5], rho=0.9)
    result = run(domain, private, public, workload, draws, size_limit_mb=30.0)
    limits = [r.size_limit_mb for r in result.transcript.rounds]
    # Even share first; then 0.3 of 0.9; then 0.3 + 0.06 of 0.9.
    assert limits == pytest.approx([10, 10, 30 * 0.36 / 0.9])


def test_a_candidate_left_out_early_returns(domain, private, public, workload):
    """12 cells of model fit (a, c), 4 + 3 cells, and (b,); (b, c), 6 + 2, needs the later limit."""
    limit = 8 * 7 / 2**20 * 3
    noise, _, draws = scripted([0, 0, 0])
    result = run(domain, private, public, workload, draws, size_limit_mb=limit)
    counts = [r.candidates for r in result.transcript.rounds]
    assert counts[0] == 4  # (a,), (b,), (c,) and (a, c)
    assert counts[2] == 6
    assert noise.selections[2]["scores"].shape == (12,)


def test_no_candidate_in_the_first_round_is_an_error_before_any_charge(
    domain, private, public, workload
):
    noise, account, draws = scripted([0])
    with pytest.raises(EmptyCandidateSetError, match="size_limit_mb"):
        run(domain, private, public, workload, draws, size_limit_mb=1e-9)
    assert account.spent == 0
    assert not noise.selections


def test_no_candidate_later_ends_the_run_early_and_the_release_stands(
    domain, private, public, workload, monkeypatch
):
    """A measured clique stays a candidate, so this needs a first measurement that was lost."""
    store, account = CrashingStore("round-001/measure"), UnledgeredAccount(0.9)
    _, _, draws = scripted([3], store=store, account=account)
    with pytest.raises(Crash):
        run(domain, private, public, workload, draws)
    spent = account.spent

    fitting = iter([range(len(CLOSURE))] * 2)
    monkeypatch.setattr(TractabilityFilter, "fitting", lambda *_: list(next(fitting, [])))
    _, _, draws = scripted([], store=store, account=account)
    result = run(domain, private, public, workload, draws)
    assert result.transcript.ended == "no candidate fits"
    assert len(result.transcript.rounds) == 1
    assert account.spent == spent
    np.testing.assert_allclose(result.model.marginal(("c",)), 6)


def test_a_marginal_too_large_to_count_is_refused_before_any_charge():
    wide = Domain.from_sizes({"a": 600, "b": 600, "c": 600})
    with pytest.raises(SpecificationError, match="a x b x c"):
        JamPgm().check(wide, Workload.all_k_way(wide, 3), 1.0)
    JamPgm(size_limit_mb=100).check(wide, Workload.all_k_way(wide, 2), 1.0)


def test_how_long_a_round_took_is_not_kept(domain, private, public, workload, tmp_path):
    draws = Draws(SeededNoise(0), UnledgeredAccount(1.0))
    run(domain, private, public, workload, draws, rounds=2).transcript.save(tmp_path)
    assert "seconds" not in (tmp_path / "transcript.json").read_text()
    assert all(np.isnan(one.seconds) for one in Transcript.load(tmp_path).rounds)


def test_refit_over_another_domain_is_refused(domain, private, public, workload):
    result = run(
        domain, private, public, workload, Draws(SeededNoise(0), UnledgeredAccount(1.0)), rounds=1
    )
    with pytest.raises(DomainError, match="another domain"):
        refit(result.transcript, Domain.from_sizes({"a": 2}), workload)


class Crash(BaseException):
    """What ends a process."""


class CrashingStore(MemoryStore):
    """Loses the outcome of one step, as a crash between drawing and storing would."""

    def __init__(self, lost):
        super().__init__()
        self.lost = lost

    def put(self, step, outcome):
        if step == self.lost:
            self.lost = None
            raise Crash
        super().put(step, outcome)


def crash_then_resume(lost, domain, private, public, workload, choices):
    store, account = CrashingStore(lost), UnledgeredAccount(0.9)
    _, _, draws = scripted(choices, store=store, account=account)
    with pytest.raises(Crash):
        run(domain, private, public, workload, draws)
    spent_at_crash = account.spent
    noise, _, draws = scripted(choices, store=store, account=account)
    result = run(domain, private, public, workload, draws)
    assert account.spent <= 0.9
    assert result.transcript.rho_spent == pytest.approx(account.spent)
    return noise, result, spent_at_crash


def test_a_lost_measurement_closes_its_round_without_one(
    domain, private, public, workload, tmp_path
):
    _, result, spent = crash_then_resume(
        "round-002/measure", domain, private, public, workload, [3, 4, 5]
    )
    assert spent == pytest.approx(0.6)
    assert [r.measurement is None for r in result.transcript.rounds] == [False, True, False]
    assert math.isnan(result.transcript.rounds[1].l1_residual)
    assert result.transcript.picks == {"private": 2, "public": 0, "lost": 1}
    assert "from private (measurement lost); " in result.transcript.rounds[1].line(3)
    assert ">lost</td>" in result.transcript._repr_html_()
    result.transcript.save(tmp_path)
    again = Transcript.load(tmp_path)
    assert math.isnan(again.rounds[1].l1_residual)
    assert again.rounds[1].measurement is None
    assert "NaN" not in (tmp_path / "transcript.json").read_text()


def test_with_nothing_left_the_run_ends_with_what_is_stored(domain, private, public, workload):
    store, account = MemoryStore(), UnledgeredAccount(0.9)
    _, _, draws = scripted([3], store=store, account=account)
    mechanism = JamPgm(rounds=3, iterations=50)
    stopped = itertools.count()

    def stop(_):
        next(stopped)
        raise Crash

    with pytest.raises(Crash):
        mechanism.run(private, public, workload, draws, on_round=stop)
    # All that was left went to selections that were lost.
    account.charge("round-002/select", account.remaining)
    _, _, draws = scripted([], store=store, account=account)
    result = mechanism.run(private, public, workload, draws)
    assert result.transcript.ended == "budget exhausted"
    assert len(result.transcript.rounds) == 1


def test_tables_over_different_domains_are_refused(domain, private, workload):
    other = Domain.from_sizes({"a": 2, "b": 3, "c": 3})
    _, account, draws = scripted([0])
    with pytest.raises(DomainError, match="different domains"):
        run(domain, private, table(other, [(0, 0, 0)]), workload, draws)
    assert account.spent == 0


def test_defaults_are_the_papers():
    settings = {"rounds": 30, "alpha": 0.8, "size_limit_mb": 80.0}
    fits = {"estimator": "accelerated", "iterations": 1000, "tolerance": 0.1}
    assert JamPgm().parameters() == settings | fits


def test_round_line_names_what_happened(domain, private, public, workload):
    _, _, draws = scripted([3, PUBLIC + 4, 5])
    lines = []
    JamPgm(rounds=3, iterations=50).run(
        private, public, workload, draws, on_round=lambda r: lines.append(r.line(3))
    )
    assert lines[0].startswith("round 1/3: a x b from private (sigma 2.0)")
    assert lines[1].startswith("round 2/3: a x c from public (free)")


def part_of(public, names):
    domain = public.domain.project(names)
    return EncodedTable(domain, tuple(public.column(name) for name in domain.names))


def test_a_public_table_that_lacks_attributes(domain, private, public, workload):
    partial = part_of(public, "bc")
    # Private candidates all; public ones are b, c and (b, c), the last of the scores.
    noise, _, draws = scripted([PUBLIC + 2], rho=0.1)
    result = run(domain, private, partial, workload, draws, rounds=1)
    assert noise.selections[0]["scores"].shape == (len(CLOSURE) + 3,)
    (measurement,) = result.transcript.measurements
    assert (measurement.clique, measurement.source) == (("b", "c"), "public")
    scale = private.records / public.records
    np.testing.assert_allclose(measurement.values, public.marginal(("b", "c")) * scale)
    whole, _, draws = scripted([PUBLIC + 5], rho=0.1)
    run(domain, private, public, workload, draws, rounds=1)
    has = np.array([*[True] * PUBLIC, *(set(q) <= {"b", "c"} for q in CLOSURE)])
    np.testing.assert_array_equal(noise.selections[0]["scores"], whole.selections[0]["scores"][has])


def test_several_public_tables_have_a_copy_of_the_candidates_each(
    domain, private, public, workload, tmp_path
):
    doubled = EncodedTable(domain, tuple(np.repeat(c, 2) for c in public.columns))
    tables = PublicTables(domain, {"part": part_of(public, "ab"), "doubled": doubled})
    # a, b and (a, b) of the first, then all six of the second, of which (b, c) is the last.
    noise, _, draws = scripted([PUBLIC + 2, PUBLIC + 3 + 5, 3], rho=0.3)
    result = run(domain, private, tables, workload, draws)
    assert noise.selections[0]["scores"].shape == (len(CLOSURE) + 3 + 6,)
    # Twice as many of the same records are the same public data.
    scores = noise.selections[0]["scores"]
    np.testing.assert_allclose(scores[[6, 7, 8]], scores[[9, 10, 12]])
    rounds = result.transcript.rounds
    assert [(r.clique, r.origin) for r in rounds] == [
        (("a", "b"), "public part"),
        (("b", "c"), "public doubled"),
        (("a", "b"), "private"),
    ]
    assert "a x b from public part (free)" in rounds[0].line(3)
    result.transcript.save(tmp_path)
    again = Transcript.load(tmp_path)
    assert [r.table for r in again.rounds] == ["part", "doubled", ""]
    assert again.picks == {"private": 1, "public": 2}
    for clique in CLOSURE:
        np.testing.assert_array_equal(
            refit(again, domain, workload, tables).marginal(clique), result.model.marginal(clique)
        )


def test_public_tables_must_have_something_in_common_with_the_private(domain, private, workload):
    strange = EncodedTable(Domain.from_sizes({"d": 2}), (np.array([0, 1]),))
    _, account, draws = scripted([0])
    with pytest.raises(DomainError, match="encoded over different domains"):
        run(domain, private, strange, workload, draws)
    with pytest.raises(DomainError, match="jam_pgm needs a public table"):
        run(domain, private, None, workload, draws)
    assert account.spent == 0
