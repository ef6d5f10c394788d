"""Panels of a benchmark's figures: lines with error bars, baselines, areas below a bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jam_dagster.benchmark.axes import HEIGHT, WIDTH, Axis, spread
from jam_dagster.benchmark.line_styles import LineStyles
from jam_dagster.benchmark.runs import BEST_MIXTURE, PUBLIC_TABLE, SAMPLING_FLOOR, TRUE_ONE_WAYS
from jam_dagster.common import palette
from jam_dagster.reports.plot_style import chart_of, styled

if TYPE_CHECKING:
    from jam_dagster.reports.plot_style import Chart

# Grey, since hues belong to mechanisms. Names are short for lack of room beside the panels.
_LEVELS = {
    PUBLIC_TABLE: ("public table", palette.INK.light, [9, 4]),
    TRUE_ONE_WAYS: ("true one-ways", palette.MUTED.light, [2, 3]),
    BEST_MIXTURE: ("best mixture", palette.INK.light, [9, 3, 2, 3]),
    SAMPLING_FLOOR: ("sampling floor", palette.INK.light, [1, 3]),
}
_BESIDE = 90


def limits(rows: Sequence[Mapping[str, Any]], measure: str, *, log: bool) -> list[float]:
    """Return the values of some rows and the ends of their error bars."""
    made = []
    for row in rows:
        made += [float(row[measure]), _low(row, measure, log), float(row[f"{measure}_high"])]
    return made


def lines_of(
    rows: Sequence[Mapping[str, Any]],
    styles: LineStyles,
    x: str,
    x_title: str,
    y: str,
    axis: Axis,
    *,
    columns: int = 2,
    marks: str = "",
) -> list[Any]:
    """Return lines, bars of one standard error, and points.

    Parameters
    ----------
    rows
        Rows of `means`, with a ``label``; all of them have a place on both axes.
    styles
        Line styles of the figure.
    x, y
        The columns; x is shown logarithmically.
    x_title
        Title of x.
    axis
        The axis of y.
    columns
        Number of panels side by side.
    marks
        An expression for the label at each value of x; by default the value.
    """
    import altair as alt

    # Charts copy their data many times while they are composed.
    fields = ("label", "split", x, y, f"{y}_se", "runs")
    shown = [
        {name: row[name] for name in fields}
        | {"low": _low(row, y, axis.log), "high": row[f"{y}_high"]}
        for row in rows
    ]
    base = chart_of(shown).encode(
        x=alt.X(
            f"{x}:Q",
            title=x_title,
            scale=alt.Scale(type="log", nice=False, padding=14),
            axis=alt.Axis(
                values=sorted({row[x] for row in shown}),
                format=".3~g",
                grid=False,
                labelOverlap=True,
                labelExpr=marks or alt.Undefined,
            ),
        ),
        y=axis.vertical(y),
        tooltip=[
            alt.Tooltip("label:N", title="mechanism"),
            alt.Tooltip("split:N"),
            alt.Tooltip(f"{x}:Q", title=x_title, format=".4~g"),
            alt.Tooltip(f"{y}:Q", title=axis.title, format=".4g"),
            alt.Tooltip(f"{y}_se:Q", format=".2g", title="standard error"),
            alt.Tooltip("runs:Q"),
        ],
    )
    hue = styles.hue()
    bars = base.mark_rule(size=1.2).encode(y="low:Q", y2="high:Q", color=hue)
    lines = []
    held = {str(row["label"]) for row in rows}
    for dash in dict.fromkeys(tuple(one.dash) for one in styles.lines):
        titles = {one.title for one in styles.lines if tuple(one.dash) == dash} & held
        if titles:
            part = base.transform_filter(alt.FieldOneOfPredicate("label", sorted(titles)))
            lines.append(part.mark_line(size=1.6, strokeDash=list(dash)).encode(color=hue))
    markers = styles.encodings(columns * (WIDTH + _BESIDE))
    points = base.mark_point(size=52, opacity=1, strokeWidth=1.5).encode(**markers)
    return [bars, *lines, points]


def _low(row: Mapping[str, Any], measure: str, log: bool) -> float:
    """Return the lower end of an error bar, which stays positive on a logarithmic axis."""
    low = float(row[f"{measure}_low"])
    return max(low, float(row[measure]) / 10) if log else max(low, 0.0)


def shown_levels(levels: Mapping[str, float], *, log: bool) -> dict[str, float]:
    """Return the baselines with a style and a place on the axis."""
    held = {name: levels[name] for name in _LEVELS if name in levels}
    return {name: value for name, value in held.items() if value > 0 or not log}


def level_rules(levels: Mapping[str, float], axis: Axis) -> list[Any]:
    """Return baselines as lines across a panel, with their names at its right.

    Parameters
    ----------
    levels
        Errors by the baselines' names, from `shown_levels`.
    axis
        The axis of the errors.
    """
    made: list[Any] = []
    pixels = spread([HEIGHT * (1 - axis.share(value)) for value in levels.values()])
    for (name, value), pixel in zip(levels.items(), pixels, strict=True):
        title, colour, dash = _LEVELS[name]
        base = chart_of([{"error": value}])
        rule = base.mark_rule(color=colour, strokeDash=dash, size=1.4)
        made.append(rule.encode(y=axis.vertical("error")))
        made.append(beside(title, pixel, colour))
    return made


def beside(text: str, pixel: float, colour: str = palette.INK.light) -> Any:
    """Return a name at the right of a panel, at a distance in pixels from its top."""
    import altair as alt

    mark = chart_of([{}]).mark_text(align="left", dx=4, fontSize=10, color=colour)
    return mark.encode(x=alt.value(WIDTH), y=alt.value(pixel), text=alt.value(text))


def below(axis: Axis, bound: float) -> Axis:
    """Return an axis that also shows some room below a bound."""
    if not axis.log:
        return axis
    high = max(axis.high, bound * 1.1)
    room = max(high / bound, 1.5) ** 0.15
    return replace(axis, low=min(axis.low, bound / room), high=high)


def shade_below(axis: Axis, bound: float) -> list[Any]:
    """Return the shaded area below the best mixture error, with its name at the right."""
    import altair as alt

    base = chart_of([{"bound": bound}]).encode(y=axis.vertical("bound"))
    area = base.mark_rect(color=palette.MUTED.light, opacity=0.18).encode(y2=alt.value(HEIGHT))
    rule = base.mark_rule(color=palette.MUTED.light, size=1)
    pixel = HEIGHT * (1 - axis.share(bound))
    return [area, rule, beside(f"best mixture {bound:.3g}", pixel)]


def panel(layers: Sequence[Any], title: str) -> Any:
    """Return a panel composed of its layers."""
    import altair as alt

    return alt.layer(*layers).properties(width=WIDTH, height=HEIGHT, title=title)


def together(panels: Sequence[Any]) -> Chart:
    """Return panels, two of them side by side, with one legend."""
    import altair as alt

    if len(panels) == 1:
        return styled(panels[0])
    made = alt.concat(*panels, columns=2, spacing=28)
    return styled(
        made.resolve_scale(color="shared", stroke="shared", fill="shared", shape="shared")
    )
