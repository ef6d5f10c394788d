"""Colours of plots and report: told apart by people who do not see all of them, light and dark."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Colour:
    """A colour with one meaning, on light and on dark ground.

    Parameters
    ----------
    light, dark
        Six hexadecimal digits behind ``#``. No two colours share the light one: it is how a page
        finds what to change on dark ground.
    """

    light: str
    dark: str


# Blue, vermilion and sky blue of Okabe and Ito, whose hues keep apart under every common form of
# colour blindness; shapes and positions carry the same meaning once more.
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
