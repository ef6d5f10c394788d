"""Attributes of dates, timestamps, times of day and durations."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from jam_dagster.common.deferred import pd
from jam_dagster.common.validation import as_list
from jam_dagster.errors import DomainError, SpecificationError
from jam_dagster.tables.domain.attributes import Key
from jam_dagster.tables.domain.binned import BINNED_KEYS, BinnedAttribute
from jam_dagster.tables.domain.clock import clock_of
from jam_dagster.tables.domain.column_notes import (
    CLIPPED_DATES,
    LOOKED_AT,
    SHIFT_ADVICE,
    rewritten,
)
from jam_dagster.tables.domain.columns import each_value
from jam_dagster.tables.domain.entries import Entries, entries_in, entries_to, plain_entry
from jam_dagster.tables.domain.intervals import checked_bins
from jam_dagster.tables.domain.moment_texts import has_fractions, other_order
from jam_dagster.tables.domain.text_dtype import dtype_of
from jam_dagster.tables.domain.units import LONGER_THAN_DAYS, Clock, Unit
from jam_dagster.tables.domain.values import Mask, Numbers, Units, short_number

_MOST_ENTRIES = 1_000_000
_MOST_DAYS = 100_000
_OFFSET = re.compile(r"[+-](?!00:00)\d\d:\d\d")


def equal_unit_edges(low: float, high: float, bins: int) -> tuple[float, ...]:
    """Return edges of bins of about equally many units, from the first to the last unit."""
    units = high - low + 1
    return (*(low + math.ceil(index * units / bins) for index in range(bins)), high)


@dataclass(frozen=True)
class TimeAttribute(BinnedAttribute):
    """An attribute of dates, timestamps, times of day or durations, counted in bins of units.

    Its numbers are counts of the unit: since 1970 of a date or timestamp, since midnight of a time
    of day, the length of a duration. A value within a unit is decoded to the unit's beginning.

    Parameters
    ----------
    name, nullable, clip, unreadable
        As in `NumericAttribute`.
    edges
        The first unit of each bin, and the last unit of the last one.
    unit
        "year", "quarter", "month", "week" (from Monday), "day", "hour", "minute" or "second".
    zone
        The zone in which a timestamp has its day, such as "America/New_York"; None: timestamps
        have no zone.
    format
        How texts are written, for `datetime.strftime`, and ``%:z`` for +02:00. One without
        parts of a date is of times of day.
    every
        The longer unit that each bin is, so that `edges` need only the first and the last unit.
    dtype
        The dtype to decode to: "datetime64[us]", "datetime64[us, ZONE]", "date32[day][pyarrow]",
        "time64[us][pyarrow]" for times of day, "timedelta64[us]" for durations, or "str". None:
        texts where there is a format, else timestamps.
    within
        As in `NumericAttribute`; with `every`, units from the beginning of any bin, counted from 0.
    of_day
        What times of day are like, with `unit` shorter than a day and `every` longer than it:
        entries as those of `within`, in units from midnight. A decoded timestamp has its day by its
        bin and `within`, and its time by these.
    hour_from
        The attribute whose number is the hour, in the zone, of a timestamp with bins of a day or
        longer ones: a decoded timestamp has the hour that its row has there.

    Raises
    ------
    DomainError
        As for `NumericAttribute`, and for a unit, a zone, a format or a dtype that do not fit.
    """

    unit: Unit = "day"
    zone: str | None = None
    format: str | None = None
    every: Unit | None = None
    of_day: Entries = ()
    hour_from: str | None = None

    keys: ClassVar[Mapping[str, Key]] = BINNED_KEYS | {
        "unit": Key(
            "**needed**",
            "what is counted: `year`, `quarter`, `month`, `week` (from Monday), "
            "`day`, `hour`, `minute` or `second`",
        ),
        "every": Key(
            "",
            "with `bounds`: a bin is each longer unit, such as each day. Without it "
            "and `bins`, each unit is a bin",
        ),
        "of_day": Key(
            "",
            "with a unit shorter than a day, and `every` longer: what times of day "
            "are like, as entries of `within` in units from midnight",
        ),
        "hour_from": Key(
            "",
            "with `unit: hour` or shorter and `every: day` or longer: the attribute "
            "that has the hour of a decoded timestamp, in the zone",
        ),
        "zone": Key(
            "none",
            "the zone of days and bounds, such as `America/New_York`; `Etc/GMT-2` is "
            "the offset +02:00",
        ),
        "format": Key(
            "",
            "how texts are written, such as `'%d.%m.%Y'`; `%:z` is an offset such as "
            "`+02:00`, an ending `Z` UTC, `%-d`, `%-m`, `%-H`, `%-I` have no zero in "
            "front, and `%3f`, `%7f` and `%9f` are digits of a second. Durations: "
            "`h:mm:ss`, `hh:mm:ss`, `h:mm`, `hh:mm`, `d days hh:mm:ss`, `ISO 8601` "
            "or `1h 20m`",
        ),
        "dtype": Key(
            "texts with a `format`, else timestamps",
            "`datetime64[us]`, `datetime64[us, ZONE]` with a `zone`, "
            "`date32[day][pyarrow]`, `time64[us][pyarrow]` for times of day, "
            "`timedelta64[us]` for durations, `Int64` for integers such as 20130701 "
            "with `format: '%Y%m%d'`",
        ),
    }
    dated = True
    integer = True

    def __post_init__(self) -> None:
        clock = self.clock
        days = self.every in ("day", *LONGER_THAN_DAYS) and clock.counts_in_utc
        if self.hour_from is not None and (not days or self.hour_from == self.name):
            raise DomainError(
                f"attribute {self.name!r}: hour_from is for `unit: hour` or a shorter one, with"
                " `every: day` or a longer one, and names another attribute"
            )
        if self.every is not None and (clock.kind == "duration" or not clock.nests_in(self.every)):
            raise DomainError(
                f"attribute {self.name!r}: every must be a unit of whole {self.unit}s, got"
                f" {self.every!r}"
            )
        edges = np.asarray(self.edges, dtype=np.float64)
        if len(edges) < 2 or not (np.abs(edges) < 1e15).all():
            raise DomainError(f"attribute {self.name!r}: edges must be at least two units")
        edges = np.append(np.ceil(edges[:-1]), np.floor(edges[-1]) + 0.5)
        try:
            if self.every is not None:
                edges = np.array([edges[0], *self._starts(edges)[1:], edges[-1]], dtype=np.float64)
            pd.array(clock.values_of(edges[[0, -1]]), dtype=dtype_of(str(clock.dtype)))
        except DomainError:
            raise
        except (ValueError, OverflowError):
            raise DomainError(
                f"attribute {self.name!r}: its bounds are outside the years that dtype"
                f" {clock.dtype} holds"
            ) from None
        object.__setattr__(self, "edges", tuple(edges.tolist()))
        super().__post_init__()
        self._check_of_day()

    def _check_of_day(self) -> None:
        entries = tuple(plain_entry(self.name, "of_day", one) for one in self.of_day)
        object.__setattr__(self, "of_day", entries)
        if self.hour_from is not None:
            _ = self._days  # There may be too many.
        if not entries:
            return
        if not (self.every in LONGER_THAN_DAYS and self.clock.counts_in_utc):
            raise DomainError(
                f"attribute {self.name!r}: of_day is for a unit shorter than a day with `every` a"
                " week or longer"
            )
        length = 86400 // self.clock.seconds
        for first, last, _ in entries:
            if not (first.is_integer() and last.is_integer() and 0 <= first <= last < length):
                raise DomainError(
                    f"attribute {self.name!r}: an entry of of_day must go from one {self.unit} of a"
                    f" day to the same or a later one, counted from 0 to {length - 1}"
                )
        _ = self._days

    @cached_property
    def _days(self) -> Units:
        """The first unit of each day, and the end of the last one."""
        first, last = (self.clock.count_of_longer("day", self.edges[index]) for index in (0, -1))
        if last - first >= _MOST_DAYS and self.every != "day":
            raise DomainError(
                f"attribute {self.name!r} has too many days for of_day or hour_from: remove them"
            )
        starts = [self.clock.first_of("day", day) for day in range(first, last + 1)]
        # The last day of all has none after it.
        return np.array([*starts, starts[-1] + 86400 // self.clock.seconds], dtype=np.int64)

    @cached_property
    def clock(self) -> Clock:
        """The clock that counts the values."""
        return clock_of(self.name, self.unit, self.zone, self.format, self.dtype)

    def _check_dtype(self) -> None:
        object.__setattr__(self, "dtype", self.clock.dtype)

    def _starts(self, edges: Numbers) -> list[int]:
        """Return the first unit of each longer unit from the first to the last edge."""
        every = self.every or self.unit
        first, last = (self.clock.count_of_longer(every, edges[index]) for index in (0, -1))
        if last - first >= _MOST_ENTRIES or (last - first + 1) * len(self.within) > _MOST_ENTRIES:
            raise DomainError(f"attribute {self.name!r} has too many bins: use a longer `every`")
        # An hour that the clocks of a zone leave out begins with the next one.
        starts = (self.clock.first_of(every, count) for count in range(first, last + 1))
        return list(dict.fromkeys(starts))

    @cached_property
    def placed(self) -> Entries:
        if self.every is None or not self.within:
            return self.within
        low, high = (one.tolist() for one in self.bin_limits)
        bins = zip(self._starts(self.edge_array), low, high, strict=True)
        return tuple(
            (max(start + first, low), min(start + last, high), weight)
            for start, low, high in bins
            for first, last, weight in self.within
            if max(start + first, low) <= min(start + last, high)
        )

    @property
    def kind_text(self) -> str:
        return self.unit

    @property
    def bounds_text(self) -> tuple[str, str]:
        return self.text(self.edges[0]), self.text(self.edges[-1])

    def number(self, what: str, key: str, written: object, *, end: bool = False) -> float:
        return self.clock.number(what, key, written, end=end)

    def written(self, number: float) -> Any:
        return self.clock.written(number)

    def text(self, number: float) -> str:
        return str(self.written(number))

    def at_times(self, counts: Units, times: Units) -> Units:
        """Return the units of the same days at times of day, moved to their bins.

        Parameters
        ----------
        counts
            Units, shape (rows,).
        times
            Units since midnight by the clocks of the zone, shape (rows,).
        """
        days = np.searchsorted(self._days[1:-1], counts, side="right")
        starts = self._days[days]
        moved = starts + times
        # If clocks change, as many units after midnight are another time.
        odd = np.flatnonzero(np.diff(self._days)[days] != 86400 // self.clock.seconds)
        pairs, indices = np.unique(np.stack([starts, times])[:, odd], axis=1, return_inverse=True)
        moments = [
            self.clock.moment(start) + timedelta(seconds=length * self.clock.seconds)
            for start, length in pairs.T.tolist()
        ]
        by_clock = np.array([self.clock.count_at(one) for one in moments], dtype=np.int64)
        moved[odd] = by_clock[indices.ravel()]
        low, high = (limits.astype(np.int64) for limits in self.bin_limits)
        bins = self._bins_of(counts.astype(np.float64))
        within: Units = np.clip(moved, low[bins], high[bins])
        return within

    def nearest(self, numbers: Numbers) -> Numbers:
        # NaN of a day that has none.
        near = super().nearest(numbers)
        if not self.of_day:
            return near
        counts = numbers.astype(np.int64)
        starts = self._days[np.searchsorted(self._days[1:-1], counts, side="right")]
        moved = (
            starts + self._nearest_time[np.minimum(counts - starts, len(self._nearest_time) - 1)]
        )
        return np.where(near == numbers, moved, np.nan)

    @cached_property
    def _nearest_time(self) -> Units:
        """For each unit of a day the nearest one of `of_day`."""
        taken = np.unique(
            np.concatenate([np.arange(first, last + 1) for first, last, _ in self.of_day])
        ).astype(np.int64)
        every = np.arange(86400 // self.clock.seconds)
        after = np.minimum(np.searchsorted(taken, every), len(taken) - 1)
        before = np.maximum(after - 1, 0)
        closer = np.abs(taken[before] - every) < np.abs(taken[after] - every)
        return np.where(closer, taken[before], taken[after])

    def at_hours(self, counts: Units, hours: Numbers) -> Units:
        """Return the units of the same days at other hours, where these are known.

        Parameters
        ----------
        counts
            Units, shape (rows,).
        hours
            Hours in the zone, from 0 to 23, shape (rows,).
        """
        known = (hours >= 0) & (hours < 24)
        length = 3600 // self.clock.seconds
        starts = self._days[np.searchsorted(self._days[1:-1], counts, side="right")]
        times = np.where(known, hours, 0).astype(np.int64) * length + (counts - starts) % length
        return np.where(known, self.at_times(counts, times), counts)

    @property
    def drawn_limits(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        low, high = self.entry_limits
        if not self.of_day:
            return low, high
        first, last, _ = np.array(self.of_day).T
        least, largest = (np.full(len(low), one) for one in (first.min(), last.max()))
        return self.at_times(low, least), self.at_times(high, largest)

    def at_drawn_times(self, points: Units, rng: np.random.Generator) -> Units:
        if not self.of_day:
            return points
        first, last, weights = np.array(self.of_day).T
        upto = np.cumsum(weights / weights.max())
        chosen = np.searchsorted(upto, rng.random(len(points)) * upto[-1], side="right")
        chosen = np.minimum(chosen, len(upto) - 1)
        return self.at_times(points, rng.integers(first[chosen], last[chosen], endpoint=True))

    @property
    def compared_as(self) -> tuple[str, ...]:
        return self.clock.kind, self.unit, self.zone or ""

    def alone(self, names: Collection[str]) -> TimeAttribute:
        return self if self.hour_from in (None, *names) else replace(self, hour_from=None)

    def within_period(self, first: date, last: date) -> TimeAttribute:
        """Return the attribute as it is if its dates end before the period or have own bins."""
        if self.clock.kind != "instant":
            return self
        begin = self.number(self.name, "period", first)
        end = self.number(self.name, "period", last, end=True)
        low, high = self.edges[0], math.floor(self.edges[-1])
        each_unit = self.bins == high - low + 1
        if high < begin or not (self.every or each_unit):
            return self
        low, high = min(low, begin), math.floor(max(high, end))
        edges = (low, high) if self.every else equal_unit_edges(low, high, int(high - low + 1))
        return replace(self, edges=edges)

    @classmethod
    def from_entry(cls, name: str, entry: Mapping[str, Any]) -> TimeAttribute:
        what = f"attribute {name!r}"
        shared = cls.shared(what, entry)
        shared["of_day"] = entries_in(what, entry, "of_day")
        shared |= {key: entry.get(key) for key in ("unit", "zone", "format", "every", "hour_from")}
        clock = clock_of(name, *(shared[key] for key in ("unit", "zone", "format", "dtype")))
        key = "edges" if "edges" in entry else "bounds"
        written = as_list(what, key, entry[key])
        if len(written) < 2 or (key == "bounds" and len(written) != 2):
            raise SpecificationError(f"{what}: {key} must be two units or more, got {written!r}")
        *starts, end = written
        edges = [clock.number(what, key, one) for one in starts]
        edges.append(clock.number(what, key, end, end=True))
        if shared["every"] is None:
            shared["within"] = tuple(
                (*(clock.number(what, "within", part) for part in one[:2]), *one[2:])
                if isinstance(one, list | tuple)
                else one
                for one in shared["within"]
            )
            if key == "bounds":
                low, high = map(math.floor, edges)
                bins = checked_bins(what, entry.get("bins", high - low + 1))
                edges = [*equal_unit_edges(low, high, bins)]
        elif key == "edges" or "bins" in entry:
            raise SpecificationError(
                f"{what}: every is for bounds without bins: remove one of the two"
            )
        return cls(name, tuple(edges), **shared)

    def _own_entry(self) -> dict[str, Any]:
        low, high = self.edges[0], self.edges[-1]
        entry: dict[str, Any] = {"bounds": [self.written(low), self.written(high)]}
        if self.every is None:
            if self.edges != (*equal_unit_edges(low, high - 0.5, self.bins)[:-1], high):
                entry = {"edges": [*map(self.written, self.edges)]}
            elif self.bins != high + 0.5 - low:
                entry["bins"] = self.bins
        times = ("unit", "every", "zone", "format", "hour_from")
        entry |= {key: found for key in times if (found := getattr(self, key))}
        return entry | ({"outside": "clip"} if self.clip else {})

    def to_entry(self) -> dict[str, Any]:
        of_day = {"of_day": entries_to(self.of_day, short_number)} if self.of_day else {}
        return super().to_entry() | of_day

    def _within_entry(self) -> list[list[Any]]:
        return entries_to(self.within, short_number if self.every else self.written)

    @property
    def _default_dtype(self) -> str:
        return clock_of(self.name, self.unit, self.zone, self.format).dtype

    def canonical_form(self) -> dict[str, Any]:
        form = super().canonical_form()
        own = ("unit", "zone", "format", "every", "hour_from")
        form |= {key: getattr(self, key) for key in own} | {"of_day": list(map(list, self.of_day))}
        if self.every is not None:
            # The length of a calendar unit in a zone may be decided anew, and is not part of the
            # domain.
            form["edges"] = [self.edges[0], self.edges[-1]]
        return form

    def check_column(self, column: pd.Series[Any]) -> None:
        if pd.api.types.is_numeric_dtype(column.dtype) and not self.format:
            raise DomainError(
                f"attribute {self.name!r} is of dates or times, but the table's column has dtype"
                f" {column.dtype}: turn it into a date in the source, or declare numbers"
            )

    def read_numbers(self, column: pd.Series[Any]) -> Numbers:
        counts = self.clock.counts_of(column)
        if counts is None:
            return each_value(column, self.clock.count_of, np.nan, np.float64)
        rest = np.isnan(counts) & column.notna().to_numpy()
        if rest.any():
            counts[rest] = each_value(column[rest], self.clock.count_of, np.nan, np.float64)
        return counts

    def column_of(self, points: npt.NDArray[Any], null: Mask) -> pd.Series[Any]:
        distinct, indices = np.unique(points, return_inverse=True)
        dtype = dtype_of(str(self.dtype))
        values = self.clock.values_of(distinct.tolist())
        if dtype == "category":
            dtype = pd.CategoricalDtype(values)
        column: pd.Series[Any] = pd.Series(pd.array(values, dtype=dtype).take(indices), dtype=dtype)
        return column.where(~null, None) if null.any() else column

    def notes(self, column: pd.Series[Any], codes: npt.NDArray[Any]) -> Iterator[str]:
        written, texts = self.format or "", isinstance(column.dtype, pd.StringDtype)
        fractions = has_fractions(written, column)
        if other := other_order(written, column):
            yield f"dates are read as {written}, and {other} reads them too: see which is right"
        if written == "h:mm:ss":
            yield "read as lengths of time: times of day have `format: '%-H:%M:%S'`"
        if written in ("h:mm", "hh:mm"):
            yield "read as hours and minutes; minutes and seconds come out alike"
        if fractions:
            yield "fractions of a second come out as 0"
        offsets = column.dropna().str[-6:].unique() if texts and self.zone == "UTC" else ()
        if any(map(_OFFSET.fullmatch, offsets)):
            yield "cells of other offsets come out at the same instant in UTC"
        if texts and "%p" in written and column.str.contains("[ap]m", na=False).any():
            yield "am and pm come out as AM and PM"
        elif texts and not fractions and not written.endswith("z"):
            yield from rewritten(
                (one, self.clock.values_of([count])[0])
                for one in column.dropna().unique()[:LOOKED_AT]
                if not math.isnan(count := self.clock.count_of(one))
            )
        if self.clock.kind == "instant":
            yield CLIPPED_DATES + SHIFT_ADVICE
