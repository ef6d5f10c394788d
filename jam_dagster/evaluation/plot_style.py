"""How plots look, and how they are rendered without a browser or a network."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jam_dagster.evaluation import palette

if TYPE_CHECKING:
    import altair as alt

    Chart = alt.Chart | alt.LayerChart | alt.HConcatChart | alt.ConcatChart | alt.FacetChart

_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"


def svg(chart: Chart, *, background: str = "transparent") -> str:
    """Render a chart as one ``<svg>`` element; a file of its own needs a background."""
    text = io.StringIO()
    chart.properties(background=background).save(text, format="svg")
    return text.getvalue()


def png(chart: Chart) -> bytes:
    """Render a chart as PNG on white ground, larger than it is for sharp displays.

    Not twice as large: a window of Dagster's UI would cut it off.
    """
    image = io.BytesIO()
    chart.properties(background="white").save(image, format="png", scale_factor=1.5)
    return image.getvalue()


def chart_of(rows: Sequence[dict[str, Any]]) -> alt.Chart:
    """Start a chart of rows that are already what it shows."""
    import altair as alt

    return alt.Chart(alt.InlineData(values=list(rows)))


def styled(chart: Any) -> Chart:
    """Give a chart the look that all of them share."""
    ink, muted, grid = palette.INK.light, palette.MUTED.light, palette.GRID.light
    look: Chart = (
        chart.configure(font=_FONT, padding=4, aria=False)
        .configure_view(stroke=None)
        .configure_axis(
            labelColor=muted,
            titleColor=muted,
            titleFontWeight="normal",
            titleFontSize=12,
            labelFontSize=11,
            gridColor=grid,
            domainColor=grid,
            tickColor=grid,
        )
        .configure_legend(labelColor=ink, labelFontSize=12, padding=2, symbolSize=90)
        .configure_header(labelColor=ink, labelFontSize=13, labelAnchor="start", title=None)
        .configure_title(color=ink, fontSize=13, fontWeight="normal", anchor="start")
    )
    return look
