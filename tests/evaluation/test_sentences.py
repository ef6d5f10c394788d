"""Each sentence of the table appears in a small case, with exactly its fields."""

from __future__ import annotations

from dataclasses import replace
from string import Formatter
from typing import Any

import pytest

from jam_dagster.evaluation import (
    ExpectationResult,
    TableErrors,
    Verdict,
    WorkloadErrors,
    verdict_of,
)
from jam_dagster.evaluation.domain_fit import CatchAllShare, ColumnFit
from jam_dagster.evaluation.sentences import SENTENCES, TABLES, said
from jam_dagster.tables import DerivedColumn, Domain, NumericAttribute
from jam_dagster.tables.domain.categorical import CategoricalAttribute
from jam_dagster.tables.domain.lookups import Lookup

PUBLIC, UNIFORM = TABLES["public"], TABLES["uniform"]
WIDE = Domain.from_sizes({"a": 2, "b": 30})
# The checks of the pipeline have these as descriptions, and its tests look at them.
OF_CHECKS = {"error_known", "better_than", "closer_than", "half", "domain_fits", "misfit_withheld"}
OF_CHECKS |= {"passed_over"}
# Names of errors, which are fields of others.
NAMES = {"pairs", "association", "purpose", "correlation"}


def lined(ours: float, theirs: float, sigma: float = 0.01) -> WorkloadErrors:
    """Return errors with an association beside the workload's, of 0.1 and 0.5."""
    tables = TableErrors(0.1, association=ours), TableErrors(0.5, association=theirs)
    return WorkloadErrors("private" if sigma else "exact", *tables, sigma=sigma)


def scored(ours: float, theirs: float, sigma: float = 0.0) -> WorkloadErrors:
    """Return errors with histograms of two bins each, whose areas are these."""
    tables = (
        TableErrors(mean, scores={"ill": (one / 2, *[0] * 8, (1 - one) / 2, *[0] * 9, 0.5)})
        for mean, one in ((0.1, 2 * ours - 1), (0.5, 2 * theirs - 1))
    )
    return WorkloadErrors("private", *tables, sigma=sigma)


def exact(ours: float, theirs: float | None = 0.5, **more: Any) -> WorkloadErrors:
    public = None if theirs is None else TableErrors(theirs)
    return WorkloadErrors("exact", TableErrors(ours), public, **more)


def noisy(
    ours: float, theirs: float | None = 0.5, sigma: float = 0.01, **more: Any
) -> WorkloadErrors:
    return replace(exact(ours, theirs, **more), mode="private", sigma=sigma)


def like(public: float | None, caught: Any, column: str = "kg", **given: Any) -> ColumnFit:
    numeric = NumericAttribute(column, (0.0, 5.0, 9.0), nullable=True, unreadable="missing")
    cell = CatchAllShare(caught, "rest", 0.99, public, 0.001)
    return ColumnFit(given.get("attribute", numeric), (cell,))


def fitted(*fits: ColumnFit) -> Verdict:
    return verdict_of(None, fits=fits)


def without_kg(theirs: float | None) -> Verdict:
    return verdict_of(exact(0.1, theirs, left_out=("kg",)), fits=[like(0.1, "other")])


def of_rules(*passed: bool) -> Verdict:
    rules = (("rule", one) for one in passed)
    return verdict_of(
        None,
        checks=[
            ExpectationResult(name, one, "WARN", "", {"rule": "b <= c"}, "", 900, 20)
            for name, one in rules
        ],
    )


def of_checks(**given: Any) -> Verdict:
    return verdict_of(None, checks=[ExpectationResult("x", False, "WARN", "")], **given)


MEANS = {"table": PUBLIC, "ours": "0.100", "theirs": "0.500"}
AGAINST = {"table": PUBLIC, "ours": "0.300 ± 0.039", "theirs": "0.305 ± 0.039"}
MISSING = {"column": "kg", "share": 0.99}
LABELLED = {**MISSING, "label": "rest"}
CLUB = CategoricalAttribute("club", ("A",), nullable=True, unreadable="missing")
DAYS = Domain.from_dict(
    {"attributes": {"day": {"bounds": ["2024-01-01", "2024-02-01"], "unit": "day"}}}
).attribute("day")
LOOKED_UP = replace(WIDE, derived=(DerivedColumn("zone", Lookup(("a",), ((("0",), ("n",)),))),))

CASES: dict[str, tuple[Verdict, dict[str, object]]] = {
    "better": (
        verdict_of(noisy(0.3, 0.37)),
        {"table": PUBLIC, "ours": "0.300 ± 0.020", "theirs": "0.370 ± 0.020"},
    ),
    "better_by": (verdict_of(exact(0.1)), {**MEANS, "share": "80%"}),
    "better_within": (
        verdict_of(exact(0.2, None), uniform=1.5),
        {"table": UNIFORM, "ours": "0.200", "least": 1.3, "most": 1.7},
    ),
    "worse": (verdict_of(exact(0.5, 0.0)), {**MEANS, "ours": "0.500", "theirs": "0.000"}),
    "worse_by": (
        verdict_of(exact(0.6, 0.5)),
        {**MEANS, "ours": "0.600", "share": "20%"},
    ),
    "worse_times": (verdict_of(exact(1.5)), {**MEANS, "ours": "1.500", "times": 3.0}),
    "undecided": (verdict_of(noisy(0.3, 0.305, 0.02)), AGAINST),
    "unproven": (
        verdict_of(exact(0.9, None), uniform=1.0),
        {"table": UNIFORM, "ours": "0.900"},
    ),
    "little_use": (
        verdict_of(exact(1.4, None), uniform=1.0),
        {"table": UNIFORM, "ours": "1.400"},
    ),
    "closer_further": (
        verdict_of(lined(0.3, 0.2, 0.0)),
        {**MEANS, "line": "associations", "ours_there": "0.300", "theirs_there": "0.200"},
    ),
    "closer_unknown": (
        verdict_of(lined(0.21, 0.2)),
        {**MEANS, "ours": "0.100 ± 0.020", "theirs": "0.500 ± 0.020"},
    ),
    "bought": (verdict_of(exact(0.1, prior=TableErrors(0.4))), {"gain": "0.300", "prior": "0.400"}),
    "bought_nothing": (
        verdict_of(noisy(0.1, prior=TableErrors(0.11))),
        {"prior": "0.110 ± 0.020"},
    ),
    "bought_less": (verdict_of(exact(0.1, prior=TableErrors(0.09))), {"prior": "0.090"}),
    "bought_within": (
        verdict_of(exact(0.2, None), uniform=1.5),
        {"least": 1.1, "most": 1.5},
    ),
    "hidden": (verdict_of(noisy(0.1, 0.1, 5.0)), {}),
    "alone": (verdict_of(exact(0.1, None)), {"ours": "0.100"}),
    "unmeasured": (verdict_of(None), {}),
    "none_left": (verdict_of(None, unmeasured="none_left"), {}),
    "unreleased": (verdict_of(None, unmeasured="unreleased"), {}),
    "lost": (verdict_of(None, unmeasured="lost"), {}),
    "failed": (of_checks(fits=[like(0.1, "other")]), {"failed": 1, "checks": 1}),
    "failed_named": (of_checks(), {"failed": 1, "checks": 1, "names": "x"}),
    "clipped": (verdict_of(exact(0.1), clipped={"b": 0.6}), {"shares": "b (60%)"}),
    "misfit": (fitted(like(0.1, "other")), {"column": "kg"}),
    "misfit_and_one": (
        fitted(*(like(0.1, "other", name) for name in "ab")),
        {"column": "a"},
    ),
    "misfits": (
        fitted(*(like(0.1, "other", name) for name in "abc")),
        {"column": "a", "more": 2},
    ),
    "missing": (fitted(like(None, "missing")), MISSING),
    "missing_beside": (fitted(like(0.1, "missing")), {**MISSING, "public": 0.1}),
    "unreadable": (fitted(like(None, "unreadable")), MISSING),
    "unreadable_beside": (fitted(like(0.1, "unreadable")), {**MISSING, "public": 0.1}),
    "other": (fitted(like(None, "other")), LABELLED),
    "other_beside": (fitted(like(0.1, "other")), {**LABELLED, "public": 0.1}),
    "bound": (fitted(like(None, "bound")), LABELLED),
    "bound_beside": (fitted(like(0.1, "bound")), {**LABELLED, "public": 0.1}),
    "half_beside": (fitted(like(0.1, "half")), {**LABELLED, "public": 0.1}),
    "lost_values": (fitted(like(0.1, "other")), {}),
    "mend": (fitted(like(0.1, "other")), {}),
    "widen": (fitted(like(0.1, "bound")), {"columns": "kg"}),
    "buy_edges": (fitted(replace(like(0.1, "bound"), bought=True)), {"columns": "kg"}),
    "shift": (fitted(like(0.1, "bound", attribute=DAYS)), {"columns": "day"}),
    "list_values": (fitted(like(0.1, "other")), {"columns": "kg"}),
    "list_or_empty": (fitted(like(0.1, "missing", attribute=CLUB)), {"columns": "club"}),
    "state_writing": (fitted(like(0.1, "unreadable")), {"columns": "kg"}),
    "state_format": (fitted(like(0.1, "missing")), {"columns": "kg"}),
    "check_column": (fitted(like(0.1, "missing", attribute=DAYS)), {"columns": "day"}),
    "remaining": (without_kg(None), {"ours": "0.100"}),
    "remaining_beside": (without_kg(0.5), MEANS),
    "noise_explains": (verdict_of(noisy(0.3, 0.305)), {"table": PUBLIC}),
    "noise_does_not": (verdict_of(noisy(0.1)), {"table": PUBLIC}),
    "uniform_further": (verdict_of(exact(0.2, None), uniform=1.5), {}),
    "uniform_close": (verdict_of(exact(0.9, None), uniform=1.0), {}),
    "clipped_counts": (verdict_of(exact(0.1), clipped={"b": 0.6}), {}),
    "further_in": (
        verdict_of(replace(lined(0.3, 0.2, 0.0), synthetic=TableErrors(0.5, association=0.3))),
        {
            "table": TABLES["public"],
            "line": "associations",
            "ours_there": "0.300",
            "theirs_there": "0.200",
        },
    ),
    "related": (verdict_of(exact(0.1), related=["a x b"]), {"pairs": "a x b"}),
    "relation_lost": (verdict_of(exact(0.1), lost=["a x b"]), {"pairs": "a x b"}),
    "scored": (
        verdict_of(scored(0.9, 0.5)),
        {
            "target": "ill",
            "ours": "0.900 ± 0.000",
            "others": f", 0.500 ± 0.000 if from {PUBLIC}",
        },
    ),
    "learnt_from": (verdict_of(scored(0.9, 0.5)), {"area": "0.500 ± 0.000", "table": PUBLIC}),
    "held_out": (
        verdict_of(None, held_out={"ill": (0.8, 0.9)}),
        {"target": "ill", "ours": 0.8, "theirs": 0.9},
    ),
    "classifier": (verdict_of(scored(0.5, 0.9)), {"target": "ill"}),
    "scores_hidden": (verdict_of(scored(0.9, 0.5, 0.3)), {"target": "ill"}),
    "unknown": (
        verdict_of(
            replace(scored(0.9, 0.5), public=TableErrors(0.5, scores={"ill": (1.0, *[0.0] * 19)}))
        ),
        {},
    ),
    "measured": (verdict_of(exact(0.1), measured=["a x b"]), {"marginals": "a x b"}),
    "measured_alone": (verdict_of(exact(0.1), measured=[]), {"table": PUBLIC}),
    "gain": (
        verdict_of(noisy(0.1, prior=TableErrors(0.4))),
        {"gain": "+0.300", "margin": "0.028"},
    ),
    "line_alone": (
        verdict_of(replace(lined(0.3, 0.2), public=None), uniform=1.5),
        {"line": "associations", "ours_there": "0.300 ± 0.020"},
    ),
    "line": (
        verdict_of(lined(0.3, 0.2, 0.0)),
        {"line": "associations", "ours_there": "0.300", "theirs_there": "0.200"},
    ),
    "sample": (verdict_of(exact(0.1, sample_equivalent=1200)), {"records": 1200}),
    "sample_tiny": (verdict_of(exact(0.1, sample_equivalent=1)), {}),
    "fit_unmeasured": (fitted(ColumnFit(CLUB)), {"columns": "club"}),
    "fit_noisy": (
        fitted(ColumnFit(CLUB, (CatchAllShare("other", "rest", 0.1, 0.1, 0.9),))),
        {"columns": "club"},
    ),
    "rule_broken": (of_rules(False), {"rule": "b <= c", "rows": 20, "checked": 900}),
    "rules_broken": (
        of_rules(False, True),
        {"broken": 1, "rules": 2, "rule": "b <= c", "rows": 20, "checked": 900},
    ),
    "copied": (verdict_of(None, domain=LOOKED_UP), {"columns": "zone"}),
    "difference": (
        verdict_of(noisy(0.3, 0.305, 0.02)),
        {"difference": "-0.005", "margin": "0.055"},
    ),
    "difference_exact": (verdict_of(exact(0.1)), {"difference": "-0.400"}),
    "bound_of_difference": (
        verdict_of(noisy(0.2, None), uniform=1.5),
        {"uniform": 1.5, "difference": "-1.100", "margin": "0.039"},
    ),
    "bound_of_difference_exact": (
        verdict_of(exact(0.2, None), uniform=1.5),
        {"uniform": 1.5, "difference": "-1.100"},
    ),
    "uniform_within": (
        verdict_of(noisy(0.9, None), uniform=1.0),
        {"uniform": 1.0, "least": 0.1, "most": 1.9},
    ),
    "uniform_within_exact": (
        verdict_of(exact(0.9, None), uniform=1.0),
        {"uniform": 1.0, "least": 0.1, "most": 1.9},
    ),
    "singles_within": (
        verdict_of(noisy(0.2, None), uniform=1.0, singles=0.5),
        {"singles": 0.5, "least": 0.3, "most": 0.7},
    ),
    "singles_measured": (verdict_of(exact(0.2, None, bought=TableErrors(0.5))), {"singles": 0.5}),
    "sample_within": (
        verdict_of(exact(0.1, sample_equivalent=12, equivalent_within=(10, 1400))),
        {"least": 10, "most": 1400},
    ),
    "may_help": (verdict_of(exact(0.6)), {}),
    "may_make_known": (verdict_of(noisy(0.1, 0.1, 5.0)), {}),
    "use_each": (
        verdict_of(lined(0.3, 0.2, 0.0), compared="several"),
        {"table": TABLES["several"]},
    ),
    "use_public": (verdict_of(exact(0.6), compared="drawn_on"), {"table": TABLES["drawn_on"]}),
    "larger_share": (verdict_of(noisy(0.1, 0.1, 5.0)), {}),
    "more_records": (verdict_of(noisy(0.1, 0.1, 5.0)), {}),
    "more_epsilon": (verdict_of(exact(0.6)), {}),
    "fewer_columns": (verdict_of(exact(0.6)), {}),
    "coarser": (verdict_of(exact(0.6)), {}),
    "coarser_named": (verdict_of(exact(0.6), domain=WIDE), {"columns": "b (30)"}),
    "lower_degree": (verdict_of(exact(0.6)), {}),
    "recommended": (verdict_of(exact(0.6), recommended="TILT"), {"mechanism": "TILT"}),
    "plan": (verdict_of(exact(0.6)), {}),
    "mechanisms": (verdict_of(exact(0.9, None), uniform=1.0), {}),
    "at_most": (verdict_of(noisy(0.0)), {"mean": "0.020"}),
    "and_more": (
        verdict_of(exact(0.1), clipped=dict.fromkeys("abcde", 0.5)),
        {"names": "a (50%), b (50%), c (50%)", "more": 2},
    ),
}


def test_relations_are_those_that_the_model_began_with() -> None:
    alone = verdict_of(exact(0.1), measured=[], learned=False)
    assert said("measured_alone", table=TABLES["uniform"]) in alone.notes


def test_each_sentence_has_a_case() -> None:
    assert set(CASES) | OF_CHECKS | NAMES == set(SENTENCES)


@pytest.mark.parametrize("key", CASES)
def test_a_sentence_appears_whole_with_exactly_its_fields(key: str) -> None:
    verdict, fields = CASES[key]
    named = {name for _, name, _, _ in Formatter().parse(SENTENCES[key]) if name}
    assert set(fields) == named - {"confidence", "largest"}
    text = " ".join(verdict.sentences)
    assert said(key, confidence=0.95, largest=2.0, **fields) in text
    assert "{" not in text
