"""A plan as a page: self-contained HTML, for those who decide on a budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from jam_dagster.common import palette
from jam_dagster.reports.plot_style import ErrorAxis, chart_of, styled
from jam_dagster.trials.release_plan import NOT_SHOWN

if TYPE_CHECKING:
    from jam_dagster.reports.plot_style import Chart
    from jam_dagster.trials.release_plan import Plan
    from jam_dagster.trials.simulation import Estimate


def plan_chart(plan: Plan) -> Chart:
    """Return the plot of a plan: simulated error against epsilon."""
    return error_against_epsilon(plan.errors, plan.public_error.mean, plan.epsilon)


def render_plan(plan: Plan, summary: Mapping[str, str]) -> str:
    """Render a plan as one HTML page that needs nothing else: no network, and no script."""
    from jam_dagster.common.choices import RECOMMENDED
    from jam_dagster.common.html_pages import environment, figures
    from jam_dagster.mechanisms.registry import title_of
    from jam_dagster.reports.live_charts import live_chart, page_script
    from jam_dagster.version import __version__

    points = "; ".join(
        f"{figures(one.error.mean)} at epsilon {figures(one.epsilon)}" for one in plan.curve
    )
    alternative = (
        f"Line chart: simulated mean workload error, {points}. The public half itself has "
        f"{figures(plan.public_error.mean)}."
        f"{error_axis(plan.errors, plan.public_error.mean).alternative}"
    )
    return (
        environment("jam_dagster.trials")
        .get_template("plan.html")
        .render(
            plan=plan,
            summary=summary,
            not_shown=NOT_SHOWN,
            chart=live_chart(plan_chart(plan), alternative) if len(plan.curve) > 1 else "",
            script=page_script(),
            version=__version__,
            title_of=title_of,
            recommended=RECOMMENDED,
        )
    )


def error_axis(errors: Mapping[float, Estimate], public_error: float) -> ErrorAxis:
    """Return the axis of the plot; its bars are the standard errors."""
    ends = {f"epsilon {epsilon:g}": (one.mean, one.high) for epsilon, one in errors.items()}
    return ErrorAxis.of(ends, public_error)


def error_against_epsilon(
    errors: Mapping[float, Estimate], public_error: float, asked: float
) -> Chart:
    """Plot the error of synthetic tables against epsilon, with the public half's own error."""
    import altair as alt

    rows = [
        {"epsilon": epsilon, "error": one.mean, "low": max(0.0, one.low), "high": one.high}
        for epsilon, one in errors.items()
    ]
    axis = error_axis(errors, public_error)
    x = alt.X(
        "epsilon:Q",
        title="epsilon of the release",
        scale=alt.Scale(type="log", nice=False, padding=20),
        axis=alt.Axis(values=list(errors), format="~g", grid=False),
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
