"""A plan as a page: self-contained HTML, for those who decide on a budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jam_dagster.common import palette
from jam_dagster.trials.charts import PUBLIC_HALF, Axis, chart_of_lines, line_styles
from jam_dagster.trials.plan_words import (
    conclusion,
    known_in_words,
    simulated_in_words,
    tables_of,
)
from jam_dagster.trials.release_plan import NOT_SHOWN
from jam_dagster.trials.runs import BASELINES, PRIOR_ROWS
from jam_dagster.trials.splits import HALVES

if TYPE_CHECKING:
    from jam_dagster.reports.plot_style import Chart
    from jam_dagster.trials.release_plan import Plan


_PANEL = "two halves of the public table play both parts: its real bias is not shown"


def plan_chart(plan: Plan) -> Chart:
    """Return the plot of a plan: simulated error against epsilon, a line a mechanism."""
    levels = {PUBLIC_HALF: plan.asked["public_error"]}
    if plan.asked["prior_error"] is not None:
        levels[BASELINES[PRIOR_ROWS]] = plan.asked["prior_error"]
    return error_against_epsilon(plan.lines, levels, plan.known.epsilon)


def error_against_epsilon(
    lines: Sequence[Mapping[str, Any]], levels: Mapping[str, float], asked: float
) -> Chart:
    """Plot points of `Plan.lines`, with errors of tables that cost nothing, by their names."""
    import altair as alt

    points = [{**one, "panel": _PANEL, "split": HALVES} for one in lines if one["error"] > 0]
    styles = line_styles([(one["label"], one["mechanism"]) for one in points])
    chart = chart_of_lines(
        points,
        styles,
        Axis("epsilon", "epsilon of the release"),
        Axis("error", "mean workload error"),
        [
            {"panel": _PANEL, "x": None, "level": error, "dash": name}
            for name, error in levels.items()
            if error > 0
        ],
        size=(460, 260),
    )
    return chart.properties(
        title=alt.Title(
            "Simulated error against epsilon",
            subtitle="; ".join(f"{name}: {error:.3g}" for name, error in levels.items())
            + "; bars: one standard error over seeds;"
            f" the release asks for epsilon {asked:g}",
            subtitleColor=palette.MUTED.light,
        )
    )


def render_plan(plan: Plan) -> str:
    """Render a plan as one HTML page that needs nothing else: no network, and no script."""
    from jam_dagster.common.html_pages import environment, figures
    from jam_dagster.reports.live_charts import live_chart, page_script
    from jam_dagster.version import __version__

    points = "; ".join(
        f"{figures(one['error'])} at epsilon {figures(one['epsilon'])}" for one in plan.curve
    )
    alternative = (
        f"Line chart: simulated mean workload error, {points}. The public half itself has "
        f"{figures(plan.asked['public_error'])}. {plan.bought}".rstrip()
    )
    return (
        environment("jam_dagster.trials")
        .get_template("plan.html")
        .render(
            plan=plan,
            summary=known_in_words(plan.known) | simulated_in_words(plan),
            tables=tables_of(plan),
            conclusion=conclusion(plan),
            not_shown=NOT_SHOWN,
            chart=live_chart(plan_chart(plan), alternative) if len(plan.curve) > 1 else "",
            script=page_script(),
            version=__version__,
        )
    )
