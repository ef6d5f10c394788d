"""The release report: one page on a release's result, cost and quality."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from jam_dagster.common.html_pages import environment
from jam_dagster.errors import InputError, PrivacyLabelError
from jam_dagster.evaluation.expectations.spec import ExpectationResult
from jam_dagster.evaluation.sentences import said
from jam_dagster.evaluation.verdict import Verdict, mean_text
from jam_dagster.evaluation.workload_error import LINES, WorkloadErrors
from jam_dagster.privacy.accounting import (
    Budget,
    describe_advantage,
    describe_certainty,
    describe_factor,
    epsilon_from_rho,
)
from jam_dagster.privacy.sensitivity import REPLACE_ONE, Neighbours
from jam_dagster.privacy.warnings import configuration_warnings
from jam_dagster.reports.budget_over_rounds import Spending
from jam_dagster.reports.mechanism_text import (
    chooses_source,
    learned_from,
    rounds_text,
    unmeasured_text,
)
from jam_dagster.reports.plot_style import unvalidated
from jam_dagster.tables.codes.public import PublicTables
from jam_dagster.tables.domain.constraints import described

if TYPE_CHECKING:
    from jam_dagster.evaluation.bounds.table import ErrorBounds
    from jam_dagster.mechanisms.loops.transcript import Transcript
    from jam_dagster.tables.codes.marginals import MarginalSource
    from jam_dagster.tables.domain.attributes import Attribute
    from jam_dagster.tables.domain.domain import Domain

_VALUES_SHOWN = 12


@dataclass(frozen=True)
class ReportFacts:
    """The facts of a report other than the data.

    `selections` is the part of delta that selections of values have. `reserved` is rho by share.
    `public_source` is without credentials, and is shown without folders; the place of the private
    table is not shown. `public_released` says that the public table is an earlier release of the
    same dataset. `remaining_epsilon` is what the dataset has left, at the budget's delta; None
    without a ledger. `run` is the digest of the mechanism's run, which identifies the page; it may
    be empty. `bounds` are the errors in the transcript.
    """

    release: str
    dataset: str
    epsilon: float
    delta: float
    reserved: Mapping[str, float]
    selections: float = 0.0
    partition: str = ""
    edition: str = "1"
    public_source: str = ""
    public_released: bool = False
    made: datetime | None = None
    remaining_epsilon: float | None = None
    run: str = ""
    bounds: ErrorBounds | None = None

    @property
    def budget(self) -> Budget:
        """The budget of the release."""
        return Budget(self.epsilon, self.delta, self.selections)


_FOLDERS = re.compile(r"(?<!\S)\S*[/\\](?=\S)")
"""Replacement of a path in a text: readers must not see where a machine keeps files."""

_RUN = re.compile(r'<meta name="jam-run" content="([0-9a-f]*)">')


def run_of_page(page: str) -> str | None:
    """Return the `ReportFacts.run` of a page of `render_report`, or None."""
    found = _RUN.search(page)
    return found[1] if found else None


@unvalidated()
def render_report(
    facts: ReportFacts,
    *,
    transcript: Transcript,
    synthetic: MarginalSource,
    public: MarginalSource | None,
    verdict: Verdict,
    checks: Sequence[ExpectationResult] = (),
    error: WorkloadErrors | None = None,
    restricted: bool = False,
) -> str:
    """Render the report as one HTML page without network; it works without scripts.

    If scripts run, the page's own script adds tooltips and lets readers choose pairs to compare.
    """
    _check_edition(error, verdict, restricted=restricted)
    # Only rendering needs altair and jinja2.
    from jam_dagster.reports import report_figures
    from jam_dagster.reports.live_charts import page_script
    from jam_dagster.version import __version__

    domain, bounds = synthetic.domain, facts.bounds
    one_way = list(report_figures.one_way_figures(domain, transcript, synthetic, public))
    template = environment("jam_dagster.reports").get_template("report.html")
    return template.render(
        version=__version__,
        facts=replace(facts, public_source=_FOLDERS.sub("", facts.public_source)),
        domain=domain,
        transcript=transcript,
        replace_one=REPLACE_ONE,
        restricted=restricted,
        banners=_banners(domain, transcript, restricted=restricted),
        remarks=configuration_warnings(facts.epsilon, facts.delta, transcript.records),
        guarantee=_guarantee(
            facts,
            transcript.neighbours,
            "" if domain.children is None else f"rows of {domain.children.link.table}",
        ),
        budget=_budget(facts, transcript, error, synthetic.domain),
        attributes=[_described(attribute) for attribute in domain.attributes],
        impossible=[one.describe(domain) for one in domain.impossible],
        constraints=described(domain, domain.constraints),
        repairs=_repairs(domain),
        derived=[f"{one.name}: {one.described}" for one in domain.plan if one.sources],
        rounds=report_figures.round_figures(transcript),
        rounds_text=rounds_text(transcript),
        unmeasured_text=unmeasured_text(transcript),
        learned_from=learned_from(transcript, released=facts.public_released),
        chooses_source=chooses_source(transcript.mechanism),
        one_way=one_way,
        columns=sorted(one_way, key=lambda one: one.summary.rank),
        **_pairs(domain, transcript, synthetic, public),
        checks=sorted(checks, key=lambda check: (check.passed, check.severity == "WARN")),
        error=error,
        lines=_lines(error),
        said=said,
        verdict=verdict,
        mean_text=mean_text,
        marginals=error.to_frame().to_dict("records") if restricted and error else [],
        error_figure=report_figures.error_figure(error) if restricted and error else None,
        bounds=bounds,
        bound_rows=_bound_rows(bounds) if bounds else [],
        bound_figure=report_figures.bound_figure(bounds) if bounds else None,
        public_records=None if public is None else _records_text(public),
        synthetic_records=synthetic.records,
        children_rows=_children_rows(synthetic),
        script=page_script("compare.js", "sorting.js"),
    )


def _lines(error: WorkloadErrors | None) -> list[str]:
    """Return the errors that were measured but that of the workload."""
    ours = None if error is None else error.synthetic
    return [name for name in LINES if ours is not None and getattr(ours, name) is not None]


def _check_edition(error: WorkloadErrors | None, verdict: Verdict, *, restricted: bool) -> None:
    exact = error is not None and error.restricted
    if (exact or verdict.restricted) and not restricted:
        raise PrivacyLabelError(
            "the releasable report received exact errors of private data: leave the error out, or "
            "render the restricted edition."
        )
    if restricted and not exact:
        raise InputError(
            "the restricted edition needs exact errors: evaluate in mode 'exact' to get them."
        )


def _pairs(
    domain: Domain,
    transcript: Transcript,
    synthetic: MarginalSource,
    public: MarginalSource | None,
) -> dict[str, Any]:
    """Return the figures of pairs of attributes, and the numbers from which readers choose one."""
    from jam_dagster.reports import pair_figures, plots
    from jam_dagster.reports.live_charts import data_block, description

    pairs = pair_figures.ranked_pairs(domain, transcript, synthetic, public)
    numbers = pair_figures.pair_numbers(domain, transcript, pairs)
    embedded = {tuple(one["names"]): index for index, one in enumerate(numbers["pairs"])}
    numbers["spec"] = description(plots.live_pair())
    return {
        "two_way": list(pair_figures.two_way_figures(domain, transcript, pairs, embedded)),
        "pairs_left_out": len(pairs) - len(embedded),
        "pair_data": data_block(numbers, "pairs"),
    }


def _banners(domain: Domain, transcript: Transcript, *, restricted: bool) -> list[tuple[str, str]]:
    """Return title and text of the warning at the top of the page."""
    banners = []
    if restricted:
        banners.append(
            (
                "Restricted: exact statistics of private data",
                "The errors on this page were computed from the private table without noise. "
                "Only readers who may see statistics of that table may see them.",
            )
        )
    if not transcript.releasable:
        banners.append(
            (
                "Not releasable: made with seeded noise",
                f"The noise ({transcript.noise}) is for research: anyone who knows or guesses its "
                "seed can remove it. Neither the table nor this page may be released.",
            )
        )
    if domain.restricted:
        banners.append(
            (
                "Not releasable: the domain was read from the private table",
                "Its values and bounds are exact facts about private records, without a "
                "charge. Declare the domain, or draft it from public data.",
            )
        )
    return banners


def _children_rows(synthetic: MarginalSource) -> int | None:
    """Return the number of rows of children; None if the release has one table."""
    children = synthetic.domain.children
    if children is None:
        return None
    counts = synthetic.marginal((children.link.table,))
    return int(np.arange(len(counts)) @ counts)


def _repairs(domain: Domain) -> list[str]:
    """Return what synthetic rows are repaired to keep, those of both tables."""
    if (two := domain.children) is None:
        return described(domain, domain.repairs)
    table = two.link.table
    return [
        *described(two.roots, two.roots.repairs),
        *(f"{table}: {line}" for line in described(two.domain, two.domain.repairs)),
        *(one.describe(two.both) for one in two.rules),
    ]


def _guarantee(facts: ReportFacts, neighbours: Neighbours, children: str) -> dict[str, Any]:
    """Explain (epsilon, delta) and the protected unit in words and intuitive numbers."""
    rows = neighbours.max_rows
    its_rows = "the record of any one person" if rows == 1 else "all rows of any one person"
    if children:
        its_rows = f"any one record, with all its {children},"
    if neighbours.relation == "replace_one":
        by = "any other" if rows == 1 else "those of any other person"
        change = f"Replace {its_rows} in the private table by {by}"
        knows = "takes two versions of what this person has there to be equally likely"
    else:
        other = "another one" if children else "another person's"
        change = f"Take {its_rows} out of the private table, or add {other}"
        this = "it" if children else "this person"
        knows = f"takes it to be as likely that {this} is in the table as not"
    return {
        "change": change,
        "knows": knows,
        "one": "record, and everyone in it," if children else "person",
        "factor": describe_factor(facts.epsilon),
        "certainty": describe_certainty(facts.budget),
        "one_in": f"{1 / facts.delta:,.0f}",
        "advantage": describe_advantage(facts.budget),
    }


def _budget(
    facts: ReportFacts, transcript: Transcript, error: WorkloadErrors | None, domain: Domain
) -> dict[str, Any]:
    """Return the use of the release's rho; the parts add up to the reservation."""
    reserved = math.fsum(facts.reserved.values())
    of_run = Spending.of(transcript)
    evaluating = 0.0 if error is None else error.rho
    bought = 0.0 if domain.bought is None else sum(one.rho for one in domain.bought.counts)
    parts = [
        ("Buying the domain", bought, "counting"),
        ("Measuring the number of rows", of_run.counting, "counting"),
        ("Selecting marginals", of_run.selecting, "selection"),
        ("Measuring marginals", of_run.measuring, "measurement"),
        ("Lost draws", of_run.lost, "lost"),
        ("Evaluating the tables", evaluating, "evaluation"),
    ]
    spent = transcript.rho_spent + evaluating + bought
    parts.append(("Not spent, returned to the budget", max(0.0, reserved - spent), "returned"))
    # A part below the rounding error of the whole counts as zero.
    shown = [(name, rho, kind) for name, rho, kind in parts if rho > 1e-9 * reserved]
    return {
        "reserved": reserved,
        "spent": spent,
        "epsilon_spent": epsilon_from_rho(spent, facts.budget.converts_at) if spent > 0 else 0.0,
        "parts": [
            {
                "name": name,
                "kind": kind,
                "rho": rho,
                "percent": 100 * rho / reserved if reserved > 0 else 0.0,
            }
            for name, rho, kind in shown
        ],
    }


def _records_text(public: MarginalSource) -> str:
    """Return the number of records of the public table, or of each of several, in words."""
    if not isinstance(public, PublicTables):
        return f"{public.records:,} records"
    numbers = (f"{name} {table.records:,}".strip() for name, table in public.tables.items())
    return f"{', '.join(numbers)} records"


def _bound_rows(bounds: ErrorBounds) -> list[dict[str, Any]]:
    """Return a row of the page for each marginal, the loosest bound first."""
    from jam_dagster.reports.plots import KIND_NAMES

    fractions = bounds.fractions()
    ordered = sorted(bounds.bounds, key=lambda one: -one.bound)
    return [
        {"clique": one.clique, "kind": KIND_NAMES[one.kind], "bound": fractions[one.clique]}
        for one in ordered
    ]


def _described(attribute: Attribute) -> dict[str, Any]:
    """Describe an attribute for the table of the domain."""
    return {
        "name": attribute.name,
        "kind": attribute.kind_text,
        "holds": attribute.values_text(_VALUES_SHOWN),
        "cells": attribute.size,
        "nulls": "allowed" if attribute.nullable else "none",
        "outside": attribute.outside_text,
    }
