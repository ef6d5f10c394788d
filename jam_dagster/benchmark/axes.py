"""Axes of a benchmark's figures: their ends, ticks and positions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import altair as alt

WIDTH, HEIGHT = 300, 210
"""Size of a panel without its margins, in pixels."""

_GAP = 13.0
# Steps of a decade, from few to many ticks.
_STEPS = ((1,), (1, 3), (1, 2, 5), (1, 2, 3, 5, 7), (1, 2, 3, 4, 5, 6, 7, 8, 9))


@dataclass(frozen=True)
class Axis:
    """One axis of a panel.

    Parameters
    ----------
    title
        Title with the unit.
    low, high
        Its ends.
    log
        Whether it is logarithmic, so that both ends are positive.
    """

    title: str
    low: float
    high: float
    log: bool = True

    @classmethod
    def around(cls, title: str, values: Iterable[float], *, log: bool = True) -> Axis:
        """Return an axis for some values with a margin; a linear one begins at 0.

        Parameters
        ----------
        title
            Title of the axis.
        values
            At least one; all positive on a logarithmic axis.
        log
            Whether it is logarithmic.
        """
        held = [float(one) for one in values]
        low, high = min(held), max(held)
        if not log:
            return cls(title, min(low, 0.0), high if high > min(low, 0.0) else 1.0, log=False)
        room = (high / low) ** 0.04 if high > low else 1.5
        return cls(title, low / room, high * room)

    def share(self, value: float) -> float:
        """Return the position of a value between both ends, from 0 to 1."""
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float] | None:
        """Return at least four round values to mark; None for the default ticks."""
        if not self.log:
            return None
        made: list[float] = []
        decades = range(math.floor(math.log10(self.low)), math.floor(math.log10(self.high)) + 1)
        for steps in _STEPS:
            made = [float(f"{step}e{decade}") for decade in decades for step in steps]
            made = [one for one in made if self.low <= one <= self.high]
            if len(made) >= 4:
                break
        return made or [float(f"{self.high:.2g}")]

    def scale(self) -> alt.Scale:
        """Return the axis of a chart."""
        import altair as alt

        return alt.Scale(
            type="log" if self.log else "linear",
            domain=[self.low, self.high],
            nice=False,
            zero=False,
        )

    def vertical(self, column: str) -> alt.Y:
        """Return the vertical axis of a column."""
        import altair as alt

        ticks = self.ticks()
        marks = {"tickCount": 5} if ticks is None else {"values": ticks}
        axis = alt.Axis(format="~g", labelOverlap=True, **marks)
        return alt.Y(f"{column}:Q", title=self.title, scale=self.scale(), axis=axis)


def with_places(rows: Sequence[Mapping[str, Any]], measure: str, *, log: bool) -> tuple[bool, str]:
    """Return whether an axis can be logarithmic, and a sentence on the values that it leaves out.

    Parameters
    ----------
    rows
        Rows of `means`, with ``label``, ``split`` and ``epsilon``.
    measure
        The column.
    log
        Whether a logarithmic axis is requested.

    Returns
    -------
    tuple of bool and str
        False if it is not requested, or no value is positive; and the sentence, or "".
    """
    known = [row for row in rows if row[measure] is not None]
    if not log or all(row[measure] <= 0 for row in known):
        return False, ""
    off = [
        f"{row['label']} on {row['split']} at epsilon {row['epsilon']:g}"
        for row in known
        if row[measure] <= 0
    ]
    if not off:
        return True, ""
    listed = "; ".join(dict.fromkeys(off))
    return True, f" Left out, as a logarithmic axis has no place for 0: {listed}."


def placed(rows: Sequence[dict[str, Any]], measure: str, *, log: bool) -> list[dict[str, Any]]:
    """Return the rows with a known value that has a place on the axis."""
    return [row for row in rows if row[measure] is not None and (row[measure] > 0 or not log)]


def spread(places: Sequence[float], height: float = HEIGHT) -> list[float]:
    """Return positions of names, in pixels from the top, without overlaps.

    Parameters
    ----------
    places
        The wanted positions.
    height
        Height of the panel.
    """
    order = sorted(range(len(places)), key=lambda one: places[one])
    made = list(places)
    reached = -_GAP
    for one in order:
        made[one] = reached = max(made[one], reached + _GAP)
    reached = height + _GAP
    for one in reversed(order):
        made[one] = reached = min(made[one], reached - _GAP)
    return made
