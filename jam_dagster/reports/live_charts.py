"""Charts on pages: pictures that need no script, which a script on the page makes answer.

The picture of a chart is an SVG in the page. Its description lies beside it as data; where scripts
run, Vega-Lite, embedded once a page, draws it again with tooltips. Nothing is fetched, and Vega's
expressions are interpreted, so the page's policy need not allow `eval`.
"""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any

from jam_dagster.common.html_pages import script_text
from jam_dagster.common.shown_text import shown, visible
from jam_dagster.reports.plot_style import specification, svg

if TYPE_CHECKING:
    from markupsafe import Markup

    from jam_dagster.reports.plot_style import Chart


def live_chart(chart: Chart, alternative: str) -> Markup:
    """Return a chart for a page, with what it shows for those who cannot see it.

    Parameters
    ----------
    chart
        The chart.
    alternative
        What it shows, with its numbers.
    """
    from markupsafe import Markup

    return Markup('<div class="chart">{}{}</div>').format(
        picture(chart, alternative), data_block(description(chart), "spec")
    )


def picture(chart: Chart, alternative: str) -> Markup:
    """Return a chart for a page as a picture alone."""
    from markupsafe import Markup

    text = svg(chart)
    hidden = text[text.index("<svg") :].replace("<svg", '<svg aria-hidden="true"', 1)
    drawn = Markup(hidden)  # noqa: S704 - Vega escapes what it draws
    return Markup('<div role="img" aria-label="{}">{}</div>').format(visible(alternative), drawn)


def description(chart: Chart) -> dict[str, Any]:
    """Return what a page's script draws a chart from, without the address of its grammar."""
    spec = specification(chart)
    del spec["$schema"]
    return spec


def data_block(value: object, name: str) -> Markup:
    """Return data for the page's script; no browser runs it."""
    from markupsafe import Markup

    # Names in it are found again by what the page shows of them.
    text = json.dumps(shown(value), separators=(",", ":"), sort_keys=True)
    # Data may hold "</script>".
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(f'<script type="application/json" class="{name}">{text}</script>')  # noqa: S704


@functools.cache
def page_script(*names: str) -> str:
    """Return the one script of a page: Vega-Lite and what draws charts with it, then others.

    Parameters
    ----------
    names
        Scripts among the templates, such as ``"compare.js"``.

    Returns
    -------
    str
        About 900 kB; the same for the same versions of the libraries.
    """
    import vl_convert

    own = [script_text(name) for name in ("charts.js", *names)]
    # Bundled as a module whose names are its own; here a function keeps them so.
    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return "\n".join([f"(() => {{{bundle}}})();", *own])
