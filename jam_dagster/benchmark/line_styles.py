"""Styles of the lines in a benchmark's figures: distinct, and the same in all figures."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import NamedTuple

from jam_dagster.mechanisms.registry import known_classes

_SHAPES = (
    *("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "triangle-right"),
    # The outlines of a star and of others that Vega does not have by name.
    "M0,-1L.26,-.36L.95,-.31L.42,.14L.59,.81L0,.45L-.59,.81L-.42,.14L-.95,-.31L-.26,-.36Z",
    "triangle-left",
    "M-.9,-.5L-.5,-.9L0,-.4L.5,-.9L.9,-.5L.4,0L.9,.5L.5,.9L0,.4L-.5,.9L-.9,.5L-.4,0Z",
    *("M-.8,-.8L.8,-.8L-.8,.8L.8,.8Z", "M-.8,-.8L-.8,.8L.8,-.8L.8,.8Z"),
    *("M-.4,-1L.4,-1L.4,1L-.4,1Z", "M-1,-.4L1,-.4L1,.4L-1,.4Z"),
    "M0,-1L.95,-.31L.59,.81L-.59,.81L-.95,-.31Z",
    *("M0,-.9L.9,.2L.9,.9L0,0L-.9,.9L-.9,.2Z", "M0,.9L.9,-.2L.9,-.9L0,0L-.9,-.9L-.9,-.2Z"),
    *("M-1,.5A1,1,0,0,1,1,.5Z", "M-1,-.5A1,1,0,0,0,1,-.5Z"),
    "M-.9,-.9L.9,-.9L.9,-.3L.3,-.3L.3,.9L-.3,.9L-.3,-.3L-.9,-.3Z",
)
_COLOURS = (
    *("#0072b2", "#b5466f", "#d55e00", "#15919b", "#a87900", "#6b7785", "#7a5c6e"),
    *("#7a7a00", "#009e73", "#a8563a", "#8b8a12", "#4d8a2c", "#8a5fbf", "#c2609a"),
    *("#d1495b", "#4f6fd0", "#b0693f", "#9c4f8a", "#3f8a6a", "#8f7a45", "#c05046"),
    *("#f200f2", "#f200aa", "#3057f2", "#f20030", "#00a600", "#9130f2", "#c761f2"),
    *("#9786bf", "#f20079"),
)
"""Their contrast is 3 or more on white and on the dark background of pages."""


class Line(NamedTuple):
    """The style of one line: full with filled markers if the mechanism learns from public data."""

    title: str
    colour: str
    shape: str
    public: bool


def line_styles(named: Iterable[tuple[str, str]]) -> list[Line]:
    """Return the styles of lines, each with its title and mechanism, in the order of legends.

    A mechanism under its own name has a style by its rank, which stays reserved even without runs;
    a further line of it has the same colour and another marker.
    """
    known = known_classes()
    taken: set[tuple[str, str, bool]] = set()

    def free(title: str, colour: int, shape: int, public: bool) -> Line:
        """Return a line in the nearest style that is not taken."""
        colours = (_COLOURS[(colour + at) % len(_COLOURS)] for at in range(len(_COLOURS)))
        shapes = [_SHAPES[(shape + at) % len(_SHAPES)] for at in range(len(_SHAPES))]
        looks = ((*look, public) for look in itertools.product(colours, shapes))
        look = next(look for look in looks if look not in taken)
        taken.add(look)
        return Line(title, *look)

    own: dict[str, Line] = {}
    for name, one in known.items():
        alike = sum(known[other].uses_public == one.uses_public for other in own)
        own[name] = free(one.title, len(own), alike, one.uses_public)
    ranks = {name: rank for rank, name in enumerate(known)}

    def place(pair: tuple[str, str]) -> tuple[int, bool, str]:
        title, name = pair
        return ranks.get(name, len(ranks)), name not in own or own[name].title != title, title

    lines = []
    for title, name in sorted(set(named), key=place):
        line = own.get(name)
        if line is None:
            lines.append(free(title, len(own), 0, public=False))
        elif line.title == title:
            lines.append(line)
        else:
            lines.append(
                free(title, _COLOURS.index(line.colour), _SHAPES.index(line.shape), line.public)
            )
    return lines
