"""The verdict on a release: whether it is better than what was there without it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal

from jam_dagster.evaluation.quality import quality_text

if TYPE_CHECKING:
    from jam_dagster.evaluation.bounds.table import ErrorBounds
    from jam_dagster.evaluation.expectations.spec import ExpectationResult
    from jam_dagster.evaluation.workload_error import WorkloadErrors
    from jam_dagster.tables.domain.domain import Domain

Outcome = Literal["better", "worse", "undecided", "not measured"]

CONFIDENCE = 0.95
"""The confidence of the interval that noise leaves of the difference of two errors."""

_WIDE_CELLS = 20


@dataclass(frozen=True)
class Verdict:
    """Whether a synthetic table is better than the public one, or than a uniform one without.

    Attributes
    ----------
    outcome
        "better" and "worse" hold with a confidence of 95% over the noise of the errors, and without
        doubt where these are exact; "undecided" is neither.
    headline
        The verdict in a sentence, after the checks that failed.
    notes
        By how much and how surely, what it is as good as, where it is weakest.
    advice
        What may help where the table is not better.
    difference
        Error of the synthetic table less that of the other, a fraction of the records; None where
        it was not measured, or the other is a uniform table.
    margin
        Half the width of the interval of the difference.
    failed
        Number of checks that failed.
    """

    outcome: Outcome
    headline: str
    notes: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    difference: float | None = None
    margin: float = 0.0
    failed: int = 0

    @property
    def good(self) -> bool:
        """Whether no check failed, and the table is better or was not measured."""
        return not self.failed and self.outcome in ("better", "not measured")


def verdict_of(
    errors: WorkloadErrors | None,
    *,
    checks: Sequence[ExpectationResult] = (),
    uniform: float | None = None,
    bounds: ErrorBounds | None = None,
    domain: Domain | None = None,
    quality: str = "",
    unmeasured: str = "The error was not measured.",
) -> Verdict:
    """Judge a release by its errors, its checks and what was paid for.

    Parameters
    ----------
    errors
        The workload errors that may be shown; None where none may.
    checks
        What the checks of the synthetic table found.
    uniform
        The workload distance of a uniform table from the synthetic one: where there is no public
        table, the error of the uniform table is at least this less the synthetic table's error.
    bounds
        Bounds on the errors of marginals, from released results.
    domain
        The domain, if it may be shown; its attributes of many values are named in the advice.
    quality
        Shapes and trends beside released counts, of `jam_dagster.evaluation.quality`. Exact ones
        are told where the errors have them.
    unmeasured
        The headline where there are no errors.
    """
    failed = [one for one in checks if not one.passed]
    headline, outcome, notes, difference, margin = _compared(errors, uniform, unmeasured)
    if failed:
        checked = "check" if len(checks) == 1 else "checks"
        headline = f"{len(failed)} of {len(checks)} {checked} failed. {headline}"
    if errors is not None and errors.sample_equivalent:
        notes.append(
            f"It is as good as a random sample of {errors.sample_equivalent:,} private records."
        )
    if quality:
        notes.append(quality)
    if errors is not None and errors.narrow is not None and errors.narrow.per_marginal:
        exactly = errors.narrow.per_marginal
        attributes = sum(len(clique) == 1 for clique in exactly)
        notes.append(f"Exactly: {quality_text(exactly, attributes)}.")
    if bounds is not None and bounds.bounds:
        fractions = bounds.fractions()
        weakest = max(fractions, key=fractions.__getitem__)
        notes.append(
            f"It is weakest in {', '.join(weakest)}, as far as released results tell: the error"
            f" there is at most {fractions[weakest]:.2f} of 2."
        )
    advice = _advice(domain) if outcome in ("worse", "undecided") else ()
    return Verdict(outcome, headline, tuple(notes), advice, difference, margin, len(failed))


def _compared(
    errors: WorkloadErrors | None, uniform: float | None, unmeasured: str
) -> tuple[str, Outcome, list[str], float | None, float]:
    """Return headline, outcome, notes, difference and margin of the errors alone."""
    if errors is None or errors.synthetic is None:
        return unmeasured, "not measured", [], None, 0.0
    ours = errors.synthetic.mean
    z = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)
    if errors.public is None:
        # The triangle inequality bounds the error of the uniform table from below.
        if uniform is None:
            return f"The mean error is {ours:.3f} of 2.", "not measured", [], None, 0.0
        least = uniform - ours
        if 2.0 * ours - uniform + 2.0 * z * errors.sigma < 0.0:
            headline = (
                f"Better than a uniform table: mean error {ours:.3f} against {least:.3f} or more."
            )
            return headline, "better", [], None, 0.0
        headline = f"Not shown to be better than a uniform table: mean error {ours:.3f}."
        return headline, "undecided", [], None, 0.0
    theirs = errors.public.mean
    difference, margin = ours - theirs, z * errors.sigma * math.sqrt(2.0)
    outcome: Outcome
    if difference < -margin:
        outcome, words = "better", "Better than"
    elif difference > margin:
        outcome, words = "worse", "Worse than"
    else:
        outcome, words = "undecided", "No clear difference from"
    means = f"mean error {ours:.3f} against {theirs:.3f}"
    if outcome == "undecided" and margin:
        means += f", and noise of ±{margin:.3f}"
    elif theirs > 0.0:
        means += f", {abs(difference) / theirs:.0%} {'less' if difference < 0 else 'more'}"
    headline = f"{words} the public table: {means}."
    sure = (
        f" within ±{margin:.3f}, with a confidence of {CONFIDENCE:.0%}" if margin else ", exactly"
    )
    return headline, outcome, [f"The difference is {difference:+.3f}{sure}."], difference, margin


def _advice(domain: Domain | None) -> tuple[str, ...]:
    """Return what may help a release that is not better, from public facts."""
    wide = [] if domain is None else sorted(domain.attributes, key=lambda one: -one.size)[:3]
    named = ", ".join(f"{one.name} ({one.size})" for one in wide if one.size > _WIDE_CELLS)
    coarser = "coarser values of attributes that have many"
    return (
        "fewer columns: leave out those that nobody needs",
        f"{coarser}: {named}" if named else coarser,
        "a workload of lower degree",
        "another mechanism: jam-dagster plan compares them on public data",
        "more epsilon",
    )
