"""A plan as a page: self-contained HTML, for those who decide on a budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from jam_dagster.planning.plan import NOT_SHOWN
from jam_dagster.reports.plan_plots import ErrorAtEpsilon, error_against_epsilon, error_axis

if TYPE_CHECKING:
    from jam_dagster.planning.plan import Plan
    from jam_dagster.reports.plot_style import Chart


def plan_chart(plan: Plan) -> Chart:
    """Return the plot of a plan: simulated error against epsilon."""
    return error_against_epsilon(_points(plan), plan.public_error.mean, plan.epsilon)


def _points(plan: Plan) -> list[ErrorAtEpsilon]:
    return [
        ErrorAtEpsilon(one.epsilon, one.error.mean, one.error.standard_error or 0.0)
        for one in plan.curve
    ]


def render_plan(plan: Plan, summary: Mapping[str, str]) -> str:
    """Render a plan as one HTML page that needs nothing else: no network, and no script."""
    from jam_dagster import __version__
    from jam_dagster.common.choices import RECOMMENDED
    from jam_dagster.common.html_pages import environment, figures
    from jam_dagster.mechanisms.registry import title_of
    from jam_dagster.reports.live_charts import live_chart, page_script

    points = "; ".join(
        f"{figures(one.error.mean)} at epsilon {figures(one.epsilon)}" for one in plan.curve
    )
    alternative = (
        f"Line chart: simulated mean workload error, {points}. The public half itself has "
        f"{figures(plan.public_error.mean)}."
        f"{error_axis(_points(plan), plan.public_error.mean).alternative}"
    )
    return (
        environment("jam_dagster.planning")
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
