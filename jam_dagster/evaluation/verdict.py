"""The verdict on a release: whether it is better than the public or a uniform table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from jam_dagster.evaluation.domain_fit import (
    copied_columns,
    misfit_columns,
    misfit_sentence,
    remedy_sentence,
    unknown_sentences,
)
from jam_dagster.evaluation.score_histograms import Area, area
from jam_dagster.evaluation.sentences import TABLES, listed, said
from jam_dagster.evaluation.workload_error import CONFIDENCE, MOST, TableErrors

if TYPE_CHECKING:
    from jam_dagster.evaluation.coarse_pairs import PairErrors
    from jam_dagster.evaluation.domain_fit import ColumnFit
    from jam_dagster.evaluation.expectations.spec import ExpectationResult
    from jam_dagster.evaluation.workload_error import WorkloadErrors
    from jam_dagster.tables.domain.domain import Domain

Outcome = Literal["better", "mixed", "worse", "undecided", "not measured"]

ALIKE = 0.002
"""How much further a table may be in pairs or associations: a difference without a use."""

_LINES = ("pairs", "association", "purpose")
"""The errors of a table that are not of the workload."""

_WIDE_CELLS = 20
_said = partial(said, confidence=CONFIDENCE, largest=MOST)


@dataclass(frozen=True)
class Verdict:
    """Whether a synthetic table is better than the public one, or than a uniform one without.

    Attributes
    ----------
    outcome
        "better" and "worse" hold with a confidence of 95% over the noise of the errors, and without
        doubt where these are exact. "mixed": it is closer in the counts of the workload, and
        further in pairs or associations, or that is not known. "undecided" is neither.
    headline
        The verdict in a sentence, after the checks that failed; or the columns that the domain does
        not fit, and then a note compares the other columns.
    notes
        Whether noise explains the difference, and which sample is as good.
    statistics
        The numbers behind the notes.
    advice
        Sentences that say how to improve a table that is not better.
    difference
        Error of the synthetic table less that of the other, a fraction of the records; of a uniform
        table, the most that it can be. None if it was not measured.
    margin
        Half the width of the interval of the difference.
    gain
        What the budget bought: the error of the public prior less that of the synthetic table. None
        if it was not measured.
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
    gain: float | None = None
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
        """All sentences, the headline first and the advice in one paragraph."""
        helps = (" ".join((self.helps, *self.advice)),) if self.advice else ()
        return (self.headline, *self.notes, *self.statistics, *helps)

    @property
    def helps(self) -> str:
        """The sentence before the advice."""
        return _said("may_make_known" if self.hidden else "may_help")


def verdict_of(
    errors: WorkloadErrors | None,
    *,
    checks: Sequence[ExpectationResult] = (),
    fits: Sequence[ColumnFit] = (),
    clipped: Mapping[str, float] | None = None,
    uniform: float | None = None,
    singles: float | None = None,
    domain: Domain | None = None,
    unmeasured: str = "unmeasured",
    recommended: str = "",
    compared: str = "public",
    learned: bool = True,
    apart: PairErrors | None = None,
    lost: Sequence[str] = (),
    related: Sequence[str] = (),
    measured: Sequence[str] | None = None,
    held_out: Mapping[str, tuple[float, float]] | None = None,
) -> Verdict:
    """Judge a release by its errors, its checks and what was paid for.

    Parameters
    ----------
    errors
        The workload errors that may be shown; None if none may. Errors that noise takes below 0 or
        above 2 count as 0 or 2.
    checks
        Results of the checks of the synthetic table.
    fits
        How the domain fits the columns, if that may be shown.
    clipped
        The share of public cells that the domain moves to a bound, by column, if it is large.
    uniform
        The workload distance of a uniform table from the synthetic one. Without a public table, and
        if the uniform one's error was not measured, it bounds that by the synthetic one's.
    singles
        The workload distance from the synthetic table of the product of the counts that bought a
        domain, if there is no public table.
    domain
        The domain, if it may be shown; its attributes of many values are named in the advice.
    unmeasured
        The key of the headline if there are no errors.
    recommended
        The mechanism that is recommended for such tables, where another one ran.
    compared
        The key of the public table's name: "public", "several" or "drawn_on".
    learned
        Whether the mechanism learned from the public table.
    apart
        How far the synthetic table is from the public one, which bounds how far their errors are.
    lost
        Pairs that are related in the public table, and hardly in the synthetic one.
    related
        Pairs that were added to the workload, since the public table relates them.
    measured
        The marginals of two attributes or more that were measured privately, of a release that
        names no purpose; None: it names one, or they may not be shown.
    held_out
        By target the areas under the ROC curve on held-out public rows, of a classifier that learns
        from the synthetic rows, and of one that learns from the other public rows.
    """
    rules = [one for one in checks if "rule" in one.metadata]
    checks = [one for one in checks if "rule" not in one.metadata]
    broken = [one for one in checks if not one.passed]
    failed = [one.name for one in sorted(broken, key=lambda one: one.severity != "ERROR")]
    skipped = sum(not one.measured for one in checks)
    public = errors is not None and errors.public is not None
    advice = _advice(domain, public=public, recommended=recommended)
    other = compared if public else "uniform"
    found = _compared(errors, uniform, _said(unmeasured), advice, apart, other)
    headline, notes, statistics = found.headline, list(found.notes), list(found.statistics)
    misfits = misfit_columns(fits)
    if misfits:
        # The rest of the table earns no praise for a lost column.
        notes = [remedy_sentence(fits), _remaining(errors, found, other)]
        headline, found = misfit_sentence(fits), replace(found, advice=())
    if failed:
        # A misfit's check bears its name.
        key = "failed" if misfits else "failed_named"
        before = _said(key, failed=len(failed), checks=len(checks), names=listed(failed))
        headline = f"{headline} {before}" if misfits else f"{before} {headline}"
    wrecked = clipped if clipped and public else {}
    if wrecked:
        shares = listed([f"{name} ({share:.0%})" for name, share in wrecked.items()])
        headline = f"{headline} {_said('clipped', shares=shares)}"
        notes.insert(0, _said("clipped_counts"))
    measured_ours = None if errors is None or public else errors.synthetic
    if errors is not None and errors.bought is not None and not (found.hidden or misfits):
        statistics.append(_said("singles_measured", singles=errors.bought.mean))
    elif measured_ours is not None and singles is not None and not (found.hidden or misfits):
        ours = measured_ours.possible
        least, most = abs(singles - ours), min(singles + ours, MOST)
        statistics.append(_said("singles_within", singles=singles, least=least, most=most))
    # No sample of private records has lost a column.
    comparable = not found.hidden and not misfits
    if errors is not None and errors.sample_equivalent is not None and comparable:
        few = errors.sample_equivalent < 2
        notes.append(_said("sample_tiny" if few else "sample", records=errors.sample_equivalent))
        if not few and errors.equivalent_within is not None:
            least, most = errors.equivalent_within
            statistics.append(_said("sample_within", least=least, most=most))
    if related:
        notes.append(_said("related", pairs=listed(related)))
    if lost:
        notes.append(_said("relation_lost", pairs=listed(lost)))
    notes += [] if errors is None else _scored_sentences(errors, compared)
    for target, (ours, theirs) in (held_out or {}).items():
        notes.append(_said("held_out", target=target, ours=ours, theirs=theirs))
    if measured:
        notes.append(_said("measured", marginals=listed(measured)))
    elif measured is not None:
        notes.append(_said("measured_alone", table=TABLES[other if learned else "uniform"]))
    notes += unknown_sentences(fits)
    notes += _rule_sentences(rules)
    copied = [] if domain is None else copied_columns(domain)
    if copied:
        notes.append(_said("copied", columns=listed(copied)))
    return replace(
        found,
        headline=headline,
        notes=tuple(notes),
        statistics=tuple(statistics),
        failed=len(failed),
        skipped=skipped,
        misfits=misfits,
        clipped=tuple(wrecked),
        restricted=errors is not None and errors.restricted,
    )


def _remaining(errors: WorkloadErrors | None, found: Verdict, other: str) -> str:
    """Return what was measured of the columns that the domain fits, without a judgement."""
    if errors is None or errors.synthetic is None or found.hidden:
        return found.headline
    if not errors.left_out:
        return _said("none_left")
    ours = mean_text(errors.synthetic, errors.margin)
    theirs = errors.uniform if errors.public is None else errors.public
    if theirs is None:
        return _said("remaining", ours=ours)
    means = {"ours": ours, "theirs": mean_text(theirs, errors.margin)}
    return _said("remaining_beside", table=TABLES[other], **means)


def _rule_sentences(rules: Sequence[ExpectationResult]) -> list[str]:
    """Return how many rules are broken in the synthetic table, and which in most rows."""
    broken = [one for one in rules if not one.passed]
    if not broken:
        return []
    worst = max(broken, key=lambda one: one.unexpected or 0)
    rows = {"rows": worst.unexpected or 0, "checked": worst.checked or 0}
    key, rule = "rule_broken" if len(rules) == 1 else "rules_broken", worst.metadata["rule"]
    return [_said(key, broken=len(broken), rules=len(rules), rule=rule, **rows)]


def _compared(
    errors: WorkloadErrors | None,
    uniform: float | None,
    unmeasured: str,
    advice: tuple[str, ...],
    apart: PairErrors | None,
    other: str,
) -> Verdict:
    """Return the verdict of the errors alone, against the table of the key `other`."""
    if errors is None or errors.synthetic is None:
        return Verdict("not measured", unmeasured)
    ours, noise = errors.synthetic, errors.margin
    if errors.public is not None:
        found = _beside(ours, errors.public, noise, other, advice)
        found = _with_lines(found, ours, errors.public, noise, apart, errors.sigma, other)
    elif errors.uniform is not None:
        found = _beside(ours, errors.uniform, noise, other, advice)
    elif uniform is not None:
        found = _beside_uniform(ours, uniform, noise, advice)
    else:
        return Verdict("not measured", _said("alone", ours=mean_text(ours, noise)))
    if errors.public is None:
        found = replace(found, statistics=(*found.statistics, *_lines_alone(ours, noise)))
    if noise and found.outcome == "undecided":
        found = replace(found, advice=(_said("larger_share"), *found.advice))
        if ours.possible <= noise and ours.possible + noise >= MOST:
            found = replace(found, headline=_said("hidden"), notes=(), statistics=(), hidden=True)
            advice = tuple(map(_said, ("larger_share", "more_epsilon", "more_records")))
            return replace(found, advice=advice)
    return found if errors.prior is None else _with_gain(found, ours, errors.prior, noise)


def _with_lines(
    found: Verdict,
    ours: TableErrors,
    theirs: TableErrors,
    noise: float,
    apart: PairErrors | None,
    sigma: float,
    other: str,
) -> Verdict:
    """Return the verdict on the workload's counts with that on pairs and associations."""
    further, unknown, statistics = {}, False, list(found.statistics)
    for name in _LINES:
        our, their = getattr(ours, name), getattr(theirs, name)
        if our is None or their is None:
            continue
        texts = {
            "line": _said(name),
            "ours_there": mean_text(TableErrors(our), noise),
            "theirs_there": mean_text(TableErrors(their), noise),
        }
        statistics.append(_said("line", **texts))
        difference = TableErrors(our).possible - TableErrors(their).possible
        margin = math.sqrt(2.0) * noise
        most = difference + margin
        distance = getattr(apart, name, None)
        if distance is not None:
            # The triangle inequality: no error is further from the other than the tables are.
            most = min(most, distance)
        if most > ALIKE:
            unknown = True
        if difference - margin > ALIKE:
            further[name] = (difference, texts)
    for target in ours.scores.keys() & theirs.scores.keys():
        mine, yours = (area(one.scores[target], sigma) for one in (ours, theirs))
        if mine is not None and yours is not None:
            worse = yours.area - mine.area
            if worse > math.hypot(mine.margin, yours.margin):
                texts = {
                    "line": _said("classifier", target=target),
                    "ours_there": _area_text(mine),
                    "theirs_there": _area_text(yours),
                }
                further[target], unknown = (worse, texts), True
    found = replace(found, statistics=tuple(statistics))
    _, worst = max(further.values(), key=lambda one: one[0], default=(0.0, None))
    if found.outcome != "better":
        notes = (
            (_said("further_in", table=TABLES[other], **worst),)
            if worst and found.outcome == "undecided"
            else ()
        )
        return replace(found, notes=(*found.notes, *notes))
    if not unknown:
        return found
    means = {"ours": mean_text(ours, noise), "theirs": mean_text(theirs, noise)}
    key, more = ("closer_further", worst) if worst else ("closer_unknown", {})
    return replace(
        found,
        outcome="mixed",
        headline=_said(key, table=TABLES[other], **means, **more),
        advice=(_said("use_each", table=TABLES[other]),) if worst else (_said("larger_share"),),
    )


def _lines_alone(ours: TableErrors, noise: float) -> list[str]:
    """Return the errors in pairs and associations, where no public table has any."""
    lines = [(name, getattr(ours, name)) for name in _LINES]
    return [
        _said("line_alone", line=_said(name), ours_there=mean_text(TableErrors(mean), noise))
        for name, mean in lines
        if mean is not None
    ]


def _scored_sentences(errors: WorkloadErrors, compared: str) -> list[str]:
    """Return how well classifiers of each target predict private records."""
    ours = errors.synthetic
    made, sigma = [], errors.sigma
    for target, shares in () if ours is None else ours.scores.items():
        others = [
            _said(
                "learnt_from", table=TABLES[name], area=_area_text(area(one.scores[target], sigma))
            )
            for name, one in ((compared, errors.public), ("prior", errors.prior))
            if one is not None and target in one.scores
        ]
        mine = area(shares, sigma)
        texts = {"target": target, "ours": _area_text(mine), "others": "".join(others)}
        made.append(_said("scores_hidden" if mine is None else "scored", **texts))
    return made


def _area_text(found: Area | None) -> str:
    return _said("unknown") if found is None else f"{found.area:.3f} ± {found.margin:.3f}"


def _with_gain(found: Verdict, ours: TableErrors, prior: TableErrors, noise: float) -> Verdict:
    """Return a verdict that says what the budget bought beyond the free baseline."""
    gain, margin = prior.possible - ours.possible, math.sqrt(2.0) * noise
    key = "bought" if gain > margin else "bought_less" if gain < -margin else "bought_nothing"
    text = mean_text(TableErrors(gain), margin) if key == "bought" else ""
    bought = _said(key, gain=text, prior=mean_text(prior, noise))
    # Noise that may explain the gain comes before any praise.
    parts = (found.headline, bought) if key == "bought" else (bought, found.headline)
    statistics = found.statistics
    if margin:
        statistics = (
            *statistics,
            _said("gain", **{**_texts(gain, margin), "gain": _rounded(gain, "+")}),
        )
    return replace(found, headline=" ".join(parts), statistics=statistics, gain=gain)


def _beside(
    ours: TableErrors, theirs: TableErrors, noise: float, other: str, advice: tuple[str, ...]
) -> Verdict:
    """Compare two measured errors, both of which have noise of their own."""
    difference, margin = ours.possible - theirs.possible, math.sqrt(2.0) * noise
    outcome: Outcome = "undecided"
    if abs(difference) > margin:
        outcome = "better" if difference < 0 else "worse"
    means = {"ours": mean_text(ours, noise), "theirs": mean_text(theirs, noise)}
    headline = _said(outcome, table=TABLES[other], **means)
    # A share is shown if it is known to a quarter of itself.
    sure = abs(difference) >= 4.0 * margin and min(ours.mean, theirs.mean) > margin
    if difference and theirs.possible and sure:
        share = abs(difference) / theirs.possible
        key = "better_by" if difference < 0 else "worse_times" if share > 1.0 else "worse_by"
        part = f"{share:.0%}" if share >= 0.005 else f"{100.0 * share:.1g}%"
        headline = _said(key, table=TABLES[other], share=part, times=1.0 + share, **means)
    explained = _said(
        "noise_explains" if outcome == "undecided" else "noise_does_not", table=TABLES[other]
    )
    statistic = _said("difference" if margin else "difference_exact", **_texts(difference, margin))
    if outcome == "worse" and other != "uniform":
        advice = (_said("use_public", table=TABLES[other]), *advice)
    advice = () if outcome == "better" else advice
    notes = (explained,) if margin else ()
    return Verdict(outcome, headline, notes, (statistic,), advice, difference, margin)


def _beside_uniform(
    table: TableErrors, uniform: float, noise: float, advice: tuple[str, ...]
) -> Verdict:
    """Compare with a uniform table, whose error the triangle inequality bounds."""
    ours, suffix = table.possible, "" if noise else "_exact"
    least, most = abs(uniform - ours), min(uniform + ours, MOST)
    difference, margin = ours - least, 2.0 * noise
    mean, name = mean_text(table, noise), TABLES["uniform"]
    if difference < -margin:
        headline = _said("better_within", table=name, ours=mean, least=least, most=most)
        note, numbers = _said("uniform_further"), _texts(difference, margin)
        statistic = _said(f"bound_of_difference{suffix}", uniform=uniform, **numbers)
        bought = _said("bought_within", least=least - ours, most=most - ours)
        headline = f"{headline} {bought}"
        return Verdict("better", headline, (note,), (statistic,), (), difference, margin)
    little = ours - noise > MOST / 2
    headline = _said("little_use" if little else "unproven", table=name, ours=mean)
    note = _said("uniform_close")
    statistic = _said(f"uniform_within{suffix}", uniform=uniform, least=least, most=most)
    return Verdict("undecided", headline, (note,), (statistic,), advice, difference, margin)


def _texts(difference: float, margin: float) -> dict[str, str]:
    return {"difference": _rounded(difference, "+"), "margin": _rounded(margin)}


def mean_text(table: TableErrors, noise: float) -> str:
    """Return a mean with its interval, or its upper bound if it may be zero."""
    if not noise:
        return f"{table.possible:.3f}"
    if table.possible <= noise:
        return _said("at_most", mean=f"{min(table.possible + noise, MOST):.3f}")
    return f"{table.possible:.3f} ± {_rounded(noise)}"


def _rounded(number: float, sign: str = "") -> str:
    """Return a number in three places, or a digit of one that these would take for zero."""
    small = 0 < abs(number) < 0.0005
    return f"{number:{sign}.1g}" if small else f"{number:{sign}.3f}"


def _advice(domain: Domain | None, *, public: bool, recommended: str) -> tuple[str, ...]:
    """Return what may help a release that is not better, from public facts."""
    wide = [] if domain is None else sorted(domain.attributes, key=lambda one: -one.size)[:3]
    named = ", ".join(f"{one.name} ({one.size})" for one in wide if one.size > _WIDE_CELLS)
    mechanism = "recommended" if recommended else "plan" if public else "mechanisms"
    return (
        _said("fewer_columns"),
        _said("coarser_named" if named else "coarser", columns=named),
        _said("lower_degree"),
        _said(mechanism, mechanism=recommended),
        _said("more_epsilon"),
    )
