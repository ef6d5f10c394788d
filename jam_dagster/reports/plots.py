"""Plots of a release, as Vega-Lite charts; `svg` and `png` render them.

Charts show public tables, synthetic tables and released measurements, so they may be released. Only
`error_by_marginal` shows exact statistics of private data, and must not be.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jam_dagster.common import palette
from jam_dagster.errors import InputError
from jam_dagster.reports.budget_over_rounds import LOST_DRAWS, NUMBER_OF_ROWS, Spending, shown_uses
from jam_dagster.reports.comparison_plots import (
    live_pair,
    one_way_comparison,
    two_way_panels,
)
from jam_dagster.reports.mechanism_text import chooses_source
from jam_dagster.reports.plot_style import chart_of, coloured, png, styled, svg

if TYPE_CHECKING:
    from jam_dagster.evaluation.bounds.table import ErrorBounds
    from jam_dagster.evaluation.workload_error import WorkloadErrors
    from jam_dagster.mechanisms.loops.transcript import Transcript
    from jam_dagster.reports.plot_style import Chart

__all__ = [
    "bound_by_marginal",
    "budget_over_rounds",
    "choices_per_round",
    "error_by_marginal",
    "live_pair",
    "one_way_comparison",
    "png",
    "svg",
    "two_way_panels",
]

KIND_NAMES = {
    "supported": "measured, or part of one that was",
    "unsupported": "not measured",
    "none": "never a candidate or part of one",
}
"""The basis of a bound on a marginal's error, in words."""

_KIND_LOOKS = {
    "supported": (palette.SYNTHETIC, "circle"),
    "unsupported": (palette.PUBLIC, "diamond"),
    "none": (palette.MUTED, "cross"),
}

SOURCES = {
    "private": ("measured privately", palette.SYNTHETIC, "circle"),
    "public": ("taken from public data", palette.PUBLIC, "diamond"),
    "lost": ("charged, and lost", palette.LOST, "cross"),
}

_USES = {
    NUMBER_OF_ROWS: palette.MUTED,
    "selection": palette.SELECTION,
    "measurement": palette.MEASUREMENT,
    LOST_DRAWS: palette.LOST,
}


def budget_over_rounds(transcript: Transcript) -> Chart:
    """Plot the rho spent up to each round by purpose, under the budget."""
    import altair as alt

    rows: list[dict[str, Any]] = []
    for one, spent in zip(transcript.rounds, Spending.by_round(transcript), strict=True):
        uses = (spent.counting, spent.selecting, spent.measuring, spent.lost)
        rows += [
            {"round": one.index + 1, "use": use, "place": place, "rho": rho}
            for place, (use, rho) in enumerate(zip(_USES, uses, strict=True))
        ]
    shown = shown_uses(_USES, rows, "rho")
    rows = [row for row in rows if row["use"] in shown]
    bars = (
        chart_of(rows)
        .mark_bar()
        .encode(
            x=_round_axis(len(transcript.rounds)),
            y=alt.Y(
                "rho:Q",
                title="rho spent so far",
                stack="zero",
                axis=alt.Axis(tickCount=5),
                # Room for the label of the budget.
                scale=alt.Scale(domain=[0, 1.12 * transcript.rho_budget], nice=False),
            ),
            color=coloured("use:N", shown),
            order="place:O",
            tooltip=["round:O", "use:N", alt.Tooltip("rho:Q", format=".4g", title="rho so far")],
        )
    )
    limit = chart_of([{"rho": transcript.rho_budget}]).encode(y="rho:Q")
    line = limit.mark_rule(strokeDash=[6, 4], size=1.5, color=palette.INK.light)
    label = limit.mark_text(
        align="left", baseline="bottom", dx=4, dy=-3, color=palette.INK.light
    ).encode(x=alt.value(0), text=alt.value(f"budget {transcript.rho_budget:.4g}"))
    return styled(alt.layer(bars, line, label).properties(width=430, height=200))


def choices_per_round(transcript: Transcript) -> Chart:
    """Plot each round's marginal, with its source or its loss."""
    rows: list[dict[str, Any]] = [
        {
            "round": one.index + 1,
            "marginal": " x ".join(one.clique),
            "source": SOURCES["lost" if one.measurement is None else one.source][0],
        }
        for one in transcript.rounds
    ]
    marginals = list(dict.fromkeys(str(row["marginal"]) for row in rows))
    left_out = set() if chooses_source(transcript.mechanism) else {"public"}
    if "lost" not in transcript.picks:
        left_out.add("lost")
    shown = [one for source, one in SOURCES.items() if source not in left_out]
    return marginals_by_source(rows, _round_axis(len(rows)), "round:O", marginals, shown)


def marginals_by_source(
    rows: Sequence[dict[str, Any]],
    across: Any,
    place: str,
    marginals: Sequence[str],
    sources: Sequence[tuple[str, palette.Colour, str]],
) -> Chart:
    """Plot the marginal, in this order, and the source of each place on an axis."""
    import altair as alt

    titles, colours, shapes = zip(*sources, strict=True)
    chart = (
        chart_of(rows)
        .mark_point(filled=True, size=110, opacity=1)
        .encode(
            x=across,
            y=alt.Y(
                "marginal:N",
                sort=marginals,
                title=None,
                axis=alt.Axis(grid=True, labelLimit=300, domain=False, ticks=False),
            ),
            color=coloured("source:N", dict(zip(titles, colours, strict=True))),
            shape=alt.Shape("source:N", scale=alt.Scale(domain=titles, range=shapes)),
            tooltip=[place, "marginal:N", "source:N"],
        )
        .properties(width=340, height=alt.Step(22))
    )
    return styled(chart)


def error_by_marginal(error: WorkloadErrors) -> Chart:
    """Plot every marginal's error in the synthetic against that in the public table.

    Without a public table, independent attributes take its place. Restricted: the errors are exact
    statistics of private data.
    """
    import altair as alt

    synthetic = error.synthetic and error.synthetic.per_marginal
    title = "public table" if error.public else "independent attributes"
    baseline = error.public or error.independent
    others = baseline and baseline.per_marginal
    if not synthetic or not others:
        raise InputError("errors by marginal are only known where evaluation has mode 'exact'.")
    rows: list[dict[str, Any]] = [
        {
            "marginal": " x ".join(clique),
            "baseline": others[clique],
            "synthetic": synthetic[clique],
            "better": synthetic[clique] <= others[clique],
        }
        for clique in synthetic
    ]
    end = 1.05 * max(max(row["baseline"], row["synthetic"]) for row in rows) or 1.0
    scale = alt.Scale(domain=[0, end], nice=False)
    points = (
        chart_of(rows)
        .mark_point(filled=True, size=36, opacity=0.6)
        .encode(
            x=alt.X("baseline:Q", title=f"error of the {title}", scale=scale),
            y=alt.Y("synthetic:Q", title="error of the synthetic table", scale=scale),
            color=alt.Color(
                "better:N",
                scale=alt.Scale(
                    domain=[True, False], range=[palette.SYNTHETIC.light, palette.PUBLIC.light]
                ),
                legend=None,
            ),
            shape=alt.Shape(
                "better:N",
                scale=alt.Scale(domain=[True, False], range=["circle", "diamond"]),
                legend=None,
            ),
            tooltip=[
                "marginal:N",
                alt.Tooltip("synthetic:Q", format=".4f"),
                alt.Tooltip("baseline:Q", title=title, format=".4f"),
            ],
        )
    )
    diagonal = (
        chart_of([{"x": 0, "y": 0}, {"x": end, "y": end}])
        .mark_line(strokeDash=[5, 4], size=1.2, color=palette.MUTED.light)
        .encode(x="x:Q", y="y:Q")
    )
    note = (
        chart_of([{"x": end, "y": 0}])
        .mark_text(align="right", baseline="bottom", dx=-6, dy=-6, color=palette.MUTED.light)
        .encode(x="x:Q", y="y:Q", text=alt.value(f"below the line: better than the {title}"))
    )
    return styled(alt.layer(diagonal, points, note).properties(width=380, height=380))


def bound_by_marginal(bounds: ErrorBounds) -> Chart:
    """Plot the error bound of each marginal, the tightest first."""
    import altair as alt

    fractions = bounds.fractions()
    ordered = sorted(bounds.bounds, key=lambda one: one.bound)
    rows: list[dict[str, Any]] = [
        {
            "rank": rank,
            "marginal": " x ".join(one.clique),
            "bound": fractions[one.clique],
            "kind": KIND_NAMES[one.kind],
        }
        for rank, one in enumerate(ordered, 1)
        if math.isfinite(one.bound)
    ]
    shown = [name for name in KIND_NAMES.values() if any(row["kind"] == name for row in rows)]
    looks = [_KIND_LOOKS[kind] for kind, name in KIND_NAMES.items() if name in shown]
    chart = (
        chart_of(rows)
        .mark_point(filled=True, size=36, opacity=0.7)
        .encode(
            x=alt.X("rank:Q", title="marginals, the tightest bound first"),
            y=alt.Y("bound:Q", title="error at most (fraction of the records)"),
            color=alt.Color(
                "kind:N",
                scale=alt.Scale(domain=shown, range=[one.light for one, _ in looks]),
                legend=alt.Legend(title=None, orient="top", labelLimit=0),
            ),
            shape=alt.Shape(
                "kind:N", scale=alt.Scale(domain=shown, range=[shape for _, shape in looks])
            ),
            tooltip=["marginal:N", "kind:N", alt.Tooltip("bound:Q", format=".4f")],
        )
        .properties(width=430, height=220)
    )
    return styled(chart)


def _round_axis(rounds: int) -> Any:
    import altair as alt

    every = 1 if rounds <= 15 else 5
    shown = [one for one in range(1, rounds + 1) if one % every == 0 or one == 1]
    return alt.X("round:O", title="round", axis=alt.Axis(labelAngle=0, values=shown, grid=False))
