"""The plot of `benchmarks.scaling`: a panel for each thing that grows, seconds above memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import altair as alt

from jam_dagster.common import palette
from jam_dagster.reports.plot_style import chart_of, png, styled

Row = Mapping[str, str]

_TITLES = {
    "rows": "rows of the private table",
    "attributes": "attributes",
    "rounds": "rounds",
    "size_limit_mb": "size limit, MB",
}

# What is small beside the rest is one line: start, read and encode, sample.
_LINES = {
    "the whole process": ("start", "read", "encode", "mechanism", "sample", "evaluate"),
    "the mechanism": ("mechanism",),
    "evaluation": ("evaluate",),
    "all else": ("start", "read", "encode", "sample"),
}
_COLOURS = (palette.RELEASED, palette.SYNTHETIC, palette.PUBLIC, palette.MUTED)
_SHAPES = ("circle", "square", "diamond", "triangle-up")


def on_axis(rows: Sequence[Row], axis: str, base: Mapping[str, float]) -> list[Row]:
    """Return the runs that differ from the base on one axis only, in its order."""
    others = {name: value for name, value in base.items() if name != axis}
    fitting = [
        row for row in rows if all(float(row[name]) == value for name, value in others.items())
    ]
    return sorted(fitting, key=lambda row: float(row[axis]))


def chart(
    rows: Sequence[Row], sweeps: Mapping[str, Sequence[float]], base: Mapping[str, float]
) -> Any:
    """Return the chart.

    Parameters
    ----------
    rows
        Runs that ended well.
    sweeps
        The axes, one panel each, and their values.
    base
        What each axis stays at while another grows.
    """
    panels = []
    for axis in sweeps:
        taken, held = [], []
        for row in on_axis(rows, axis, base):
            value = float(row[axis])
            held.append({"x": value, "gb": float(row["peak_gb"])})
            for line, stages in _LINES.items():
                seconds = sum(float(row[f"seconds.{stage}"]) for stage in stages)
                # A logarithmic axis has no place for nothing.
                taken.append({"x": value, "seconds": max(seconds, 0.01), "line": line})
        x = alt.X(
            "x:Q",
            title=_TITLES[axis],
            scale=alt.Scale(type="log", nice=False),
            axis=alt.Axis(values=list(sweeps[axis]), format="~s", grid=False, labelOverlap=False),
        )
        panels.append(alt.vconcat(_times(taken, x), _memory(held, x), spacing=16))
    return styled(alt.hconcat(*panels, spacing=20).resolve_scale(color="shared", shape="shared"))


def _times(rows: list[dict[str, Any]], x: alt.X) -> alt.LayerChart:
    names = list(_LINES)
    base = chart_of(rows).encode(
        x=x,
        y=alt.Y(
            "seconds:Q",
            title="seconds",
            scale=alt.Scale(type="log"),
            axis=alt.Axis(format="~g", values=[10.0**power for power in range(-2, 5)]),
        ),
        color=alt.Color(
            "line:N",
            scale=alt.Scale(domain=names, range=[colour.light for colour in _COLOURS]),
            legend=alt.Legend(title=None, orient="top"),
        ),
        shape=alt.Shape("line:N", scale=alt.Scale(domain=names, range=list(_SHAPES))),
    )
    return _lined(base)


def _memory(rows: list[dict[str, Any]], x: alt.X) -> alt.LayerChart:
    base = chart_of(rows).encode(
        x=x,
        y=alt.Y("gb:Q", title="peak GB", axis=alt.Axis(tickCount=4)),
        color=alt.value(palette.RELEASED.light),
    )
    return _lined(base)


def _lined(base: alt.Chart) -> alt.LayerChart:
    lines, points = base.mark_line(size=1.5), base.mark_point(filled=True, size=40, opacity=1)
    return alt.LayerChart(layer=[lines, points], width=190, height=170)


def save(
    rows: Sequence[Row],
    sweeps: Mapping[str, Sequence[float]],
    base: Mapping[str, float],
    path: Path,
) -> None:
    """Write the chart to an .svg or .png file, on white ground."""
    made = chart(rows, sweeps, base).properties(background="white")
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".png":
        path.write_bytes(png(made))
    else:
        made.save(str(path), format="svg")
