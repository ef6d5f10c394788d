"""The plot of a plan shows its points, their doubt, and the line to beat."""

from __future__ import annotations

import re
from typing import Any

import pytest

from jam_dagster.common import palette
from jam_dagster.reports.plot_style import svg
from jam_dagster.trials.charts import PUBLIC_HALF
from jam_dagster.trials.plan_page import error_against_epsilon
from tests.reports.test_plots import rows_of, texts


def point(epsilon: float, error: float, spread: float | None, name: str = "aim") -> dict[str, Any]:
    bar = spread or 0.0
    return {
        "mechanism": name,
        "label": {"aim": "AIM", "tilt": "TILT"}[name],
        "runs": 1 if spread is None else 2,
        "epsilon": epsilon,
        "error": error,
        "error_se": spread,
        "error_low": error - bar,
        "error_high": error + bar,
    }


POINTS = [point(0.5, 0.3, 0.02), point(1.0, 0.2, 0.01), point(1.0, 0.1, None, "tilt")]


def test_points_bars_and_line_are_there() -> None:
    chart = error_against_epsilon(POINTS, {PUBLIC_HALF: 0.25}, asked=1.0)

    rows = [row for row in rows_of(chart) if "y" in row]
    places = [(row["label"], row["x"], row["low"], row["high"]) for row in rows]
    assert places == [
        ("AIM", 0.5, pytest.approx(0.28), pytest.approx(0.32)),
        ("AIM", 1.0, pytest.approx(0.19), pytest.approx(0.21)),
        ("TILT", 1.0, 0.1, 0.1),
    ]
    assert [row["level"] for row in rows_of(chart) if "level" in row] == [0.25]
    shown = texts(svg(chart))
    assert {"0.5", "1", "AIM", "TILT", "public half itself"} <= set(shown)
    assert any("public half itself: 0.25" in one and "asks for epsilon 1" in one for one in shown)


def test_an_error_of_nothing_has_no_place_on_the_axis() -> None:
    chart = error_against_epsilon([*POINTS, point(2.0, 0.0, None)], {PUBLIC_HALF: 0.0}, asked=1.0)
    assert [row["x"] for row in rows_of(chart) if "y" in row] == [0.5, 1.0, 1.0]
    assert not [row for row in rows_of(chart) if "level" in row]


def test_words_have_the_colours_of_words() -> None:
    """Those of the tables have less contrast than text needs."""
    drawn = svg(error_against_epsilon(POINTS, {PUBLIC_HALF: 0.25}, asked=1.0))
    colours = set(re.findall(r'<text[^>]* fill="([^"]+)"', drawn))
    assert colours <= {palette.INK.light, palette.MUTED.light}
