"""The release report: one page that says what was made, what it cost and how good it is."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from jam_dagster.common.html_pages import environment
from jam_dagster.errors import InputError, PrivacyLabelError
from jam_dagster.evaluation.expectation_specs import ExpectationResult
from jam_dagster.evaluation.workload_error import WorkloadErrors, compare_with_public
from jam_dagster.privacy.accounting import epsilon_from_rho
from jam_dagster.privacy.sensitivity import REPLACE_ONE, Neighbours
from jam_dagster.privacy.warnings import configuration_warnings
from jam_dagster.reports.budget_over_rounds import Spending
from jam_dagster.reports.mechanism_text import (
    chooses_source,
    learned_from,
    told_rounds,
    told_unmeasured,
)
from jam_dagster.tables.codes.public import PublicTables
from jam_dagster.tables.domain.attributes import NumericAttribute

if TYPE_CHECKING:
    from jam_dagster.evaluation.bounds.table import ErrorBounds
    from jam_dagster.mechanisms.loops.transcript import Transcript
    from jam_dagster.reports.history import PartitionRelease
    from jam_dagster.tables.codes.marginals import MarginalSource
    from jam_dagster.tables.domain.domain import Attribute, Domain

_VALUES_SHOWN = 12


@dataclass(frozen=True)
class ReleaseFacts:
    """What a report needs to know beside the data.

    Parameters
    ----------
    release
        The release's name.
    dataset
        The protected dataset whose budget pays, as people know it.
    epsilon, delta
        The guarantee of the whole release.
    reserved
        Rho by share, such as ``{"mechanism": 0.014, "evaluation": 0.0007}``.
    partition, edition
        Which of the release's tables this is.
    public_source
        Where the public table came from, without credentials. Where the private one lies is no
        reader's business.
    public_released
        Whether what stands as the public table was released from the same dataset before.
    made
        When.
    remaining_epsilon
        What the dataset's budget can still grant after this release, as epsilon at the budget's
        delta; None where no ledger keeps it.
    remarks
        Warnings about how the release was configured.
    run
        Digest of the mechanism's run, by which the page is known to be of it; may be empty.
    """

    release: str
    dataset: str
    epsilon: float
    delta: float
    reserved: Mapping[str, float]
    partition: str = ""
    edition: str = "1"
    public_source: str = ""
    public_released: bool = False
    made: datetime | None = None
    remaining_epsilon: float | None = None
    remarks: Sequence[str] = field(default_factory=tuple)
    run: str = ""


_RUN = re.compile(r'<meta name="jam-run" content="([0-9a-f]*)">')


def run_told(page: str) -> str | None:
    """Return the `ReleaseFacts.run` of a page that `render_report` made; None where it has none."""
    found = _RUN.search(page)
    return found[1] if found else None


def render_report(
    facts: ReleaseFacts,
    *,
    domain: Domain,
    transcript: Transcript,
    synthetic: MarginalSource,
    public: MarginalSource | None,
    checks: Sequence[ExpectationResult] = (),
    error: WorkloadErrors | None = None,
    bounds: ErrorBounds | None = None,
    history: Sequence[PartitionRelease] = (),
    restricted: bool = False,
) -> str:
    """Render the report as one HTML page that needs nothing else: no network, and no script.

    Where scripts run, its own makes charts answer to the pointer and lets readers choose what to
    compare.

    Parameters
    ----------
    facts
        Names, budget and provenance.
    domain
        The domain of all tables.
    transcript
        What the mechanism did.
    synthetic, public
        The tables to compare, encoded; None where there is no public one.
    checks
        Results of the expectations, and of any other check worth telling.
    error
        The workload error; None where it was not measured or must not be told here.
    bounds
        How wrong the synthetic table can be, marginal by marginal, by what was released; None
        where the mechanism does not tell.
    history
        The releases of earlier partitions and of this one, in their order.
    restricted
        Whether to make the restricted edition, which tells exact errors marginal by marginal.

    Returns
    -------
    str
        The page.

    Raises
    ------
    PrivacyLabelError
        If the edition that may leave is given exact errors.
    InputError
        If the restricted edition is given none.
    """
    if error is not None and error.restricted and not restricted:
        raise PrivacyLabelError(
            "the report that may leave was given exact errors of private data: leave the error "
            "out, or render the restricted edition."
        )
    if restricted and (error is None or not error.restricted):
        raise InputError(
            "the restricted edition tells exact errors: evaluate in mode 'exact' to have them."
        )
    # Rendering needs altair's and jinja2's imports, which those who only name a report do not.
    from jam_dagster import __version__
    from jam_dagster.reports import history as release_history
    from jam_dagster.reports import pair_figures, plots, report_figures
    from jam_dagster.reports.live_charts import data_block, description, page_script

    pairs = pair_figures.ranked_pairs(domain, transcript, synthetic, public)
    numbers = pair_figures.pair_numbers(domain, transcript, pairs)
    embedded = {tuple(one["names"]): place for place, one in enumerate(numbers["pairs"])}
    numbers["spec"] = description(plots.live_pair())
    history_figures = release_history.history_figures(history)
    template = environment("jam_dagster.reports").get_template("report.html")
    return template.render(
        version=__version__,
        facts=facts,
        domain=domain,
        transcript=transcript,
        replace_one=REPLACE_ONE,
        restricted=restricted,
        banners=_banners(domain, transcript, restricted=restricted),
        remarks=[
            *facts.remarks,
            *configuration_warnings(facts.epsilon, facts.delta, transcript.records),
        ],
        guarantee=_guarantee(facts, transcript.neighbours),
        budget=_budget(facts, transcript, error),
        attributes=[_described(attribute) for attribute in domain.attributes],
        impossible=[one.describe(domain) for one in domain.impossible],
        rounds=report_figures.round_figures(transcript),
        told_rounds=told_rounds(transcript),
        told_unmeasured=told_unmeasured(transcript.mechanism),
        learned_from=learned_from(transcript, released=facts.public_released),
        chooses_source=chooses_source(transcript.mechanism),
        history=history,
        history_figures=history_figures,
        # What the page takes from other releases, the guarantee of this one does not cover.
        earlier=bool(history_figures) or facts.public_released,
        one_way=list(report_figures.one_way_figures(domain, transcript, synthetic, public)),
        two_way=list(pair_figures.two_way_figures(domain, transcript, pairs, embedded)),
        pairs_left_out=len(pairs) - len(embedded),
        pair_data=data_block(numbers, "pairs"),
        checks=sorted(checks, key=lambda check: (check.passed, check.severity == "WARN")),
        failed=sum(not check.passed for check in checks),
        error=error,
        comparison=None if error is None else compare_with_public(error),
        marginals=error.to_frame().to_dict("records") if restricted and error else [],
        error_figure=report_figures.error_figure(error) if restricted and error else None,
        bounds=bounds,
        bound_rows=_bound_rows(bounds) if bounds else [],
        bound_figure=report_figures.bound_figure(bounds) if bounds else None,
        public_records=None if public is None else _told_records(public),
        synthetic_records=synthetic.records,
        script=page_script("compare.js", "sorting.js"),
    )


def _banners(domain: Domain, transcript: Transcript, *, restricted: bool) -> list[tuple[str, str]]:
    """Return title and text of what the reader has to know first."""
    banners = []
    if restricted:
        banners.append(
            (
                "Restricted: exact statistics of private data",
                "The errors on this page were computed from the private table without noise. "
                "Nobody may see them who may not see statistics of that table.",
            )
        )
    if not transcript.releasable:
        banners.append(
            (
                "Not releasable: made with seeded noise",
                f"The noise ({transcript.noise}) is that of research: whoever knows or guesses its "
                "seed can take it off again. Neither the table nor this page may leave.",
            )
        )
    if domain.restricted:
        banners.append(
            (
                "Not releasable: the domain was read from the private table",
                "Its values and bounds are exact facts about private records, which no budget "
                "paid for. Declare the domain, or draft it from public data.",
            )
        )
    return banners


def _guarantee(facts: ReleaseFacts, neighbours: Neighbours) -> dict[str, Any]:
    """Put (epsilon, delta) and whom it protects into words and numbers that people can weigh."""
    factor = math.exp(min(facts.epsilon, 700.0))
    rows = neighbours.max_rows
    whose = "the record of any one person" if rows == 1 else "all rows of any one person"
    if neighbours.relation == "replace_one":
        by = "any other" if rows == 1 else "those of any other person"
        change = f"Replace {whose} in the private table by {by}"
        knows = "takes two versions of what this person has there to be equally likely"
    else:
        change = f"Take {whose} out of the private table, or add another person's"
        knows = "takes it to be as likely that this person is in the table as not"
    return {
        "change": change,
        "knows": knows,
        "factor": f"{factor:.3g}",
        "posterior": f"{100 * factor / (1 + factor):.3g}%",
        "one_in": f"{1 / facts.delta:,.0f}",
    }


def _budget(
    facts: ReleaseFacts, transcript: Transcript, error: WorkloadErrors | None
) -> dict[str, Any]:
    """Tell where the release's rho went; the parts add up to what was reserved."""
    reserved = math.fsum(facts.reserved.values())
    of_run = Spending.of(transcript)
    evaluating = 0.0 if error is None else error.rho
    parts = [
        ("Measuring the number of rows", of_run.counting, "measurement"),
        ("Selecting marginals", of_run.selecting, "selection"),
        ("Measuring marginals", of_run.measuring, "measurement"),
        ("Lost draws", of_run.lost, "lost"),
        ("Evaluating the tables", evaluating, "evaluation"),
    ]
    spent = transcript.rho_spent + evaluating
    parts.append(("Not spent, returned to the budget", max(0.0, reserved - spent), "returned"))
    # What is less than a rounding error of the whole is none.
    shown = [(name, rho, kind) for name, rho, kind in parts if rho > 1e-9 * reserved]
    return {
        "reserved": reserved,
        "spent": spent,
        "epsilon_spent": epsilon_from_rho(spent, facts.delta) if spent > 0 else 0.0,
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


def _told_records(public: MarginalSource) -> str:
    """Tell how many records the public table has, or each of several."""
    if not isinstance(public, PublicTables):
        return f"{public.records:,} records"
    told = (f"{name} {table.records:,}".strip() for name, table in public.tables.items())
    return f"{', '.join(told)} records"


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
    if isinstance(attribute, NumericAttribute):
        kind = "integer" if attribute.integer else "number"
        values = f"{attribute.edges[0]:.10g} to {attribute.edges[-1]:.10g} in {attribute.bins} bins"
        outside = "moved to the bounds" if attribute.clip else "an error"
    else:
        kind = "category"
        labels = attribute.labels[: len(attribute.values)]
        values = ", ".join(labels[:_VALUES_SHOWN])
        if len(labels) > _VALUES_SHOWN:
            values += f" and {len(labels) - _VALUES_SHOWN} more"
        outside = "an error" if attribute.other is None else f"counted as {attribute.other}"
    return {
        "name": attribute.name,
        "kind": kind,
        "holds": values,
        "cells": attribute.size,
        "nulls": "allowed" if attribute.nullable else "none",
        "outside": outside,
    }
