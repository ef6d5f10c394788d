"""The chart of a benchmark's figures: panels of lines with error bars, and baselines."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from jam_dagster.common import palette
from jam_dagster.mechanisms.registry import MECHANISMS, make_mechanism
from jam_dagster.reports.plot_style import styled
from jam_dagster.trials.runs import (
    BASELINES,
    PRIOR_ROWS,
    PUBLIC_TABLE,
    SAMPLING_FLOOR,
    TRUE_ONE_WAYS,
)

if TYPE_CHECKING:
    import altair as alt

    from jam_dagster.mechanisms.base import Mechanism
    from jam_dagster.reports.plot_style import Chart

_SIZE = (300, 210)
PUBLIC_HALF = "public half itself"
_PUBLIC, _PRIVATE = "learns from public data", "from private data alone"
_DASHES = {
    _PUBLIC: [1, 0],
    _PRIVATE: [5, 3],
    BASELINES[PUBLIC_TABLE]: [10, 4],
    PUBLIC_HALF: [10, 4],
    BASELINES[PRIOR_ROWS]: [4, 4, 1, 4],
    BASELINES[TRUE_ONE_WAYS]: [2, 3],
    BASELINES[SAMPLING_FLOOR]: [8, 3, 2, 3],
}


class Axis(NamedTuple):
    """A column on an axis: logarithmic, from 0 to 1 if it is a share, or linear from its least."""

    column: str
    title: str
    share: bool = False
    linear: bool = False


def chart_of_lines(
    rows: Sequence[Mapping[str, Any]],
    lines: Sequence[Line],
    x: Axis,
    y: Axis,
    levels: Sequence[Mapping[str, Any]] = (),
    bounds: Sequence[Mapping[str, Any]] = (),
    size: tuple[int, int] = _SIZE,
) -> Chart:
    """Return a chart of rows of `means` with their ``panel`` and ``label``, two panels a row.

    `levels` are baselines, `bounds` are above a shaded area: a ``panel``, the ``level`` with its
    title as ``dash`` or the ``bound``, and an ``x``, or None if it holds in the whole panel.
    `size` is a panel's width and height.
    """
    import altair as alt

    points = _points(rows, lines, x, y)
    panels = list(dict.fromkeys(one["panel"] for one in points))
    scale = alt.Scale(type="log", nice=False, padding=16)
    plain = alt.Scale(zero=False, nice=False, padding=16)
    across = alt.X(
        "x:Q",
        title=x.title,
        scale=scale,
        axis=alt.Axis(
            values=sorted({one["x"] for one in points}),
            format=".3~g",
            grid=False,
            labelOverlap=True,
        ),
    )
    up = partial(
        alt.Y,
        title=y.title,
        scale=alt.Scale(domain=[0, 1]) if y.share else plain if y.linear else scale,
        axis=alt.Axis(format="~g", labelOverlap=True, tickCount=5),
        stack=None,
    )
    held = {one["dash"] for one in (*points, *levels)}
    dashes = {name: dash for name, dash in _DASHES.items() if name in held}
    dash = alt.StrokeDash(
        "dash:N",
        scale=alt.Scale(domain=list(dashes), range=list(dashes.values())),
        legend=_legend("bottom", 3 if len(panels) > 1 else 1, symbolSize=600)
        if len(dashes) > 1
        else None,
    )
    return styled(
        alt.layer(
            *_baselines(levels, bounds, across, up, dash, size[1]),
            *_marks(lines, (x, y), across, up, dash),
            data=alt.InlineData(values=[*points, *map(dict, levels), *map(dict, bounds)]),
        )
        .properties(width=size[0], height=size[1])
        .facet(facet=alt.Facet("panel:N", title=None, sort=panels), columns=2)
        .resolve_scale(x="independent", y="independent")
    )


def _points(
    rows: Sequence[Mapping[str, Any]], lines: Sequence[Line], x: Axis, y: Axis
) -> list[dict[str, Any]]:
    """Return the data of points; charts copy them many times while they are composed."""
    dashes = {one.title: _PUBLIC if one.public else _PRIVATE for one in lines}
    least = 0.0 if y.share else 0.1
    return [
        {
            **{name: row[name] for name in ("panel", "label", "split", "runs")},
            "dash": dashes[row["label"]],
            "x": row[x.column],
            "y": row[y.column],
            # An error bar stays positive on a logarithmic axis.
            "low": max(row[f"{y.column}_low"], least * row[y.column]),
            "high": row[f"{y.column}_high"],
            "se": row[f"{y.column}_se"],
        }
        for row in rows
    ]


def _baselines(
    levels: Sequence[Mapping[str, Any]],
    bounds: Sequence[Mapping[str, Any]],
    across: alt.X,
    up: Callable[[str], alt.Y],
    dash: alt.StrokeDash,
    height: int,
) -> list[alt.Chart]:
    """Return areas below bounds, and lines of baselines."""
    import altair as alt

    layers: list[alt.Chart] = []
    everywhere = any(one["x"] is None for one in (*levels, *bounds))
    if bounds:
        area = _with("bound").encode(y=up("bound:Q"), y2=alt.value(height))
        area = area.mark_rect() if everywhere else area.mark_area().encode(x=across)
        grey = {"color": alt.value(palette.MUTED.light), "opacity": alt.value(0.18)}
        layers.append(area.encode(**grey))
    if levels:
        level = _with("level").encode(y=up("level:Q"), strokeDash=dash)
        level = (
            level.mark_rule(size=1.4) if everywhere else level.mark_line(size=1.4).encode(across)
        )
        layers.append(level.encode(color=alt.value(palette.INK.light)))
    return layers


def _marks(
    lines: Sequence[Line],
    axes: tuple[Axis, Axis],
    across: alt.X,
    up: Callable[[str], alt.Y],
    dash: alt.StrokeDash,
) -> list[alt.Chart]:
    """Return bars of one standard error, lines, and points, with one legend."""
    import altair as alt

    domain = [one.title for one in lines]

    def style(channel: Any, values: list[str]) -> Any:
        return channel(
            "label:N", scale=alt.Scale(domain=domain, range=values), legend=_legend("top", 4)
        )

    base = _with("y").encode(
        x=across,
        color=style(alt.Color, [one.colour for one in lines]),
        tooltip=[
            alt.Tooltip("label:N", title="mechanism"),
            alt.Tooltip("split:N"),
            alt.Tooltip("x:Q", title=axes[0].title, format=".4~g"),
            alt.Tooltip("y:Q", title=axes[1].title, format=".4g"),
            alt.Tooltip("se:Q", format=".2g", title="standard error"),
            alt.Tooltip("runs:Q"),
        ],
    )
    return [
        base.mark_rule(size=1.2).encode(y=up("low:Q"), y2="high:Q"),
        base.mark_line(size=1.6).encode(y=up("y:Q"), strokeDash=dash),
        base.mark_point(size=52, opacity=1, strokeWidth=1.5).encode(
            y=up("y:Q"),
            fill=style(alt.Fill, [one.colour if one.public else "transparent" for one in lines]),
            shape=style(alt.Shape, [one.shape for one in lines]),
        ),
    ]


def _with(column: str) -> alt.Chart:
    """Start a layer of the rows that have a column."""
    import altair as alt

    return alt.Chart().transform_filter(f"isValid(datum.{column})")


def _legend(orient: Any, columns: int, **options: Any) -> alt.Legend:
    import altair as alt

    return alt.Legend(title=None, orient=orient, columns=columns, labelLimit=0, **options)


_SHAPES = (
    *("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "triangle-right"),
    # The outlines of a star and of others that Vega does not have by name.
    "M0,-1L.26,-.36L.95,-.31L.42,.14L.59,.81L0,.45L-.59,.81L-.42,.14L-.95,-.31L-.26,-.36Z",
    "triangle-left",
    "M-.9,-.5L-.5,-.9L0,-.4L.5,-.9L.9,-.5L.4,0L.9,.5L.5,.9L0,.4L-.5,.9L-.9,.5L-.4,0Z",
    *("M-.8,-.8L.8,-.8L-.8,.8L.8,.8Z", "M-.8,-.8L-.8,.8L.8,-.8L.8,.8Z"),
    *("M-.4,-1L.4,-1L.4,1L-.4,1Z", "M-1,-.4L1,-.4L1,.4L-1,.4Z"),
    "M0,-1L.95,-.31L.59,.81L-.59,.81L-.95,-.31Z",
    *("M0,-.9L.9,.2L.9,.9L0,0L-.9,.9L-.9,.2Z", "M0,.9L.9,-.2L.9,-.9L0,0L-.9,-.9L-.9,-.2Z"),
    *("M-1,.5A1,1,0,0,1,1,.5Z", "M-1,-.5A1,1,0,0,0,1,-.5Z"),
    "M-.9,-.9L.9,-.9L.9,-.3L.3,-.3L.3,.9L-.3,.9L-.3,-.3L-.9,-.3Z",
)
_COLOURS = (
    *("#0072b2", "#b5466f", "#d55e00", "#15919b", "#a87900", "#6b7785", "#7a5c6e"),
    *("#7a7a00", "#009e73", "#a8563a", "#8b8a12", "#4d8a2c", "#8a5fbf", "#c2609a"),
    *("#d1495b", "#4f6fd0", "#b0693f", "#9c4f8a", "#3f8a6a", "#8f7a45", "#c05046"),
    *("#f200f2", "#f200aa", "#3057f2", "#f20030", "#00a600", "#9130f2", "#c761f2"),
    *("#9786bf", "#f20079"),
)
"""Their contrast is 3 or more on white and on the dark background of pages."""


class Line(NamedTuple):
    """The style of one line: full with filled markers if the mechanism learns from public data."""

    title: str
    colour: str
    shape: str
    public: bool


def line_styles(named: Iterable[tuple[str, str]]) -> list[Line]:
    """Return the styles of lines, each with its title and mechanism, in the order of legends.

    A mechanism under its own name has a style by its rank, which stays reserved even without runs;
    a further line of it has the same colour and another marker.
    """
    known = MECHANISMS
    taken: set[tuple[str, str, bool]] = set()

    def free(title: str, colour: int, shape: int, public: bool) -> Line:
        """Return a line in the nearest style that is not taken."""
        colours = (_COLOURS[(colour + at) % len(_COLOURS)] for at in range(len(_COLOURS)))
        shapes = [_SHAPES[(shape + at) % len(_SHAPES)] for at in range(len(_SHAPES))]
        looks = ((*look, public) for look in itertools.product(colours, shapes))
        look = next(look for look in looks if look not in taken)
        taken.add(look)
        return Line(title, *look)

    def learns(one: type[Mechanism]) -> bool:
        return one.takes_public != "cannot"

    own: dict[str, Line] = {}
    for name, one in known.items():
        alike = sum(learns(known[other]) == learns(one) for other in own)
        own[name] = free(one.title, len(own), alike, learns(one))
    ranks = {name: rank for rank, name in enumerate(known)}

    def place(pair: tuple[str, str]) -> tuple[int, bool, str]:
        title, name = pair
        return ranks.get(name, len(ranks)), name not in own or own[name].title != title, title

    lines = []
    for title, name in sorted(set(named), key=place):
        line = own.get(name)
        if line is None:
            lines.append(free(title, len(own), 0, public=False))
        elif line.title == title:
            lines.append(line)
        else:
            without = make_mechanism(name, **known[name].without_public())
            public = line.public and title != without.titled
            lines.append(
                free(title, _COLOURS.index(line.colour), _SHAPES.index(line.shape), public)
            )
    return lines
