"""The plot of a plan: simulated error against epsilon."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jam_dagster.common import palette
from jam_dagster.reports.plot_style import ErrorAxis, chart_of, styled

if TYPE_CHECKING:
    from jam_dagster.reports.plot_style import Chart


@dataclass(frozen=True)
class ErrorAtEpsilon:
    """A point of the curve.

    `standard_error` is that of the mean over seeds.
    """

    epsilon: float
    error: float
    standard_error: float

    @property
    def high(self) -> float:
        """The upper end of the bar."""
        return self.error + self.standard_error


def error_axis(points: Sequence[ErrorAtEpsilon], public_error: float) -> ErrorAxis:
    """Return the axis of the plot; its bars are the standard errors."""
    ends = {f"epsilon {one.epsilon:g}": (one.error, one.high) for one in points}
    return ErrorAxis.of(ends, public_error)


def error_against_epsilon(
    points: Sequence[ErrorAtEpsilon], public_error: float, asked: float
) -> Chart:
    """Plot the error of synthetic tables against epsilon, with the public half's own error."""
    import altair as alt

    rows = [
        {
            "epsilon": one.epsilon,
            "error": one.error,
            "low": max(0.0, one.error - one.standard_error),
            "high": one.high,
        }
        for one in points
    ]
    axis = error_axis(points, public_error)
    x = alt.X(
        "epsilon:Q",
        title="epsilon of the release",
        scale=alt.Scale(type="log", nice=False, padding=20),
        axis=alt.Axis(values=[one.epsilon for one in points], format="~g", grid=False),
    )
    scale = alt.Scale(domain=[0, axis.top], nice=False)
    y = alt.Y("error:Q", title=axis.title("mean workload error"), scale=scale)
    shown = [alt.Tooltip(f"{name}:Q", format=".4g") for name in ("epsilon", "error", "low", "high")]
    curve = chart_of(rows).encode(x=x, y=y, tooltip=shown)
    colour = palette.SYNTHETIC.light
    bars = curve.mark_rule(size=2, color=colour, clip=True).encode(y="low:Q", y2="high:Q")
    line = curve.mark_line(size=1.5, color=colour)
    dots = curve.mark_point(filled=True, size=90, opacity=1, color=colour)
    ring = (
        chart_of([row for row in rows if row["epsilon"] == asked])
        .mark_point(size=260, strokeWidth=2, opacity=1, color=palette.INK.light)
        .encode(x=x, y=y, tooltip=shown)
    )
    level = chart_of([{"error": public_error}]).encode(y=y)
    rule = level.mark_rule(strokeDash=[6, 4], size=1.5, color=palette.PUBLIC.light)
    # Below the line at the left, where noise is largest and keeps the curve away.
    label = level.mark_text(
        align="left", baseline="top", dx=4, dy=4, color=palette.INK.light
    ).encode(x=alt.value(0), text=alt.value(f"public half itself: {public_error:.3g}"))
    return styled(
        alt.layer(rule, label, bars, line, dots, ring).properties(
            width=460,
            height=260,
            title=alt.Title(
                "Simulated error against epsilon",
                subtitle=[
                    "two halves of the public table play both parts: its real bias is not shown",
                    "bars: one standard error over seeds; ring: the requested epsilon",
                ],
                subtitleColor=palette.MUTED.light,
            ),
        )
    )
