"""Plots of a release, as Vega-Lite charts.

Charts show public tables, synthetic tables and released measurements, so they may be released. Only
`error_by_marginal` shows exact statistics of private data, and must not be.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jam_dagster.common import palette
from jam_dagster.common.shown_text import shown
from jam_dagster.errors import InputError
from jam_dagster.reports.budget_over_rounds import LOST_DRAWS, NUMBER_OF_ROWS, Spending, shown_uses
from jam_dagster.reports.comparisons import CellGroup, CellShares, one_way_shares, pair_cells
from jam_dagster.reports.mechanism_text import chooses_source
from jam_dagster.reports.plot_style import chart_of, marked, stacked_uses, styled

if TYPE_CHECKING:
    from jam_dagster.evaluation.bounds.table import ErrorBounds
    from jam_dagster.evaluation.released_marginals import ReleasedMarginal
    from jam_dagster.evaluation.workload_error import WorkloadErrors
    from jam_dagster.mechanisms.loops.transcript import Transcript
    from jam_dagster.reports.plot_style import Chart
    from jam_dagster.tables.domain.attributes import Attribute
    from jam_dagster.tables.domain.domain import Domain


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

_BETTER = {True: (palette.SYNTHETIC, "circle"), False: (palette.PUBLIC, "diamond")}

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
            {"round": one.index + 1, "use": use, "rho": rho}
            for use, rho in zip(_USES, uses, strict=True)
        ]
    bars = stacked_uses(
        rows,
        _round_axis(len(transcript.rounds)),
        alt.Y(
            "rho:Q",
            title="rho spent so far",
            stack="zero",
            axis=alt.Axis(tickCount=5),
            # Room for the label of the budget.
            scale=alt.Scale(domain=[0, 1.12 * transcript.rho_budget], nice=False),
        ),
        shown_uses(_USES, rows, "rho"),
        *("round:O", "use:N", alt.Tooltip("rho:Q", format=".4g", title="rho so far")),
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

    looks = {title: (colour, shape) for title, colour, shape in sources}
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
            tooltip=[place, "marginal:N", "source:N"],
            **marked("source:N", looks, alt.Legend(title=None, orient="top")),
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
            tooltip=[
                "marginal:N",
                alt.Tooltip("synthetic:Q", format=".4f"),
                alt.Tooltip("baseline:Q", title=title, format=".4f"),
            ],
            **marked("better:N", _BETTER),
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
    found = {row["kind"] for row in rows}
    looks = {name: _KIND_LOOKS[kind] for kind, name in KIND_NAMES.items() if name in found}
    chart = (
        chart_of(rows)
        .mark_point(filled=True, size=36, opacity=0.7)
        .encode(
            x=alt.X("rank:Q", title="marginals, the tightest bound first"),
            y=alt.Y("bound:Q", title="error at most (fraction of the records)"),
            tooltip=["marginal:N", "kind:N", alt.Tooltip("bound:Q", format=".4f")],
            **marked("kind:N", looks, alt.Legend(title=None, orient="top", labelLimit=0)),
        )
        .properties(width=430, height=220)
    )
    return styled(chart)


def _round_axis(rounds: int) -> Any:
    import altair as alt

    every = 1 if rounds <= 15 else 5
    shown = [one for one in range(1, rounds + 1) if one % every == 0 or one == 1]
    return alt.X("round:O", title="round", axis=alt.Axis(labelAngle=0, values=shown, grid=False))


# Marks of the other tables are drawn over the bars and must be visible there.
_BAR_OPACITY = 0.75
# Keeps an empty cell visible.
_SHADES = [0.03, 1]


def one_way_comparison(
    attribute: Attribute,
    *,
    synthetic: np.ndarray,
    public: np.ndarray | None,
    released: ReleasedMarginal | None = None,
    records: int,
    legend: bool = True,
) -> Chart:
    """Plot an attribute's distribution in the synthetic, the public and the released counts."""
    cells = one_way_shares(
        attribute, synthetic=synthetic, public=public, released=released, records=records
    )
    draw = _histogram if attribute.binned else _bars
    return styled(draw(attribute.name, cells, _legend(cells[0]) if legend else None))


def two_way_panels(
    domain: Domain, pair: tuple[str, str], tables: Mapping[str, np.ndarray]
) -> dict[str, Chart]:
    """Plot a two-way marginal of several tables, a panel each, on one scale."""
    import altair as alt

    cells = pair_cells(domain, pair, tables)
    down, across, gathered = cells.down, cells.across, cells.shares
    # The square root makes rare combinations visible next to frequent ones.
    largest = max(float(share.max()) for share in gathered.values()) ** 0.5 or 1.0
    panels: dict[str, Chart] = {}
    for title, share in gathered.items():
        rows = [
            {"y": y, "x": x, "strength": float(share[y, x]) ** 0.5}
            for y in range(len(down))
            for x in range(len(across))
        ]
        panels[title] = styled(
            chart_of(rows)
            .mark_rect(color=palette.SYNTHETIC.light)
            .encode(
                x=alt.X("x:O", title=pair[1], axis=_cell_axis(across, vertical=False)),
                y=alt.Y("y:O", title=pair[0], axis=_cell_axis(down, vertical=True)),
                opacity=alt.Opacity(
                    "strength:Q",
                    scale=alt.Scale(domain=[0, largest], range=_SHADES),
                    legend=None,
                ),
            )
            .properties(width=200, height=200)
        )
    return panels


def live_pair() -> Chart:
    """Return the chart of any pair, for a page's script to fill with rows named ``cells``.

    A row is a cell of a table: ``table``, ``down`` and ``across`` (labels), ``strength`` (the
    shade), and as text ``cell`` and each table's share.
    """
    import altair as alt

    tables = ["synthetic", "public", "released"]
    # Vega shows a tooltip's field named title as its heading.
    tooltip = [alt.Tooltip("cell:N", title="title"), *(alt.Tooltip(f"{one}:N") for one in tables)]
    look: dict[str, Any] = {"labelLimit": 110, "domain": False, "ticks": False, "grid": False}
    chart = (
        alt.Chart(alt.NamedData("cells"))
        .mark_rect(color=palette.SYNTHETIC.light)
        .encode(
            x=alt.X("across:N", sort=None, axis=alt.Axis(labelAngle=-40, **look)),
            y=alt.Y("down:N", sort=None, axis=alt.Axis(**look)),
            opacity=alt.Opacity(
                "strength:Q", scale=alt.Scale(domainMin=0, nice=False, range=_SHADES), legend=None
            ),
            tooltip=tooltip,
        )
        .properties(width=200, height=200)
        .facet(alt.Facet("table:N", sort=tables, title=None), columns=3, spacing=24)
    )
    return styled(chart)


def _rows(cells: Sequence[CellShares]) -> list[dict[str, Any]]:
    """Return a row for each table and place; negative noisy shares are clipped at zero."""
    rows: list[dict[str, Any]] = [
        {"table": table, "place": place, "share": getattr(cell, table)}
        for table in ("synthetic", "public")
        for place, cell in enumerate(cells)
        if getattr(cell, table) is not None
    ]
    for place, cell in enumerate(cells):
        if cell.released is not None:
            share, half = cell.released, cell.half
            shown = {"share": share, "low": share - half, "high": share + half}
            noisy = {name: max(0.0, value) for name, value in shown.items()}
            rows.append({"table": "released", "place": place, **noisy})
    return rows


def _bars(name: str, cells: Sequence[CellShares], legend: Any) -> Any:
    """Draw categories as horizontal bars, with public shares as ticks across them."""
    import altair as alt

    width = 210
    place = alt.Y(
        "place:O",
        title=None,
        axis=alt.Axis(
            domain=False,
            ticks=False,
            grid=False,
            labelLimit=130,
            labelExpr=_lookup([cell.group.label for cell in cells]),
        ),
    )
    base = chart_of(_rows(cells)).encode(y=place, color=_table_colour(legend))
    share = alt.X("share:Q", title=None, axis=alt.Axis(format="%", tickCount=4))
    synthetic = base.transform_filter("datum.table == 'synthetic'").mark_bar(
        height={"band": 0.62}, opacity=_BAR_OPACITY
    )
    public = base.transform_filter("datum.table == 'public'").mark_tick(
        thickness=3, height={"band": 0.9}
    )
    released = base.transform_filter("datum.table == 'released'")
    layers = [synthetic.encode(x=share)]
    if cells[0].public is not None:
        layers.append(public.encode(x=share))
    if cells[0].released is not None:
        layers += [
            released.mark_rule(size=1.5).encode(x=alt.X("low:Q"), x2="high:Q"),
            released.mark_point(filled=True, size=26, opacity=1).encode(x=share),
        ]
    hover = _hover(name, cells, height={"band": 1}).encode(
        y=place, x=alt.value(0), x2=alt.value("width")
    )
    return alt.layer(*layers, hover).properties(width=width, height=max(3, len(cells)) * 19)


def _histogram(name: str, cells: Sequence[CellShares], legend: Any) -> Any:
    """Draw bins as vertical bars, with public shares as a stepped line over them."""
    import altair as alt

    width, height = 300, 170
    bars = len(cells)
    rows = _rows(cells)
    # An extra place at the end closes the last step of the line.
    ends = [row | {"place": row["place"] + 1} for row in rows if row["table"] == "public"][-1:]
    base = chart_of(rows + ends).encode(color=_table_colour(legend))
    scale = alt.Scale(domain=[0, bars], nice=False)
    every = max(1, -(-bars // 6))
    axis = alt.Axis(
        values=list(range(0, bars, every)),
        labelExpr=_lookup([cell.group.start for cell in cells]),
        grid=False,
        labelOverlap="greedy",
        labelSeparation=10,
    )
    share = alt.Y("share:Q", title=None, axis=alt.Axis(format="%", tickCount=4))
    middle = alt.X("middle:Q", scale=scale, title=None, axis=axis)
    place = alt.X("place:Q", scale=scale, title=None, axis=axis)
    synthetic = base.transform_filter("datum.table == 'synthetic'").transform_calculate(
        left="datum.place + 0.06", right="datum.place + 0.94"
    )
    public = base.transform_filter("datum.table == 'public'")
    released = base.transform_filter("datum.table == 'released'").transform_calculate(
        middle="datum.place + 0.5"
    )
    layers = [
        synthetic.mark_bar(opacity=_BAR_OPACITY).encode(
            x=alt.X("left:Q", scale=scale, title=None, axis=axis),
            x2="right:Q",
            y=share,
            y2=alt.datum(0.0),
        ),
    ]
    if cells[0].public is not None:
        line = public.mark_line(interpolate="step-after", size=2)
        layers.append(line.encode(x=place, y=share))
    if cells[0].released is not None:
        layers += [
            released.mark_rule(size=1.2).encode(x=middle, y=alt.Y("low:Q"), y2="high:Q"),
            released.mark_point(filled=True, size=18, opacity=1).encode(x=middle, y=share),
        ]
    hover = (
        _hover(name, cells)
        .transform_calculate(next="datum.place + 1")
        .encode(x=place, x2="next:Q", y=alt.value(0), y2=alt.value("height"))
    )
    return alt.layer(*layers, hover).properties(width=width, height=height)


def _hover(name: str, cells: Sequence[CellShares], **mark: Any) -> Any:
    """Add an invisible mark over each place, with its numbers as a tooltip."""
    import altair as alt

    rows: list[dict[str, Any]] = []
    for place, cell in enumerate(cells):
        row = {"place": place, "cell": f"{name}: {cell.group.label}"}
        row["synthetic"] = f"{cell.synthetic:.2%}"
        if cell.public is not None:
            row["public"] = f"{cell.public:.2%}"
        if cell.released is not None:
            row["released"] = f"{cell.released:.2%} ± {cell.half:.2%}"
        rows.append(row)
    shown = [table for table in ("synthetic", "public", "released") if table in rows[0]]
    # Vega shows a tooltip's field named title as its heading.
    tooltip = [alt.Tooltip("cell:N", title="title"), *(alt.Tooltip(f"{one}:N") for one in shown)]
    return (
        chart_of(rows).mark_bar(color=palette.INK.light, opacity=0, **mark).encode(tooltip=tooltip)
    )


def _table_colour(legend: Any) -> Any:
    import altair as alt

    return alt.Color(
        "table:N",
        scale=alt.Scale(
            domain=["synthetic", "public", "released"],
            range=[palette.SYNTHETIC.light, palette.PUBLIC.light, palette.RELEASED.light],
        ),
        legend=legend,
    )


def _legend(cell: CellShares) -> Any:
    import altair as alt

    shown = [
        table for table in ("synthetic", "public", "released") if getattr(cell, table) is not None
    ]
    return alt.Legend(title=None, orient="top", values=shown, symbolOpacity=1)


def _cell_axis(groups: Sequence[CellGroup], *, vertical: bool) -> Any:
    """Label the places of groups, at most as many as are legible."""
    import altair as alt

    every = max(1, -(-len(groups) // (16 if vertical else 12)))
    return alt.Axis(
        values=list(range(0, len(groups), every)),
        labelExpr=_lookup([group.label for group in groups]),
        labelAngle=0 if vertical else -40,
        labelLimit=110,
        domain=False,
        ticks=False,
        grid=False,
    )


def _lookup(labels: Sequence[str]) -> str:
    """Return a Vega expression that turns a place into its label."""
    return f"{json.dumps(shown(list(labels)))}[datum.value]"
