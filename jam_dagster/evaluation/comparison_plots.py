"""Plots that compare the distributions of a synthetic table with public and released ones."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jam_dagster.evaluation import palette
from jam_dagster.evaluation.cell_groups import CellGroup, cell_groups, gather
from jam_dagster.evaluation.plot_style import chart_of, styled
from jam_dagster.tables.attributes import NumericAttribute

if TYPE_CHECKING:
    import altair as alt

    from jam_dagster.evaluation.plot_style import Chart
    from jam_dagster.evaluation.released_marginals import ReleasedMarginal
    from jam_dagster.tables.domain import Attribute, Domain

INTERVAL_SIGMAS = 2.0
"""Half-width of the bars around released counts, in standard deviations."""

# Marks of the other tables are drawn over the bars and have to stand out.
_BAR_OPACITY = 0.75


def one_way_comparison(
    attribute: Attribute,
    *,
    synthetic: np.ndarray,
    public: np.ndarray,
    released: ReleasedMarginal | None = None,
    records: int,
    legend: bool = True,
) -> Chart:
    """Plot an attribute's distribution in the synthetic and the public table, and as measured.

    Parameters
    ----------
    attribute
        The attribute, k cells.
    synthetic, public
        Counts, shape ``(k,)``, of any number of records.
    released
        The released estimate, drawn with bars of two standard deviations and cut off at zero.
    records
        n, the number of records that released counts sum to.
    legend
        Whether the chart has a legend of its own.
    """
    numeric = isinstance(attribute, NumericAttribute)
    groups = cell_groups(attribute, _shares(synthetic) + _shares(public), 48 if numeric else 14)
    shares = {"synthetic": gather(_shares(synthetic), groups)}
    shares["public"] = gather(_shares(public), groups)
    rows: list[dict[str, Any]] = [
        {"table": table, "cell": group.label, "place": place, "share": float(share[place])}
        for table, share in shares.items()
        for place, group in enumerate(groups)
    ]
    if released is not None:
        measured = gather(released.counts, groups) / records
        for place, group in enumerate(groups):
            half = INTERVAL_SIGMAS * released.sigma * len(group.codes) ** 0.5 / records
            share = float(measured[place])
            # Noise can take a count below zero, where no bar can follow.
            shown = {"share": share, "low": share - half, "high": share + half}
            rows.append(
                {
                    "table": "released",
                    "cell": group.label,
                    "place": place,
                    **{name: max(0.0, value) for name, value in shown.items()},
                }
            )
    draw = _histogram if isinstance(attribute, NumericAttribute) else _bars
    return styled(draw(groups, rows, _legend(released is not None) if legend else None))


def two_way_comparison(
    domain: Domain, pair: tuple[str, str], tables: Mapping[str, np.ndarray]
) -> Chart:
    """Plot a two-way marginal of several tables side by side, on one scale.

    Parameters
    ----------
    domain
        The domain.
    pair
        Two attributes in domain order.
    tables
        Counts by title, each of the pair's shape and of any number of records.
    """
    import altair as alt

    panels = _panels(domain, pair, tables)
    titled = [panel.properties(title=title) for title, panel in panels.items()]
    return styled(alt.hconcat(*titled, spacing=24))


def two_way_panels(
    domain: Domain, pair: tuple[str, str], tables: Mapping[str, np.ndarray]
) -> dict[str, Chart]:
    """Return the panels of `two_way_comparison` one by one, for a page that places them itself."""
    panels = _panels(domain, pair, tables)
    return {title: styled(panel) for title, panel in panels.items()}


def _panels(
    domain: Domain, pair: tuple[str, str], tables: Mapping[str, np.ndarray]
) -> dict[str, alt.Chart]:
    import altair as alt

    attributes = [domain.attribute(name) for name in pair]
    shares = {title: _shares(np.maximum(counts, 0.0)) for title, counts in tables.items()}
    total = np.sum(list(shares.values()), axis=0)
    down, across = (
        cell_groups(attribute, total.sum(axis=1 - axis), 24 if _is_numeric(attribute) else 12)
        for axis, attribute in enumerate(attributes)
    )
    gathered = {title: gather(share, down, across) for title, share in shares.items()}
    # The root shows rare combinations beside frequent ones.
    largest = max(float(share.max()) for share in gathered.values()) ** 0.5 or 1.0
    panels: dict[str, alt.Chart] = {}
    for title, share in gathered.items():
        rows = [
            {"y": y, "x": x, "strength": float(share[y, x]) ** 0.5}
            for y in range(len(down))
            for x in range(len(across))
        ]
        panels[title] = (
            chart_of(rows)
            .mark_rect(color=palette.SYNTHETIC.light)
            .encode(
                x=alt.X("x:O", title=pair[1], axis=_cell_axis(across, vertical=False)),
                y=alt.Y("y:O", title=pair[0], axis=_cell_axis(down, vertical=True)),
                opacity=alt.Opacity(
                    "strength:Q",
                    scale=alt.Scale(domain=[0, largest], range=[0.03, 1]),
                    legend=None,
                ),
            )
            .properties(width=200, height=200)
        )
    return panels


def _is_numeric(attribute: Attribute) -> bool:
    return isinstance(attribute, NumericAttribute)


def _shares(counts: np.ndarray) -> np.ndarray:
    total = counts.sum()
    shares: np.ndarray = counts / total if total > 0 else np.zeros(counts.shape)
    return shares


def _bars(groups: Sequence[CellGroup], rows: list[dict[str, Any]], legend: Any) -> Any:
    """Draw categories as horizontal bars, with public shares as ticks across them."""
    import altair as alt

    base = chart_of(rows).encode(
        y=alt.Y(
            "place:O",
            title=None,
            axis=alt.Axis(
                domain=False,
                ticks=False,
                grid=False,
                labelLimit=130,
                labelExpr=_lookup([group.label for group in groups]),
            ),
        ),
        color=_table_colour(legend),
    )
    share = alt.X("share:Q", title=None, axis=alt.Axis(format="%", tickCount=4))
    synthetic = base.transform_filter("datum.table == 'synthetic'").mark_bar(
        height={"band": 0.62}, opacity=_BAR_OPACITY
    )
    public = base.transform_filter("datum.table == 'public'").mark_tick(
        thickness=3, height={"band": 0.9}
    )
    released = base.transform_filter("datum.table == 'released'")
    layers = [
        synthetic.encode(x=share),
        public.encode(x=share),
        released.mark_rule(size=1.5).encode(x=alt.X("low:Q"), x2="high:Q"),
        released.mark_point(filled=True, size=26, opacity=1).encode(x=share),
    ]
    return alt.layer(*layers).properties(width=210, height=max(3, len(groups)) * 19)


def _histogram(groups: Sequence[CellGroup], rows: list[dict[str, Any]], legend: Any) -> Any:
    """Draw bins as vertical bars, with public shares as a stepped line over them."""
    import altair as alt

    width = 300
    bars = len(groups)
    # A place more at the end closes the last step of the line.
    ends = [row | {"place": row["place"] + 1} for row in rows if row["table"] == "public"][-1:]
    base = chart_of(rows + ends).encode(color=_table_colour(legend))
    scale = alt.Scale(domain=[0, bars], nice=False)
    every = max(1, -(-bars // 6))
    axis = alt.Axis(
        values=list(range(0, bars, every)),
        labelExpr=_lookup([group.start for group in groups]),
        grid=False,
        labelOverlap="greedy",
        labelSeparation=10,
    )
    share = alt.Y("share:Q", title=None, axis=alt.Axis(format="%", tickCount=4))
    middle = alt.X("middle:Q", scale=scale, title=None, axis=axis)
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
        public.mark_line(interpolate="step-after", size=2).encode(
            x=alt.X("place:Q", scale=scale, title=None, axis=axis), y=share
        ),
        released.mark_rule(size=1.2).encode(x=middle, y=alt.Y("low:Q"), y2="high:Q"),
        released.mark_point(filled=True, size=18, opacity=1).encode(x=middle, y=share),
    ]
    return alt.layer(*layers).properties(width=width, height=170)


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


def _legend(released: bool) -> Any:
    import altair as alt

    shown = ["synthetic", "public", *(["released"] if released else [])]
    return alt.Legend(title=None, orient="top", values=shown, symbolOpacity=1)


def _cell_axis(groups: Sequence[CellGroup], *, vertical: bool) -> Any:
    """Label the places of groups, but no more of them than can be read."""
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
    return f"{json.dumps(list(labels))}[datum.value]"
