"""The figures of a release report: charts as inline SVG, each with its text alternative."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import escape

from jam_dagster.evaluation import plots
from jam_dagster.evaluation.released_marginals import ReleasedMarginal, released_marginal

if TYPE_CHECKING:
    from jam_dagster.evaluation.plot_style import Chart
    from jam_dagster.evaluation.workload_error import WorkloadError
    from jam_dagster.mechanisms.transcript import Transcript
    from jam_dagster.tables.domain import Domain
    from jam_dagster.tables.marginals import MarginalSource

# A pair of more cells than this is too fine to be read as a heat map.
_LARGEST_PAIR = 4096
_PAIRS_SHOWN = 4
_NAMED_IN_ALT = 3


@dataclass(frozen=True)
class Figure:
    """A chart on the page.

    Parameters
    ----------
    title
        What it shows.
    svg
        The chart, safe to be put into a page as it is.
    caption
        What to read from it.
    """

    title: str
    svg: str
    caption: str = ""


@dataclass(frozen=True)
class PairFigure:
    """Heat maps of two attributes in several tables.

    Parameters
    ----------
    title
        The attributes.
    panels
        One a table.
    caption
        What to read from them.
    """

    title: str
    panels: tuple[Figure, ...]
    caption: str


def round_figures(transcript: Transcript) -> dict[str, Figure]:
    """Draw what was spent (``budget``) and what was chosen (``choices``), round by round."""
    if not transcript.rounds:
        return {}
    picks = transcript.picks
    return {
        "budget": Figure(
            "Budget over rounds",
            inline(
                plots.budget_over_rounds(transcript),
                f"Bar chart: rho spent after each of {len(transcript.rounds)} rounds, "
                f"{transcript.rho_spent:.4g} of {transcript.rho_budget:.4g} at the end.",
            ),
        ),
        "choices": Figure(
            "Choices per round",
            inline(
                plots.choices_per_round(transcript),
                f"Dot plot: {picks['private']} rounds measured privately, {picks['public']} took "
                "public data. The table of rounds names each.",
            ),
        ),
    }


def error_figure(error: WorkloadError) -> Figure:
    """Draw exact errors by marginal; restricted."""
    synthetic = (error.synthetic and error.synthetic.per_marginal) or {}
    public = (error.public and error.public.per_marginal) or {}
    better = sum(synthetic[clique] < public[clique] for clique in synthetic)
    caption = (
        f"Each mark is a marginal; in {better} of {len(synthetic)} the synthetic table is closer "
        "to the private one than the public table is."
    )
    return Figure(
        "Error by marginal",
        inline(plots.error_by_marginal(error), f"Scatter plot. {caption}"),
        caption,
    )


def one_way_figures(
    domain: Domain, transcript: Transcript, synthetic: MarginalSource, public: MarginalSource
) -> Iterator[Figure]:
    """Draw every attribute's distribution."""
    for attribute in domain.attributes:
        clique = (attribute.name,)
        released = released_marginal(transcript, clique)
        tables = {"synthetic": synthetic.marginal(clique), "public": public.marginal(clique)}
        chart = plots.one_way_comparison(
            attribute,
            synthetic=tables["synthetic"],
            public=tables["public"],
            released=released,
            records=transcript.records,
            legend=False,
        )
        frequent = "; ".join(
            f"{title}: {_most_frequent(counts, attribute.labels)}"
            for title, counts in tables.items()
        )
        yield Figure(
            attribute.name,
            inline(chart, f"Distribution of {attribute.name}. Most frequent, {frequent}."),
            _distances(tables, released, transcript.records),
        )


def two_way_figures(
    domain: Domain, transcript: Transcript, synthetic: MarginalSource, public: MarginalSource
) -> Iterator[PairFigure]:
    """Draw the pairs of attributes that tell most.

    Pairs that were measured privately come first, since there the page can show all three tables;
    among them, and among the others, those in which the synthetic and the public table differ most.
    """
    for pair in telling_pairs(domain, transcript, synthetic, public):
        released = released_marginal(transcript, pair)
        tables = {"synthetic": synthetic.marginal(pair), "public": public.marginal(pair)}
        shown = dict(tables)
        if released is not None:
            shown["released"] = released.counts
        panels = plots.two_way_panels(domain, pair, shown)
        names = " and ".join(pair)
        yield PairFigure(
            names,
            tuple(
                Figure(title, inline(chart, f"Heat map of {names}, {title} table."))
                for title, chart in panels.items()
            ),
            _distances(tables, released, transcript.records),
        )


def telling_pairs(
    domain: Domain, transcript: Transcript, synthetic: MarginalSource, public: MarginalSource
) -> list[tuple[str, str]]:
    """Choose the pairs that `two_way_figures` draws, no attribute more than twice."""
    candidates = [
        pair
        for pair in combinations(domain.names, 2)
        if domain.size(pair) <= _LARGEST_PAIR and min(domain.sizes[name] for name in pair) > 1
    ]
    ranked = []
    answers, others = synthetic.marginals(candidates), public.marginals(candidates)
    for pair in candidates:
        measured = any(
            m.source == "private" and set(pair) <= set(m.clique) for m in transcript.measurements
        )
        ranked.append((not measured, -_l1(answers[pair], others[pair]), pair))
    chosen: list[tuple[str, str]] = []
    for _, _, pair in sorted(ranked, key=lambda one: one[:2]):
        uses = [name for one in chosen for name in one]
        if all(uses.count(name) < 2 for name in pair):
            chosen.append(pair)
        if len(chosen) == _PAIRS_SHOWN:
            break
    return chosen


def inline(chart: Chart, alternative: str) -> str:
    """Render a chart for a page, with what it shows for those who cannot see it."""
    text = plots.svg(chart)
    return text[text.index("<svg") :].replace(
        "<svg", f'<svg role="img" aria-label="{escape(alternative)}"', 1
    )


def _distances(
    tables: Mapping[str, np.ndarray], released: ReleasedMarginal | None, records: int
) -> str:
    distance = _l1(tables["synthetic"], tables["public"])
    caption = f"L1 distance of the synthetic table: {distance:.3f} to public"
    if released is None:
        return caption + "; not measured privately."
    synthetic = tables["synthetic"]
    to_released = np.abs(synthetic / synthetic.sum() - released.counts / records).sum()
    rounds = ", ".join(str(one + 1) for one in released.rounds)
    return (
        f"{caption}, {to_released:.3f} to released (round {rounds}, noise of "
        f"{released.sigma:,.0f} records a cell)."
    )


def _l1(first: np.ndarray, second: np.ndarray) -> float:
    """L1 distance of two marginals as fractions."""
    return float(np.abs(first / max(1.0, first.sum()) - second / max(1.0, second.sum())).sum())


def _most_frequent(counts: np.ndarray, labels: Sequence[str]) -> str:
    shares = counts / max(1, counts.sum())
    order = np.argsort(-shares, kind="stable")[:_NAMED_IN_ALT]
    return ", ".join(f"{labels[code]} ({shares[code]:.0%})" for code in order)
