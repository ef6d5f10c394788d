"""Styles of the lines in a benchmark's figures: distinct, and the same in all figures."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Literal, NamedTuple, get_args

from jam_dagster.mechanisms.registry import known_classes

Shape = Literal[
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
    "hourglass",
    "bow-tie",
    "tall",
    "wide",
    "pentagon",
    "chevron-up",
    "chevron-down",
    "half-disc",
    "bowl",
    "tee",
]
_SHAPES: tuple[Shape, ...] = get_args(Shape)
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
    shape: Shape
    public: bool


def line_styles(named: Iterable[tuple[str, str]]) -> list[Line]:
    """Return the styles of lines, each with its title and mechanism, in the order of legends.

    A mechanism under its own name has a style by its rank, which stays reserved even without runs;
    a further line of it has the same colour and another marker.
    """
    known = known_classes()
    taken: set[tuple[str, Shape, bool]] = set()

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
