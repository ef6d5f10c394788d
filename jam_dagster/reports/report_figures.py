"""The figures of a release report, each with its text alternative."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from jam_dagster.evaluation.released_marginals import ReleasedMarginal, released_marginal
from jam_dagster.reports import plots
from jam_dagster.reports.column_summary import (
    ColumnSummary,
    column_summary,
    comparable,
    fits_by_column,
    l1_distance,
    released_distance,
)
from jam_dagster.reports.comparisons import CellShares, one_way_shares
from jam_dagster.reports.live_charts import live_chart
from jam_dagster.reports.mechanism_text import chooses_source
from jam_dagster.tables.codes.public import is_known

if TYPE_CHECKING:
    from markupsafe import Markup

    from jam_dagster.evaluation.bounds.table import ErrorBounds
    from jam_dagster.evaluation.workload_error import WorkloadErrors
    from jam_dagster.mechanisms.loops.transcript import Transcript
    from jam_dagster.tables.codes.marginals import MarginalSource
    from jam_dagster.tables.domain.domain import Domain

_NAMED_IN_ALT = 3


@dataclass(frozen=True)
class ReportFigure:
    """A chart on the page."""

    title: str
    chart: Markup
    caption: str = ""


@dataclass(frozen=True, kw_only=True)
class DistributionFigure(ReportFigure):
    """An attribute's distribution on the page, at a place among the columns."""

    place: int
    cells: Sequence[CellShares]
    summary: ColumnSummary


def round_figures(transcript: Transcript) -> dict[str, ReportFigure]:
    """Draw the spent rho (``budget``) and the choices (``choices``) by round."""
    if not transcript.rounds:
        return {}
    picks = transcript.picks
    taken = f", {picks['public']} took public data" if chooses_source(transcript.mechanism) else ""
    taken += f", {picks['lost']} lost a paid draw" if "lost" in picks else ""
    return {
        "budget": ReportFigure(
            "Budget over rounds",
            live_chart(
                plots.budget_over_rounds(transcript),
                f"Bar chart: rho spent after each of {len(transcript.rounds)} rounds, "
                f"{transcript.rho_spent:.4g} of {transcript.rho_budget:.4g} at the end.",
            ),
        ),
        "choices": ReportFigure(
            "Choices per round",
            live_chart(
                plots.choices_per_round(transcript),
                f"Dot plot: {picks['private']} rounds measured privately{taken}. The table of "
                "rounds names each.",
            ),
        ),
    }


def error_figure(error: WorkloadErrors) -> ReportFigure:
    """Draw exact errors by marginal; restricted."""
    synthetic = (error.synthetic and error.synthetic.per_marginal) or {}
    baseline = error.public or error.independent
    others = (baseline and baseline.per_marginal) or {}
    better = sum(synthetic[clique] < others[clique] for clique in synthetic)
    than = "the public table is" if error.public else "independent attributes are"
    caption = (
        f"Each mark is a marginal; in {better} of {len(synthetic)} the synthetic table is closer "
        f"to the private one than {than}."
    )
    return ReportFigure(
        "Error by marginal",
        live_chart(plots.error_by_marginal(error), f"Scatter plot. {caption}"),
        caption,
    )


def bound_figure(bounds: ErrorBounds) -> ReportFigure:
    """Draw the error bound of each marginal."""
    fractions = bounds.fractions()
    of_kind: dict[str, list[float]] = {}
    for one in bounds.bounds:
        of_kind.setdefault(plots.KIND_NAMES[one.kind], []).append(fractions[one.clique])
    kinds = "; ".join(
        f"{len(of_kind[name])} {name}, the middle one wrong by at most {median(of_kind[name]):.3f}"
        for name in plots.KIND_NAMES.values()
        if name in of_kind
    )
    caption = f"Marginals: {kinds}."
    return ReportFigure(
        "How wrong each marginal can be",
        live_chart(plots.bound_by_marginal(bounds), f"Scatter plot. {caption}"),
        caption,
    )


def one_way_figures(
    domain: Domain,
    transcript: Transcript,
    synthetic: MarginalSource,
    public: MarginalSource | None,
) -> Iterator[DistributionFigure]:
    """Draw every attribute's distribution."""
    fits = fits_by_column(domain, transcript, public)
    measured = {name: released_marginal(transcript, (name,)) for name in domain.names}
    compared = comparable(measured, transcript.records)
    for index, attribute in enumerate(domain.attributes):
        clique = (attribute.name,)
        released = measured[attribute.name]
        tables = {"synthetic": synthetic.marginal(clique)}
        if public is not None:
            tables["public"] = public.marginal(clique)
        numbers: dict[str, Any] = {"released": released, "records": transcript.records}
        numbers |= {"public": None, **tables}
        chart = plots.one_way_comparison(attribute, **numbers, legend=False)
        frequent = "; ".join(
            f"{title}: {most_frequent(counts, attribute.labels)}"
            for title, counts in tables.items()
        )
        # No row has an unreadable value: compared are those that are missing for it.
        tables = {name: attribute.as_released(counts) for name, counts in tables.items()}
        released = None if released is None else released.as_released(attribute)
        guessed = public is not None and not is_known(public, clique)
        known = {"synthetic": tables["synthetic"]} if guessed else tables
        yield DistributionFigure(
            attribute.name,
            live_chart(chart, f"Distribution of {attribute.name}. Most frequent, {frequent}."),
            distances(tables, released, transcript.records)
            + (" No public table has it: drawn as uniform." if guessed else ""),
            place=index,
            cells=one_way_shares(attribute, **numbers),
            summary=column_summary(
                attribute,
                known,
                released,
                fits.get(attribute.column),
                records=transcript.records,
                compared=compared,
            ),
        )


def distances(
    tables: Mapping[str, np.ndarray], released: ReleasedMarginal | None, records: int
) -> str:
    """Return the distances of the synthetic table from the others, in words."""
    distances = []
    if "public" in tables:
        distances.append(f"{l1_distance(tables['synthetic'], tables['public']):.3f} to public")
    caption = "L1 distance of the synthetic table: "
    if released is None:
        return (
            f"{caption}{distances[0]}; not measured privately."
            if distances
            else "Not measured privately."
        )
    to_released = released_distance(tables["synthetic"], released, records)
    rounds = ", ".join(str(one + 1) for one in released.rounds)
    many = "s" if len(released.rounds) > 1 else ""
    distances.append(
        f"{to_released:.3f} to released (round{many} {rounds}, noise of {released.sigma:,.0f} "
        "records a cell)"
    )
    return f"{caption}{', '.join(distances)}."


def most_frequent(counts: np.ndarray, labels: Sequence[str]) -> str:
    """Name the most frequent cells, with their shares."""
    shares = counts / max(1, counts.sum())
    order = np.argsort(-shares, kind="stable")[:_NAMED_IN_ALT]
    return ", ".join(f"{labels[code]} ({shares[code]:.0%})" for code in order)
