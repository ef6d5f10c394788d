"""The verdict: how surely a table is better than the public one, and what is said of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from jam_dagster.evaluation import ExpectationResult, verdict_of
from jam_dagster.evaluation.coarse_pairs import PairErrors
from jam_dagster.evaluation.domain_fit import CatchAllShare, ColumnFit
from jam_dagster.evaluation.workload_error import (
    TableErrors,
    WorkloadErrors,
    uniform_distance,
    workload_error,
)
from jam_dagster.tables import (
    Domain,
    EncodedTable,
    NumericAttribute,
    Workload,
)

DOMAIN = Domain.from_sizes({"a": 2, "b": 30})


def noisy(ours: float, theirs: float | None, sigma: float = 0.1) -> WorkloadErrors:
    public = None if theirs is None else TableErrors(theirs)
    return WorkloadErrors("private", TableErrors(ours), public, sigma=sigma, rho=1.0)


def exact(ours: float, theirs: float) -> WorkloadErrors:
    return WorkloadErrors("exact", TableErrors(ours), TableErrors(theirs))


def test_a_table_is_better_or_worse_only_beyond_what_noise_explains() -> None:
    margin = 1.959964 * 0.1 * np.sqrt(2)
    for sign, outcome in ((-1, "better"), (1, "worse")):
        beyond = verdict_of(noisy(0.9 + sign * (margin + 1e-6), 0.9))
        assert beyond.outcome == outcome
        assert beyond.margin == pytest.approx(margin)
        assert verdict_of(noisy(0.9 + sign * (margin - 1e-6), 0.9)).outcome == "undecided"


@pytest.mark.slow
def test_two_equal_tables_are_told_apart_at_the_stated_level() -> None:
    """Of 4,000 pairs of equal tables 5% are: bounds at 6 standard deviations, p < 1e-8."""
    rng = np.random.default_rng(11)
    drawn = 0.3 + 0.1 * rng.standard_normal((4000, 2))
    apart = sum(verdict_of(noisy(a, b)).outcome != "undecided" for a, b in drawn)
    assert apart == pytest.approx(200, abs=6 * np.sqrt(4000 * 0.05 * 0.95))


def test_exact_errors_are_compared_as_they_are() -> None:
    assert verdict_of(exact(0.31, 0.3)).outcome == "worse"
    assert verdict_of(exact(0.3, 0.3)).outcome == "undecided"
    assert "exact" in verdict_of(exact(0.29, 0.3)).statistics[0]


def test_the_headline_says_by_how_much() -> None:
    # Of an error within its noise no ratio is known.
    assert verdict_of(noisy(0.31, 0.01, sigma=0.02)).headline == (
        "Worse than the public table: mean error 0.310 ± 0.039 against at most 0.049."
    )
    assert "3.1 times it." in verdict_of(noisy(0.31, 0.1, sigma=0.001)).headline
    # Nor of a difference that is known to less than a quarter.
    assert "%" not in verdict_of(noisy(0.3, 0.5, sigma=0.02)).headline
    better = verdict_of(noisy(0.07, 0.28, sigma=0.001), domain=DOMAIN)
    assert better.headline == (
        "Better than the public table: mean error 0.070 ± 0.002 against 0.280 ± 0.002, 75% less."
    )
    assert "-0.210 within ±0.003, with a confidence of 95%" in better.statistics[0]
    assert better.notes == (
        "The noise of the errors does not explain the difference from the public table.",
    )
    assert better.good
    assert better.known
    assert better.advice == ()
    worse = verdict_of(noisy(0.357, 0.299, sigma=0.001), domain=DOMAIN)
    assert worse.headline == (
        "Worse than the public table: mean error 0.357 ± 0.002 against 0.299 ± 0.002, 19% more."
    )
    assert worse.advice[0] == "Use the public table itself, if it answers the question."
    assert not worse.good
    assert any("b (30)" in one for one in worse.advice)
    assert not any("a (2)" in one for one in worse.advice)


def test_a_failed_check_comes_first() -> None:
    checks = [
        ExpectationResult(name, passed, "ERROR", "", {}, "", None, None)
        for name, passed in (("one", True), ("two", False))
    ]
    verdict = verdict_of(noisy(0.1, 0.9, sigma=0.001), checks=checks)
    assert verdict.headline.startswith("Failed checks: 1 of 2 (two). Better than the public table")
    assert not verdict.good


def test_without_a_public_table_a_uniform_one_stands_in() -> None:
    table = EncodedTable(DOMAIN, (np.zeros(60, int), np.zeros(60, int)))
    workload = Workload.of(DOMAIN, [["a"], ["b"]])
    distance = uniform_distance(table, workload)
    assert distance == pytest.approx((1.0 + 2 * 29 / 30) / 2)
    better = verdict_of(noisy(0.2, None, sigma=0.01), uniform=distance)
    assert better.outcome == "better"
    within = f"{distance - 0.2:.3f} to {distance + 0.2:.3f}"
    means = f"mean error 0.200 ± 0.020 against {within}"
    bought = f"{distance - 0.4:.3f} to {distance:.3f}, since a uniform table costs nothing."
    assert better.headline == f"Better than a uniform table: {means}. Your budget bought {bought}"
    assert better.difference == pytest.approx(0.4 - distance)
    assert f"at most {0.4 - distance:+.3f} within ±0.039" in better.statistics[0]
    assert better.notes == ("A table without any information is further from the private one.",)
    # An error that is larger than the distance: the triangle inequality bounds it otherwise.
    assert verdict_of(noisy(1.9, None, sigma=0.01), uniform=0.3).difference == pytest.approx(0.3)
    far = verdict_of(noisy(0.9, None, sigma=0.01), uniform=distance)
    assert far.outcome == "undecided"
    assert (
        far.headline
        == "Not known to be better than a uniform table: mean error 0.900 ± 0.020 of 2."
    )
    assert far.statistics[0].endswith(
        "from the synthetic one, so its error is about 0.567 to 2.000."
    )
    assert far.notes == ("A table without any information may be as close to the private one.",)
    useless = verdict_of(noisy(1.4, None, sigma=0.01), uniform=distance)
    assert useless.headline.startswith("Little use: mean error 1.400 ± 0.020 of 2, and")
    # There is nothing that a plan could be tried on.
    assert not any("plan" in one for one in far.advice)


@pytest.mark.parametrize("uniform", [None, 0.9], ids=["public", "uniform"])
@pytest.mark.parametrize(("ours", "theirs"), [(-3.1, 4.2), (7.0, -9.0), (0.05, 0.1), (9.0, 0.1)])
def test_errors_below_their_noise_are_not_told(
    ours: float, theirs: float, uniform: float | None
) -> None:
    errors = noisy(ours, None if uniform else theirs, sigma=5.0)
    verdict = verdict_of(errors, uniform=uniform, domain=DOMAIN)
    assert verdict.outcome == "undecided"
    assert verdict.headline.startswith("Nothing is known of the error at this budget")
    assert (verdict.notes, verdict.statistics) == ((), ())
    assert not verdict.known
    assert verdict.sentences[-1].startswith("These may make the error known: Give the")
    assert not any("columns" in one for one in verdict.advice)


def test_an_error_that_noise_takes_below_zero_is_zero() -> None:
    verdict = verdict_of(noisy(-0.02, 0.3, sigma=0.05))
    assert verdict.headline == (
        "Better than the public table: mean error at most 0.098 against 0.300 ± 0.098."
    )
    assert verdict.difference == -0.3


def test_what_noise_hides_is_as_good_as_no_number_of_records() -> None:
    for sigma, hides in ((0.7, False), (0.8, True)):
        errors = replace(noisy(0.5, 0.5, sigma=sigma), sample_equivalent=30)
        verdict = verdict_of(errors)
        assert (verdict.outcome, verdict.hidden) == ("undecided", hides)
        assert ("30 private records" in " ".join(verdict.notes)) is not hides
        assert ("at most 1.872 against" in verdict.headline) is not hides


def test_an_error_that_is_surely_large_is_known() -> None:
    large = verdict_of(noisy(1.9, 1.85, sigma=0.1))
    assert not large.hidden
    assert "mean error 1.900 ± 0.196 against" in large.headline


def test_an_exact_error_of_the_uniform_table_is_compared() -> None:
    errors = WorkloadErrors("exact", TableErrors(1.2), uniform=TableErrors(0.4))
    worse = verdict_of(errors)
    assert (
        worse.headline
        == "Worse than a uniform table: mean error 1.200 against 0.400, 3.0 times it."
    )
    assert "public" not in " ".join(worse.advice)


def test_a_difference_beyond_large_noise_is_told() -> None:
    far = verdict_of(noisy(1.9, 0.3, sigma=0.4))
    assert (far.outcome, far.hidden) == ("worse", False)
    assert 1.0 < far.margin < 1.6


def test_a_check_without_a_measurement_has_not_passed() -> None:
    checks = [
        ExpectationResult(name, True, "WARN", "", {"measured": measured})
        for name, measured in (("one", True), ("two", False))
    ]
    verdict = verdict_of(noisy(0.1, 0.9, sigma=0.001), checks=checks)
    assert (verdict.failed, verdict.skipped) == (0, 1)


def test_a_small_exact_difference_is_not_told_as_none() -> None:
    close = verdict_of(exact(0.1028, 0.1027))
    assert close.headline.endswith("0.103 against 0.103, 0.1% more.")
    assert close.statistics == ("The difference is +0.0001, exactly.",)


def test_what_noise_leaves_undecided_is_told_by_a_larger_share() -> None:
    assert "evaluation.share" in verdict_of(noisy(0.3, 0.305, sigma=0.02)).advice[0]
    assert not any("share" in one for one in verdict_of(noisy(0.9, 0.3, sigma=0.02)).advice)


def test_beside_a_misfit_there_is_no_praise() -> None:
    weight = NumericAttribute("kg", (0.0, 50.0, 100.0), nullable=True, unreadable="missing")
    lost = ColumnFit(weight, (CatchAllShare("missing", "(null)", 0.995, 0.01, 0.02),))
    checks = [ExpectationResult("kg__fit", False, "WARN", "99.5% missing")]
    measured = replace(noisy(0.02, 1.9, sigma=0.001), left_out=("kg",))
    verdict = verdict_of(measured, checks=checks, fits=[lost])
    assert verdict.headline.startswith(
        "The domain does not fit kg. In kg, 99.5% of the records are missing, and 1.0% in the"
        " public table. Failed checks: 1 of 1."
    )
    assert "etter" not in " ".join(verdict.sentences)
    assert verdict.notes[1] == (
        "Over the other columns, the mean error is 0.020 ± 0.002, and that of the public table is"
        " 1.900 ± 0.002."
    )
    assert verdict.misfits == ("kg",)
    assert verdict.outcome == "better"
    assert not verdict.better
    assert not verdict.good
    assert "no error counts that" in verdict.notes[0]
    assert "values in another format both count as missing in kg" in verdict.notes[0]
    # A sample of private records would have the values.
    errors = replace(noisy(0.02, 1.9, sigma=0.001), sample_equivalent=700)
    assert any("random sample" in one for one in verdict_of(errors).notes)
    assert not any("random sample" in one for one in verdict_of(errors, fits=[lost]).notes)
    # Without checks, and without an error, it is said too.
    unknown = verdict_of(None, fits=[lost], unmeasured="none_left")
    assert unknown.headline.startswith("The domain does not fit kg")
    assert unknown.notes[1] == "No error is compared: the domain fits no column of the workload."
    bare = replace(measured, public=None)
    alone = verdict_of(bare, fits=[lost], uniform=1.5)
    assert alone.notes[1:] == ("Over the other columns, the mean error is 0.020 ± 0.002 of 2.",)
    fine = ColumnFit(weight, (CatchAllShare("missing", "(null)", 0.05, 0.01, 0.02),))
    assert verdict_of(noisy(0.02, 1.9, sigma=0.001), fits=[fine]).better


def test_a_public_table_that_the_domain_clips_is_no_table_to_be_better_than() -> None:
    shares = {"arrival": 0.97, "stay": 0.25}
    verdict = verdict_of(noisy(0.1, 0.9, sigma=0.001), clipped=shares)
    assert verdict.outcome == "better"
    assert verdict.headline.endswith(
        " 89% less. The domain clips cells of the public table, by share of the column:"
        " arrival (97%), stay (25%)."
    )
    assert "includes the columns that the domain clips" in verdict.notes[0]
    assert verdict.clipped == ("arrival", "stay")
    assert not verdict.better
    assert not verdict.good
    assert verdict_of(noisy(0.1, 0.9, sigma=0.001), clipped={}).better
    # Nothing is compared with the public table.
    for errors in (None, noisy(0.1, None, sigma=0.001)):
        alone = verdict_of(errors, clipped=shares, uniform=0.5)
        assert alone.clipped == ()
        assert "clips" not in " ".join(alone.sentences)


def test_broken_rules_are_no_failed_check() -> None:
    broken = ExpectationResult("rule_1", False, "WARN", "", {"rule": "b <= c"}, "", 900, 20)
    verdict = verdict_of(noisy(0.02, 1.9, sigma=0.001), checks=[broken])
    assert verdict.headline.startswith("Better than the public table")
    assert verdict.failed == 0


def beside(
    association: tuple[float, float], sigma: float = 0.0, pairs: tuple[float, float] = (0.1, 0.1)
) -> WorkloadErrors:
    """Return errors of a table that is far closer in the counts of the workload."""
    ours, theirs = (
        TableErrors(mean, pairs=pair, association=one)
        for mean, pair, one in zip((0.1, 0.5), pairs, association, strict=True)
    )
    return WorkloadErrors("private" if sigma else "exact", ours, theirs, sigma=sigma)


@pytest.mark.parametrize(
    ("errors", "apart", "outcome"),
    [
        (beside((0.02, 0.02)), None, "better"),
        (beside((0.03, 0.02)), None, "mixed"),
        (beside((0.02, 0.02), pairs=(0.2, 0.1)), None, "mixed"),
        # Noise hides which table is closer, and what is public bounds it.
        (beside((0.02, 0.02), sigma=0.01), None, "mixed"),
        (beside((0.02, 0.02), sigma=0.01), PairErrors(0.001, 0.002, 0.1), "better"),
        (beside((0.02, 0.02), sigma=0.01), PairErrors(0.04, 0.002, 0.1), "mixed"),
        (beside((0.02, 0.2), sigma=0.01, pairs=(0.1, 0.2)), None, "better"),
    ],
)
def test_better_needs_counts_and_associations(
    errors: WorkloadErrors, apart: PairErrors | None, outcome: str
) -> None:
    verdict = verdict_of(errors, apart=apart)

    assert verdict.outcome == outcome
    assert verdict.better == verdict.good == (outcome == "better")
    assert verdict.headline.startswith("Better" if outcome == "better" else "Closer")


def test_a_classifier_that_learns_less_is_no_better_table() -> None:
    """The release is closer in all counts, and predicts worse than the public table."""
    errors = beside((0.0, 0.5), sigma=1e-6, pairs=(0.0, 0.5))
    cells = {0.9: (0.45, *[0.0] * 18, 0.55), 0.6: (0.1, *[0.0] * 8, 0.4, *[0.0] * 9, 0.5)}
    assert errors.synthetic is not None
    assert errors.public is not None
    low, high = ({"ill": cells[one]} for one in (0.6, 0.9))
    worse = replace(
        errors,
        synthetic=replace(errors.synthetic, scores=low),
        public=replace(errors.public, scores=high),
    )
    better = replace(
        errors,
        synthetic=replace(errors.synthetic, scores=high),
        public=replace(errors.public, scores=low),
    )

    assert verdict_of(worse).outcome == "mixed"
    assert (
        "further in the area under the curve of a classifier of ill" in verdict_of(worse).headline
    )
    assert verdict_of(better).outcome == "better"


@pytest.mark.parametrize(
    ("prior", "sigma", "start"),
    [
        (0.3, 0.01, "Better than the public table"),
        (0.11, 0.01, "Noise hides what your budget bought"),
        (0.05, 0.01, "Your budget bought nothing"),
        (0.1001, 0.0, "Better than the public table"),
    ],
)
def test_what_noise_explains_of_a_budget_comes_before_any_praise(
    prior: float, sigma: float, start: str
) -> None:
    errors = replace(beside((0.0, 0.5), pairs=(0.0, 0.5)), prior=TableErrors(prior), sigma=sigma)
    verdict = verdict_of(replace(errors, mode="private" if sigma else "exact"))

    assert verdict.headline.startswith(start)
    assert verdict.outcome == "better"
    assert verdict.gain == pytest.approx(prior - 0.1)


def test_the_product_of_bought_singles_is_compared_without_a_public_table() -> None:
    said = verdict_of(noisy(0.2, None, sigma=0.01), uniform=1.0, singles=0.5).statistics
    assert said[-1].endswith(
        "is 0.500 from the synthetic table, so its error is about 0.300 to 0.700."
    )
    table = EncodedTable(DOMAIN, (np.zeros(60, int), np.zeros(60, int)))
    workload = Workload.of(DOMAIN, [["a"], ["b"]])
    known = {"a": [3.0, 0.0]}
    error = (0.0 + 2 * 29 / 30) / 2
    assert uniform_distance(table, workload, known) == pytest.approx(error)
    # Exact errors measure it.
    exact = workload_error(table, table, None, workload, mode="exact", bought=known)
    assert exact.bought is not None
    assert exact.bought.mean == pytest.approx(error)
    said = verdict_of(exact, singles=error).statistics
    assert said[-1].endswith("without any relation, is 0.967.")
    assert "is about" not in said[-1]
