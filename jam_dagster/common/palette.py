"""Colours of plots and reports: distinct under colour blindness, on light and dark backgrounds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Colour:
    """A colour with one meaning, on light and dark backgrounds.

    The light one is unique: a page finds by it the marks to change on a dark background.
    """

    light: str
    dark: str


# Blue, vermilion and sky blue of Okabe and Ito, which stay distinct under every common form of
# colour blindness; shapes and positions repeat the same meaning.
SYNTHETIC = Colour("#0072b2", "#4aa3df")
PUBLIC = Colour("#d55e00", "#f08a3c")
RELEASED = Colour("#20262d", "#f2f4f7")
SELECTION = Colour("#7cc4ee", "#a8d8f5")
MEASUREMENT = Colour("#0072b3", "#3c8fcc")
LOST = Colour("#a3456f", "#d98bb0")
INK = Colour("#29323c", "#dfe5ec")
MUTED = Colour("#5b6875", "#a4b0bd")
GRID = Colour("#dde2e8", "#3a434e")

ALL = (SYNTHETIC, PUBLIC, RELEASED, SELECTION, MEASUREMENT, LOST, INK, MUTED, GRID)
