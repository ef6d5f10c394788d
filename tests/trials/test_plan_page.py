"""The plot of a plan shows its points, their doubt, and the line to beat."""

from __future__ import annotations

import re

import pytest

from jam_dagster.common import palette
from jam_dagster.reports.plot_style import svg
from jam_dagster.trials.plan_page import error_against_epsilon, error_axis
from jam_dagster.trials.simulation import Estimate
from tests.reports.test_plots import rows_of, texts

POINTS = {0.5: Estimate(0.3, 0.02), 1.0: Estimate(0.2, 0.01)}


def test_points_bars_and_line_are_there() -> None:
    chart = error_against_epsilon(POINTS, 0.25, asked=1.0)

    rows = [row for row in rows_of(chart) if "low" in row]
    first = next(row for row in rows if row["epsilon"] == 0.5)
    assert (first["low"], first["high"]) == (pytest.approx(0.28), pytest.approx(0.32))
    # The ring is a row of its own.
    assert sum(row["epsilon"] == 1.0 for row in rows) > sum(row["epsilon"] == 0.5 for row in rows)
    shown = texts(svg(chart))
    assert "public half itself: 0.25" in shown
    assert {"0.5", "1"} <= set(shown)


def test_the_axis_follows_the_errors() -> None:
    few = POINTS | {0.5: Estimate(0.3, 2.0)}
    for points, top, title in (
        (POINTS, 0.32, "mean workload error"),
        (few, 0.45, "mean workload error (longer bars are cut)"),
    ):
        layers = error_against_epsilon(points, 0.25, asked=1.0).to_dict()["layer"]
        y = next(one["encoding"]["y"] for one in layers if one["mark"]["type"] == "line")
        assert y["scale"]["domain"] == pytest.approx([0, top])
        assert y["title"] == title
    assert error_axis(POINTS, 0.25).alternative == ""
    cut = " 1 bar ends beyond the axis of 0.45: epsilon 0.5 to 2.3."
    assert error_axis(few, 0.25).alternative == cut
    # The line of the public half is on the axis, too.
    assert error_axis(POINTS, 0.4).top == pytest.approx(0.4)
    assert error_axis({1.0: Estimate(0.0, None)}, 0.0).top == 1.0


def test_words_have_the_colours_of_words() -> None:
    """Those of the tables have less contrast than text needs."""
    drawn = svg(error_against_epsilon(POINTS, 0.25, asked=1.0))
    colours = set(re.findall(r'<text[^>]* fill="([^"]+)"', drawn))
    assert colours <= {palette.INK.light, palette.MUTED.light}
