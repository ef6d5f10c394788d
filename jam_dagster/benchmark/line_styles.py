"""Styles of the lines in a benchmark's figures: distinct, and the same in all figures."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jam_dagster.mechanisms.base import LineStyle, Shape
from jam_dagster.mechanisms.registry import known_classes

_PATHS = {
    "star": "M0,-1L.26,-.36L.95,-.31L.42,.14L.59,.81L0,.45L-.59,.81L-.42,.14L-.95,-.31L-.26,-.36Z",
    "saltire": "M-.9,-.5L-.5,-.9L0,-.4L.5,-.9L.9,-.5L.4,0L.9,.5L.5,.9L0,.4L-.5,.9L-.9,.5L-.4,0Z",
}
"""Shapes that Vega does not have by name."""

_SPARE = ("#4f6fd0", "#b0693f", "#9c4f8a", "#3f8a6a", "#8f7a45", "#c05046")
_SHAPES: tuple[Shape, ...] = (
    "circle",
    "square",
    "triangle-up",
    "diamond",
    "triangle-down",
    "cross",
    "triangle-right",
    "star",
    "triangle-left",
    "saltire",
)
_DASH = (5, 3)


@dataclass(frozen=True)
class Line:
    """The style of one line.

    Parameters
    ----------
    title
        Its name in legends.
    colour, shape
        Colour of the line, and shape of its markers.
    public
        Whether the mechanism learns from a public table: then its line is full and its markers are
        filled; else they are dashed and hollow.
    """

    title: str
    colour: str
    shape: Shape
    public: bool

    @property
    def dash(self) -> list[int]:
        """Lengths of strokes and gaps; empty for a full line."""
        return [] if self.public else list(_DASH)


@dataclass(frozen=True)
class LineStyles:
    """The style of each line, the same in all figures.

    Parameters
    ----------
    lines
        The lines in the order of legends: mechanisms in the order of `MECHANISMS`, with further
        lines of a mechanism beside it.
    """

    lines: tuple[Line, ...]

    @classmethod
    def of(cls, named: Iterable[tuple[str, str]]) -> LineStyles:
        """Return the styles of lines.

        Parameters
        ----------
        named
            The title and the mechanism of each line. A mechanism under its own name has its fixed
            style; a further line of it has the same colour with another marker.
        """
        pairs = sorted(set(named), key=lambda pair: (_rank(pair[1]), not _is_plain(*pair), pair[0]))
        # The style of a listed mechanism stays reserved even without runs.
        own = _own_styles()
        taken = {(*style, _uses_public(name)) for name, style in own.items()}
        lines = []
        for title, name in pairs:
            public = _uses_public(name)
            if _is_plain(title, name) and name in own:
                colour, shape = own[name]
            else:
                free = (one for one in _candidates(name) if (*one, public) not in taken)
                colour, shape = next(free)
            taken.add((colour, shape, public))
            lines.append(Line(title, colour, shape, public))
        return cls(tuple(lines))

    def of_titles(self, shown: Iterable[str]) -> LineStyles:
        """Return the styles of a figure's lines, the same in all of its panels."""
        kept = set(shown)
        return LineStyles(tuple(one for one in self.lines if one.title in kept))

    def hue(self) -> Any:
        """Return the colour of lines and bars."""
        import altair as alt

        # Reversed: Vega-Lite merges legends of scales with one domain, and this scale has none.
        lines = self.lines[::-1]
        scale = alt.Scale(domain=[one.title for one in lines], range=[one.colour for one in lines])
        return alt.Color("label:N", scale=scale, legend=None)

    def encodings(self, width: int) -> Mapping[str, Any]:
        """Return stroke, fill and shape of markers, with one legend for a figure of that width.

        Lines have `hue`, which has no legend: it would show their dashes around the markers.
        """
        import altair as alt

        titles = [one.title for one in self.lines]
        legend = alt.Legend(
            title=None,
            orient="top",
            columns=_columns(titles, width),
            labelLimit=0,
            symbolStrokeWidth=1.5,
        )

        def scale(values: list[str]) -> Any:
            return alt.Scale(domain=titles, range=values)

        shapes = [_PATHS.get(one.shape, one.shape) for one in self.lines]
        fills = [one.colour if one.public else "transparent" for one in self.lines]
        return {
            "stroke": alt.Stroke(
                "label:N", scale=scale([one.colour for one in self.lines]), legend=legend
            ),
            "fill": alt.Fill("label:N", scale=scale(fills), legend=legend),
            "shape": alt.Shape("label:N", scale=scale(shapes), legend=legend),
        }


def _rank(name: str) -> int:
    order = list(known_classes())
    return order.index(name) if name in order else len(order)


def _columns(titles: Sequence[str], width: int) -> int:
    """Return the number of legend columns that fit into a width in pixels."""
    for columns in range(len(titles), 1, -1):
        longest = [max(map(len, titles[place::columns])) for place in range(columns)]
        if sum(32 + 7 * one for one in longest) <= width:
            return columns
    return 1


def _is_plain(title: str, name: str) -> bool:
    """Return whether a line is the main line of its mechanism, under the mechanism's name."""
    found = known_classes().get(name)
    return found is not None and found.title == title


def _candidates(name: str) -> Iterator[tuple[str, Shape]]:
    """Return candidate styles for a further line of a mechanism, in its own colour first."""
    styles = _own_styles()
    own, shape = styles.get(name, (_SPARE[0], _SHAPES[0]))
    begin = _SHAPES.index(shape)
    shapes = [*_SHAPES[begin:], *_SHAPES[:begin]]
    colours = dict.fromkeys([own, *_SPARE, *(style.colour for style in styles.values())])
    yield from itertools.product(colours, shapes)


def _own_styles() -> dict[str, LineStyle]:
    """Return the styles of mechanisms under their own names.

    A mechanism of another package with a taken style gets a free one.
    """
    found: dict[tuple[LineStyle, bool], str] = {}
    for name, one in known_classes().items():
        found.setdefault((one.line_style, one.uses_public), name)
    return {name: style for (style, _), name in found.items()}


def _uses_public(name: str) -> bool:
    """Return whether a mechanism learns from a public table; False for an unknown one."""
    found = known_classes().get(name)
    return found is not None and found.uses_public
