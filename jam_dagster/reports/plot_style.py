"""The style of plots, and their rendering without a browser or a network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from jam_dagster.common import palette
from jam_dagster.common.shown_text import shown

if TYPE_CHECKING:
    import altair as alt

    Chart = alt.Chart | alt.LayerChart | alt.HConcatChart | alt.ConcatChart | alt.FacetChart

_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"


@contextmanager
def unvalidated() -> Iterator[None]:
    """Make charts without a validation of each part, which takes as long as drawing.

    The tests of this package validate every chart.
    """
    from altair.utils.schemapi import debug_mode

    with debug_mode(False):
        yield


def coloured(field: str, colours: Mapping[str, palette.Colour]) -> Any:
    """Return the colour of a field, with a legend above the chart."""
    import altair as alt

    scale = alt.Scale(domain=list(colours), range=[one.light for one in colours.values()])
    return alt.Color(field, scale=scale, legend=alt.Legend(title=None, orient="top"))


def marked(
    field: str, looks: Mapping[Any, tuple[palette.Colour, str]], legend: Any = None
) -> dict[str, Any]:
    """Return the colour and the shape of points by a field; a legend shows both."""
    import altair as alt

    colours, shapes = zip(*looks.values(), strict=True)
    scale = alt.Scale(domain=list(looks), range=[one.light for one in colours])
    shaped = alt.Scale(domain=list(looks), range=list(shapes))
    return {
        "color": alt.Color(field, scale=scale, legend=legend),
        "shape": alt.Shape(field, scale=shaped, legend=legend),
    }


def stacked_uses(
    rows: Sequence[dict[str, Any]],
    x: Any,
    y: Any,
    uses: Mapping[str, palette.Colour],
    *tooltip: Any,
) -> Any:
    """Stack the amounts of rows by their ``use``, in the order of the uses."""
    places = {use: place for place, use in enumerate(uses)}
    shown = [{**row, "place": places[row["use"]]} for row in rows if row["use"] in places]
    encoded = chart_of(shown).mark_bar().encode(x=x, y=y, color=coloured("use:N", uses))
    return encoded.encode(order="place:O", tooltip=list(tooltip))


def svg(chart: Chart, *, background: str = "transparent") -> str:
    """Render a chart as one ``<svg>`` element; a separate file needs a background."""
    return svg_of(specification(chart, background))


def svg_of(spec: dict[str, Any]) -> str:
    """Render what `specification` returned as one ``<svg>`` element."""
    import vl_convert

    made: str = vl_convert.vegalite_to_svg(spec, _grammar())
    return made


def png(chart: Chart) -> bytes:
    """Render a chart as PNG on a white background, enlarged for sharp displays.

    The factor is below two: a window of Dagster's UI would crop a larger picture.
    """
    import vl_convert

    made: bytes = vl_convert.vegalite_to_png(specification(chart, "white"), _grammar(), scale=1.5)
    return made


def specification(chart: Chart, background: str = "transparent") -> dict[str, Any]:
    """Return the Vega-Lite specification of a chart, with visible control characters in its texts.

    A raw control character in a text crashes the process that draws it.
    """
    spec = chart.to_dict(validate=False) | {"background": background}
    made: dict[str, Any] = shown(spec)
    return made


def _grammar() -> str:
    """Return the version of Vega-Lite in the renderer's form."""
    import altair as alt

    return ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])


def chart_of(rows: Sequence[dict[str, Any]]) -> alt.Chart:
    """Start a chart of prepared rows."""
    import altair as alt

    return alt.Chart(alt.InlineData(values=list(rows)))


def styled(chart: Any) -> Chart:
    """Apply the common style to a chart."""
    ink, muted, grid = palette.INK.light, palette.MUTED.light, palette.GRID.light
    # In one call: each copies the chart with its data.
    look: Chart = chart.configure(
        font=_FONT,
        padding=4,
        aria=False,
        view={"stroke": None},
        axis={
            "labelColor": muted,
            "titleColor": muted,
            "titleFontWeight": "normal",
            "titleFontSize": 12,
            "labelFontSize": 11,
            "gridColor": grid,
            "domainColor": grid,
            "tickColor": grid,
        },
        legend={"labelColor": ink, "labelFontSize": 12, "padding": 2, "symbolSize": 90},
        header={"labelColor": ink, "labelFontSize": 13, "labelAnchor": "start", "title": None},
        title={"color": ink, "fontSize": 13, "fontWeight": "normal", "anchor": "start"},
    )
    return look
