"""Styles of the lines in a benchmark's figures: distinct, and the same in all figures."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import NamedTuple

from jam_dagster.mechanisms.base import Shape
from jam_dagster.mechanisms.registry import known_classes

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


class Line(NamedTuple):
    """The style of one line: full with filled markers if the mechanism learns from public data."""

    title: str
    colour: str
    shape: Shape
    public: bool


def line_styles(named: Iterable[tuple[str, str]]) -> list[Line]:
    """Return the styles of lines, each with its title and mechanism, in the order of legends.

    A mechanism under its own name has its fixed style, which stays reserved even without runs; a
    further line of it stands beside it, in the same colour with another marker.
    """
    known = known_classes()
    own: dict[str, Line] = {}
    taken: set[tuple[str, Shape, bool]] = set()
    for name, one in known.items():
        look = (*one.line_style, one.uses_public)
        # A mechanism of another package may have a style that is taken.
        if look not in taken:
            own[name] = Line(one.title, *look)
            taken.add(look)
    ranks = {name: rank for rank, name in enumerate(known)}

    def place(pair: tuple[str, str]) -> tuple[int, bool, str]:
        title, name = pair
        return ranks.get(name, len(ranks)), name not in own or own[name].title != title, title

    lines = []
    for title, name in sorted(set(named), key=place):
        line = own.get(name)
        if line is None or line.title != title:
            public = name in known and known[name].uses_public
            colour, shape = (_SPARE[0], _SHAPES[0]) if line is None else line[1:3]
            colours = dict.fromkeys([colour, *_SPARE, *(one.colour for one in own.values())])
            begin = _SHAPES.index(shape)
            looks = itertools.product(colours, _SHAPES[begin:] + _SHAPES[:begin])
            look = next((*one, public) for one in looks if (*one, public) not in taken)
            line = Line(title, *look)
            taken.add(line[1:])
        lines.append(line)
    return lines
