"""The verdict on a release: whether it is better than what was there without it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from jam_dagster.evaluation.domain_fit import (
    copied_columns,
    listed,
    misfit_sentence,
    remedy_sentence,
    unknown_sentences,
)
from jam_dagster.evaluation.quality import exact_quality
from jam_dagster.evaluation.workload_error import CONFIDENCE, MOST

if TYPE_CHECKING:
    from jam_dagster.evaluation.domain_fit import ColumnFit
    from jam_dagster.evaluation.expectations.spec import ExpectationResult
    from jam_dagster.evaluation.quality import Quality
    from jam_dagster.evaluation.workload_error import TableErrors, WorkloadErrors
    from jam_dagster.tables.domain.domain import Domain

Outcome = Literal["better", "worse", "undecided", "not measured"]

_WIDE_CELLS = 20
_LEAST_SAMPLE = 2


@dataclass(frozen=True)
class Verdict:
    """Whether a synthetic table is better than the public one, or than a uniform one without.

    Attributes
    ----------
    outcome
        "better" and "worse" hold with a confidence of 95% over the noise of the errors, and without
        doubt where these are exact; "undecided" is neither.
    headline
        The verdict in a sentence, after the columns that the domain does not fit and the checks
        that failed.
    notes
        In plain words: whether noise explains the difference, what the table is as good as, where
        it is weakest.
    statistics
        The numbers behind the notes.
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
    misfits
        The columns that the domain does not fit.
    clipped
        The columns of the compared public table that the domain clips.
    hidden
        Whether noise hides the error: it may be anything up to the largest.
    restricted
        Whether it follows from exact errors, and so is a statistic of private data.
    """

    outcome: Outcome
    headline: str
    notes: tuple[str, ...] = ()
    statistics: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    difference: float | None = None
    margin: float = 0.0
    failed: int = 0
    skipped: int = 0
    misfits: tuple[str, ...] = ()
    clipped: tuple[str, ...] = ()
    hidden: bool = False
    restricted: bool = False

    @property
    def good(self) -> bool:
        """Whether no check failed, the domain fits, and the table is better or was not measured.

        A public table that the domain clips is no table to be better than.
        """
        return not self.failed and self._sound and self.outcome in ("better", "not measured")

    @property
    def better(self) -> bool:
        """Whether the table is better, in columns that the domain fits in both tables."""
        return self._sound and self.outcome == "better"

    @property
    def _sound(self) -> bool:
        """Whether the comparison of errors sees all columns as they are."""
        return not self.misfits and not self.clipped

    @property
    def known(self) -> bool:
        """Whether the error was measured, and noise does not hide it."""
        return self.difference is not None and not self.hidden

    @property
    def sentences(self) -> tuple[str, ...]:
        """All that is said, the headline first."""
        helps = (f"{self.helps}: {'; '.join(self.advice)}.",) if self.advice else ()
        return (self.headline, *self.notes, *self.statistics, *helps)

    @property
    def helps(self) -> str:
        """What the advice is for."""
        return "What would tell" if self.hidden else "What may help"


def verdict_of(
    errors: WorkloadErrors | None,
    *,
    checks: Sequence[ExpectationResult] = (),
    fits: Sequence[ColumnFit] = (),
    clipped: Mapping[str, float] | None = None,
    uniform: float | None = None,
    domain: Domain | None = None,
    quality: Quality | None = None,
    unmeasured: str = "The error was not measured.",
    recommended: str = "",
) -> Verdict:
    """Judge a release by its errors, its checks and what was paid for.

    Parameters
    ----------
    errors
        The workload errors that may be shown; None where none may. Noise may take them below 0 or
        above 2, where no error is: they are taken for these.
    checks
        What the checks of the synthetic table found.
    fits
        How the domain fits the columns, if that may be shown.
    clipped
        The share of public cells that the domain moves to a bound, by column, if it is large.
    uniform
        The workload distance of a uniform table from the synthetic one: where there is no public
        table, and the uniform one's error was not measured, it bounds that by the synthetic one's.
    domain
        The domain, if it may be shown; its attributes of many values are named in the advice.
    quality
        Shapes and trends beside released counts, of `jam_dagster.evaluation.quality`. If the errors
        have exact ones, these are added.
    unmeasured
        The headline where there are no errors.
    recommended
        The mechanism that is recommended for such tables, where another one ran.
    """
    rules = [one for one in checks if "rule" in one.metadata]
    checks = [one for one in checks if "rule" not in one.metadata]
    broken = [one for one in checks if not one.passed]
    failed = [one.name for one in sorted(broken, key=lambda one: one.severity != "ERROR")]
    skipped = sum(not one.measured for one in checks)
    public = errors is not None and errors.public is not None
    advice = _advice(domain, public=public, recommended=recommended)
    found = _compared(errors, uniform, unmeasured, advice)
    headline, notes, statistics = found.headline, list(found.notes), list(found.statistics)
    misfits = tuple(one.attribute.name for one in fits if one.misfit is not None)
    if failed:
        checked = "check" if len(checks) == 1 else "checks"
        # A misfit is named before, and its check bears its name.
        names = "" if misfits else f" ({listed(failed)})"
        headline = f"{len(failed)} of {len(checks)} {checked} failed{names}. {headline}"
    wrecked = clipped if clipped and public else {}
    if wrecked:
        headline = f"{headline} {_clipped_sentence(wrecked)}"
        notes.insert(0, _CLIPPED)
    if misfits:
        # Before any praise: the error is taken after encoding, so it does not see this.
        headline = f"{misfit_sentence(fits)} {headline}"
        notes.insert(0, remedy_sentence(fits))
    # No sample of private records has lost a column.
    comparable = not found.hidden and not misfits
    if errors is not None and errors.sample_equivalent is not None and comparable:
        notes.append(_equivalent(errors.sample_equivalent))
        if errors.sample_equivalent >= _LEAST_SAMPLE and errors.equivalent_within is not None:
            least, most = errors.equivalent_within
            statistics.append(
                f"The size of that sample is {least:,} to {most:,} records, with a confidence of"
                f" {CONFIDENCE:.0%}."
            )
    notes += unknown_sentences(fits)
    notes += _rule_sentences(rules)
    copied = [] if domain is None else copied_columns(domain)
    if copied:
        notes.append(
            f"Nothing compares {listed(copied)} with the private table: a table of values in the"
            " domain determines it by other columns."
        )
    qualities = [] if quality is None else [quality]
    if errors is not None and errors.narrow is not None and errors.narrow.per_marginal:
        exactly = errors.narrow.per_marginal
        qualities.append(exact_quality(exactly, sum(len(clique) == 1 for clique in exactly)))
    notes += [one.note for one in qualities]
    statistics += [one.statistics for one in qualities]
    exact = errors is not None and errors.restricted
    return replace(
        found,
        headline=headline,
        notes=tuple(notes),
        statistics=tuple(statistics),
        failed=len(failed),
        skipped=skipped,
        misfits=misfits,
        clipped=tuple(wrecked),
        restricted=exact,
    )


def _rule_sentences(rules: Sequence[ExpectationResult]) -> Iterator[str]:
    """Yield how many rules are broken in the synthetic table, and which in most rows."""
    broken = [one for one in rules if not one.passed]
    if broken:
        worst = max(broken, key=lambda one: one.unexpected or 0)
        yield (
            f"The synthetic table breaks {len(broken)} of the {len(rules)} rules that its rows are"
            f" to keep, most often that {worst.metadata['rule']}: in {worst.unexpected or 0:,} of"
            f" {worst.checked or 0:,} rows."
        )


_CLIPPED = (
    "The comparison does not leave out the columns that the domain clips in the public table, and"
    " part of the public error comes from that: shift the public dates to the period of the private"
    " table, or mend the bounds."
)


def _clipped_sentence(clipped: Mapping[str, float]) -> str:
    shares = [f"{name} ({share:.0%} of its cells)" for name, share in clipped.items()]
    return f"The domain clips the public table in {listed(shares)}."


def _compared(
    errors: WorkloadErrors | None, uniform: float | None, unmeasured: str, advice: tuple[str, ...]
) -> Verdict:
    """Return the verdict of the errors alone."""
    if errors is None or errors.synthetic is None:
        return Verdict("not measured", unmeasured)
    ours, noise = errors.synthetic, errors.margin
    told = f"mean error {mean_text(ours, noise)}"
    if errors.public is not None:
        found = _beside(told, ours, errors.public, noise, _PUBLIC, advice)
    elif errors.uniform is not None:
        found = _beside(told, ours, errors.uniform, noise, _UNIFORM, advice)
    elif uniform is not None:
        found = _beside_uniform(told, ours.possible, uniform, noise, advice)
    else:
        return Verdict("not measured", f"The {told} of {MOST:g}.")
    if noise and found.outcome == "undecided":
        found = replace(found, advice=(_TELLS[0], *found.advice))
        if ours.possible <= noise and ours.possible + noise >= MOST:
            headline = (
                "Nothing is known of the error at this budget: with its noise it may be anything"
                f" up to {MOST:g}."
            )
            return replace(
                found, headline=headline, notes=(), statistics=(), advice=_TELLS, hidden=True
            )
    return found


def _beside(
    told: str,
    ours: TableErrors,
    theirs: TableErrors,
    noise: float,
    other: str,
    advice: tuple[str, ...],
) -> Verdict:
    """Compare two measured errors, both of which have noise of their own."""
    difference, margin = ours.possible - theirs.possible, math.sqrt(2.0) * noise
    means = f"{told} against {mean_text(theirs, noise)}"
    # A share is told where it is known to a quarter of itself.
    if theirs.possible and abs(difference) >= 4.0 * margin and min(ours.mean, theirs.mean) > margin:
        share = abs(difference) / theirs.possible
        if difference > theirs.possible:
            means += f", {1.0 + share:.1f} times it"
        else:
            part = f"{share:.0%}" if share >= 0.005 or not share else "under 1%"
            means += f", {part} {'less' if difference < 0 else 'more'}"
    sure = f" within ±{_told(margin)}, with a confidence of {CONFIDENCE:.0%}"
    statistics = (f"The difference is {_told(difference, '+')}{sure if margin else ', exactly'}.",)
    outcome: Outcome = "undecided"
    if abs(difference) > margin:
        outcome = "better" if difference < 0 else "worse"
    explains = "may explain" if outcome == "undecided" else "does not explain"
    notes = (f"The noise of the errors {explains} the difference.",) if margin else ()
    if outcome == "worse" and other == _PUBLIC:
        advice = ("the public table itself, if it answers the question", *advice)
    headline = f"{_WORDS[outcome]} {other}: {means}."
    advice = () if outcome == "better" else advice
    return Verdict(outcome, headline, notes, statistics, advice, difference, margin)


def _beside_uniform(
    told: str, ours: float, uniform: float, noise: float, advice: tuple[str, ...]
) -> Verdict:
    """Compare with a uniform table, whose error the triangle inequality bounds."""
    least, most = abs(uniform - ours), min(uniform + ours, MOST)
    difference, margin = ours - least, 2.0 * noise
    bounds = f"{least:.3f} to {most:.3f}"
    if difference < -margin:
        sure = f" within ±{_told(margin)}, with a confidence of {CONFIDENCE:.0%}"
        note = "A table without any information is further from the private one."
        statistic = (
            f"A uniform table is {uniform:.3f} from the synthetic one, so the difference of their"
            f" errors is at most {_told(difference, '+')}{sure if margin else ', exactly'}."
        )
        headline = f"{_WORDS['better']} {_UNIFORM}: {told} against {bounds}."
        return Verdict("better", headline, (note,), (statistic,), (), difference, margin)
    note = "A table without any information may be as close to the private one."
    statistic = (
        f"A uniform table is {uniform:.3f} from the synthetic one, so its error is"
        f" {'about ' if noise else ''}{bounds}."
    )
    little = ours - noise > MOST / 2
    headline = f"Not known to be better than {_UNIFORM}: {told} of {MOST:g}."
    if little:
        headline = f"Of little use: {told} of {MOST:g}, and {_UNIFORM} may be better."
    return Verdict("undecided", headline, (note,), (statistic,), advice, difference, margin)


_PUBLIC, _UNIFORM = "the public table", "a uniform table"

_WORDS = {
    "better": "Better than",
    "worse": "Worse than",
    "undecided": "No clear difference from",
}


def mean_text(table: TableErrors, noise: float) -> str:
    """Return a mean with its interval, or the most that it is where it may be none."""
    if not noise:
        return f"{table.possible:.3f}"
    if table.possible <= noise:
        return f"at most {min(table.possible + noise, MOST):.3f}"
    return f"{table.possible:.3f} ± {_told(noise)}"


def _told(number: float, sign: str = "") -> str:
    """Return a number in three places, or a digit of one that these would take for zero."""
    small = 0 < abs(number) < 0.0005
    return f"{number:{sign}.1g}" if small else f"{number:{sign}.3f}"


def _equivalent(found: int) -> str:
    """Say what size a random sample of private records is as good."""
    size = f"{found:,}" if found >= _LEAST_SAMPLE else "fewer than two"
    return f"The table is as good as a random sample of {size} private records."


_TELLS = (
    "a larger share for the evaluation: evaluation.share, --evaluation-share",
    "more epsilon",
    "more records",
)
"""What makes errors known that noise hides."""


def _advice(domain: Domain | None, *, public: bool, recommended: str) -> tuple[str, ...]:
    """Return what may help a release that is not better, from public facts."""
    wide = [] if domain is None else sorted(domain.attributes, key=lambda one: -one.size)[:3]
    named = ", ".join(f"{one.name} ({one.size})" for one in wide if one.size > _WIDE_CELLS)
    coarser = "coarser values of attributes that have many"
    mechanism = f"the mechanism {recommended}, which is recommended here"
    if not recommended:
        plan = "jam-dagster plan compares them on public data"
        mechanism = f"another mechanism: {plan if public else 'jam-dagster mechanisms lists them'}"
    return (
        "fewer columns: leave out those that nobody needs",
        f"{coarser}: {named}" if named else coarser,
        "a workload of lower degree",
        mechanism,
        "more epsilon",
    )
