"""The verdict on a release: whether it is better than what was there without it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from jam_dagster.evaluation.quality import quality_text
from jam_dagster.evaluation.workload_error import CONFIDENCE, MOST

if TYPE_CHECKING:
    from jam_dagster.evaluation.expectations.spec import ExpectationResult
    from jam_dagster.evaluation.workload_error import WorkloadErrors
    from jam_dagster.tables.domain.domain import Domain

Outcome = Literal["better", "worse", "undecided", "not measured"]

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
        Error of the synthetic table less that of the other, a fraction of the records; of a uniform
        table, the most that it can be. None where it was not measured.
    margin
        Half the width of the interval of the difference.
    failed
        Number of checks that failed.
    skipped
        Number of checks that had nothing to compare: no private measurement covers some marginals.
    hidden
        Whether noise hides the errors, so that nothing is known of them.
    restricted
        Whether it follows from exact errors, and so is a statistic of private data.
    """

    outcome: Outcome
    headline: str
    notes: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    difference: float | None = None
    margin: float = 0.0
    failed: int = 0
    skipped: int = 0
    hidden: bool = False
    restricted: bool = False

    @property
    def good(self) -> bool:
        """Whether no check failed, and the table is better or was not measured."""
        return not self.failed and self.outcome in ("better", "not measured")

    @property
    def known(self) -> bool:
        """Whether the error was measured, and noise does not hide it."""
        return self.difference is not None and not self.hidden

    @property
    def sentences(self) -> tuple[str, ...]:
        """All that is said, the headline first."""
        helps = (f"{self.helps}: {'; '.join(self.advice)}.",) if self.advice else ()
        return (self.headline, *self.notes, *helps)

    @property
    def helps(self) -> str:
        """What the advice is for."""
        return "What would tell" if self.hidden else "What may help"


def verdict_of(
    errors: WorkloadErrors | None,
    *,
    checks: Sequence[ExpectationResult] = (),
    uniform: float | None = None,
    domain: Domain | None = None,
    quality: str = "",
    unmeasured: str = "The error was not measured.",
) -> Verdict:
    """Judge a release by its errors, its checks and what was paid for.

    Parameters
    ----------
    errors
        The workload errors that may be shown; None where none may. Noise may take them below 0 or
        above 2, where no error is: they are taken for these.
    checks
        What the checks of the synthetic table found.
    uniform
        The workload distance of a uniform table from the synthetic one: where there is no public
        table, it bounds the error of the uniform table by that of the synthetic one.
    domain
        The domain, if it may be shown; its attributes of many values are named in the advice.
    quality
        Shapes and trends beside released counts, of `jam_dagster.evaluation.quality`. Exact ones
        are told where the errors have them.
    unmeasured
        The headline where there are no errors.
    """
    failed = sum(not one.passed for one in checks)
    skipped = sum(not one.measured for one in checks)
    found = _compared(errors, uniform, domain, unmeasured)
    headline, notes = found.headline, list(found.notes)
    if failed:
        checked = "check" if len(checks) == 1 else "checks"
        headline = f"{failed} of {len(checks)} {checked} failed. {headline}"
    if errors is not None and errors.sample_equivalent and not found.hidden:
        records = f"{errors.sample_equivalent:,} private records"
        if errors.equivalent_within is not None:
            records += " ({:,} to {:,} within the noise)".format(*errors.equivalent_within)
        notes.append(f"It is as good as a random sample of {records}.")
    if quality:
        notes.append(quality)
    if errors is not None and errors.narrow is not None and errors.narrow.per_marginal:
        exactly = errors.narrow.per_marginal
        attributes = sum(len(clique) == 1 for clique in exactly)
        notes.append(f"Exactly: {quality_text(exactly, attributes)}.")
    exact = errors is not None and errors.restricted
    return replace(
        found,
        headline=headline,
        notes=tuple(notes),
        failed=failed,
        skipped=skipped,
        restricted=exact,
    )


def _compared(
    errors: WorkloadErrors | None, uniform: float | None, domain: Domain | None, unmeasured: str
) -> Verdict:
    """Return the verdict of the errors alone."""
    if errors is None or errors.synthetic is None:
        return Verdict("not measured", unmeasured)
    ours, noise = errors.synthetic.possible, errors.margin
    if errors.public is not None:
        # Both means have noise of their own.
        theirs, margin = errors.public.possible, math.sqrt(2.0) * noise
        difference, other = ours - theirs, "the public table"
        means = f"mean error {ours:.3f} against {theirs:.3f}"
        said = f"The difference is {_told(difference, sign='+')}"
    elif uniform is not None:
        # The triangle inequality bounds the error of the uniform table.
        theirs, margin = uniform, 2.0 * noise
        least, most = abs(uniform - ours), min(uniform + ours, MOST)
        difference, other = ours - least, "a uniform table"
        means = f"mean error {ours:.3f} against {least:.3f} to {most:.3f}"
        said = (
            f"A uniform table is {uniform:.3f} from the synthetic one, so the difference of their"
            f" errors is at most {_told(difference, sign='+')}"
        )
    else:
        return Verdict("not measured", f"The mean error is {ours:.3f} of 2.")
    outcome: Outcome
    if difference < -margin:
        outcome, words = "better", "Better than"
    elif difference > margin and errors.public is not None:
        outcome, words = "worse", "Worse than"
    else:
        outcome, words = "undecided", "No clear difference from"
    if outcome == "undecided" and margin and margin >= min(max(ours, theirs), MOST / 2):
        return Verdict(
            "undecided",
            f"Nothing is known of the error at this budget: its noise of ±{margin:.3g} hides it.",
            advice=_TELLS,
            difference=difference,
            margin=margin,
            hidden=True,
        )
    if outcome == "undecided" and margin:
        means += f", and noise of ±{margin:.3f} in their difference"
    elif errors.public is not None and min(ours, theirs) > margin:
        # Of an error within its noise no ratio is known.
        if ours > 2.0 * theirs:
            means += f", {ours / theirs:.1f} times it"
        else:
            share = abs(difference) / theirs
            told = f"{share:.0%}" if share >= 0.005 or not share else "under 1%"
            means += f", {told} {'less' if difference < 0 else 'more'}"
    sure = (
        f" within ±{_told(margin)}, with a confidence of {CONFIDENCE:.0%}"
        if margin
        else ", exactly"
    )
    advice = _advice(domain, public=errors.public is not None)
    if margin and outcome == "undecided":
        advice = (_TELLS[0], *advice)
    return Verdict(
        outcome,
        f"{words} {other}: {means}.",
        (f"{said}{sure}.",),
        () if outcome == "better" else advice,
        difference,
        margin,
    )


def _told(number: float, sign: str = "") -> str:
    """Return a number in three places, or a digit of one that these would take for zero."""
    small = 0 < abs(number) < 0.0005
    return f"{number:{sign}.1g}" if small else f"{number:{sign}.3f}"


_TELLS = (
    "a larger share for the evaluation: evaluation.share, --evaluation-share",
    "more epsilon",
    "more records",
)
"""What makes errors known that noise hides."""


def _advice(domain: Domain | None, *, public: bool) -> tuple[str, ...]:
    """Return what may help a release that is not better, from public facts."""
    wide = [] if domain is None else sorted(domain.attributes, key=lambda one: -one.size)[:3]
    named = ", ".join(f"{one.name} ({one.size})" for one in wide if one.size > _WIDE_CELLS)
    coarser = "coarser values of attributes that have many"
    return (
        "fewer columns: leave out those that nobody needs",
        f"{coarser}: {named}" if named else coarser,
        "a workload of lower degree",
        "another mechanism: jam-dagster plan compares them on public data"
        if public
        else "another mechanism: jam-dagster mechanisms lists them",
        "more epsilon",
    )
