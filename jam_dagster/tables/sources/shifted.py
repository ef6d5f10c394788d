"""Public tables of another period, with all dates moved to that of the private table."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from jam_dagster.common.deferred import pd
from jam_dagster.errors import SpecificationError
from jam_dagster.tables.domain.columns import each_value, exact_column
from jam_dagster.tables.domain.derived import recomputed
from jam_dagster.tables.domain.units import Clock
from jam_dagster.tables.sources.identity import canonical
from jam_dagster.tables.sources.source import Source

if TYPE_CHECKING:
    from jam_dagster.tables.domain.domain import Domain

_SHIFT = re.compile(r"(-?\d{1,6}) ?(day|week)s?", re.ASCII)
_DAY_OF_MONTH = re.compile(r"%-?[dj]")
# Clocks of a zone may move in between, so that the time of day in UTC stays and this one does not.
_TIMES_OF_DAY = ("hour(", "minute(")
# A month without a day moves to the month that its middle moves to.
_MIDDLE_OF_MONTH = timedelta(days=14)


@dataclass(frozen=True)
class ShiftedSource(Source):
    """A public table with its dates and timestamps moved by a number of days or weeks.

    All columns of dates move alike, so that the time between two of them stays. Whole weeks keep
    the days of the week. A column that is a part of a date in every row, such as its year, is that
    part of the moved date; hours and minutes stay.

    Parameters
    ----------
    source
        The public table.
    by
        How far, such as ``52 weeks`` or ``-28 days``: a later date by a positive number.

    Raises
    ------
    SpecificationError
        `by` is not such a text, or the source is an asset.
    """

    source: Source
    by: str

    is_shifted: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not _SHIFT.fullmatch(self.by):
            raise SpecificationError(
                f"by must be a number of days or weeks, such as '52 weeks', got {self.by!r}"
            )
        if self.source.asset_key is not None:
            raise SpecificationError(
                f"asset {self.source.asset_key} cannot be shifted by a release: make an asset of"
                " its shifted dates, and name that"
            )

    @property
    def restricted_because(self) -> str | None:
        """The reason of the source."""
        return self.source.restricted_because

    def read(self, *, private: bool) -> pd.DataFrame:
        """Read the table and move its dates (see `Source.read`)."""
        from jam_dagster.tables.drafting.determined import parts_of_dates

        if private:
            raise SpecificationError(SHIFTED_PRIVATE)
        table = self.source.read(private=False)
        clocks = {str(name): found[0] for name in table if (found := _dates_in(table[name]))}
        formats = {name: str(one.format) for name, one in clocks.items() if one.is_text}
        moved = {name: _shifted(table[name], one, self._length) for name, one in clocks.items()}
        shifted: pd.DataFrame = table.assign(**moved)
        for name, expression in parts_of_dates(table, formats).items():
            if name not in clocks and not expression.startswith(_TIMES_OF_DAY):
                shifted[name] = recomputed(expression, table[name], shifted, formats)
        return shifted

    @property
    def _length(self) -> timedelta:
        number, unit = _SHIFT.fullmatch(self.by).groups()  # type: ignore[union-attr]
        return timedelta(**{f"{unit}s": int(number)})

    def describe(self) -> str:
        """Return the source and the shift."""
        return f"{self.source.describe()}, its dates shifted by {self.by}"

    def identity(self) -> str:
        """Return the identity of the source and the shift (see `Source.identity`)."""
        return canonical(shift=self.source.identity(), by=self.by)

    def to_dict(self) -> dict[str, Any]:
        """Return the configuration."""
        return {"shift": self.source.to_dict(), "by": self.by}


def shift_to(table: pd.DataFrame, first: date, last: date) -> str:
    """Return the whole weeks by which a public table's last date is nearly `last`; "" for none.

    `first` and `last` are the private table's period, as a person declares it. Columns whose dates
    fit into the period decide, and none of their dates moves beyond `last`: a case that begins on
    the last day of a year ends in the next one. If no column fits, all decide.
    """
    if last < first:
        raise SpecificationError(f"the period must end after it begins, got {first} to {last}")
    days = [_days(column) for _, column in table.items()]
    known = [one for one in days if one is not None]
    if not known:
        raise SpecificationError("the public table has no column of dates to move to the period")
    inside = [one for one in known if one[1] - one[0] <= last - first]
    weeks = (last - max(end for _, end in inside or known)).days // 7
    return f"{weeks} weeks" if weeks else ""


def within_period(domain: Domain, first: date, last: date) -> Domain:
    """Return a drafted domain whose dates in a period have the bounds of the period at least."""
    extended = tuple(one.within_period(first, last) for one in domain.attributes)
    return replace(domain, attributes=extended)


def _dates_in(column: pd.Series[Any]) -> tuple[Clock, npt.NDArray[np.float64]] | None:
    """Return how a public column writes dates, and their counts; None if it has none."""
    from jam_dagster.tables.drafting.time_draft import seconds_in

    found = None if column.isna().all() else seconds_in(str(column.name), column, nullable=True)
    return None if found is None or found[0].kind != "instant" else found


def _days(column: pd.Series[Any]) -> tuple[date, date] | None:
    """Return the first and the last day in a public column; None if it has no dates."""
    found = _dates_in(column)
    if found is None:
        return None
    clock, counts = found
    return clock.moment(float(np.nanmin(counts))).date(), clock.moment(
        float(np.nanmax(counts))
    ).date()


SHIFTED_PRIVATE = (
    "shift is for public tables: a private table stays as it is, and the public one moves to its"
    " period"
)


def _shifted(column: pd.Series[Any], clock: Clock, length: timedelta) -> pd.Series[Any]:
    if isinstance(column.dtype, np.dtype) and column.dtype.kind == "M":
        return column + length
    if isinstance(column.dtype, pd.DatetimeTZDtype):
        zone = column.dt.tz
        # The clocks of the zone show the same time of day.
        moved = column.dt.tz_localize(None) + length
        first = np.ones(len(column), bool)
        local: pd.Series[Any] = moved.dt.tz_localize(
            zone, ambiguous=first, nonexistent="shift_forward"
        )
        return local
    monthly = clock.is_text and not _DAY_OF_MONTH.search(str(clock.format))
    if monthly:
        length += _MIDDLE_OF_MONTH
    cells = each_value(column, partial(_moved, clock=clock, length=length), None)
    return exact_column(pd.Series(cells, index=column.index, name=column.name, dtype=object))


def _moved(value: Any, *, clock: Clock, length: timedelta) -> Any:
    """Return a date that much later, by the clocks of its zone; other values stay."""
    count = clock.count_of(value)
    if np.isnan(count):
        return value
    return clock.values_of([clock.count_at(clock.moment(count) + length)])[0]
