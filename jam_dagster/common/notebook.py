"""Cards of objects in a notebook: small pieces of HTML, without style sheets or colours.

Colours come from the notebook, light or dark: lines and labels use its current colour.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import islice

from jam_dagster.common.shown_text import visible

_LINE = "1px solid color-mix(in srgb, currentColor 30%, transparent)"
_CELL = "padding:.15em .8em .15em 0;text-align:left;vertical-align:top"
_MOST_ROWS = 100


def card(
    title: str,
    facts: Mapping[str, object],
    *,
    label: str = "",
    columns: Sequence[str] = (),
    rows: Iterable[Sequence[object]] = (),
) -> str:
    """Return a card with a title, facts by name, and a table. All texts are escaped."""
    marked = (
        f' <strong style="border:1px solid currentColor;border-radius:.3em;padding:0 .4em">'
        f"{_escaped(label)}</strong>"
        if label
        else ""
    )
    listed = "".join(
        f'<dt style="float:left;clear:left;margin-right:.5em;opacity:.75">{_escaped(name)}</dt>'
        f'<dd style="margin:0">{_escaped(_text(value))}</dd>'
        for name, value in facts.items()
        if _text(value)
    )
    return (
        f'<div style="border:{_LINE};border-radius:.4em;padding:.6em .9em;max-width:60em;'
        f'overflow-x:auto"><div><strong>{_escaped(title)}</strong>{marked}</div>'
        f'<dl style="margin:.4em 0 0">{listed}</dl>{_table(columns, rows)}</div>'
    )


def _table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    if not columns:
        return ""
    kept = list(islice(rows, _MOST_ROWS + 1))
    head = "".join(f'<th scope="col" style="{_CELL}">{_escaped(name)}</th>' for name in columns)
    body = "".join(
        "<tr>"
        + "".join(f'<td style="{_CELL}">{_escaped(_text(cell))}</td>' for cell in row)
        + "</tr>"
        for row in kept[:_MOST_ROWS]
    )
    more = "<div>and more</div>" if len(kept) > _MOST_ROWS else ""
    return (
        '<table style="border-collapse:collapse;margin-top:.5em;color:inherit;font:inherit">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"
    )


def _escaped(text: str) -> str:
    return escape(visible(text))


def _text(value: object) -> str:
    return f"{value:,.6g}" if isinstance(value, float) else str(value)
