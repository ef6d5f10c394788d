"""Charts on pages: pictures without scripts, which the page's script makes interactive.

The picture of a chart is an SVG in the page, with its specification as data. If scripts run,
Vega-Lite, embedded once a page, draws it again with tooltips. The page fetches nothing, and Vega's
expressions are interpreted, so the page's policy need not allow `eval`.
"""

from __future__ import annotations

import functools
import hashlib
import json
import sys
from contextlib import suppress
from importlib.metadata import version
from importlib.util import cache_from_source
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jam_dagster.common.files import write_whole
from jam_dagster.common.html_pages import script_text
from jam_dagster.common.shown_text import shown, visible
from jam_dagster.reports.plot_style import specification, svg_of

if TYPE_CHECKING:
    from markupsafe import Markup

    from jam_dagster.reports.plot_style import Chart

# The bundle leaves this to the page's own script.
_EXPORTS = "window.vegaEmbed = vegaEmbed;"


def live_chart(chart: Chart, alternative: str) -> Markup:
    """Return a chart for a page, with a text alternative."""
    from markupsafe import Markup

    spec = specification(chart)
    return Markup('<div class="chart">{}{}</div>').format(
        _drawn(spec, alternative), data_block(_without_address(spec), "spec")
    )


def picture(chart: Chart, alternative: str) -> Markup:
    """Return a chart for a page as a static picture."""
    return _drawn(specification(chart), alternative)


def _drawn(spec: dict[str, Any], alternative: str) -> Markup:
    from markupsafe import Markup

    text = svg_of(spec)
    hidden = text[text.index("<svg") :].replace("<svg", '<svg aria-hidden="true"', 1)
    drawn = Markup(hidden)  # noqa: S704 - Vega escapes what it draws
    return Markup('<div role="img" aria-label="{}">{}</div>').format(visible(alternative), drawn)


def description(chart: Chart) -> dict[str, Any]:
    """Return the specification of a chart for the page's script, without the schema's address."""
    return _without_address(specification(chart))


def _without_address(spec: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in spec.items() if key != "$schema"}


def data_block(value: object, name: str) -> Markup:
    """Return data for the page's script, in an element that browsers do not run."""
    from markupsafe import Markup

    # The script finds names by their shown form.
    text = json.dumps(shown(value), separators=(",", ":"), sort_keys=True)
    # Data may hold "</script>".
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(f'<script type="application/json" class="{name}">{text}</script>')  # noqa: S704


@functools.cache
def page_script(*names: str) -> str:
    """Return the script of a page: Vega-Lite, the code that draws charts, then other scripts."""
    own = [script_text(name) for name in ("charts.js", *names)]
    # The bundle is a module with a scope of its own; a function keeps that scope here.
    return "\n".join([f"(() => {{{_bundle()}}})();", *own])


def _bundle() -> str:
    """Return Vega-Lite as one script.

    To make it takes longer than all charts of a page, so it is kept next to this module as Python
    compiled it: who may write there may change the code itself.
    """
    import vl_convert

    kept = Path(cache_from_source(__file__)).with_name("vega_embed.js")
    key = f"// {_EXPORTS} // vl-convert {version('vl-convert-python')}, SHA-256 "
    # None is there yet, or it may not be read.
    with suppress(OSError):
        header, _, content = kept.read_bytes().partition(b"\n")
        if header.decode(errors="replace") == key + hashlib.sha256(content).hexdigest():
            return content.decode()
    made: str = vl_convert.javascript_bundle(_EXPORTS)
    if not sys.dont_write_bytecode:
        content = made.encode()
        header = f"{key}{hashlib.sha256(content).hexdigest()}\n".encode()
        # An installation that may only be read keeps none.
        with suppress(OSError):
            kept.parent.mkdir(parents=True, exist_ok=True)
            write_whole(kept, header + content)
            # Others may use the installation, whatever this process closes to them.
            kept.chmod(0o644)
    return made
