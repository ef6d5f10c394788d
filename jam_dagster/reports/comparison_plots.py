"""Plots that compare the distributions of a synthetic table with public and released ones."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jam_dagster.common import palette
from jam_dagster.common.shown_text import shown
from jam_dagster.reports.cell_groups import CellGroup
from jam_dagster.reports.comparisons import CellShares, one_way_shares, pair_cells
from jam_dagster.reports.plot_style import chart_of, styled

if TYPE_CHECKING:
    from jam_dagster.evaluation.released_marginals import ReleasedMarginal
    from jam_dagster.reports.plot_style import Chart
    from jam_dagster.tables.domain.attributes import Attribute
    from jam_dagster.tables.domain.domain import Domain

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
    # The square root makes rare combinations visible beside frequent ones.
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
            share, half = cell.released.share, cell.released.half
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
            row["released"] = f"{cell.released.share:.2%} ± {cell.released.half:.2%}"
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
