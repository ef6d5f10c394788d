"""Numbers of an order in a coarser unit: a timestamp's date or year, a number without decimals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from jam_dagster.tables.domain.binned import BinnedAttribute
from jam_dagster.tables.domain.times import TimeAttribute
from jam_dagster.tables.domain.units import MONTHS, SECONDS, Clock, Unit
from jam_dagster.tables.domain.values import Numbers

FUNCTIONS = ("date", "year", "floor")

_NUMBER = ("number",)
_FIRST_YEAR = 1970


@dataclass(frozen=True)
class Coarser:
    """Reads the numbers of an attribute by a function, as they are if it is empty.

    Dates are days since 1970, and years those of the calendar.
    """

    function: str = ""
    clock: Clock | None = None

    def __call__(self, numbers: npt.NDArray[Any]) -> Numbers:
        """Return the coarser number of each, NaN of NaN."""
        if self.clock is None:
            return np.floor(numbers) if self.function else numbers
        known = np.isfinite(numbers)
        whole = np.where(known, numbers, 0).astype(np.int64)
        if self.clock.unit in MONTHS:
            found = whole * MONTHS[self.clock.unit] // MONTHS["year"]
        elif self._is_plain:
            found = whole * SECONDS[self.clock.unit] // SECONDS["day"]
            if self.function == "year":
                found = found.astype("M8[D]").astype("M8[Y]").astype(np.int64)
        else:
            distinct, indices = np.unique(whole, return_inverse=True)
            longer = [self.clock.count_of_longer(self._unit, one) for one in distinct.tolist()]
            found = np.array(longer, dtype=np.int64)[indices].reshape(whole.shape)
        return np.where(known, found + self._zero, np.nan)

    def first(self, coarser: Numbers) -> Numbers:
        """Return the first number that each coarser one is read of."""
        if self.clock is None:
            return coarser
        count = np.nan_to_num(coarser).astype(np.int64) - self._zero
        if self.clock.unit in MONTHS:
            found = count * MONTHS["year"] // MONTHS[self.clock.unit]
        elif self._is_plain:
            if self.function == "year":
                count = count.astype("M8[Y]").astype("M8[D]").astype(np.int64)
            found = count * SECONDS["day"] // SECONDS[self.clock.unit]
        else:
            distinct, indices = np.unique(count, return_inverse=True)
            units = [self.clock.first_of(self._unit, one) for one in distinct.tolist()]
            found = np.array(units, dtype=np.int64)[indices].reshape(count.shape)
        return np.where(np.isnan(coarser), np.nan, found)

    @property
    def _unit(self) -> Unit:
        return "day" if self.function == "date" else "year"

    @property
    def _zero(self) -> int:
        return 0 if self.function == "date" else _FIRST_YEAR

    @property
    def _is_plain(self) -> bool:
        """Whether no rule of a zone decides the day of a unit."""
        assert self.clock is not None  # noqa: S101  # of a function of dates
        return not self.clock.counts_in_utc or self.clock.zone in (None, "UTC")


def coarser_of(fine: BinnedAttribute, other: BinnedAttribute) -> str:
    """Return the function by which one attribute is compared with a coarser one, "" if none."""
    if isinstance(fine, TimeAttribute) and fine.clock.kind == "instant":
        if isinstance(other, TimeAttribute) and other.clock.kind == "instant":
            within_day = fine.clock.counts_in_utc and other.unit == "day"
            if within_day and other.zone in (None, fine.zone):
                return "date"
            longer = other.unit == "year" and fine.unit not in ("year", "week")
            return "year" if longer and other.zone in (None, fine.zone) else ""
        numbered = other.compared_as == _NUMBER and other.integer
        return "year" if numbered and fine.unit not in ("year", "week") else ""
    numbers = fine.compared_as == other.compared_as == _NUMBER
    return "floor" if numbers and other.integer and not fine.integer else ""


def readers_of(
    pair: tuple[BinnedAttribute, BinnedAttribute], functions: tuple[str, str]
) -> tuple[Coarser, Coarser] | None:
    """Return what reads the numbers of an order's two attributes; None if they do not fit."""
    lower, higher = pair
    if functions == ("", ""):
        return (Coarser(), Coarser()) if lower.compared_as == higher.compared_as else None
    at = int(not functions[0])
    fine, other, name = pair[at], pair[1 - at], functions[at]
    if functions[1 - at] or coarser_of(fine, other) != name:
        return None
    if not isinstance(fine, TimeAttribute):
        found = Coarser(name), Coarser()
    else:
        # Years are counted since 1970 where they are dates.
        years = isinstance(other, TimeAttribute) and name == "year"
        plain = Coarser(name, other.clock) if years else Coarser()  # type: ignore[attr-defined]
        found = Coarser(name, fine.clock), plain
    return found if at == 0 else found[::-1]
